# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""Damaged and lying `.pt` files: the zip around and the pickle inside."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path

import pytest
import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.api import CheckpointException

from makers import doubled_fields, torch_file
from makers.pickle_bombs import BOMBS, FOUR_FLOATS, READ_OR_REFUSED, named, program, tensor, write_zip
from program import tenplex
from refusal import assert_refused, read_or_refuse, run_within_limits


@pytest.mark.parametrize("bomb", [name for name in BOMBS if name not in READ_OR_REFUSED])
def test_pickle_bomb_is_refused(bomb: str, tmp_path: Path) -> None:
    source = write_zip(tmp_path / "bomb.pt", BOMBS[bomb])
    run = assert_refused(source, tmp_path / "to", target_format="safetensors")
    assert "bomb.pt" in run.err


@pytest.mark.parametrize("bomb", sorted(READ_OR_REFUSED))
@pytest.mark.parametrize("target_format", ["torch", "safetensors", "dcp"])
def test_odd_pickle_is_read_or_refused(bomb: str, target_format: str, tmp_path: Path) -> None:
    source = write_zip(tmp_path / "odd.pt", BOMBS[bomb])
    options = ("--objects", tmp_path / "objects") if target_format == "safetensors" else ()
    read_or_refuse(source, tmp_path / "out", *options, target_format=target_format)


def test_10_18_elements_are_not_written_out(tmp_path: Path) -> None:
    source = write_zip(tmp_path / "bomb.pt", BOMBS["10^18 elements over one"])
    refusal = "storage '0': float32 of shape [1000000000, 1000000000] has 2^60 bytes or more"
    assert_refused(source, tmp_path / "to", refusal, target_format="safetensors")


def test_good_program_is_read(tmp_path: Path) -> None:
    """The bombs above differ from this one in what their names say."""
    source = write_zip(tmp_path / "good.pt", program(named(tensor())))
    assert torch.load(source, weights_only=False)["w"].tolist() == [1, 2, 3, 4]
    tenplex("reshard", source, tmp_path / "out.safetensors", "--format", "safetensors")


@pytest.fixture
def good_file(tmp_path: Path) -> Path:
    return torch_file.save({"a": torch.arange(70), "b": [torch.ones(3, 5), "text"]}, tmp_path / "good.pt")


def test_every_truncation_is_refused(good_file: Path, tmp_path: Path) -> None:
    content = good_file.read_bytes()
    cut = tmp_path / "cut.pt"
    for size in [*range(0, len(content), 37), len(content) - 1]:
        cut.write_bytes(content[:size])
        assert not read_or_refuse(cut, tmp_path / "out"), size


def test_every_flipped_bit_is_refused_or_harmless(good_file: Path, tmp_path: Path) -> None:
    """Every byte of data and of the pickle is under a CRC; a flip elsewhere must not change what is read."""
    content = good_file.read_bytes()
    flipped = tmp_path / "flipped.pt"
    refused = 0
    positions = range(0, len(content), 5)
    for position in positions:
        damaged = bytearray(content)
        damaged[position] ^= 1 << (position * 5 % 8)
        flipped.write_bytes(damaged)
        target = tmp_path / f"out{position}"
        if read_or_refuse(flipped, target):
            tenplex("verify", good_file, target)
        else:
            refused += 1
    assert refused > len(positions) // 4


def entry_of(path: Path, ending: str) -> zipfile.ZipInfo:
    return next(info for info in zipfile.ZipFile(path).infolist() if info.filename.endswith(ending))


def central_record(content: bytes, name: str) -> int:
    """Where the central directory's record of `name` starts."""
    position = content.rindex(name.encode()) - 46
    assert content[position : position + 4] == b"PK\x01\x02"
    return position


CENTRAL_LIES = {
    "larger than the file": (24, "<I", 0x7FFFFFFF),
    "smaller than the storage": (24, "<I", 8),
    "compressed size differs": (20, "<I", 100),
    "deflated": (10, "<H", 8),
    "encrypted": (8, "<H", 1),
    "offset past the end": (42, "<I", 0x7FFFFFFF),
    "offset elsewhere": (42, "<I", 1),
    "name longer than the directory": (28, "<H", 0xFFFF),
    "extra longer than the directory": (30, "<H", 0xFFFF),
    "wrong CRC": (16, "<I", 0x12345678),
}


