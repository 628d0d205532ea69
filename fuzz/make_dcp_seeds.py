# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of dcp_fuzz with torch: python make_dcp_seeds.py [FOLDER ...]

They are the folders that are named (without arguments those of tests/golden/v1/dcp), and metadata with one lie each. The
layout of a seed is described in dcp_fuzz.cc.
"""

import io
import json
import pickle
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)

HERE = Path(__file__).resolve().parent
GOLDEN = HERE.parent / "tests" / "golden" / "v1" / "dcp"
SHAPE = (3, 4)
TWIN = "u"
NEW_MODULE = b"torch.distributed.checkpoint.metadata"
OLD_MODULE = b"torch.distributed._shard.checkpoint.metadata"


def pack(metadata: bytes, first: bytes = b"", side: bytes = b"", second: bytes = b"") -> bytes:
    return struct.pack("<3H", len(metadata), len(first), len(side)) + metadata + first + side + second


def pack_folder(folder: Path) -> bytes:
    names = [".metadata", "__0_0.distcp", "tenplex.json", "__1_0.distcp"]
    return pack(*((folder / name).read_bytes() if (folder / name).exists() else b"" for name in names))


def dumps(value: object, protocol: int = 4) -> bytes:
    """Pickles; a name TWIN becomes a second "w", which no dict can hold."""
    return pickle.dumps(value, protocol).replace(b"\x8c\x01" + TWIN.encode(), b"\x8c\x01w")


def chunk(offsets: tuple[int, ...], sizes: tuple[int, ...]) -> ChunkStorageMetadata:
    return ChunkStorageMetadata(torch.Size(offsets), torch.Size(sizes))


def tensor(size: tuple[int, ...], *chunks: ChunkStorageMetadata) -> TensorStorageMetadata:
    properties = TensorProperties(dtype=torch.float32)
    return TensorStorageMetadata(properties=properties, size=torch.Size(size), chunks=list(chunks))


def saved(value: object) -> bytes:
    stream = io.BytesIO()
    torch.save(value, stream)
    return stream.getvalue()


def cut() -> tuple[Metadata, bytes]:
    """Tensor w in two chunks and object o, and the data file."""
    state = {"w": tensor(SHAPE, chunk((0, 0), (2, 4)), chunk((2, 0), (1, 4))), "o": BytesStorageMetadata()}
    whole = torch.arange(12, dtype=torch.float32).reshape(SHAPE)
    items = {MetadataIndex("o"): saved({"x": torch.ones(2), "y": (1, "a")})}
    items |= {
        MetadataIndex("w", torch.Size([row, 0]), 0): saved(whole[row:end].clone()) for row, end in ((0, 2), (2, 3))
    }
    storage, data = {}, b""
    for index, content in items.items():
        storage[index] = _StorageInfo("__0_0.distcp", len(data), len(content))
        data += content
    planner = {"w": ("w",), "o": ("o",)}
    return Metadata(state_dict_metadata=state, planner_data=planner, storage_data=storage), data


def tied() -> tuple[Metadata, bytes]:
    """Tensors w and v without a tree: both names lead to the same two chunks. x has the first one only."""
    metadata, data = cut()
    state, storage = metadata.state_dict_metadata, metadata.storage_data
    del state["o"], storage[MetadataIndex("o")]
    state |= {"v": tensor(SHAPE, *state["w"].chunks), "x": tensor((2, 4), state["w"].chunks[0])}
    for index, info in list(storage.items()):
        storage[MetadataIndex("v", index.offset, 0)] = info
        if index.offset == torch.Size([0, 0]):
            storage[MetadataIndex("x", index.offset, 0)] = info
    metadata.planner_data = {name: (name,) for name in state}
    return metadata, data


def chunks(*boxes: tuple[tuple[int, int], tuple[int, int]]) -> Callable[[Metadata], None]:
    """w is cut into these boxes, all of them at the place of its first one."""

    def change(metadata: Metadata) -> None:
        metadata.state_dict_metadata["w"] = tensor(SHAPE, *(chunk(*box) for box in boxes))
        place = next(info for index, info in metadata.storage_data.items() if index.fqn == "w")
        metadata.storage_data |= {MetadataIndex("w", torch.Size(offset), None): place for offset, _ in boxes}

    return change


def w_is(value: Any) -> Callable[[Metadata], None]:
    return lambda metadata: metadata.state_dict_metadata.update({"w": value})


def w_has(**fields: Any) -> Callable[[Metadata], None]:
    return lambda metadata: metadata.state_dict_metadata["w"].__dict__.update(fields)


def properties(**fields: Any) -> Callable[[Metadata], None]:
    return lambda metadata: metadata.state_dict_metadata["w"].properties.__dict__.update(fields)


def root_has(**fields: Any) -> Callable[[Metadata], None]:
    return lambda metadata: metadata.__dict__.update(fields)


def renamed(**names: tuple[str | int, ...]) -> Callable[[Metadata], None]:
    """Puts entries at these paths, under the names that belong to them."""

    def change(metadata: Metadata) -> None:
        new = {name: ".".join(map(str, path)) for name, path in names.items()}
        state = metadata.state_dict_metadata
        metadata.state_dict_metadata = {new.get(name, name): entry for name, entry in state.items()}
        metadata.storage_data = {
            MetadataIndex(new.get(index.fqn, index.fqn), index.offset, index.index): info
            for index, info in metadata.storage_data.items()
        }
        planner = {name: (name,) for name in metadata.state_dict_metadata}
        metadata.planner_data = planner | {new[name]: path for name, path in names.items()}

    return change


def place(**fields: Any) -> Callable[[Metadata], None]:
    def change(metadata: Metadata) -> None:
        for info in metadata.storage_data.values():
            info.__dict__.update(fields)

    return change


def stored_twice(metadata: Metadata) -> None:
    index, info = list(metadata.storage_data.items())[-1]
    metadata.storage_data[MetadataIndex(TWIN, index.offset)] = info


def shared(metadata: Metadata) -> None:
    metadata.state_dict_metadata["v"] = metadata.state_dict_metadata["w"]


def shared_chunks(metadata: Metadata) -> None:
    w = metadata.state_dict_metadata["w"]
    for name in ("v", "t"):
        metadata.state_dict_metadata[name] = TensorStorageMetadata(w.properties, w.size, w.chunks)


ONE = chunk((0, 0), SHAPE)
CHANGES: dict[str, Callable[[Metadata], Any]] = {
    "whole": lambda metadata: None,
    "overlap": chunks(((0, 0), (2, 4)), ((1, 0), (2, 4))),
    "gap": chunks(((0, 0), (1, 4)), ((2, 0), (1, 2)), ((2, 2), (1, 2))),
    "outside": chunks(((0, 0), (9, 4))),
    "empty_chunk": chunks(((0, 0), (3, 4)), ((3, 0), (0, 4))),
    "no_chunks": w_is(tensor((0, 4))),
    "scalar": w_is(tensor((), chunk((), ()))),
    "rank": w_is(tensor((1,) * 9, chunk((0,) * 9, (1,) * 9))),
    "other_rank": w_is(tensor(SHAPE, chunk((0,), (3,)))),
    "long_size": w_has(size=tuple(range(65))),
    "text_size": w_has(size=("a",)),
    "no_size": w_has(size=None),
    "chunk_is_size": w_has(chunks=[torch.Size([1])]),
    "chunks_none": w_has(chunks=None),
    "size_is_chunk": w_has(size=ONE),
    "no_properties": w_has(properties=None),
    "many_fields": w_has(**{f"f{number}": 0 for number in range(40)}),
    "dtype_text": properties(dtype="float"),
    "dtype_list": properties(dtype=[]),
    "dtype_unknown": properties(dtype=torch.qint8),
    "sparse": properties(layout=torch.sparse_coo),
    "grad": properties(requires_grad=True),
    "channels": properties(memory_format=torch.channels_last),
    "number_is_tensor": w_is(3),
    "number_is_name": root_has(state_dict_metadata={3: BytesStorageMetadata()}),
    "no_state": root_has(state_dict_metadata=None),
    "no_storage": root_has(storage_data=None),
    "numbers_in_storage": root_has(storage_data={1: 2}),
    "empty_storage": root_has(storage_data={}),
    "stray": lambda metadata: metadata.storage_data.update({MetadataIndex("x"): _StorageInfo("__0_0.distcp", 0, 0)}),
    "nameless": lambda metadata: metadata.storage_data.update({MetadataIndex(None): _StorageInfo("a", 0, 0)}),
    "stored_twice": stored_twice,
    "named_twice": lambda metadata: metadata.state_dict_metadata.update({TWIN: BytesStorageMetadata()}),
    "shared": shared,
    "shared_chunks": shared_chunks,
    "no_planner": root_has(planner_data=None),
    "planner_text": root_has(planner_data={"w": "w"}),
    "planner_float": root_has(planner_data={"w": (1.5,)}),
    "planner_other": root_has(planner_data={"w": ("model", 0, "w"), "o": ("o",)}),
    "planner_nested": renamed(w=("model", 0, "w")),
    "planner_index": renamed(w=(1,), o=(0,)),
    "planner_clash": renamed(w=("a", "b"), o=("a",)),
    "version": root_has(version="1.0", storage_meta=None),
    "up": place(relative_path="../x"),
    "no_path": place(relative_path=None),
    "absent": place(relative_path="__7_0.distcp"),
    "far": place(offset=1 << 40),
    "no_offset": place(offset=None),
    "no_length": place(length=1 << 70),
    "short": place(length=40),
    "transformed": place(transform_descriptors=["zstd"]),
}

TIES: dict[str, dict[str, str]] = {
    "ties": {"v": "w"},
    "ties_back": {"w": "v"},
    "ties_round": {"v": "w", "w": "v"},
    "ties_self": {"v": "v"},
    "ties_lost": {"v": "lost", "lost": "w"},
    "ties_apart": {"x": "w"},
}
LEAF = {"root": 0, "nodes": [["t", 1, 2], ["s", "dGVucGxleC5sZWFm"], "o"]}
SIDES: dict[str, Any] = {
    "side_full": {
        "devices": 4,
        "layout": {"name": "fsdp", "text": "family: fsdp\n", "mesh": [["dp", 4]], "later": 1},
        "metadata": {"format": "pt"},
        "inner_views": [["o.x", 9, 2, [1], 3]],
        "repeated": ["w2"],
        "pickles": {"object-00000.pkl": "gAJOLg=="},
        "extra_files": [["config.json", 2]],
        "later": [1],
    },
    "side_state": {
        "state": {
            "root": 0,
            "nodes": [["d", 1, 2, 3, 4, 6, 7], "w", ["T", "w"], "o", ["t", 5, 3], "tenplex.leaf", "x", ["x", 0]],
            "objects": [["object-00000.pkl", 4, "bc4e8f45ea9fb1566a3b0757080340be"]],
        },
        "pickles": {"object-00000.pkl": "gAJOLg=="},
    },
    "side_shared": {"shared_nodes": [[[3, 1], [3, 3]]]},
    "side_shared_far": {"shared_nodes": [[[3, 9], [1]]]},
    "side_leaf": {
        "inner_views": [["o.x", 9, 2, [1], 3]],
        "state": {"root": 0, "nodes": [["d", 1, 2, 3, 4], "w", ["T", "w"], "o", ["t", 5, 3], "tenplex.leaf"]},
    },
    "side_lost_leaf": {"state": {"root": 0, "nodes": [["t", 1, 2], "tenplex.leaf", "lost"]}},
    "side_strides": {"inner_views": [["o.x", 0, 0, [1, 1], 0]]},
    "side_negative": {"inner_views": [["o.x", -1, 0, [1], 0]]},
    "side_short": {"inner_views": [["o.x", 0]]},
    "side_devices": {"devices": 0},
    "side_mesh": {"layout": {"mesh": [["dp", 0]]}},
    "side_base64": {"pickles": {"a": "?"}},
}


def payload_lies() -> dict[str, bytes]:
    """The golden folder whose payload is safetensors, which says other things than its metadata."""

    def rename(metadata: Any) -> None:
        metadata.state_dict_metadata = {"x" if name == "model.w" else name: w for name, w in items(metadata)}
        metadata.storage_data = {
            MetadataIndex("x" if index.fqn == "model.w" else index.fqn, index.offset): info
            for index, info in metadata.storage_data.items()
        }

    def items(metadata: Any) -> Any:
        return metadata.state_dict_metadata.items()

    def swap(metadata: Any) -> None:
        w = metadata.state_dict_metadata["model.w"]
        w.chunks = [chunk((1, 0), (2, 2)), chunk((0, 0), (1, 2))]
        places = [info for index, info in metadata.storage_data.items() if index.fqn == "model.w"]
        for index in [index for index in metadata.storage_data if index.fqn == "model.w"]:
            del metadata.storage_data[index]
        metadata.storage_data |= {
            MetadataIndex("model.w", each.offsets): info for each, info in zip(w.chunks, places, strict=True)
        }

    def retype(metadata: Any) -> None:
        metadata.state_dict_metadata["model.w"].properties.dtype = torch.int32

    folder = GOLDEN / "safetensors"
    seeds = {}
    for change in (rename, swap, retype):
        metadata = pickle.loads((folder / ".metadata").read_bytes())
        change(metadata)
        data = [(folder / name).read_bytes() for name in ("__0_0.distcp", "__1_0.distcp")]
        seeds[f"payload_{change.__name__}"] = pack(dumps(metadata), data[0], b"", data[1])
    return seeds


def lies() -> dict[str, bytes]:
    seeds = payload_lies()
    for name, change in CHANGES.items():
        metadata, data = cut()
        if name not in {"whole", "grad", "planner_nested", "planner_index", "planner_clash"}:  # the others need no data
            place(offset=0, length=0)(metadata)
            data = b""
        change(metadata)
        seeds[name] = pack(dumps(metadata), data)
    metadata, data = cut()
    seeds |= {name: pack(dumps(metadata), data, json.dumps(side).encode()) for name, side in SIDES.items()}
    seeds["side_aliases"] = pack(dumps(metadata), data, json.dumps({"aliases": {"o": "w"}}).encode())
    flat, flat_data = tied()
    seeds |= {
        name: pack(dumps(flat), flat_data, json.dumps({"aliases": aliases}).encode()) for name, aliases in TIES.items()
    }
    seeds["side_format"] = pack(dumps(metadata), b"", b'{"format":"tenplex.other"}')
    seeds["old_module"] = pack(dumps(metadata, 2).replace(NEW_MODULE, OLD_MODULE), data)
    seeds["no_metadata"] = pack(dumps([1]))
    seeds["no_fields"] = pack(dumps(metadata, 2)[:-2] + b"0)b.")
    return seeds


def main() -> None:
    corpus = HERE / "corpus" / "dcp"
    corpus.mkdir(parents=True, exist_ok=True)
    folders = [Path(name) for name in sys.argv[1:]] or [path.parent for path in GOLDEN.glob("*/.metadata")]
    for folder in sorted(folders):
        (corpus / folder.name).write_bytes(pack_folder(folder))
    for name, content in lies().items():
        (corpus / name).write_bytes(content)


if __name__ == "__main__":
    main()
