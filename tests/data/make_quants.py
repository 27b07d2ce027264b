#!/usr/bin/env python3
"""Packs reference arrays of quantised blocks into tests/data/quants/TYPE.bin.

usage: make_quants.py REFERENCE_DIR   (needs numpy; REFERENCE_DIR holds TYPE.npz)

Each TYPE.npz has `raw` uint8 [rows, bytes], `values` float32 [rows, cols] (what the blocks mean, exactly),
`x` float32 [cols] and `dot` float64 [rows] = values · x. The first two rows are kept. The .bin file is
little-endian: rows, cols, bytes of a row (uint32 each), then raw, values, x, dot.
"""

import pathlib
import sys

import numpy as np

ROWS = 2
TYPES = [
    "F32",
    "F16",
    "BF16",
    "Q4_0",
    "Q4_1",
    "Q5_0",
    "Q5_1",
    "Q8_0",
    "Q2_K",
    "Q3_K",
    "Q4_K",
    "Q5_K",
    "Q6_K",
    "IQ4_NL",
    "IQ4_XS",
    "MXFP4",
]


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    reference = pathlib.Path(sys.argv[1])
    out = pathlib.Path(__file__).parent / "quants"
    out.mkdir(exist_ok=True)
    for name in TYPES:
        arrays = np.load(reference / f"{name}.npz")
        raw, values, x, dot = (arrays[key] for key in ("raw", "values", "x", "dot"))
        raw, values, dot = raw[:ROWS], values[:ROWS], dot[:ROWS]
        header = np.array([ROWS, values.shape[1], raw.shape[1]], dtype="<u4")
        parts = header, raw.astype("u1"), values.astype("<f4"), x.astype("<f4"), dot.astype("<f8")
        (out / f"{name}.bin").write_bytes(b"".join(part.tobytes() for part in parts))


main()
