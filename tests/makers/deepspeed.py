# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""A small model trained by DeepSpeed's ZeRO stages 1 to 3 on a CPU, and its universal checkpoint.

float32 and torch's Adam: neither needs DeepSpeed's compiled operations. `save` trains two steps, saves, and writes the
whole parameters and moments beside the checkpoint; `resume` loads a checkpoint (its own, or a universal one) into a
fresh engine and does the same. `deepspeed` needs `hjson msgpack ninja psutil py-cpuinfo pydantic einops tqdm`.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

TAG = "step2"


class Model(nn.Module):
    """Odd sizes, so that parts of a flat group end inside a tensor; one frozen parameter; a buffer.

    No rank of 2, 3 or 4 holds nothing but padding of a group: DeepSpeed 0.19.8 could not load a universal checkpoint.
    """

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(13, 7)
        self.up = nn.Linear(7, 13)
        self.down = nn.Linear(13, 7)
        self.norm = nn.LayerNorm(7)
        self.frozen = nn.Linear(7, 3, bias=False)
        self.frozen.weight.requires_grad_(False)
        self.register_buffer("seen", torch.tensor(3, dtype=torch.int64))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.words(tokens)
        return self.frozen(self.norm(x + self.down(torch.tanh(self.up(x)))))


def available() -> bool:
    return importlib.util.find_spec("deepspeed") is not None


def make_model(seed: int) -> Model:
    torch.manual_seed(seed)
    return Model()


def parameter_groups(model: nn.Module) -> list[dict[str, Any]]:
    """Three: matrices with weight decay, biases, the norm."""
    named = [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
    norm = [parameter for name, parameter in named if name.startswith("norm")]
    biases = [parameter for name, parameter in named if name.endswith("bias") and not name.startswith("norm")]
    matrices = [parameter for name, parameter in named if name.endswith("weight") and not name.startswith("norm")]
    return [
        {"params": matrices, "weight_decay": 0.1, "lr": 1e-2},
        {"params": biases, "weight_decay": 0.0, "lr": 1e-2},
        {"params": norm, "weight_decay": 0.0, "lr": 1e-3},
    ]


def make_engine(stage: int, seed: int, universal: bool = False, frozen: str = "") -> Any:
    """`frozen` is a file of whole_state() that the frozen parameter is taken from."""
    import deepspeed

    deepspeed.ops.__compatible_ops__.clear()  # so it compiles no faster all-reduce: gloo's does

    model = make_model(seed)
    if frozen:
        model.frozen.weight.data.copy_(torch.load(frozen)["frozen.weight"])
    config: dict[str, Any] = {
        "train_micro_batch_size_per_gpu": 6,
        "zero_allow_untested_optimizer": True,
        "zero_optimization": {"stage": stage, "stage3_param_persistence_threshold": 0},
    }
    if universal:
        config["checkpoint"] = {"load_universal": True}
    optimizer = torch.optim.Adam(parameter_groups(model), foreach=False)
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
    return engine


def train_step(engine: Any, step: int) -> None:
    generator = torch.Generator().manual_seed(1000 + step)
    tokens = torch.randint(0, 13, (6, 9), generator=generator)
    target = torch.randn(6, 9, 3, generator=generator)
    engine.backward(nn.functional.mse_loss(engine(tokens), target))
    engine.step()


def whole_state(engine: Any) -> dict[str, torch.Tensor]:
    """ "<parameter>" and, of a trained one, "<parameter>.exp_avg", "<parameter>.exp_avg_sq", whole and in float32."""
    from deepspeed.runtime.zero import GatheredParameters
    from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_optimizer_state

    if hasattr(engine.optimizer, "_hp_optimizer_states_linked"):  # 0.19.8 links the moments of the first group only
        engine.optimizer._hp_optimizer_states_linked = False
        engine.optimizer._lazy_init_hp_params_optimizer_state()
    state = {}
    for name, parameter in engine.module.named_parameters():
        if parameter.requires_grad:
            state[name] = safe_get_full_fp32_param(parameter).clone()
            for moment in ("exp_avg", "exp_avg_sq"):
                state[f"{name}.{moment}"] = safe_get_full_optimizer_state(parameter, moment).clone()
        else:
            with GatheredParameters([parameter], enabled=hasattr(parameter, "ds_id")):
                state[name] = parameter.detach().clone()
    return state


def save_state(state: dict[str, torch.Tensor], path: str) -> None:
    """On every rank; the first one writes."""
    if dist.get_rank() == 0:
        torch.save(state, path)


def save(stage: int, folder: str) -> None:
    """On every rank: `folder`/checkpoint, `folder`/before.pt with the state saved, after.pt with that one step later."""
    engine = make_engine(stage, seed=7)
    for step in range(2):
        train_step(engine, step)
    engine.save_checkpoint(f"{folder}/checkpoint", tag=TAG, client_state={"iteration": 2, "lr_scheduler_names": ["a"]})
    save_state(whole_state(engine), f"{folder}/before.pt")
    train_step(engine, 2)
    save_state(whole_state(engine), f"{folder}/after.pt")


def save_layers(folder: str, layers: int) -> None:
    """On every rank: `folder`/checkpoint of ZeRO-2 after one step, with `layers` matrices of 16 MiB."""
    import deepspeed

    deepspeed.ops.__compatible_ops__.clear()
    torch.manual_seed(7)
    model = nn.Sequential(*(nn.Linear(2048, 2048, bias=False) for _ in range(layers)))
    config = {
        "train_micro_batch_size_per_gpu": 1,
        "zero_allow_untested_optimizer": True,
        "zero_optimization": {"stage": 2},
    }
    engine, *_ = deepspeed.initialize(model=model, optimizer=torch.optim.Adam(model.parameters()), config=config)
    engine.backward(engine(torch.randn(1, 2048)).sum())
    engine.step()
    engine.save_checkpoint(f"{folder}/checkpoint", tag=TAG)


def resume(stage: int, checkpoint: str, result: str, universal: bool = False, frozen: str = "") -> None:
    """On every rank: loads, writes `result`/loaded.pt, trains a step, writes `result`/after.pt."""
    engine = make_engine(stage, seed=8, universal=universal, frozen=frozen)  # another start: what is not loaded shows
    path, _ = engine.load_checkpoint(checkpoint)
    assert path is not None, checkpoint
    save_state(whole_state(engine), f"{result}/loaded.pt")
    train_step(engine, 2)
    save_state(whole_state(engine), f"{result}/after.pt")


def launch(function: str, ranks: int, arguments: dict[str, Any], timeout_seconds: float = 240) -> None:
    """`save` or `resume` on `ranks` processes."""
    from makers.launch import run_ranks

    os.environ.update(DS_ACCELERATOR="cpu", LOCAL_RANK="0", MASTER_ADDR="127.0.0.1")
    run_ranks(f"makers.deepspeed:{function}", ranks, arguments, timeout_seconds)


def make_universal(checkpoint: Path, folder: Path, *options: str) -> Path:
    """`checkpoint` is the folder of a tag. By DeepSpeed's own script, in a process of its own."""
    command = ["-W", "ignore", "-m", "deepspeed.checkpoint.ds_to_universal", "--input_folder", str(checkpoint)]
    command += ["--output_folder", str(folder), "--num_extract_workers", "1", "--num_merge_workers", "1", *options]
    done = subprocess.run(
        [sys.executable, *command],
        env=dict(os.environ, DS_ACCELERATOR="cpu"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        timeout=240,
    )
    if done.returncode != 0:
        raise RuntimeError(f"ds_to_universal failed:\n{done.stdout.decode(errors='replace')[-6000:]}")
    return folder
