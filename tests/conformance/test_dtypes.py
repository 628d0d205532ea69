# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""Every element type through every pair of formats, bit for bit; a format that has no such type says so."""

from __future__ import annotations

import itertools
import json
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from compare import assert_same_tensors
from makers import torch_file
from program import tenplex

FORMATS = ("torch", "safetensors", "safetensors folder", "hf", "dcp", "dcp of two")
CUT = ("--layout", "fsdp", "--to", "fsdp=2")


def write_as(name: str, source: Path, folder: Path) -> Path:
    """`source` again in one of FORMATS."""
    target = folder / {"torch": "x.pt", "safetensors": "x.safetensors"}.get(name, "x")
    folder.mkdir()
    cut = CUT if name in ("safetensors folder", "dcp of two") else ()
    tenplex("reshard", source, target, "--format", name.split()[0], *cut)
    return target


@pytest.mark.parametrize(("first", "second"), itertools.product(FORMATS, FORMATS))
def test_every_dtype_through_two_formats(
    first: str, second: str, tmp_path: Path, wrote_by: Callable[[str], None]
) -> None:
    wrote_by("torch")
    all_torch = all(name.startswith(("torch", "dcp")) for name in (first, second))
    state = torch_file.every_dtype(without=() if all_torch else torch_file.SAFETENSORS_CANNOT_HOLD)
    source = torch_file.save(state, tmp_path / "in.pt")
    middle = write_as(first, source, tmp_path / "first")
    other = write_as(second, middle, tmp_path / "second")
    tenplex("verify", source, other)
    found = torch_file.load(write_as("torch", other, tmp_path / "last"))
    assert_same_tensors(state, found)


@pytest.mark.parametrize("target", ["safetensors", "safetensors folder", "hf"])
@pytest.mark.parametrize("dtype", torch_file.SAFETENSORS_CANNOT_HOLD, ids=str)
def test_refusal_names_tensor_dtype_and_format(
    dtype: Any, target: str, tmp_path: Path, wrote_by: Callable[[str], None]
) -> None:
    wrote_by("torch")
    source = torch_file.save({"odd one": torch_file.random_bits((4,), dtype, 1)}, tmp_path / "in.pt")
    cut = CUT if target == "safetensors folder" else ()
    run = tenplex("reshard", source, tmp_path / "out", "--format", target.split()[0], *cut, exit_code=1)
    for text in ("odd one", str(dtype).removeprefix("torch."), "safetensors"):
        assert text in run.reason
    assert not (tmp_path / "out").exists()


SUB_BYTE = {"F4": ("float4_e2m1fn", 4), "F6_E2M3": ("float6_e2m3fn", 6), "F6_E3M2": ("float6_e3m2fn", 6)}


def raw_safetensors(path: Path, tensors: dict[str, tuple[str, list[int], bytes]]) -> Path:
    """As the format's specification has it; the library of that name cannot write types of 4 and 6 bits."""
    header: dict[str, Any] = {}
    data = b""
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def read_raw(path: Path) -> dict[str, tuple[str, list[int], bytes]]:
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    header.pop("__metadata__", None)
    data = content[8 + length :]
    return {
        name: (entry["dtype"], entry["shape"], data[slice(*entry["data_offsets"])]) for name, entry in header.items()
    }


def sub_byte_tensors() -> dict[str, tuple[str, list[int], bytes]]:
    generator = random.Random(3)
    return {f"w.{name}": (name, [6, 8], generator.randbytes(6 * 8 * bits // 8)) for name, (_, bits) in SUB_BYTE.items()}


@pytest.mark.parametrize("through", ["safetensors", "safetensors folder", "hf"])
def test_types_under_a_byte_come_back(through: str, tmp_path: Path) -> None:
    tensors = sub_byte_tensors()
    source = raw_safetensors(tmp_path / "in.safetensors", tensors)
    middle = write_as(through, source, tmp_path / "middle")
    if through == "safetensors folder":
        halves = [read_raw(path) for path in sorted(middle.glob("*.safetensors"))]
        for name, (dtype, _, content) in tensors.items():
            half = len(content) // 2
            assert halves[0][name] == (dtype, [3, 8], content[:half])
            assert halves[1][name] == (dtype, [3, 8], content[half:])
    back = write_as("safetensors", middle, tmp_path / "back")
    assert read_raw(back) == tensors
    tenplex("verify", source, middle)


@pytest.mark.parametrize("target", ["torch", "dcp", "dcp of two"])
@pytest.mark.parametrize("name", SUB_BYTE)
def test_torch_has_no_types_under_a_byte(name: str, target: str, tmp_path: Path) -> None:
    key = f"w.{name}"
    source = raw_safetensors(tmp_path / "in.safetensors", {key: sub_byte_tensors()[key]})
    cut = CUT if target == "dcp of two" else ()
    run = tenplex("reshard", source, tmp_path / "out", "--format", target.split()[0], *cut, exit_code=1)
    for text in (key, SUB_BYTE[name][0], target.split()[0]):
        assert text in run.reason
    assert not (tmp_path / "out").exists()
