# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""The flat state of Megatron-Core's distributed optimizer, on the CPU.

Order, places, buckets, paddings, gathering and keys are the library's own: its DistributedDataParallel makes the buffers,
and its DistributedOptimizer's methods work on them. The optimizer itself accepts CUDA tensors only, so what stands for
it here has the given values instead of those of Adam.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from megatron.core import parallel_state
from megatron.core.dist_checkpointing import ShardedObject
from megatron.core.dist_checkpointing.utils import add_prefix_for_sharding
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
from megatron.core.optimizer.distrib_optimizer import DistributedOptimizer

SLOTS = ("param", "exp_avg", "exp_avg_sq")
BUCKET_SIZE = 1500  # elements: several buckets on the first stage

Value = Callable[[Any, str], torch.Tensor]  # of a parameter and a slot: the rank's whole part, float32


class FlatOptimizer:
    """One DistributedOptimizer, without Adam."""

    distributed_optimizer_instance_id = 0
    _get_model_param_range_map = DistributedOptimizer._get_model_param_range_map
    get_parameter_state_dp_reshardable = DistributedOptimizer.get_parameter_state_dp_reshardable
    get_parameter_state_dp_zero = DistributedOptimizer.get_parameter_state_dp_zero
    sharded_param_state_dp_reshardable = DistributedOptimizer.sharded_param_state_dp_reshardable

    def __init__(self, buffers: list[Any], group: Any, group_index: int, value: Value) -> None:
        self.buffers = buffers
        self.data_parallel_group = self.data_parallel_group_gloo = group
        self.data_parallel_group_idx = group_index
        self.gbuf_ranges = [DistributedOptimizer._build_gbuf_range_map(buffer) for buffer in buffers]
        self.model_param_gbuf_map = DistributedOptimizer._build_model_param_gbuf_map(self.gbuf_ranges)
        types = [(buffer.param_dtype, buffer.grad_dtype) for buffer in buffers]
        numel = [[bucket.grad_data.numel() for bucket in buffer.buckets] for buffer in buffers]
        unpadded = [[bucket.numel_unpadded for bucket in buffer.buckets] for buffer in buffers]
        self.per_bucket_numel = [{key: sizes} for key, sizes in zip(types, numel, strict=True)]
        self.per_bucket_numel_unpadded = [{key: sizes} for key, sizes in zip(types, unpadded, strict=True)]
        self.value = value

    def _get_main_param_and_optimizer_states(self, parameter: Any) -> dict[str, torch.Tensor]:
        place = self._get_model_param_range_map(parameter)["param"]
        return {slot: self.value(parameter, slot).reshape(-1)[place.start : place.end].clone() for slot in SLOTS}

    def sharded_state_dict(self, groups: list[dict[str, Any]]) -> dict[str, Any]:
        """As DistributedOptimizer.sharded_state_dict of the type dp_reshardable."""
        key = f"optimizer.distributed.dp_group_idx_{self.data_parallel_group_idx}.optimizer"
        rank = self.data_parallel_group.rank()
        return {
            "optimizer": ShardedObject(key, {"param_groups": groups}, (1,), (0,), replica_id=(0, 0, rank)),
            "param_state": self.sharded_param_state_dp_reshardable({}),
            "param_state_sharding_type": "dp_reshardable",
        }


def flat_optimizers(models: list[Any], value: Value) -> list[FlatOptimizer]:
    """Of the model, and of experts apart where the rank has some. The parameters move into the library's buffers."""
    config = DistributedDataParallelConfig(
        use_distributed_optimizer=True,
        overlap_grad_reduce=True,
        grad_reduce_in_fp32=True,
        bucket_size=BUCKET_SIZE,
    )
    wrapped = [
        DistributedDataParallel(model.config, config, model, disable_bucketing=index > 0)
        for index, model in enumerate(models)
    ]
    dense = [buffer for model in wrapped for buffer in model.buffers]
    experts = [buffer for model in wrapped for buffer in model.expert_parallel_buffers]
    model_rank = torch.distributed.get_rank(parallel_state.get_model_parallel_group())
    made = [FlatOptimizer(dense, parallel_state.get_data_parallel_group(), model_rank, value)]
    if experts:
        rank = torch.distributed.get_rank(parallel_state.get_expert_tensor_model_pipeline_parallel_group())
        made.append(FlatOptimizer(experts, parallel_state.get_expert_data_parallel_group(), rank, value))
    return made


def sharded_state(optimizers: list[FlatOptimizer], groups: list[dict[str, Any]]) -> dict[Any, Any]:
    """As ChainedOptimizer.sharded_state_dict."""
    if len(optimizers) == 1:
        return optimizers[0].sharded_state_dict(groups)
    state = {}
    for index, optimizer in enumerate(optimizers):
        state[index] = optimizer.sharded_state_dict(groups)
        add_prefix_for_sharding(state[index], f"chained_{index}.")
    return state


def gathered_state(optimizers: list[FlatOptimizer]) -> Any:
    """What ChainedOptimizer.save_parameter_state writes to distrib_optim.pt; None on ranks that write nothing."""
    states = [optimizer.get_parameter_state_dp_zero() for optimizer in optimizers]
    if all(state is None for state in states):
        return None
    return states[0] if len(states) == 1 else states
