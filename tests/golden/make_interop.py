#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes interop.safetensors with the reference implementation: tensors of every type that simplx reads, and for those
of two bytes their values as F64. Needs numpy, ml_dtypes, safetensors; `--check FILE` reads a file of simplx instead."""
import os
import sys

import ml_dtypes
import numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file

HERE = os.path.dirname(os.path.abspath(__file__))
HALVES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}
EXTREMES = {"i64": np.int64, "i32": np.int32, "i16": np.int16, "i8": np.int8,
            "u64": np.uint64, "u32": np.uint32, "u16": np.uint16, "u8": np.uint8}


def tensors():
    made = {"f64": np.array([[0.1, -0.0, np.inf], [5e-324, 1e308, np.nan]]),
            "f32": np.array([[[0.1], [-1e-45]], [[3e38], [np.inf]]], dtype=np.float32),
            "bool": np.array([True, False, True]), "scalar": np.array(7, dtype=np.int64),
            "empty": np.zeros((0, 3), np.float32)}
    for name, kind in EXTREMES.items():
        limits = np.iinfo(kind)
        made[name] = np.array([limits.min, 0, 1, limits.max], dtype=kind)
    for name, kind in HALVES.items():
        bits = np.arange(0, 65536, 509, dtype=np.uint16)
        made[name] = bits.view(kind)
        made[name + ".values"] = made[name].astype(np.float64)
        wide = np.concatenate([np.geomspace(1e-9, 1e5, 61), 1 + np.arange(8) / 4096, [-65519.9, 65520.0]])
        # Numbers that are floats: the way by float32, which numpy takes, would round others twice.
        made[name + ".wide"] = wide.astype(np.float32).astype(np.float64)
        with np.errstate(over="ignore"):
            made[name + ".rounded"] = made[name + ".wide"].astype(np.float32).astype(kind)
    return made


def main():
    if sys.argv[1:2] == ["--check"]:
        expected = tensors()
        with safe_open(sys.argv[2], framework="numpy") as file:
            names = list(file.keys())
            wrong = [n for n in expected if n not in names or file.get_tensor(n).tobytes() != expected[n].tobytes()
                     or file.get_tensor(n).dtype != expected[n].dtype or file.get_tensor(n).shape != expected[n].shape]
            print(f"{len(names)} tensors, wrong: {wrong}, metadata: {file.metadata()}")
            sys.exit(1 if wrong or len(names) != len(expected) else 0)
    save_file(tensors(), os.path.join(HERE, "interop.safetensors"), {"made_by": "safetensors"})


if __name__ == "__main__":
    main()
