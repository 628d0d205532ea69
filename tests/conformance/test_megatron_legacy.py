# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""Legacy Megatron checkpoints: models and groups of Megatron-Core, every tensor and slot read, re-cut, compared."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from makers import megatron_dist, megatron_legacy
from makers.megatron_dist import Grid
from program import tenplex, tenplex_json

CASES = sorted(megatron_legacy.CASES)


@pytest.fixture
def legacy(megatron_legacy_case: Callable[[str], Path]) -> Callable[[str], Path]:
    return megatron_legacy_case


def flat(tree: Any, prefix: str = "") -> dict[str, torch.Tensor]:
    """The tensors of a tree under the names that DCP gives them."""
    if isinstance(tree, torch.Tensor):
        return {prefix: tree}
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    found: dict[str, torch.Tensor] = {}
    for key, value in items:
        found |= flat(value, f"{prefix}.{key}" if prefix else str(key))
    return found


def assert_whole(tree: Any, name: str, folder: Path) -> None:
    """Every tensor of the model and of its optimizer is there, and right."""
    expected = megatron_legacy.expected_tensors(name, folder)
    found = {key: value for key, value in flat(tree).items() if not key.startswith(("common.", "rng_state/"))}
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        assert found[key].dtype == value.dtype, key
        assert torch.equal(found[key], value), key


@pytest.mark.parametrize("name", CASES)
def test_every_tensor_and_slot_is_read(
    name: str, legacy: Callable[[str], Path], tmp_path: Path, wrote_by: Callable[[str], None]
) -> None:
    wrote_by("megatron-core")
    source = legacy(name)
    tenplex("reshard", source, tmp_path / "whole.pt", "--verify")
    tree = torch.load(tmp_path / "whole.pt", weights_only=False)
    assert_whole(tree, name, source.parent)
    common = tree["common"]
    assert common["iteration"] == megatron_legacy.ITERATION
    assert common["args"].num_layers == 4
    assert common["opt_param_scheduler"] == {"max_lr": 1e-4, "num_steps": 560}
    assert [group["wd_mult"] for group in common["optimizer"]["optimizer"]["param_groups"]].count(0.0) == 1
    assert common["optimizer"]["optimizer"]["state"]["common_step"] == megatron_legacy.STEP
    seeds = {key: value for key, value in tree.items() if key.startswith("rng_state/")}
    assert sorted(int(state[0]["torch_rng_state"][0]) for state in seeds.values()) == [0, 1, 2, 3]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("mesh", ["tp=4", "pp=4", "tp=1"])
def test_recut_state_is_the_same(name: str, mesh: str, legacy: Callable[[str], Path], tmp_path: Path) -> None:
    source = legacy(name)
    options = ("--format", "dcp", "--layout", "megatron-gpt", "--to", mesh)
    tenplex("reshard", source, tmp_path / "cut", *options)
    tenplex("reshard", tmp_path / "cut", tmp_path / "whole.pt", "--layout", "replicated")
    assert_whole(torch.load(tmp_path / "whole.pt", weights_only=False), name, source.parent)


def test_experts_spread_over_more_devices(legacy: Callable[[str], Path], tmp_path: Path) -> None:
    options = ("--format", "dcp", "--layout", "megatron-gpt", "--to", "dp=4,ep=4")
    tenplex("reshard", legacy("experts"), tmp_path / "cut", *options)
    tenplex("reshard", tmp_path / "cut", tmp_path / "whole.pt", "--layout", "replicated")
    assert_whole(torch.load(tmp_path / "whole.pt", weights_only=False), "experts", legacy("experts").parent)


@pytest.mark.parametrize(
    ("name", "loaded_as", "mesh", "grid"),
    [
        ("dense", "dense-layers", "tp=4", Grid(4, tp=4)),
        ("virtual", "dense-layers", "pp=1", Grid(1)),
        ("experts", "experts-layers", "tp=2", Grid(2, tp=2)),
    ],
)
def test_megatron_core_loads_it_as_distributed_checkpoint(
    name: str, loaded_as: str, mesh: str, grid: Grid, legacy: Callable[[str], Path], tmp_path: Path
) -> None:
    options = ("--map", "megatron-modules", "--format", "megatron-dist", "--layout", "megatron-gpt", "--to", mesh)
    tenplex("reshard", legacy(name), tmp_path / "target", *options)
    for rank in megatron_dist.load(loaded_as, grid, tmp_path / "target", tmp_path / "loaded"):
        # The library stores no extra state of the head, and the random states of other ranks are not asked for.
        # experts-layers is loaded without an optimizer.
        not_loaded = {key for key in rank["missing"] if not key.startswith("optimizer.state.")}
        assert not_loaded <= {"rng_state", "output_layer._extra_state"}
        assert not rank["unexpected"]
        for key, size, offset, tensor in rank["tensors"]:
            place = tuple(slice(first, first + count) for first, count in zip(offset, tensor.shape, strict=True))
            assert torch.equal(megatron_dist.expected(key, tuple(size), tensor.dtype)[place], tensor), key


def test_root_iteration_and_files_are_one_checkpoint(legacy: Callable[[str], Path]) -> None:
    root = legacy("dense")
    assert tenplex_json("inspect", root)["format"] == "megatron"
    tenplex("verify", root, root / "iter_0000070")
