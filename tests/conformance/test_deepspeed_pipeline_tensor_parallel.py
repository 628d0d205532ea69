# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed's PipelineModule on 2 stages × 2 tensor parallel ranks: joined, made universal, loaded on other meshes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from compare import assert_same_tensor, assert_same_tensors
from makers import deepspeed
from makers import deepspeed_pipeline_tensor as maker
from program import tenplex

TAG = "global_step2_universal"


def read(path: Path) -> Any:
    return torch.load(path, weights_only=False)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("deepspeed-pipeline-tensor")
    maker.launch("save", 4, {"stages": 2, "tensor_ranks": 2, "folder": str(folder)})
    deepspeed.make_universal(folder / "checkpoint" / maker.TAG, folder / "universal" / "library")
    return folder


def expected_tensors(before: Mapping[str, torch.Tensor], buffers: bool = True) -> dict[str, torch.Tensor]:
    expected = {f"{layer}.seen": torch.tensor([3, 5]) for layer in (1, 2) if buffers}
    for name, tensor in before.items():
        parameter, _, slot = name.rpartition(".exp_avg")
        if parameter:
            expected[f"optimizer.state.exp_avg{slot}.{parameter}"] = tensor
        else:
            expected[name] = expected[f"optimizer.state.fp32_param.{name}"] = tensor
    return expected


@pytest.mark.parametrize("source", ["checkpoint", "universal"])
def test_every_element_is_read(source: str, run: Path, tmp_path: Path, wrote_by: Callable[[str], None]) -> None:
    """In ds_to_universal's the buffers of a pipeline are not."""
    wrote_by("deepspeed")
    tenplex("reshard", run / source, tmp_path / "whole.pt", "--format", "torch")
    state = read(tmp_path / "whole.pt")
    common = state.pop("common")
    assert_same_tensors(expected_tensors(read(run / "before.pt"), source == "checkpoint"), state)
    model = common["model_states"]
    assert model["checkpoint_parallel_dimensions"] == {"pp_degree": 1, "tp_degree": 1}
    shapes = {name: shape for group in model["param_shapes"] for name, shape in group.items()}
    assert shapes == {name: state[name].shape for name in shapes}
    assert common["parameters"][maker.TIED] == {"vocab_tensor": True}


def test_universal_checkpoint_is_that_of_ds_to_universal(
    run: Path, tmp_path: Path, wrote_by: Callable[[str], None]
) -> None:
    wrote_by("deepspeed")
    tenplex("reshard", run / "checkpoint", tmp_path / "out", "--format", "deepspeed", "--verify")
    tenplex("verify", run / "checkpoint", tmp_path / "out")
    ours, library = tmp_path / "out" / TAG / "zero", run / "universal" / "library" / "zero"
    theirs = {str(path.relative_to(library)): path for path in library.rglob("*.pt")}
    assert set(theirs) == {str(path.relative_to(ours)) for path in ours.rglob("*.pt")}
    for name in set(theirs) - {"optimizer_state.pt"}:
        one, other = read(theirs[name]), read(ours / name)
        if name.endswith("step.pt"):
            assert_same_tensor(one, other, name)
            continue
        assert_same_tensor(one.pop("param"), other.pop("param"), name)
        one.setdefault("cat_dim", 0)
        assert one == other, name


@pytest.mark.parametrize(("stages", "tensor_ranks", "ranks"), [(2, 2, 4), (1, 2, 2), (4, 1, 4), (1, 1, 2)])
def test_deepspeed_loads_the_universal_checkpoint_and_trains_on(
    stages: int, tensor_ranks: int, ranks: int, run: Path, tmp_path: Path, wrote_by: Callable[[str], None]
) -> None:
    wrote_by("deepspeed")
    tenplex("reshard", run / "checkpoint", tmp_path / "ours", "--format", "deepspeed")
    arguments = {"stages": stages, "tensor_ranks": tensor_ranks, "checkpoint": str(tmp_path / "ours")}
    maker.launch("resume", ranks, {**arguments, "result": str(tmp_path)})
    assert_same_tensors(read(run / "before.pt"), read(tmp_path / "loaded.pt"))
    expected, found = read(run / "after.pt"), read(tmp_path / "after.pt")
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor, rtol=2e-6, atol=2e-7, msg=name)
