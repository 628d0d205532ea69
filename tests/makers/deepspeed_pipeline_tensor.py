# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""A PipelineModule on stages × tensor parallel ranks, trained by DeepSpeed's ZeRO-1 on a CPU.

As in makers.deepspeed_tensor_parallel the loss is a sum over elements, and `universal_checkpoint_info` says how tensors
are cut: evenly, since DeepSpeed loads no others onto tensor parallel ranks. Layers 0 and 3 are of one tied module, and both have a file of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from makers import deepspeed
from makers.deepspeed_tensor_parallel import Cut, _even, _same, _sections

TAG = deepspeed.TAG
HIDDEN = 6
WORDS = 13  # of 16 rows with padding
TIED = "tied_modules.embed.weight"
INFO: dict[str, Any] = {
    "universal_checkpoint_version": 0.4,
    "pipeline_replicated_parameter_patterns": [r"tied_modules\.embed\."],
    "tp_replicated_parameter_patterns": [r"\d+\.norm"],
    "parameter_with_row_parallelism_patterns": [r"\d+\.down"],
    "vocabulary_parameter_patterns": [r"tied_modules\.embed\."],
    "parameter_with_sub_params": [{"patterns": [r"\d+\.qkv"], "shape": ((8, 4, 4), -1), "partition_dim": 0}],
    "sub_param_shard_widths": {r"\d+\.qkv": [[4, 4], [2, 2], [2, 2]]},
    "original_vocab_size": WORDS,
}
LAYER: dict[str, tuple[tuple[int, ...], Cut]] = {
    "qkv": ((16, HIDDEN), _sections(0, [[4, 4], [2, 2], [2, 2]])),
    "up": ((8, HIDDEN), _even(0)),
    "down": ((HIDDEN, 10), _even(1)),
    "norm": ((HIDDEN,), _same),
}


def whole_parameters() -> dict[str, tuple[tuple[int, ...], Cut]]:
    found: dict[str, tuple[tuple[int, ...], Cut]] = {TIED: ((16, HIDDEN), _even(0))}
    return found | {f"{layer}.{name}": value for layer in (1, 2) for name, value in LAYER.items()}


def value_of(name: str, rank: int | None, seed: int) -> torch.Tensor:
    """`rank` None: the whole, without padding."""
    shape, cut = whole_parameters()[name]
    generator = torch.Generator().manual_seed(seed + sum(map(ord, name)))
    whole = torch.randn(shape, generator=generator)
    if rank is None:
        return whole[:WORDS] if name == TIED else whole
    return cut(whole, rank).contiguous().clone()


class Layer(nn.Module):
    def __init__(self, names: list[str], rank: int | None, seed: int) -> None:
        super().__init__()
        for name in names:
            self.register_parameter(name.rpartition(".")[2], nn.Parameter(value_of(name, rank, seed)))
        if "norm" in dict(self.named_parameters()):
            self.register_buffer("seen", torch.tensor([3, 5]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.stack([(torch.sin(part) + part**2).sum() for part in self.parameters()]).sum()


def make_engine(stages: int, tensor_ranks: int, seed: int, universal: bool = False) -> Any:
    import deepspeed as library
    from deepspeed.pipe import LayerSpec, PipelineModule, TiedLayerSpec
    from deepspeed.runtime.pipe.topology import PipeModelDataParallelTopology

    library.ops.__compatible_ops__.clear()
    library.init_distributed("gloo")
    data_ranks = dist.get_world_size() // (stages * tensor_ranks)
    topology = PipeModelDataParallelTopology(num_pp=stages, num_mp=tensor_ranks, num_dp=data_ranks)
    rank = dist.get_rank() % tensor_ranks if tensor_ranks > 1 else None
    layers = [TiedLayerSpec("embed", Layer, [TIED], rank, seed)]
    layers += [LayerSpec(Layer, [f"{number}.{name}" for name in LAYER], rank, seed) for number in (1, 2)]
    layers += [TiedLayerSpec("embed", Layer, [TIED], rank, seed)]
    model = PipelineModule(
        layers, topology=topology, loss_fn=lambda output, _: output.sum(), partition_method="uniform"
    )
    config: dict[str, Any] = {
        "train_micro_batch_size_per_gpu": 1,
        "zero_allow_untested_optimizer": True,
        "zero_optimization": {"stage": 1},
        "gradient_clipping": 0.0,  # the norm of a cut model is not that of the whole one
        "pipeline": {"pipe_partitioned": False, "grad_partitioned": False},  # a single number goes from stage to stage
    }
    if universal:
        config["checkpoint"] = {"load_universal": True}
    adam = torch.optim.Adam(model.parameters(), lr=1e-2, foreach=False)
    engine, *_ = library.initialize(model=model, optimizer=adam, config=config)
    return engine


def batches() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    while True:
        yield torch.ones(1), torch.ones(1)


def whole_state(engine: Any, stages: int, tensor_ranks: int) -> dict[str, torch.Tensor]:
    parts: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(parts, deepspeed.whole_state(engine))
    per_stage = dist.get_world_size() // stages
    state: dict[str, torch.Tensor] = {}
    for stage in range(stages):
        for name, value in parts[stage * per_stage].items():
            parameter = name.partition(".exp_avg")[0]
            shape, cut = whole_parameters()[parameter]
            whole = value
            if tensor_ranks > 1:
                places = torch.arange(torch.Size(shape).numel()).view(shape)
                whole = torch.full(shape, float("nan"))
                for rank in range(tensor_ranks):
                    part = parts[stage * per_stage + rank][name]
                    whole.view(-1)[cut(places, rank).reshape(-1)] = part.reshape(-1)
                assert not whole.isnan().any(), name
                whole = whole[:WORDS] if parameter == TIED else whole
            assert torch.equal(state.setdefault(name, whole), whole), name
    return state


def save(stages: int, tensor_ranks: int, folder: str) -> None:
    """On every rank: as makers.deepspeed.save()."""
    engine = make_engine(stages, tensor_ranks, 7)
    for _ in range(2):
        engine.train_batch(batches())
    client = {"iteration": 2, "universal_checkpoint_info": INFO}
    engine.save_checkpoint(f"{folder}/checkpoint", tag=TAG, client_state=client)
    deepspeed.save_state(whole_state(engine, stages, tensor_ranks), f"{folder}/before.pt")
    engine.train_batch(batches())
    deepspeed.save_state(whole_state(engine, stages, tensor_ranks), f"{folder}/after.pt")


def resume(stages: int, tensor_ranks: int, checkpoint: str, result: str) -> None:
    """On every rank: loads a universal checkpoint, writes `result`/loaded.pt, trains a step, writes `result`/after.pt."""
    engine = make_engine(stages, tensor_ranks, 8, universal=True)
    path, _ = engine.load_checkpoint(checkpoint)
    assert path is not None, checkpoint
    deepspeed.save_state(whole_state(engine, stages, tensor_ranks), f"{result}/loaded.pt")
    engine.train_batch(batches())
    deepspeed.save_state(whole_state(engine, stages, tensor_ranks), f"{result}/after.pt")


def launch(function: str, ranks: int, arguments: dict[str, Any], timeout_seconds: float = 240) -> None:
    from makers.launch import run_ranks

    os.environ.update(DS_ACCELERATOR="cpu", LOCAL_RANK="0", MASTER_ADDR="127.0.0.1")
    run_ranks(f"makers.deepspeed_pipeline_tensor:{function}", ranks, arguments, timeout_seconds)
