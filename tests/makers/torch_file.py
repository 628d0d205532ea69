# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""State as torch.save writes it: views, shared storages, odd strides, every dtype, nested containers, objects."""

from __future__ import annotations

import argparse
import random
import struct
from collections import Counter, OrderedDict, defaultdict, deque
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

WIDTH_1 = (
    torch.uint8,
    torch.int8,
    torch.bool,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.float8_e4m3fnuz,
    torch.float8_e5m2fnuz,
    torch.float8_e8m0fnu,
)
WIDTH_2 = (torch.uint16, torch.int16, torch.float16, torch.bfloat16)
WIDTH_4 = (torch.uint32, torch.int32, torch.float32, torch.complex32)
WIDTH_8 = (torch.uint64, torch.int64, torch.float64, torch.complex64)
DTYPES = (*WIDTH_1, *WIDTH_2, *WIDTH_4, *WIDTH_8, torch.complex128)
SAFETENSORS_CANNOT_HOLD = (torch.complex32, torch.complex128)


def random_bits(shape: tuple[int, ...], dtype: torch.dtype, seed: int) -> torch.Tensor:
    """Random bit patterns (so with NaN payloads, infinities and both zeros); bool gets 0 and 1."""
    generator = torch.Generator().manual_seed(seed)
    count = int(np.prod(shape, dtype=np.int64)) if shape else 1
    size = torch.empty((), dtype=dtype).element_size()
    high = 2 if dtype == torch.bool else 256
    raw = torch.randint(0, high, (count * size,), generator=generator, dtype=torch.uint8)
    if count == 0:
        return torch.empty(shape, dtype=dtype)
    return raw.view(dtype).reshape(shape)


def every_dtype(without: tuple[torch.dtype, ...] = ()) -> dict[str, torch.Tensor]:
    return {
        str(dtype).removeprefix("torch."): random_bits((5, 6), dtype, seed)
        for seed, dtype in enumerate(DTYPES)
        if dtype not in without
    }


def views() -> dict[str, torch.Tensor]:
    """Tensors that share storages in every way, and tensors of unusual shape."""
    base = torch.arange(48, dtype=torch.float32).reshape(6, 8)
    other = torch.arange(1000, dtype=torch.int64)
    return {
        "base": base,
        "transposed": base.t(),
        "box": base[1:3, 2:4],
        "column": base[:, 3],
        "stepped": base[::2, ::3],
        "tail": base.reshape(-1)[40:],
        "expanded": torch.arange(5, dtype=torch.float64).expand(3, 5),
        "one_row_of_large": other[17:18],
        "permuted": torch.arange(24, dtype=torch.int32).reshape(2, 3, 4).permute(2, 0, 1),
        "overlapping": torch.arange(10, dtype=torch.int16).as_strided((4, 4), (2, 1)),
        "empty": torch.empty(0),
        "empty_2d": torch.empty((4, 0, 3), dtype=torch.bfloat16),
        "scalar": torch.tensor(2.5, dtype=torch.float64),
        "scalar_of_base": base[2, 5],
        "one": torch.ones(1),
    }


def optimizer_state() -> dict[str, Any]:
    """A torch optimizer's own state dict: integer keys, steps as tensors, groups with scalars, tuples and None."""
    torch.manual_seed(3)
    layer = nn.Linear(7, 5)
    optimizer = torch.optim.AdamW(layer.parameters(), lr=1e-3)
    layer(torch.randn(4, 7)).sum().backward()
    optimizer.step()
    return optimizer.state_dict()


def random_state() -> dict[str, Any]:
    random.seed(1)
    np.random.seed(2)
    torch.manual_seed(4)
    return {"python": random.getstate(), "numpy": np.random.get_state(), "torch": torch.get_rng_state()}


def nested_state() -> dict[str, Any]:
    """What a training script may save: every kind of container and leaf together."""
    shared = torch.arange(12, dtype=torch.float32).reshape(3, 4)
    parameter = nn.Parameter(random_bits((4, 3), torch.int32, 5).to(torch.float32))
    tied = nn.Linear(6, 4)
    return {
        "model": OrderedDict([("tied.weight", tied.weight), ("head.weight", tied.weight), ("bias", tied.bias)]),
        "views": views(),
        "dtypes": every_dtype(),
        "parameter": parameter,
        "frozen": nn.Parameter(torch.ones(3), requires_grad=False),
        "list": [shared, (shared[1], 3, None), {"deep": [shared.t(), "text"]}],
        "no_tensors": [1, 2.5, "three", None, True, b"\x00\xff", (4, [5]), {"six": 7}],
        "optimizer": optimizer_state(),
        "args": argparse.Namespace(lr=0.1, layers=[1, 2], name="x", flag=False, nothing=None),
        "random": random_state(),
        "step": 123456789012345678,
        "big": 1 << 100,
        "negative": -5,
        "nan": float("nan"),
        "infinite": float("inf"),
        "text": "ünïcode \U0001f600 \n \x00",
        "empty": {"dict": {}, "list": [], "tuple": (), "text": ""},
        "dtype": torch.bfloat16,
        "size": torch.Size([3, 4]),
        "device": torch.device("cpu"),
        "array": np.arange(6, dtype=np.float32).reshape(2, 3),
        "integer_keys": {0: torch.zeros(2), 7: {3: torch.ones(3)}},
    }


