# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""Tensors whose last rows or columns are padding: what is stored, and what of it is data."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import save_file

LAYOUT = """\
family: padded
meshes: {d: [tp]}
sizes: {vocab: 13}
tensors:
  - match: emb
    pad: {dim: 0, multiple_of: [4, tp], data: vocab}
    slice: [{dim: 0, by: tp}]
  - match: head
    pad: {dim: 1, multiple_of: [4, tp], data: vocab}
    slice: [{dim: 1, by: tp}]
  - match: places
    pad: {dim: 0, multiple_of: [8, tp], data: 12}
    slice: [{dim: 0, by: tp}]
  - match: '*'
"""

# Name -> (dimension, extent that is data, extent that is stored).
PADDED = {"emb": (0, 13, 16), "head": (1, 13, 16), "places": (0, 12, 16)}


def stored_tensors() -> dict[str, torch.Tensor]:
    """NaN in all padding. emb[i] is [2i, 2i + 1], head[i] is [16i, 16i + 1, …], places[i] is [-i]."""
    tensors = {
        "emb": torch.arange(32, dtype=torch.float32).reshape(16, 2),
        "head": torch.arange(32, dtype=torch.float32).reshape(2, 16),
        "norm": torch.tensor([0.5, -0.0, 3.0]),
        "places": -torch.arange(16, dtype=torch.float64).reshape(16, 1),
    }
    for name, (dim, data, stored) in PADDED.items():
        tensors[name].narrow(dim, data, stored - data).fill_(torch.nan)
    return tensors


def real_tensors() -> dict[str, torch.Tensor]:
    tensors = stored_tensors()
    for name, (dim, data, _) in PADDED.items():
        tensors[name] = tensors[name].narrow(dim, 0, data).clone(memory_format=torch.contiguous_format)
    return tensors


def with_padding(name: str, real: torch.Tensor, padded: int) -> torch.Tensor:
    """`real` with zeros up to the extent `padded`."""
    dim = PADDED[name][0]
    shape = list(real.shape)
    shape[dim] = padded - shape[dim]
    return torch.cat([real, torch.zeros(shape, dtype=real.dtype)], dim)


def save(kind: str, folder: Path) -> Path:
    """Whole stored tensors as `safetensors`, `hf` or `torch`, cut into four as `dcp`."""
    tensors = stored_tensors()
    if kind == "safetensors":
        save_file(tensors, folder / "stored.safetensors")
        return folder / "stored.safetensors"
    if kind == "torch":
        torch.save(tensors, folder / "stored.pt")
        return folder / "stored.pt"
    path = folder / f"stored-{kind}"
    path.mkdir()
    if kind == "hf":
        save_file(tensors, path / "model.safetensors", metadata={"format": "pt"})
        (path / "config.json").write_text(json.dumps({"model_type": "own", "vocab_size": 13}))
        return path
    from makers.launch import run_ranks

    run_ranks("makers.padded:save_cut", 4, {"folder": str(path)})
    return path


def save_cut(folder: str) -> None:
    """On every rank: emb, head and places in parts of four rows or columns."""
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    tensors = stored_tensors()
    for name, (dim, _, _) in PADDED.items():
        tensors[name] = distribute_tensor(tensors[name], mesh, [Shard(dim)])
    dcp.save(tensors, checkpoint_id=folder)
