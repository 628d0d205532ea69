# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""What a rank of `makers.megatron_dist` does: builds Megatron-Core's GPTModel on the CPU and saves or loads it.

Without CUDA the library needs two replacements, and these two only: `torch.cuda.synchronize`, which a save calls, and
`torch.cuda.current_device`. Keys, chunks, replicas and factories are the library's. The distributed optimizer accepts
CUDA tensors only, so its two formats are built here: `fully_reshardable` with the library's functions for ordinary
optimizers, which give the same keys, and `dp_reshardable` by hand, or, of the model's parameters, by
`makers.megatron_buffers`.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from makers.megatron_dist import EXPERTS, LAYERS, Case, Grid, expected, padded_vocabulary, plain

torch.cuda.synchronize = lambda *arguments, **named: None
torch.cuda.current_device = lambda: "cpu"

from megatron.core import dist_checkpointing, parallel_state  # noqa: E402
from megatron.core.dist_checkpointing import ShardedObject, ShardedTensor  # noqa: E402
from megatron.core.dist_checkpointing.mapping import apply_factories  # noqa: E402
from megatron.core.dist_checkpointing.optimizer import (  # noqa: E402
    get_param_id_to_sharded_param_map,
    optim_state_to_sharding_state,
)
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec  # noqa: E402
from megatron.core.models.gpt.gpt_model import GPTModel  # noqa: E402
from megatron.core.transformer.transformer_config import TransformerConfig  # noqa: E402

FLAT_STATE = "optimizer.distributed."  # in its keys
BUCKETS = ((("b", 40), ("a", 150)), (("d", 300), ("c", 5)))  # (parameter, elements), as a gradient buffer orders them


def save(case: dict[str, Any], folder: str) -> None:
    parsed = parse(case)
    state = checkpoint_state(parsed, with_rng=True)
    for wanted, _ in leaves(state, state):
        if isinstance(wanted, ShardedTensor) and wanted.data is not None and FLAT_STATE in wanted.key:
            continue
        if isinstance(wanted, ShardedTensor):
            wanted.data = expected(wanted.key, wanted.global_shape, wanted.dtype)[wanted.global_slice()].clone()
        elif wanted.data is None:
            wanted.data = shard_object(wanted.unique_key)
    dist_checkpointing.save(state, folder, content_metadata=library_options(parsed), **integrity(parsed))


def load(case: dict[str, Any], checkpoint: str, result: str, strict: str, with_rng: bool) -> None:
    parsed = parse(case)
    state = checkpoint_state(parsed, with_rng)
    for wanted, _ in leaves(state, state):
        wanted.data = torch.zeros(wanted.local_shape, dtype=wanted.dtype) if isinstance(wanted, ShardedTensor) else None
    answer = dist_checkpointing.load(state, checkpoint, strict=strict, **integrity(parsed))
    loaded, missing, unexpected = answer if isinstance(answer, tuple) else (answer, set(), set())
    report: dict[str, Any] = {"tensors": [], "objects": {}, "missing": missing, "unexpected": unexpected}
    for wanted, value in leaves(state, loaded):
        if isinstance(wanted, ShardedObject):
            report["objects"][wanted.unique_key] = value
        else:
            full = value.reshape((1,) * wanted.prepend_axis_num + value.shape)
            report["tensors"].append((wanted.key, wanted.global_shape, wanted.global_offset, full))
    report["common"] = {key: value for key, value in loaded.items() if key not in ("model", "optimizer", "rng_state")}
    torch.save(report, f"{result}/rank_{dist.get_rank()}.pt")


def integrity(case: Case) -> dict[str, bool]:
    """The newest release writes sums of the files when it is asked to, and checks them."""
    return {"verify_integrity": True} if case.newest else {}


def parse(case: dict[str, Any]) -> Case:
    return Case(**(case | {"grid": Grid(**case["grid"])}))


def leaves(template: Any, values: Any) -> Iterator[tuple[Any, Any]]:
    """Every sharded tensor and object of a state, with what is at the same place in `values`, if anything is."""
    if isinstance(template, dict | list):
        for key, value in template.items() if isinstance(template, dict) else enumerate(template):
            if isinstance(values, list) or key in values:
                yield from leaves(value, values[key])
    elif isinstance(template, ShardedTensor | ShardedObject):
        yield template, values


