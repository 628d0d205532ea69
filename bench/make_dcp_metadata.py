# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""A DCP folder whose `.metadata` has many chunks and whose data files are sparse, for timing `inspect`.

The metadata is made of torch's own classes and pickled as torch does it; the data files have the right
size and no contents, so that only the metadata can be read. Needs torch.
"""

from __future__ import annotations

import pickle
from pathlib import Path

import torch
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)

ROWS_PER_CHUNK = 4
COLUMNS = 8
ITEM_BYTES = 1705


def make_metadata(tensors: int, chunks: int, files: int) -> tuple[Metadata, list[int]]:
    """Returns the metadata and the size in bytes of every data file."""
    ends = [0] * files
    tensor_metadata = {}
    storage = {}
    paths = {}
    for t in range(tensors):
        name = f"model.decoder.layers.{t}.mlp.linear_fc1.weight"
        paths[name] = ("model", f"decoder.layers.{t}.mlp.linear_fc1.weight")
        chunk_list = []
        for c in range(chunks):
            offsets = torch.Size([c * ROWS_PER_CHUNK, 0])
            chunk_list.append(ChunkStorageMetadata(offsets, torch.Size([ROWS_PER_CHUNK, COLUMNS])))
            file = c % files
            info = _StorageInfo(f"__{file}_0.distcp", ends[file], ITEM_BYTES)
            storage[MetadataIndex(name, offsets, c)] = info
            ends[file] += ITEM_BYTES
        tensor_metadata[name] = TensorStorageMetadata(
            TensorProperties(dtype=torch.float32), torch.Size([chunks * ROWS_PER_CHUNK, COLUMNS]), chunk_list
        )
    metadata = Metadata(tensor_metadata, paths, storage, StorageMeta(checkpoint_id="bench"), "1.0.0")
    return metadata, ends


def write_many_chunks(folder: Path, tensors: int, chunks: int, files: int = 64) -> None:
    """Makes `folder` with `tensors` tensors of `chunks` chunks each."""
    metadata, ends = make_metadata(tensors, chunks, files)
    folder.mkdir()
    for file, end in enumerate(ends):
        with (folder / f"__{file}_0.distcp").open("wb") as out:
            out.truncate(end)
    with (folder / ".metadata").open("wb") as out:
        pickle.dump(metadata, out)
