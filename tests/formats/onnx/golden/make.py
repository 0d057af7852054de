#!/usr/bin/env python3
"""Writes the golden files beside it with the reference package, and what that package reads from them.

    python make.py          (onnx 1.23, numpy, ml_dtypes)

types.onnx     every element type in raw_data, in its typed field and in types.bin, with values at the type's limits
lists.onnx     typed fields as other writers may have them: item by item, in several parts, many numbers
places.onnx    weights of Constant nodes, sub-graphs, functions and attributes; sparse tensors; strings; metadata
expected.json  per file the tensors in order: name, dtype, shape, SHA-256 of the little-endian bytes, packed where the
               type is of less than a byte
"""
import hashlib
import json
import pathlib

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper, numpy_helper

HERE = pathlib.Path(__file__).parent
TYPES = {  # wconv's name: onnx's type, bits, values (codes for float types that numpy lacks)
    "F32": (T.FLOAT, 32, np.array([1.5, -0.0, np.inf, np.nan, 3.4e38], np.float32)),
    "F64": (T.DOUBLE, 64, np.array([1.5, -0.0, 1e-300, -np.inf], np.float64)),
    "F16": (T.FLOAT16, 16, np.array([1.5, -2, np.inf, 6e-8, np.nan], np.float16)),
    "BF16": (T.BFLOAT16, 16, np.array([0x3F80, 0xC000, 0x7FC0, 0x8000, 0xFFFF], np.uint16)),
    "C64": (T.COMPLEX64, 64, np.array([1 + 2j, -3.5j], np.complex64)),
    "C128": (T.COMPLEX128, 128, np.array([1 + 2j, -3.5j, 1e300], np.complex128)),
    "U8": (T.UINT8, 8, np.array([0, 127, 128, 255], np.uint8)),
    "I8": (T.INT8, 8, np.array([0, 127, -128, -1], np.int8)),
    "U16": (T.UINT16, 16, np.array([0, 65535, 32768], np.uint16)),
    "I16": (T.INT16, 16, np.array([32767, -32768, -1], np.int16)),
    "U32": (T.UINT32, 32, np.array([0, 2**32 - 1, 2**31], np.uint32)),
    "I32": (T.INT32, 32, np.array([2**31 - 1, -2**31, -1], np.int32)),
    "U64": (T.UINT64, 64, np.array([0, 2**64 - 1, 2**63], np.uint64)),
    "I64": (T.INT64, 64, np.array([2**63 - 1, -2**63, -1], np.int64)),
    "BOOL": (T.BOOL, 8, np.array([True, False, True], np.bool_)),
    "F8_E4M3": (T.FLOAT8E4M3FN, 8, np.array([0, 0x7F, 0xFF, 0x38], np.uint8)),
    "F8_E4M3FNUZ": (T.FLOAT8E4M3FNUZ, 8, np.array([0, 0x80, 0xFF, 0x38], np.uint8)),
    "F8_E5M2": (T.FLOAT8E5M2, 8, np.array([0, 0x7C, 0xFF, 0x3C], np.uint8)),
    "F8_E5M2FNUZ": (T.FLOAT8E5M2FNUZ, 8, np.array([0, 0x80, 0xFF], np.uint8)),
    "F8_E8M0": (T.FLOAT8E8M0, 8, np.array([0, 127, 255], np.uint8)),
    "F4": (T.FLOAT4E2M1, 4, np.arange(16, dtype=np.uint8)),
    "U4": (T.UINT4, 4, np.array([0, 15, 7, 8, 1], np.uint8)),
    "I4": (T.INT4, 4, np.array([0, 15, 7, 8, 1], np.uint8)),
    "U2": (T.UINT2, 2, np.array([0, 3, 1, 2, 3], np.uint8)),
    "I2": (T.INT2, 2, np.array([0, 3, 1, 2, 2], np.uint8)),
    "F6_E2M3": (T.FLOAT6E2M3, 6, np.array([0, 63, 31, 32], np.uint8)),
    "F6_E3M2": (T.FLOAT6E3M2, 6, np.array([0, 63, 31, 32], np.uint8)),
}
NAME_OF = {kind: name for name, (kind, _, _) in TYPES.items()}


def pack(codes, bits):
    """The first element in the lowest bits."""
    codes = np.frombuffer(np.ascontiguousarray(codes).tobytes(), np.uint8).reshape(-1, 1)
    return np.packbits(np.unpackbits(codes, axis=1, count=bits, bitorder="little").reshape(-1), bitorder="little").tobytes()


def stored(values, bits):
    return pack(values, bits) if bits < 8 else np.ascontiguousarray(values).tobytes()


