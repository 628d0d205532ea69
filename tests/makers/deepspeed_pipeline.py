# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""A small PipelineModule trained by DeepSpeed on a CPU without ZeRO and with stage 1, over stages × data parallel ranks.

Odd sizes, a tied module in the first and the last layer with a parameter that is not tied, a layer that is a function and has no file, a frozen
parameter, a buffer. Every data parallel rank has the same batches, so that any mesh trains as any other does.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from makers import deepspeed

TAG = deepspeed.TAG
HIDDEN = 7
WORDS = 13
TIED = "tied_modules.embed.weight"


class Block(nn.Module):
    def __init__(self, frozen: bool = False) -> None:
        super().__init__()
        self.up = nn.Linear(HIDDEN, 11)
        self.down = nn.Linear(11, HIDDEN)
        if frozen:
            self.frozen = nn.Linear(HIDDEN, HIDDEN, bias=False)
            self.frozen.weight.requires_grad_(False)
            self.register_buffer("seen", torch.tensor([3, 5], dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x + self.down(torch.tanh(self.up(x)))
        return y + self.frozen(x) if hasattr(self, "frozen") else y


class Words(nn.Module):
    """`offset` is for the first layer alone: that of the last stage is another, which is never trained."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(WORDS, HIDDEN))
        self.offset = nn.Parameter(torch.randn(HIDDEN))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return nn.functional.embedding(tokens, self.weight) + self.offset


def logits(module: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return x @ module.weight.t()


def double(x: torch.Tensor) -> torch.Tensor:
    return 2 * x


def loss_of(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(output.reshape(-1, WORDS), target.reshape(-1))


class Whole(nn.Module):
    """The same model, with the names that it has in a pipeline and without one."""

    def __init__(self) -> None:
        super().__init__()
        self.tied_modules = nn.ModuleDict({"embed": Words()})
        for name, module in {"1": Block(), "3": Block(frozen=True), "4": nn.LayerNorm(HIDDEN)}.items():
            self.add_module(name, module)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = double(getattr(self, "1")(self.tied_modules["embed"](tokens)))
        return logits(self.tied_modules["embed"], getattr(self, "4")(getattr(self, "3")(x)))


def make_pipeline(stages: int) -> nn.Module:
    from deepspeed.pipe import LayerSpec, PipelineModule, TiedLayerSpec

    layers = [
        TiedLayerSpec("embed", Words),
        LayerSpec(Block),
        double,
        LayerSpec(Block, frozen=True),
        LayerSpec(nn.LayerNorm, HIDDEN),
        TiedLayerSpec("embed", Words, forward_fn=logits),
    ]
    return PipelineModule(layers, num_stages=stages, loss_fn=loss_of, partition_method="uniform")


def groups_of(model: nn.Module) -> list[dict[str, Any]]:
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return [
        {"params": [parameter for parameter in trained if parameter.ndim > 1], "weight_decay": 0.1},
        {"params": [parameter for parameter in trained if parameter.ndim == 1], "weight_decay": 0.0},
    ]


def make_engine(zero: int, stages: int, seed: int, universal: bool = False, frozen: str = "") -> Any:
    """`stages` 0: no pipeline. `frozen` is a file of whole_state() that the frozen parameter is taken from."""
    import deepspeed as library

    library.ops.__compatible_ops__.clear()
    library.init_distributed("gloo")
    torch.manual_seed(seed)
    model = make_pipeline(stages) if stages else Whole()
    if frozen:
        for name, parameter in model.named_parameters():
            if not parameter.requires_grad:
                parameter.data.copy_(torch.load(frozen)[name])
    config: dict[str, Any] = {
        "train_micro_batch_size_per_gpu": 3,
        "gradient_accumulation_steps": 2,
        "zero_allow_untested_optimizer": True,
        "zero_optimization": {"stage": zero},
    }
    if universal:
        config["checkpoint"] = {"load_universal": True}
    adam = torch.optim.Adam(groups_of(model), lr=1e-2, foreach=False)
    engine, *_ = library.initialize(model=model, optimizer=adam, config=config)
    return engine


def batches(step: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(1000 + step)
    for _ in range(2):
        tokens = torch.randint(0, WORDS, (3, 5), generator=generator)
        yield tokens, torch.randint(0, WORDS, (3, 5), generator=generator)


def train_step(engine: Any, step: int) -> float:
    """The loss before it."""
    if hasattr(engine, "train_batch"):
        return float(engine.train_batch(batches(step)))
    losses = []
    for tokens, target in batches(step):
        losses.append(loss_of(engine(tokens), target))
        engine.backward(losses[-1])
        engine.step()
    return float(torch.stack(losses).mean())


def part_of_state(engine: Any) -> dict[str, torch.Tensor]:
    if engine.zero_optimization():
        return deepspeed.whole_state(engine)
    state = {}
    for name, parameter in engine.module.named_parameters():
        state[name] = parameter.detach().clone()
        for moment in ("exp_avg", "exp_avg_sq") if parameter.requires_grad else ():
            state[f"{name}.{moment}"] = engine.optimizer.state[parameter][moment].clone()
    return state


def save_whole(engine: Any, path: str, loss: float = 0) -> None:
    """The parameters and moments of all stages as makers.deepspeed.whole_state() has them, and the loss."""
    parts: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(parts, part_of_state(engine))
    state: dict[str, torch.Tensor] = {}
    for part in parts:
        for name, tensor in part.items():
            assert torch.equal(state.setdefault(name, tensor), tensor) or ".offset" in name, name
    deepspeed.save_state({**state, "loss": torch.tensor(loss)}, path)


def save(zero: int, stages: int, folder: str) -> None:
    """On every rank: as makers.deepspeed.save()."""
    engine = make_engine(zero, stages, 7)
    for step in range(2):
        train_step(engine, step)
    client = {
        "iteration": 2,
        "universal_checkpoint_info": {
            "universal_checkpoint_version": 0.4,
            "pipeline_replicated_parameter_patterns": [r"tied_modules\.embed"],
        },
    }
    engine.save_checkpoint(f"{folder}/checkpoint", tag=TAG, client_state=client)
    save_whole(engine, f"{folder}/before.pt")
    loss = train_step(engine, 2)
    save_whole(engine, f"{folder}/after.pt", loss)


def resume(zero: int, stages: int, checkpoint: str, result: str, frozen: str) -> None:
    """On every rank: loads a universal checkpoint, writes `result`/loaded.pt, trains a step, writes `result`/after.pt."""
    engine = make_engine(zero, stages, 8, universal=True, frozen=frozen)
    path, _ = engine.load_checkpoint(checkpoint)
    assert path is not None, checkpoint
    save_whole(engine, f"{result}/loaded.pt")
    loss = train_step(engine, 2)
    save_whole(engine, f"{result}/after.pt", loss)


def launch(function: str, ranks: int, arguments: dict[str, Any], timeout_seconds: float = 240) -> None:
    from makers.launch import run_ranks

    os.environ.update(DS_ACCELERATOR="cpu", LOCAL_RANK="0", MASTER_ADDR="127.0.0.1")
    run_ranks(f"makers.deepspeed_pipeline:{function}", ranks, arguments, timeout_seconds)
