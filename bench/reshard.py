#!/usr/bin/env python3
# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""Re-cuts a checkpoint in which every tensor changes its cut, against a plain copy loop and against torch.

    bench/reshard.py [--gib 4] [--folder /dev/shm] [--disk FOLDER] [--repetitions 5]

The contenders take turns; the least of all repetitions counts. Sources are made by torch and safetensors.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from measure import Measured, PlainCopy, Row, files_of, print_table

from makers.launch import run_ranks
from makers.recut_source import TENSOR_SHAPE
from program import MIB, Run, tenplex

MAX_MEMORY_MIB = 256
COLUMNS = 'family: columns\nmeshes: {dense: [tp]}\ntensors: [{match: "*", slice: [{dim: 1, by: tp}]}]\n'

# Run in a fresh process: imports first, then only library calls count.
TORCH_JOB = """
import json, resource, sys, time
import torch
import torch.distributed.checkpoint as dcp
source, target = sys.argv[1:]
metadata = dcp.FileSystemReader(source).read_metadata()
def cpu():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
before, begin = cpu(), time.monotonic()
state = {name: torch.empty(entry.size, dtype=entry.properties.dtype)
         for name, entry in metadata.state_dict_metadata.items()}
dcp.load(state, checkpoint_id=source, no_dist=True)
dcp.save(state, storage_writer=dcp.FileSystemWriter(target, sync_files=True), no_dist=True)
print(json.dumps({"cpu_seconds": cpu() - before, "wall_seconds": time.monotonic() - begin}))
"""


def make_sources(folder: Path, gib: float) -> tuple[Path, Path]:
    import torch
    from safetensors.torch import save_file

    tensors = max(1, round(gib * 1024 / 32))
    run_ranks("makers.recut_source:save_cut_in_four", 4, {"folder": str(folder / "dcp"), "tensors": tensors}, 900)
    torch.manual_seed(0)
    state = {f"layers.{index}.weight": torch.rand(TENSOR_SHAPE) for index in range(tensors)}
    save_file(state, folder / "in.safetensors")
    return folder / "dcp", folder / "in.safetensors"


def remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    elif path.exists():
        path.unlink()


def timed(work: Callable[[], object]) -> float:
    begin = time.monotonic()
    work()
    return time.monotonic() - begin


