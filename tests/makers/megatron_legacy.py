# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""Legacy Megatron checkpoints (`mp_rank_XX[_YYY][_ZZZ]/model_optim_rng.pt`) of Megatron-Core's GPTModel.

`save(case, folder)` starts the ranks of a case. The model, its state_dict() and the groups of its optimizer are the
library's; the files around them are written as Megatron-LM's training program does, which is not in the package. Its
mixed-precision optimizer accepts CUDA tensors only, so its state is put together here in the structure that
Float16OptimizerWithFloat16Params.state_dict() has. Every element is `megatron_dist.expected` of the key that the
library's distributed format has for the tensor, so that it says where it belongs.
"""

from __future__ import annotations

import argparse
import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from makers.megatron_dist import Grid, expected


@dataclass(frozen=True)
class LegacyCase:
    """`chunks`: parts of the model per rank (virtual pipeline stages), 1 = none. `flat`: with the distributed optimizer,
    whose state is flat in files of its own. `tied`: the head is the word embeddings."""

    grid: Grid
    chunks: int = 1
    experts: bool = False
    optimizer: bool = True
    flat: bool = False
    tied: bool = False

    @property
    def slots(self) -> tuple[str, ...]:
        return ("param" if self.flat else "fp32_param", "exp_avg", "exp_avg_sq") if self.optimizer else ()


FLAT_CASES = {
    "flat": LegacyCase(Grid(8, tp=2, pp=2), flat=True),
    "flat-tied": LegacyCase(Grid(4, tp=2, pp=2), flat=True, tied=True),
    "flat-virtual": LegacyCase(Grid(4, pp=2), chunks=2, flat=True),
    "flat-experts": LegacyCase(Grid(8, tp=2, ep=2), experts=True, flat=True),
}
CASES = {
    "dense": LegacyCase(Grid(4, tp=2, pp=2)),
    "virtual": LegacyCase(Grid(4, tp=2, pp=2), chunks=2),
    "experts": LegacyCase(Grid(4, tp=2, ep=2), experts=True),
}
ITERATION = 70
STEP = 69.0


def save(name: str, folder: Path) -> Path:
    """The root of the checkpoint; beside it `keys.json`: {name in the whole model: [key, global shape, dtype]}."""
    from makers.launch import run_ranks

    path = folder / name
    path.mkdir()
    case = (CASES | FLAT_CASES)[name]
    run_ranks("makers.megatron_legacy:save_rank", case.grid.world, {"case": asdict(case), "folder": str(path)})
    keys: dict[str, Any] = {}
    for file in sorted(path.glob("keys_*.json")):
        keys |= json.loads(file.read_text())
        file.unlink()
    (folder / f"{name}.keys.json").write_text(json.dumps(keys))
    (path / "latest_checkpointed_iteration.txt").write_text(str(ITERATION))
    return path


def expected_tensors(name: str, folder: Path) -> dict[str, torch.Tensor]:
    """The whole model and its optimizer, under the names that the modules have."""
    keys = json.loads((folder / f"{name}.keys.json").read_text())
    whole = {}
    for module, (key, shape) in keys.items():
        if (CASES | FLAT_CASES)[name].tied and module.endswith("output_layer.weight"):
            continue  # the copy of the last stage
        dtype = torch.float32 if key.startswith("optimizer.") else torch.bfloat16
        whole[module] = expected(key, tuple(shape), dtype)
    return whole


def save_rank(case: dict[str, Any], folder: str) -> None:
    from megatron.core import parallel_state

    from makers import megatron_ranks as ranks

    parsed = LegacyCase(**(case | {"grid": Grid(**case["grid"])}))
    grid = parsed.grid
    models = ranks.make_models(parsed.grid, parsed.experts, parsed.chunks, parsed.tied)
    keys: dict[str, Any] = {}
    filled: list[tuple[Any, list[Any]]] = []  # parameter, sharded parts

    def slot_value(parameter: Any, slot: str) -> torch.Tensor:
        return value_of(parts_of(filled, parameter), f"optimizer.state.{slot}.", parameter)

    flat = flat_optimizers(models, slot_value) if parsed.flat else []
    for model in models:
        for module, parts in ranks.sharded_parameters(model):
            parameter = dict(model.named_parameters())[module]
            with torch.no_grad():
                parameter.copy_(value_of(parts, "", parameter))
            filled.append((parameter, parts))
            note_keys(keys, module, parts, parsed.slots)
    pp, tp = parallel_state.get_pipeline_model_parallel_rank(), parallel_state.get_tensor_model_parallel_rank()
    ep = parallel_state.get_expert_model_parallel_rank() if grid.ep > 1 else 0
    seed = (pp * grid.tp + tp) * grid.ep + ep
    state: dict[str, Any] = {
        "args": argparse.Namespace(
            num_layers=4,
            swiglu=True,
            tensor_model_parallel_size=grid.tp,
            pipeline_model_parallel_size=grid.pp,
            expert_model_parallel_size=grid.ep,
            untie_embeddings_and_output_weights=not parsed.tied,
            make_vocab_size_divisible_by=4,
            rank=torch.distributed.get_rank(),
            **(flat_arguments() if parsed.flat else {}),
        ),
        "checkpoint_version": 3.0,
        "iteration": ITERATION,
        "opt_param_scheduler": {"max_lr": 1e-4, "num_steps": 560},
        "rng_state": [{"random_rng_state": (3, (seed,), None), "torch_rng_state": torch.full((8,), seed)}],
    }
    for number, model in enumerate(models):
        state["model" if parsed.chunks == 1 else f"model{number}"] = model.state_dict()
    if parsed.flat:
        state["optimizer"] = distributed_optimizer(models, grid)
    elif parsed.optimizer:
        state["optimizer"] = ranks.mixed_precision_optimizer(models, slot_value)
    place = f"mp_rank_{tp:02d}" + (f"_{pp:03d}" if grid.pp > 1 else "") + (f"_{ep:03d}" if grid.ep > 1 else "")
    iteration = Path(folder) / f"iter_{ITERATION:07d}" / place
    is_first = not parallel_state.get_data_parallel_rank()
    if grid.ep > 1:
        is_first = not parallel_state.get_expert_data_parallel_rank()
    if is_first:
        iteration.mkdir(parents=True)
        torch.save(state, iteration / "model_optim_rng.pt")
    gathered = gathered_state(flat) if parsed.flat else None
    if gathered is not None:
        torch.save(gathered, iteration / "distrib_optim.pt")
    (Path(folder) / f"keys_{torch.distributed.get_rank()}.json").write_text(json.dumps(keys))


def flat_optimizers(models: list[Any], value: Any) -> list[Any]:
    from makers import megatron_buffers

    return megatron_buffers.flat_optimizers(models, value)


def gathered_state(optimizers: list[Any]) -> Any:
    from makers import megatron_buffers

    return megatron_buffers.gathered_state(optimizers)


def flat_arguments() -> dict[str, Any]:
    from makers import megatron_buffers

    return {"overlap_grad_reduce": True, "ddp_bucket_size": megatron_buffers.BUCKET_SIZE, "data_parallel_size": 2}


def distributed_optimizer(models: list[Any], grid: Grid) -> Any:
    """DistributedOptimizer.state_dict(), of each of the chained ones: the library's groups without parameters."""
    from megatron.core.optimizer import OptimizerConfig, _get_param_groups

    groups = _get_param_groups(models, OptimizerConfig(lr=1e-4, min_lr=1e-5, weight_decay=0.1), None)
    for group in groups:
        del group["params"]
        group["step"] = int(STEP)
    apart = [group for group in groups if group["is_expert_parallel"]]
    if grid.ep == 1 or not apart:
        return {"optimizer": {"param_groups": groups}}
    rest = [group for group in groups if not group["is_expert_parallel"]]
    return [{"optimizer": {"param_groups": some}} for some in (rest, apart)]


