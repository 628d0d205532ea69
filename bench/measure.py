# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""What every benchmark here shares: the machine, repeated measurements, the plain copy loop, and the table."""

from __future__ import annotations

import os
import re
import statistics
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

BUFFER_BYTES = 4 << 20


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


def size_bytes(path: Path) -> int:
    return sum(file.stat().st_size for file in files_of(path))


class PlainCopy:
    """The yardstick: read and write the same bytes through one buffer of 4 MiB whose pages are there already."""

    def __init__(self) -> None:
        self._buffer = bytearray(b"\x01") * BUFFER_BYTES
        self._view = memoryview(self._buffer)

    def copy(self, sources: Iterable[Path], folder: Path, sync: bool) -> None:
        folder.mkdir()
        for index, source in enumerate(sources):
            reader = os.open(source, os.O_RDONLY)
            writer = os.open(folder / str(index), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
            while count := os.readv(reader, [self._buffer]):
                written = 0
                while written < count:
                    written += os.write(writer, self._view[written:count])
            if sync:
                os.fsync(writer)
            os.close(writer)
            os.close(reader)
