"""Rewrites ONNX models with wconv and asks onnx and ONNX Runtime about the products.

usage: python onnx_write.py WCONV FILE_OR_FOLDER...       Needs onnx, onnxruntime, safetensors, numpy.
For each model: (1) convert alone gives the same bytes; (2) --dtype f16: onnx.checker passes where it passes for the
source, and ONNX Runtime's outputs are those of the source with its weights rounded to F16 by numpy; (3) --weights with
the model's own tensors, halved: outputs are those of the source so changed; (4) the product of (2) has tensors of the
same names, which is seen in safetensors and left out where wconv says (65) that safetensors cannot hold the source.
Models that ONNX Runtime does not run, or that have inputs which this script cannot make up, go through the checks of
onnx only. Exit status 0: all hold; the last line counts.
"""
import pathlib
import subprocess
import sys
import tempfile

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, numpy_helper
from safetensors import safe_open
from safetensors.numpy import save_file

onnxruntime.set_default_logger_severity(4)
KINDS = {"tensor(float)": numpy.float32, "tensor(double)": numpy.float64, "tensor(int64)": numpy.int64,
         "tensor(int32)": numpy.int32, "tensor(float16)": numpy.float16, "tensor(bool)": numpy.bool_,
         "tensor(uint8)": numpy.uint8, "tensor(int8)": numpy.int8}

RANDOM = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}


class Refused(Exception):
    """Exit status, message."""


def wconv(*arguments):
    run = subprocess.run([str(a) for a in arguments], capture_output=True)
    if run.returncode:
        raise Refused(run.returncode, run.stderr.decode(errors='replace').strip()[:300])


