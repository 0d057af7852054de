#!/usr/bin/env python3
"""Makes the files beside it: small ones of what the cases and golden files lack. Needs the package onnx and the program zstd.

python3 make.py WCONV
"""
import pathlib
import subprocess
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = pathlib.Path(__file__).parent
SMALL = HERE / "../../formats/safetensors/golden/shapes.safetensors"


def save(name, initializers, nodes=(), **more):
    graph = helper.make_graph(list(nodes), "g", [], [], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10, **more)
    (HERE / name).write_bytes(model.SerializeToString())


def external(name, offset, length):
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[length // 4], data_location=TensorProto.EXTERNAL)
    for key, value in [("location", "weights.bin"), ("offset", str(offset)), ("length", str(length))]:
        tensor.external_data.add(key=key, value=value)
    return tensor


def floats(name, *values):
    return helper.make_tensor(name, TensorProto.FLOAT, [len(values)], values)


save("external.onnx", [external("a", 0, 16), external("b", 4096 - 8, 8)])
save("raw.onnx", [numpy_helper.from_array(np.arange(4, dtype=np.float16), "h")])
save("typed.onnx", [floats("f", 1, 2), helper.make_tensor("b", TensorProto.BOOL, [3], [1, 0, 1]),
                    helper.make_tensor("d", TensorProto.DOUBLE, [1], [0.5])])
save("constant.onnx", [], [helper.make_node("Constant", [], ["c"], value=floats("", 1, 2)),
                           helper.make_node("Constant", [], ["l"], value_ints=[1, 2, 3])])
sparse = onnx.SparseTensorProto(values=floats("s", 3), dims=[2, 2])
sparse.indices.CopyFrom(numpy_helper.from_array(np.array([2], np.int64), ""))
graph = helper.make_graph([], "g", [], [], [floats("w", 1)], sparse_initializer=[sparse])
(HERE / "sparse.onnx").write_bytes(helper.make_model(graph, ir_version=10).SerializeToString())

subprocess.run(["zstd", "-q", "-f", SMALL, "-o", HERE / "one_frame.safetensors.zst"], check=True)
subprocess.run([sys.argv[1], "convert", "--force", "--no-manifest", "--compress", "zstd", SMALL, "-o",
                HERE / "seekable.safetensors.zst"], check=True)