@pytest.mark.parametrize("lie", CENTRAL_LIES)
def test_lying_zip_directory_is_refused(lie: str, good_file: Path, tmp_path: Path) -> None:
    offset, form, value = CENTRAL_LIES[lie]
    content = bytearray(good_file.read_bytes())
    record = central_record(bytes(content), entry_of(good_file, "data/0").filename)
    struct.pack_into(form, content, record + offset, value)
    if lie == "larger than the file":
        struct.pack_into(form, content, record + 20, value)
    if lie == "smaller than the storage":
        struct.pack_into(form, content, record + 20, value)
    (tmp_path / "lie.pt").write_bytes(content)
    run = assert_refused(tmp_path / "lie.pt", tmp_path / "to")
    assert "lie.pt" in run.err


def test_flipped_byte_of_a_tensor_names_it(good_file: Path, tmp_path: Path) -> None:
    content = bytearray(good_file.read_bytes())
    position = bytes(content).index(struct.pack("<3q", 5, 6, 7))
    content[position] ^= 4
    (tmp_path / "flipped.pt").write_bytes(content)
    run = assert_refused(tmp_path / "flipped.pt", tmp_path / "to")
    assert "data/0" in run.reason or "'a'" in run.reason


def test_two_entries_of_one_name_are_refused(tmp_path: Path) -> None:
    writer = torch.PyTorchFileWriter(str(tmp_path / "twice.pt"))
    pickled = program(named(tensor()))
    writer.write_record("data.pkl", pickled, len(pickled))
    writer.write_record("data/0", FOUR_FLOATS, 16)
    writer.write_record("data/1", bytes(16), 16)
    writer.write_end_of_file()
    content = (tmp_path / "twice.pt").read_bytes()
    (tmp_path / "twice.pt").write_bytes(content.replace(b"data/1", b"data/0"))
    assert_refused(tmp_path / "twice.pt", tmp_path / "to")


def test_key_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    """torch.load keeps the last value of a key."""
    pickled = doubled_fields.dumps({"w": 2, "v": 3}, "w", int, first=1)
    source = write_zip(tmp_path / "twice.pt", pickled)
    assert torch.load(source, weights_only=False) == {"w": 2, "v": 3}
    assert_refused(source, tmp_path / "to", "a dict has one key twice: 'w'")


def test_big_endian_file_is_explained(tmp_path: Path) -> None:
    source = tmp_path / "other.pt"
    writer = torch.PyTorchFileWriter(str(source))
    pickled = program(named(tensor()))
    for name, content in (("data.pkl", pickled), ("byteorder", b"big"), ("data/0", FOUR_FLOATS)):
        writer.write_record(name, content, len(content))
    writer.write_end_of_file()
    run = run_within_limits("reshard", source, tmp_path / "out", "--format", "dcp", exit_code=1)
    assert "written on a big-endian machine" in run.reason


def test_torchscript_archive_is_explained(tmp_path: Path) -> None:
    module = torch.jit.script(torch.nn.Linear(2, 2))
    module.save(str(tmp_path / "script.pt"))
    run = assert_refused(tmp_path / "script.pt", tmp_path / "to")
    assert "TorchScript" in run.reason


def test_ordinary_zip_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "ordinary.pt", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("readme.txt", "hello" * 100)
    run = assert_refused(tmp_path / "ordinary.pt", tmp_path / "to", "no 'data.pkl'")
    assert "ordinary.pt" in run.err


def test_zip_bomb_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "bomb.pt", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("bomb/data.pkl", bytes(200_000_000))
        file.writestr("bomb/data/0", bytes(100_000_000))
    assert_refused(tmp_path / "bomb.pt", tmp_path / "to")


STORAGES = {
    "typed": {"s": torch.ones(3).storage(), "x": torch.ones(2)},
    "untyped": {"o": {"s": torch.ones(3).untyped_storage()}},
    "in a tuple": {"t": (1, torch.ones(3).untyped_storage())},
}


@pytest.mark.parametrize("kind", STORAGES)
def test_bare_storage_has_no_place_in_a_dcp_folder(kind: str, tmp_path: Path) -> None:
    source = tmp_path / "in.pt"
    torch.save(STORAGES[kind], source)
    assert_refused(source, tmp_path / "to", "a bare torch storage", "write another format", target_format="dcp")


def test_what_torch_does_not_save_as_dcp_is_refused(tmp_path: Path) -> None:
    items = [torch.ones(2), torch.zeros(3)]
    with pytest.raises((CheckpointException, AttributeError)):
        dcp.save(items, checkpoint_id=tmp_path / "dcp", no_dist=True)
    source = tmp_path / "in.pt"
    torch.save(items, source)
    assert_refused(source, tmp_path / "to", "the source is a list", target_format="dcp")
