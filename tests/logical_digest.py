# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""The logical digest of docs/formats/digest.md in numpy, written from that page alone."""

from __future__ import annotations

import numpy as np
import torch

from compare import raw_bytes

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
FACTORS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
SEEDS = (
    (0x6A09E667F3BCC908, 0xBB67AE8584CAA73B, 0x3C6EF372FE94F82B),
    (0xA54FF53A5F1D36F1, 0x510E527FADE682D1, 0x9B05688C2B3E6C1F),
)
NUMBERS = {
    torch.bool: 0,
    torch.uint8: 1,
    torch.int8: 2,
    torch.uint16: 3,
    torch.int16: 4,
    torch.uint32: 5,
    torch.int32: 6,
    torch.uint64: 7,
    torch.int64: 8,
    torch.float16: 9,
    torch.bfloat16: 10,
    torch.float32: 11,
    torch.float64: 12,
    torch.complex32: 13,
    torch.complex64: 14,
    torch.complex128: 15,
    torch.float8_e4m3fn: 16,
    torch.float8_e5m2: 17,
    torch.float8_e4m3fnuz: 18,
    torch.float8_e5m2fnuz: 19,
    torch.float8_e8m0fnu: 20,
}


def _mix(z: np.ndarray) -> np.ndarray:
    z = (z ^ (z >> np.uint64(30))) * FACTORS[0]
    z = (z ^ (z >> np.uint64(27))) * FACTORS[1]
    return z ^ (z >> np.uint64(31))


def _odd(seed: int, index: np.ndarray) -> np.ndarray:
    return _mix(np.uint64(seed) + (index + np.uint64(1)) * GOLDEN) | np.uint64(1)


def _lanes(tensor: torch.Tensor) -> np.ndarray:
    size = tensor.element_size()
    lane = "<u4"
    if size == 1:
        lane = "u1"
    elif size == 2 or tensor.dtype == torch.complex32:
        lane = "<u2"
    return np.frombuffer(raw_bytes(tensor), lane).astype(np.uint64)


def digest(tensor: torch.Tensor) -> str:
    lanes = _lanes(tensor)
    index = np.arange(len(lanes), dtype=np.uint64)
    text = ""
    with np.errstate(over="ignore"):
        for block_seed, lane_seed, header_seed in SEEDS:
            weights = _odd(block_seed, index // np.uint64(512)) * _odd(lane_seed, index % np.uint64(512))
            total = np.sum((lanes + np.uint64(1)) * weights, dtype=np.uint64)
            header = np.array([header_seed], np.uint64)
            for value in (NUMBERS[tensor.dtype], tensor.dim(), *tensor.shape):
                header = _mix((header ^ np.uint64(value)) + GOLDEN)
            text += f"{int(total + header[0]):016x}"
    return text
