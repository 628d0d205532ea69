# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""Models cut over tensor parallel ranks, trained by DeepSpeed's ZeRO stages 1 and 2 on a CPU.

DeepSpeed takes the groups of ranks from an `mpu` and does not know how a tensor was cut: the program says so in
`universal_checkpoint_info`. The loss is a sum over elements, so that a cut model trains as the whole one does. The whole
state is put together here from where each rank's elements come from, without a word of `universal_checkpoint_info`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from makers import deepspeed

TAG = deepspeed.TAG
HIDDEN = 6
WORDS = 13  # of 16 rows with padding
INFO: dict[str, Any] = {
    "universal_checkpoint_version": 0.4,
    "tp_replicated_parameter_patterns": [r".*norm\.(weight|bias)$", r"^layers\.\d+\.down\.bias"],
    "parameter_to_average_patterns": [r"layers\.\d+\.scale"],
    "parameter_with_row_parallelism_patterns": [r"layers\.[0-9]+\.down\.weight$", r"^frozen\.weight$"],
    "vocabulary_parameter_patterns": [r"words\.weight"],
    "parameter_with_2_sub_params_cat_dim_0": [r"layers\.\d+\.gate_up\.(?:weight|bias)"],
    "parameter_with_sub_params": [
        {"patterns": [r"layers\.\d+\.qkv\.weight"], "shape": ((8, 4, 4), -1), "partition_dim": 0},
        {"patterns": [r"layers\.\d+\.columns\.weight"], "shape": (5, (6, 2)), "partition_dim": 1},
    ],
    "sub_param_shard_widths": {
        r"layers\.\d+\.qkv\.weight": [[5, 3], [2, 2], [4, 0]],
        r"layers\.\d+\.columns\.weight": [[3, 3], [1, 1]],
    },
    "original_vocab_size": WORDS,
    "padded_vocab_size": 16,
}
Cut = Callable[[torch.Tensor, int], torch.Tensor]


def _even(dim: int) -> Cut:
    return lambda whole, rank: whole.chunk(2, dim)[rank]


def _sections(dim: int, sections: list[list[int]]) -> Cut:
    """Of every section, a width per rank."""

    def cut(whole: torch.Tensor, rank: int) -> torch.Tensor:
        parts = []
        begin = 0
        for widths in sections:
            parts.append(whole.narrow(dim, begin + sum(widths[:rank]), widths[rank]))
            begin += sum(widths)
        return torch.cat(parts, dim)

    return cut


def _same(whole: torch.Tensor, rank: int) -> torch.Tensor:
    return whole


def whole_parameters() -> dict[str, tuple[tuple[int, ...], Cut]]:
    """Shape of the whole, and how it is cut; the vocabulary with its padding."""
    found: dict[str, tuple[tuple[int, ...], Cut]] = {"words.weight": ((16, HIDDEN), _even(0))}
    for layer in range(2):
        at = f"layers.{layer}"
        found[f"{at}.norm.weight"] = ((HIDDEN,), _same)
        found[f"{at}.norm.bias"] = ((HIDDEN,), _same)
        found[f"{at}.qkv.weight"] = ((16, HIDDEN), _sections(0, [[5, 3], [2, 2], [4, 0]]))
        found[f"{at}.columns.weight"] = ((5, 8), _sections(1, [[3, 3], [1, 1]]))
        found[f"{at}.gate_up.weight"] = ((20, HIDDEN), _sections(0, [[5, 5], [5, 5]]))
        found[f"{at}.gate_up.bias"] = ((20,), _sections(0, [[5, 5], [5, 5]]))
        found[f"{at}.down.weight"] = ((HIDDEN, 10), _even(1))
        found[f"{at}.down.bias"] = ((HIDDEN,), _same)
        found[f"{at}.up.weight"] = ((7, HIDDEN), _sections(0, [[4, 3]]))
        found[f"{at}.scale"] = ((3,), _same)
    found["frozen.weight"] = ((3, 4), _even(1))
    return found


