# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""Legacy Megatron checkpoints as they are written: Megatron-Core's model loads every rank's file, strictly, and every
parameter, slot and group is what a checkpoint of that grid has."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from makers import megatron_legacy
from makers.megatron_dist import Grid
from program import tenplex

LAYOUT = ("--format", "megatron", "--layout", "megatron-gpt")
# Case, sizes of the target, its grid, virtual stages of it.
TARGETS = [
    ("dense", "tp=4", Grid(4, tp=4), 1),
    ("dense", "tp=1", Grid(1), 1),
    ("dense", "pp=4", Grid(4, pp=4), 1),
    ("virtual", "tp=2,pp=2", Grid(4, tp=2, pp=2), 1),
    ("dense", "tp=2,pp=2", Grid(4, tp=2, pp=2), 2),
    ("experts", "tp=2", Grid(2, tp=2), 1),
    ("experts", "tp=1,dp=2,ep=2,pp=2", Grid(4, pp=2, ep=2), 1),
]


@pytest.mark.parametrize(("name", "sizes", "grid", "chunks"), TARGETS)
def test_megatron_core_loads_every_rank(
    name: str,
    sizes: str,
    grid: Grid,
    chunks: int,
    megatron_legacy_case: Callable[[str], Path],
    tmp_path: Path,
    wrote_by: Callable[[str], None],
) -> None:
    wrote_by("megatron-core")
    virtual = ("--sizes", f"virtual={chunks}") if chunks > 1 else ()
    tenplex("reshard", megatron_legacy_case(name), tmp_path / "target", *LAYOUT, "--to", sizes, *virtual, "--verify")
    assert (tmp_path / "target/latest_checkpointed_iteration.txt").read_text() == "70"
    megatron_legacy.load(name, grid, tmp_path / "target/iter_0000070", chunks)


def test_through_other_grids_and_back(megatron_legacy_case: Callable[[str], Path], tmp_path: Path) -> None:
    source = megatron_legacy_case("dense")
    for number, sizes in enumerate(("tp=4", "tp=1", "tp=2,pp=2")):
        target = tmp_path / str(number)
        tenplex("reshard", source, target, *LAYOUT, "--to", sizes, "--verify")
        source = target
    megatron_legacy.load("dense", Grid(4, tp=2, pp=2), source / "iter_0000070")


def test_the_same_grid_keeps_random_states(megatron_legacy_case: Callable[[str], Path], tmp_path: Path) -> None:
    source = megatron_legacy_case("dense")
    run = tenplex("reshard", source, tmp_path / "same", *LAYOUT, "--to", "tp=2,pp=2", "--verify")
    assert "rng" not in run.err
    for seed, rank in enumerate(("00_000", "01_000", "00_001", "01_001")):
        path = tmp_path / f"same/iter_0000070/mp_rank_{rank}/model_optim_rng.pt"
        state = torch.load(path, weights_only=False)
        assert int(state["rng_state"][0]["torch_rng_state"][0]) == seed
        assert state["opt_param_scheduler"] == {"max_lr": 1e-4, "num_steps": 560}


def test_random_states_of_other_ranks_are_kept_aside(
    megatron_legacy_case: Callable[[str], Path], tmp_path: Path
) -> None:
    source = megatron_legacy_case("dense")
    run = tenplex("reshard", source, tmp_path / "one", *LAYOUT, "--verify")
    assert "--no-load-rng" in run.err
    state = torch.load(tmp_path / "one/iter_0000070/mp_rank_00/model_optim_rng.pt", weights_only=False)
    assert "rng_state" not in state
    tenplex("reshard", tmp_path / "one", tmp_path / "four", *LAYOUT, "--to", "tp=2,pp=2", "--verify")
    tenplex("verify", source, tmp_path / "four")


def test_weights_alone_are_a_release(megatron_legacy_case: Callable[[str], Path], tmp_path: Path) -> None:
    options = ("--only", "model,tensors", *LAYOUT, "--to", "tp=2", "--sizes", "divisor=4")
    tenplex("reshard", megatron_legacy_case("dense"), tmp_path / "weights", *options, "--verify")
    assert (tmp_path / "weights/latest_checkpointed_iteration.txt").read_text() == "release"
    state = torch.load(tmp_path / "weights/release/mp_rank_01/model_optim_rng.pt", weights_only=False)
    assert sorted(state) == ["checkpoint_version", "iteration", "model"]


def test_distributed_checkpoint_becomes_a_legacy_one(
    megatron_legacy_case: Callable[[str], Path], tmp_path: Path
) -> None:
    mapped = ("--map", "megatron-modules", "--layout", "megatron-gpt")
    source, dist = megatron_legacy_case("experts"), tmp_path / "dist"
    tenplex("reshard", source, dist, *mapped, "--format", "megatron-dist", "--to", "tp=4")
    tenplex("reshard", dist, tmp_path / "legacy", *mapped, "--format", "megatron", "--to", "tp=2,dp=2,ep=2")
    megatron_legacy.load("experts", Grid(4, tp=2, ep=2), tmp_path / "legacy/iter_0000070")


def test_distributed_checkpoint_of_the_same_names_needs_no_map(
    megatron_dist_case: Callable[[str], Path], tmp_path: Path
) -> None:
    source = megatron_dist_case("dense-layers")
    options = ("--only", "model", *LAYOUT, "--to", "tp=2,pp=2", "--sizes", "divisor=4")
    tenplex("reshard", source, tmp_path / "legacy", *options)
    tenplex("verify", source, tmp_path / "legacy", "--only", "model,tensors")
