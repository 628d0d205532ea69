# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""Names and texts of a checkpoint that would steer a terminal or pass for lines of the program."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from program import Run, tenplex

ESCAPE, FORGED, C1, BIDI, ZERO = "a\x1b]0;x\x07", "b\ntenplex: error: forged\r", "c\u009b2J", "d\u202eexe.", "e\x00f"
NAMES = (ESCAPE, FORGED, C1, BIDI, ZERO)
SHOWN = ("a\\x1b]0;x\\x07", "b\\ntenplex: error: forged\\r", "c\\u009b2J", "d\\u202eexe.", "e\\x00f")


def write(path: Path, names: tuple[str, ...], dtype: str = "U8") -> Path:
    header = {name: {"dtype": dtype, "shape": [1], "data_offsets": [i, i + 1]} for i, name in enumerate(names)}
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(len(names)))
    return path


def assert_plain(run: Run, lines_of_errors: int = 0) -> None:
    for line in (run.out + run.err).split("\n"):
        assert line.isprintable(), f"{line!r}\n{run}"
        assert "\ufffd" not in line, run
    assert run.err.count("\n") == lines_of_errors, run


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    return write(tmp_path / "names.safetensors", NAMES)


def test_digest_prints_one_line_for_each_name(hostile: Path) -> None:
    run = tenplex("digest", hostile)
    assert_plain(run)
    assert [line.split("  ", 1)[1] for line in run.out.splitlines()] == list(SHOWN)


def test_digest_tells_a_backslash_from_an_escape(tmp_path: Path) -> None:
    run = tenplex("digest", write(tmp_path / "two.safetensors", ("a\n", "a\\n")))
    assert [line.split("  ", 1)[1] for line in run.out.splitlines()] == ["a\\n", "a\\\\n"]


def test_json_holds_the_names_as_they_are(hostile: Path) -> None:
    assert set(tenplex("digest", hostile, "--json").json()["tensors"]) == set(NAMES)


def test_inspect_and_verify_print_names_escaped(hostile: Path, tmp_path: Path) -> None:
    run = tenplex("inspect", "--tensors", hostile)
    assert_plain(run)
    assert all(any(line.startswith(name) for line in run.out.splitlines()) for name in SHOWN)
    other = write(tmp_path / "other.safetensors", ("w",))
    run = tenplex("verify", hostile, other, exit_code=1)
    assert_plain(run)
    assert all(f"tensor '{name}': only in the first\n" in run.out for name in SHOWN)


@pytest.mark.parametrize(("name", "shown"), zip(NAMES, SHOWN, strict=True))
def test_errors_are_one_line(name: str, shown: str, tmp_path: Path) -> None:
    run = tenplex("inspect", write(tmp_path / "dtype.safetensors", ("w",), dtype=name), exit_code=1)
    assert_plain(run, lines_of_errors=1)
    assert shown in run.err


@pytest.mark.parametrize("command", ["inspect", "digest"])
def test_paths_and_usage_errors_are_escaped(command: str, tmp_path: Path) -> None:
    folder = tmp_path / f"x{ESCAPE}\n\udcff"
    assert_plain(tenplex(command, folder, exit_code=1), lines_of_errors=1)
    folder.mkdir()
    assert_plain(tenplex(command, write(folder / "m.safetensors", ("w",))))
    assert_plain(tenplex(command, folder, "\x1b[31m\n", exit_code=2), lines_of_errors=2)


def test_reshard_escapes_paths_and_names_of_files_left_out(hostile: Path, tmp_path: Path) -> None:
    source = tmp_path / "dcp"
    tenplex("reshard", hostile, source, "--format", "dcp")
    (source / f"left{FORGED}").write_bytes(b"")
    run = tenplex("reshard", source, tmp_path / f"to{ESCAPE}\n.safetensors")
    assert_plain(run, lines_of_errors=1)
    assert "leftb\\ntenplex: error: forged\\r" in run.err
    assert "to" + SHOWN[0] + "\\n.safetensors" in run.out


def test_layouts_and_topologies_are_escaped(tmp_path: Path) -> None:
    layout = tmp_path / "layout.yaml"
    layout.write_text('"x\\e[31m\\n": 1\n')
    assert_plain(tenplex("layouts", "check", layout, exit_code=1), lines_of_errors=1)
    topology = tmp_path / "topology.yaml"
    topology.write_text('"x\\e[31m\\n": 1\n')
    source = tmp_path / "m.safetensors"
    save_file({"w": torch.ones(64)}, source)
    run = tenplex("plan", source, "--to", "fsdp=2", "--topology", topology, exit_code=1)
    assert_plain(run, lines_of_errors=1)
    topology.write_text('workers: [{name: a, devices: 1}, {name: "x\\e[31m\\n", devices: 1}]\n')
    run = tenplex("plan", source, "--to", "fsdp=2", "--topology", topology)
    assert_plain(run)
    assert "\n  x\\x1b[31m\\n " in run.out


def test_objects_are_escaped(tmp_path: Path) -> None:
    torch.save({"w": torch.ones(1), ESCAPE: FORGED, "k": BIDI}, tmp_path / "m.pt")
    run = tenplex("inspect", "--tensors", tmp_path / "m.pt")
    assert_plain(run)
    assert SHOWN[0] in run.out
    assert f"'{SHOWN[3]}'" in run.out
