#!/usr/bin/env python3
"""Writes *.safetensors with the reference package; the tests write the same models and compare the bytes.

Made with: python make.py   (safetensors 0.8.0, from PyPI)
"""
import ctypes

import safetensors

# (name of the dtype for `serialize`, bytes of two rows of four elements), in no order that a writer could keep.
DTYPES = [("bool", 8), ("uint8", 8), ("int8", 8), ("int16", 16), ("uint16", 16), ("float16", 16), ("bfloat16", 16),
          ("int32", 32), ("uint32", 32), ("float32", 32), ("complex64", 64), ("float64", 64), ("int64", 64),
          ("uint64", 64), ("float8_e4m3fn", 8), ("float8_e5m2", 8), ("float8_e8m0fnu", 8), ("float8_e4m3fnuz", 8),
          ("float8_e5m2fnuz", 8), ("float4_e2m1fn_x2", 4)]

KEEP = []


def tensor(dtype, shape, data):
    buffer = (ctypes.c_uint8 * len(data))(*data)
    spec = safetensors.TensorSpec(dtype=dtype, shape=shape, data_ptr=ctypes.addressof(buffer), data_len=len(data))
    KEEP.append(buffer)  # the specification holds only its address
    return spec


def write(name, tensors, metadata=None):
    with open(name + ".safetensors", "wb") as file:
        file.write(safetensors.serialize(tensors, metadata))


def main():
    every = {}
    for number, (dtype, size) in enumerate(DTYPES):
        rows = [2, 4] if "x2" not in dtype else [2, 2]  # two F4 in a byte: the package counts bytes here
        every[f"t{(number * 7) % len(DTYPES):02}.{dtype}"] = tensor(dtype, rows, [number + i for i in range(size)])
    write("every_dtype", every)
    write("names", {name: tensor("uint8", [1], [i]) for i, name in enumerate(
        ["b", "a", "B", "a.b", "", 'quo"te\\', "line\n\ttab\x01\x1f\x7f", "wei\u00df", "\u65e5\u672c", "\U0001f600", "/", "\b\f\r"])})
    write("shapes", {"scalar": tensor("float32", [], [0, 0, 128, 63]), "empty": tensor("float32", [0], []),
                     "none": tensor("int64", [2, 0, 3], []), "ones": tensor("uint8", [1, 1, 1, 1], [7]),
                     "mask": tensor("bool", [3], [1, 0, 1])}, {"format": "pt"})
    write("no_tensors", {})
    write("only_metadata", {}, {"k\u00e9y": 'v"al\nue'})
    # Not with no tensors: the package then writes {},"__metadata__":{}}, which nothing reads.
    write("empty_metadata", {"w": tensor("uint8", [1], [7])}, {})


if __name__ == "__main__":
    main()