def library_options(case: Case) -> dict[str, Any]:
    """What Megatron-LM hands to sharded_state_dict, and stores as `content_metadata`."""
    return {
        "non_homogeneous_layers": case.names != "stacked",
        "singleton_local_shards": case.names == "singleton",
        "distrib_optim_sharding_type": case.optimizer,
        "chained_optim_avoid_prefix": True,
    }


def make_model(case: Case) -> Any:
    return make_models(case.grid, case.experts, chunks=1, tied=case.tied)[0]


def make_models(grid: Grid, with_experts: bool, chunks: int, tied: bool = False) -> list[Any]:
    """The rank's parts of the model: one, or one for each virtual pipeline stage. `tied`: the head is the word
    embeddings; to share them between stages the library moves them to the GPU, so `Tensor.cuda` is replaced too."""
    if tied:
        torch.Tensor.cuda = lambda self, *arguments, **named: self
    virtual = chunks if chunks > 1 else None
    parallel_state.initialize_model_parallel(grid.tp, grid.pp, virtual, expert_model_parallel_size=grid.ep)
    experts: dict[str, Any] = {"num_moe_experts": EXPERTS, "moe_ffn_hidden_size": 8}
    config = TransformerConfig(
        num_layers=LAYERS,
        hidden_size=16,
        num_attention_heads=8,
        num_query_groups=4,
        kv_channels=4,
        ffn_hidden_size=24,
        gated_linear_unit=True,
        add_bias_linear=not with_experts,
        use_cpu_initialization=True,
        gradient_accumulation_fusion=False,
        params_dtype=torch.bfloat16,
        pipeline_dtype=torch.bfloat16,
        tensor_model_parallel_size=grid.tp,
        pipeline_model_parallel_size=grid.pp,
        virtual_pipeline_model_parallel_size=virtual,
        expert_model_parallel_size=grid.ep,
        **(experts if with_experts else {}),
    )
    models = []
    for chunk in range(chunks):
        place: dict[str, Any] = {"ignore_virtual": False, "vp_stage": chunk} if virtual else {}
        model = GPTModel(
            config,
            get_gpt_layer_local_spec(num_experts=EXPERTS if with_experts else None, qk_layernorm=False),
            vocab_size=padded_vocabulary(grid.tp),
            max_sequence_length=32,
            pre_process=parallel_state.is_pipeline_first_stage(**place),
            post_process=parallel_state.is_pipeline_last_stage(**place),
            share_embeddings_and_output_weights=tied,
            **({"vp_stage": chunk} if virtual else {}),
        )
        models.append(model.bfloat16())
    return models


def sharded_parameters(model: Any) -> Iterator[tuple[str, list[Any]]]:
    """For each parameter its name in the rank's model, and what the distributed format stores of it (one part, or the
    two halves of a gated projection), one tensor per layer."""
    of_storage = {parameter.data_ptr(): name for name, parameter in model.named_parameters()}
    for address, parts in parts_by_storage(model, {"non_homogeneous_layers": True}):
        yield of_storage.pop(address), parts
    assert not of_storage, of_storage


def mixed_precision_optimizer(models: list[Any], value: Any) -> dict[str, Any]:
    """Float16OptimizerWithFloat16Params.state_dict(): the library's groups, torch's Adam over float32 copies."""
    from megatron.core.optimizer import OptimizerConfig, _get_param_groups

    groups = _get_param_groups(models, OptimizerConfig(lr=1e-4, min_lr=1e-5, weight_decay=0.1), None)
    masters = [[value(parameter, "fp32_param") for parameter in group["params"]] for group in groups]
    names = [list(group["params"]) for group in groups]
    for group, copies in zip(groups, masters, strict=True):
        group["params"] = copies
    adam = torch.optim.Adam(groups, lr=1e-4)
    for parameters, copies in zip(names, masters, strict=True):
        for parameter, copy in zip(parameters, copies, strict=True):
            adam.state[copy] = {
                "step": torch.tensor(69.0),
                "exp_avg": value(parameter, "exp_avg"),
                "exp_avg_sq": value(parameter, "exp_avg_sq"),
            }
    return {"optimizer": adam.state_dict(), "fp32_from_fp16_params": masters}