class Model(nn.Module):
    """Parameters under their names, whatever the modules; a buffer."""

    def __init__(self, rank: int | None, seed: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        for name, (shape, cut) in whole_parameters().items():
            whole = torch.randn(shape, generator=generator)
            if name == "words.weight":
                whole[WORDS:] = 0
                if rank is None:
                    whole = whole[:WORDS]
            part = whole if rank is None else cut(whole, rank).contiguous().clone()
            self._place(name, nn.Parameter(part, requires_grad=not name.startswith("frozen")))
        self.register_buffer("seen", torch.tensor([3, 5], dtype=torch.int64))

    def _place(self, name: str, parameter: nn.Parameter) -> None:
        *path, last = name.split(".")
        module: nn.Module = self
        for part in path:
            if not hasattr(module, part):
                module.add_module(part, nn.Module())
            module = getattr(module, part)
        module.register_parameter(last, parameter)

    def forward(self, factor: torch.Tensor) -> torch.Tensor:
        trained = (parameter for parameter in self.parameters() if parameter.requires_grad)
        return torch.stack([(torch.sin(parameter * factor) + parameter**2).sum() for parameter in trained]).sum()


class Mpu:
    """Rank = data rank · tensor ranks + tensor rank."""

    def __init__(self, tensor_ranks: int) -> None:
        self.size = tensor_ranks
        world = dist.get_world_size()
        self.tensor_rank = dist.get_rank() % tensor_ranks
        for first in range(0, world, tensor_ranks):
            group = dist.new_group(list(range(first, first + tensor_ranks)))
            if first <= dist.get_rank() < first + tensor_ranks:
                self.tensor_group = group
        for rank in range(tensor_ranks):
            group = dist.new_group(list(range(rank, world, tensor_ranks)))
            if rank == self.tensor_rank:
                self.data_group = group

    def get_model_parallel_rank(self) -> int:
        return self.tensor_rank

    def get_model_parallel_world_size(self) -> int:
        return self.size

    def get_model_parallel_group(self) -> Any:
        return self.tensor_group

    def get_data_parallel_rank(self) -> int:
        return dist.get_rank(self.data_group)

    def get_data_parallel_world_size(self) -> int:
        return dist.get_world_size(self.data_group)

    def get_data_parallel_group(self) -> Any:
        return self.data_group


def groups_of(model: nn.Module) -> list[dict[str, Any]]:
    named = [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
    return [
        {"params": [parameter for _, parameter in named if parameter.ndim > 1], "weight_decay": 0.1},
        {"params": [parameter for _, parameter in named if parameter.ndim == 1], "weight_decay": 0.0},
    ]


def make_engine(stage: int, seed: int, tensor_ranks: int, universal: bool = False, optimizer: bool = True) -> Any:
    """`tensor_ranks` 1: the whole model, without padding."""
    import deepspeed as library

    library.ops.__compatible_ops__.clear()
    mpu = Mpu(tensor_ranks) if tensor_ranks > 1 else None
    model = Model(mpu.tensor_rank if mpu else None, seed)
    config: dict[str, Any] = {
        "train_micro_batch_size_per_gpu": 1,
        "zero_allow_untested_optimizer": True,
        "zero_optimization": {"stage": stage},
        "gradient_clipping": 0.0,  # the norm of a cut model is not that of the whole one
    }
    if universal:
        config["checkpoint"] = {"load_universal": True}
    adam = torch.optim.Adam(groups_of(model), lr=1e-2, foreach=False)
    engine, *_ = library.initialize(model=model, optimizer=adam, config=config, mpu=mpu)
    return engine


def whole_state(engine: Any) -> dict[str, torch.Tensor]:
    """As makers.deepspeed.whole_state(), of the whole model, with the padding of the vocabulary cut off."""
    part = deepspeed.whole_state(engine)
    parts: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(parts, part)
    tensor_ranks = 1 if engine.mpu is None else engine.mpu.size
    state = {}
    for name, value in parts[0].items():
        parameter = name.partition(".exp_avg")[0]
        shape, cut = whole_parameters()[parameter]
        if tensor_ranks == 1:
            state[name] = value
            continue
        places = torch.arange(torch.Size(shape).numel()).view(shape)
        whole = torch.full(shape, float("nan"))
        for rank in range(tensor_ranks):
            whole.view(-1)[cut(places, rank).reshape(-1)] = parts[rank][name].reshape(-1)
        assert not whole.isnan().any(), name
        state[name] = whole[:WORDS] if parameter == "words.weight" else whole
    return state


def train_step(engine: Any, step: int) -> None:
    engine.backward(engine(torch.tensor(0.5 + step)))
    engine.step()


def save(stage: int, folder: str) -> None:
    """On 4 ranks, 2 of them tensor parallel: as makers.deepspeed.save()."""
    engine = make_engine(stage, 7, 2)
    for step in range(2):
        train_step(engine, step)
    client = {"iteration": 2, "universal_checkpoint_info": INFO}
    engine.save_checkpoint(f"{folder}/checkpoint", tag=TAG, client_state=client)
    if stage:
        deepspeed.save_state(whole_state(engine), f"{folder}/before.pt")
    train_step(engine, 2)
    if stage:
        deepspeed.save_state(whole_state(engine), f"{folder}/after.pt")


def resume(stage: int, checkpoint: str, result: str, tensor_ranks: int) -> None:
    """On every rank: loads a universal checkpoint, writes `result`/loaded.pt, trains a step, writes `result`/after.pt."""
    engine = make_engine(stage, 8, tensor_ranks, universal=True)
    path, _ = engine.load_checkpoint(checkpoint)
    assert path is not None, checkpoint
    deepspeed.save_state(whole_state(engine), f"{result}/loaded.pt")
    train_step(engine, 2)
    deepspeed.save_state(whole_state(engine), f"{result}/after.pt")


def launch(function: str, ranks: int, arguments: dict[str, Any], timeout_seconds: float = 240) -> None:
    import os

    from makers.launch import run_ranks

    os.environ.update(DS_ACCELERATOR="cpu", LOCAL_RANK="0", MASTER_ADDR="127.0.0.1")
    run_ranks(f"makers.deepspeed_tensor_parallel:{function}", ranks, arguments, timeout_seconds)
