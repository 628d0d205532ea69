# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""Makes the DCP folders beside this file with PyTorch (2.13 made the committed ones): python make.py

sharded/       two ranks, a DTensor cut on dimension 0 as 2 + 1 rows, torch.save payload
safetensors/   the same state, safetensors payload
strided/       one rank, a transposed view of a tensor, an empty and a scalar one, objects that pickle in many ways
"""

import collections
import os
import shutil
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from torch.distributed.checkpoint.filesystem import FileSystemWriter, SerializationFormat
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

os.chdir(Path(__file__).resolve().parent)  # the folder's name goes into the metadata: keep it relative
RANKS = 2


def fresh(name: str) -> Path:
    folder = Path(name)
    shutil.rmtree(folder, ignore_errors=True)
    return folder


def save_sharded(rank: int) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29876")
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    mesh = init_device_mesh("cpu", (RANKS,))
    whole = torch.arange(6, dtype=torch.float32).reshape(3, 2) + 0.5
    state = {"model": {"w": distribute_tensor(whole, mesh, [Shard(0)])}, "step": 7}
    if rank == 0:
        fresh("sharded")
        fresh("safetensors")
    dist.barrier()
    dcp.save(state, checkpoint_id=Path("sharded"))
    writer = FileSystemWriter(Path("safetensors"), serialization_format=SerializationFormat.SAFETENSORS)
    dcp.save(state, storage_writer=writer)
    dist.destroy_process_group()


def save_strided() -> None:
    state = {
        "t": torch.arange(6, dtype=torch.int16).reshape(2, 3).t(),
        "none": torch.zeros(0, 4),
        "scalar": torch.tensor(-0.0, dtype=torch.bfloat16),
        "list": [{"x": torch.tensor([1, 2])}, "text"],
        "args": {"betas": (0.9, 0.95), "counter": collections.Counter("aab"), "empty": None},
    }
    dcp.save(state, checkpoint_id=fresh("strided"))


if __name__ == "__main__":
    mp.spawn(save_sharded, nprocs=RANKS)
    save_strided()
