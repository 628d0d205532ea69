# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""Runs the `tenplex` program and measures it.

The program is the one that the environment variable TENPLEX names; default build/release/src/tenplex/cli/tenplex.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DEFAULT_PROGRAM = ROOT / "build/release/src/tenplex/cli/tenplex"

MIB = 1 << 20


def program_path() -> Path:
    return Path(os.environ.get("TENPLEX", DEFAULT_PROGRAM)).resolve()


@dataclass(frozen=True)
class Limits:
    """Hard limits of one run. `address_space_bytes` 0 = none."""

    seconds: float = 120.0
    address_space_bytes: int = 0
    data_bytes: int = 0


@dataclass(frozen=True)
class Run:
    """What one run did. `exit_code` is negative if a signal ended it."""

    arguments: tuple[str, ...]
    exit_code: int
    out: str
    err: str
    wall_seconds: float
    cpu_seconds: float
    peak_anonymous_bytes: int
    read_bytes: int
    timed_out: bool

    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def reason(self) -> str:
        """What it said on stderr without the paths that it was given and their folders: a word that a test looks for
        does not count where it stands in them."""
        text = self.err
        paths = {Path(argument) for argument in self.arguments if "/" in argument}
        for path in sorted(paths | {path.parent for path in paths} - {Path("/"), Path()}, key=str, reverse=True):
            text = text.replace(str(path), "…")
        return text

    def __str__(self) -> str:
        timed_out = " (timed out)" if self.timed_out else ""
        return (
            f"tenplex {' '.join(self.arguments)}\n-> exit {self.exit_code} after {self.wall_seconds:.2f} s"
            f"{timed_out}\n--- stdout\n{self.out[-4000:]}\n--- stderr\n{self.err[-4000:]}"
        )


def _command(limits: Limits, arguments: tuple[str, ...]) -> list[str]:
    """Through prlimit, which sets the limits and becomes the program: no code of ours runs between fork and exec."""
    command = ["prlimit", "--core=0"]
    if limits.address_space_bytes:
        command.append(f"--as={limits.address_space_bytes}")
    if limits.data_bytes:
        command.append(f"--data={limits.data_bytes}")
    return [*command, str(program_path()), *arguments]


class AnonymousMemorySampler:
    """Samples RssAnon of a process until it is stopped or the process ends."""

    def __init__(self, pid: int, period_seconds: float = 0.001) -> None:
        self.peak_bytes = 0
        self._path = f"/proc/{pid}/status"
        self._period_seconds = period_seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample)
        self._thread.start()

    def _sample(self) -> None:
        while not self._stop.is_set():
            try:
                with open(self._path) as status:
                    for line in status:
                        if line.startswith("RssAnon:"):
                            self.peak_bytes = max(self.peak_bytes, int(line.split()[1]) * 1024)
                            break
            except OSError:
                return
            self._stop.wait(self._period_seconds)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


def _read_bytes_of_ended(pid: int) -> int:
    """Bytes that read calls of an ended, not yet reaped process returned; -1 where the kernel does not say."""
    try:
        with open(f"/proc/{pid}/io") as counters:
            for line in counters:
                if line.startswith("rchar:"):
                    return int(line.split()[1])
    except OSError:
        pass
    return -1


def start(*arguments: object, limits: Limits | None = None, **options: Any) -> subprocess.Popen[bytes]:
    """Starts the program and returns at once; the caller ends it."""
    return subprocess.Popen(_command(limits or Limits(), tuple(map(str, arguments))), **options)


def tenplex(
    *arguments: object,
    exit_code: int | None = 0,
    limits: Limits | None = None,
    sample_memory: bool = False,
    cwd: Path | None = None,
    before_exec: Any = None,
) -> Run:
    """Runs the program to its end. Fails the test unless it exits with `exit_code` (None = any)."""
    limits = limits or Limits()
    texts = tuple(map(str, arguments))

    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        begin = time.monotonic()
        process = subprocess.Popen(
            _command(limits, texts), stdin=subprocess.DEVNULL, stdout=out, stderr=err, preexec_fn=before_exec, cwd=cwd
        )
        timed_out = threading.Event()

        def end_it() -> None:
            timed_out.set()
            os.kill(process.pid, signal.SIGKILL)

        timer = threading.Timer(limits.seconds, end_it)
        timer.start()
        sampler = AnonymousMemorySampler(process.pid) if sample_memory else None
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        wall_seconds = time.monotonic() - begin
        timer.cancel()
        timer.join()
        if sampler:
            sampler.stop()
        read_bytes = _read_bytes_of_ended(process.pid)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        run = Run(
            arguments=texts,
            exit_code=process.returncode,
            out=out.read().decode(errors="replace"),
            err=err.read().decode(errors="replace"),
            wall_seconds=wall_seconds,
            cpu_seconds=usage.ru_utime + usage.ru_stime,
            peak_anonymous_bytes=sampler.peak_bytes if sampler else 0,
            read_bytes=read_bytes,
            timed_out=timed_out.is_set(),
        )
    assert not run.timed_out, f"took too long: {run}"
    if exit_code is not None:
        assert run.exit_code == exit_code, f"expected exit {exit_code}: {run}"
    return run


def tenplex_json(*arguments: object) -> Any:
    """Runs the program with --json and returns what it printed."""
    return tenplex(*arguments, "--json").json()
