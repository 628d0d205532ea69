# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""A model with DeepSpeed's MoE layers, trained by ZeRO stages 0 to 2 on a CPU: 4 ranks, 2 of them expert parallel.

Rank r has experts 2 · (r mod 2) and the next; ranks 0 and 2, 1 and 3 have the same ones.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from makers import deepspeed

TAG = deepspeed.TAG
EXPERTS = 4
EXPERT_RANKS = 2
HIDDEN = 5


class Expert(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(HIDDEN, 7)
        self.down = nn.Linear(7, HIDDEN, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(torch.tanh(self.up(x)))


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        from deepspeed.moe.layer import MoE

        self.norm = nn.LayerNorm(HIDDEN)
        self.moe = MoE(
            HIDDEN,
            Expert(),
            num_experts=EXPERTS,
            ep_size=EXPERT_RANKS,
            k=1,
            drop_tokens=False,
            use_rts=False,
            use_residual=False,
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.moe(self.norm(x))[0]


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(13, HIDDEN)
        self.layers = nn.ModuleList([Layer(), Layer()])
        self.head = nn.Linear(HIDDEN, 3)
        self.register_buffer("seen", torch.tensor(3, dtype=torch.int64))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.words(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def make_engine(stage: int, seed: int) -> Any:
    import deepspeed as library
    from deepspeed.moe.utils import split_params_into_different_moe_groups_for_optimizer

    library.ops.__compatible_ops__.clear()
    torch.manual_seed(seed)
    model = Model()
    # Experts of other ranks start with other values.
    for name, parameter in model.named_parameters():
        if "deepspeed_experts" in name:
            generator = torch.Generator().manual_seed(
                sum(map(ord, name)) + 1000 * (dist.get_rank() % EXPERT_RANKS) + seed
            )
            parameter.data.copy_(torch.randn(parameter.shape, generator=generator) / 3)
    groups = [
        {"params": [p for p in model.parameters() if p.ndim > 1], "weight_decay": 0.1, "name": "matrices"},
        {"params": [p for p in model.parameters() if p.ndim <= 1], "weight_decay": 0.0, "name": "vectors"},
    ]
    optimizer = torch.optim.Adam(split_params_into_different_moe_groups_for_optimizer(groups), lr=1e-2, foreach=False)
    config: dict[str, Any] = {
        "train_micro_batch_size_per_gpu": 6,
        "zero_allow_untested_optimizer": True,
        "zero_optimization": {"stage": stage},
    }
    engine, *_ = library.initialize(model=model, optimizer=optimizer, config=config)
    return engine


def train_step(engine: Any, step: int) -> None:
    generator = torch.Generator().manual_seed(1000 + step)
    tokens = torch.randint(0, 13, (6, 9), generator=generator)
    target = torch.randn(6, 9, 3, generator=generator)
    engine.backward(nn.functional.mse_loss(engine(tokens), target))
    engine.step()


def whole_state(engine: Any) -> dict[str, torch.Tensor]:
    """As makers.deepspeed.whole_state(), with the experts of all ranks under their numbers in the whole model."""
    parts: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(parts, deepspeed.whole_state(engine))
    state = {}
    local = EXPERTS // EXPERT_RANKS
    for rank in range(EXPERT_RANKS):
        for name, value in parts[rank].items():
            before, found, after = name.partition("deepspeed_experts.")
            if found:
                number, _, rest = after.partition(".")
                name = f"{before}{found}{int(number) + rank * local}.{rest}"
            state[name] = value
    return state


def save(stage: int, folder: str) -> None:
    """On 4 ranks: as makers.deepspeed.save(), without after.pt."""
    engine = make_engine(stage, seed=7)
    for step in range(2):
        train_step(engine, step)
    engine.save_checkpoint(f"{folder}/checkpoint", tag=TAG, client_state={"iteration": 2})
    if stage:
        state = whole_state(engine)
        if dist.get_rank() == 0:
            torch.save(state, f"{folder}/before.pt")


def launch(function: str, ranks: int, arguments: dict[str, Any], timeout_seconds: float = 240) -> None:
    import os

    from makers.launch import run_ranks

    os.environ.update(DS_ACCELERATOR="cpu", LOCAL_RANK="0", MASTER_ADDR="127.0.0.1")
    run_ranks(f"makers.deepspeed_experts:{function}", ranks, arguments, timeout_seconds)
