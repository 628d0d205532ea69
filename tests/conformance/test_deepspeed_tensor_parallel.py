# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed with tensor parallelism: ZeRO stages 1 and 2 saved over 2 × 2 ranks, joined, made universal, loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from compare import assert_same_tensor, assert_same_tensors, assert_same_tree
from makers import deepspeed_tensor_parallel as maker
from program import tenplex, tenplex_json

Runs = Callable[[int], Path]
STAGES = [1, 2]
TAG = "global_step2_universal"


def read(path: Path) -> Any:
    return torch.load(path, weights_only=False)


def expected_tensors(before: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Under our names, from what was put together from DeepSpeed's own tensors on each rank before it saved."""
    expected = {"seen": torch.tensor([3, 5])}
    for name, tensor in before.items():
        parameter, _, slot = name.rpartition(".exp_avg")
        if parameter:
            expected[f"optimizer.state.exp_avg{slot}.{parameter}"] = tensor
        else:
            expected[name] = tensor
            if not name.startswith("frozen"):
                expected[f"optimizer.state.fp32_param.{name}"] = tensor
    return expected


def as_torch_file(source: Path, folder: Path) -> dict[str, Any]:
    target = folder / "whole.pt"
    tenplex("reshard", source, target, "--format", "torch")
    state: dict[str, Any] = read(target)
    target.unlink()
    return state


def tensors_of(state: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    return {name: value for name, value in state.items() if name != "common"}


@pytest.mark.parametrize("stage", STAGES)
def test_every_element_is_read(
    stage: int, deepspeed_tensor_runs: Runs, tmp_path: Path, wrote_by: Callable[[str], None]
) -> None:
    wrote_by("deepspeed")
    run = deepspeed_tensor_runs(stage)
    state = as_torch_file(run / "checkpoint", tmp_path)
    assert_same_tensors(expected_tensors(read(run / "before.pt")), tensors_of(state))
    report = tenplex_json("inspect", run / "checkpoint")
    assert report["format"] == "deepspeed"
    model = state["common"]["model_states"]
    shapes = {name: shape for group in model["param_shapes"] for name, shape in group.items()}
    whole = maker.whole_parameters()
    assert shapes == {
        name: torch.Size((maker.WORDS, maker.HIDDEN) if name == "words.weight" else shape)
        for name, (shape, _) in whole.items()
        if not name.startswith("frozen")
    }
    assert model["mp_world_size"] == 1
    stored = read(run / "checkpoint" / maker.TAG / "mp_rank_00_model_states.pt")
    for changed in ("module", "param_shapes", "mp_world_size", "frozen_param_shapes", "frozen_param_fragments"):
        model.pop(changed), stored.pop(changed)
    model.pop("checkpoint_parallel_dimensions", None), stored.pop("checkpoint_parallel_dimensions", None)
    assert_same_tree(stored, model)
    assert "ranks" not in state["common"]


def test_model_and_optimizer_of_each_rank_without_zero_are_read(
    deepspeed_tensor_runs: Runs, tmp_path: Path, wrote_by: Callable[[str], None]
) -> None:
    """Stage 0: torch's own optimizer is kept as it is, with each rank's under that rank."""
    wrote_by("deepspeed")
    run = deepspeed_tensor_runs(0)
    state = as_torch_file(run / "checkpoint", tmp_path)
    before = read(deepspeed_tensor_runs(1) / "before.pt")
    found = tensors_of(state)
    for name, tensor in before.items():
        if ".exp_avg" not in name:
            torch.testing.assert_close(found[name], tensor, rtol=1e-6, atol=1e-7, msg=name)
    stored = read(run / "checkpoint" / maker.TAG / "mp_rank_01_model_states.pt")["optimizer"]
    assert_same_tree(stored, state["common"]["ranks"][1]["model_states"]["optimizer"])


@pytest.mark.parametrize("stage", STAGES)
def test_universal_checkpoint_is_that_of_ds_to_universal(
    stage: int, deepspeed_tensor_runs: Runs, tmp_path: Path, wrote_by: Callable[[str], None]
) -> None:
    wrote_by("deepspeed")
    run = deepspeed_tensor_runs(stage)
    tenplex("reshard", run / "checkpoint", tmp_path / "out", "--format", "deepspeed", "--verify")
    ours, library = tmp_path / "out" / TAG / "zero", run / "universal" / "library" / "zero"
    theirs = {str(path.relative_to(library)): path for path in library.rglob("*.pt")}
    found = {str(path.relative_to(ours)): path for path in ours.rglob("*.pt")}
    assert set(theirs) - set(found) == {"seen/fp32.pt"}
    assert set(found) - set(theirs) == set()
    whole = read(run / "before.pt")
    for name in found:
        one, other = read(theirs[name]), read(found[name])
        if name == "optimizer_state.pt":
            one.pop("loss_scaler"), other.pop("loss_scaler"), other.pop("optimizer_state_dict")
            assert_same_tree(one, other)
        elif name == "frozen.weight/fp32.pt":
            assert_same_tensor(whole["frozen.weight"], other["param"], name)
            assert one["param"].shape == (3, 2)  # that of the first rank
        elif name.endswith("step.pt"):
            assert_same_tensor(one, other, name)
        else:
            assert_same_tensor(one.pop("param"), other.pop("param"), name)
            one.setdefault("cat_dim", 0)
            assert one == other, name


@pytest.mark.parametrize("stage", STAGES)
def test_universal_checkpoint_of_ds_to_universal_is_read(
    stage: int, deepspeed_tensor_runs: Runs, tmp_path: Path, wrote_by: Callable[[str], None]
) -> None:
    wrote_by("deepspeed")
    run = deepspeed_tensor_runs(stage)
    universal = as_torch_file(run / "universal", tmp_path)
    assert_same_tensors(expected_tensors(read(run / "before.pt")), tensors_of(universal))
    zero = as_torch_file(run / "checkpoint", tmp_path)
    for state in (zero, universal):
        state["common"]["optimizer_state"].pop("loss_scaler")
        parameters = state["common"].pop("parameters")
        assert parameters["words.weight"] == {"vocab_tensor": True}
        assert parameters["layers.0.qkv.weight"]["sub_param_shape"].shape == ((8, 4, 4), -1)
    assert_same_tree(zero, universal, types=False)


@pytest.mark.parametrize("stage", STAGES)
def test_universal_checkpoint_there_and_back(stage: int, deepspeed_tensor_runs: Runs, tmp_path: Path) -> None:
    run = deepspeed_tensor_runs(stage)
    tenplex("reshard", run / "checkpoint", tmp_path / "ours", "--format", "deepspeed")
    tenplex("verify", run / "checkpoint", tmp_path / "ours")
    tenplex("reshard", tmp_path / "ours", tmp_path / "again", "--format", "deepspeed")
    for file in (path for path in (tmp_path / "ours").rglob("*") if path.is_file()):
        assert (tmp_path / "again" / file.relative_to(tmp_path / "ours")).read_bytes() == file.read_bytes(), file


@pytest.mark.parametrize("stage", STAGES)
def test_deepspeed_loads_the_universal_checkpoint_and_trains_on(
    stage: int, deepspeed_tensor_runs: Runs, tmp_path: Path, wrote_by: Callable[[str], None]
) -> None:
    """Without tensor parallelism, on 2 ranks."""
    wrote_by("deepspeed")
    run = deepspeed_tensor_runs(stage)
    tenplex("reshard", run / "checkpoint", tmp_path / "ours", "--format", "deepspeed")
    arguments = {"stage": stage, "checkpoint": str(tmp_path / "ours"), "result": str(tmp_path), "tensor_ranks": 1}
    maker.launch("resume", 2, arguments)
    for name in ("loaded.pt", "after.pt"):
        expected, found = read(run / name.replace("loaded", "before")), read(tmp_path / name)
        for state in (expected, found):
            del state["frozen.weight"]  # it restores no frozen parameters
        if name == "loaded.pt":
            assert_same_tensors(expected, found)
        for key, tensor in expected.items():
            torch.testing.assert_close(found[key], tensor, rtol=2e-6, atol=2e-7, msg=key)
