# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""docs/layouts.md: its examples are layouts, and its error messages are what the program says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from program import ROOT, tenplex

TEXT = (ROOT / "docs/layouts.md").read_text()
BLOCKS = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
MESHES = "meshes: {dense: [tp, dp, pp], expert: [etp, ep, edp, pp]}\n"
ALL = "tensors: [{match: '*'}]\n"


def whole_layout(block: str) -> str:
    """A block that shows some keys, with what every layout needs around it."""
    if block.startswith("  - "):
        return MESHES + "tensors:\n" + block
    return block if "tensors:" in block else MESHES + ALL + block


@pytest.mark.parametrize("block", BLOCKS, ids=[block.split(":")[0].strip(" -") for block in BLOCKS])
def test_every_example_is_a_layout(block: str, tmp_path: Path) -> None:
    (tmp_path / "my.yaml").write_text(whole_layout(block))
    tenplex("layouts", "check", tmp_path / "my.yaml")


# Message of the table -> (layout, tensors, --to) that provoke it.
MESSAGES: dict[str, tuple[str, dict[str, list[int]], str]] = {
    "unknown key 'slise'": ("meshes: {dense: [tp, dp]}\ntensors:\n  - match: '*'\n    slise: []\n", {"w": [4]}, "tp=2"),
    "mesh 'dense' has no axis 'tpp'": (
        "meshes: {dense: [tp, dp]}\ntensors:\n  - match: '*'\n    slice: [{dim: 0, by: tpp}]\n",
        {"w": [4]},
        "tp=2",
    ),
    "axis 'tp' is used twice": (
        "meshes: {dense: [tp, dp]}\ntensors:\n  - match: '*'\n    slice:\n"
        "      - {dim: 0, by: tp}\n      - {dim: 1, by: tp}\n",
        {"w": [4, 4]},
        "tp=2",
    ),
    "unknown mesh axis 'ep'": ("meshes: {dense: [tp, dp]}\n" + ALL, {"w": [4]}, "ep=2"),
    "must have the same number of devices": (
        "meshes: {dense: [tp, dp], expert: [ep, edp]}\n" + ALL,
        {"w": [4]},
        "tp=4,dp=2,ep=4",
    ),
    "no rule of layout 'my.yaml' matches": ("meshes: {dense: [tp]}\ntensors: [{match: v}]\n", {"x": [4]}, "tp=2"),
    "slices dim 1, but the tensor has rank 1": (
        "meshes: {dense: [tp]}\ntensors:\n  - match: w\n    slice: [{dim: 1, by: tp}]\n",
        {"w": [4]},
        "tp=2",
    ),
    "which does not divide the local extent 5": (
        "meshes: {dense: [tp]}\ntensors:\n  - match: w\n    slice: [{dim: 0, by: tp, segments: [1, 1]}]\n",
        {"w": [5]},
        "tp=2",
    ),
    "calls padding: expected 13 or a multiple of 4": (
        "meshes: {dense: [tp]}\ntensors:\n  - match: w\n    pad: {dim: 0, data: 13, multiple_of: [4, tp]}\n",
        {"w": [18]},
        "tp=2",
    ),
    "calls padding: expected at least 13": (
        "meshes: {dense: [tp]}\ntensors:\n  - match: w\n    pad: {dim: 0, data: 13, multiple_of: [4, tp]}\n",
        {"w": [12]},
        "tp=2",
    ),
    "size 'vocab' has no value": (
        "meshes: {dense: [tp]}\ntensors:\n  - match: w\n    pad: {dim: 0, data: vocab, multiple_of: [4]}\n",
        {"w": [4]},
        "tp=2",
    ),
    "dim 0 must be 1 to 16 times dim 1": (
        "meshes: {dense: [tp]}\ntensors:\n  - match: w\n"
        "    slice: [{dim: 0, by: tp, segments: {like: v, dim: 1}}]\n  - match: v\n",
        {"w": [6], "v": [2, 4]},
        "tp=2",
    ),
    "dim 0 numbers layers": (
        "meshes: {dense: [pp]}\ntensors:\n  - match: ['v', 'w']\n    slice: [{dim: 0, by: pp, split: stages}]\n",
        {"v": [4], "w": [3]},
        "pp=2",
    ),
    "5 layers cannot be dealt out": (
        "meshes: {dense: [pp]}\n\nstages: {first: 1, last: 1}\ntensors:\n  - match: w\n"
        "    slice: [{dim: 0, by: pp, split: stages}]\n",
        {"w": [5]},
        "pp=4",
    ),
    "cannot share out": (
        "meshes: {dense: [tp, dp], expert: [ep, edp]}\naxes: {edp: rest}\n" + ALL,
        {"w": [4]},
        "tp=2,dp=3,ep=4",
    ),
}


@pytest.mark.parametrize("part", MESSAGES)
def test_messages_are_what_the_program_says(part: str, tmp_path: Path) -> None:
    row = next(line for line in TEXT.splitlines() if line.startswith("| `") and part in line)
    message = row.split("`")[1]
    layout, tensors, sizes = MESSAGES[part]
    (tmp_path / "my.yaml").write_text(layout)
    save_file({name: torch.zeros(shape) for name, shape in tensors.items()}, tmp_path / "in.safetensors")
    command = ("reshard", "in.safetensors", "out", "--layout", "my.yaml", "--to", sizes)
    run = tenplex(*command, exit_code=None, cwd=tmp_path)
    assert run.exit_code in (1, 2)
    wanted = ".*".join(re.escape(text) for text in message.split("…"))
    assert re.search(wanted, run.err), f"expected {message}\nfound    {run.err}"
    assert not (tmp_path / "out").exists()