def typed(name, kind, bits, values):
    t = T(name=name, data_type=kind, dims=values.shape)
    if kind in (T.FLOAT, T.COMPLEX64):
        t.float_data.extend(values.view(np.float32).tolist())
    elif kind in (T.DOUBLE, T.COMPLEX128):
        t.double_data.extend(values.view(np.float64).tolist())
    elif kind == T.INT64:
        t.int64_data.extend(values.tolist())
    elif kind in (T.UINT32, T.UINT64):
        t.uint64_data.extend(values.tolist())
    elif bits < 8:
        t.int32_data.extend(pack(values, bits))
    else:
        t.int32_data.extend((values.view(np.uint16) if kind == T.FLOAT16 else values).astype(np.int64).tolist())
    return t


def entry(name, dtype, shape, data):
    return [name, dtype, list(shape), hashlib.sha256(data).hexdigest()]


def of_onnx(tensor, name=None):
    """What the package reads."""
    dtype = NAME_OF[tensor.data_type]
    array = numpy_helper.to_array(tensor, str(HERE))
    bits = TYPES[dtype][1]
    data = pack(array, bits) if bits < 8 else numpy_helper.tobytes_little_endian(array)
    return entry(name or tensor.name, dtype, tensor.dims, data)


def model(graph, **more):
    made = helper.make_model(graph, producer_name="golden", opset_imports=[helper.make_opsetid("", 21)], ir_version=10, **more)
    return made


def graph(nodes, initializers, name="golden", **more):
    x = helper.make_tensor_value_info("x", T.FLOAT, ["batch", 3])
    y = helper.make_tensor_value_info("y", T.FLOAT, None)
    return helper.make_graph(nodes, name, [x], [y], initializers, **more)


IDENTITY = helper.make_node("Identity", ["x"], ["y"])


def types():
    tensors, data, want = [], b"", []
    for dtype, (kind, bits, values) in TYPES.items():
        raw = T(name=dtype + ".raw", data_type=kind, dims=values.shape, raw_data=stored(values, bits))
        external = T(name=dtype + ".external", data_type=kind, dims=values.shape, data_location=T.EXTERNAL)
        data += b"\xee" * (-len(data) % 16)
        for key, value in (("location", "types.bin"), ("offset", str(len(data))), ("length", str(len(raw.raw_data)))):
            external.external_data.add(key=key, value=value)
        data += raw.raw_data
        tensors += [raw, external]
        if bits != 6:
            tensors.append(typed(dtype + ".typed", kind, bits, values))
    (HERE / "types.bin").write_bytes(data)
    scalar = T(name="scalar", data_type=T.FLOAT, float_data=[2.5])
    empty = T(name="empty", data_type=T.INT64, dims=[0, 3])
    tensors += [scalar, empty]
    onnx.save(model(graph([IDENTITY], tensors)), HERE / "types.onnx")
    return [of_onnx(t) for t in tensors]


def varint(n):
    out = b""
    n &= 2**64 - 1
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def field(number, wire, payload):
    return varint(number << 3 | wire) + (varint(len(payload)) if wire == 2 else b"") + payload


def lists():
    """Data fields that the package reads but does not write."""
    def tensor(name, kind, dims, data):
        return field(2, 0, varint(kind)) + field(8, 2, name.encode()) + b"".join(field(1, 0, varint(d)) for d in dims) + data

    f32 = np.array([1.5, -2, 3], np.float32)
    floats = [v.tobytes() for v in f32]
    many = np.arange(17000, dtype=np.int64) % 300 - 20
    packed_dims = field(1, 2, varint(2) + varint(3)) + field(2, 0, varint(T.INT8)) + field(8, 2, b"packed_dims")
    raws = [
        tensor("one_by_one", T.FLOAT, [3], b"".join(field(4, 5, v) for v in floats)),
        tensor("parts", T.FLOAT, [3], field(4, 2, floats[0] + floats[1]) + field(4, 5, floats[2])),
        tensor("ints", T.INT8, [4], b"".join(field(5, 0, varint(v)) for v in (1, -1)) + field(5, 2, varint(-128) + varint(127))),
        tensor("longs", T.INT64, [2], field(7, 0, varint(-5)) + field(7, 0, varint(2**62))),
        tensor("many", T.INT64, [170, 100], field(7, 2, b"".join(varint(int(v)) for v in many))),
        packed_dims + field(9, 2, bytes(range(6))),
    ]
    body = field(1, 2, IDENTITY.SerializeToString()) + field(2, 2, b"g") + b"".join(field(5, 2, r) for r in raws)
    x = helper.make_tensor_value_info("x", T.FLOAT, [1])
    body += field(11, 2, x.SerializeToString()) + field(12, 2, x.SerializeToString())
    opset = helper.make_opsetid("", 21).SerializeToString()
    # A field that no version of ONNX has, before the graph.
    data = field(1, 0, varint(10)) + field(900, 2, b"unknown") + field(7, 2, body) + field(8, 2, opset)
    (HERE / "lists.onnx").write_bytes(data)
    return [of_onnx(t) for t in onnx.load_from_string(data).graph.initializer]