class Comparison:
    """One job: `source` re-cut with `options`, beside the plain loop (and `cp` or torch) over the same bytes."""

    def __init__(self, name: str, source: Path, folder: Path, options: list[object]) -> None:
        self.name = name
        self._source = source
        self._target = folder / "target"
        self._options = options
        # As many threads as the program takes by itself, and one.
        self._plain = {"plain": PlainCopy(len(os.sched_getaffinity(0))), "plain, one thread": PlainCopy(1)}
        self._plain_cpu: dict[str, list[float]] = {}
        self._runs: list[Run] = []
        self._sampled: Run | None = None
        self._times: dict[str, list[float]] = {}
        self._torch_cpu: list[float] = []

    def _time(self, name: str, work: Callable[[], object]) -> None:
        self._times.setdefault(name, []).append(timed(work))
        remove(self._target)

    def _ours(self) -> None:
        self._runs.append(tenplex("reshard", self._source, self._target, *self._options))

    def _copy(self, name: str, sources: list[Path], sync: bool) -> None:
        wall, cpu = self._plain[name].copy(sources, self._target, sync)
        self._times.setdefault(name, []).append(wall)
        self._plain_cpu.setdefault(name, []).append(cpu)
        remove(self._target)

    def _torch(self) -> None:
        command = [sys.executable, "-W", "ignore", "-c", TORCH_JOB, str(self._source), str(self._target)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        result = json.loads(done.stdout.splitlines()[-1])
        self._torch_cpu.append(result["cpu_seconds"])
        self._times.setdefault("torch", []).append(result["wall_seconds"])
        remove(self._target)

    def _cp(self) -> None:
        subprocess.run(["cp", "-r", str(self._source), str(self._target)], check=True)
        for file in files_of(self._target):
            with file.open("rb") as opened:
                os.fsync(opened.fileno())

    def measure(self, repetitions: int, with_torch: bool, with_cp: bool) -> None:
        sources = files_of(self._source)
        # This run warms the page cache and the program. Sampling takes time itself, so no other run is sampled.
        self._sampled = tenplex("reshard", self._source, self._target, *self._options, sample_memory=True)
        remove(self._target)
        for _ in range(repetitions):
            for name in self._plain:
                self._copy(name, sources, sync=with_cp)
            self._time("ours", self._ours)
            if with_cp:
                self._time("cp", self._cp)
            if with_torch:
                self._torch()

    def rows(self, limits: bool) -> list[Row]:
        times = {name: Measured(tuple(seconds)) for name, seconds in self._times.items()}
        rows = [Row(f"{self.name}: {name}", str(measured)) for name, measured in times.items()]
        ratio = times["ours"].least / times["plain"].least
        rows.append(
            Row(f"{self.name}: wall against plain", f"{ratio:.2f} x", "<= 1.30 x", ratio <= 1.3 if limits else None)
        )
        one = times["ours"].least / times["plain, one thread"].least
        rows.append(Row(f"{self.name}: wall against plain, one thread", f"{one:.2f} x"))
        cpu = min(run.cpu_seconds for run in self._runs) / min(self._plain_cpu["plain"])
        rows.append(Row(f"{self.name}: CPU against plain", f"{cpu:.2f} x"))
        if "cp" in times:
            rows.append(Row(f"{self.name}: wall against cp", f"{times['ours'].least / times['cp'].least:.2f} x"))
        ours_cpu = min(run.cpu_seconds for run in self._runs)
        if self._torch_cpu:
            torch_ratio = min(self._torch_cpu) / ours_cpu
            value = f"{min(self._torch_cpu):.2f} s / {ours_cpu:.2f} s = {torch_ratio:.2f} x"
            rows.append(Row(f"{self.name}: CPU of torch / ours", value, ">= 3.00 x", torch_ratio >= 3))
        return rows + self._bounded_rows()

    def _bounded_rows(self) -> list[Row]:
        """Memory, and bytes read against those needed: of the tensors, 4 KiB per stored item, and the metadata."""
        assert self._sampled is not None
        inspected = tenplex("inspect", self._source, "--json")
        facts = inspected.json()
        peak = self._sampled.peak_anonymous_bytes
        most = (MAX_MEMORY_MIB + 32) * MIB + 300 * facts["chunk_count"]
        needed = facts["tensor_bytes"]
        read = max(run.read_bytes for run in self._runs) - inspected.read_bytes
        allowed = 1.05 * needed + 4096 * facts["chunk_count"]
        return [
            Row(f"{self.name}: peak RssAnon", f"{peak / MIB:.1f} MiB", f"<= {most / MIB:.1f} MiB", peak <= most),
            Row(
                f"{self.name}: bytes read / needed, without metadata",
                f"{read / needed:.4f}",
                f"<= {allowed / needed:.4f}",
                read <= allowed,
            ),
        ]


def bench(folder: Path, arguments: argparse.Namespace, on_disk: bool) -> list[Row]:
    gib = arguments.disk_gib if on_disk else arguments.gib
    dcp_source, safetensors_source = make_sources(folder, gib)
    (folder / "columns.yaml").write_text(COLUMNS)
    memory = ["--max-memory", f"{MAX_MEMORY_MIB}MiB"]
    rows_cut = ["--layout", "fsdp", "--to", "fsdp=3", *memory]
    columns_cut = ["--layout", folder / "columns.yaml", "--to", "tp=4", *memory]
    jobs = [
        Comparison("dcp 4 -> dcp 3 by rows", dcp_source, folder, ["--format", "dcp", *rows_cut]),
        Comparison("dcp 4 -> dcp 4 by columns", dcp_source, folder, ["--format", "dcp", *columns_cut]),
        Comparison("safetensors -> 3 by rows", safetensors_source, folder, ["--format", "safetensors", *rows_cut]),
        Comparison(
            "safetensors -> 4 by columns", safetensors_source, folder, ["--format", "safetensors", *columns_cut]
        ),
    ]
    rows: list[Row] = []
    for job in jobs:
        is_dcp = job.name.startswith("dcp")
        job.measure(arguments.repetitions, with_torch=is_dcp and not on_disk, with_cp=on_disk)
        rows += job.rows(limits=not on_disk)
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gib", type=float, default=4.0, help="size of each source in memory")
    parser.add_argument("--folder", type=Path, default=Path("/dev/shm"), help="a tmpfs")
    parser.add_argument("--disk", type=Path, help="also on this disk")
    parser.add_argument("--disk-gib", type=float, default=2.0)
    parser.add_argument("--repetitions", type=int, default=5)
    arguments = parser.parse_args()
    held = True
    places = [(arguments.folder, False)] + ([(arguments.disk, True)] if arguments.disk else [])
    for place, on_disk in places:
        with tempfile.TemporaryDirectory(dir=place, prefix="tenplex-bench-") as name:
            rows = bench(Path(name), arguments, on_disk)
        gib = arguments.disk_gib if on_disk else arguments.gib
        title = (
            f"re-cut on {'disk, with fsync' if on_disk else 'tmpfs'}: {gib:g} GiB, {arguments.repetitions} repetitions"
        )
        held = print_table(title, rows) and held
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
