# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""Damaged and lying safetensors files and Hugging Face folders."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from side_file import side_text

from program import tenplex
from refusal import assert_refused, read_or_refuse


def blob(header: str | bytes | dict[str, Any], data: bytes = b"", length: int | None = None) -> bytes:
    if isinstance(header, dict):
        header = json.dumps(header)
    text = header.encode() if isinstance(header, str) else header
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def entry(shape: list[Any], begin: Any, end: Any, dtype: Any = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


EIGHT = bytes(range(8))

LIES: dict[str, tuple[bytes, tuple[str, ...]]] = {
    "empty file": (b"", ()),
    "seven bytes": (b"\x01" * 7, ()),
    "header longer than the file": (blob({}, length=1000), ()),
    "header of 2^64 - 1 bytes": (blob({}, length=(1 << 64) - 1), ()),
    "header of 100 MB and one": (blob({}, length=100_000_001), ()),
    "no brace": (blob("[1]     "), ()),
    "no JSON": (blob('{"w": '), ()),
    "no UTF-8": (blob(b'{"\xff\xfe": 1}'), ()),
    "nested 100,000 deep": (blob('{"w":' + "[" * 100_000 + "]" * 100_000 + "}"), ()),
    "open brackets only": (blob('{"w":' + '{"a":' * 100_000), ()),
    "entry is a number": (blob('{"w": 5}'), ("'w'",)),
    "same key twice": (
        blob(
            '{"w":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"w":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}}',
            EIGHT,
        ),
        ("'w'",),
    ),
    "same key twice in an entry": (
        blob('{"w":{"dtype":"U8","shape":[8],"shape":[4],"data_offsets":[0,8]}}', EIGHT),
        ("shape",),
    ),
    "key twice by escape": (
        blob(
            '{"w":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"\\u0077":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}}',
            EIGHT,
        ),
        ("'w'",),
    ),
    "offset past the end": (blob({"w": entry([4], 0, 16)}, EIGHT), ("16", "8")),
    "offset far past the end": (blob({"w": entry([1 << 60], 0, 1 << 62)}, EIGHT), ("'w'",)),
    "begin after end": (blob({"w": entry([2], 8, 0)}, EIGHT), ("'w'",)),
    "negative offset": (blob({"w": entry([2], -8, 0)}, EIGHT), ("'w'",)),
    "size does not fit the shape": (blob({"w": entry([3], 0, 8)}, EIGHT), ("'w'",)),
    "overlap": (blob({"a": entry([2], 0, 8), "b": entry([1], 4, 8)}, EIGHT), ()),
    "hole": (blob({"a": entry([1], 0, 4), "b": entry([1], 8, 12)}, EIGHT + b"1234"), ()),
    "tail": (blob({"a": entry([1], 0, 4)}, EIGHT), ()),
    "data missing": (blob({"w": entry([2], 0, 8)}), ("8", "0")),
    "negative extent": (blob({"w": entry([-2], 0, 8)}, EIGHT), ("'w'",)),
    "extent is text": (blob({"w": entry(["2"], 0, 8)}, EIGHT), ("'w'",)),
    "extent is a fraction": (blob({"w": entry([2.5], 0, 8)}, EIGHT), ("'w'",)),
    "extent is huge": (blob('{"w":{"dtype":"F32","shape":[1' + "0" * 30 + '],"data_offsets":[0,8]}}', EIGHT), ("'w'",)),
    "product overflows": (blob({"w": entry([1 << 62, 4, 2], 0, 8)}, EIGHT), ("'w'",)),
    "product overflows to the right size": (blob({"w": entry([1 << 32, 1 << 32, 2], 0, 0)}), ("'w'",)),
    "10^18 elements": (blob({"w": entry([10**9, 10**9], 0, 4 * 10**18)}, EIGHT), ("'w'",)),
    "huge times zero": (blob({"w": entry([1 << 62, 1 << 62, 0], 0, 8)}, EIGHT), ("'w'",)),
    "unknown dtype": (blob({"w": entry([2], 0, 8, "F33")}, EIGHT), ("'w'", "F33")),
    "dtype is a number": (blob({"w": entry([2], 0, 8, 5)}, EIGHT), ("'w'",)),
    "no dtype": (blob({"w": {"shape": [2], "data_offsets": [0, 8]}}, EIGHT), ("'w'", "dtype")),
    "three offsets": (blob({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4, 8]}}, EIGHT), ("'w'",)),
    "rank 9": (blob({"w": entry([1] * 8 + [2], 0, 8)}, EIGHT), ("'w'",)),
    "rank 100,000": (blob({"w": entry([1] * 100_000, 0, 4)}, EIGHT[:4]), ("'w'",)),
    "odd number of 4-bit elements": (blob({"w": entry([3], 0, 2, "F4")}, EIGHT[:2]), ("'w'",)),
    "metadata is a list": (blob({"__metadata__": [1], "w": entry([2], 0, 8)}, EIGHT), ("JSON byte",)),
    "metadata value is a number": (blob({"__metadata__": {"a": 1}, "w": entry([2], 0, 8)}, EIGHT), ("JSON byte",)),
}


