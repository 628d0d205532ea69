# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed: ZeRO stages 1 to 3 saved over 4 ranks, re-cut, made universal, loaded by DeepSpeed and trained on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from compare import assert_same_tensor, assert_same_tensors, assert_same_tree, raw_bytes
from makers import deepspeed
from makers.training import load_into_plain_tensors
from program import tenplex, tenplex_json

Runs = Callable[..., Path]
STAGES = [1, 2, 3]
TAG = "global_step2_universal"  # of what we write
LAYOUT = """
family: zero
meshes: {dense: [dp]}
tensors:
  - {match: ['common.*', seen]}
  - {match: '*', slice: [{flat: true, by: dp, CUT}]}
"""


def read(path: Path) -> Any:
    return torch.load(path, weights_only=False)


def expected_tensors(before: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Under our names, from what DeepSpeed itself gathered before it saved."""
    expected = {"seen": torch.tensor(3)}
    for name, tensor in before.items():
        parameter, _, slot = name.rpartition(".exp_avg")
        if parameter:
            expected[f"optimizer.state.exp_avg{slot}.{parameter}"] = tensor
        else:
            expected[name] = tensor
            if not name.startswith("frozen"):
                expected[f"optimizer.state.fp32_param.{name}"] = tensor
    return expected


def tensors_of(state: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    return {name: value for name, value in state.items() if name != "common"}


def as_torch_file(source: Path, folder: Path) -> dict[str, Any]:
    target = folder / "whole.pt"
    tenplex("reshard", source, target, "--format", "torch")
    state = read(target)
    target.unlink()
    return state


@pytest.mark.parametrize("stage", STAGES)
def test_every_element_and_object_is_read(
    stage: int, deepspeed_runs: Runs, tmp_path: Path, wrote_by: Callable[[str], None]
) -> None:
    wrote_by("deepspeed")
    run = deepspeed_runs(stage)
    state = as_torch_file(run / "checkpoint", tmp_path)
    assert_same_tensors(expected_tensors(read(run / "before.pt")), tensors_of(state))
    files = run / "checkpoint" / deepspeed.TAG
    model = read(next(files.glob("*mp_rank_00_model_states.pt")))
    optimizer = read(next(files.glob("*zero_pp_rank_0*optim_states.pt")))["optimizer_state_dict"]
    kept = state["common"]["model_states"]
    assert kept.pop("module") == {}
    assert list(tensors_of(state))[: len(model["module"])] == list(model.pop("module"))
    if stage > 1:
        model["frozen_param_fragments"] = None
    assert_same_tree({**model, "loss": 0}, {**kept, "loss": 0})
    kept = state["common"]["optimizer_state"]
    base = kept.pop("optimizer_state_dict")
    stored = optimizer.pop("optimizer_state_dict" if stage == 3 else "base_optimizer_state")
    for group in stored["state"].values():
        del group["exp_avg"], group["exp_avg_sq"]
    assert_same_tree(stored, base)
    for key in ("single_partition_of_fp32_groups", "param_slice_mappings", "fp32_flat_groups"):
        optimizer.pop(key, None)
    scaler, expected_scaler = kept.pop("loss_scaler"), optimizer.pop("loss_scaler")
    assert type(scaler) is type(expected_scaler)
    assert vars(scaler) == vars(expected_scaler)
    assert kept.pop("ds_version") == optimizer.pop("ds_version", model["ds_version"])
    assert_same_tree(optimizer, kept)
    assert sorted(state["common"]) == ["model_states", "optimizer_state"]


@pytest.mark.parametrize(("stage", "ranks"), [(1, 2), (3, 3)])
def test_every_element_of_other_numbers_of_ranks_is_read(
    stage: int, ranks: int, deepspeed_runs: Runs, tmp_path: Path, wrote_by: Callable[[str], None]
) -> None:
    wrote_by("deepspeed")
    run = deepspeed_runs(stage, ranks)
    state = as_torch_file(run / "checkpoint", tmp_path)
    assert_same_tensors(expected_tensors(read(run / "before.pt")), tensors_of(state))


@pytest.mark.parametrize("stage", STAGES)
def test_folder_of_the_tag_is_the_same_checkpoint(stage: int, deepspeed_runs: Runs) -> None:
    checkpoint = deepspeed_runs(stage) / "checkpoint"
    tenplex("verify", checkpoint, checkpoint / deepspeed.TAG)
    report = tenplex_json("inspect", checkpoint)
    assert report["format"] == "deepspeed"


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_recut_as_zero_cuts(
    stage: int, ranks: int, deepspeed_runs: Runs, tmp_path: Path, wrote_by: Callable[[str], None]
) -> None:
    """Buckets over `ranks` (ZeRO-1/2), or ceil(elements / ranks) of every tensor with padding (ZeRO-3)."""
    wrote_by("deepspeed")
    run = deepspeed_runs(stage)
    expected = expected_tensors(read(run / "before.pt"))
    layout = tmp_path / "layout.yaml"
    cut = "padded: true" if stage == 3 else "bucket: all, multiple_of: [2, dp]"
    layout.write_text(LAYOUT.replace("CUT", cut))
    options = ("--layout", layout, "--to", f"dp={ranks}", "--verify")
    tenplex("reshard", run / "checkpoint", tmp_path / "dcp", "--format", "dcp", *options)
    found = {name: tensor for name, tensor in load_into_plain_tensors(tmp_path / "dcp").items() if name in expected}
    assert_same_tensors(expected, found)
    tenplex("verify", run / "checkpoint", tmp_path / "dcp")
    folder = tmp_path / "ranks"
    tenplex("reshard", tmp_path / "dcp", folder, "--format", "safetensors", *options)
    files = [load_file(file) for file in sorted(folder.glob("*.safetensors"))]
    assert len(files) == ranks
    for name in expected:
        if name == "seen":
            continue
        parts = b"".join(raw_bytes(file[name]) for file in files if name in file)
        assert parts[: expected[name].numel() * 4] == raw_bytes(expected[name]), name


def universal_of(source: Path, target: Path) -> Path:
    tenplex("reshard", source, target, "--format", "deepspeed", "--verify")
    return target


@pytest.mark.parametrize("stage", STAGES)
def test_universal_checkpoint_is_that_of_ds_to_universal(
    stage: int, deepspeed_runs: Runs, tmp_path: Path, wrote_by: Callable[[str], None]
) -> None:
    wrote_by("deepspeed")
    run = deepspeed_runs(stage)
    ours = universal_of(run / "checkpoint", tmp_path / "out")
    library = run / "universal" / "library"
    assert (ours / "latest_universal").read_text() == TAG
    theirs = {str(path.relative_to(library)): path for path in library.rglob("*.pt")}
    found = {str(path.relative_to(ours / TAG)): path for path in (ours / TAG).rglob("*.pt")}
    # Further ranks' files of the model hold what rank 0's does; an integer buffer as float32 is in no need.
    others = {name for name in theirs if name.startswith("zero_pp_rank_") and not name.startswith("zero_pp_rank_0_")}
    missing = set(theirs) - set(found)
    assert missing == others | ({"zero/seen/fp32.pt"} if stage < 3 else set())
    more = {"zero_pp_rank_0_mp_rank_00_model_states.pt"} if stage < 3 else {"mp_rank_00_model_states.pt"}
    if stage == 3:
        more |= {name for name in found if name.endswith("/step.pt")} | {"zero/frozen.weight/fp32.pt"}
    assert set(found) - set(theirs) == more
    for name in set(found) & set(theirs):
        one, other = read(theirs[name]), read(found[name])
        if name.endswith("model_states.pt"):
            if stage == 3:
                one["frozen_param_fragments"] = None
                one["module"]["frozen.weight"] = other["module"]["frozen.weight"]  # whole in ours
            if stage == 2:
                one["frozen_param_fragments"] = None  # it is in 'module'
            assert_same_tree(one, other)
        elif name == "zero/optimizer_state.pt":
            one.pop("loss_scaler"), other.pop("loss_scaler")
            base = other.pop("optimizer_state_dict")
            if stage == 3:
                assert other.pop("ds_version") == "0.19.8"
                stored = one.pop("optimizer_state_dict")
                for group in stored["state"].values():
                    del group["exp_avg"], group["exp_avg_sq"]
                assert_same_tree(stored, base)
                del one["fp32_flat_groups"]
            assert_same_tree(one, other)
        elif stage == 3:
            assert other["cat_dim"] == 0
            assert_same_tensor(one, other["param"].view(-1), name)
        elif isinstance(one, dict):
            assert_same_tensor(one.pop("param"), other.pop("param"), name)
            assert one == {} or one == other
        else:
            assert_same_tensor(one, other, name)


@pytest.mark.parametrize("stage", STAGES)
def test_universal_checkpoint_of_ds_to_universal_is_read(
    stage: int, deepspeed_runs: Runs, tmp_path: Path, wrote_by: Callable[[str], None]
) -> None:
    wrote_by("deepspeed")
    run = deepspeed_runs(stage)
    universal = as_torch_file(run / "universal", tmp_path)
    assert_same_tensors(expected_tensors(read(run / "before.pt")), tensors_of(universal))
    zero = as_torch_file(run / "checkpoint", tmp_path)
    for state in (zero, universal):
        state["common"]["optimizer_state"].pop("loss_scaler")
    assert_same_tree(zero, universal, types=False)


@pytest.mark.parametrize("stage", STAGES)
def test_universal_checkpoint_there_and_back(stage: int, deepspeed_runs: Runs, tmp_path: Path) -> None:
    """Through a DCP folder too: what DeepSpeed needs beside tensors goes along."""
    run = deepspeed_runs(stage)
    ours = universal_of(run / "checkpoint", tmp_path / "ours")
    tenplex("verify", run / "checkpoint", ours)
    tenplex("reshard", run / "checkpoint", tmp_path / "dcp", "--format", "dcp")
    again = universal_of(tmp_path / "dcp", tmp_path / "again")
    for file in (path for path in ours.rglob("*") if path.is_file()):
        assert (again / file.relative_to(ours)).read_bytes() == file.read_bytes(), file


# DeepSpeed 0.19.8 cannot load a universal checkpoint where a rank has nothing but padding of a group (stages 1, 2).
@pytest.mark.parametrize(("stage", "source", "ranks"), [(1, 3, 3), (2, 2, 2), (3, 1, 2), (3, 3, 8)])
def test_deepspeed_loads_the_universal_checkpoint_and_trains_on(
    stage: int, source: int, ranks: int, deepspeed_runs: Runs, tmp_path: Path, wrote_by: Callable[[str], None]
) -> None:
    wrote_by("deepspeed")
    run = deepspeed_runs(source)
    ours = universal_of(run / "checkpoint", tmp_path / "ours")
    arguments = {"stage": stage, "checkpoint": str(ours), "result": str(tmp_path), "universal": True}
    # It does not restore frozen parameters.
    deepspeed.launch("resume", ranks, {**arguments, "frozen": str(run / "before.pt")})
    assert_same_tensors(read(run / "before.pt"), read(tmp_path / "loaded.pt"))
    expected, found = read(run / "after.pt"), read(tmp_path / "after.pt")
    for name, tensor in expected.items():
        if stage == 3 and not name.startswith(("words.weight", "up.weight", "down.weight", "frozen")):
            continue  # stage 3 gives all groups the learning rate and weight decay of the first
        torch.testing.assert_close(found[name], tensor, rtol=2e-6, atol=2e-7, msg=name)


def test_stage_3_trains_on_as_from_ds_to_universal(
    deepspeed_runs: Runs, tmp_path: Path, wrote_by: Callable[[str], None]
) -> None:
    wrote_by("deepspeed")
    run = deepspeed_runs(3)
    ours = universal_of(run / "checkpoint", tmp_path / "ours")
    results = []
    for number, checkpoint in enumerate((ours, run / "universal")):
        folder = tmp_path / str(number)
        folder.mkdir()
        arguments = {"stage": 3, "checkpoint": str(checkpoint), "result": str(folder), "universal": True}
        deepspeed.launch("resume", 2, {**arguments, "frozen": str(run / "before.pt")})
        results.append(read(folder / "after.pt"))
    assert_same_tensors(results[1], results[0])
