# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""A large Megatron-Core checkpoint with optimizer, for benchmarks: what a rank saves, and the library's own re-cut.

The sharded tensors are put together here under the library's keys, with its cuts; the rest is the library's.
"""

from __future__ import annotations

import json
import resource
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

torch.cuda.synchronize = lambda *arguments, **named: None
torch.cuda.current_device = lambda: "cpu"

from megatron.core import dist_checkpointing  # noqa: E402
from megatron.core.dist_checkpointing import ShardedTensor  # noqa: E402

HIDDEN = 2048
FEED_FORWARD = 5504
SLOTS = ("fp32_param", "exp_avg", "exp_avg_sq")


def sharded_state(tp: int, pp: int, layers: int, random: bool) -> dict[str, Any]:
    """A rank's part of the model, and the three slots of each parameter, one tensor per layer."""
    rank = dist.get_rank()
    tensor_rank, stage = rank % tp, rank // tp
    per_stage = layers // pp
    matrices = {
        "self_attention.linear_qkv.weight": (3 * HIDDEN, HIDDEN, 0),
        "self_attention.linear_proj.weight": (HIDDEN, HIDDEN, 1),
        "mlp.linear_fc2.weight": (HIDDEN, FEED_FORWARD, 1),
    }

    def data(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        return torch.rand(shape).to(dtype) if random else torch.zeros(shape, dtype=dtype)

    state: dict[str, Any] = {}

    def add(key: str, shape: tuple[int, ...], *places: tuple[int, int, int], replica: int = 0) -> None:
        """The parameter and its slots; `places`: (dimension, part, parts)."""
        kinds = [("", torch.bfloat16), *((f"optimizer.state.{slot}.", torch.float32) for slot in SLOTS)]
        for front, dtype in kinds:
            name = f"{front}{key} {places}"
            state[name] = ShardedTensor.from_rank_offsets(
                front + key, data(shape, dtype), *places, replica_id=(0, replica, 0)
            )

    for layer in range(stage * per_stage, (stage + 1) * per_stage):
        front = f"decoder.layers.{layer}."
        for name, (rows, columns, dim) in matrices.items():
            shape = (rows // tp, columns) if dim == 0 else (rows, columns // tp)
            add(front + name, shape, (dim, tensor_rank, tp))
        for half in (0, 1):
            place = (0, half * tp + tensor_rank, 2 * tp)
            add(front + "mlp.linear_fc1.weight", (FEED_FORWARD // tp, HIDDEN), place)
        for name in ("self_attention.linear_qkv", "mlp.linear_fc1"):
            add(f"{front}{name}.layer_norm_weight", (HIDDEN,), replica=tensor_rank)
    return state


def save(tp: int, pp: int, layers: int, folder: str) -> None:
    torch.manual_seed(dist.get_rank())
    dist_checkpointing.save({"iteration": 7, "model": sharded_state(tp, pp, layers, True)}, folder)


def recut(tp: int, layers: int, source: str, target: str, result: str) -> None:
    """Loads `source` as `tp` ranks have it and saves it; writes the seconds that this took into the folder `result`."""

    def cpu() -> float:
        both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        return sum(usage.ru_utime + usage.ru_stime for usage in both)

    dist.barrier()
    before, begin = cpu(), time.monotonic()
    state = {"model": sharded_state(tp, 1, layers, False)}
    wanted = dict(state["model"])
    loaded = dist_checkpointing.load(state, source)
    for name, tensor in wanted.items():
        tensor.data = loaded["model"][name]
    dist_checkpointing.save({"iteration": loaded["iteration"], "model": wanted}, target)
    seconds = {"cpu_seconds": cpu() - before, "wall_seconds": time.monotonic() - begin}
    (Path(result) / f"rank_{dist.get_rank()}.json").write_text(json.dumps(seconds))
