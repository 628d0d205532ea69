# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""A small model trained by FSDP2, by tensor parallelism x FSDP2, and by one process, saved with PyTorch DCP.

Every rank sees the same batch, so that with a power-of-two number of FSDP ranks the mean of the gradients is exact and
runs of different world sizes must agree bit for bit.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.nn.functional as F
from torch import nn
from torch.distributed.checkpoint.default_planner import _EmptyStateDictLoadPlanner
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter, SerializationFormat
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.checkpoint.state_dict_loader import _load_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

STEPS_BEFORE_SAVE = 2


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(24)
        self.up = nn.Linear(24, 40)
        self.down = nn.Linear(40, 24)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.tanh(self.up(self.norm(x))))


class Model(nn.Module):
    """37 words (divisible by nothing), 2 blocks, a rank-0 buffer and a frozen parameter."""

    seen: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(37, 24)
        self.blocks = nn.ModuleList([Block(), Block()])
        self.frozen = nn.Linear(24, 5, bias=False)
        self.frozen.weight.requires_grad_(False)
        self.register_buffer("seen", torch.tensor(3, dtype=torch.int64))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.words(tokens)
        for block in self.blocks:
            x = block(x)
        return self.frozen(x)


def make_model() -> Model:
    torch.manual_seed(7)
    return Model()


def make_optimizer(model: nn.Module) -> torch.optim.Adam:
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return torch.optim.Adam(trained, lr=1e-2, foreach=False)


def train_step(model: nn.Module, optimizer: torch.optim.Optimizer, step: int) -> None:
    generator = torch.Generator().manual_seed(1000 + step)
    tokens = torch.randint(0, 37, (6, 9), generator=generator)
    target = torch.randn(6, 9, 5, generator=generator)
    optimizer.zero_grad()
    F.mse_loss(model(tokens), target).backward()
    optimizer.step()


def shard(model: Model, mesh: Any) -> None:
    for module in [*model.blocks, model]:
        fully_shard(module, mesh=mesh)
        assert isinstance(module, FSDPModule)
        module.set_force_sum_reduction_for_comms(True)


def build(kind: str) -> tuple[Model, torch.optim.Adam]:
    """`kind`: "fsdp" over the world, or "tp_fsdp": tensor parallel 2, the rest FSDP."""
    model = make_model()
    world_size = dist.get_world_size()
    if kind == "fsdp":
        shard(model, init_device_mesh("cpu", (world_size,), mesh_dim_names=("fsdp",)))
    else:
        mesh = init_device_mesh("cpu", (world_size // 2, 2), mesh_dim_names=("fsdp", "tp"))
        for block in model.blocks:
            parallelize_module(block, mesh["tp"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
        shard(model, mesh["fsdp"])
    return model, make_optimizer(model)


def objects() -> dict[str, Any]:
    """State that is no tensor, as training scripts keep it."""
    random.seed(5)
    np.random.seed(6)
    return {
        "step": STEPS_BEFORE_SAVE,
        "loss": 0.1,
        "args": argparse.Namespace(lr=1e-2, names=["a", "b"], nested={"deep": (1, None, True)}),
        "scheduler": {"last_epoch": 2, "_last_lr": [0.01], "base_lrs": [0.01], "verbose": False},
        "random": {"python": random.getstate(), "numpy": np.random.get_state(), "torch": torch.get_rng_state()},
    }


def checkpoint_state(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    model_state, optimizer_state = get_state_dict(model, optimizer)
    return {"model": model_state, "optim": optimizer_state}


def whole(state: Any) -> Any:
    """The same nested state with every DTensor gathered."""
    if isinstance(state, DTensor):
        return state.full_tensor().clone()
    if isinstance(state, torch.Tensor):
        return state.clone()
    if isinstance(state, dict):
        return {key: whole(value) for key, value in state.items()}
    if isinstance(state, list):
        return [whole(value) for value in state]
    return state


def _save_whole(state: Any, path: str) -> None:
    gathered = whole(state)
    if dist.get_rank() == 0:
        torch.save(gathered, path)


def save(kind: str, folder: str, payload: str = "torch_save", with_objects: bool = True) -> None:
    """Trains two steps and saves `folder`/checkpoint; then one more. Whole copies of both states go beside it."""
    model, optimizer = build(kind)
    for step in range(STEPS_BEFORE_SAVE):
        train_step(model, optimizer, step)
    state = checkpoint_state(model, optimizer)
    if with_objects:
        state |= objects()
    serialization = SerializationFormat.SAFETENSORS if payload == "safetensors" else SerializationFormat.TORCH_SAVE
    writer = FileSystemWriter(f"{folder}/checkpoint", serialization_format=serialization)
    dcp.save(state, storage_writer=writer)
    _save_whole(state, f"{folder}/before.pt")
    train_step(model, optimizer, STEPS_BEFORE_SAVE)
    _save_whole(checkpoint_state(model, optimizer), f"{folder}/after.pt")


def resume(kind: str, checkpoint: str, result: str) -> None:
    """Loads `checkpoint` into a fresh model, trains one step and saves the whole state to `result`."""
    model, optimizer = build(kind)
    state = checkpoint_state(model, optimizer)
    dcp.load(state, checkpoint_id=checkpoint)
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optim"])
    train_step(model, optimizer, STEPS_BEFORE_SAVE)
    _save_whole(checkpoint_state(model, optimizer), result)


def resume_alone(checkpoint: Path) -> dict[str, Any]:
    """The same in this process, without a process group. One thread, as the ranks have: sums keep their order."""
    torch.set_num_threads(1)
    model = make_model()
    optimizer = make_optimizer(model)
    state = checkpoint_state(model, optimizer)
    dcp.load(state, checkpoint_id=str(checkpoint), no_dist=True)
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optim"])
    train_step(model, optimizer, STEPS_BEFORE_SAVE)
    return whole(checkpoint_state(model, optimizer))


def load_whole(checkpoint: Path) -> dict[str, Any]:
    """Everything in a DCP folder, as torch reads it, nested as it was saved."""
    state: dict[str, Any] = {}
    reader = FileSystemReader(str(checkpoint))
    _load_state_dict(state, storage_reader=reader, planner=_EmptyStateDictLoadPlanner(), no_dist=True)
    return state


def load_into_plain_tensors(checkpoint: Path) -> dict[str, torch.Tensor]:
    """Every tensor of a DCP folder by its flat name, through dcp.load into empty tensors."""
    metadata = FileSystemReader(str(checkpoint)).read_metadata()
    state = {
        name: torch.empty(entry.size, dtype=entry.properties.dtype)
        for name, entry in metadata.state_dict_metadata.items()
        if hasattr(entry, "chunks")
    }
    dcp.load(state, checkpoint_id=str(checkpoint), no_dist=True)
    return state
