# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""Large checkpoints for benchmarks, written by torch from several ranks."""

from __future__ import annotations

TENSOR_SHAPE = (4096, 2048)  # float32: 32 MiB


def save_cut_in_four(folder: str, tensors: int) -> None:
    """On every rank: a DCP of `tensors` tensors, dimension 0 cut over the ranks. Called through makers.launch."""
    import torch
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Shard

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(dist.get_rank())
    rows = TENSOR_SHAPE[0] // dist.get_world_size()
    state = {
        f"layers.{index}.weight": DTensor.from_local(torch.rand(rows, TENSOR_SHAPE[1]), mesh, [Shard(0)])
        for index in range(tensors)
    }
    dcp.save(state, checkpoint_id=folder)
