#!/usr/bin/env python3
"""Writes the golden files beside it: what torch 2.15, ml_dtypes 0.6 and numpy say about every narrow float.

    python make.py          (torch, ml_dtypes, numpy; about a minute)

decode_<TYPE>.bin   binary32 value of every code, in order, NaN as 7fc00000
digests.txt         SHA-256 of the codes for a dense set of inputs (see dense_f32 and dense_f64 in golden_test.cc), and of
                    the values of all codes of the 16-bit types

ml_dtypes is the rule, torch must agree but for what is written here:
  F8_E4M3   torch saturates above 464; we give NaN, as ml_dtypes
  F8_E8M0   torch is the rule (0 gives the smallest), but negative numbers give NaN, as in ml_dtypes
  BF16      from binary64 ml_dtypes rounds twice (8 of our inputs show it): we round to odd first, see exact_bf16
  F6, F4    NaN gives zero in ml_dtypes; we saturate, so NaN is left out here
"""
import hashlib
import pathlib

import ml_dtypes
import numpy as np
import torch

HERE = pathlib.Path(__file__).parent
TYPES = {  # name: (ml_dtypes, torch, bits)
    "F8_E4M3": (ml_dtypes.float8_e4m3fn, torch.float8_e4m3fn, 8),
    "F8_E5M2": (ml_dtypes.float8_e5m2, torch.float8_e5m2, 8),
    "F8_E4M3FNUZ": (ml_dtypes.float8_e4m3fnuz, torch.float8_e4m3fnuz, 8),
    "F8_E5M2FNUZ": (ml_dtypes.float8_e5m2fnuz, torch.float8_e5m2fnuz, 8),
    "F8_E8M0": (ml_dtypes.float8_e8m0fnu, torch.float8_e8m0fnu, 8),
    "F6_E2M3": (ml_dtypes.float6_e2m3fn, None, 6),
    "F6_E3M2": (ml_dtypes.float6_e3m2fn, None, 6),
    "F4": (ml_dtypes.float4_e2m1fn, None, 4),
    "BF16": (ml_dtypes.bfloat16, torch.bfloat16, 16),
    "F16": (np.float16, torch.float16, 16),
}


def dense_f32():
    high = np.arange(65536, dtype=np.uint32)[:, None] << 16
    low = np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], dtype=np.uint32)[None, :]
    strided = (np.arange(524288, dtype=np.uint64) * 8191).astype(np.uint32)
    return np.concatenate([(high | low).ravel(), strided]).view(np.float32)


def dense_f64():
    strided = (np.arange(524288, dtype=np.uint64) * 8191).astype(np.uint32).view(np.float32)
    finite = strided[np.isfinite(strided) & (strided != 0)].astype(np.float64).view(np.uint64)
    return (finite[:, None] + np.array([2**64 - 1, 0, 1], dtype=np.uint64)[None, :]).ravel().view(np.float64)


def values(name, codes):
    with np.errstate(invalid="ignore"):
        out = codes.view(TYPES[name][0]).astype(np.float32).view(np.uint32)
    out[(out & 0x7FFFFFFF) > 0x7F800000] = 0x7FC00000
    return out


def is_nan(name, codes):
    return np.isnan(codes.view(TYPES[name][0]).astype(np.float32))


def exact_bf16(source):
    """binary64 to bfloat16 with one rounding: to odd in binary32, then to nearest even."""
    with np.errstate(over="ignore"):
        nearest = source.astype(np.float32)
    bits = nearest.view(np.uint32).copy()
    finite = np.isfinite(nearest)
    inexact = finite & (nearest.astype(np.float64) != source)
    away = inexact & (np.abs(nearest.astype(np.float64)) > np.abs(source))
    bits = np.where(inexact, np.where(away, bits - 1, bits) | 1, bits)
    bits = np.where(finite, bits, np.where(source < 0, 0xFF7FFFFF, 0x7F7FFFFF)).astype(np.uint32)
    return bits.view(np.float32).astype(ml_dtypes.bfloat16)


def encode(name, source):
    """Codes, every NaN as all ones."""
    numpy_type, torch_type, bits = TYPES[name]
    unsigned = np.uint16 if bits == 16 else np.uint8
    with np.errstate(over="ignore", invalid="ignore"):
        once = exact_bf16(source) if name == "BF16" and source.dtype == np.float64 else source.astype(numpy_type)
    want = once.view(unsigned).copy()
    if bits >= 8:
        want[is_nan(name, want)] = np.array(2**bits - 1, dtype=unsigned)
    if torch_type is not None and source.dtype == np.float32:
        got = torch.from_numpy(source).to(torch_type).view(torch.int16 if bits == 16 else torch.uint8).numpy().view(unsigned).copy()
        got[is_nan(name, got)] = np.array(2**bits - 1, dtype=unsigned)
        if name == "F8_E8M0":
            got[(source < 0)] = 255
            want = got
        differ = got != want
        if name == "F8_E4M3":
            differ &= ~(np.abs(source) > 464)
        assert not differ.any(), (name, source[differ][:5], got[differ][:5], want[differ][:5])
    elif name == "F8_E8M0":
        want[source <= 0] = 255
    return want


def main():
    f32, f64 = dense_f32(), dense_f64()
    lines = []
    for name, (_, _, bits) in TYPES.items():
        codes = np.arange(2**bits, dtype=np.uint16 if bits == 16 else np.uint8)
        if bits == 16:
            lines.append(f"decode {name} {hashlib.sha256(values(name, codes).tobytes()).hexdigest()}")
        else:
            (HERE / f"decode_{name}.bin").write_bytes(values(name, codes).tobytes())
        for source_name, source in (("F32", f32), ("F64", f64)):
            if bits < 8:
                source = source[~np.isnan(source)]
            digest = hashlib.sha256(encode(name, source).tobytes()).hexdigest()
            lines.append(f"encode {name} {source_name} {len(source)} {digest}")
    with np.errstate(over="ignore"):
        lines.append(f"encode F32 F64 {len(f64)} {hashlib.sha256(f64.astype(np.float32).tobytes()).hexdigest()}")
    (HERE / "digests.txt").write_text("\n".join(lines) + "\n")


main()
