# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""One tensor object under several names: shapes and values where a layout pads only one name, and what several objects
hold together."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from program import tenplex

# Rows 5 to 7 of `embed` are padding; `head`, the same tensor, has none.
ROWS = """family: padded
meshes: {dense: [tp]}
tensors:
  - match: embed
    pad: {dim: 0, multiple_of: [8], data: 5}
    slice: [{dim: 0, by: tp}]
  - match: "*"
"""
COLUMNS = ROWS.replace("dim: 0", "dim: 1").replace("[8]", "[4]").replace("data: 5", "data: 3")


def tied_states() -> dict[str, Callable[[torch.Tensor], dict[str, Any]]]:
    holder = argparse.Namespace
    return {
        "two names": lambda t: {"embed": t, "head": t},
        "the padded one last": lambda t: {"head": t, "embed": t},
        "three names": lambda t: {"embed": t, "head": t, "again": t},
        "in a namespace": lambda t: {"embed": t, "h": holder(p=t)},
        "in a namespace before": lambda t: {"h": holder(p=t), "embed": t},
        "in a tuple": lambda t: {"embed": t, "t": (t, 1)},
        "in a list": lambda t: {"embed": t, "t": [t]},
        "a parameter": lambda t: {"embed": (p := torch.nn.Parameter(t)), "head": p},
    }


def tensors_of(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, argparse.Namespace):
        value = list(vars(value).values())
    if isinstance(value, dict):
        value = list(value.values())
    return [tensor for item in value for tensor in tensors_of(item)] if isinstance(value, (list, tuple)) else []


def padded_cases() -> list[tuple[str, str]]:
    """hf holds named tensors and nothing else."""
    formats = ("torch", "safetensors", "dcp", "hf")
    return [(case, form) for case in tied_states() for form in formats if form != "hf" or not case.startswith("in a ")]


@pytest.mark.parametrize("cast", [(), ("--dtype-policy", "cast:bf16")], ids=["as it is", "cast"])
@pytest.mark.parametrize("rows", [True, False], ids=["rows", "columns"])
@pytest.mark.parametrize(("case", "through"), padded_cases())
def test_only_the_padded_name_is_clipped(
    case: str, rows: bool, through: str, cast: tuple[str, ...], tmp_path: Path, wrote_by: Callable[[str], None]
) -> None:
    wrote_by("torch")
    full = torch.arange(32.0).reshape(8, 4)
    source, middle, back = tmp_path / "source.pt", tmp_path / "middle", tmp_path / "back.pt"
    layout = tmp_path / "padded.yaml"
    layout.write_text(ROWS if rows else COLUMNS)
    torch.save(tied_states()[case](full), source)
    if through == "torch":
        tenplex("reshard", source, back, "--format", "torch", "--layout", layout, "--verify", *cast)
    else:
        to = () if through == "hf" else ("--to", "tp=2")
        tenplex("reshard", source, middle, "--format", through, "--layout", layout, *to, "--verify", *cast)
        tenplex("reshard", middle, back, "--format", "torch", "--verify")
    loaded = torch.load(back, weights_only=False)
    expected = full.to(torch.bfloat16) if cast else full
    embed = loaded.pop("embed")
    others = tensors_of(loaded)
    clipped = expected[:5] if rows else expected[:, :3]
    assert embed.shape == clipped.shape
    assert torch.equal(embed.detach(), clipped)
    assert others
    assert all(torch.equal(tensor.detach(), expected) for tensor in others)
    assert all(tensor is others[0] for tensor in others) or through == "hf"


@pytest.mark.parametrize("names", ["ach", "cah", "hca"])
def test_a_layout_that_ties_one_of_two_names_of_an_object(
    names: str, tmp_path: Path, wrote_by: Callable[[str], None]
) -> None:
    wrote_by("torch")
    one = torch.arange(6.0)
    tensors = {"a": one.clone(), "c": one, "h": one}
    torch.save({name: tensors[name] for name in names}, tmp_path / "source.pt")
    layout = tmp_path / "tied.yaml"
    layout.write_text("family: tied\nmeshes: {dense: [tp]}\ntied: [{alias: c, to: a}]\ntensors: [{match: '*'}]\n")
    tenplex("reshard", tmp_path / "source.pt", tmp_path / "back.pt", "--layout", layout, "--verify")
    loaded = torch.load(tmp_path / "back.pt", weights_only=True)
    assert all(torch.equal(loaded[name], one) for name in names)
    assert loaded["c"].data_ptr() == loaded["a"].data_ptr()
