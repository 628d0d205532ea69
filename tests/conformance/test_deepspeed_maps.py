# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""A model of transformers that DeepSpeed trained, under Megatron-Core's names and back, with the optimizer's slots."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from compare import assert_same_tensors
from makers import deepspeed_llama
from makers.launch import run_ranks
from program import tenplex
from stored_megatron import sizes_of

SIZES = ("--sizes", "heads=8,groups=4")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("deepspeed-llama")
    os.environ.update(DS_ACCELERATOR="cpu", LOCAL_RANK="0", MASTER_ADDR="127.0.0.1")
    run_ranks("makers.deepspeed_llama:save", 2, {"folder": str(folder)})
    return folder


def expected(run: Path) -> dict[str, torch.Tensor]:
    """Under the names that Tenplex gives: the parameter, its master (the same, in float32), and two moments."""
    named = {}
    for name, tensor in torch.load(run / "before.pt", weights_only=True).items():
        parameter, dot, slot = name.rpartition(".exp_avg")
        if dot:
            named[f"optimizer.state.exp_avg{slot}.{parameter}"] = tensor
        else:
            named[name] = named[f"optimizer.state.fp32_param.{name}"] = tensor
    return named


def test_to_megatron_core_and_back(run: Path, tmp_path: Path, wrote_by: Callable[[str], None]) -> None:
    wrote_by("deepspeed")
    options = ("--map", "hf-llama", "--only", "tensors", *SIZES)
    target = ("--format", "megatron-dist", "--layout", "megatron-gpt", "--to", "tp=2")
    done = tenplex("reshard", run / "checkpoint", tmp_path / "megatron", *target, *options, "--verify")
    assert "shared" not in done.err, "parameters side by side in a flat buffer share nothing"
    assert "optimizer.state.exp_avg.decoder.layers.0.self_attention.linear_qkv.weight" in sizes_of(
        tmp_path / "megatron"
    )
    tenplex("reshard", tmp_path / "megatron", tmp_path / "back.pt", *options, "--verify")
    assert_same_tensors(expected(run), torch.load(tmp_path / "back.pt", weights_only=True))


def test_the_model_alone_has_the_names_of_hugging_face(
    run: Path, tmp_path: Path, wrote_by: Callable[[str], None]
) -> None:
    wrote_by("deepspeed")
    tenplex("reshard", run / "checkpoint", tmp_path / "model.pt", "--only", "model,tensors")
    found = torch.load(tmp_path / "model.pt", weights_only=True)
    wanted = expected(run)
    assert_same_tensors({name: wanted[name] for name in wanted if not name.startswith("optimizer.")}, found)


def resume(checkpoint: Path, result: Path, stage: int, groups: int, fresh: bool = False) -> None:
    arguments = {"stage": stage, "groups": groups, "checkpoint": str(checkpoint), "fresh": fresh}
    run_ranks("makers.deepspeed_llama:resume", 2, {**arguments, "result": str(result)})


def check_step(before: dict[str, torch.Tensor], result: Path, groups: int, steps: int) -> None:
    found = torch.load(result / "after.pt", weights_only=True)
    for name, tensor in deepspeed_llama.step_by_torch(before, groups, steps).items():
        torch.testing.assert_close(found[name], tensor, rtol=2e-5, atol=1e-7, msg=name)


def check_resumed(run: Path, result: Path, groups: int) -> None:
    before = torch.load(run / "before.pt", weights_only=True)
    assert_same_tensors(before, torch.load(result / "loaded.pt", weights_only=True))
    check_step(before, result, groups, 2)


@pytest.fixture(scope="module")
def megatron(run: Path) -> Path:
    """What the library of Megatron-Core saved of the same state under its own names."""
    torch.save(expected(run), run / "hugging-face.pt")
    tenplex("reshard", run / "hugging-face.pt", run / "named.pt", "--map", "hf-llama", *SIZES)
    (run / "megatron").mkdir()
    arguments = {"tensors": str(run / "named.pt"), "folder": str(run / "megatron"), "steps": 2}
    run_ranks("makers.megatron_saved:save", 1, arguments)
    return run / "megatron"


@pytest.mark.parametrize(("stage", "groups"), [(1, 1), (2, 3), (3, 1)])
def test_from_megatron_core_to_an_engine_that_trains_on(
    stage: int, groups: int, run: Path, megatron: Path, tmp_path: Path, wrote_by: Callable[[str], None]
) -> None:
    """The number of steps is that in Megatron-Core's groups of parameters."""
    wrote_by("megatron-core")
    tenplex("reshard", megatron, tmp_path / "universal", "--map", "hf-llama", "--format", "deepspeed", "--verify")
    resume(tmp_path / "universal", tmp_path, stage, groups)
    check_resumed(run, tmp_path, groups)
    model = torch.load(
        tmp_path / "universal" / "global_step2_universal" / "mp_rank_00_model_states.pt", weights_only=False
    )
    assert model["global_steps"] == 2
    assert model["tenplex_common"]["args"].num_attention_heads == 8


def test_from_tensors_alone_with_the_number_of_steps_given(
    run: Path, megatron: Path, tmp_path: Path, wrote_by: Callable[[str], None]
) -> None:
    wrote_by("megatron-core")
    options = ("--map", "hf-llama", "--format", "deepspeed", "--only", "tensors", *SIZES)
    done = tenplex("reshard", megatron, tmp_path / "universal", *options, exit_code=1)
    assert "--optimizer-steps" in done.err
    tenplex("reshard", megatron, tmp_path / "universal", *options, "--optimizer-steps", 2, "--verify")
    resume(tmp_path / "universal", tmp_path, 2, 1)
    check_resumed(run, tmp_path, 1)


def test_from_torch_with_a_step_for_every_parameter(run: Path, tmp_path: Path, wrote_by: Callable[[str], None]) -> None:
    """And without masters: those are the parameters."""
    wrote_by("torch")
    state = {name: tensor for name, tensor in expected(run).items() if ".fp32_param." not in name}
    for name in [name for name in state if not name.startswith("optimizer.")]:
        state[f"optimizer.state.step.{name}"] = torch.tensor(2.0)
    torch.save(state, tmp_path / "in.pt")
    tenplex("reshard", tmp_path / "in.pt", tmp_path / "universal", "--format", "deepspeed", "--verify")
    resume(tmp_path / "universal", tmp_path, 1, 2)
    check_resumed(run, tmp_path, 2)


@pytest.mark.parametrize(("stage", "dtype"), [(1, torch.bfloat16), (2, torch.float32)])
def test_weights_of_hugging_face_are_loaded(
    stage: int, dtype: torch.dtype, tmp_path: Path, wrote_by: Callable[[str], None]
) -> None:
    """The optimizer stays as the program made it. Stage 3 of DeepSpeed 0.19.8 loads nothing without moments."""
    wrote_by("transformers")
    model = deepspeed_llama.make_model(5).to(dtype)
    model.save_pretrained(tmp_path / "model")
    options = ("--format", "deepspeed", "--drop-extra-files", "--verify")
    tenplex("reshard", tmp_path / "model", tmp_path / "universal", *options)
    resume(tmp_path / "universal", tmp_path, stage, 2, fresh=True)
    before = {}
    for name, parameter in model.named_parameters():
        before[name] = parameter.detach().float()
        for moment in ("exp_avg", "exp_avg_sq"):
            before[f"{name}.{moment}"] = torch.zeros_like(before[name])
    check_step(before, tmp_path, 2, 0)
