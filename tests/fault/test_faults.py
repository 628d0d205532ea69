# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""Kills, ^C, full disks, destinations that exist or cannot be written: the old target stays, or nothing is there."""

from __future__ import annotations

import datetime
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from signal_at import count_changes, moments, run_and_signal, start_and_stop

from program import MIB, Limits, program_path, start, tenplex
from refusal import fingerprint

TENSORS = 24

TARGETS: dict[str, tuple[str, ...]] = {
    "one-file.safetensors": ("--format", "safetensors"),
    "devices": ("--format", "safetensors", "--layout", "fsdp", "--to", "fsdp=4"),
    "model": ("--format", "hf"),
    "file.pt": ("--format", "torch"),
    "dcp": ("--format", "dcp", "--layout", "fsdp", "--to", "fsdp=4"),
    "megatron-dist": ("--format", "megatron-dist", "--layout", "fsdp", "--to", "fsdp=4"),
}


def make_source(path: Path, seed: int, mib_per_tensor: int = 2) -> Path:
    generator = torch.Generator().manual_seed(seed)
    raw = {
        f"layers.{index}.weight": torch.randint(
            0, 1 << 30, (mib_per_tensor * 256, 1024), dtype=torch.int32, generator=generator
        )
        for index in range(TENSORS)
    }
    save_file(raw, path)
    return path


@pytest.fixture(scope="module")
def source(inputs: Path) -> Path:
    return make_source(inputs / "fault-source.safetensors", 1)


@pytest.fixture(scope="module")
def other(inputs: Path) -> Path:
    """The same names with other values: an old target that must not get mixed with a new one."""
    return make_source(inputs / "fault-other.safetensors", 2)


def equals(checkpoint: Path, original: Path) -> bool:
    return tenplex("verify", original, checkpoint, exit_code=None).exit_code == 0


def remove(target: Path) -> None:
    shutil.rmtree(target) if target.is_dir() else target.unlink()


