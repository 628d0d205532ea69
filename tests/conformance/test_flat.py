# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""Flat ZeRO-style buckets with padding, against ranges computed here with numpy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file

from compare import assert_same_tensors
from makers import torch_file
from program import ROOT, tenplex

LAYOUT = ROOT / "examples/layouts/zero-flat.yaml"
ALIGNMENT = 4


def make_state() -> dict[str, torch.Tensor]:
    """Sizes that no number of ranks divides; a tensor smaller than a range, one larger than two, one empty."""
    generator = torch.Generator().manual_seed(5)
    shapes = {
        "layers.0.weight": (13, 7),
        "layers.0.bias": (13,),
        "layers.0.scale": (),
        "layers.1.weight": (5, 11),
        "layers.1.bias": (3,),
        "layers.1.nothing": (0, 4),
        "embedding": (17, 3),
        "final.norm": (17,),
    }
    return {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}


def bucket_of(name: str) -> str:
    return name.split(".")[1] if name.startswith("layers.") else "rest"


def expected_ranges(state: dict[str, torch.Tensor], ranks: int) -> list[dict[str, np.ndarray]]:
    """Per rank: what of every tensor falls into its range of the padded bucket, flat."""
    parts: list[dict[str, np.ndarray]] = [{} for _ in range(ranks)]
    for bucket in sorted({bucket_of(name) for name in state}):
        names = [name for name in state if bucket_of(name) == bucket]
        sizes = [state[name].numel() for name in names]
        unit = ALIGNMENT * ranks
        padded = -(-sum(sizes) // unit) * unit
        per_rank = padded // ranks
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        for name, start, size in zip(names, starts, sizes, strict=True):
            flat = state[name].numpy().reshape(-1)
            for rank in range(ranks):
                begin = max(rank * per_rank - start, 0)
                end = min((rank + 1) * per_rank - start, size)
                parts[rank][name] = flat[begin : max(begin, end)]
    return parts


def assert_ranges(folder: Path, state: dict[str, torch.Tensor], ranks: int) -> None:
    files = sorted(folder.glob("*.safetensors"))
    assert len(files) == ranks
    for rank, (file, expected) in enumerate(zip(files, expected_ranges(state, ranks), strict=True)):
        found = load_file(file)
        for name, part in expected.items():
            stored = found[name].numpy().reshape(-1) if name in found else np.empty(0, np.float32)
            np.testing.assert_array_equal(stored, part, f"rank {rank} of {ranks}: {name}")
        assert set(found) <= set(expected)


def test_three_ranks_to_two_to_five_and_back(tmp_path: Path, wrote_by: Callable[[str], None]) -> None:
    wrote_by("torch")
    state = make_state()
    source = torch_file.save(state, tmp_path / "in.pt")
    before = source
    for step, ranks in enumerate((3, 2, 5, 3)):
        target = tmp_path / f"{step}-of-{ranks}"
        options = ("--layout", LAYOUT, "--to", f"zero={ranks}", "--format", "safetensors", "--verify")
        tenplex("reshard", before, target, *options)
        assert_ranges(target, state, ranks)
        tenplex("verify", source, target)
        before = target
    for file in sorted((tmp_path / "0-of-3").glob("*.safetensors")):
        assert (tmp_path / "3-of-3" / file.name).read_bytes() == file.read_bytes()
    tenplex("reshard", before, tmp_path / "out.pt", "--format", "torch")
    assert_same_tensors(state, torch_file.load(tmp_path / "out.pt"))


def test_flat_ranges_through_dcp(tmp_path: Path, wrote_by: Callable[[str], None]) -> None:
    """A flat range is several boxes, so DCP gets several chunks; torch puts them together again."""
    from makers.training import load_into_plain_tensors

    wrote_by("torch")
    state = make_state()
    source = torch_file.save(state, tmp_path / "in.pt")
    tenplex("reshard", source, tmp_path / "dcp", "--layout", LAYOUT, "--to", "zero=3", "--format", "dcp")
    assert_same_tensors(state, load_into_plain_tensors(tmp_path / "dcp"))
    tenplex(
        "reshard", tmp_path / "dcp", tmp_path / "2", "--layout", LAYOUT, "--to", "zero=2", "--format", "safetensors"
    )
    assert_ranges(tmp_path / "2", state, 2)
