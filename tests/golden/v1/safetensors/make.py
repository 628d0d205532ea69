# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""Makes the golden files of this folder with the real safetensors library (0.8.0 when they were committed).

every_dtype.safetensors: tensor "<dtype>" of shape [2, 3] for every dtype that torch can save, with the bytes 0, 1, 2, …
(bool: 0 and 1 in turn), a scalar "scalar" = 1.5 and an empty tensor "empty" of shape [0, 4], float32.
"""

import pathlib

import safetensors
import torch
from safetensors.torch import save_file

DTYPES = [
    "uint64",
    "int64",
    "float64",
    "complex64",
    "float32",
    "uint32",
    "int32",
    "bfloat16",
    "float16",
    "uint16",
    "int16",
    "float8_e5m2fnuz",
    "float8_e4m3fnuz",
    "float8_e8m0fnu",
    "float8_e4m3fn",
    "float8_e5m2",
    "int8",
    "uint8",
    "bool",
]


def counting(name: str) -> torch.Tensor:
    dtype = getattr(torch, name)
    count = 6 * dtype.itemsize
    raw = torch.arange(count, dtype=torch.uint8)
    if dtype == torch.bool:
        raw %= 2
    return raw.view(dtype).reshape(2, 3)


tensors = {name: counting(name) for name in DTYPES}
tensors["scalar"] = torch.tensor(1.5)
tensors["empty"] = torch.zeros(0, 4)
folder = pathlib.Path(__file__).parent
save_file(tensors, folder / "every_dtype.safetensors", metadata={"format": "pt", "library": safetensors.__version__})