def test_a_killed_run_with_an_objects_folder_can_be_run_again(tmp_path: Path) -> None:
    source, target, objects = tmp_path / "state.pt", tmp_path / "out.safetensors", tmp_path / "objects"
    tensors = {f"w{index}": torch.full((1 << 20,), index, dtype=torch.int32) for index in range(8)}
    torch.save({"model": tensors, "when": datetime.date(2024, 2, 29), "ranks": complex(1, 2)}, source)
    arguments = ("reshard", source, target, "--format", "safetensors", "--objects", objects)
    changes = count_changes(arguments)
    target.unlink()
    shutil.rmtree(objects)
    left_behind = 0
    for change in moments(changes, 6):
        assert run_and_signal(arguments, change, signal.SIGKILL) == -signal.SIGKILL
        left_behind += objects.is_dir() and not target.exists()
        tenplex(*arguments, "--overwrite")
        tenplex("verify", source, target, "--objects", objects)
        assert not [file for file in objects.iterdir() if "partial" in file.name]
        target.unlink()
        shutil.rmtree(objects)
    assert left_behind > 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_a_long_plan(number: int, tmp_path: Path) -> None:
    # A plan of many seconds: 20,000 tensors, each cut for 2,048 devices.
    save_file({f"w{index}": torch.zeros(4) for index in range(20000)}, tmp_path / "many.safetensors")
    arguments = ("plan", tmp_path / "many.safetensors", "--layout", "fsdp", "--to", "fsdp=2048")
    process = start(*arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not waits_for_signals(process.pid):
        assert process.poll() is None
    process.send_signal(number)
    assert process.wait(timeout=60) == 130


def waits_for_signals(pid: int) -> bool:
    """Whether it runs and has blocked SIGTERM, to take it in a thread of its own."""
    blocked = re.search(r"SigBlk:\s*(\w+)", Path(f"/proc/{pid}/status").read_text())
    return bool(blocked and int(blocked[1], 16) >> (signal.SIGTERM - 1) & 1)


def test_a_file_size_limit_is_an_error_and_leaves_nothing(source: Path, tmp_path: Path) -> None:
    command = f"ulimit -f 1000; exec '{program_path()}' reshard '{source}' '{tmp_path}/out.pt'"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done
    assert "File too large" in done.stderr
    assert os.listdir(tmp_path) == []


def test_more_files_than_may_be_open_are_refused_before_the_first(source: Path, tmp_path: Path) -> None:
    target = f"'{tmp_path}/out' --format safetensors --layout fsdp --to fsdp=64"
    command = f"ulimit -n 64; exec '{program_path()}' reshard '{source}' {target}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done
    assert "the target has 64 files" in done.stderr
    assert "the process may have 64 open" in done.stderr
    assert os.listdir(tmp_path) == []


def test_objects_of_another_checkpoint_are_not_replaced(tmp_path: Path) -> None:
    objects = tmp_path / "objects"
    for year in (2023, 2024):
        torch.save({"w": torch.ones(4), "when": datetime.date(year, 1, 1)}, tmp_path / f"{year}.pt")
    command = ("--format", "safetensors", "--objects", objects)
    tenplex("reshard", tmp_path / "2023.pt", tmp_path / "2023", *command)
    before = fingerprint(objects)
    run = tenplex("reshard", tmp_path / "2024.pt", tmp_path / "2024", *command, exit_code=1)
    assert "exists already, with other bytes" in run.err
    assert "give the new one a folder of its own" in run.err
    run = tenplex("reshard", tmp_path / "2024.pt", tmp_path / "2023", *command, "--overwrite", exit_code=1)
    assert "give the new one a folder of its own" in run.err
    assert not (tmp_path / "2024").exists()
    assert fingerprint(objects) == before
    tenplex("verify", tmp_path / "2023.pt", tmp_path / "2023", "--objects", objects)


@pytest.mark.parametrize("name", TARGETS)
def test_kill_leaves_nothing_or_all(name: str, source: Path, tmp_path: Path) -> None:
    folder = tmp_path / "to"
    folder.mkdir()
    target = folder / name
    arguments = ("reshard", source, target, *TARGETS[name])
    changes = count_changes(arguments)
    remove(target)
    for change in moments(changes, 8):
        assert run_and_signal(arguments, change, signal.SIGKILL) == -signal.SIGKILL
        if target.exists():
            assert equals(target, source), f"killed before change {change} of {changes}"
            remove(target)
    tenplex(*arguments)
    assert equals(target, source)
    assert os.listdir(folder) == [name], "leftovers of killed runs"


@pytest.mark.parametrize("name", TARGETS)
def test_kill_while_overwriting_keeps_old_or_new(name: str, source: Path, other: Path, tmp_path: Path) -> None:
    folder = tmp_path / "to"
    folder.mkdir()
    target = folder / name
    tenplex("reshard", other, target, *TARGETS[name])
    arguments = ("reshard", source, target, *TARGETS[name], "--overwrite")
    changes = count_changes(arguments)
    tenplex("reshard", other, target, *TARGETS[name], "--overwrite")
    seen = set()
    for change in moments(changes, 6):
        assert run_and_signal(arguments, change, signal.SIGKILL) == -signal.SIGKILL
        assert target.exists()
        old = equals(target, other)
        assert old or equals(target, source)
        seen.add(old)
        if not old:
            tenplex("reshard", other, target, *TARGETS[name], "--overwrite")
    assert seen == {True, False}, "no kill before, or none after the new one took its place"
    tenplex(*arguments)
    assert equals(target, source)
    assert os.listdir(folder) == [name], "leftovers of killed runs"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_leaves_nothing(number: signal.Signals, source: Path, tmp_path: Path) -> None:
    folder = tmp_path / "to"
    folder.mkdir()
    target = folder / "dcp"
    arguments = ("reshard", source, target, *TARGETS["dcp"])
    changes = count_changes(arguments)
    remove(target)
    for change in moments(changes, 8):
        code = run_and_signal(arguments, change, number)
        assert code == 130 or (code == 0 and change > changes // 2)
        if code == 0:
            assert equals(target, source)
            remove(target)
        else:
            assert os.listdir(folder) == []


@pytest.mark.parametrize("old", ["file", "folder", "empty folder", "dangling link", "checkpoint"])
def test_existing_destination_is_refused_and_kept(old: str, source: Path, other: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    if old == "file":
        target.write_text("precious")
    elif old in ("folder", "empty folder"):
        target.mkdir()
        if old == "folder":
            (target / "thesis.txt").write_text("precious")
    elif old == "dangling link":
        target.symlink_to(tmp_path / "nowhere")
    else:
        tenplex("reshard", other, target, "--format", "dcp")
    before = fingerprint(target)
    run = tenplex("reshard", source, target, "--format", "dcp", exit_code=1)
    assert str(target) in run.err
    assert "--overwrite" in run.reason
    assert fingerprint(target) == before
    assert sorted(os.listdir(tmp_path)) == ["target"]


def test_overwrite_replaces_a_checkpoint_by_one_of_another_format(source: Path, other: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    tenplex("reshard", other, target, *TARGETS["devices"])
    tenplex("reshard", source, target, *TARGETS["dcp"], "--overwrite")
    assert equals(target, source)
    assert sorted(os.listdir(tmp_path)) == ["target"]


def test_destination_that_is_the_source_is_refused(source: Path, tmp_path: Path) -> None:
    copy = tmp_path / "dcp"
    tenplex("reshard", source, copy, *TARGETS["dcp"])
    before = fingerprint(copy)
    tenplex("reshard", copy, copy, "--format", "dcp", exit_code=1)
    tenplex("reshard", copy, copy / "inside", "--format", "dcp", "--overwrite", exit_code=1)
    assert fingerprint(copy) == before


def test_destination_in_a_folder_that_is_not_there_is_refused(source: Path, tmp_path: Path) -> None:
    run = tenplex("reshard", source, tmp_path / "no/such/folder/x", "--format", "dcp", exit_code=1)
    assert "no/such/folder" in run.err
    assert os.listdir(tmp_path) == []


class Mounted:
    """A tmpfs of a few MiB at `folder`."""

    def __init__(self, folder: Path, mib: int) -> None:
        self.folder = folder
        self._sudo = [] if os.geteuid() == 0 else ["sudo", "-n"]
        self._run("mount", "-t", "tmpfs", "-o", f"size={mib}m,mode=777", "tmpfs", folder)

    def _run(self, *command: object) -> None:
        subprocess.run([*self._sudo, *map(str, command)], check=True, capture_output=True)

    def make_read_only(self) -> None:
        self._run("mount", "-o", "remount,ro", self.folder)

    def unmount(self) -> None:
        self._run("umount", self.folder)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Mounted]:
    (tmp_path / "disk").mkdir()
    try:
        mounted = Mounted(tmp_path / "disk", 16)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"needs root or sudo to mount a small file system: {error}")
    yield mounted
    mounted.unmount()


@pytest.mark.parametrize("name", TARGETS)
def test_full_disk_leaves_nothing(name: str, source: Path, small_disk: Mounted) -> None:
    run = tenplex("reshard", source, small_disk.folder / name, *TARGETS[name], exit_code=1)
    assert re.search(rf"not enough space in '{small_disk.folder}': the target needs \d{{8}} bytes", run.err)
    assert os.listdir(small_disk.folder) == []


def test_disk_that_becomes_full_leaves_nothing(small_disk: Mounted, tmp_path: Path) -> None:
    """13 MB in 1,400 files fit into 16 MiB, but take three blocks of 4 KiB each."""
    save_file({"w": torch.zeros(1400, 2304)}, tmp_path / "rows.safetensors")
    options = ("--format", "safetensors", "--layout", "fsdp", "--to", "fsdp=1400")
    run = tenplex("reshard", tmp_path / "rows.safetensors", small_disk.folder / "x", *options, exit_code=1)
    assert "No space left on device" in run.err
    assert os.listdir(small_disk.folder) == []


def test_target_that_just_fits_is_written(source: Path, small_disk: Mounted, tmp_path: Path) -> None:
    save_file({"w": torch.zeros(15 << 20, dtype=torch.int8)}, tmp_path / "15MiB.safetensors")
    tenplex("reshard", tmp_path / "15MiB.safetensors", small_disk.folder / "x.safetensors")


@pytest.mark.parametrize("target_format", ["dcp", "safetensors", "hf"])
def test_small_file_that_asks_for_a_pebibyte_is_refused_at_once(target_format: str, tmp_path: Path) -> None:
    torch.save({"w": torch.zeros(1).expand(1 << 24, 1 << 24)}, tmp_path / "in.pt")
    assert (tmp_path / "in.pt").stat().st_size < 2048
    command = ("reshard", tmp_path / "in.pt", tmp_path / "out", "--format", target_format)
    run = tenplex(*command, exit_code=1, limits=Limits(seconds=10, data_bytes=500 * MIB))
    assert "not enough space" in run.err
    assert os.listdir(tmp_path) == ["in.pt"]


def test_full_disk_keeps_the_old_target(source: Path, small_disk: Mounted, tmp_path: Path) -> None:
    save_file({"w": torch.arange(100)}, tmp_path / "small.safetensors")
    target = small_disk.folder / "target"
    tenplex("reshard", tmp_path / "small.safetensors", target, *TARGETS["dcp"])
    before = fingerprint(target)
    tenplex("reshard", source, target, *TARGETS["dcp"], "--overwrite", exit_code=1)
    assert fingerprint(target) == before
    assert os.listdir(small_disk.folder) == ["target"]


def test_read_only_destination_is_refused(source: Path, small_disk: Mounted) -> None:
    small_disk.make_read_only()
    run = tenplex("reshard", source, small_disk.folder / "x", "--format", "dcp", exit_code=1)
    assert "read-only" in run.err.lower()
    assert os.listdir(small_disk.folder) == []


def test_source_that_shrinks_meanwhile_is_an_error(source: Path, tmp_path: Path) -> None:
    """Cut while it is read: an error, never a crash (no SIGBUS)."""
    for index, change in enumerate((0, 1, 3, 9, 20)):
        copy = tmp_path / f"{index}.safetensors"
        shutil.copy(source, copy)
        process = start_and_stop(("reshard", copy, tmp_path / f"out{index}", "--format", "dcp"), change)
        os.truncate(copy, MIB)
        process.send_signal(signal.SIGCONT)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 1, err
        assert not (tmp_path / f"out{index}").exists()


def write_in_place(source: Path) -> None:
    """Other bytes in an old tensor and a new one; as many as before."""
    with source.open("r+b") as file:
        for position in (source.stat().st_size // 20, source.stat().st_size - 8):
            file.seek(position)
            file.write(b"changed!")


def put_another_in_its_place(source: Path) -> None:
    copy = source.with_suffix(".copy")
    shutil.copy2(source, copy)
    copy.replace(source)


def cut_and_fill(source: Path) -> None:
    size = source.stat().st_size
    os.truncate(source, size - 1)
    os.truncate(source, size)


CHANGES: dict[str, Callable[[Path], None]] = {
    "write": write_in_place,
    "replace": put_another_in_its_place,
    "cut": cut_and_fill,
    "remove": Path.unlink,
}


STOP_BEFORE_CHANGE = 8  # the target is begun, most of the source is not read yet


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", ["one-file.safetensors", "file.pt", "dcp"])
def test_source_that_changes_meanwhile_is_refused(kind: str, change: str, source: Path, tmp_path: Path) -> None:
    folder = tmp_path / "to"
    folder.mkdir()
    tenplex("reshard", source, tmp_path / kind, *TARGETS[kind])
    data = tmp_path / kind / "__2_0.distcp" if kind == "dcp" else tmp_path / kind
    options = ("--format", "safetensors", "--max-memory", "1MiB", "--threads", "1")
    process = start_and_stop(("reshard", tmp_path / kind, folder / "out", *options), STOP_BEFORE_CHANGE)
    CHANGES[change](data)
    process.send_signal(signal.SIGCONT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert f"'{data}' changed while it was read" in err.decode()  # also where a checksum found it
    assert os.listdir(folder) == []


def test_source_that_is_linked_and_read_meanwhile_is_recut(source: Path, tmp_path: Path) -> None:
    folder = tmp_path / "to"
    folder.mkdir()
    copy = tmp_path / "in.safetensors"
    shutil.copy(source, copy)
    options = ("--format", "safetensors", "--max-memory", "1MiB", "--threads", "1")
    process = start_and_stop(("reshard", copy, folder / "out", *options), STOP_BEFORE_CHANGE)
    (tmp_path / "backup").hardlink_to(copy)
    copy.chmod(0o400)
    assert len(copy.read_bytes()) == copy.stat().st_size
    process.send_signal(signal.SIGCONT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert equals(folder / "out", source)


def test_new_target_is_readable_by_its_library(source: Path, tmp_path: Path) -> None:
    tenplex("reshard", source, tmp_path / "x.safetensors", "--format", "safetensors")
    assert torch.equal(load_file(tmp_path / "x.safetensors")["layers.3.weight"], load_file(source)["layers.3.weight"])


def put_newer(target: Path, newer: Path) -> None:
    newer.replace(target)


def add_notes(target: Path, newer: Path) -> None:
    (target / "sub").mkdir()
    newer.replace(target / "sub/notes")


INTRUSIONS: dict[str, tuple[Callable[[Path, Path], None], str, tuple[str, ...]]] = {
    "another file in its place": (put_newer, "", ()),
    "one more file in the folder": (add_notes, "sub/notes", ("--format", "dcp", "--layout", "fsdp", "--to", "fsdp=4")),
}


@pytest.mark.parametrize("kind", INTRUSIONS)
def test_what_came_to_the_old_target_meanwhile_is_kept(kind: str, tmp_path: Path) -> None:
    """Whenever it comes: before the swap the run is refused, after it the new target takes it."""
    intrude, inside, options = INTRUSIONS[kind]
    save_file({"w": torch.arange(64)}, tmp_path / "source.safetensors")
    save_file({"w": torch.arange(9)}, tmp_path / "old.safetensors")
    old, target = tmp_path / "old", tmp_path / "to/t.safetensors"
    target.parent.mkdir()
    if options:
        old, target = tmp_path / "old", tmp_path / "to/t"
        tenplex("reshard", tmp_path / "old.safetensors", old, *options)
    else:
        shutil.copy(tmp_path / "old.safetensors", old)

    def put_old() -> None:
        for entry in target.parent.iterdir():
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        shutil.copytree(old, target) if options else shutil.copy(old, target)

    command = ("reshard", tmp_path / "source.safetensors", target, "--overwrite", "--verify", *options)
    put_old()
    changes = count_changes(command)
    codes = []
    for change in range(changes):
        put_old()
        save_file({"w": torch.full((5,), change)}, tmp_path / "newer")
        bytes_of_newer = (tmp_path / "newer").read_bytes()
        process = start_and_stop(command, change)
        intrude(target, tmp_path / "newer")
        process.send_signal(signal.SIGCONT)
        _, err = process.communicate(timeout=60)
        codes.append(process.returncode)
        assert (target / inside if inside else target).read_bytes() == bytes_of_newer, (change, err)
        assert os.listdir(target.parent) == [target.name], (change, err)
        if process.returncode != 0:
            assert b"changed or replaced" in err, (change, err)
    assert codes == sorted(codes, reverse=True), codes  # refused up to the swap, and not after it
    assert set(codes) == {0, 1}, codes
