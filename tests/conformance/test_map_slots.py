# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""Optimizer slots, the common state and ties under naming maps. Sources are written and targets read by torch."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import load_file, save_file

from makers import megatron_dist
from makers.training import load_into_plain_tensors, load_whole
from program import tenplex

MAP = """
sides: [mine, theirs]
sizes: {heads: num_attention_heads, groups: {config: num_query_groups, default: heads}}
tensors:
  - mine: ['{layer}.q.weight', '{layer}.k.weight', '{layer}.v.weight']
    theirs: {name: 'h.{layer}.qkv.weight', blocks: groups}
    widths: [heads, groups, groups]
  - {mine: norm.weight, theirs: ln.weight}
"""
SLOTS = ("fp32_param", "exp_avg", "exp_avg_sq")
ARGUMENTS = argparse.Namespace(num_attention_heads=4, num_query_groups=2, group_query_attention=True, rate=0.5)


def state() -> dict[str, Any]:
    generator = torch.Generator().manual_seed(5)
    found: dict[str, Any] = {}
    for layer in range(2):
        for part, rows in (("q", 8), ("k", 4), ("v", 4)):
            name = f"{layer}.{part}.weight"
            found[name] = torch.randn(rows, 3, generator=generator).to(torch.bfloat16)
            for slot in SLOTS:
                found[f"optimizer.state.{slot}.{name}"] = torch.randn(rows, 3, generator=generator)
            found[f"optimizer.state.step.{name}"] = torch.tensor(7.0)
    found["norm.weight"] = torch.randn(3, generator=generator)
    found["common"] = {"args": ARGUMENTS, "iteration": 70, "seed": torch.arange(5)}
    return found


def joined(found: dict[str, Any], layer: int, front: str = "") -> torch.Tensor:
    """Two groups of two heads of two rows."""
    q, k, v = (found[f"{front}{layer}.{part}.weight"] for part in "qkv")
    return torch.cat([q[0:4], k[0:2], v[0:2], q[4:8], k[2:4], v[2:4]])


def check(source: dict[str, Any], target: dict[str, Any]) -> None:
    for layer in range(2):
        for front in ("", *(f"optimizer.state.{slot}." for slot in SLOTS)):
            found = target[f"{front}h.{layer}.qkv.weight"]
            assert found.dtype == (torch.float32 if front else torch.bfloat16)
            assert torch.equal(found, joined(source, layer, front))
        assert target[f"optimizer.state.step.h.{layer}.qkv.weight"].item() == 7
    assert torch.equal(target["ln.weight"], source["norm.weight"])
    assert target["common"]["iteration"] == 70
    assert target["common"]["args"] == ARGUMENTS
    assert torch.equal(target["common"]["seed"], source["common"]["seed"])
    assert len(target) == 2 * 5 + 2


def write(folder: Path, found: dict[str, Any], form: str) -> Path:
    (folder / "map.yaml").write_text(MAP)
    if form == "torch":
        torch.save(found, folder / "in.pt")
        return folder / "in.pt"
    dcp.save(found, checkpoint_id=folder / "in")
    return folder / "in"


@pytest.mark.parametrize("form", ["torch", "dcp"])
def test_slots_and_the_common_state_go_along(form: str, tmp_path: Path) -> None:
    """Numbers of heads come from the arguments in the state: there is no config.json and no --sizes."""
    source = state()
    path = write(tmp_path, source, form)
    tenplex("reshard", path, tmp_path / "out.pt", "--map", tmp_path / "map.yaml", "--format", "torch")
    check(source, torch.load(tmp_path / "out.pt", weights_only=False))
    tenplex("reshard", tmp_path / "out.pt", tmp_path / "back.pt", "--map", tmp_path / "map.yaml")
    back = torch.load(tmp_path / "back.pt", weights_only=False)
    assert set(back) == set(source)
    assert all(torch.equal(back[name], value) for name, value in source.items() if name != "common")


def test_slots_are_cut_on_the_way(tmp_path: Path) -> None:
    source = state()
    path = write(tmp_path, source, "torch")
    layout = "meshes: {d: [tp, dp]}\ntensors:\n  - {match: 'h.{layer}.qkv.weight', slice: [{dim: 0, by: tp}]}\n"
    (tmp_path / "layout.yaml").write_text(layout + "  - match: '*'\n")
    options = ("--map", tmp_path / "map.yaml", "--layout", f"{tmp_path}/layout.yaml+zero1", "--to", "tp=2,dp=2")
    tenplex("reshard", path, tmp_path / "out", *options, "--format", "dcp")
    check(source, load_whole(tmp_path / "out"))