def checkpoint_state(case: Case, with_rng: bool) -> dict[str, Any]:
    """The state as Megatron-LM nests it; tensors and objects hold no values yet."""
    model = make_model(case)
    options = library_options(case)
    flat = flat_optimizers(model, options) if case.true_buckets else []
    sharded = model.sharded_state_dict(metadata=dict(options))
    arguments: dict[str, Any] = grid_arguments(case.grid) if case.true_buckets else {}
    arguments["tensor_model_parallel_size"] = case.grid.tp
    if case.tied:
        arguments["untie_embeddings_and_output_weights"] = False
    state: dict[str, Any] = {
        "args": argparse.Namespace(hidden_size=16, tokens=("a", None, 0.1), **arguments),
        "checkpoint_version": 3.0,
        "iteration": 70,
        "opt_param_scheduler": {"max_lr": 1e-4, "num_steps": 560, "lr_decay_style": "cosine"},
        "num_floating_point_operations_so_far": 10**18,
    }
    if case.optimizer == "fully_reshardable":
        state["optimizer"] = model_space_optimizer(model, sharded)
    elif case.true_buckets:
        from makers import megatron_buffers

        state["optimizer"] = megatron_buffers.sharded_state(flat, [{"lr": 1e-4, "step": 70, "betas": (0.9, 0.999)}])
    elif case.optimizer == "dp_reshardable":
        state["optimizer"] = bucket_optimizer()
    state["model"] = sharded
    if with_rng:
        state["rng_state"] = rng_object(case)
    apply_factories(state)
    return state


def grid_arguments(grid: Grid) -> dict[str, Any]:
    return {
        "pipeline_model_parallel_size": grid.pp,
        "expert_model_parallel_size": grid.ep,
        "transformer_impl": "local",
        "moe_grouped_gemm": False,
    }


def flat_optimizers(model: Any, options: dict[str, Any]) -> list[Any]:
    """With the values that the model-space slots would have."""
    from makers import megatron_buffers

    parts_of: dict[int, list[Any]] = {}

    def value(parameter: Any, slot: str) -> torch.Tensor:
        prefix = f"optimizer.state.{slot}."
        values = [
            expected(prefix + part.key, part.global_shape)[part.global_slice()].reshape(part.local_shape)
            for part in parts_of[parameter.data_ptr()]
        ]
        return torch.cat(values) if len(values) > 1 else values[0]

    made = megatron_buffers.flat_optimizers([model], value)
    parts_of.update({parts[0]: parts[1] for parts in parts_by_storage(model, options)})
    return made


def parts_by_storage(model: Any, options: dict[str, Any]) -> Iterator[tuple[int, list[Any]]]:
    """For each parameter, by where its elements are, what the library stores of it."""
    addresses = {parameter.data_ptr() for parameter in model.parameters()}
    for entry in model.sharded_state_dict(metadata=dict(options)).values():
        data = getattr(entry, "data", None)
        if isinstance(data, torch.Tensor) and data.data_ptr() in addresses:
            parts = [entry] if isinstance(entry, ShardedTensor) else entry.build()
            yield data.data_ptr(), list(parts.values()) if isinstance(parts, dict) else parts


def rng_object(case: Case) -> Any:
    pp, tp = parallel_state.get_pipeline_model_parallel_rank(), parallel_state.get_tensor_model_parallel_rank()
    dp, grid = parallel_state.get_data_parallel_rank(), case.grid
    if case.experts:
        shape = (grid.pp, grid.tp, parallel_state.get_data_parallel_world_size())
        return ShardedObject("rng_state", None, shape, (pp, tp, dp))
    return ShardedObject("rng_state", None, (grid.pp, grid.tp), (pp, tp), replica_id=dp)


