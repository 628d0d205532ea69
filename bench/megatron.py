#!/usr/bin/env python3
# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""Re-cuts a Megatron-Core checkpoint with optimizer from TP2 PP2 to TP4, against a plain copy loop and Megatron-Core.

    bench/megatron.py [--gib 4] [--folder /dev/shm] [--repetitions 3]

The contenders take turns; the least of all repetitions counts. Megatron-Core loads and saves in one process per rank;
the CPU time of all ranks counts, without their imports. The source is made by Megatron-Core.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

from reshard import remove

from measure import Measured, PlainCopy, Row, files_of, print_table

from makers.launch import run_ranks
from program import MIB, Run, tenplex

MAX_MEMORY_MIB = 256
RANKS = 4
# As in tests/makers/megatron_large.py, which imports the library.
LAYER_BYTES = 14 * (4 * 2048**2 + 3 * 2048 * 5504)


class Comparison:
    def __init__(self, folder: Path, layers: int) -> None:
        self._folder = folder
        self._source = folder / "source"
        self._target = folder / "target"
        self._layers = layers
        self._plain = PlainCopy(len(os.sched_getaffinity(0)))
        self._plain_wall: list[float] = []
        self._runs: list[Run] = []
        self._library: list[tuple[float, float]] = []

    def make_source(self) -> None:
        self._source.mkdir()
        arguments = {"tp": 2, "pp": 2, "layers": self._layers, "folder": str(self._source)}
        run_ranks("makers.megatron_large:save", RANKS, arguments, 900)

    def _ours(self, sample_memory: bool = False) -> Run:
        options = ["--layout", "megatron-gpt", "--to", "tp=4", "--max-memory", f"{MAX_MEMORY_MIB}MiB"]
        run = tenplex("reshard", self._source, self._target, *options, sample_memory=sample_memory)
        remove(self._target)
        return run

    def _run_library(self) -> None:
        self._target.mkdir()
        result = self._folder / "result"
        result.mkdir(exist_ok=True)
        arguments = {
            "tp": RANKS,
            "layers": self._layers,
            "source": str(self._source),
            "target": str(self._target),
            "result": str(result),
        }
        run_ranks("makers.megatron_large:recut", RANKS, arguments, 900)
        ranks = [json.loads((result / f"rank_{rank}.json").read_text()) for rank in range(RANKS)]
        self._library.append((sum(rank["cpu_seconds"] for rank in ranks), max(rank["wall_seconds"] for rank in ranks)))
        remove(self._target)

    def measure(self, repetitions: int) -> list[Row]:
        sampled = self._ours(sample_memory=True)
        for _ in range(repetitions):
            self._plain_wall.append(self._plain.copy(files_of(self._source), self._target, False)[0])
            remove(self._target)
            self._runs.append(self._ours())
            self._run_library()
        wall, plain = Measured(tuple(run.wall_seconds for run in self._runs)), Measured(tuple(self._plain_wall))
        ours_cpu = min(run.cpu_seconds for run in self._runs)
        library_cpu = min(cpu for cpu, _ in self._library)
        ratio, against_plain = library_cpu / ours_cpu, wall.least / plain.least
        peak, most = sampled.peak_anonymous_bytes, (MAX_MEMORY_MIB + 32) * MIB
        cpu = f"{library_cpu:.2f} s / {ours_cpu:.2f} s = {ratio:.2f} x"
        return [
            Row("plain", str(plain)),
            Row("ours", str(wall)),
            Row("Megatron-Core", str(Measured(tuple(seconds for _, seconds in self._library)))),
            Row("wall against plain", f"{against_plain:.2f} x", "<= 1.50 x", against_plain <= 1.5),
            Row("CPU of Megatron-Core / ours", cpu, ">= 3.00 x", ratio >= 3),
            Row("peak RssAnon", f"{peak / MIB:.1f} MiB", f"<= {most / MIB:.1f} MiB", peak <= most),
        ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gib", type=float, default=4.0, help="size of the source")
    parser.add_argument("--folder", type=Path, default=Path("/dev/shm"), help="a tmpfs")
    parser.add_argument("--repetitions", type=int, default=3)
    arguments = parser.parse_args()
    layers = max(2, 2 * round(arguments.gib * 1024 * MIB / LAYER_BYTES / 2))
    with tempfile.TemporaryDirectory(dir=arguments.folder, prefix="tenplex-bench-") as name:
        comparison = Comparison(Path(name), layers)
        comparison.make_source()
        rows = comparison.measure(arguments.repetitions)
    title = (
        f"Megatron-Core TP2 PP2 to TP4 on tmpfs: {layers * LAYER_BYTES / (1024 * MIB):.1f} GiB, "
        f"{arguments.repetitions} repetitions"
    )
    return 0 if print_table(title, rows) else 1


if __name__ == "__main__":
    sys.exit(main())
