# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""What must hold whenever the program meets input that it cannot use.

It exits with 1, in seconds, in little memory, with one line that names the thing; no destination appears and the input
stays as it was.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from program import MIB, Limits, Run, tenplex

MOST_SECONDS = 10.0
MOST_MEMORY_BYTES = 500 * MIB
LIMITS = Limits(seconds=MOST_SECONDS, address_space_bytes=4096 * MIB, data_bytes=MOST_MEMORY_BYTES)


def fingerprint(path: Path) -> str:
    """Of every name and byte below `path`; links count as links."""
    digest = hashlib.sha256()
    for file in sorted([path, *path.rglob("*")]) if path.is_dir() else [path]:
        digest.update(os.fsencode(file))
        if file.is_symlink():
            digest.update(os.fsencode(file.readlink()))
        elif file.is_file():
            digest.update(file.read_bytes())
    return digest.hexdigest()


def run_within_limits(*arguments: object, exit_code: int | None = None) -> Run:
    run = tenplex(*arguments, exit_code=None, limits=LIMITS)
    assert run.exit_code >= 0, f"ended by a signal: {run}"
    assert "out of memory" not in run.err, f"wanted more than {MOST_MEMORY_BYTES} B: {run}"
    if exit_code is not None:
        assert run.exit_code == exit_code, f"expected exit {exit_code}: {run}"
    if run.exit_code != 0:
        assert "tenplex: error: " in run.err, run
    return run


def assert_refused(
    source: Path, folder: Path, *mentions: str, target_format: str = "dcp", options: tuple[object, ...] = ()
) -> Run:
    """`reshard` refuses `source`; the message holds every text of `mentions` outside of the paths of the command line.
    Other commands stay within limits."""
    before = fingerprint(source)
    folder.mkdir(parents=True, exist_ok=True)
    entries = sorted(folder.iterdir())
    target = folder / "refused-target"
    for command in ("inspect", "digest"):
        run_within_limits(command, source)
    run = run_within_limits("reshard", source, target, "--format", target_format, *options, exit_code=1)
    assert not target.exists(), run
    assert sorted(folder.iterdir()) == entries, f"left something behind: {sorted(folder.iterdir())}\n{run}"
    assert fingerprint(source) == before, f"changed its input: {run}"
    for text in mentions:
        assert text in run.reason, f"message without {text!r}: {run}"
    return run


def read_or_refuse(source: Path, target: Path, *options: object, target_format: str = "dcp") -> bool:
    """Either writes `target` (True) or refuses as it should (False)."""
    run = run_within_limits("reshard", source, target, "--format", target_format, *options)
    assert run.exit_code in (0, 1), run
    assert target.exists() == (run.exit_code == 0), run
    return run.exit_code == 0
