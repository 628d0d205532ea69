# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""Small DeepSpeed checkpoints built by hand, to be damaged: the objects of each file, by name.

Two parameters in two groups (and a frozen one, a buffer) over 2 ranks, under the names and structures that DeepSpeed 0.19.8
writes; tests/conformance/test_deepspeed.py has its own files. Every tensor is a view of a storage of 64 bytes, so that
the fuzz target can make archives around the pickles.
"""

from __future__ import annotations

import collections
import os
from pathlib import Path
from typing import Any

import torch

os.environ.setdefault("DS_ACCELERATOR", "cpu")
from deepspeed.runtime.zero.config import ZeroStageEnum
from deepspeed.utils.tensor_fragment import fragment_address

TAG = "global_step2"
SHAPES: list[dict[str, tuple[int, ...]]] = [{"w": (3, 4)}, {"b": (5,)}]


def values(name: str, count: int) -> torch.Tensor:
    """Distinct per name and index, in a storage of 64 bytes."""
    storage = torch.zeros(16)
    storage[:count] = torch.arange(count) + sum(map(ord, name)) * 100
    return storage[:count]


def scalar(value: float) -> torch.Tensor:
    storage = torch.zeros(16)
    storage[0] = value
    return storage[0]


def whole(slot: str, name: str) -> torch.Tensor:
    shape = {**SHAPES[0], **SHAPES[1]}[name]
    return values(f"{slot}.{name}", torch.Size(shape).numel()).view(shape)


def model_states(rank: int, stage: int, ranks: int = 2) -> dict[str, Any]:
    module = collections.OrderedDict(
        seen=torch.full((8,), 3)[0], w=whole("fp32", "w"), b=whole("fp32", "b"), frozen=values("frozen", 3)
    )
    fragments = None
    if stage == 3:
        part = -(-3 // ranks)
        padded = torch.zeros(part * ranks)
        padded[:3] = module["frozen"]
        held = values("held", 16)
        held[:part] = padded[rank * part : (rank + 1) * part]
        fragments = collections.OrderedDict(frozen=held[:part])
        for name in ("w", "b", "frozen"):
            module[name] = torch.zeros(16)[:0]
    return {
        "module": module,
        "buffer_names": ["seen"],
        "optimizer": None,
        "param_shapes": [
            collections.OrderedDict((name, torch.Size(shape)) for name, shape in group.items()) for group in SHAPES
        ],
        "frozen_param_shapes": collections.OrderedDict(frozen=torch.Size([3])) if stage == 3 else None,
        "shared_params": {},
        "frozen_param_fragments": fragments,
        "lr_scheduler": None,
        "skipped_steps": 0,
        "global_steps": 2,
        "global_samples": 8,
        "dp_world_size": ranks,
        "mp_world_size": 1,
        "ds_config": {"train_batch_size": 4},
        "ds_version": "0.19.8",
        "iteration": 2,
    }


def _flat(slot: str, group: int, rank: int, stage: int, ranks: int, trimmed: bool) -> torch.Tensor:
    (name, shape), *_ = SHAPES[group].items()
    count = torch.Size(shape).numel()
    part = -(-count // ranks)
    padded = torch.zeros(part * ranks)
    padded[:count] = whole(slot, name).reshape(-1)
    end = max(rank * part, min((rank + 1) * part, count)) if trimmed and stage < 3 else (rank + 1) * part
    held = torch.zeros(16)
    held[: end - rank * part] = padded[rank * part : end]
    return held[: end - rank * part]


def optimizer_states(rank: int, stage: int, ranks: int = 2) -> dict[str, Any]:
    def state(group: int) -> dict[str, Any]:
        slots = {slot: _flat(slot, group, rank, stage, ranks, False) for slot in ("exp_avg", "exp_avg_sq")}
        return {"step": scalar(2), **slots}

    base = {
        "state": {group: state(group) for group in range(2)},
        "param_groups": [{"lr": 0.1, "params": [group]} for group in range(2)],
    }
    masters = [_flat("fp32", group, rank, stage, ranks, True) for group in range(2)]
    common = {"loss_scaler": None, "overflow": False}
    inner: dict[str, Any]
    if stage == 3:
        inner = {"zero_stage": ZeroStageEnum(3), **common, "partition_count": ranks, "optimizer_state_dict": base}
        inner["fp32_flat_groups"] = masters
    else:
        sizes = [-(-torch.Size(next(iter(group.values()))).numel() // ranks) for group in SHAPES]
        inner = {
            **common,
            "base_optimizer_state": base,
            "single_partition_of_fp32_groups": masters,
            "zero_stage": ZeroStageEnum(stage),
            "group_paddings": [size - len(master) for size, master in zip(sizes, masters, strict=True)],
            "param_alignment_paddings": [[0], [0]],
            "partition_count": [ranks, ranks],
            "ds_version": "0.19.8",
            "param_slice_mappings": [
                collections.OrderedDict({next(iter(group)): fragment_address(numel=len(master), start=0)})
                for group, master in zip(SHAPES, masters, strict=True)
            ],
        }
    return {"optimizer_state_dict": inner, "ds_config": {"train_batch_size": 4}, "ds_version": "0.19.8"}


def zero_files(stage: int, ranks: int = 2) -> dict[str, Any]:
    files: dict[str, Any] = {}
    for rank in range(ranks):
        if stage == 3:
            files[f"zero_pp_rank_{rank}_mp_rank_00_model_states.pt"] = model_states(rank, stage, ranks)
        files[f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt"] = optimizer_states(rank, stage, ranks)
    if stage < 3:
        files["mp_rank_00_model_states.pt"] = model_states(0, stage, ranks)
    return files


def universal_files() -> dict[str, Any]:
    files: dict[str, Any] = {"mp_rank_00_model_states.pt": model_states(0, 1)}
    for group in SHAPES:
        for name in group:
            for slot in ("fp32", "exp_avg", "exp_avg_sq"):
                files[f"zero/{name}/{slot}.pt"] = {"cat_dim": 0, "param": whole(slot, name)}
            files[f"zero/{name}/step.pt"] = scalar(2)
    files["zero/frozen/fp32.pt"] = {"param": values("frozen", 3)}
    files["zero/optimizer_state.pt"] = {
        "ds_version": "0.19.8",
        "overflow": False,
        "param_groups": [{"lr": 0.1, "params": [group]} for group in range(2)],
    }
    return files


def expected() -> dict[str, torch.Tensor]:
    tensors = {"seen": torch.tensor(3), "frozen": values("frozen", 3)}
    for name in ("w", "b"):
        tensors[name] = whole("fp32", name)
        tensors[f"optimizer.state.fp32_param.{name}"] = whole("fp32", name)
        for slot in ("exp_avg", "exp_avg_sq"):
            tensors[f"optimizer.state.{slot}.{name}"] = whole(slot, name)
    return tensors


def write(files: dict[str, Any], root: Path, universal: bool = False) -> Path:
    for name, content in files.items():
        path = root / TAG / name
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save(content, path)
    (root / ("latest_universal" if universal else "latest")).write_text(TAG)
    return root
