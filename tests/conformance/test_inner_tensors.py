# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""Tensors inside tuples and objects, which DCP stores as objects: what they shared, and how they lay, comes through."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.checkpoint as dcp
from torch import nn

from compare import TreeComparison
from makers import torch_file
from makers.training import load_whole
from program import tenplex


def linear_over(storage: torch.Tensor) -> nn.Linear:
    module = nn.Linear(3, 2)
    module.weight.data = storage[3:9].view(2, 3)
    return module


def states() -> dict[str, dict[str, Any]]:
    """Each has, beside tensors in objects, plain ones of the same values that share nothing."""
    base, pair, other, scalar = torch.arange(30.0), torch.zeros(2), torch.ones(3, 1), torch.ones(())
    name_space = argparse.Namespace
    rows, matrix = torch.arange(24.0).view(6, 4), torch.arange(21).view(7, 3)
    table, listed = {"r": rows, "m": matrix.t(), "b": base}, [rows[1:5], {"m": matrix}]
    inner, opened, held = (other, other), {"x": scalar, "y": (pair, 3)}, [name_space(k=base[1:4]), {"l": [pair]}]
    return {
        "a part of a storage": {"w": torch.ones(4), "t": (base[3:9],)},
        "a transposed view": {"w": torch.ones(4), "t": (base.view(5, 6).t(),)},
        "an expanded view": {"w": torch.ones(4), "t": (torch.ones(1).expand(3),)},
        "two parts of a storage": {"w": torch.ones(4), "t": (base[:15], base[15:])},
        "a part in an object": {"w": torch.ones(4), "n": name_space(t=base[2:5])},
        "a module": {"w": torch.ones(2), "m": nn.Linear(3, 2)},
        "a module over a part": {"w": torch.ones(2), "m": linear_over(base)},
        "two tuples of one tensor": {"a": (pair, 1), "b": (pair, 2), "w": torch.zeros(2), "x": torch.zeros(2)},
        "two objects of one tensor": {"n": [name_space(k=pair), (pair,), torch.ones(2)]},
        "one object beside another": {"n1": scalar, "n4": ((other, scalar), [other])},
        "objects twice in two tuples": {"a": (other, other), "b": (scalar, scalar), "w": [scalar, torch.ones(())]},
        "parts inside and outside": {"w": base[:10], "t": (base[5:20], base[20:]), "u": (base[0:1], torch.zeros(1))},
        "one tuple in two tuples": {"a": (inner, 1), "b": (inner, 2), "w": torch.ones(3, 1)},
        "one tuple of two names": {"a": inner, "b": inner, "w": torch.ones(3, 1)},
        "a tuple beside and in a tuple": {"a": (inner, 1), "b": inner, "c": (0, inner), "w": torch.ones(3, 1)},
        "a dict beside and in a tuple": {"t": (opened, 1), "d": opened, "u": ([opened],), "w": torch.ones(())},
        "a dict and a view of its tensor": {"t": ({"l": [opened]}, scalar.view(1)), "d": opened, "w": torch.ones(())},
        "a dict of matrices beside and in an object": {"d": table, "n": name_space(d=table), "w": torch.ones(2)},
        "a dict of matrices in and beside two objects": {"n": (table, name_space(d=table)), "d": table},
        "a list of matrices beside and in an object": {"l": listed, "n": name_space(l=listed), "m": matrix},
        "a dict of matrices and a view of one": {"d": table, "t": (table, rows[2:]), "w": rows[:3]},
        "a list in two objects": {"a": name_space(h=held), "b": (held, held), "c": ((held[1],),), "w": torch.zeros(2)},
    }


def assert_same_inner(expected: dict[str, Any], found: dict[str, Any]) -> None:
    """Modules are compared by their parameters."""
    comparison = TreeComparison(strides=True)

    def opened(state: dict[str, Any]) -> dict[str, Any]:
        return {
            key: dict(item.named_parameters()) if isinstance(item, nn.Module) else item for key, item in state.items()
        }

    comparison.compare(opened(expected), opened(found))


