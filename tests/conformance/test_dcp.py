# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""PyTorch Distributed Checkpoint: saved by FSDP2 and by tensor parallelism x FSDP2, re-cut, loaded and trained on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed.checkpoint.filesystem import FileSystemReader

from compare import assert_same_tensors, assert_same_tree
from makers import training
from makers.launch import run_ranks
from program import tenplex, tenplex_json

LAYOUTS = Path(__file__).parents[2] / "examples/layouts"


def read(path: Path) -> Any:
    return torch.load(path, weights_only=False)


def recut(source: Path, target: Path, *arguments: object) -> Path:
    tenplex("reshard", source, target, "--format", "dcp", *arguments)
    return target


def chunks_of(checkpoint: Path) -> dict[str, list[tuple[tuple[int, ...], tuple[int, ...]]]]:
    """Per tensor its chunks' offsets and sizes, as torch reads the metadata."""
    metadata = FileSystemReader(str(checkpoint)).read_metadata()
    return {
        name: sorted((tuple(chunk.offsets), tuple(chunk.sizes)) for chunk in entry.chunks if chunk.sizes.numel() > 0)
        for name, entry in metadata.state_dict_metadata.items()
        if hasattr(entry, "chunks")
    }


def rows_as_torch_cuts(rows: int, parts: int) -> list[tuple[int, int]]:
    """(first row, rows) of every part that FSDP2 makes: torch.chunk, whose last parts may be short or missing."""
    sizes = [len(part) for part in torch.arange(rows).chunk(parts)]
    return [(sum(sizes[:index]), size) for index, size in enumerate(sizes)]


@pytest.mark.parametrize("run", ["fsdp_run", "tp_fsdp_run", "safetensors_payload_run"])
@pytest.mark.parametrize("devices", [8, 3, 1])
def test_recut_state_is_the_saved_state(
    run: str, devices: int, request: pytest.FixtureRequest, tmp_path: Path, wrote_by: Callable[[str], None]
) -> None:
    wrote_by("torch")
    folder: Path = request.getfixturevalue(run)
    target = recut(folder / "checkpoint", tmp_path / "out", "--layout", "fsdp", "--to", f"fsdp={devices}", "--verify")
    assert_same_tree(read(folder / "before.pt"), training.load_whole(target), types=False)
    words = chunks_of(target)["model.words.weight"]
    assert words == [((first, 0), (rows, 24)) for first, rows in rows_as_torch_cuts(37, devices)]
    assert len(list(target.glob("*.distcp"))) == devices
    tenplex("verify", folder / "checkpoint", target)


def test_plain_tensors_load_with_dcp_load(tp_fsdp_run: Path, tmp_path: Path, wrote_by: Callable[[str], None]) -> None:
    wrote_by("torch")
    target = recut(tp_fsdp_run / "checkpoint", tmp_path / "out", "--layout", "fsdp", "--to", "fsdp=3")
    expected = training.load_into_plain_tensors(tp_fsdp_run / "checkpoint")
    assert len(expected) > 40
    assert_same_tensors(expected, training.load_into_plain_tensors(target))


def test_there_and_back_has_the_chunks_that_torch_wrote(
    fsdp_run: Path, tmp_path: Path, wrote_by: Callable[[str], None]
) -> None:
    wrote_by("torch")
    eight = recut(fsdp_run / "checkpoint", tmp_path / "8", "--layout", "fsdp", "--to", "fsdp=8")
    three = recut(eight, tmp_path / "3", "--layout", "fsdp", "--to", "fsdp=3")
    one = recut(three, tmp_path / "1", "--layout", "fsdp", "--to", "fsdp=1")
    back = recut(one, tmp_path / "4", "--layout", "fsdp", "--to", "fsdp=4")
    assert_same_tree(read(fsdp_run / "before.pt"), training.load_whole(back), types=False)
    original, again = chunks_of(fsdp_run / "checkpoint"), chunks_of(back)
    cut = [name for name, chunks in original.items() if len(chunks) > 1]
    assert len(cut) > 30
    assert {name: again[name] for name in cut} == {name: original[name] for name in cut}


def test_there_and_back_with_a_layout_for_both_cuts(
    tp_fsdp_run: Path, tmp_path: Path, wrote_by: Callable[[str], None]
) -> None:
    wrote_by("torch")
    source = tp_fsdp_run / "checkpoint"
    three = recut(source, tmp_path / "3", "--layout", "fsdp", "--to", "fsdp=3")
    layout = LAYOUTS / "tp-fsdp.yaml"
    back = recut(three, tmp_path / "4", "--layout", layout, "--to", "tp=2,fsdp=2")
    assert_same_tree(read(tp_fsdp_run / "before.pt"), training.load_whole(back), types=False)
    original, again = chunks_of(source), chunks_of(back)
    for name in ("model.blocks.0.up.weight", "model.blocks.1.down.weight", "optim.state.blocks.0.up.weight.exp_avg"):
        assert len(original[name]) == 4
        assert again[name] == original[name], name


@pytest.mark.parametrize("devices", [8, 3, 1])
def test_one_more_adam_step_alone_equals_the_run_without_a_break(
    devices: int, fsdp_run: Path, tmp_path: Path, wrote_by: Callable[[str], None]
) -> None:
    wrote_by("torch")
    target = recut(fsdp_run / "checkpoint", tmp_path / "out", "--layout", "fsdp", "--to", f"fsdp={devices}")
    assert_same_tree(read(fsdp_run / "after.pt"), training.resume_alone(target), types=False)


@pytest.mark.parametrize("run, kind, world_size", [("fsdp_run", "fsdp", 2), ("tp_fsdp_run", "tp_fsdp", 4)])
def test_one_more_adam_step_of_many_ranks_equals_the_run_without_a_break(
    run: str,
    kind: str,
    world_size: int,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    wrote_by: Callable[[str], None],
) -> None:
    wrote_by("torch")
    folder: Path = request.getfixturevalue(run)
    target = recut(folder / "checkpoint", tmp_path / "out", "--layout", "fsdp", "--to", "fsdp=3")
    result = tmp_path / "resumed.pt"
    arguments = {"kind": kind, "checkpoint": str(target), "result": str(result)}
    run_ranks("makers.training:resume", world_size, arguments)
    assert_same_tree(read(folder / "after.pt"), read(result), types=False)


def test_inspect_says_what_torch_wrote(tp_fsdp_run: Path, wrote_by: Callable[[str], None]) -> None:
    wrote_by("torch")
    report = tenplex_json("inspect", tp_fsdp_run / "checkpoint", "--tensors")
    assert report["format"] == "dcp"
    expected = training.load_into_plain_tensors(tp_fsdp_run / "checkpoint")
    found = {tensor["name"]: tensor for tensor in report["tensors"]}
    assert sorted(found) == sorted(expected)
    for name, tensor in expected.items():
        assert found[name]["shape"] == list(tensor.shape)
        assert found[name]["dtype"] == str(tensor.dtype).removeprefix("torch.")
