#!/usr/bin/env python3
# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""Makes a universal checkpoint of a ZeRO-2 checkpoint, against DeepSpeed's own ds_to_universal in one process.

    bench/universal.py [--gib 4] [--folder /dev/shm] [--repetitions 3]

The contenders take turns; the least CPU time of all repetitions counts, of DeepSpeed without its imports. The source
is made by DeepSpeed over 4 ranks.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from reshard import remove

from measure import Measured, PlainCopy, Row, files_of, print_table

from makers import deepspeed
from program import MIB, Run, tenplex

MAX_MEMORY_MIB = 256
RANKS = 4

# Run in a fresh process: imports first, then only the conversion counts.
LIBRARY_JOB = """
import json, resource, sys, time
from deepspeed.checkpoint import ds_to_universal
source, target = sys.argv[1:]
sys.argv[1:] = ["--input_folder", source, "--output_folder", target, "--num_extract_workers", "1",
                "--num_merge_workers", "1", "--inject_missing_state"]
arguments = ds_to_universal.parse_arguments()
def cpu():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
before, begin = cpu(), time.monotonic()
ds_to_universal.main(arguments)
print(json.dumps({"cpu_seconds": cpu() - before, "wall_seconds": time.monotonic() - begin}))
"""


class Comparison:
    def __init__(self, source: Path, folder: Path) -> None:
        self._source = source
        self._target = folder / "target"
        self._plain = PlainCopy(len(os.sched_getaffinity(0)))
        self._runs: list[Run] = []
        self._plain_wall: list[float] = []
        self._library: list[dict[str, float]] = []

    def _ours(self, sample_memory: bool = False) -> Run:
        options = ["--format", "deepspeed", "--max-memory", f"{MAX_MEMORY_MIB}MiB"]
        run = tenplex("reshard", self._source, self._target, *options, sample_memory=sample_memory)
        remove(self._target)
        return run

    def _run_library(self) -> None:
        command = [
            sys.executable,
            "-W",
            "ignore",
            "-c",
            LIBRARY_JOB,
            str(self._source),
            str(self._target / "universal"),
        ]
        environment = dict(os.environ, DS_ACCELERATOR="cpu")
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        self._library.append(json.loads(done.stdout.splitlines()[-1]))
        remove(self._target)

    def measure(self, repetitions: int) -> list[Row]:
        sampled = self._ours(sample_memory=True)
        for _ in range(repetitions):
            self._plain_wall.append(self._plain.copy(files_of(self._source), self._target, False)[0])
            remove(self._target)
            self._runs.append(self._ours())
            self._run_library()
        wall = Measured(tuple(run.wall_seconds for run in self._runs))
        library_wall = Measured(tuple(result["wall_seconds"] for result in self._library))
        plain = Measured(tuple(self._plain_wall))
        ours_cpu = min(run.cpu_seconds for run in self._runs)
        library_cpu = min(result["cpu_seconds"] for result in self._library)
        ratio = library_cpu / ours_cpu
        peak, most = sampled.peak_anonymous_bytes, (MAX_MEMORY_MIB + 32) * MIB
        return [
            Row("plain", str(plain)),
            Row("ours", str(wall)),
            Row("ds_to_universal", str(library_wall)),
            Row("wall against plain", f"{wall.least / plain.least:.2f} x"),
            Row(
                "CPU of ds_to_universal / ours",
                f"{library_cpu:.2f} s / {ours_cpu:.2f} s = {ratio:.2f} x",
                ">= 5.00 x",
                ratio >= 5,
            ),
            Row("peak RssAnon", f"{peak / MIB:.1f} MiB", f"<= {most / MIB:.1f} MiB", peak <= most),
        ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gib", type=float, default=4.0, help="size of the source")
    parser.add_argument("--folder", type=Path, default=Path("/dev/shm"), help="a tmpfs")
    parser.add_argument("--repetitions", type=int, default=3)
    arguments = parser.parse_args()
    layers = max(1, round(arguments.gib * 64 / 4))  # a layer is 16 MiB, and its master and moments are as large each
    with tempfile.TemporaryDirectory(dir=arguments.folder, prefix="tenplex-bench-") as name:
        deepspeed.launch("save_layers", RANKS, {"folder": name, "layers": layers}, 900)
        rows = Comparison(Path(name) / "checkpoint" / deepspeed.TAG, Path(name)).measure(arguments.repetitions)
    title = (
        f"ZeRO-2 over {RANKS} ranks to universal on tmpfs: {arguments.gib:g} GiB, {arguments.repetitions} repetitions"
    )
    return 0 if print_table(title, rows) else 1


if __name__ == "__main__":
    sys.exit(main())