def f32(name, *values):
    return numpy_helper.from_array(np.array(values, np.float32), name)


def constant(output, **attribute):
    return helper.make_node("Constant", [], [output], name="node_of_" + output, **attribute)


def branch(name, value):
    """A graph with a constant and an initializer of the names that both branches have."""
    nodes = [constant(name + "_only", value_floats=[float(value)]), helper.make_node("Add", ["w", name + "_only"], [name + "_out"])]
    return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(name + "_out", T.FLOAT, None)],
                             [f32("w", value), f32("shared", value, value)])


def places():
    sparse = onnx.SparseTensorProto(values=f32("s", 1, 2), dims=[3, 4])
    sparse.indices.CopyFrom(numpy_helper.from_array(np.array([1, 11], np.int64), ""))
    sparse_value = onnx.SparseTensorProto(values=f32("", 7), dims=[2, 2])
    sparse_value.indices.CopyFrom(numpy_helper.from_array(np.array([[1, 0]], np.int64), ""))
    strings = helper.make_tensor("words", T.STRING, [2], [b"a\0b", b"\xff"])
    value = numpy_helper.from_array(np.array([[1, 2], [3, 4]], np.int64), "inner_name")
    nodes = [
        constant("c_tensor", value=value),
        constant("c_float", value_float=0.5),
        constant("c_floats", value_floats=[1.0, 2.0]),
        constant("c_int", value_int=-3),
        constant("c_ints", value_ints=[4, -5, 6]),
        constant("c_string", value_string="text"),
        constant("c_strings", value_strings=["a", "b"]),
        constant("c_sparse", sparse_value=sparse_value),
        helper.make_node("ConstantOfShape", ["c_ints"], ["filled"], name="fill", value=f32("", 9)),
        helper.make_node("If", ["x"], ["z"], name="choose", then_branch=branch("then", 1), else_branch=branch("else", 2)),
        helper.make_node("Special", ["x"], ["y"], domain="org.example"),
        helper.make_node("Half", ["x"], ["h"], domain="local"),
    ]
    odd = T(name="odd", data_type=T.FLOAT4E2M1, dims=[3], raw_data=b"\x21\x03")
    g = graph(nodes, [f32("w", 5, 6), strings, odd], sparse_initializer=[sparse], doc_string="a graph")
    given = constant("given")  # its value is an attribute of the function
    given.attribute.add(name="value_float", type=onnx.AttributeProto.FLOAT, ref_attr_name="scale")
    half = helper.make_function("local", "Half", ["a"], ["b"],
                                [constant("two", value=f32("", 2)), given, helper.make_node("Div", ["a", "two"], ["b"])],
                                [helper.make_opsetid("", 21)], ["scale"])
    made = model(g, functions=[half], doc_string="a model", producer_version="1.2", domain="org.example", model_version=7)
    helper.set_model_props(made, {"author": "someone", "onnx.domain": "clashes"})
    made.opset_import.append(helper.make_opsetid("org.example", 1))
    made.graph.input.append(helper.make_tensor_value_info("w", T.FLOAT, [2]))
    made.graph.output.append(helper.make_tensor_sequence_value_info("z", T.INT64, [None, 4]))
    made.graph.output.append(helper.make_tensor_value_info("words_out", T.STRING, []))
    onnx.save(made, HERE / "places.onnx")
    i64 = lambda name, shape, *v: entry(name, "I64", shape, np.array(v, np.int64).tobytes())
    flt = lambda name, shape, *v: entry(name, "F32", shape, np.array(v, np.float32).tobytes())
    return [
        i64("c_tensor", [2, 2], 1, 2, 3, 4), flt("c_float", [], 0.5), flt("c_floats", [2], 1, 2), i64("c_int", [], -3),
        i64("c_ints", [3], 4, -5, 6), flt("c_sparse.values", [1], 7), i64("c_sparse.indices", [1, 2], 1, 0),
        flt("fill/value", [1], 9),
        flt("else_only", [1], 2), flt("choose/else_branch/w", [1], 2), flt("shared", [2], 2, 2),
        flt("then_only", [1], 1), flt("choose/then_branch/w", [1], 1), flt("choose/then_branch/shared", [2], 1, 1),
        flt("w", [2], 5, 6), flt("s.values", [2], 1, 2), i64("s.indices", [2], 1, 11), flt("two", [1], 2),
    ]


def text(expected):
    files = (f'"{name}": [\n  ' + ",\n  ".join(map(json.dumps, tensors)) + "\n]" for name, tensors in expected.items())
    return "{" + ",\n".join(files) + "}\n"


expected = {"types.onnx": types(), "lists.onnx": lists(), "places.onnx": places()}
(HERE / "expected.json").write_text(text(expected))
