# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""Damaged and lying PyTorch Distributed Checkpoints."""

from __future__ import annotations

import dataclasses
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.metadata import BytesStorageMetadata, ChunkStorageMetadata, Metadata, MetadataIndex

from makers import doubled_fields
from makers.pickle_bombs import BOMBS, READ_OR_REFUSED
from program import tenplex
from refusal import assert_refused, read_or_refuse

CUT = "model.words.weight"


@pytest.fixture
def checkpoint(fsdp_run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(fsdp_run / "checkpoint", tmp_path / "dcp"))


def rewrite(checkpoint: Path, change: Callable[[Metadata], None]) -> None:
    path = checkpoint / ".metadata"
    metadata: Metadata = pickle.loads(path.read_bytes())
    change(metadata)
    path.write_bytes(pickle.dumps(metadata, protocol=4))


def storage_of(metadata: Metadata, name: str) -> MetadataIndex:
    return next(index for index in metadata.storage_data if index.fqn == name)


def replace_storage(metadata: Metadata, name: str, **fields: Any) -> None:
    index = storage_of(metadata, name)
    metadata.storage_data[index] = dataclasses.replace(metadata.storage_data[index], **fields)


def move_chunk(metadata: Metadata, offsets: list[int], sizes: list[int] | None = None) -> None:
    """Gives the second chunk of CUT another place, in the list and as a key of the storage table."""
    chunks = metadata.state_dict_metadata[CUT].chunks
    old = chunks[1]
    index = next(i for i in metadata.storage_data if i.fqn == CUT and i.offset == old.offsets)
    chunks[1] = ChunkStorageMetadata(torch.Size(offsets), torch.Size(sizes or list(old.sizes)))
    metadata.storage_data[MetadataIndex(CUT, torch.Size(offsets), 1)] = metadata.storage_data.pop(index)


def remove_chunk(metadata: Metadata) -> None:
    chunks = metadata.state_dict_metadata[CUT].chunks
    gone = chunks.pop(1)
    metadata.storage_data = {
        index: stored
        for index, stored in metadata.storage_data.items()
        if not (index.fqn == CUT and index.offset == gone.offsets)
    }


def resize(metadata: Metadata, size: list[int]) -> None:
    metadata.state_dict_metadata[CUT].size = torch.Size(size)


def forget_storage(metadata: Metadata) -> None:
    del metadata.storage_data[storage_of(metadata, CUT)]


def change_dtype(metadata: Metadata) -> None:
    entry = metadata.state_dict_metadata[CUT]
    entry.properties = dataclasses.replace(entry.properties, dtype=torch.int32)


def grow_to_10_18(metadata: Metadata) -> None:
    entry = metadata.state_dict_metadata[CUT]
    entry.size = torch.Size([10**9, 10**9])
    entry.chunks = [ChunkStorageMetadata(torch.Size([0, 0]), torch.Size([10**9, 10**9]))]