def load(name: str, grid: Grid, iteration: Path, chunks: int = 1) -> None:
    """Loads each rank's file of a checkpoint of `grid` into Megatron-Core's model and torch's Adam over its groups, and
    compares every element with that of a checkpoint made so. Raises RuntimeError with the first difference."""
    from makers.launch import run_ranks

    case = asdict(CASES[name]) | {"grid": asdict(grid), "chunks": chunks}
    run_ranks("makers.megatron_legacy:load_rank", grid.world, {"case": case, "iteration": str(iteration)})


def load_rank(case: dict[str, Any], iteration: str) -> None:
    from megatron.core import parallel_state

    from makers import megatron_ranks as ranks

    parsed = LegacyCase(**(case | {"grid": Grid(**case["grid"])}))
    grid = parsed.grid
    models = ranks.make_models(grid, parsed.experts, parsed.chunks)
    pp, tp = parallel_state.get_pipeline_model_parallel_rank(), parallel_state.get_tensor_model_parallel_rank()
    ep = parallel_state.get_expert_model_parallel_rank() if grid.ep > 1 else 0
    place = f"mp_rank_{tp:02d}" + (f"_{pp:03d}" if grid.pp > 1 else "") + (f"_{ep:03d}" if grid.ep > 1 else "")
    state = torch.load(Path(iteration) / place / "model_optim_rng.pt", weights_only=False)
    filled: list[tuple[Any, list[Any]]] = []
    for number, model in enumerate(models):
        model.load_state_dict(state["model" if parsed.chunks == 1 else f"model{number}"], strict=True)
        for module, parts in ranks.sharded_parameters(model):
            parameter = dict(model.named_parameters())[module]
            filled.append((parameter, parts))
            assert torch.equal(parameter, value_of(parts, "", parameter)), module
    if parsed.optimizer:
        wanted = ranks.mixed_precision_optimizer(
            models, lambda parameter, slot: value_of(parts_of(filled, parameter), f"optimizer.state.{slot}.", parameter)
        )
        assert_same(wanted, state["optimizer"], "optimizer")
    assert state["checkpoint_version"] == 3.0
    assert state["iteration"] == ITERATION
    sizes = (grid.tp, grid.pp, grid.ep)
    names = ("tensor_model_parallel_size", "pipeline_model_parallel_size", "expert_model_parallel_size")
    assert tuple(getattr(state["args"], name) for name in names) == sizes