def nan(bits: int) -> float:
    value: float = struct.unpack("<d", struct.pack("<Q", bits))[0]
    return value


def odd_trees() -> dict[str, Any]:
    """Small trees, each with one kind of thing that a format could lose."""

    def some(count: int) -> torch.Tensor:
        return torch.arange(count, dtype=torch.float32)

    shared_list, shared_dict = [1, 2], {"x": some(2), "n": 5, "pair": (some(3), 1)}
    return {
        "empty_dict": {},
        "empty_list": [],
        "empty_tuple": (),
        "none": None,
        "number": 5,
        "tensor": some(3),
        "text": "x",
        "no_tensor": {"a": 1, "b": 2.5, "c": "x", "d": None, "e": True, "f": b"\x00\xff", "g": -0.0},
        "flat": {"b": some(2), "a": some(1)},
        "flat_ordered": OrderedDict(b=some(2), a=some(1)),
        "empty_containers": {
            "w": some(2),
            "dict": {},
            "list": [],
            "tuple": (),
            "set": set(),
            "ordered": OrderedDict(),
            "nested": {"x": {}},
            "in_list": [{}],
            "lists": [[], [[]]],
            "deep": {"a": {"b": {"c": {}}}},
        },
        "integer_keys": {"a": {0: some(2), 1: some(3)}, "b": {"0": some(2), "1": some(1)}},
        "other_keys": {-1: some(1), (1, 2): some(2), None: some(3), 1.5: some(4), True: some(5)},
        "names": {
            name: some(size + 1)
            for size, name in enumerate(
                ["a/b", "100%", "ü\U0001f600", "a b", "", "x.y", "\n", "..", "/root", "q'\"\\", "\x00", "{}", "%s"]
            )
        },
        "long_names": {"n" * 65536: some(3), "m" * 70000: 7},
        "floats": {
            "w": some(1),
            "zero": -0.0,
            "quiet": nan(0x7FF8000000000001),
            "negative": nan(0xFFF8000000000123),
            "infinite": [float("inf"), -float("inf")],
            "tiny": 5e-324,
            "tenth": 0.1,
        },
        "integers": {"w": some(1), "all": [0, -1, 255, 256, 65536, 2**63 - 1, -(2**63), 2**63, -(2**63) - 1]},
        "long_integers": {"w": some(1), "a": 2**200, "b": -(2**2000)},
        "equal_numbers": {"w": some(1), "b": [True, 1, 1.0, False, 0, 0.0, -0.0]},
        "python_types": {
            "w": some(1),
            "set": {1, "a"},
            "frozen": frozenset([1, 2]),
            "bytes": bytearray(b"abc"),
            "complex": 1 + 2j,
            "range": range(5),
            "slice": slice(1, 2),
            "default": defaultdict(int, {"a": 1}),
            "counter": Counter("aab"),
            "deque": deque([1, 2], maxlen=3),
            "dtype": torch.float16,
            "device": torch.device("cuda:1"),
            "numpy": [np.int64(5), np.float32(1.5)],
        },
        "surrogates": {"w": some(1), "text": "\ud800x", "\udfff": 1},
        "shared_list": {"a": shared_list, "b": shared_list, "w": some(1)},
        "shared_dict": {"a": shared_dict, "b": shared_dict},
        "long_texts": {"w": some(1), "text": "x" * (2 << 20), "bytes": b"y" * (2 << 20)},
        "tuples": {"a": (some(2), 1), "b": ((), (some(1),)), "c": [(some(2),)], "d": {"t": some(3)}},
        "no_elements": {"a": torch.empty(0), "b": torch.empty(3, 0, 2), "c": torch.tensor(5)},
        "list": [some(2), {"a": some(3)}, 5],
        "tuple": (some(2), 5),
        "names_of_ours": {"w": some(1), "x": ("tenplex.leaf", "w"), "y": ("tenplex.leaf", "nothing")},
    }


def save(state: Any, path: Path, zip_format: bool = True) -> Path:
    torch.save(state, path, _use_new_zipfile_serialization=zip_format)
    return path


def load(path: Path) -> Any:
    return torch.load(path, weights_only=False)


def without_zip_extras(source: Path, target: Path, stem: str = "archive") -> Path:
    """Rewrites a torch zip as torch 1.6 to 1.13 laid it out: data.pkl, data/*, version; nothing else."""
    reader = torch.PyTorchFileReader(str(source))
    writer = torch.PyTorchFileWriter(str(target.with_name(stem + target.suffix)))
    records = reader.get_all_records()
    for name in ["data.pkl", *sorted(name for name in records if name.startswith("data/"))]:
        content = reader.get_record(name)
        writer.write_record(name, content, len(content))
    writer.write_end_of_file()
    return target.with_name(stem + target.suffix)
