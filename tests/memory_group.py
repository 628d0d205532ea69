# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""A hard limit on the memory of one process and of the page cache that it fills."""

from __future__ import annotations

import os
from pathlib import Path


class MemoryGroup:
    """A control group with a hard limit on memory, in either version of the interface."""

    def __init__(self, limit_bytes: int) -> None:
        version_1 = Path("/sys/fs/cgroup/memory")
        parent = version_1 if version_1.is_dir() else Path("/sys/fs/cgroup")
        self._path = parent / f"tenplex-test-{os.getpid()}"
        self._path.mkdir()
        name = "memory.limit_in_bytes" if version_1.is_dir() else "memory.max"
        (self._path / name).write_text(str(limit_bytes))

    def join(self) -> None:
        (self._path / "cgroup.procs").write_text(str(os.getpid()))

    def remove(self) -> None:
        self._path.rmdir()
