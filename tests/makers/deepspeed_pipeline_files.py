# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""As makers.deepspeed_files, of a pipeline of 2 stages in ZeRO-1, each with 2 data parallel ranks.

Layer 0 is of a tied module that layer 3 uses too, in a function, which has no file; layer 1 is of the first stage, layer
2, with a frozen parameter and a buffer, of the second.
"""

from __future__ import annotations

import collections
from typing import Any

import torch
from deepspeed.utils.tensor_fragment import fragment_address

from makers import deepspeed_files as files

TIED = "tied_modules.e.w"
SHAPES: dict[str, tuple[int, ...]] = {TIED: (3, 4), "1.b": (5,), "2.c": (3, 2), "2.d": (3,)}
STAGES: list[list[list[str]]] = [[[TIED], ["1.b"]], [[TIED, "2.c"], ["2.d"]]]
MODEL1 = "mp_rank_01_model_states.pt"
LAYER0 = "layer_00-model_states.pt"
LAYER1 = "layer_01-model_states.pt"
LAYER2 = "layer_02-model_states.pt"


def whole(slot: str, name: str) -> torch.Tensor:
    shape = torch.Size(SHAPES[name])
    return files.values(f"{slot}.{name}", shape.numel()).view(shape)


def model_states(stage: int) -> dict[str, Any]:
    states = files.model_states(0, 1)
    shapes = [collections.OrderedDict((name, torch.Size(SHAPES[name])) for name in group) for group in STAGES[stage]]
    dimensions = {"pp_degree": 2, "tp_degree": 1}
    changes = {"module": None, "param_shapes": shapes, "mp_world_size": 2, "checkpoint_parallel_dimensions": dimensions}
    return {**states, **changes, "buffer_names": ["2.seen"] if stage == 1 else []}


def optimizer_states(data_rank: int, stage: int) -> dict[str, Any]:
    states = files.optimizer_states(data_rank, 1)
    inner = states["optimizer_state_dict"]
    inner["param_slice_mappings"] = []
    for number, group in enumerate(STAGES[stage]):
        count = sum(torch.Size(SHAPES[name]).numel() for name in group)
        size = -(-count // 2)
        flats = {}
        for slot in ("fp32", "exp_avg", "exp_avg_sq"):
            padded = torch.zeros(2 * size)
            padded[:count] = torch.cat([whole(slot, name).reshape(-1) for name in group])
            held = torch.zeros(16)
            end = min(count, size * (data_rank + 1)) if slot == "fp32" else size * (data_rank + 1)
            held[: end - size * data_rank] = padded[size * data_rank : end]
            flats[slot] = held[: end - size * data_rank]
        inner["single_partition_of_fp32_groups"][number] = flats.pop("fp32")
        inner["base_optimizer_state"]["state"][number].update(flats)
        inner["group_paddings"][number] = (2 * size - count) if data_rank == 1 else 0
        mapping = collections.OrderedDict()
        at = 0
        for name in group:
            elements = torch.Size(SHAPES[name]).numel()
            begin, end = max(at, size * data_rank), min(at + elements, size * (data_rank + 1))
            if begin < end:
                mapping[name] = fragment_address(numel=end - begin, start=begin - size * data_rank)
            at += elements
        inner["param_slice_mappings"].append(mapping)
    return states


def zero_files() -> dict[str, Any]:
    made: dict[str, Any] = {}
    for stage in range(2):
        made[f"mp_rank_{stage:02}_model_states.pt"] = model_states(stage)
        for data_rank in range(2):
            name = f"zero_pp_rank_{data_rank}_mp_rank_{stage:02}_optim_states.pt"
            made[name] = optimizer_states(data_rank, stage)
    made[LAYER0] = collections.OrderedDict(w=whole("fp32", TIED))
    made[LAYER1] = collections.OrderedDict(b=whole("fp32", "1.b"))
    made[LAYER2] = collections.OrderedDict(
        seen=torch.full((8,), 3)[0], c=whole("fp32", "2.c"), d=whole("fp32", "2.d"), frozen=files.values("frozen", 3)
    )
    return made


def expected() -> dict[str, torch.Tensor]:
    tensors = {"2.seen": torch.tensor(3), "2.frozen": files.values("frozen", 3)}
    for name in SHAPES:
        tensors[name] = whole("fp32", name)
        tensors[f"optimizer.state.fp32_param.{name}"] = whole("fp32", name)
        for slot in ("exp_avg", "exp_avg_sq"):
            tensors[f"optimizer.state.{slot}.{name}"] = whole(slot, name)
    return tensors
