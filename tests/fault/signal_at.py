# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""Signals at a chosen change of the file system: the same place on every machine, however fast it is."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from program import start

# Signals that hit the end of a run are near its last changes: the commit.
COMMIT_CHANGES = 8


@cache
def _library() -> Path:
    folder = tempfile.mkdtemp(prefix="signal_at.")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    library = Path(folder) / "signal_at.so"
    source = Path(__file__).with_suffix(".c")
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return library


def _environment(**variables: object) -> dict[str, str]:
    texts = {name.upper(): str(value) for name, value in variables.items()}
    return {**os.environ, "LD_PRELOAD": str(_library()), **texts}


def count_changes(arguments: tuple[object, ...]) -> int:
    """Runs the program to its end; how often it changed the file system."""
    with tempfile.NamedTemporaryFile() as count:
        process = start(*arguments, stdout=subprocess.DEVNULL, env=_environment(signal_count=count.name))
        assert process.wait(timeout=60) == 0
        return int(count.read())


def moments(changes: int, spread: int) -> list[int]:
    """Changes to be hit: `spread` ones evenly over a run of `changes`, and each of the last ones."""
    evenly = {changes * index // spread for index in range(spread)}
    return sorted(evenly | set(range(max(0, changes - COMMIT_CHANGES), changes)))


def start_and_signal(
    arguments: tuple[object, ...], change: int, number: signal.Signals, **options: Any
) -> subprocess.Popen[bytes]:
    """Starts a run that gets signal `number` just before change `change` of the file system; the first is 0."""
    environment = _environment(signal_at=change, signal_number=int(number))
    return start(*arguments, stdout=subprocess.DEVNULL, env=environment, **options)


def run_and_signal(arguments: tuple[object, ...], change: int, number: signal.Signals) -> int:
    """The same to its end; its exit code, negative if a signal ended it."""
    return start_and_signal(arguments, change, number, stderr=subprocess.DEVNULL).wait(timeout=60)


def start_and_stop(arguments: tuple[object, ...], change: int) -> subprocess.Popen[bytes]:
    """Starts a run and returns when it stands still just before change `change`; the caller lets it go on."""
    process = start_and_signal(arguments, change, signal.SIGSTOP, stderr=subprocess.PIPE)
    _, status = os.waitpid(process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status), "ended before it was stopped"
    return process
