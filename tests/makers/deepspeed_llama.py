# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""A tiny Llama of transformers, trained by DeepSpeed's ZeRO on a CPU: a model with the names of Hugging Face."""

from __future__ import annotations

from typing import Any

import torch

from makers import deepspeed

TAG = "step2"


def make_model(seed: int) -> Any:
    from transformers import AutoModelForCausalLM

    from makers.hugging_face import make_config

    torch.manual_seed(seed)
    return AutoModelForCausalLM.from_config(make_config("llama"), dtype=torch.float32)


def make_optimizer(model: Any, groups: int) -> torch.optim.Adam:
    """Every n-th parameter is in the same group; what the groups differ in is their learning rate."""
    parameters = list(model.parameters())
    settings = [{"params": parameters[number::groups], "lr": 1e-2 / (number + 1)} for number in range(groups)]
    return torch.optim.Adam(settings, foreach=False)


def make_engine(stage: int = 2, seed: int = 3, groups: int = 1, universal: bool = False) -> Any:
    import deepspeed as library

    library.ops.__compatible_ops__.clear()
    model = make_model(seed)
    config: dict[str, Any] = {
        "train_micro_batch_size_per_gpu": 2,
        "zero_allow_untested_optimizer": True,
        "zero_optimization": {"stage": stage, "stage3_param_persistence_threshold": 0},
        "gradient_clipping": 0.0,
    }
    if universal:
        config["checkpoint"] = {"load_universal": True}
    engine, *_ = library.initialize(model=model, optimizer=make_optimizer(model, groups), config=config)
    return engine


def loss_of(model: Any, step: int) -> torch.Tensor:
    tokens = torch.randint(0, 256, (2, 8), generator=torch.Generator().manual_seed(step))
    loss: torch.Tensor = model(input_ids=tokens, labels=tokens).loss
    return loss


def train_step(engine: Any, step: int) -> None:
    engine.backward(loss_of(engine, step))
    engine.step()


def save(folder: str) -> None:
    """On every rank: `folder`/checkpoint, and `folder`/before.pt with the state saved."""
    engine = make_engine()
    for step in range(2):
        train_step(engine, step)
    engine.save_checkpoint(f"{folder}/checkpoint", tag=TAG)
    deepspeed.save_state(deepspeed.whole_state(engine), f"{folder}/before.pt")


def resume(stage: int, groups: int, checkpoint: str, result: str, fresh: bool = False) -> None:
    """On every rank: loads a universal checkpoint, writes `result`/loaded.pt (not if the optimizer is `fresh`, which has
    no moments yet), trains a step, writes `result`/after.pt."""
    engine = make_engine(stage, 8, groups, universal=True)  # another start: what is not loaded shows
    path, _ = engine.load_checkpoint(checkpoint)
    assert path is not None, checkpoint
    if not fresh:
        deepspeed.save_state(deepspeed.whole_state(engine), f"{result}/loaded.pt")
    train_step(engine, 2)
    deepspeed.save_state(deepspeed.whole_state(engine), f"{result}/after.pt")


def step_by_torch(before: dict[str, torch.Tensor], groups: int, steps: int) -> dict[str, torch.Tensor]:
    """What whole_state() has to be a step after `before`, by torch's Adam alone."""
    model = make_model(8)
    optimizer = make_optimizer(model, groups)
    for name, parameter in model.named_parameters():
        parameter.data.copy_(before[name])
        moments = {moment: before[f"{name}.{moment}"].clone() for moment in ("exp_avg", "exp_avg_sq")}
        optimizer.state[parameter] = {"step": torch.tensor(float(steps)), **moments}
    loss_of(model, 2).backward()
    optimizer.step()
    after = {}
    for name, parameter in model.named_parameters():
        after[name] = parameter.detach()
        for moment in ("exp_avg", "exp_avg_sq"):
            after[f"{name}.{moment}"] = optimizer.state[parameter][moment]
    return after
