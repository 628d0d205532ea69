# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""Memory stays within --max-memory + 32 MiB + 300 B per chunk, and no more is read than needed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import save_file

from memory_group import MemoryGroup
from program import MIB, Limits, Run, tenplex

BUDGET_MIB = 16
TARGETS: dict[str, tuple[str, ...]] = {
    "devices": ("--format", "safetensors", "--layout", "fsdp", "--to", "fsdp=3"),
    "dcp": ("--format", "dcp", "--layout", "fsdp", "--to", "fsdp=3"),
    "columns": ("--format", "dcp", "--layout", "columns", "--to", "tp=4"),
    "model": ("--format", "hf"),
    "file.pt": ("--format", "torch"),
}
COLUMNS = """family: columns
meshes: {dense: [tp]}
tensors:
  - match: "*"
    slice: [{dim: 1, by: tp}]
"""


def tensors() -> dict[str, torch.Tensor]:
    """Ten times the budget; one tensor has four times the budget."""
    generator = torch.Generator().manual_seed(1)

    def make(mib: int) -> torch.Tensor:
        return torch.randint(0, 1 << 30, (mib * 128, 2048), dtype=torch.int32, generator=generator)

    return {"large": make(4 * BUDGET_MIB), **{f"small.{index}": make(8) for index in range(6 * BUDGET_MIB // 8)}}


@pytest.fixture(scope="module")
def sources(inputs: Path) -> dict[str, Path]:
    folder = inputs / "memory"
    folder.mkdir()
    state = tensors()
    save_file(state, folder / "in.safetensors")
    dcp.save(dict(state), checkpoint_id=str(folder / "dcp"), no_dist=True)
    torch.save(state, folder / "in.pt")
    return {"safetensors": folder / "in.safetensors", "dcp": folder / "dcp", "torch": folder / "in.pt"}


def size_of(path: Path) -> int:
    return sum(file.stat().st_size for file in path.rglob("*")) if path.is_dir() else path.stat().st_size


def options_of(target: str, folder: Path) -> list[object]:
    options: list[object] = list(TARGETS[target])
    if "columns" in options:
        (folder / "columns.yaml").write_text(COLUMNS)
        options[options.index("columns")] = folder / "columns.yaml"
    return options


def assert_within_budget(run: Run, chunks: int) -> None:
    limit = (BUDGET_MIB + 32) * MIB + 300 * chunks
    assert 0 < run.peak_anonymous_bytes <= limit, f"{run.peak_anonymous_bytes / MIB:.1f} MiB, limit {limit / MIB:.1f}"


@pytest.mark.parametrize("kind", ["safetensors", "dcp", "torch"])
@pytest.mark.parametrize("target", TARGETS)
def test_anonymous_memory_and_bytes_read_stay_bounded(
    kind: str, target: str, sources: dict[str, Path], tmp_path: Path
) -> None:
    source = sources[kind]
    command = ("reshard", source, tmp_path / target, *options_of(target, tmp_path), "--max-memory", f"{BUDGET_MIB}MiB")
    run = tenplex(*command, sample_memory=True)
    assert_within_budget(run, chunks=100)
    items = len(tensors())
    metadata_and_program = 2 * MIB
    assert run.read_bytes >= 0
    assert run.read_bytes <= 1.05 * size_of(source) + 4096 * items + metadata_and_program


@pytest.mark.parametrize("command", ["verify", "digest"])
def test_comparing_stays_within_the_default_budget(command: str, sources: dict[str, Path]) -> None:
    paths = [sources["safetensors"], sources["dcp"]][: 2 if command == "verify" else 1]
    run = tenplex(command, *paths, sample_memory=True)
    assert run.peak_anonymous_bytes <= (256 + 32) * MIB


@pytest.mark.parametrize("kind", ["text", "bytes"])
@pytest.mark.parametrize("source_format, target_format", [("torch", "torch"), ("torch", "dcp"), ("dcp", "dcp")])
def test_large_objects_are_held_once_as_they_are_and_once_pickled(
    kind: str, source_format: str, target_format: str, tmp_path: Path
) -> None:
    size = 64 * MIB
    text = os.urandom(size // 2).hex()
    pickled = size if kind == "text" else size * 3 // 2  # protocol 2 writes bytes as text: half of these take two bytes
    torch.save({"w": torch.ones(4), "o": text if kind == "text" else os.urandom(size)}, tmp_path / "in.pt")
    source = tmp_path / "in.pt"
    if source_format == "dcp":
        source = tmp_path / "in"
        tenplex("reshard", tmp_path / "in.pt", source, "--format", "dcp")
    command = ("reshard", source, tmp_path / "out", "--format", target_format, "--max-memory", "1MiB")
    run = tenplex(*command, sample_memory=True)
    assert size < run.peak_anonymous_bytes <= size + pickled + 16 * MIB
    tenplex("verify", tmp_path / "in.pt", tmp_path / "out")


@pytest.fixture
def confine(request: pytest.FixtureRequest) -> Iterator[tuple[Callable[[], None] | None, Limits]]:
    """A memory cgroup where this machine lets us make one, else a limit on the process's data."""
    limit = (BUDGET_MIB + 40) * MIB
    try:
        group = MemoryGroup(limit)
    except OSError as error:
        print(f"no memory cgroup here ({error}): RLIMIT_DATA instead")
        yield None, Limits(data_bytes=limit + 64 * MIB)  # thread stacks and reserved heaps count, touched or not
        return
    print("limited by a memory cgroup")
    yield group.join, Limits()
    group.remove()


@pytest.mark.parametrize("kind, target", [("safetensors", "dcp"), ("dcp", "columns"), ("torch", "devices")])
def test_recut_under_a_memory_limit(
    kind: str,
    target: str,
    sources: dict[str, Path],
    tmp_path: Path,
    confine: tuple[Callable[[], None] | None, Limits],
) -> None:
    join, limits = confine
    out = tmp_path / target
    command = ("reshard", sources[kind], out, *options_of(target, tmp_path), "--max-memory", f"{BUDGET_MIB}MiB")
    run = tenplex(*command, sample_memory=True, before_exec=join, limits=limits)
    assert_within_budget(run, chunks=100)
    tenplex("verify", sources[kind], out)


def test_budget_too_small_is_refused_with_the_least(sources: dict[str, Path], tmp_path: Path) -> None:
    run = tenplex("reshard", sources["dcp"], tmp_path / "x", "--format", "dcp", "--max-memory", "1KiB", exit_code=None)
    assert run.exit_code in (1, 2)
    assert "--max-memory: expected at least 1.0 MiB, found 1.0 KiB" in run.reason
    assert not (tmp_path / "x").exists()