@pytest.mark.parametrize("lie", LIES)
def test_lying_file_is_refused(lie: str, tmp_path: Path) -> None:
    content, mentions = LIES[lie]
    source = tmp_path / "lie.safetensors"
    source.write_bytes(content)
    run = assert_refused(source, tmp_path / "to", *mentions)
    assert "lie.safetensors" in run.err


@pytest.fixture
def good_file(tmp_path: Path) -> Path:
    tensors = {"a": torch.arange(7, dtype=torch.int32), "b.c": torch.ones(3, 5, dtype=torch.bfloat16)}
    save_file(tensors, tmp_path / "good.safetensors", {"format": "pt"})
    return tmp_path / "good.safetensors"


def test_every_truncation_is_refused(good_file: Path, tmp_path: Path) -> None:
    content = good_file.read_bytes()
    cut = tmp_path / "cut.safetensors"
    for size in [*range(0, len(content), 9), len(content) - 1]:
        cut.write_bytes(content[:size])
        assert not read_or_refuse(cut, tmp_path / "out"), size


def test_every_flipped_bit_of_the_header_is_read_or_refused(good_file: Path, tmp_path: Path) -> None:
    content = good_file.read_bytes()
    header_bytes = 8 + struct.unpack("<Q", content[:8])[0]
    flipped = tmp_path / "flipped.safetensors"
    refused = 0
    for position in range(header_bytes):
        damaged = bytearray(content)
        damaged[position] ^= 1 << (position * 5 % 8)
        flipped.write_bytes(damaged)
        refused += not read_or_refuse(flipped, tmp_path / f"out{position}")
    assert refused > header_bytes // 2


