# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""A whole training state in one `.pt` file: model, Adam, scheduler and the random states of torch, numpy and Python.

It goes .pt -> safetensors with objects -> DCP of two devices -> .pt, and training goes on as if nothing had happened.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from compare import TreeComparison, assert_same_tree
from makers import torch_file
from makers.training import make_model
from program import tenplex


class Run:
    """Training with randomness from three places and a learning rate that changes every step."""

    def __init__(self) -> None:
        torch.set_num_threads(1)
        self.model = make_model()
        trained = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        self.optimizer = torch.optim.AdamW(
            [{"params": trained[:2], "lr": 3e-3}, {"params": trained[2:], "betas": (0.8, 0.99)}], amsgrad=True
        )
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, T_max=7)
        self.steps = 0
        random.seed(21)
        np.random.seed(22)
        torch.manual_seed(23)

    def step(self) -> float:
        tokens = torch.from_numpy(np.random.randint(0, 37, (4, 9)))
        target = torch.randn(4, 9, 5) * random.gauss(1.0, 0.1)
        self.optimizer.zero_grad()
        loss = nn.functional.mse_loss(nn.functional.dropout(self.model(tokens), 0.2), target)
        loss.backward()
        self.optimizer.step()
        self.scheduler.step()
        self.steps += 1
        return loss.item()

    def state(self) -> dict[str, Any]:
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(),
            "random": {"python": random.getstate(), "numpy": np.random.get_state(), "torch": torch.get_rng_state()},
            "steps": self.steps,
        }

    def load(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scheduler.load_state_dict(state["scheduler"])
        random.setstate(state["random"]["python"])
        np.random.set_state(state["random"]["numpy"])
        torch.set_rng_state(state["random"]["torch"])
        self.steps = state["steps"]


def test_training_goes_on_after_every_format(tmp_path: Path, wrote_by: Callable[[str], None]) -> None:
    wrote_by("torch")
    run = Run()
    for _ in range(3):
        run.step()
    source = torch_file.save(run.state(), tmp_path / "in.pt")
    before = torch_file.load(source)
    losses = [run.step(), run.step()]
    after = torch_file.load(torch_file.save(run.state(), tmp_path / "after.pt"))

    objects = ("--objects", tmp_path / "objects")
    tenplex("reshard", source, tmp_path / "one.safetensors", *objects, "--verify")
    cut = ("--layout", "fsdp", "--to", "fsdp=2")
    tenplex("reshard", tmp_path / "one.safetensors", tmp_path / "two", "--format", "dcp", *cut, *objects, "--verify")
    tenplex("reshard", tmp_path / "two", tmp_path / "out.pt", "--verify")
    tenplex("verify", source, tmp_path / "out.pt")

    found = torch_file.load(tmp_path / "out.pt")
    TreeComparison(strides=True).compare(before, found)
    moments = [entry for slot in found["optimizer"]["state"].values() for entry in slot]
    assert set(moments) == {"step", "exp_avg", "exp_avg_sq", "max_exp_avg_sq"}

    resumed = Run()
    resumed.step()  # other weights, moments and random states, all of which load() must replace
    resumed.load(found)
    assert [resumed.step(), resumed.step()] == losses
    assert_same_tree(after, torch_file.load(torch_file.save(resumed.state(), tmp_path / "resumed.pt")))
