#!/usr/bin/env python3
"""Writes stats.safetensors (small tensors) and stats.json: what numpy says about them and about larger ones.

Made with: python make.py   (numpy 2, ml_dtypes 0.6, safetensors 0.8 from PyPI). The larger ones are not stored: see `larger`.
"""
import json

import ml_dtypes
import numpy
from safetensors.numpy import save_file

PERCENTILES = [1, 5, 25, 50, 75, 95, 99]


def stats(values):
    values = numpy.asarray(values)
    if numpy.iscomplexobj(values):
        values = numpy.ascontiguousarray(values).view(values.real.dtype)
    values = values.astype(numpy.float64).ravel()
    finite = values[numpy.isfinite(values)]
    out = {"count": values.size, "zeros": int((values == 0).sum()), "nans": int(numpy.isnan(values).sum()),
           "infinities": int(numpy.isinf(values).sum())}
    if finite.size:
        out |= {"min": finite.min(), "max": finite.max(), "mean": finite.mean(), "sd": finite.std(),
                "percentiles": numpy.percentile(finite, PERCENTILES).tolist()}
    return out


def larger(dtype, count):
    """Element i is the upper 24 bits of a 64-bit congruential generator, as a number from -4 to 4, cubed in F64."""
    state, out = 1, numpy.empty(count)
    for i in range(count):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        out[i] = ((state >> 40) / 2**21 - 4) ** 3
    return out.astype(dtype)


def main():
    random = numpy.random.default_rng(1)
    normal = random.normal(0.1, 2.0, 101)
    small = {
        "f32": normal.astype(numpy.float32), "f64": normal, "f16": normal.astype(numpy.float16),
        "bf16": normal.astype(ml_dtypes.bfloat16), "f8": normal.astype(ml_dtypes.float8_e4m3fn),
        "i8": random.integers(-128, 128, 50).astype(numpy.int8), "u64": numpy.array([0, 1, 2**53, 2**64 - 2048], numpy.uint64),
        "i64": numpy.array([-2**63, 0, 2**62], numpy.int64), "bool": numpy.array([True, False, True]),
        "c64": (normal[:20] + 1j * normal[20:40]).astype(numpy.complex64), "one": numpy.array(3.5, numpy.float32),
        "two": numpy.array([1.0, 2.0], numpy.float32), "empty": numpy.zeros((0, 3), numpy.float32),
        "special": numpy.array([numpy.nan, numpy.inf, -numpy.inf, -0.0, 0.0, 1e-45, -3.0], numpy.float32),
        "none_finite": numpy.array([numpy.nan, numpy.inf], numpy.float32),
    }
    save_file(small, "stats.safetensors")
    expected = {name: stats(values) for name, values in small.items()}
    for name, dtype in [("F32", numpy.float32), ("F64", numpy.float64), ("F16", numpy.float16), ("BF16", ml_dtypes.bfloat16)]:
        expected["larger " + name] = stats(larger(dtype, 300_001))
    with open("stats.json", "w") as file:
        json.dump(expected, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
