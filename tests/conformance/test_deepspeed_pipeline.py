# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed's PipelineModule: saved over stages × data parallel ranks, joined, made universal, loaded, trained on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from compare import assert_same_tensor, assert_same_tensors, assert_same_tree
from makers import deepspeed_pipeline as maker
from program import tenplex, tenplex_json

Runs = Callable[[int, int, int], Path]
MESHES = [(2, 4), (2, 2), (1, 2), (3, 3)]  # stages, ranks
CONVERTED = MESHES[:-1]  # ds_to_universal fails with fewer than a layer per stage between the first and the last
TAG = "global_step2_universal"


def read(path: Path) -> Any:
    return torch.load(path, weights_only=False)


def expected_tensors(before: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Under our names, from what was gathered of all stages before DeepSpeed saved."""
    expected = {"3.seen": torch.tensor([3, 5])}
    for name, tensor in before.items():
        parameter, _, slot = name.rpartition(".exp_avg")
        if parameter:
            expected[f"optimizer.state.exp_avg{slot}.{parameter}"] = tensor
        elif name != "loss":
            expected[name] = tensor
            if "frozen" not in name:
                expected[f"optimizer.state.fp32_param.{name}"] = tensor
    return expected


def as_torch_file(source: Path, folder: Path) -> dict[str, Any]:
    target = folder / "whole.pt"
    tenplex("reshard", source, target, "--format", "torch")
    state: dict[str, Any] = read(target)
    target.unlink()
    return state


@pytest.mark.parametrize(("stages", "ranks"), MESHES)
def test_every_element_is_read(
    stages: int, ranks: int, deepspeed_pipeline_runs: Runs, tmp_path: Path, wrote_by: Callable[[str], None]
) -> None:
    wrote_by("deepspeed")
    run = deepspeed_pipeline_runs(1, stages, ranks)
    state = as_torch_file(run / "checkpoint", tmp_path)
    common = state.pop("common")
    before = read(run / "before.pt")  # of `offset`, which is no tied one, the first stage's
    assert_same_tensors(expected_tensors(before), state)
    files = run / "checkpoint" / maker.TAG
    stored = [read(file) for file in sorted(files.glob("mp_rank_*_model_states.pt"))]
    model = common["model_states"]
    assert model.pop("module") == {}
    assert model.pop("buffer_names") == ["3.seen"]
    assert model.pop("mp_world_size") == 1
    assert model.pop("checkpoint_parallel_dimensions") == {"pp_degree": 1, "tp_degree": 1}
    shapes = model.pop("param_shapes")
    for number, group in enumerate(shapes):
        assert group == {name: shape for of in stored for name, shape in of["param_shapes"][number].items()}
    assert list(model) == [key for key in stored[0] if key in model]
    assert_same_tree({key: stored[0][key] for key in model}, model)
    base = common["optimizer_state"]["optimizer_state_dict"]
    optimizer = read(files / "zero_pp_rank_0_mp_rank_00_optim_states.pt")["optimizer_state_dict"]
    assert base["param_groups"] == optimizer["base_optimizer_state"]["param_groups"]
    assert base["state"] == {0: {"step": torch.tensor(2.0)}, 1: {"step": torch.tensor(2.0)}}
    assert sorted(common) == ["model_states", "optimizer_state"]
    report = tenplex_json("inspect", run / "checkpoint")
    assert report["format"] == "deepspeed"


def test_model_without_zero_is_read(
    deepspeed_pipeline_runs: Runs, tmp_path: Path, wrote_by: Callable[[str], None]
) -> None:
    """A layer of a tied module has the layer's number; torch's own optimizer of each stage is kept as it is."""
    wrote_by("deepspeed")
    run = deepspeed_pipeline_runs(0, 2, 2)
    state = as_torch_file(run / "checkpoint", tmp_path)
    common = state.pop("common")
    expected = {
        name.replace("tied_modules.embed", "0"): tensor
        for name, tensor in expected_tensors(read(run / "before.pt")).items()
        if not name.startswith("optimizer.")
    }
    assert_same_tensors(expected, state)
    for rank, kept in enumerate([common["model_states"], common["ranks"][1]["model_states"]]):
        stored = read(run / "checkpoint" / maker.TAG / f"mp_rank_{rank:02}_model_states.pt")
        assert_same_tree(stored["optimizer"], kept["optimizer"])


@pytest.mark.parametrize(("stages", "ranks"), CONVERTED)
def test_universal_checkpoint_is_that_of_ds_to_universal(
    stages: int, ranks: int, deepspeed_pipeline_runs: Runs, tmp_path: Path, wrote_by: Callable[[str], None]
) -> None:
    wrote_by("deepspeed")
    run = deepspeed_pipeline_runs(1, stages, ranks)
    tenplex("reshard", run / "checkpoint", tmp_path / "out", "--format", "deepspeed", "--verify")
    tenplex("verify", run / "checkpoint", tmp_path / "out")
    ours, library = tmp_path / "out" / TAG / "zero", run / "universal" / "library" / "zero"
    theirs = {str(path.relative_to(library)): path for path in library.rglob("*.pt")}
    found = {str(path.relative_to(ours)): path for path in ours.rglob("*.pt")}
    assert set(theirs) - set(found) == set()
    assert set(found) - set(theirs) == {"3.frozen.weight/fp32.pt"}  # there it is in no file
    for name in theirs:
        one, other = read(theirs[name]), read(found[name])
        if name == "optimizer_state.pt":
            for state in (one, other):
                state.pop("loss_scaler"), state.pop("group_paddings")  # there always 0
            other.pop("optimizer_state_dict")
            assert_same_tree(one, other)
        elif name.endswith("step.pt"):
            assert_same_tensor(one, other, name)
        else:
            assert_same_tensor(one.pop("param"), other.pop("param"), name)
            assert one == other, name


@pytest.mark.parametrize(("stages", "ranks"), CONVERTED)
def test_universal_checkpoint_of_ds_to_universal_is_read(
    stages: int, ranks: int, deepspeed_pipeline_runs: Runs, tmp_path: Path, wrote_by: Callable[[str], None]
) -> None:
    """It has neither frozen parameters nor buffers of a pipeline."""
    wrote_by("deepspeed")
    run = deepspeed_pipeline_runs(1, stages, ranks)
    universal = as_torch_file(run / "universal", tmp_path)
    common = universal.pop("common")
    expected = expected_tensors(read(run / "before.pt"))
    del expected["3.seen"], expected["3.frozen.weight"]
    assert_same_tensors(expected, universal)
    zero = as_torch_file(run / "checkpoint", tmp_path)["common"]
    for state in (zero, common):
        state["optimizer_state"].pop("loss_scaler"), state["optimizer_state"].pop("group_paddings")
    assert_same_tree(zero, common, types=False)


@pytest.mark.parametrize(
    ("source", "zero", "stages", "ranks"),
    [((2, 4), 1, 2, 2), ((2, 2), 1, 3, 3), ((3, 3), 1, 1, 2), ((2, 4), 2, 0, 2), ((2, 2), 3, 0, 2)],
)
def test_deepspeed_loads_the_universal_checkpoint_and_trains_on(
    source: tuple[int, int],
    zero: int,
    stages: int,
    ranks: int,
    deepspeed_pipeline_runs: Runs,
    tmp_path: Path,
    wrote_by: Callable[[str], None],
) -> None:
    """On other stages, and (`stages` 0) as a model that is no pipeline."""
    wrote_by("deepspeed")
    run = deepspeed_pipeline_runs(1, *source)
    tenplex("reshard", run / "checkpoint", tmp_path / "ours", "--format", "deepspeed")
    arguments = {"zero": zero, "stages": stages, "checkpoint": str(tmp_path / "ours"), "result": str(tmp_path)}
    # It does not restore frozen parameters.
    maker.launch("resume", ranks, {**arguments, "frozen": str(run / "before.pt")})
    before, loaded = read(run / "before.pt"), read(tmp_path / "loaded.pt")
    before.pop("loss"), loaded.pop("loss")
    assert_same_tensors(before, loaded)
    expected, found = read(run / "after.pt"), read(tmp_path / "after.pt")
    torch.testing.assert_close(found["loss"], expected["loss"], rtol=1e-6, atol=0)
    for name, tensor in expected.items():
        if zero == 3 and ("bias" in name or "offset" in name or name.startswith("4.")):
            continue  # stage 3 gives all groups the weight decay of the first
        torch.testing.assert_close(found[name], tensor, rtol=2e-5, atol=2e-6, msg=name)
