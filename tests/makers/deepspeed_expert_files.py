# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""As makers.deepspeed_files, of ZeRO-1 on 4 ranks with a MoE layer of 2 experts, one on each of 2 expert parallel ranks."""

from __future__ import annotations

import collections
from typing import Any

import torch
from deepspeed.utils.tensor_fragment import fragment_address

from makers import deepspeed_files as files

LAYER = "m.deepspeed_moe.experts.deepspeed_experts"
RANKS, EXPERTS = 4, 2
SIZE = 6  # of an expert's one parameter


def expert_file(expert: int, layer: int = 0) -> str:
    return f"layer_{layer}_expert_{expert}_mp_rank_00_model_states.pt"


def zero_files() -> dict[str, Any]:
    """The experts' group is the third."""
    made: dict[str, Any] = {}
    model = files.model_states(0, 1, RANKS)
    model["param_shapes"].append(collections.OrderedDict({f"{LAYER}.0.u": torch.Size([SIZE])}))
    made["mp_rank_00_model_states.pt"] = {**model, "num_experts": [EXPERTS]}
    for expert in range(EXPERTS):
        name = f"{LAYER}.{expert}.u"
        made[expert_file(expert)] = {name: files.values(f"fp32.{name}", SIZE)}
    half = SIZE // 2
    for rank in range(RANKS):
        states = files.optimizer_states(rank, 1, RANKS)
        inner = states["optimizer_state_dict"]
        name = f"{LAYER}.{rank % EXPERTS}.u"
        flats = {}
        for slot in ("fp32", "exp_avg", "exp_avg_sq"):
            held = torch.zeros(16)
            begin = half * (rank // EXPERTS)
            held[:half] = files.values(f"{slot}.{name}", SIZE)[begin : begin + half]
            flats[slot] = held[:half]
        inner["single_partition_of_fp32_groups"].append(flats.pop("fp32"))
        inner["base_optimizer_state"]["state"][2] = {"step": files.scalar(2), **flats}
        inner["base_optimizer_state"]["param_groups"].append({"lr": 0.1, "params": [2], "moe": True})
        inner["group_paddings"].append(0)
        inner["param_alignment_paddings"].append([0])
        inner["partition_count"] = [RANKS, RANKS, RANKS // EXPERTS]
        mapping = {f"{LAYER}.0.u": fragment_address(numel=half, start=0)}
        inner["param_slice_mappings"].append(collections.OrderedDict(mapping))
        made[f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt"] = states
    return made


def expected() -> dict[str, torch.Tensor]:
    tensors = files.expected()
    for expert in range(EXPERTS):
        name = f"{LAYER}.{expert}.u"
        tensors[name] = files.values(f"fp32.{name}", SIZE)
        tensors[f"optimizer.state.fp32_param.{name}"] = tensors[name]
        for slot in ("exp_avg", "exp_avg_sq"):
            tensors[f"optimizer.state.{slot}.{name}"] = files.values(f"{slot}.{name}", SIZE)
    return tensors
