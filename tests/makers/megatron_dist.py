# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""Megatron-Core distributed checkpoints (`torch_dist`), saved and loaded by the library itself on a CPU.

`save(case, folder)` starts the ranks of a case and fills a folder; `load(...)` has the library load a folder in another
configuration. Every element is a function of (key, global index): `expected(key, size, dtype)` gives any tensor of any
case whole, so that each part of it can be compared. The ranks run in `makers.megatron_ranks`, where the library is
imported; this module needs torch only. `megatron-core` needs `psutil`: without it a save waits for ever.
"""

from __future__ import annotations

import importlib.util
import re
import sys
import zlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

LAYERS = 4
EXPERTS = 8
VOCABULARY = 13  # rows that are data; the rest of a stored word table is padding


@dataclass(frozen=True)
class Grid:
    """Degrees of parallelism; the data-parallel degree is what remains of the world. Experts are cut inside it."""

    world: int
    tp: int = 1
    pp: int = 1
    ep: int = 1


@dataclass(frozen=True)
class Case:
    """A checkpoint: the model, the names its tensors are stored under, the grid that saves it.

    `names`: "stacked" (one tensor [layers, …] or [layers, experts, …]), "layers" (one per layer, experts stacked in it)
    or "singleton" (one per layer, expert and half of a gated projection). `optimizer`: "none", "fully_reshardable" or
    "dp_reshardable". `newest`: by the newest release of the library instead of the one that pip chooses. `true_buckets`:
    what dp_reshardable stores is of the model's parameters, and the arguments say the grid. `tied`: the head is the word
    embeddings.
    """

    grid: Grid
    names: str = "stacked"
    experts: bool = False
    optimizer: str = "none"
    newest: bool = False
    true_buckets: bool = False
    tied: bool = False


CASES = {
    "dense": Case(Grid(8, tp=2, pp=2), "stacked", optimizer="fully_reshardable"),
    "dense-layers": Case(Grid(8, tp=2, pp=2), "layers", optimizer="fully_reshardable"),
    "dense-singleton": Case(Grid(4, tp=2, pp=2), "singleton"),
    "experts": Case(Grid(4, tp=2, ep=2), "stacked", experts=True, optimizer="fully_reshardable"),
    "experts-layers": Case(Grid(4, tp=2, ep=2), "layers", experts=True),
    "experts-singleton": Case(Grid(4, tp=2, ep=2), "singleton", experts=True),
    "dense-newest": Case(Grid(8, tp=2, pp=2), "layers", optimizer="fully_reshardable", newest=True),
    "experts-newest": Case(Grid(4, tp=2, ep=2), "layers", experts=True, optimizer="fully_reshardable", newest=True),
    "buckets": Case(Grid(4, tp=2), "layers", optimizer="dp_reshardable"),
}

# Flat buckets that are of the model's parameters.
FLAT_CASES = {
    "flat": Case(Grid(8, tp=2, pp=2), "stacked", optimizer="dp_reshardable", true_buckets=True),
    "flat-tied": Case(Grid(8, tp=2, pp=2), "layers", optimizer="dp_reshardable", true_buckets=True, tied=True),
    "flat-layers": Case(Grid(4, pp=2), "layers", optimizer="dp_reshardable", true_buckets=True),
    "flat-singleton": Case(Grid(4, tp=2), "singleton", optimizer="dp_reshardable", true_buckets=True),
    "flat-experts": Case(Grid(8, tp=2, ep=2), "stacked", experts=True, optimizer="dp_reshardable", true_buckets=True),
    "flat-experts-layers": Case(Grid(4, pp=2), "layers", experts=True, optimizer="dp_reshardable", true_buckets=True),
}


MASTER = "optimizer.state.param."
NEWEST = Path(sys.prefix) / "megatron-core-newest"  # where scripts/setup puts it: no two releases fit in one place


def available() -> bool:
    """Whether the library in both releases, and what it needs to save, is installed."""
    return NEWEST.is_dir() and all(importlib.util.find_spec(name) is not None for name in ("megatron", "psutil"))


def packages_of(case: Case) -> Path | None:
    return NEWEST if case.newest else None


def padded_vocabulary(tp: int) -> int:
    """As Megatron pads with --make-vocab-size-divisible-by 4: to a multiple of 4·tp."""
    return -(-VOCABULARY // (4 * tp)) * 4 * tp


def plain(key: str, size: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """In [-4, 4), a hash of the key and the row-major index."""
    index = np.arange(int(np.prod(size, dtype=np.int64)), dtype=np.uint64) + zlib.crc32(key.encode())
    mixed = index * 2654435761 % 2**32
    mixed = (mixed ^ mixed >> np.uint64(15)) * 2246822519 % 2**32
    return torch.from_numpy(mixed / 2.0**29 - 4).to(dtype).reshape(size)


def expected(key: str, size: tuple[int, ...], dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """The whole stored tensor. Row l of a stacked tensor equals the tensor of layer l; so do experts and halves."""
    if key.startswith(MASTER):  # a float32 copy that rounds to the parameter
        return expected(key.removeprefix(MASTER), size, torch.bfloat16).float() * (1 + 2**-10)
    stacked = re.fullmatch(r"(.*\bdecoder\.layers\.)(\D.*)", key)
    if stacked:
        front, back = stacked.groups()
        return torch.stack([expected(f"{front}{layer}.{back}", size[1:], dtype) for layer in range(size[0])])
    stacked = re.fullmatch(r"(.*\bexperts\.experts\.)(\D.*)", key)
    if stacked:
        front, back = stacked.groups()
        return torch.stack([expected(f"{front}{expert}.{back}", size[1:], dtype) for expert in range(size[0])])
    if re.search(r"linear_fc1\.weight_[wv]$", key):
        both = expected(key[:-2], (2 * size[0], *size[1:]), dtype)
        return both.chunk(2)[key.endswith("_v")]
    return plain(key, size, dtype)


def save(name: str, folder: Path) -> Path:
    """The checkpoint of a case, by dist_checkpointing.save."""
    from makers.launch import run_ranks

    path = folder / name
    path.mkdir()
    case = (CASES | FLAT_CASES)[name]
    run_ranks(
        "makers.megatron_ranks:save",
        case.grid.world,
        {"case": asdict(case), "folder": str(path)},
        packages=packages_of(case),
    )
    return path


def load(
    name: str, grid: Grid, checkpoint: Path, result: Path, strict: str = "return_all", with_rng: bool = False
) -> list[dict[str, Any]]:
    """What each rank of `grid` gets from dist_checkpointing.load into the model of the case `name`.

    One dict a rank: "tensors" is a list of (key, global size, offsets, tensor), in which the tensor has one leading axis
    of extent 1 for each axis the library prepends; "objects" {name of the shard: object}; "common" the common state;
    "missing" and "unexpected" keys if `strict` asks for them. Random states belong to the grid that saved them, so they
    are asked for only `with_rng`. Raises RuntimeError with the library's message.
    """
    from makers.launch import run_ranks

    result.mkdir()
    arguments = {
        "case": asdict(CASES[name]) | {"grid": asdict(grid)},
        "checkpoint": str(checkpoint),
        "result": str(result),
        "strict": strict,
        "with_rng": with_rng,
    }
    run_ranks("makers.megatron_ranks:load", grid.world, arguments, packages=packages_of(CASES[name]))
    return [torch.load(result / f"rank_{rank}.pt", weights_only=False) for rank in range(grid.world)]
