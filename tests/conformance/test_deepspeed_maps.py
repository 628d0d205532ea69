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
