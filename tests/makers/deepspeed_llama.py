# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""A tiny Llama of transformers, trained by DeepSpeed's ZeRO-2 on a CPU: a model with the names of Hugging Face."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

TAG = "step2"


def make_engine() -> Any:
    import deepspeed
    from transformers import AutoModelForCausalLM

    from makers.hugging_face import make_config

    deepspeed.ops.__compatible_ops__.clear()
    torch.manual_seed(3)
    model = AutoModelForCausalLM.from_config(make_config("llama"), dtype=torch.float32)
    config = {
        "train_micro_batch_size_per_gpu": 2,
        "zero_allow_untested_optimizer": True,
        "zero_optimization": {"stage": 2},
    }
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, foreach=False)
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
    return engine


def train_step(engine: Any, step: int) -> None:
    tokens = torch.randint(0, 256, (2, 8), generator=torch.Generator().manual_seed(step))
    engine.backward(engine(input_ids=tokens, labels=tokens).loss)
    engine.step()


def save_whole(engine: Any, path: str) -> None:
    from makers.deepspeed import whole_state

    state = whole_state(engine)
    if dist.get_rank() == 0:
        torch.save(state, path)


def save(folder: str) -> None:
    """On every rank: `folder`/checkpoint, and `folder`/before.pt with the state saved."""
    engine = make_engine()
    for step in range(2):
        train_step(engine, step)
    engine.save_checkpoint(f"{folder}/checkpoint", tag=TAG)
    save_whole(engine, f"{folder}/before.pt")
