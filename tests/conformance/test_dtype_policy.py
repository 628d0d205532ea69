# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""`--dtype-policy cast:bf16` against torch's own conversion; without it dtypes stay."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from compare import assert_same_tensors
from makers import torch_file
from program import tenplex, tenplex_json


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_cast_rounds_as_torch_does(dtype: torch.dtype, tmp_path: Path, wrote_by: Callable[[str], None]) -> None:
    wrote_by("safetensors")
    values = torch_file.random_bits((400, 16), dtype, 3)
    values[0, :4] = torch.tensor([0.0, -0.0, float("inf"), -float("inf")])
    integers = torch.arange(9)
    save_file({"w": values, "count": integers}, tmp_path / "in.safetensors")
    options = ("--format", "safetensors", "--dtype-policy", "cast:bf16")
    tenplex("reshard", tmp_path / "in.safetensors", tmp_path / "out.safetensors", *options)
    found = load_file(tmp_path / "out.safetensors")
    expected = values.to(torch.bfloat16)
    number = ~expected.isnan()
    assert torch.equal(found["w"].isnan(), expected.isnan())
    assert_same_tensors({"w": expected[number], "count": integers}, {"w": found["w"][number], "count": found["count"]})


def test_types_that_are_not_cast_are_named(tmp_path: Path, wrote_by: Callable[[str], None]) -> None:
    wrote_by("torch")
    tensors = torch_file.every_dtype(without=torch_file.SAFETENSORS_CANNOT_HOLD)
    torch.save(tensors, tmp_path / "in.pt")
    options = ("--dtype-policy", "cast:fp32")
    report = tenplex_json("reshard", tmp_path / "in.pt", tmp_path / "out.safetensors", *options)
    left = [name for name in tensors if "float8" in name or "complex" in name]
    assert len(left) == 6
    assert report["not_cast"] == dict.fromkeys(left, 1)
    found = load_file(tmp_path / "out.safetensors")
    assert_same_tensors({name: tensors[name] for name in left}, {name: found[name] for name in left})
    for name in ("float16", "bfloat16", "float32", "float64"):
        assert found[name].dtype == torch.float32
    run = tenplex("reshard", tmp_path / "in.pt", tmp_path / "again.safetensors", *options)
    assert "not cast  1 × float8_e4m3fn\n" in run.out
    run = tenplex("reshard", tmp_path / "in.pt", tmp_path / "same.safetensors")
    assert "not cast" not in run.out


def test_verify_sees_the_cast(tmp_path: Path, wrote_by: Callable[[str], None]) -> None:
    wrote_by("safetensors")
    save_file({"w": torch.linspace(0, 1, 99)}, tmp_path / "in.safetensors")
    options = ("--format", "dcp", "--dtype-policy", "cast:bf16", "--layout", "fsdp", "--to", "fsdp=2", "--verify")
    tenplex("reshard", tmp_path / "in.safetensors", tmp_path / "out", *options)
    run = tenplex("verify", tmp_path / "in.safetensors", tmp_path / "out", exit_code=1)
    assert "bfloat16" in run.out + run.err


@pytest.fixture
def model(models: Callable[[str], Path]) -> Path:
    return models("llama")


def test_a_cast_model_says_its_new_type(model: Path, tmp_path: Path, wrote_by: Callable[[str], None]) -> None:
    """transformers loads what the configuration says, whatever the files hold."""
    wrote_by("transformers")
    before = (model / "config.json").read_text()
    stored = f'"{json.loads(before)["dtype"]}"'
    assert stored in ('"bfloat16"', '"float32"')
    assert before.count(stored) == 1
    tenplex("reshard", model, tmp_path / "out", "--format", "hf", "--dtype-policy", "cast:fp16", "--verify")
    assert (tmp_path / "out/config.json").read_text() == before.replace(stored, '"float16"')
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "out", dtype="auto")
    assert {tensor.dtype for tensor in loaded.state_dict().values()} == {torch.float16}
    tenplex("reshard", model, tmp_path / "same", "--format", "hf")
    assert (tmp_path / "same/config.json").read_text() == before


def test_a_model_that_is_not_cast_whole_keeps_its_configuration(
    tmp_path: Path, wrote_by: Callable[[str], None]
) -> None:
    wrote_by("safetensors")
    source = tmp_path / "model"
    source.mkdir()
    text = '{"torch_dtype": "float32"}'
    (source / "config.json").write_text(text)
    save_file({"w": torch.ones(4), "q": torch.ones(4).to(torch.float8_e4m3fn)}, source / "model.safetensors")
    run = tenplex("reshard", source, tmp_path / "out", "--dtype-policy", "cast:bf16")
    assert "'config.json' goes on naming" in run.err
    assert (tmp_path / "out/config.json").read_text() == text
