# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""As makers.deepspeed_files, of ZeRO-1 on 2 tensor parallel ranks, each with 2 data parallel ranks.

A parameter per way to join: `w` along dimension 1, `b` on every rank, `v` a vocabulary with a row of padding, `q` of three
sub-parameters, `g` of two halves.
"""

from __future__ import annotations

import collections
from typing import Any

import torch
from deepspeed.utils.tensor_fragment import fragment_address

from makers import deepspeed_files as files

INFO: dict[str, Any] = {
    "universal_checkpoint_version": 0.4,
    "tp_replicated_parameter_patterns": ["^b$"],
    "parameter_to_average_patterns": [],
    "parameter_with_row_parallelism_patterns": [r"w|nothing\.\d"],
    "vocabulary_parameter_patterns": ["[v]"],
    "parameter_with_2_sub_params_cat_dim_0": ["g(?:$|x)"],
    "parameter_with_sub_params": [{"patterns": ["q"], "shape": ((2, 1, 2), -1), "partition_dim": 0}],
    "sub_param_shard_widths": {"q": [[1, 1], [1, 0], [1, 1]]},
    "original_vocab_size": 3,
}
WHOLE: dict[str, tuple[int, ...]] = {"w": (3, 4), "b": (5,), "v": (4, 2), "q": (5, 2), "g": (8,), "frozen": (3,)}
GROUPS = [["w", "v", "q"], ["b", "g"]]
MODEL1 = "mp_rank_01_model_states.pt"


def whole(slot: str, name: str) -> torch.Tensor:
    shape = torch.Size(WHOLE[name])
    return files.values(f"{slot}.{name}", shape.numel()).view(shape)


def part(slot: str, name: str, rank: int) -> torch.Tensor:
    """In a storage of 64 bytes."""
    tensor = whole(slot, name)
    if name == "w":
        tensor = tensor[:, 2 * rank : 2 * rank + 2]
    elif name == "v":
        tensor = tensor[2 * rank : 2 * rank + 2]
    elif name == "q":
        tensor = tensor[[0, 2, 3] if rank == 0 else [1, 4]]
    elif name == "g":
        tensor = tensor[[0, 1, 4, 5] if rank == 0 else [2, 3, 6, 7]]
    elif name == "frozen":
        tensor = tensor[:2] if rank == 0 else tensor[2:]
    storage = torch.zeros(16)
    storage[: tensor.numel()] = tensor.reshape(-1)
    return storage[: tensor.numel()].view(tensor.shape)


def model_states(rank: int) -> dict[str, Any]:
    states = files.model_states(0, 1)
    states["module"] = collections.OrderedDict(seen=torch.full((8,), 3)[0])
    for name in WHOLE:
        states["module"][name] = part("fp32", name, rank)
    states["param_shapes"] = [
        collections.OrderedDict((name, part("fp32", name, rank).shape) for name in group) for group in GROUPS
    ]
    return {**states, "mp_world_size": 2, "universal_checkpoint_info": INFO}


def optimizer_states(data_rank: int, rank: int) -> dict[str, Any]:
    states = files.optimizer_states(data_rank, 1)
    inner = states["optimizer_state_dict"]
    inner["param_slice_mappings"] = []
    for number, group in enumerate(GROUPS):
        count = sum(part("fp32", name, rank).numel() for name in group)
        size = -(-count // 2)
        flats = {}
        for slot in ("fp32", "exp_avg", "exp_avg_sq"):
            padded = torch.zeros(2 * size)
            padded[:count] = torch.cat([part(slot, name, rank).reshape(-1) for name in group])
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
            elements = part("fp32", name, rank).numel()
            begin, end = max(at, size * data_rank), min(at + elements, size * (data_rank + 1))
            if begin < end:
                mapping[name] = fragment_address(numel=end - begin, start=begin - size * data_rank)
            at += elements
        inner["param_slice_mappings"].append(mapping)
    return states


def zero_files() -> dict[str, Any]:
    made: dict[str, Any] = {}
    for rank in range(2):
        made[f"mp_rank_{rank:02}_model_states.pt"] = model_states(rank)
        for data_rank in range(2):
            name = f"zero_pp_rank_{data_rank}_mp_rank_{rank:02}_optim_states.pt"
            made[name] = optimizer_states(data_rank, rank)
    return made


def expected() -> dict[str, torch.Tensor]:
    def unpadded(slot: str, name: str) -> torch.Tensor:
        return whole(slot, name)[:3] if name == "v" else whole(slot, name)

    tensors = {"seen": torch.tensor(3)}
    for name in WHOLE:
        tensors[name] = unpadded("fp32", name)
        if name != "frozen":
            tensors[f"optimizer.state.fp32_param.{name}"] = unpadded("fp32", name)
            for slot in ("exp_avg", "exp_avg_sq"):
                tensors[f"optimizer.state.{slot}.{name}"] = unpadded(slot, name)
    return tensors
