# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""docs/maps.md: its examples are maps, and its error messages are what the program says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from program import ROOT, tenplex, tenplex_json

TEXT = (ROOT / "docs/maps.md").read_text()
BLOCKS = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
FULL = BLOCKS[0]
HEAD = FULL[: FULL.index("tensors:")]
LAYER = {"0.q.weight": [4, 2], "0.k.weight": [2, 2], "0.v.weight": [2, 2]}


def whole_map(block: str) -> str:
    return block if "sides:" in block else HEAD + "tensors:\n" + block


@pytest.mark.parametrize("block", BLOCKS, ids=[block.split("\n")[0].strip(" -") for block in BLOCKS])
def test_every_example_is_a_map(block: str, tmp_path: Path) -> None:
    (tmp_path / "my.yaml").write_text(whole_map(block))
    tenplex("maps", "check", tmp_path / "my.yaml")


def test_table_names_the_built_in_maps() -> None:
    names = [entry["name"] for entry in tenplex_json("maps", "list")]
    assert sorted(re.findall(r"^\| `((?:hf|megatron)-\w+)` \|", TEXT, re.MULTILINE)) == names
    for name in names:
        assert tenplex("maps", "show", name).out == (ROOT / f"maps/{name}.yaml").read_text()


@pytest.mark.parametrize("blocks", ["1", "groups"])
def test_blocks_order_rows_as_the_table_says(blocks: str, tmp_path: Path) -> None:
    row = next(line for line in TEXT.splitlines() if re.match(rf"\| `?{blocks}`? \|", line))
    order = row.split("|")[2].split()
    assert len(order) == 8
    parts = {"q": 4, "k": 2, "v": 2}
    rows = {f"{part}{index}": hash_of(part, index) for part, count in parts.items() for index in range(count)}
    tensors = {f"0.{part}.weight": torch.tensor([rows[f"{part}{i}"] for i in range(n)]) for part, n in parts.items()}
    save_file(tensors, tmp_path / "in.safetensors")
    (tmp_path / "my.yaml").write_text(FULL.replace("blocks: groups", f"blocks: {blocks}"))
    arguments = ("--map", tmp_path / "my.yaml", "--sizes", "heads=4,groups=2")
    tenplex("reshard", tmp_path / "in.safetensors", tmp_path / "out.safetensors", *arguments)
    found = load_file(tmp_path / "out.safetensors")["h.0.qkv.weight"]
    assert found.tolist() == [rows[name] for name in order]


def hash_of(part: str, index: int) -> int:
    return ord(part) * 100 + index


# Message of the table -> (map, tensors, --sizes) that provoke it.
MESSAGES: dict[str, tuple[str, dict[str, list[int]], str]] = {
    "unknown key 'size'": (FULL.replace("sizes:", "size:"), LAYER, ""),
    "has this name for 'mine'": (FULL, {"embed.weight": [2], "x": [3]}, ""),
    "none of them is a tensor's": (FULL, {"x": [3]}, ""),
    "size 'heads' of map": (FULL, LAYER, ""),
    "expected extents like": (FULL, LAYER, "heads=8,groups=2"),
    "do not divide an extent of 9": (FULL, {"h.0.qkv.weight": [9, 2]}, "heads=4,groups=2"),
    "is missing": (FULL, {"0.q.weight": [4, 2], "0.v.weight": [2, 2]}, "heads=4,groups=2"),
    "no tensor has layer 1": (FULL, {"h.0.qkv.weight": [8], "h.2.qkv.weight": [8]}, "heads=4,groups=2"),
}


def test_every_message_of_the_table_is_provoked() -> None:
    rows = re.findall(r"^\| `[^`]*` \| .* \|$", TEXT.split("## Errors")[1], re.MULTILINE)
    assert len(rows) == len(MESSAGES)


@pytest.mark.parametrize("part", MESSAGES)
def test_messages_are_what_the_program_says(part: str, tmp_path: Path) -> None:
    row = next(line for line in TEXT.splitlines() if line.startswith("| `") and part in line)
    message = row.split("`")[1]
    text, tensors, sizes = MESSAGES[part]
    (tmp_path / "my.yaml").write_text(text)
    save_file({name: torch.zeros(shape) for name, shape in tensors.items()}, tmp_path / "in.safetensors")
    command = ("reshard", "in.safetensors", "out.safetensors", "--map", "my.yaml")
    run = tenplex(*command, *(("--sizes", sizes) if sizes else ()), exit_code=1, cwd=tmp_path)
    wanted = ".*".join(re.escape(text) for text in message.split("…"))
    assert re.search(wanted, run.err), f"expected {message}\nfound    {run.err}"
