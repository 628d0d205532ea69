# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""Layouts megatron-gpt and megatron-bert against Megatron-Core: what its ranks saved of each tensor of a GPTModel or
BertModel is what the layout gives to the devices of the same grid.

The library notes in `.metadata` which rank writes which box (`all_local_plans`). The layout is asked with tensors of
the same names and shapes whose elements are their own positions, cut into one file per device.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.distributed.checkpoint import FileSystemReader

from makers import megatron_dist
from makers.launch import run_ranks
from program import tenplex

CASES = ["dense", "dense-layers", "dense-singleton", "experts", "experts-layers", "experts-singleton"]

Sizes = dict[str, tuple[int, ...]]
Positions = dict[tuple[int, str], np.ndarray]


def saved(folder: Path) -> tuple[Sizes, Positions]:
    """Sizes by name; by rank and name the positions of the elements that the rank wrote, in its own order."""
    metadata: Any = FileSystemReader(folder).read_metadata()
    sizes = {name: tuple(entry.size) for name, entry in metadata.state_dict_metadata.items() if hasattr(entry, "size")}
    parts: dict[tuple[int, str], list[np.ndarray]] = defaultdict(list)
    for rank, plan in enumerate(metadata.all_local_plans):
        for item in plan.items:
            if item.tensor_data is None:
                continue
            name, chunk = item.index.fqn, item.tensor_data.chunk
            whole = np.arange(np.prod(sizes[name], dtype=np.int64)).reshape(sizes[name])
            box = tuple(slice(start, start + size) for start, size in zip(chunk.offsets, chunk.sizes, strict=True))
            parts[rank, name].append(whole[box])
    return sizes, {key: np.concatenate([part.reshape(-1) for part in found]) for key, found in parts.items()}


def given(
    layout: str, sizes: Sizes, mesh: str, numbers: str, folder: Path, devices: int
) -> list[dict[str, np.ndarray]]:
    """By device and name the positions that the layout gives to the device, in the order of its local array."""
    folder.mkdir()
    positions = {
        name: torch.arange(int(np.prod(size)), dtype=torch.int32).reshape(size) for name, size in sizes.items()
    }
    save_file(positions, folder / "positions.safetensors")
    target = folder / "cut"
    arguments = ("--layout", layout, "--to", mesh, "--format", "safetensors", "--sizes", numbers)
    tenplex("reshard", folder / "positions.safetensors", target, *arguments)
    files = sorted(target.glob("*.safetensors"))
    assert len(files) == devices
    return [{name: tensor.numpy() for name, tensor in load_file(file).items()} for file in files]


def check(layout: str, checkpoint: Path, mesh: str, devices: int, folder: Path) -> None:
    sizes, wrote = saved(checkpoint)
    cut = given(layout, sizes, mesh, "divisor=4", folder, devices)
    assert {name for _, name in wrote} == set(sizes), "the library saved no part of a tensor"
    for (rank, name), positions in wrote.items():
        assert name in cut[rank], f"rank {rank} wrote {name}, the layout has nothing of it there"
        # The chunks of a rank come in no certain order: of a gated projection, gates of all layers before all else.
        assert sorted(cut[rank][name].reshape(-1)) == sorted(positions), f"rank {rank}, {name}"
    for name in sizes:
        held = [set(device[name].reshape(-1)) for device in cut if name in device]
        assert set().union(*held) == set(range(int(np.prod(sizes[name])))), name


@pytest.mark.parametrize("name", CASES)
def test_megatron_gpt_gives_ranks_what_gpt_model_saved_there(
    name: str, megatron_dist_case: Callable[[str], Path], tmp_path: Path
) -> None:
    checkpoint = megatron_dist_case(name)
    grid = megatron_dist.CASES[name].grid
    mesh = f"tp={grid.tp},pp={grid.pp},dp={grid.world // grid.tp // grid.pp},ep={grid.ep}"
    check("megatron-gpt", checkpoint, mesh, grid.world, tmp_path / "layout")


@pytest.mark.parametrize(("tp", "pp", "per_layer"), [(2, 2, False), (2, 2, True), (2, 1, False)])
def test_megatron_bert_gives_ranks_what_bert_model_saved_there(
    tp: int, pp: int, per_layer: bool, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "bert"
    checkpoint.mkdir()
    arguments = {"tp": tp, "pp": pp, "per_layer": per_layer, "folder": str(checkpoint)}
    run_ranks("makers.megatron_bert:save", tp * pp, arguments)
    check("megatron-bert", checkpoint, f"tp={tp},pp={pp}", tp * pp, tmp_path / "layout")


def test_a_gated_projection_of_a_device_is_its_gate_then_its_up(tmp_path: Path) -> None:
    """The order in a device's array, by hand: rows 0 to 5 gate, 6 to 11 up; device 1 of 2 has 3, 4, 5, 9, 10, 11."""
    sizes: Sizes = {
        "decoder.layers.0.mlp.linear_fc1.weight": (12, 1),
        "decoder.layers.0.mlp.linear_fc2.weight": (1, 6),
    }
    cut = given("megatron-gpt", sizes, "tp=2", "divisor=4", tmp_path / "layout", 2)
    assert cut[1]["decoder.layers.0.mlp.linear_fc1.weight"].reshape(-1).tolist() == [3, 4, 5, 9, 10, 11]


NAME = "decoder.layers.0.self_attention.linear_qkv.weight"


@pytest.mark.parametrize(
    ("names", "options", "reasons"),
    [
        (
            [NAME],
            ("--layout", "megatron-gpt", "--to", "tp=3"),
            [f"tensor '{NAME}' of shape [16, 4] on mesh 'dense' (tp=3,", "layout 'megatron-gpt' line ", "into 3 parts"],
        ),
        (
            [NAME, "model.norm.weight"],
            ("--layout", "megatron-gpt", "--to", "tp=2"),
            ["tensor 'model.norm.weight' of shape [16, 4]: no rule of layout 'megatron-gpt' matches"],
        ),
        (
            [NAME, "output_layer.weight"],
            ("--layout", "megatron-gpt", "--to", "tp=2", "--sizes", "vocab=20"),
            ["tensor 'output_layer.weight' has shape [16, 4]", "expected at least 20 in dim 0, found 16"],
        ),
    ],
)
def test_what_does_not_fit_is_named_with_the_rule_and_both_layouts(
    names: list[str], options: tuple[str, ...], reasons: list[str], tmp_path: Path
) -> None:
    save_file({name: torch.zeros(16, 4) for name in names}, tmp_path / "in.safetensors")
    (tmp_path / "plain.yaml").write_text(
        "family: plain\nmeshes: {d: [tp]}\ntensors: [{match: '*', slice: [{dim: 0, by: tp}]}]\n"
    )
    tenplex(
        "reshard", tmp_path / "in.safetensors", tmp_path / "cut", "--layout", tmp_path / "plain.yaml", "--to", "tp=2"
    )
    run = tenplex("reshard", tmp_path / "cut", tmp_path / "out", *options, exit_code=1)
    for reason in reasons:
        assert reason in run.err
    assert "from layout 'plain' (tp=2) to layout 'megatron-gpt'" in run.err
    assert not (tmp_path / "out").exists()
