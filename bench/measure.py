# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""What every benchmark here shares: the machine, repeated measurements, the plain copy loop, and the table."""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from program import program_path  # noqa: E402


def machine() -> str:
    text = Path("/proc/cpuinfo").read_text()
    model = re.search(r"model name\s*: (.*)", text)
    memory = re.search(r"MemTotal:\s*(\d+) kB", Path("/proc/meminfo").read_text())
    assert memory is not None
    widest = next((name for name in ("avx512f", "avx2", "sse4_2") if f" {name}" in text), "no vectors")
    return (
        f"{len(os.sched_getaffinity(0))} cores, {model[1] if model else 'unknown CPU'} ({widest}), "
        f"{int(memory[1]) / (1 << 20):.0f} GiB of memory, Linux {os.uname().release}"
    )


@dataclass(frozen=True)
class Measured:
    """Repeated measurements of one thing, in seconds."""

    seconds: tuple[float, ...]

    @property
    def least(self) -> float:
        return min(self.seconds)

    def __str__(self) -> str:
        middle = statistics.median(self.seconds)
        return f"min {self.least:.3f} s, median {middle:.3f} s, max {max(self.seconds):.3f} s of {len(self.seconds)}"


@dataclass(frozen=True)
class Row:
    """One line of the result: what was measured, the value, the limit it is held against."""

    what: str
    value: str
    limit: str = ""
    held: bool | None = None  # None: reported only


def print_table(title: str, rows: Sequence[Row]) -> bool:
    """Prints the rows; returns False if a limit was not held."""
    widths = [max(len(getattr(row, name)) for row in rows) for name in ("what", "value", "limit")]
    print(f"\n{title}\n{machine()}")
    for row in rows:
        mark = {True: "held", False: "NOT HELD", None: ""}[row.held]
        line = f"  {row.what:<{widths[0]}}  {row.value:>{widths[1]}}  {row.limit:<{widths[2]}}  {mark}"
        print(line.rstrip())
    sys.stdout.flush()
    return all(row.held is not False for row in rows)


def files_of(path: Path) -> list[Path]:
    return sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]


class PlainCopy:
    """The yardstick: plain_copy_main.cc reads and writes the same bytes through buffers whose pages are there already."""

    def __init__(self, threads: int) -> None:
        self._program = program_path().parents[3] / "bench/plain_copy"
        self._threads = threads

    def copy(self, sources: Iterable[Path], folder: Path, sync: bool) -> tuple[float, float]:
        """Returns wall and CPU seconds."""
        options = ["--threads", str(self._threads), *(["--sync"] if sync else [])]
        command = [str(self._program), *options, str(folder), *map(str, sources)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        result = json.loads(done.stdout)
        return result["wall_seconds"], result["cpu_seconds"]
