"""Writes the checkpoints of this folder and expected.json: what torch and Python say is in them.

usage: python make.py     (needs torch and numpy; the files here are torch 2's)
expected.json: file -> {"tensors": {name: [dtype, shape, SHA-256 of the row-major bytes]}, "leaves": {name: text}}
"""
import collections
import hashlib
import json
import pathlib
import pickle

import numpy as np
import torch

HERE = pathlib.Path(__file__).parent
DTYPES = {torch.float32: "F32", torch.float16: "F16", torch.int64: "I64", torch.complex64: "C64",
          torch.complex128: "C128", torch.float64: "F64", torch.bool: "BOOL"}
torch.manual_seed(1)
base = torch.randn(3, 4)
waves = torch.randn(2, 3, dtype=torch.complex64)
views = {
    "conj": waves.conj(),
    "conj_t": waves.conj().t(),
    "imag_of_conj": torch.randn(2, 3, dtype=torch.complex64).conj().imag,
    "conj128": torch.randn(2, dtype=torch.complex128).conj(),
    "transposed": base.t(),
    "row": base[1],
    "column": base[:, 2],
    "empty": base[3:],
    "scalar": base[0, 0],
    "expanded": base[0, 0].expand(2, 2),
}
plain = collections.OrderedDict(
    a=base, b=base.t(), c=torch.nn.Parameter(torch.arange(3).half()), d=torch.tensor([True, False]))
leaves = {
    "none": None, "bytes": b"\x89PN'G\\", "bytearray": bytearray(b"hi"), "complex": 1 + 2j, "big": 2**70,
    "negative": -(2**70), "list": [1, None, "x"], "empty_list": [], "empty_dict": {}, "text": "a \u20ac \U0001f600",
    "np_int": np.int64(-5), "np_uint": np.uint64(2**64 - 1), "np_bool": np.bool_(True), "np_float": np.float64(0.1),
    "np_str": np.str_("h\u00e9 \U0001f600"), "np_bytes": np.bytes_(b"ab"), "np_complex": np.complex64(1 - 2j),
    "dtype": torch.float16, "size": torch.Size([2, 3]), "device": torch.device("cpu"),
}
shown = {
    "none": "None", "bytes": "b'\\x89PN\\'G\\\\'", "bytearray": "b'hi'", "complex": "(1+2j)", "big": str(2**70),
    "negative": str(-(2**70)), "list": '[1, null, "x"]', "empty_list": "[]", "empty_dict": "{}",
    "text": leaves["text"], "np_int": "-5", "np_uint": str(2**64 - 1), "np_bool": "true", "np_float": "0.1",
    "np_str": str(leaves["np_str"]), "np_bytes": "b'ab'", "np_complex": "(1-2j)", "dtype": "torch.float16",
    "size": "[2, 3]", "device": "cpu",
}

expected = {}


def record(name, tensors, texts=None):
    rows = {}
    for key, tensor in tensors.items():
        data = tensor.detach().resolve_conj().resolve_neg().contiguous().numpy().tobytes()
        rows[key] = [DTYPES[tensor.dtype], list(tensor.shape), hashlib.sha256(data).hexdigest()]
    expected[name] = {"tensors": rows, "leaves": texts or {}}


torch.save(views, HERE / "views.pth")
record("views.pth", torch.load(HERE / "views.pth", weights_only=True))
for protocol in (0, 1, 2, 4, 5):
    path = HERE / f"plain{protocol}.pkl"
    path.write_bytes(pickle.dumps(plain, protocol))
    record(path.name, pickle.loads(path.read_bytes()))
for protocol in (2, 4):
    name = f"leaves{protocol}.pth"
    torch.save({"w": base, **leaves}, HERE / name, pickle_protocol=protocol)
    record(name, {"w": torch.load(HERE / name, weights_only=False)["w"]}, shown)
(HERE / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