def assert_same(wanted: Any, found: Any, place: str) -> None:
    """The same tree, tensors by type, shape and elements."""
    if isinstance(wanted, torch.Tensor):
        assert isinstance(found, torch.Tensor), place
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape), place
        assert torch.equal(found, wanted), place
        storage = found.untyped_storage().nbytes()
        assert storage == found.numel() * found.element_size(), f"{place}: shares {storage} bytes with others"
    elif isinstance(wanted, dict):
        assert found.keys() == wanted.keys(), f"{place}: {found.keys()} for {wanted.keys()}"
        for key, value in wanted.items():
            assert_same(value, found[key], f"{place}.{key}")
    elif isinstance(wanted, list):
        assert len(found) == len(wanted), place
        for index, value in enumerate(wanted):
            assert_same(value, found[index], f"{place}.{index}")
    else:
        assert found == wanted, f"{place}: {found} for {wanted}"


def parts_of(filled: list[tuple[Any, list[Any]]], parameter: Any) -> list[Any]:
    return next(parts for known, parts in filled if known is parameter)


def value_of(parts: list[Any], prefix: str, parameter: Any) -> torch.Tensor:
    """What the parts of a parameter (the halves of a gated projection, or itself) hold, as the rank stores them."""
    dtype = torch.float32 if prefix else torch.bfloat16
    values = [expected(prefix + part.key, part.global_shape, dtype)[part.global_slice()] for part in parts]
    return torch.cat([value.reshape(part.local_shape) for value, part in zip(values, parts, strict=True)]).reshape(
        parameter.shape
    )


def note_keys(keys: dict[str, Any], module: str, parts: list[Any], slots: tuple[str, ...]) -> None:
    """The key has the number of the layer and expert in the whole model, the module that in this rank."""
    part = parts[0]
    layer = re.search(r"layers\.(\d+)\.", part.key)
    name = re.sub(r"layers\.\d+\.", f"layers.{layer[1]}.", module) if layer else module
    shape = part.global_shape
    key = part.key
    expert = re.search(r"local_experts\.(\d+)\.", module)
    if expert:  # one tensor of all experts there
        number = part.global_offset[0]
        name = re.sub(r"local_experts\.\d+\.", f"local_experts.{number}.", name)
        key, shape = key.replace("experts.experts.", f"experts.experts.{number}."), shape[1:]
    keys[name] = [key, shape]
    for slot in slots:
        keys[f"optimizer.state.{slot}.{name}"] = [f"optimizer.state.{slot}.{key}", shape]