def recut(source: Path, target: Path, objects: Path, *arguments: object) -> Path:
    """Re-cuts, reads the target and holds it against the source."""
    place = ("--objects", objects) if target.suffix == ".safetensors" else ()
    own = ("--objects", objects) if source.suffix == ".safetensors" else ()
    tenplex("reshard", source, target, *arguments, *(place or own))
    tenplex("inspect", target, *place)
    tenplex("verify", source, target, *(place or own))
    return target


def test_torch_reads_a_cut_dict_in_both_places(tmp_path: Path, wrote_by: Callable[[str], None]) -> None:
    wrote_by("torch")
    large = torch.arange(1 << 20, dtype=torch.int32).view(1024, 1024)
    held = {"w": torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), "large": large, "step": 7}
    state = {"d": held, "n": argparse.Namespace(d=held, k=[held])}
    source = torch_file.save(state, tmp_path / "in.pt")
    folder = tmp_path / "dcp"
    tenplex("reshard", source, folder, "--format", "dcp", "--layout", "fsdp", "--to", "fsdp=2", "--verify")
    entry = dcp.FileSystemReader(folder).read_metadata().state_dict_metadata["d.w"]
    assert [list(chunk.sizes) for chunk in entry.chunks] == [[2, 2], [1, 2]]
    read = load_whole(folder)
    for found in (read["d"], read["n"].d, read["n"].k[0]):
        assert found["w"].tolist() == [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
        assert torch.equal(found["large"], torch.arange(1 << 20, dtype=torch.int32).view(1024, 1024))
        assert found["step"] == 7
    assert read["n"].k[0] is read["n"].d
    assert read["n"].d is not read["d"]
    tenplex("reshard", folder, tmp_path / "out.pt", "--format", "torch")
    back = torch_file.load(tmp_path / "out.pt")
    assert back["n"].d is back["d"]
    assert back["n"].k[0] is back["d"]


ON_THE_WAY = {
    "dcp": ("m", "--format", "dcp"),
    "dcp of two": ("m", "--format", "dcp", "--layout", "fsdp", "--to", "fsdp=2"),
    "safetensors": ("m.safetensors", "--format", "safetensors"),
    "safetensors folder": ("m", "--format", "safetensors", "--layout", "fsdp", "--to", "fsdp=2"),
}


@pytest.mark.parametrize("through", list(ON_THE_WAY))
@pytest.mark.parametrize("state", list(states()))
def test_of_a_torch_file_come_back(state: str, through: str, tmp_path: Path, wrote_by: Callable[[str], None]) -> None:
    wrote_by("torch")
    source = torch_file.save(states()[state], tmp_path / "in.pt")
    folder = recut(source, tmp_path / "dcp", tmp_path / "objects", "--format", "dcp")
    name, *arguments = ON_THE_WAY[through]
    middle = recut(folder, tmp_path / name, tmp_path / "objects", *arguments)
    back = recut(middle, tmp_path / "out.pt", tmp_path / "objects", "--format", "torch")
    assert_same_inner(torch_file.load(source), torch_file.load(back))


@pytest.mark.parametrize("through", list(ON_THE_WAY))
@pytest.mark.parametrize("flat", [True, False], ids=["flattened", "whole"])
@pytest.mark.parametrize("state", list(states()))
def test_of_a_torch_checkpoint_come_through(
    state: str, flat: bool, through: str, tmp_path: Path, wrote_by: Callable[[str], None]
) -> None:
    wrote_by("torch")
    saved = {"w": torch.ones(5), "m": states()[state]}
    planner = dcp.DefaultSavePlanner(flatten_state_dict=flat)
    dcp.save(saved, checkpoint_id=tmp_path / "in", planner=planner, no_dist=True)
    expected = recut(tmp_path / "in", tmp_path / "expected.pt", tmp_path / "objects", "--format", "torch")
    name, *arguments = ON_THE_WAY[through]
    middle = recut(tmp_path / "in", tmp_path / name, tmp_path / "objects", *arguments)
    back = recut(middle, tmp_path / "out.pt", tmp_path / "objects", "--format", "torch")
    assert_same_inner(torch_file.load(expected)["m"], torch_file.load(back)["m"])
    values = TreeComparison(types=False)
    values.compare({"w": saved["w"]}, {"w": torch_file.load(back)["w"]})
