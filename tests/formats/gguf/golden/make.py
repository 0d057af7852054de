#!/usr/bin/env python3
"""Writes the golden files beside it with the reference package.

    python make.py          (gguf 0.19, numpy)

metadata.gguf             a key of every type, arrays of every type, arrays in arrays; alignment 64
types.gguf                one block [1, n] of every ggml type; byte i of the type at place t is (7 i + t) mod 256
big_endian.gguf           plain tensors and metadata in big-endian order
split-0000?-of-00003.gguf five tensors cut into three parts

Tensors of numbers hold 3 i - 5 at index i.
"""
import pathlib

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFEndian, GGUFReader, GGUFValueType, GGUFWriter

HERE = pathlib.Path(__file__).parent
V = GGUFValueType
LIMITS = {
    "u8": (V.UINT8, [0, 255]), "i8": (V.INT8, [-128, 127]),
    "u16": (V.UINT16, [0, 65535]), "i16": (V.INT16, [-32768, 32767]),
    "u32": (V.UINT32, [0, 2**32 - 1]), "i32": (V.INT32, [-2**31, 2**31 - 1]),
    "u64": (V.UINT64, [0, 2**64 - 1]), "i64": (V.INT64, [-2**63, 2**63 - 1]),
    "f32": (V.FLOAT32, [-0.1, float("inf")]), "f64": (V.FLOAT64, [1e-300, float("-inf")]),
    "bool": (V.BOOL, [False, True]), "string": (V.STRING, ["", "Grüße\n"]),
}


def numbers(shape, dtype):
    return (np.arange(int(np.prod(shape))) * 3 - 5).astype(dtype).reshape(shape)


def save(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def add_metadata(writer):
    for name, (kind, values) in LIMITS.items():
        writer.add_key_value(f"one.{name}", values[1], kind)
        writer.add_key_value(f"many.{name}", values, V.ARRAY, sub_type=kind)
    writer.add_key_value("nested", [[1, 2], [-3]], V.ARRAY)
    writer.add_key_value("deeper", [[["a"], ["b", "c"]], [["d"]]], V.ARRAY)
    writer.add_key_value("bytes", b"\x00\xff\xfe", V.STRING)


def add_plain(writer):
    for name, dtype, shape in [("f32", np.float32, (2, 3)), ("f16", np.float16, (3,)), ("f64", np.float64, (1, 2, 2)),
                               ("i8", np.int8, (4,)), ("i16", np.int16, (2, 1, 3)), ("i32", np.int32, (2, 1, 1, 2)),
                               ("i64", np.int64, (5,))]:
        writer.add_tensor(name, numbers(shape, dtype))


def metadata():
    writer = GGUFWriter(HERE / "metadata.gguf", "test")
    writer.add_custom_alignment(64)
    add_metadata(writer)
    add_plain(writer)
    save(writer)


def types():
    writer = GGUFWriter(HERE / "types.gguf", "test")
    for t, kind in enumerate(GGMLQuantizationType):
        if kind == GGMLQuantizationType.Q8_1:
            continue  # gguf takes its block for 40 bytes, ggml for 36
        block_bytes = GGML_QUANT_SIZES[kind][1]
        writer.add_tensor(kind.name, (np.arange(block_bytes) * 7 + t).astype(np.uint8).reshape(1, -1), raw_dtype=kind)
    save(writer)


def big_endian():
    writer = GGUFWriter(HERE / "big_endian.gguf", "test", endianess=GGUFEndian.BIG)
    add_metadata(writer)
    add_plain(writer)
    save(writer)


def split():
    writer = GGUFWriter(HERE / "split.gguf", "test", split_max_tensors=2)
    writer.add_name("three parts")
    for name in "abcde":
        writer.add_tensor(name, numbers((2, 2), np.float32) + ord(name))
    save(writer)


metadata()
types()
big_endian()
split()
for path in sorted(HERE.glob("*.gguf")):
    print(path.name, path.stat().st_size, [(t.name, t.tensor_type.name, t.shape.tolist()) for t in GGUFReader(path).tensors][:3])
