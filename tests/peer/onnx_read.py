"""Compares what wconv reads from ONNX models with what the onnx package reads.

usage: python onnx_read.py WCONV [FILE_OR_FOLDER...]
Without a path: onnx's backend tests, those stored in the package and the node tests that it generates. Needs onnx.
Each tensor of wconv must be one that onnx has in an initializer, a Constant or another attribute, anywhere in graphs,
sub-graphs and functions, with the same type, shape and bytes, and each of onnx's must be there. A model that only one
of the two reads counts as a difference. Exit status 0: no difference; the last line counts.
"""
import collections
import hashlib
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import numpy
import onnx
import onnx.backend.test
from onnx import TensorProto, numpy_helper
from onnx.backend.test.loader import load_model_tests

NAMES = {"FLOAT": "F32", "UINT8": "U8", "INT8": "I8", "UINT16": "U16", "INT16": "I16", "INT32": "I32", "INT64": "I64",
         "BOOL": "BOOL", "FLOAT16": "F16", "DOUBLE": "F64", "UINT32": "U32", "UINT64": "U64", "COMPLEX64": "C64",
         "COMPLEX128": "C128", "BFLOAT16": "BF16", "FLOAT8E4M3FN": "F8_E4M3", "FLOAT8E4M3FNUZ": "F8_E4M3FNUZ",
         "FLOAT8E5M2": "F8_E5M2", "FLOAT8E5M2FNUZ": "F8_E5M2FNUZ", "UINT4": "U4", "INT4": "I4", "FLOAT4E2M1": "F4",
         "FLOAT8E8M0": "F8_E8M0", "UINT2": "U2", "INT2": "I2", "FLOAT6E2M3": "F6_E2M3", "FLOAT6E3M2": "F6_E3M2"}
BITS = {"U4": 4, "I4": 4, "F4": 4, "U2": 2, "I2": 2, "F6_E2M3": 6, "F6_E3M2": 6}


def packed(array, bits):
    """Elements of `bits` bits, the first in the lowest bits of the first byte."""
    codes = numpy.frombuffer(numpy.ascontiguousarray(array).tobytes(), numpy.uint8) & (2 ** bits - 1)
    stream = numpy.unpackbits(codes.reshape(-1, 1), axis=1, count=bits, bitorder="little").reshape(-1)
    return numpy.packbits(stream, bitorder="little").tobytes()


def key(dtype, shape, data):
    return dtype, tuple(shape), hashlib.sha256(data).hexdigest()


def of_tensor(tensor, folder):
    """(name, key), or None for strings."""
    if tensor.data_type == TensorProto.STRING:
        return None
    dtype = NAMES[TensorProto.DataType.Name(tensor.data_type)]
    array = numpy_helper.to_array(tensor, str(folder))
    if dtype in BITS and dtype.startswith("F") and math.prod(tensor.dims) * BITS[dtype] % 8:
        return None  # fills no whole bytes: wconv refuses it by name
    data = packed(array, BITS[dtype]) if dtype in BITS else numpy_helper.tobytes_little_endian(array)
    return tensor.name, key(dtype, tensor.dims, data)


def of_sparse(sparse, folder):
    return [of_tensor(sparse.values, folder), of_tensor(sparse.indices, folder)]


def of_attribute(node, attribute, folder):
    if attribute.ref_attr_name:
        return []
    constant = node.op_type == "Constant" and node.domain in ("", "ai.onnx")
    out = [of_tensor(t, folder) for t in [attribute.t] * attribute.HasField("t") + list(attribute.tensors)]
    for sparse in [attribute.sparse_tensor] * attribute.HasField("sparse_tensor") + list(attribute.sparse_tensors):
        out += of_sparse(sparse, folder)
    if constant:
        lists = {"value_float": ("F32", [], numpy.float32, [attribute.f]), "value_int": ("I64", [], numpy.int64, [attribute.i]),
                 "value_floats": ("F32", [len(attribute.floats)], numpy.float32, attribute.floats),
                 "value_ints": ("I64", [len(attribute.ints)], numpy.int64, attribute.ints)}
        if attribute.name in lists:
            dtype, shape, kind, values = lists[attribute.name]
            out.append(("", key(dtype, shape, numpy.array(list(values), kind).tobytes())))
    for graph in [attribute.g] * attribute.HasField("g") + list(attribute.graphs):
        out += of_graph(graph, folder)
    return out


def of_nodes(nodes, folder):
    return [entry for node in nodes for attribute in node.attribute for entry in of_attribute(node, attribute, folder)]


def of_graph(graph, folder):
    out = of_nodes(graph.node, folder) + [of_tensor(t, folder) for t in graph.initializer]
    for sparse in graph.sparse_initializer:
        out += of_sparse(sparse, folder)
    return out


def of_model(path):
    """Counter of keys, and {name: key} of the main graph's initializers."""
    model = onnx.load(str(path), load_external_data=False)
    folder = path.parent
    entries = of_graph(model.graph, folder)
    for function in model.functions:
        entries += of_nodes(function.node, folder)
        for attribute in function.attribute_proto:
            entries += of_attribute(onnx.NodeProto(), attribute, folder)
    for training in model.training_info:
        entries += of_graph(training.initialization, folder) + of_graph(training.algorithm, folder)
    named = dict(filter(None, (of_tensor(t, folder) for t in model.graph.initializer)))
    return collections.Counter(entry[1] for entry in entries if entry), named


def of_wconv(wconv, path):
    run = subprocess.run([wconv, "--json", "inspect", "--hash", str(path)], capture_output=True)
    if run.returncode != 0:
        raise ValueError(f"exit {run.returncode}: {run.stderr.decode(errors='replace').strip()}")
    tensors = json.loads(run.stdout)["tensors"]
    entries = [(t["name"], (t["dtype"], tuple(t["shape"]), t["sha256"])) for t in tensors]
    return collections.Counter(k for _, k in entries), dict(entries)


def difference(wconv, path):
    try:
        want, named = of_model(path)
    except Exception as error:
        want, why = None, error
    try:
        have, have_named = of_wconv(wconv, path)
    except ValueError as error:
        return f"only onnx reads it: {error}" if want is not None else None
    if want is None:
        return f"only wconv reads it: {why}"
    if want != have:
        return f"onnx has {list((want - have).items())[:3]} more, wconv {list((have - want).items())[:3]}"
    wrong = [name for name in named if have_named.get(name) != named[name]]
    return f"initializers differ: {wrong[:3]}" if wrong else None


def generated(folder):
    """The node tests, which onnx makes when they are asked for."""
    for case in load_model_tests(kind="node"):
        path = folder / f"{case.name}.onnx"
        path.write_bytes(case.model.SerializeToString())
        yield path


def main():
    wconv, paths = sys.argv[1], [pathlib.Path(p) for p in sys.argv[2:]]
    with tempfile.TemporaryDirectory() as scratch:
        if paths:
            files = sorted(f for p in paths for f in (p.rglob("*.onnx") if p.is_dir() else [p]))
        else:
            files = sorted(pathlib.Path(onnx.backend.test.__file__).parent.rglob("*.onnx"))
            files += list(generated(pathlib.Path(scratch)))
        if not files:
            sys.exit("no .onnx file there")
        bad = 0
        for file in files:
            what = difference(wconv, file)
            if what:
                bad += 1
                print(f"{file}: {what}")
        print(f"{len(files) - bad} of {len(files)} models read as onnx reads them")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
