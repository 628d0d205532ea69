#!/usr/bin/env python3
# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""Many small things: `inspect` on a DCP of 10^6 chunks, a tree of 10^6 chunks re-cut, and 50,000 tiny tensors re-cut.

bench/metadata.py [--chunks 1000000] [--tensors 50000] [--repetitions 5] [--folder /dev/shm]
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from make_dcp_metadata import write_many_chunks
from measure import Measured, Row, print_table

from program import MIB, Limits, Run, tenplex

CHUNKS_PER_TENSOR = (1000, 2)  # few long tensors; many, whose names weigh most
BUDGET_MIB = 64
BYTES_PER_CHUNK = 300  # of metadata; a chunk that is read and one that is written are two


def write_tiny_tensors(folder: Path, tensors: int) -> None:
    import torch
    import torch.distributed.checkpoint as dcp
    from safetensors.torch import save_file

    state = {f"layers.{index}.bias": torch.full((4, 4), index, dtype=torch.float32) for index in range(tensors)}
    save_file(state, folder / "tiny.safetensors")
    dcp.save(dict(state), checkpoint_id=str(folder / "tiny-dcp"), no_dist=True)


def timed_runs(repetitions: int, target: Path | None, *arguments: object) -> list[Run]:
    runs = []
    for _ in range(repetitions + 1):  # the first one warms the page cache
        runs.append(tenplex(*arguments, limits=Limits(seconds=300)))
        if target is not None:
            shutil.rmtree(target) if target.is_dir() else target.unlink()
    return runs[1:]


def seconds(runs: list[Run]) -> Measured:
    return Measured(tuple(run.wall_seconds for run in runs))


def inspect_rows(folder: Path, arguments: argparse.Namespace) -> list[Row]:
    rows = []
    for chunks in CHUNKS_PER_TENSOR:
        many = folder / f"many-{chunks}"
        write_many_chunks(many, arguments.chunks // chunks, chunks)
        measured = seconds(timed_runs(arguments.repetitions, None, "inspect", many))
        # Sampling takes time itself: it has a run of its own.
        peak = tenplex("inspect", many, sample_memory=True, limits=Limits(seconds=300)).peak_anonymous_bytes
        what = f"inspect, {arguments.chunks} chunks, {chunks} per tensor"
        rows.append(Row(what, str(measured), "< 5 s", measured.least < 5))
        rows.append(Row(f"{what}: peak RssAnon", f"{peak / MIB:.0f} MiB, {peak / arguments.chunks:.0f} B/chunk"))
        shutil.rmtree(many)
    return rows


def tree_rows(folder: Path, arguments: argparse.Namespace) -> list[Row]:
    """A nested state whose tensors have two chunks each, so that names and tree weigh most."""
    import torch

    tensors = arguments.chunks // 2
    names = (f"decoder.layers.{index}.mlp.linear_fc1.weight" for index in range(tensors))
    torch.save({"model": {name: torch.zeros(4, 2) for name in names}}, folder / "tree.pt")
    cut = ("--layout", "fsdp", "--to", "fsdp=2", "--format", "dcp", "--max-memory", f"{BUDGET_MIB}MiB")
    tenplex("reshard", folder / "tree.pt", folder / "tree", *cut, limits=Limits(seconds=600))
    run = tenplex("reshard", folder / "tree", folder / "target", *cut, sample_memory=True, limits=Limits(seconds=600))
    limit = (BUDGET_MIB + 32) * MIB + BYTES_PER_CHUNK * 4 * tensors
    for path in ("tree", "target"):
        shutil.rmtree(folder / path)
    (folder / "tree.pt").unlink()
    what = f"tree of {tensors} tensors, dcp of 2 -> dcp of 2, {4 * tensors} chunks read and written: peak RssAnon"
    peak = run.peak_anonymous_bytes
    return [Row(what, f"{peak / MIB:.0f} MiB", f"<= {limit / MIB:.0f} MiB", peak <= limit)]


def tiny_rows(folder: Path, arguments: argparse.Namespace) -> list[Row]:
    write_tiny_tensors(folder, arguments.tensors)
    cut = ("--layout", "fsdp", "--to", "fsdp=2", "--max-memory", f"{BUDGET_MIB}MiB")
    jobs = {
        "safetensors -> 2 devices": (folder / "tiny.safetensors", "safetensors", cut),
        "safetensors -> dcp of 2": (folder / "tiny.safetensors", "dcp", cut),
        "dcp -> dcp of 2": (folder / "tiny-dcp", "dcp", cut),
        "dcp -> safetensors of 2": (folder / "tiny-dcp", "safetensors", cut),
    }
    rows = []
    for name, (source, target_format, options) in jobs.items():
        target = folder / "target"
        runs = timed_runs(arguments.repetitions, target, "reshard", source, target, "--format", target_format, *options)
        measured = seconds(runs)
        rate = arguments.tensors / measured.least
        what = f"{arguments.tensors} tensors 4x4, {name}"
        rows.append(Row(what, f"{rate:.0f} tensors/s ({measured})", ">= 50000 tensors/s", rate >= 50_000))
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=1_000_000)
    parser.add_argument("--tensors", type=int, default=50_000)
    parser.add_argument("--folder", type=Path, default=Path("/dev/shm"))
    parser.add_argument("--repetitions", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder, prefix="tenplex-bench-") as name:
        folder = Path(name)
        rows = inspect_rows(folder, arguments) + tree_rows(folder, arguments) + tiny_rows(folder, arguments)
    return 0 if print_table(f"metadata: {arguments.repetitions} repetitions", rows) else 1


if __name__ == "__main__":
    sys.exit(main())