def shard_object(unique_key: str) -> Any:
    """For rng_state what Megatron-LM keeps there; for the extra state of a module, a small dict."""
    seed = plain(unique_key, (1264,), torch.float32).view(torch.uint8)
    if not unique_key.startswith("rng_state"):
        return {"module": unique_key, "amax_history": plain(unique_key, (4,), torch.float32), "scale": 1.0}
    return [
        {
            "random_rng_state": (3, (1, 2, 3), None),
            "np_rng_state": ("MT19937", np.arange(4, dtype=np.uint32), 4, 0, 0.0),
            "torch_rng_state": seed,
            "cuda_rng_state": seed[:16],
            "rng_tracker_states": {"model-parallel-rng": seed[16:32]},
        }
    ]


def model_space_optimizer(model: Any, sharded: dict[str, Any]) -> dict[str, Any]:
    parameters = list(model.parameters())
    groups = torch.optim.Adam(parameters, lr=1e-4).state_dict()["param_groups"]
    names = ("fp32_param", "exp_avg", "exp_avg_sq")
    state = {
        index: {name: torch.zeros(parameter.shape) for name in names} for index, parameter in enumerate(parameters)
    }
    inner: dict[str, Any] = {"state": state, "param_groups": groups}
    optim_state_to_sharding_state(inner, get_param_id_to_sharded_param_map(sharded, parameters))
    for group in inner["param_groups"]:
        del group["params"]
        group["step"] = 70
    return {
        "optimizer": {"param_groups": inner["param_groups"]},
        "param_state": inner["state"],
        "param_state_sharding_type": "fully_reshardable",
    }


def bucket_optimizer() -> dict[str, Any]:
    """The keys of DistributedOptimizer.sharded_param_state_dp_reshardable. The model's own parameters are not in it."""
    rank, ranks = parallel_state.get_data_parallel_rank(), parallel_state.get_data_parallel_world_size()
    group = parallel_state.get_tensor_model_parallel_rank()
    front = f"optimizer.distributed.dp_group_idx_{group}"
    dtypes = (torch.bfloat16, torch.float32)
    buckets = []
    for index, bucket in enumerate(BUCKETS):
        places, unpadded, padded = bucket_places(bucket, ranks)
        key = f"{front}.gbuf_idx_0.dtype_{dtypes}.bucket_idx_{index}"
        local = padded // ranks
        pieces = [(max(start, rank * local), min(end, (rank + 1) * local)) for start, end in places]
        buckets.append([bucket_piece(key, start, end, unpadded) for start, end in pieces if start < end])
    numel = [[bucket_places(bucket, ranks)[which] for bucket in BUCKETS] for which in (1, 2)]

    def whole(name: str, data: Any) -> Any:
        return ShardedObject(f"{front}.{name}", data, (1,), (0,), replica_id=(0, 0, rank))

    return {
        "optimizer": whole("optimizer", {"param_groups": [{"lr": 1e-4, "step": 70, "betas": (0.9, 0.999)}]}),
        "param_state": {
            "per_bucket_numel": whole("per_bucket_numel", [{dtypes: numel[1]}]),
            "per_bucket_numel_unpadded": whole("per_bucket_numel_unpadded", [{dtypes: numel[0]}]),
            0: {dtypes: buckets},
        },
        "param_state_sharding_type": "dp_reshardable",
    }


def bucket_places(bucket: tuple[tuple[str, int], ...], ranks: int) -> tuple[list[tuple[int, int]], int, int]:
    """[start, end) of parameters and of the gaps between them, the elements used, and those with the last padding."""
    places: list[tuple[int, int]] = []
    end = 0
    for _, elements in bucket:
        start = -(-end // 64) * 64
        if start > end:
            places.append((end, start))
        end = start + elements
        places.append((start, end))
    multiple = math.lcm(ranks, 128)
    return places, end, -(-end // multiple) * multiple


def bucket_piece(key: str, start: int, end: int, unpadded: int) -> dict[str, Any]:
    pieces = {}
    for name in ("param", "exp_avg", "exp_avg_sq"):
        shape = (end - start,)
        pieces[name] = ShardedTensor(
            f"{key}.{name}", torch.zeros(shape), torch.float32, shape, (unpadded,), (start,), None, (0, 0, 0)
        )
    return pieces