LIES: dict[str, tuple[Callable[[Metadata], None], tuple[str, ...]]] = {
    "chunk outside the tensor": (lambda m: move_chunk(m, [1000, 0]), (CUT,)),
    "chunk partly outside": (lambda m: move_chunk(m, [36, 0]), (CUT,)),
    "chunk at a negative offset": (lambda m: move_chunk(m, [-10, 0]), (CUT,)),
    "chunk with one axis too many": (lambda m: move_chunk(m, [10, 0, 0]), (CUT,)),
    "chunk with one axis too few": (lambda m: move_chunk(m, [10], [10]), (CUT,)),
    "chunks that overlap": (lambda m: move_chunk(m, [5, 0]), (CUT,)),
    "chunk that is missing": (remove_chunk, (CUT,)),
    "chunk without storage": (forget_storage, (CUT,)),
    "tensor larger than its chunks": (lambda m: resize(m, [50, 24]), (CUT,)),
    "tensor smaller than its chunks": (lambda m: resize(m, [30, 24]), (CUT,)),
    "tensor of negative size": (lambda m: resize(m, [-37, 24]), (CUT,)),
    "tensor of 2^64 elements": (lambda m: resize(m, [1 << 32, 1 << 32]), (CUT,)),
    "tensor and chunk of 10^18 elements": (grow_to_10_18, (CUT,)),
    "other dtype than the stored item": (change_dtype, (CUT,)),
    "file outside by ..": (lambda m: replace_storage(m, CUT, relative_path="../secret.distcp"), ("..",)),
    "file outside by an absolute path": (
        lambda m: replace_storage(m, CUT, relative_path="/etc/passwd"),
        ("/etc/passwd",),
    ),
    "file that is not there": (lambda m: replace_storage(m, CUT, relative_path="__9_9.distcp"), ("__9_9.distcp",)),
    "file is the folder": (lambda m: replace_storage(m, CUT, relative_path="."), ()),
    "item past the end of its file": (lambda m: replace_storage(m, CUT, offset=1 << 40), (CUT,)),
    "item at a negative offset": (lambda m: replace_storage(m, CUT, offset=-1), (CUT,)),
    "item longer than its file": (lambda m: replace_storage(m, CUT, length=1 << 40), (CUT,)),
    "item of negative length": (lambda m: replace_storage(m, CUT, length=-5), (CUT,)),
    "item of length 2^63": (lambda m: replace_storage(m, CUT, length=1 << 63), ("_StorageInfo.length",)),
    "item offset and length that overflow": (
        lambda m: replace_storage(m, CUT, offset=(1 << 63) - 8, length=1024),
        (CUT,),
    ),
    "item of no bytes": (lambda m: replace_storage(m, CUT, length=0), (CUT,)),
    "item shifted by a byte": (
        lambda m: replace_storage(m, CUT, offset=m.storage_data[storage_of(m, CUT)].offset + 1),
        (CUT,),
    ),
    "item under a transform": (
        lambda m: replace_storage(m, CUT, transform_descriptors=["zstd"]),
        ("transform_descriptors", CUT),
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_lying_metadata_is_refused(lie: str, checkpoint: Path, tmp_path: Path) -> None:
    change, mentions = LIES[lie]
    rewrite(checkpoint, change)
    assert_refused(checkpoint, tmp_path / "to", *mentions)


def test_item_of_another_tensor_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    """The item that the metadata points to holds a chunk of another shape."""

    def swap(metadata: Metadata) -> None:
        other = storage_of(metadata, "model.blocks.0.down.weight")
        index = storage_of(metadata, CUT)
        metadata.storage_data[index] = metadata.storage_data[other]

    rewrite(checkpoint, swap)
    assert_refused(checkpoint, tmp_path / "to", CUT)


def test_absent_data_file_is_named(checkpoint: Path, tmp_path: Path) -> None:
    (checkpoint / "__2_0.distcp").unlink()
    assert_refused(checkpoint, tmp_path / "to", "__2_0.distcp")


def test_truncated_data_file_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    data = checkpoint / "__2_0.distcp"
    content = data.read_bytes()
    for size in (0, 1, 1000, len(content) // 2, len(content) - 1):
        data.write_bytes(content[:size])
        assert_refused(checkpoint, tmp_path / "to", "__2_0.distcp")


def test_link_out_of_the_folder_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    data = checkpoint / "__1_0.distcp"
    shutil.move(data, tmp_path / "outside")
    data.symlink_to(tmp_path / "outside")
    assert_refused(checkpoint, tmp_path / "to", "__1_0.distcp")


def test_folder_without_its_metadata_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    (checkpoint / ".metadata").unlink()
    assert_refused(checkpoint, tmp_path / "to", ".metadata")


def test_every_truncation_of_the_metadata_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    path = checkpoint / ".metadata"
    content = path.read_bytes()
    for size in [*range(0, len(content), len(content) // 100), len(content) - 1]:
        path.write_bytes(content[:size])
        assert not read_or_refuse(checkpoint, tmp_path / "out"), size


def test_flipped_bits_of_the_metadata_are_read_or_refused(checkpoint: Path, tmp_path: Path) -> None:
    path = checkpoint / ".metadata"
    content = path.read_bytes()
    for position in range(0, len(content), len(content) // 200):
        damaged = bytearray(content)
        damaged[position] ^= 1 << (position % 8)
        path.write_bytes(damaged)
        target = tmp_path / f"out{position}"
        if read_or_refuse(checkpoint, target):
            shutil.rmtree(target)


def test_flipped_bits_of_the_data_are_refused_or_harmless(tmp_path: Path) -> None:
    source = tmp_path / "small"
    dcp.save({"a": torch.arange(60), "b": torch.ones(4, 4), "c": {"step": 3}}, checkpoint_id=str(source), no_dist=True)
    original = Path(shutil.copytree(source, tmp_path / "original"))
    data = next(source.glob("*.distcp"))
    content = data.read_bytes()
    refused = 0
    for position in range(0, len(content), 13):
        damaged = bytearray(content)
        damaged[position] ^= 1 << (position % 8)
        data.write_bytes(damaged)
        target = tmp_path / f"out{position}"
        if read_or_refuse(source, target):
            tenplex("verify", original, target)
        else:
            refused += 1
    assert refused > 20


@pytest.mark.parametrize("bomb", [name for name in BOMBS if "storage" not in name and name not in READ_OR_REFUSED])
def test_pickle_bomb_as_metadata_is_refused(bomb: str, checkpoint: Path, tmp_path: Path) -> None:
    (checkpoint / ".metadata").write_bytes(BOMBS[bomb])
    assert_refused(checkpoint, tmp_path / "to", ".metadata")


def test_metadata_of_another_class_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    (checkpoint / ".metadata").write_bytes(pickle.dumps({"state_dict_metadata": {}}))
    assert_refused(checkpoint, tmp_path / "to", ".metadata")


def test_planner_data_with_names_that_clash_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    def clash(metadata: Metadata) -> None:
        assert metadata.planner_data is not None
        entries = metadata.state_dict_metadata
        item = next(name for name, entry in entries.items() if isinstance(entry, BytesStorageMetadata))
        entries["model"] = entries[item]
        metadata.storage_data[MetadataIndex("model")] = metadata.storage_data[storage_of(metadata, item)]
        metadata.planner_data["model"] = ("model",)

    rewrite(checkpoint, clash)
    assert_refused(checkpoint, tmp_path / "out", "'model'")


@pytest.mark.parametrize("path", [("model",), ("model", "words", "bias"), ("model", 0), ("model.words.weigh", "t")])
def test_planner_data_with_the_path_of_another_name_is_refused(
    path: tuple[object, ...], checkpoint: Path, tmp_path: Path
) -> None:
    def misplace(metadata: Metadata) -> None:
        assert metadata.planner_data is not None
        metadata.planner_data["model.words.weight"] = path

    rewrite(checkpoint, misplace)
    error = "'model.words.weight': its path in planner_data is that of '{}'".format(".".join(map(str, path)))
    assert_refused(checkpoint, tmp_path / "out", error)


@pytest.mark.parametrize(
    ("owner", "field", "kind"),
    [
        ("_StorageInfo", "relative_path", str),
        ("_StorageInfo", "offset", int),
        ("_StorageInfo", "length", int),
        ("MetadataIndex", "fqn", str),
        ("MetadataIndex", "offset", torch.Size),
        ("MetadataIndex", "index", int),
        ("ChunkStorageMetadata", "offsets", torch.Size),
        ("ChunkStorageMetadata", "sizes", torch.Size),
        ("TensorStorageMetadata", "size", torch.Size),
        ("TensorStorageMetadata", "chunks", list),
        ("TensorStorageMetadata", "properties", object),
        ("Metadata", "storage_data", dict),
        ("Metadata", "state_dict_metadata", dict),
        ("Metadata", "planner_data", dict),
    ],
)
def test_field_that_is_there_twice_is_refused(
    owner: str, field: str, kind: type, checkpoint: Path, tmp_path: Path
) -> None:
    """Python keeps the last value: whoever took the first would read other bytes."""
    path = checkpoint / ".metadata"
    metadata = pickle.loads(path.read_bytes())
    path.write_bytes(doubled_fields.dumps(metadata, field, kind))
    assert pickle.loads(path.read_bytes()) == metadata
    assert_refused(checkpoint, tmp_path / "out", f"{owner}: the field '{field}' is there twice")


def test_tensor_that_is_there_twice_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    path = checkpoint / ".metadata"
    metadata = pickle.loads(path.read_bytes())
    path.write_bytes(doubled_fields.dumps(metadata, CUT, object))
    assert pickle.loads(path.read_bytes()) == metadata
    assert_refused(checkpoint, tmp_path / "out", f"a dict has one key twice: '{CUT}'")
