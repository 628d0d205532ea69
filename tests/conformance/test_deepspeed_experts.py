# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed's MoE layers: saved over 4 ranks, 2 of them expert parallel, without ZeRO and by stages 1 and 2."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from compare import assert_same_tensors, assert_same_tree
from makers import deepspeed_experts as maker
from program import tenplex, tenplex_json

Runs = Callable[[int], Path]


def read(path: Path) -> Any:
    return torch.load(path, weights_only=False)


def expected_tensors(before: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    expected = {"seen": torch.tensor(3)}
    for name, tensor in before.items():
        parameter, _, slot = name.rpartition(".exp_avg")
        if parameter:
            expected[f"optimizer.state.exp_avg{slot}.{parameter}"] = tensor
        else:
            expected[name] = tensor
            expected[f"optimizer.state.fp32_param.{name}"] = tensor
    return expected


def as_torch_file(source: Path, folder: Path) -> dict[str, Any]:
    tenplex("reshard", source, folder / "whole.pt", "--format", "torch")
    state: dict[str, Any] = read(folder / "whole.pt")
    return state


@pytest.mark.parametrize("stage", [1, 2])
def test_every_element_is_read(
    stage: int, deepspeed_expert_runs: Runs, tmp_path: Path, wrote_by: Callable[[str], None]
) -> None:
    wrote_by("deepspeed")
    run = deepspeed_expert_runs(stage)
    state = as_torch_file(run / "checkpoint", tmp_path)
    common = state.pop("common")
    assert_same_tensors(expected_tensors(read(run / "before.pt")), state)
    shapes = {name for group in common["model_states"]["param_shapes"] for name in group}
    assert shapes == {name for name in read(run / "before.pt") if ".exp_avg" not in name}
    assert tenplex_json("inspect", run / "checkpoint")["format"] == "deepspeed"


@pytest.mark.parametrize("stage", [1, 2])
def test_universal_checkpoint_there_and_back(stage: int, deepspeed_expert_runs: Runs, tmp_path: Path) -> None:
    run = deepspeed_expert_runs(stage)
    tenplex("reshard", run / "checkpoint", tmp_path / "ours", "--format", "deepspeed", "--verify")
    tenplex("verify", run / "checkpoint", tmp_path / "ours")


def test_model_without_zero_is_read(
    deepspeed_expert_runs: Runs, tmp_path: Path, wrote_by: Callable[[str], None]
) -> None:
    """torch's own optimizer of each expert parallel rank is kept as it is."""
    wrote_by("deepspeed")
    files = deepspeed_expert_runs(0) / "checkpoint"
    state = as_torch_file(files, tmp_path)
    common = state.pop("common")
    stored = read(files / maker.TAG / "mp_rank_00_model_states.pt")["module"]
    for file in (files / maker.TAG).glob("layer_*_expert_*.pt"):
        stored.update(read(file))
    assert_same_tensors(dict(stored), state)
    for rank in range(maker.EXPERT_RANKS):
        file = files / maker.TAG / f"expp_rank_{rank}_mp_rank_00_optim_states.pt"
        assert_same_tree(read(file), common["expert_optimizers"][rank])