def session(model, folder):
    """Without optimizations: constant folding may take another kernel, with other roundings."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    path = folder / "session.onnx"
    if isinstance(model, pathlib.Path):
        return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    onnx.save(model, path)
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def make_feeds(run):
    random = numpy.random.default_rng(1)
    feeds = {}
    for value in run.get_inputs():
        if value.type not in KINDS:
            return None
        shape = [d if isinstance(d, int) else 1 for d in value.shape]
        kind = KINDS[value.type]
        fill = random.standard_normal(shape) if numpy.issubdtype(kind, numpy.floating) else random.integers(0, 2, shape)
        feeds[value.name] = numpy.array(fill * 0.1 if kind != numpy.int64 else fill, kind).reshape(shape)
        if value.name == "sr":  # silero-vad's rate; its window is 512 samples
            feeds[value.name] = numpy.array(16000, kind)
        if value.name == "input" and len(shape) == 2 and "sr" in [v.name for v in run.get_inputs()]:
            feeds[value.name] = random.standard_normal((1, 576)).astype(kind) * 0.1
    return feeds


def outputs(model, folder, feeds):
    run = session(model, folder)
    names = {v.name for v in run.get_inputs()}
    return run.run(None, {k: v for k, v in feeds.items() if k in names})


def same(a, b):
    return len(a) == len(b) and all(
        numpy.array_equal(x, y) or numpy.allclose(x, y, rtol=1e-5, atol=1e-6, equal_nan=True) if isinstance(x, numpy.ndarray)
        else str(x) == str(y) for x, y in zip(a, b))


def exact_names(graph):
    return {name for node in graph.node if node.op_type in ("Resize", "Upsample") for name in node.input[1:]}


def each_weight(graph, change):
    """change(array, name) for what wconv calls a weight: initializers and Constants of more than one element."""
    exact = exact_names(graph)
    for tensor in graph.initializer:
        change(tensor, tensor.name, tensor.name in exact)
    for node in graph.node:
        for attribute in node.attribute:
            if node.op_type == "Constant" and attribute.name == "value":
                change(attribute.t, node.output[0], node.output[0] in exact)
            for inner in [attribute.g] * attribute.HasField("g") + list(attribute.graphs):
                each_weight(inner, change)


def with_rounded(model):
    def change(tensor, _, exact):
        if tensor.data_type not in (TensorProto.FLOAT, TensorProto.DOUBLE) or exact or numpy.prod(tensor.dims) <= 1:
            return
        array = numpy_helper.to_array(tensor)
        with numpy.errstate(over="ignore"):
            rounded = numpy.clip(array, -65504, 65504) if numpy.isfinite(array).all() else array
        name = tensor.name
        tensor.CopyFrom(numpy_helper.from_array(rounded.astype(numpy.float16).astype(array.dtype), name))
    each_weight(model.graph, change)
    return model


def with_halved(model):
    names = {}

    def change(tensor, name, _):
        if tensor.data_type == TensorProto.FLOAT and len(tensor.dims) > 1 and name not in names:
            array = numpy_helper.to_array(tensor) * numpy.float32(0.5)
            names[name] = array
            own = tensor.name
            tensor.CopyFrom(numpy_helper.from_array(array, own))
    for tensor in model.graph.initializer:
        change(tensor, tensor.name, False)
    return model, names


def check(path, folder):
    source = onnx.load(str(path))
    try:
        onnx.checker.check_model(str(path), full_check=True)
        sound = True
    except Exception:
        sound = False
    copy = folder / path.name
    wconv(WCONV, "convert", path, "-o", copy, "--force")
    external = (folder / (path.name + ".data")).exists()
    if not external and copy.read_bytes() != path.read_bytes():
        raise AssertionError("convert alone changes bytes")
    half, weights, back = folder / "half.onnx", folder / "w.safetensors", folder / "back.onnx"
    wconv(WCONV, "convert", path, "--dtype", "f16", "--on-overflow", "saturate", "-o", half, "--force")
    if sound:
        onnx.checker.check_model(str(half), full_check=True)
    feeds = None
    try:
        feeds = make_feeds(session(source, folder))
        outputs(source, folder, feeds)
        if any(node.op_type in RANDOM for node in source.graph.node):
            feeds = None
    except Exception:
        feeds = None
    if feeds is not None:
        want = outputs(with_rounded(onnx.load(str(path))), folder, feeds)
        if not same(outputs(half, folder, feeds), want):
            raise AssertionError("--dtype f16: other outputs than with weights rounded to F16")
    halved, names = with_halved(onnx.load(str(path)))
    if names:
        save_file({k: numpy.ascontiguousarray(v) for k, v in names.items()}, weights)
        wconv(WCONV, "convert", path, "--weights", weights, "-o", back, "--force")
        if sound:
            onnx.checker.check_model(str(back), full_check=True)
        if feeds is not None and not same(outputs(back, folder, feeds), outputs(halved, folder, feeds)):
            raise AssertionError("--weights: other outputs than with these weights")
    first, second = folder / "first.safetensors", folder / "second.safetensors"
    for model, out in ((path, first), (half, second)):
        try:
            wconv(WCONV, "convert", model, "-o", out, "--force")
        except Refused as refused:
            if refused.args[0] != 65 or model == half:
                raise
            return feeds is not None  # the source holds what safetensors does not
    with safe_open(first, "numpy") as a, safe_open(second, "numpy") as b:
        if set(a.keys()) != set(b.keys()):
            raise AssertionError(f"--dtype f16: other names: {sorted(set(a.keys()) ^ set(b.keys()))[:4]}")
    return feeds is not None


def main():
    bad = ran = 0
    paths = [pathlib.Path(p) for p in sys.argv[2:]]
    files = sorted(f for p in paths for f in (p.rglob("*.onnx") if p.is_dir() else [p]))
    if not files:
        sys.exit("no .onnx file there")
    for path in files:
        with tempfile.TemporaryDirectory() as folder:
            try:
                ran += check(path, pathlib.Path(folder))
            except Exception as error:
                bad += 1
                print(f"{path}: {type(error).__name__}: {str(error)[:300]}", flush=True)
    print(f"{len(files) - bad} of {len(files)} models hold; ONNX Runtime ran {ran} of them")
    sys.exit(bad > 0)


if __name__ == "__main__":
    WCONV = sys.argv[1]
    main()
