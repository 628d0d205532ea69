# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""Damaged folders with one safetensors file per device and a manifest, tenplex.json."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from program import tenplex
from refusal import assert_refused, read_or_refuse

LAYOUT = """family: half
meshes: {dense: [tp]}
tensors:
  - match: cut
    slice: [{dim: 0, by: tp}]
  - match: "*"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """`cut` in two halves, `copied` on both devices."""
    tensors = {"cut": torch.arange(600).reshape(60, 10), "copied": torch.arange(77, dtype=torch.int32)}
    save_file(tensors, tmp_path / "in.safetensors")
    (tmp_path / "half.yaml").write_text(LAYOUT)
    options = ("--layout", tmp_path / "half.yaml", "--to", "tp=2", "--format", "safetensors")
    tenplex("reshard", tmp_path / "in.safetensors", tmp_path / "folder", *options)
    return tmp_path / "folder"


def device_files(folder: Path) -> list[Path]:
    files = sorted(folder.glob("*.safetensors"))
    assert len(files) == 2
    return files


def test_good_folder_is_read(folder: Path, tmp_path: Path) -> None:
    tenplex("reshard", folder, tmp_path / "out.safetensors", "--format", "safetensors")
    assert load_file(tmp_path / "out.safetensors")["cut"].flatten().tolist() == list(range(600))


def test_two_owners_with_different_bytes_are_refused(folder: Path, tmp_path: Path) -> None:
    second = device_files(folder)[1]
    content = bytearray(second.read_bytes())
    position = bytes(content).index(torch.arange(20, 30, dtype=torch.int32).numpy().tobytes())
    content[position] ^= 1
    second.write_bytes(content)
    assert_refused(folder, tmp_path / "to", "tensor 'copied'")


def test_files_that_changed_places_are_refused(folder: Path, tmp_path: Path) -> None:
    first, second = device_files(folder)
    assert first.stat().st_size == second.stat().st_size
    first.rename(folder / "x")
    second.rename(first)
    (folder / "x").rename(second)
    run = tenplex("inspect", folder, exit_code=1)
    assert f"{first.name}: the file is of device 1, the manifest names it for device 0" in run.err
    assert_refused(folder, tmp_path / "to", "device")


def test_files_without_a_device_number_are_read(folder: Path, tmp_path: Path) -> None:
    """As early versions wrote them: the same header without the number, in spaces of the same length."""
    for file in device_files(folder):
        content = file.read_bytes()
        end = 8 + int.from_bytes(content[:8], "little")
        header = json.loads(content[8:end])
        del header["__metadata__"]["tenplex"]
        file.write_bytes(content[:8] + json.dumps(header).encode().ljust(end - 8) + content[end:])
    tenplex("reshard", folder, tmp_path / "out.safetensors")
    assert load_file(tmp_path / "out.safetensors")["cut"].flatten().tolist() == list(range(600))


def test_absent_device_file_is_named(folder: Path, tmp_path: Path) -> None:
    missing = device_files(folder)[1]
    missing.unlink()
    assert_refused(folder, tmp_path / "to", missing.name)


def test_truncated_device_file_is_named(folder: Path, tmp_path: Path) -> None:
    second = device_files(folder)[1]
    second.write_bytes(second.read_bytes()[:-8])
    assert_refused(folder, tmp_path / "to", second.name)


def test_device_file_with_other_shapes_is_refused(folder: Path, tmp_path: Path) -> None:
    second = device_files(folder)[1]
    tensors = load_file(second)
    save_file(tensors | {"cut": tensors["cut"].T.contiguous()}, second)
    assert_refused(folder, tmp_path / "to", second.name)


def test_device_file_of_another_dtype_is_refused(folder: Path, tmp_path: Path) -> None:
    second = device_files(folder)[1]
    tensors = load_file(second)
    save_file(tensors | {"cut": tensors["cut"].to(torch.float64)}, second)
    assert_refused(folder, tmp_path / "to", second.name)


def test_folder_without_its_manifest_is_refused(folder: Path, tmp_path: Path) -> None:
    (folder / "tenplex.json").unlink()
    assert_refused(folder, tmp_path / "to")


def test_link_out_of_the_folder_is_refused(folder: Path, tmp_path: Path) -> None:
    second = device_files(folder)[1]
    shutil.move(second, tmp_path / "outside")
    second.symlink_to(tmp_path / "outside")
    assert_refused(folder, tmp_path / "to", second.name)


def test_every_truncation_of_the_manifest_is_refused(folder: Path, tmp_path: Path) -> None:
    manifest = folder / "tenplex.json"
    content = manifest.read_bytes().rstrip()
    for size in range(0, len(content), 23):
        manifest.write_bytes(content[:size])
        assert not read_or_refuse(folder, tmp_path / "out"), size


def test_every_flipped_byte_of_the_manifest_is_refused(folder: Path, tmp_path: Path) -> None:
    """Its body is under a checksum; in front of it, a flip may only hit what means nothing."""
    manifest = folder / "tenplex.json"
    content = manifest.read_bytes()
    refused = 0
    positions = range(0, len(content), 7)
    for position in positions:
        damaged = bytearray(content)
        damaged[position] ^= 1
        manifest.write_bytes(damaged)
        target = tmp_path / f"out{position}"
        if read_or_refuse(folder, target):
            tenplex("verify", tmp_path / "in.safetensors", target)
        else:
            refused += 1
    assert refused >= 0.9 * len(positions)


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2, "oldest_reader": 2},
        {"length": 10**18},
        {"length": -1},
        {"format": "something.else"},
        {"checksum": ""},
        {"body": []},
        {"body": {}},
    ],
    ids=str,
)
def test_manifest_with_another_envelope_is_refused(change: dict[str, object], folder: Path, tmp_path: Path) -> None:
    manifest = folder / "tenplex.json"
    envelope = json.loads(manifest.read_text())
    manifest.write_text(json.dumps(envelope | change))
    assert_refused(folder, tmp_path / "to", "tenplex.json")
