# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""Constructs of the layout language whose results are worked out by hand: which rows lie in which device's file."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from compare import assert_same_tensors
from program import tenplex

PAD = -1


@dataclass(frozen=True)
class Case:
    """`rules` cut tensors whose row i holds i; `parts` lists per device the rows of each tensor that it stores."""

    rows: dict[str, int]
    mesh: str
    rules: str
    to: str
    parts: list[dict[str, list[int]]]


CASES = {
    "gated MLP over tp 4": Case(
        {"fc1": 16},
        "[tp]",
        "{match: fc1, slice: [{dim: 0, by: tp, segments: [1, 1]}]}",
        "tp=4",
        [{"fc1": [0, 1, 8, 9]}, {"fc1": [2, 3, 10, 11]}, {"fc1": [4, 5, 12, 13]}, {"fc1": [6, 7, 14, 15]}],
    ),
    "gated MLP over tp 2, then fsdp 2": Case(
        {"fc1": 16},
        "[tp, fsdp]",
        "{match: fc1, slice: [{dim: 0, by: tp, segments: [1, 1]}, {dim: 0, by: fsdp}]}",
        "tp=2,fsdp=2",
        [{"fc1": [0, 1, 2, 3]}, {"fc1": [4, 5, 6, 7]}, {"fc1": [8, 9, 10, 11]}, {"fc1": [12, 13, 14, 15]}],
    ),
    "fsdp 2 before tp 2": Case(
        {"w": 8},
        "[tp, fsdp]",
        "{match: w, slice: [{dim: 0, by: fsdp}, {dim: 0, by: tp}]}",
        "tp=2,fsdp=2",
        [{"w": [0, 1]}, {"w": [2, 3]}, {"w": [4, 5]}, {"w": [6, 7]}],
    ),
    "packed q, k, v of unequal widths": Case(
        {"qkv": 8},
        "[tp]",
        "{match: qkv, slice: [{dim: 0, by: tp, segments: [4, 2, 2]}]}",
        "tp=2",
        [{"qkv": [0, 1, 4, 6]}, {"qkv": [2, 3, 5, 7]}],
    ),
    "blocks of gate and up that alternate": Case(
        {"fc1": 8},
        "[tp]",
        "{match: fc1, slice: [{dim: 0, by: tp, segments: [1, 1], interleave: 2}]}",
        "tp=4",
        [{"fc1": [0, 2]}, {"fc1": [1, 3]}, {"fc1": [4, 6]}, {"fc1": [5, 7]}],
    ),
    "vocabulary of 13 rows padded to 8 x tp 2": Case(
        {"vocab": 13},
        "[tp]",
        "{match: vocab, pad: {dim: 0, multiple_of: [8, tp]}, slice: [{dim: 0, by: tp}]}",
        "tp=2",
        [{"vocab": [0, 1, 2, 3, 4, 5, 6, 7]}, {"vocab": [8, 9, 10, 11, 12, PAD, PAD, PAD]}],
    ),
    "6 rows over 4: 2, 2, 2, none": Case(
        {"w": 6},
        "[tp]",
        "{match: w, slice: [{dim: 0, by: tp}]}",
        "tp=4",
        [{"w": [0, 1]}, {"w": [2, 3]}, {"w": [4, 5]}, {}],
    ),
    "6 rows over 4, balanced": Case(
        {"w": 6},
        "[tp]",
        "{match: w, slice: [{dim: 0, by: tp, split: balanced}]}",
        "tp=4",
        [{"w": [0, 1]}, {"w": [2, 3]}, {"w": [4]}, {"w": [5]}],
    ),
    "widths as given": Case(
        {"w": 6},
        "[tp]",
        "{match: w, slice: [{dim: 0, by: tp, widths: [3, 0, 2, 1]}]}",
        "tp=4",
        [{"w": [0, 1, 2]}, {}, {"w": [3, 4]}, {"w": [5]}],
    ),
    "experts placed whole": Case(
        {f"experts.{expert}.w": 2 for expert in range(4)},
        "[ep]",
        "{match: 'experts.{expert}.w', slice: [{over: expert, by: ep}]}",
        "ep=2",
        [{"experts.0.w": [0, 1], "experts.1.w": [0, 1]}, {"experts.2.w": [0, 1], "experts.3.w": [0, 1]}],
    ),
    "5 layers over 2 stages, embedding first, head last": Case(
        {"embedding": 2, **{f"layers.{layer}.w": 1 for layer in range(5)}, "head": 3},
        "[pp]",
        "{match: embedding, stage: first}, {match: 'layers.{layer}.w', stage: layer}, {match: head, stage: last}",
        "pp=2",
        [
            {"embedding": [0, 1], "layers.0.w": [0], "layers.1.w": [0], "layers.2.w": [0]},
            {"layers.3.w": [0], "layers.4.w": [0], "head": [0, 1, 2]},
        ],
    ),
    "replicated": Case({"w": 2}, "[dp]", "{match: w}", "dp=2", [{"w": [0, 1]}, {"w": [0, 1]}]),
    "dp is the fastest axis of the mesh": Case(
        {"w": 2},
        "[dp, tp]",
        "{match: w, slice: [{dim: 0, by: tp}]}",
        "dp=2,tp=2",
        [{"w": [0]}, {"w": [0]}, {"w": [1]}, {"w": [1]}],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_devices_hold_the_rows_worked_out_by_hand(name: str, tmp_path: Path, wrote_by: Callable[[str], None]) -> None:
    wrote_by("safetensors")
    case = CASES[name]
    tensors = {
        key: torch.arange(rows, dtype=torch.int32).repeat_interleave(3).reshape(rows, 3)
        for key, rows in case.rows.items()
    }
    source, layout = tmp_path / "in.safetensors", tmp_path / "layout.yaml"
    save_file(tensors, source)
    layout.write_text(f"family: test\nmeshes: {{all: {case.mesh}}}\ntensors: [{case.rules}]\n")
    cut = ("--layout", layout, "--to", case.to)
    tenplex("reshard", source, tmp_path / "cut", *cut, "--format", "safetensors", "--verify")
    files = sorted((tmp_path / "cut").glob("*.safetensors"))
    assert len(files) == len(case.parts)
    for device, (file, parts) in enumerate(zip(files, case.parts, strict=True)):
        found = {key: part for key, part in load_file(file).items() if part.numel() > 0}
        assert sorted(found) == sorted(parts), f"device {device}"
        for key, rows in parts.items():
            stored = found[key].reshape(-1, 3)[:, 0].tolist()
            assert [PAD if row == PAD else value for value, row in zip(stored, rows, strict=True)] == rows, (
                device,
                key,
            )
    tenplex("reshard", tmp_path / "cut", tmp_path / "back.safetensors", "--format", "safetensors")
    assert_same_tensors(tensors, load_file(tmp_path / "back.safetensors"))


def test_padded_vocabulary_over_1_2_3_is_never_data(tmp_path: Path, wrote_by: Callable[[str], None]) -> None:
    wrote_by("safetensors")
    vocabulary = torch.arange(13 * 4, dtype=torch.float32).reshape(13, 4)
    save_file({"vocab": vocabulary}, tmp_path / "in.safetensors")
    layout = tmp_path / "layout.yaml"
    rule = "{match: vocab, pad: {dim: 0, multiple_of: [8, tp]}, slice: [{dim: 0, by: tp}]}"
    layout.write_text(f"family: padded\nmeshes: {{all: [tp]}}\ntensors: [{rule}]\n")
    before = tmp_path / "in.safetensors"
    for size in (1, 2, 3):
        target = tmp_path / str(size)
        tenplex("reshard", before, target, "--layout", layout, "--to", f"tp={size}", "--format", "dcp")
        tenplex("verify", tmp_path / "in.safetensors", target)
        before = target
    tenplex("reshard", before, tmp_path / "out.safetensors", "--format", "safetensors")
    assert_same_tensors({"vocab": vocabulary}, load_file(tmp_path / "out.safetensors"))


def test_names_of_device_files_are_in_the_order_of_devices(tmp_path: Path, wrote_by: Callable[[str], None]) -> None:
    wrote_by("safetensors")
    save_file({"w": torch.arange(12)}, tmp_path / "in.safetensors")
    cut = ("--layout", "fsdp", "--to", "fsdp=12", "--format", "safetensors")
    tenplex("reshard", tmp_path / "in.safetensors", tmp_path / "cut", *cut)
    files = sorted((tmp_path / "cut").glob("*.safetensors"))
    assert [load_file(file)["w"].tolist() for file in files] == [[rank] for rank in range(12)]
    assert [int(re.findall(r"\d+", file.name)[0]) for file in files] == list(range(12))
