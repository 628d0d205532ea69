# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""Given tensors as a Megatron-Core checkpoint (`torch_dist`): the library's dist_checkpointing.save, on one rank."""

from __future__ import annotations

import argparse
from typing import Any

import torch

import makers.megatron_ranks  # noqa: F401  what the library needs to save without CUDA


def save(tensors: str, folder: str, steps: int) -> None:
    """`tensors` is a file of torch.save. Beside them stands what Megatron-LM has: arguments, iteration, optimizer."""
    from megatron.core import dist_checkpointing
    from megatron.core.dist_checkpointing import ShardedTensor

    state: dict[str, Any] = {
        name: ShardedTensor.from_rank_offsets(name, tensor)
        for name, tensor in torch.load(tensors, weights_only=True).items()
    }
    state["args"] = argparse.Namespace(num_attention_heads=8, num_query_groups=4)
    state["iteration"] = steps
    state["optimizer"] = {"optimizer": {"param_groups": [{"lr": 1e-3, "step": steps}, {"lr": 1e-4, "step": steps}]}}
    dist_checkpointing.save(state, folder)
