# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""Random tensors and layouts: every device gets what an independent numpy computation says, and there and back is the
identity."""

from __future__ import annotations

import itertools
import json
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from compare import assert_same_tensors, raw_bytes
from logical_digest import digest
from makers.torch_file import DTYPES, SAFETENSORS_CANNOT_HOLD, random_bits
from makers.training import load_into_plain_tensors
from program import tenplex, tenplex_json

STORABLE = [dtype for dtype in DTYPES if dtype not in SAFETENSORS_CANNOT_HOLD]
PADDING = -1


@dataclass(frozen=True)
class Slice:
    """One slice of a rule; `dim` None is a flat one."""

    dim: int | None
    by: tuple[str, ...]
    split: str = "chunk"
    segments: tuple[int, ...] = ()
    padded: bool = False

    def yaml(self) -> dict[str, Any]:
        if self.dim is None:
            return {"flat": True, "by": list(self.by), "split": self.split, "padded": self.padded}
        entry: dict[str, Any] = {"dim": self.dim, "by": list(self.by), "split": self.split}
        if self.segments:
            entry["segments"] = list(self.segments)
        return entry


@dataclass(frozen=True)
class RandomLayout:
    axes: tuple[str, ...]  # fastest first
    sizes: dict[str, int]
    rules: dict[str, tuple[Slice, ...]] = field(default_factory=dict)

    def yaml(self) -> str:
        rules = [{"match": name, "slice": [one.yaml() for one in slices]} for name, slices in self.rules.items()]
        return json.dumps({"family": "random", "meshes": {"all": list(self.axes)}, "tensors": rules}, indent=1)

    def to(self) -> str:
        return ",".join(f"{axis}={size}" for axis, size in self.sizes.items())

    def device_count(self) -> int:
        return int(np.prod(list(self.sizes.values())))

    def index(self, device: int, by: tuple[str, ...]) -> tuple[int, int]:
        """(part, parts) of a device along the product of some axes, the first of them fastest."""
        coordinates: dict[str, int] = {}
        for axis in self.axes:
            coordinates[axis] = device % self.sizes[axis]
            device //= self.sizes[axis]
        part, parts = 0, 1
        for axis in by:
            part += coordinates[axis] * parts
            parts *= self.sizes[axis]
        return part, parts


def part_of(extent: int, part: int, parts: int, split: str) -> slice:
    if split == "chunk":
        size = -(-extent // parts)
        return slice(min(part * size, extent), min((part + 1) * size, extent))
    longer = extent % parts
    start = part * (extent // parts) + min(part, longer)
    return slice(start, start + extent // parts + (part < longer))


def local_elements(shape: tuple[int, ...], layout: RandomLayout, name: str, device: int) -> np.ndarray:
    """Row-major element numbers of what a device stores of one tensor; PADDING where it is padding."""
    local = np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape)
    for one in layout.rules[name]:
        part, parts = layout.index(device, one.by)
        if one.dim is None:
            flat = local.reshape(-1)
            local = flat[part_of(len(flat), part, parts, one.split)]
            if one.padded:
                longest = part_of(len(flat), 0, parts, one.split).stop
                local = np.concatenate([local, np.full(longest - len(local), PADDING)])
            continue
        extent = local.shape[one.dim]
        ratios = one.segments or (1,)
        ends = np.cumsum(ratios) * (extent // sum(ratios))
        begins = np.concatenate([[0], ends[:-1]])
        pieces = []
        for begin, end in zip(begins, [*ends[:-1], extent if not one.segments else ends[-1]], strict=True):
            taken = part_of(int(end - begin), part, parts, one.split)
            index = [slice(None)] * local.ndim
            index[one.dim] = slice(int(begin) + taken.start, int(begin) + taken.stop)
            pieces.append(local[tuple(index)])
        local = np.concatenate(pieces, axis=one.dim)
    return local


@st.composite
def layouts(draw: st.DrawFn, shapes: dict[str, tuple[int, ...]]) -> RandomLayout:
    axes = draw(st.permutations(["a", "b", "c"]))[: draw(st.integers(1, 3))]
    sizes = {axis: draw(st.integers(1, 4 if len(axes) < 3 else 3)) for axis in axes}
    rules: dict[str, tuple[Slice, ...]] = {}
    for name, shape in shapes.items():
        free = list(draw(st.permutations(axes)))[: draw(st.integers(0, len(axes)))]
        slices: list[Slice] = []
        segmented: set[int] = set()
        while free:
            take = draw(st.integers(1, len(free)))
            by, free = tuple(free[:take]), free[take:]
            split = draw(st.sampled_from(["chunk", "balanced"]))
            if not shape or draw(st.integers(0, 3)) == 0:
                slices.append(Slice(None, by, split, padded=draw(st.booleans())))
                break
            dim = draw(st.integers(0, len(shape) - 1))
            cut_before = any(one.dim == dim for one in slices)
            ratios = draw(st.sampled_from([(), (1, 1), (2, 1), (1, 3, 2)]))
            if ratios and (cut_before or shape[dim] % sum(ratios) != 0 or shape[dim] == 0):
                ratios = ()
            if ratios:
                segmented.add(dim)
            slices.append(Slice(dim, by, split, ratios))
        rules[name] = tuple(slices)
    return RandomLayout(tuple(axes), sizes, rules)


@st.composite
def cases(draw: st.DrawFn) -> tuple[dict[str, torch.Tensor], RandomLayout, RandomLayout]:
    extents = st.sampled_from([0, 1, 2, 3, 4, 5, 6, 7, 12, 13, 24])
    shapes = {
        f"t{index}": tuple(draw(st.lists(extents, max_size=4 if index else 2)))
        for index in range(draw(st.integers(1, 6)))
    }
    seed = draw(st.integers(0, 1 << 20))
    tensors = {
        name: random_bits(shape, draw(st.sampled_from(STORABLE)), seed + index)
        for index, (name, shape) in enumerate(shapes.items())
    }
    return tensors, draw(layouts(shapes)), draw(layouts(shapes))


def assert_devices_hold_their_parts(folder: Path, tensors: dict[str, torch.Tensor], layout: RandomLayout) -> None:
    files = sorted(folder.glob("*.safetensors"))
    assert len(files) == layout.device_count()
    stored = [load_file(file) for file in files]
    for name, tensor in tensors.items():
        width = tensor.element_size()
        elements = np.frombuffer(raw_bytes(tensor), np.uint8).reshape(-1, width) if tensor.numel() else None
        wanted: dict[bytes, bool] = {}
        for device, found in enumerate(stored):
            local = local_elements(tuple(tensor.shape), layout, name, device)
            key = local.tobytes()
            wanted.setdefault(key, not np.any(local != PADDING))  # a part without elements need not be stored
            if name not in found:
                continue
            wanted[key] = True
            assert found[name].numel() == local.size, (name, device)
            if elements is None:
                continue
            raw = np.frombuffer(raw_bytes(found[name]), np.uint8).reshape(-1, width)
            real = local.reshape(-1) != PADDING
            np.testing.assert_array_equal(raw[real], elements[local.reshape(-1)[real]], f"{name} device {device}")
        assert all(wanted.values()), f"{name}: a part is stored by no device"


def digests(path: Path) -> dict[str, str]:
    return dict(tenplex_json("digest", path)["tensors"])


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
@given(case=cases())
def test_there_and_back_is_the_identity(case: tuple[dict[str, torch.Tensor], RandomLayout, RandomLayout]) -> None:
    tensors, first, second = case
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = folder / "in.safetensors"
        save_file(tensors, source)
        for layout, file in ((first, "first.yaml"), (second, "second.yaml")):
            (folder / file).write_text(layout.yaml())
        a, b, back = folder / "a", folder / "b", folder / "back.safetensors"
        one = ("--layout", folder / "first.yaml", "--to", first.to(), "--format", "safetensors")
        two = ("--layout", folder / "second.yaml", "--to", second.to(), "--format", "dcp")
        tenplex("reshard", source, a, *one)
        if first.device_count() > 1:
            assert_devices_hold_their_parts(a, tensors, first)
        tenplex("reshard", a, b, *two)
        assert_same_tensors(tensors, load_into_plain_tensors(b))
        tenplex("reshard", b, back, "--format", "safetensors")
        assert_same_tensors(tensors, load_file(back))
        tenplex("verify", a, b)
        expected = {name: digest(tensor) for name, tensor in tensors.items()}
        for checkpoint in (source, a, b):
            assert digests(checkpoint) == expected


@pytest.mark.parametrize("split", ["chunk", "balanced"])
@pytest.mark.parametrize("extent, parts", itertools.product([0, 1, 6, 7], [1, 2, 4]))
def test_the_oracle_covers_every_index_once(split: str, extent: int, parts: int) -> None:
    covered = [index for part in range(parts) for index in range(extent)[part_of(extent, part, parts, split)]]
    assert covered == list(range(extent))