def test_a_slot_that_is_missing_for_one_part_is_named(tmp_path: Path) -> None:
    source = state()
    del source["optimizer.state.exp_avg.1.k.weight"]
    path = write(tmp_path, source, "torch")
    run = tenplex("reshard", path, tmp_path / "out.pt", "--map", tmp_path / "map.yaml", exit_code=1)
    assert "tensor 'optimizer.state.exp_avg.1.k.weight' is missing" in run.err
    assert not (tmp_path / "out.pt").exists()


def test_steps_that_differ_are_refused(tmp_path: Path) -> None:
    source = state()
    source["optimizer.state.step.0.v.weight"] = torch.tensor(8.0)
    path = write(tmp_path, source, "torch")
    run = tenplex("reshard", path, tmp_path / "out.pt", "--map", tmp_path / "map.yaml", exit_code=1)
    assert "'optimizer.state.step.0.q.weight' and 'optimizer.state.step.0.v.weight' have different values" in run.err


def test_objects_outside_of_the_common_state_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path, state() | {"iteration": 3}, "torch")
    run = tenplex("reshard", path, tmp_path / "out.pt", "--map", tmp_path / "map.yaml", exit_code=1)
    assert "object 'iteration' has no place among tensors with other names" in run.err


@pytest.mark.parametrize(("tied", "same", "warns"), [(True, False, True), (True, True, False), (False, False, False)])
def test_embeddings_said_to_be_tied_that_differ_are_kept_with_a_warning(
    tied: bool, same: bool, warns: bool, tmp_path: Path
) -> None:
    table = torch.arange(12.0).reshape(4, 3)
    stored = {"model.embed_tokens.weight": table, "lm_head.weight": table.clone() if same else table + 1}
    save_file(stored, tmp_path / "in.safetensors")
    (tmp_path / "config.json").write_text(json.dumps({"tie_word_embeddings": tied}))
    run = tenplex("reshard", tmp_path / "in.safetensors", tmp_path / "out.safetensors")
    assert ("are tied, and their bytes differ: both are kept" in run.err) == warns
    target = load_file(tmp_path / "out.safetensors")
    assert all(torch.equal(target[name], tensor) for name, tensor in stored.items())


def expected(key: str, value: torch.Tensor) -> torch.Tensor:
    """The maker's formula, which has no halves of biases."""
    if not key.endswith(("fc1.bias_w", "fc1.bias_v")):
        return megatron_dist.expected(key, tuple(value.shape), value.dtype)
    both = megatron_dist.expected(key[:-2], (2 * value.shape[0],), value.dtype)
    return both.chunk(2)[key.endswith("_v")]


@pytest.mark.parametrize("name", ["dense", "experts"])
def test_megatron_styles_of_layers_become_each_other(
    name: str, megatron_dist_case: Callable[[str], Path], tmp_path: Path
) -> None:
    """Stacked, saved by the library, to one tensor per layer and to halves: values by the maker's formula for names."""
    checkpoint = megatron_dist_case(name)
    stacked = load_into_plain_tensors(checkpoint)
    save_file(stacked, tmp_path / "stacked.safetensors")
    layers, halves = tmp_path / "layers.safetensors", tmp_path / "singleton.safetensors"
    tenplex("reshard", tmp_path / "stacked.safetensors", layers, "--map", "megatron-stacked")
    tenplex("reshard", layers, halves, "--map", "megatron-singleton")
    for path in (layers, halves):
        found = load_file(path)
        assert any(key.endswith("fc1.weight_w") for key in found) == (path == halves)
        for key, value in found.items():
            assert torch.equal(value, expected(key, value)), key
    tenplex("reshard", halves, tmp_path / "layers2.safetensors", "--map", "megatron-singleton")
    tenplex("reshard", tmp_path / "layers2.safetensors", tmp_path / "again.safetensors", "--map", "megatron-stacked")
    again = load_file(tmp_path / "again.safetensors")
    assert set(again) == set(stacked)
    assert all(torch.equal(again[key], value) for key, value in stacked.items())