@pytest.fixture
def model(models: Callable[[str], Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(models("llama"), tmp_path / "model"))


def rewrite_index(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    path = folder / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    change(index)
    path.write_text(json.dumps(index))


def first_file(folder: Path) -> Path:
    return min(folder.glob("model-*.safetensors"))


def test_absent_shard_file_is_named(model: Path, tmp_path: Path) -> None:
    missing = first_file(model)
    missing.unlink()
    assert_refused(model, tmp_path / "to", missing.name)


def test_absent_shard_file_without_an_index_is_refused(model: Path, tmp_path: Path) -> None:
    (model / "model.safetensors.index.json").unlink()
    first_file(model).unlink()
    assert_refused(model, tmp_path / "to")


def test_truncated_shard_file_is_named(model: Path, tmp_path: Path) -> None:
    shard = first_file(model)
    shard.write_bytes(shard.read_bytes()[:-1])
    assert_refused(model, tmp_path / "to", shard.name)


def test_index_that_names_an_absent_tensor_is_refused(model: Path, tmp_path: Path) -> None:
    rewrite_index(model, lambda index: index["weight_map"].update({"model.ghost": first_file(model).name}))
    assert_refused(model, tmp_path / "to", "model.ghost")


def test_tensor_that_the_index_puts_into_the_wrong_file_is_named(model: Path, tmp_path: Path) -> None:
    def swap(index: dict[str, Any]) -> None:
        index["weight_map"]["model.norm.weight"] = next(
            file for file in index["weight_map"].values() if file != index["weight_map"]["model.norm.weight"]
        )

    rewrite_index(model, swap)
    assert_refused(model, tmp_path / "to", "model.norm.weight")


@pytest.mark.parametrize("path", ["../outside.safetensors", "/etc/passwd", "a/../../outside.safetensors", "", "x\0y"])
def test_index_that_points_outside_is_refused(path: str, model: Path, tmp_path: Path) -> None:
    shutil.copy(first_file(model), tmp_path / "outside.safetensors")
    shard = first_file(model).name

    def point(index: dict[str, Any]) -> None:
        index["weight_map"] = {name: path if file == shard else file for name, file in index["weight_map"].items()}

    rewrite_index(model, point)
    assert_refused(model, tmp_path / "to")


def test_link_out_of_the_folder_is_refused(model: Path, tmp_path: Path) -> None:
    shard = first_file(model)
    shutil.move(shard, tmp_path / "outside.safetensors")
    shard.symlink_to(tmp_path / "outside.safetensors")
    assert_refused(model, tmp_path / "to", shard.name)


def test_link_to_itself_is_refused(model: Path, tmp_path: Path) -> None:
    shard = first_file(model)
    shard.unlink()
    shard.symlink_to(shard.name)
    assert_refused(model, tmp_path / "to", shard.name)


def test_single_file_beside_an_index_is_refused(model: Path, tmp_path: Path) -> None:
    """transformers reads model.safetensors and passes the index over; its files may be another model."""
    save_file({"model.norm.weight": torch.ones(4)}, model / "model.safetensors")
    assert_refused(model, tmp_path / "to", "'model.safetensors'", "'model.safetensors.index.json'")


def test_second_index_is_refused(model: Path, tmp_path: Path) -> None:
    shutil.copy(model / "model.safetensors.index.json", model / "model.fp16.safetensors.index.json")
    assert_refused(model, tmp_path / "to", "'model.safetensors.index.json'", "'model.fp16.safetensors.index.json'")


def test_index_of_the_single_file_is_read(tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    save_file({"w": torch.ones(4)}, model / "model.safetensors")
    index = {"metadata": {"total_size": 16}, "weight_map": {"w": "model.safetensors"}}
    (model / "model.safetensors.index.json").write_text(json.dumps(index))
    run = tenplex("inspect", model)
    assert run.err == "", run


def test_index_with_a_key_twice_is_refused(model: Path, tmp_path: Path) -> None:
    path = model / "model.safetensors.index.json"
    name = "model.norm.weight"
    text = path.read_text()
    assert f'"{name}"' in text
    path.write_text(text.replace(f'"{name}"', f'"{name}": "{first_file(model).name}", "{name}"', 1))
    assert_refused(model, tmp_path / "to", name)


def test_same_tensor_in_two_files_is_refused(model: Path, tmp_path: Path) -> None:
    shutil.copy(first_file(model), model / "model-00099-of-00099.safetensors")
    (model / "model.safetensors.index.json").unlink()
    assert_refused(model, tmp_path / "to")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"weight_map": 5}', '{"weight_map": {"a": 5}}', "{}", "[" * 100_000])
def test_index_that_is_no_index_is_refused(text: str, model: Path, tmp_path: Path) -> None:
    (model / "model.safetensors.index.json").write_text(text)
    assert_refused(model, tmp_path / "to")


def test_directory_in_place_of_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    run = assert_refused(tmp_path / "empty", tmp_path / "to", "an empty folder")
    assert f"{tmp_path}/empty" in run.err
    run = assert_refused(tmp_path / "absent", tmp_path / "to", "No such file or directory")
    assert f"{tmp_path}/absent" in run.err


def test_device_and_fifo_are_refused(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "pipe.safetensors")
    for path in (Path("/dev/zero"), tmp_path / "pipe.safetensors"):
        assert not read_or_refuse(path, tmp_path / "out")


NOT_PLAIN = [
    "posix\nsystem",
    "builtins\neval",
    "torch\nload",
    "collections\nOrderedDict\nI1\n.",
    "",
    "\n",
    "a",
    "a\n",
    "posix\nsystem\n",
    "x y\nz",
]


@pytest.mark.parametrize("name", NOT_PLAIN)
@pytest.mark.parametrize("form", ["called", "named", "factory"])
def test_class_that_no_file_without_pickles_may_name_is_refused(form: str, name: str, tmp_path: Path) -> None:
    """Whoever loads a .pt or dcp written from it would run it."""
    forms: dict[str, list[object]] = {
        "called": [["o", 5, 6, None, None, [], [], False], ["g", name], ["t", 7], "touch x"],
        "named": [["g", name]],
        "factory": [["o", 5, 6, None, None, [], [], False], ["g", "collections\ndefaultdict"], ["t", 7], ["g", name]],
    }
    nodes = [["d", 1, 2, 3, 4], "w", ["T", "w"], "x", *forms[form]]
    source = tmp_path / "s.safetensors"
    save_file({"w": torch.ones(2)}, source, {"format": "pt", "tenplex": side_text({"root": 0, "nodes": nodes})})
    mention = f"'{name.replace(chr(10), '.')}'"
    for target_format in ("torch", "dcp"):
        assert_refused(source, tmp_path / target_format, mention, target_format=target_format)


def drop_tensor(tensors: dict[str, torch.Tensor]) -> None:
    del tensors["model.u"]


def add_tensor(tensors: dict[str, torch.Tensor]) -> None:
    tensors["new"] = torch.ones(2)


def add_dimension(tensors: dict[str, torch.Tensor]) -> None:
    tensors["model.v"] = tensors["model.v"].reshape(2, 4, 1)


def change_a_tie(tensors: dict[str, torch.Tensor]) -> None:
    tensors["model.v"] = tensors["model.v"] + 1


@pytest.mark.parametrize("change", [drop_tensor, add_tensor, add_dimension, change_a_tie])
def test_tree_of_other_tensors_says_how_to_go_on(
    change: Callable[[dict[str, torch.Tensor]], None], tmp_path: Path
) -> None:
    """Tensors that another program changed and saved with the metadata that it found."""
    w = torch.arange(24.0).reshape(6, 4)
    torch.save({"model": {"w": w, "v": w[1:3], "u": torch.ones(2)}, "step": 3}, tmp_path / "a.pt")
    tenplex("reshard", tmp_path / "a.pt", tmp_path / "a.safetensors")
    with safe_open(tmp_path / "a.safetensors", "pt") as file:
        metadata = file.metadata()
        tensors = {name: file.get_tensor(name) for name in file.keys()}
    change(tensors)
    source = tmp_path / "b.safetensors"
    save_file(tensors, source, metadata)
    assert_refused(source, tmp_path / "to", "save them without its key 'tenplex'", target_format="torch")
    save_file(tensors, source)
    tenplex("reshard", source, tmp_path / "c.pt", "--verify")
