# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""Models to plan for without a checkpoint: docs/models.md, `tenplex models`, `tenplex plan --model`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, BertConfig, BertForPreTraining, GPT2Config, LlamaConfig, MixtralConfig

from program import ROOT, tenplex, tenplex_json

TEXT = (ROOT / "docs/models.md").read_text()
BLOCKS = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)


def gpt(width: int, layers: int, heads: int) -> GPT2Config:
    return GPT2Config(n_embd=width, n_layer=layers, n_head=heads, n_positions=2048, vocab_size=50257)


def llama(width: int, layers: int, heads: int, ffn: int) -> LlamaConfig:
    return LlamaConfig(
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=8,
        intermediate_size=ffn,
        vocab_size=128256,
        tie_word_embeddings=False,
    )


CONFIGS = {
    "gpt3-xl": gpt(2048, 24, 16),
    "gpt3-2.7b": gpt(2560, 32, 32),
    "gpt3-6.7b": gpt(4096, 32, 32),
    "llama-8b": llama(4096, 32, 32, 14336),
    "llama-70b": llama(8192, 80, 64, 28672),
    "mixtral-8x7b": MixtralConfig(
        hidden_size=4096,
        num_hidden_layers=32,
        num_attention_heads=32,
        num_key_value_heads=8,
        intermediate_size=14336,
        vocab_size=32000,
        num_local_experts=8,
        tie_word_embeddings=False,
    ),
}


def parameters(name: str) -> int:
    return next(entry["parameters"] for entry in tenplex_json("models", "list") if entry["name"] == name)


@pytest.mark.parametrize("name", CONFIGS)
def test_models_have_as_many_parameters_as_in_transformers(name: str) -> None:
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(CONFIGS[name])
    assert parameters(name) == sum(parameter.numel() for parameter in model.parameters())


def test_bert_large_has_as_many_parameters_as_in_transformers() -> None:
    config = BertConfig(
        hidden_size=1024,
        num_hidden_layers=24,
        num_attention_heads=16,
        intermediate_size=4096,
        vocab_size=30522,
        tie_word_embeddings=True,
    )
    with torch.device("meta"):
        model = BertForPreTraining(config)
    model.tie_weights()
    assert parameters("bert-large") == sum(parameter.numel() for parameter in model.parameters())


def test_table_names_the_built_in_models() -> None:
    rows = re.findall(r"^\| `([^`]+)` \| ([\d,]+) \|", TEXT, re.MULTILINE)
    listed = {entry["name"]: entry["parameters"] for entry in tenplex_json("models", "list")}
    assert {name: int(count.replace(",", "")) for name, count in rows} == listed
    for name in listed:
        assert tenplex("models", "show", name).out == (ROOT / f"models/{name}.yaml").read_text()


@pytest.mark.parametrize("block", BLOCKS)
def test_every_example_is_a_model(block: str, tmp_path: Path) -> None:
    (tmp_path / "my.yaml").write_text(block)
    shown = tenplex_json("models", "show", tmp_path / "my.yaml")
    tensors = {tensor["name"]: (tensor["dtype"], tensor["shape"]) for tensor in shown["tensors"]}
    assert tensors["optimizer.state.exp_avg.layers.11.up.weight"] == ("float32", [3072, 768])
    assert "optimizer.state.exp_avg.seen" not in tensors


@pytest.mark.parametrize("name", ["bert-large", *CONFIGS])
def test_a_plan_without_a_checkpoint_moves_bytes_that_are_known(name: str) -> None:
    """A second copy: weights in two bytes, three slots in four."""
    plan = tenplex_json("plan", "--model", name, "--from", "tp=1", "--to", "tp=1,dp=2")
    assert plan["bytes_in"] == 14 * parameters(name)


def test_the_example_plans() -> None:
    run = tenplex("plan", "--model", "gpt3-xl", "--from", "tp=2,pp=4,dp=2", "--to", "tp=4,pp=4,dp=1")
    assert "16 devices" in run.out
    zero = tenplex("plan", "--model", "gpt3-xl", "--layout", "megatron-gpt+zero1", "--from", "dp=2", "--to", "dp=4")
    assert "4 devices" in zero.out


def test_a_plan_needs_a_source_or_a_model(tmp_path: Path) -> None:
    assert "source is required" in tenplex("plan", "--to", "tp=2", exit_code=2).err
    assert "excludes" in tenplex("plan", tmp_path, "--model", "gpt3-xl", exit_code=2).err.lower()
    assert "there are bert-large" in tenplex("plan", "--model", "gpt5", exit_code=1).err
    run = tenplex("plan", "--model", "gpt3-xl", "--to", "tp=2", "--sizes", "heads=3", exit_code=1)
    assert "layout 'megatron-gpt' has no size 'heads'" in run.err
