# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""What lies in the files of a Megatron-Core checkpoint, as torch alone reads it."""

from __future__ import annotations

import hashlib
import io
import json
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.metadata import Metadata

Chunks = dict[str, dict[tuple[int, ...], torch.Tensor]]


def metadata_of(folder: Path) -> Metadata:
    return FileSystemReader(str(folder)).read_metadata()


def stored(folder: Path) -> tuple[Chunks, dict[str, Any]]:
    """Per tensor its chunks by offset, and the objects as they are stored (each in a list of one)."""
    metadata = metadata_of(folder)
    chunks: Chunks = {}
    objects: dict[str, Any] = {}
    for index, place in metadata.storage_data.items():
        with open(folder / place.relative_path, "rb") as file:
            file.seek(place.offset)
            value = torch.load(io.BytesIO(file.read(place.length)), weights_only=False)
        if index.offset is None:
            objects[index.fqn] = value
        else:
            chunks.setdefault(index.fqn, {})[tuple(index.offset)] = value
    return chunks, objects


def sizes_of(folder: Path) -> dict[str, tuple[int, ...]]:
    entries = metadata_of(folder).state_dict_metadata
    return {name: tuple(entry.size) for name, entry in entries.items() if hasattr(entry, "size")}


def boxes_of(folder: Path) -> dict[str, set[tuple[tuple[int, ...], tuple[int, ...]]]]:
    """Per tensor its chunks' offsets and sizes."""
    entries = metadata_of(folder).state_dict_metadata
    return {
        name: {(tuple(chunk.offsets), tuple(chunk.sizes)) for chunk in entry.chunks}
        for name, entry in entries.items()
        if hasattr(entry, "chunks")
    }


def whole(size: tuple[int, ...], chunks: dict[tuple[int, ...], torch.Tensor]) -> torch.Tensor:
    """The tensor put together; fails unless each element is there once."""
    first = next(iter(chunks.values()))
    result, times = torch.zeros(size, dtype=first.dtype), torch.zeros(size, dtype=torch.uint8)
    for offset, chunk in chunks.items():
        place = tuple(slice(start, start + extent) for start, extent in zip(offset, chunk.shape, strict=True))
        result[place] = chunk
        times[place] += 1
    assert bool((times == 1).all())
    return result


def common_of(folder: Path) -> dict[str, Any]:
    """The state that is not cut, in either form."""
    if (folder / "common.pt").exists():
        common: dict[str, Any] = torch.load(folder / "common.pt", weights_only=False)
        return common
    [common] = stored(folder)[1]["common_state/shard_0_1"]
    return common


def sums_of(folder: Path) -> dict[str, str]:
    """What integrity.json has to say."""
    files = sorted(path for path in folder.iterdir() if path.name != "integrity.json")
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def write_integrity(folder: Path) -> None:
    """As megatron-core 0.19.2 does."""
    text = json.dumps({"algorithm": "sha256", "files": sums_of(folder)}, indent=2)
    (folder / "integrity.json").write_text(text)
