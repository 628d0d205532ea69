# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of safetensors_fuzz, manifest_fuzz and hf_index_fuzz. Needs torch and safetensors."""

import argparse
import base64
import io
import json
import pathlib
import pickle
import struct

import torch
from safetensors.torch import save

CORPUS = pathlib.Path(__file__).parent / "corpus"


def with_header(header: str, data: bytes = b"") -> bytes:
    text = header.encode()
    return struct.pack("<Q", len(text)) + text + data


def entry(dtype: str, shape: list[int], begin: int, end: int) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


STATE = {
    "root": 0,
    "nodes": [
        ["d", 1, 2, 3, 4, 5, 6, 7, 8],
        "w",
        ["T", "w", "gp", 3, 0, [2, 1], 1],
        "step",
        ["i", "9007199254740993"],
        ["f", 0.1],
        ["f", "7ff8000000000000"],
        7,
        ["t", 9, 10, 11, 12, 13, 14, 15, 16, 17],
        None,
        True,
        ["b", "AAE="],
        ["B", "AAE="],
        ["I", "AAAAAAAAAAAB"],
        ["s", "7aCA"],
        ["g", "torch\nfloat32"],
        ["l", 18],
        ["S", "w", 3, 0, [2, 1]],
        ["o", 19, 20, None, None, [], [1, 7], False],
        ["g", "collections\nOrderedDict"],
        ["t"],
    ],
}


NONE_PICKLE_HASH = "bc4e8f45ea9fb1566a3b0757080340be"  # of the object that safetensors_fuzz has in its folder


def side_seeds() -> dict[str, bytes]:
    """Files of one tensor w with side data that differ."""

    def state(*nodes: object, **more: object) -> dict[str, object]:
        return {"state": {"root": 0, "nodes": nodes, **more}}

    def objects(size: int, checksum: str) -> dict[str, object]:
        return state(["l", 1, 2], ["x", 0], ["T", "w"], objects=[["object-00000.pkl", size, checksum]])

    sides: dict[str, dict[str, object]] = {
        "reader_2": {"oldest_reader": 2},
        "reader_0": {"oldest_reader": 0},
        "outside_state": state(None),
        "object": objects(4, NONE_PICKLE_HASH),
        "object_size": objects(5, NONE_PICKLE_HASH),
        "object_checksum": objects(4, "0" * 32),
        "alias_lost": {"aliases": {"v": "lost"}},
        "alias_taken": {"aliases": {"w": "w"}},
        "extra_up": {"extra_files": [["../a", 1]]},
    }
    base = {"version": 1, "oldest_reader": 1}
    return {
        f"side_{name}": with_header(
            json.dumps({"__metadata__": {"tenplex": json.dumps(base | side)}, "w": entry("U8", [4], 0, 4)}), b"wwww"
        )
        for name, side in sides.items()
    }


def sharding_seeds() -> dict[str, bytes]:
    """Files as torch's HuggingFaceStorageWriter makes them, with a lie each."""
    lies: dict[str, object] = {
        "lost": {},
        "no_offsets": {"w": {"later": 1}},
        "other_rank": {"w": {"saved_offsets": [0]}},
        "negative": {"w": {"saved_offsets": [-1, 0]}},
        "hole": {"w": {"saved_offsets": [1, 0]}},
        "list": [],
    }
    w = entry("U8", [2, 2], 0, 4)
    return {
        f"dcp_{name}": with_header(
            json.dumps({"__metadata__": {"DCP_SHARDING_INFO": json.dumps(lie)}, "w": w}), b"wwww"
        )
        for name, lie in lies.items()
    }


def safetensors_seeds() -> dict[str, bytes]:
    side = {"version": 1, "oldest_reader": 1, "aliases": {"v": "w"}, "extra_files": [["a", 1]], "state": STATE}
    w = entry("U8", [2, 2], 0, 4)
    dcp = {"format": "pt", "DCP_VERSION": "1.0", "DCP_SHARDING_INFO": json.dumps({"w": {"saved_offsets": [0, 0]}})}
    dtypes = [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64, torch.float8_e4m3fn]
    all_dtypes = {str(dtype): torch.zeros(2, 3, dtype=dtype) for dtype in dtypes}
    names = "U64 I64 F64 C64 F32 U32 I32 BF16 F16 U16 I16 F8_E5M2FNUZ F8_E4M3FNUZ F8_E8M0 F8_E4M3 F8_E5M2 I8 U8"
    empty = {name: entry(name, [0], 0, 0) for name in [*names.split(), "F6_E3M2", "F6_E2M3", "F4", "BOOL"]}
    return (
        side_seeds()
        | sharding_seeds()
        | folder_seeds()
        | {
            "library": save(all_dtypes, metadata={"format": "pt"}),
            "scalar_and_empty": save({"s": torch.tensor(1.5), "e": torch.zeros(0, 4)}),
            "no_tensors": with_header("{}"),
            "every_dtype": with_header(json.dumps(empty)),
            "escapes": with_header(r'{"\u00e9\ud83d\ude00\n":{"dtype":"U8","shape":[],"data_offsets":[0,1]}}', b"x"),
            "state": with_header(json.dumps({"__metadata__": {"tenplex": json.dumps(side)}, "w": w}), b"wwww"),
            "dcp": with_header(json.dumps({"__metadata__": dcp, "w": w}), b"wwww"),
            "hole": with_header(json.dumps({"w": entry("U8", [4], 1, 5)}), b"wwwww"),
            "duplicate": with_header('{"a":1,"a":2}'),
            "null_metadata": with_header('{"__metadata__":null}'),
        }
    )


def device_folder(manifest: dict[str, object], *files: bytes) -> bytes:
    """What safetensors_fuzz takes for a folder of two devices."""
    body = json.dumps(manifest, separators=(",", ":")).encode()
    return b"\xff" + struct.pack("<HH", len(body), len(files[0])) + body + files[0] + files[1]


def folder_seeds() -> dict[str, bytes]:
    """Folders of a tensor w in two halves and a tensor c that both hold, with a lie each."""

    def device(number: int, side: dict[str, object] | None = None, **more: dict[str, object]) -> bytes:
        side = {"version": 1, "oldest_reader": 1, "device": number} if side is None else side
        tensors = {"w": entry("U8", [1, 2], 0, 2), "c": entry("U8", [2], 2, 4)} | more
        return with_header(json.dumps({"__metadata__": {"tenplex": json.dumps(side)}} | tensors), b"wwcc")

    files = (device(0), device(1))
    names = [[f"device-{number}.safetensors", len(files[number])] for number in (0, 1)]

    def shard(name: str, shape: list[int], *shards: dict[str, object]) -> dict[str, object]:
        return {"name": name, "dtype": "uint8", "shape": shape, "shards": shards}

    halves = [{"on": [rank], "box": [[rank, 0], [1, 2]]} for rank in (0, 1)]
    both = {"on": [0, 1], "box": [[0], [2]]}
    tensors = [shard("w", [2, 2], *halves), shard("c", [2], both)]
    good: dict[str, object] = {"container": "safetensors", "files": names}
    rest: dict[str, object] = {
        "layout": {"name": "fsdp", "text": "family: fsdp\n", "mesh": [["fsdp", 2]], "later": 1},
        "metadata": {"format": "pt"},
        "aliases": {"v": "w"},
        "extra_files": [["config.json", 3]],
        "state": {
            "root": 0,
            "nodes": [["l", 1, 2, 3, 4], ["T", "w"], ["T", "c"], ["T", "v"], ["x", 0]],
            "objects": [["objects/object-00000.pkl", 4, NONE_PICKLE_HASH]],
        },
    }
    manifests: dict[str, dict[str, object]] = {
        "good": good | {"tensors": tensors},
        "full": good | rest | {"tensors": tensors},
        "aliases": good | {"aliases": {"v": "w", "u": "c"}, "tensors": tensors},
        "container": good | {"container": "zarr", "tensors": tensors},
        "size": good | {"files": [names[0], [names[1][0], 1]], "tensors": tensors},
        "lost": good | {"tensors": [*tensors, shard("x", [2], both)]},
        "dtype": good | {"tensors": [tensors[0], tensors[1] | {"dtype": "int8"}]},
        "twice": good | {"tensors": [*tensors, shard("x", [2], both | {"key": "c"})]},
        "unnamed": good | {"tensors": tensors[:1]},
        "swapped": good | {"files": names[::-1], "tensors": tensors},
        "mesh": good | {"layout": {"mesh": [["dp", 0]]}, "tensors": tensors},
        "extra_negative": good | {"extra_files": [["a", -1]], "tensors": tensors},
    }
    seeds = {f"folder_{name}": device_folder(manifest, *files) for name, manifest in manifests.items()}
    ranks = {
        "plain": (device(0, {"version": 1}), device(1, {"version": 1})),
        "other_shape": (files[0], with_header(json.dumps({"w": entry("U8", [2, 2], 0, 4)}), b"wwww")),
        "other_dtype": (files[0], with_header(json.dumps({"c": entry("I8", [2], 0, 2)}), b"cc")),
        "one_lacks": (files[0], with_header(json.dumps({"c": entry("U8", [2], 0, 2)}), b"cc")),
        "four_bits": tuple(with_header(json.dumps({"q": entry("F4", [1, 2], 0, 1)}), b"q") for _ in (0, 1)),
        "other_rank": (files[0], with_header(json.dumps({"w": entry("U8", [4], 0, 4)}), b"wwww")),
        "dcp": (with_header(json.dumps({"__metadata__": {"DCP_SHARDING_INFO": "{}"}})), files[1]),
    }
    return seeds | {f"ranks_{name}": device_folder({}, *pair) for name, pair in ranks.items()}


class ObjectPickler(pickle.Pickler):
    """Writes "tensor w" as an object file refers to tensor w."""

    def persistent_id(self, value: object) -> object:
        return ("tensor", "w", 7, 0, (2, 1), False, True, 2) if value == "tensor w" else None


def object_pickle() -> bytes:
    stream = io.BytesIO()
    ObjectPickler(stream, 4).dump(argparse.Namespace(w="tensor w", text="a"))
    return stream.getvalue()


OBJECT_HASH = "62eeb900d2500e8ae14a2d03790aa87b"  # of object_pickle()


def state_seeds() -> dict[str, bytes]:
    """Bodies with one tensor w and a state each."""
    path = base64.b64encode(object_pickle()).decode()

    def objects(size: int, checksum: str, position: int = 0) -> dict[str, object]:
        return {"nodes": [["x", position]], "objects": [[path, size, checksum]]}

    size = len(object_pickle())
    states: dict[str, dict[str, object]] = {
        "object": objects(size, OBJECT_HASH),
        "object_size": objects(size + 1, OBJECT_HASH),
        "object_checksum": objects(size, "0" * 32),
        "object_lost": objects(size, OBJECT_HASH, 1),
        "object_absent": {"nodes": [["x", 0]], "objects": [["?", 1, ""]]},
        "map": {"nodes": [{}]},
        "tensor_lost": {"nodes": [["T", "x"]]},
        "tensor_strides": {"nodes": [["T", "w", 0, 0, [1]]]},
        "tensor_far": {"nodes": [["T", "w", 0, 1 << 62, [1, 1]]]},
        "tag": {"nodes": [["?"]]},
        "object_class": {"nodes": [["o", 1, 1, None, None, [], [], False], "a"]},
        "reference": {"nodes": [["l", 9]]},
        "root": {"nodes": []},
        "member": {"leaves": []},
        "keys": {"nodes": [["d", 1]]},
    }
    texts = {
        "surrogates": r'{"a":"\u0041\u00e9\u20ac\ud83d\ude00"}',
        "surrogate_low": r'{"a":"\ude00"}',
        "surrogate_high": r'{"a":"\ud83d"}',
        "escape": r'{"a":"\x"}',
        "hex": r'{"a":"\u00g0"}',
        "numbers": '{"a":[1e5,-2.5E-3,1e+2,0,true,false,null]}',
        "number_zero": '{"a":01}',
        "control": '{"a":"\n"}',
        "long": '{"a":"',
        "deep": "[" * 70,
        "many_keys": json.dumps({str(number): number for number in range(20)}),
        "many_keys_twice": "{" + ",".join(f'"{number % 19}":1' for number in range(20)) + "}",
    }
    tensors = [{"name": "w", "dtype": "uint8", "shape": [2, 2], "shards": [{"on": [0], "box": [[0, 0], [2, 2]]}]}]
    return {
        f"state_{name}": json.dumps(
            {"files": [["d0", 1]], "state": {"root": 0} | state, "tensors": tensors}, separators=(",", ":")
        ).encode()
        for name, state in states.items()
    } | {f"json_{name}": text.encode() for name, text in texts.items()}


def manifest_seeds() -> dict[str, bytes]:
    head = {"container": "safetensors", "files": [["d0", 10], ["d1", 10]]}
    rest = {
        "layout": {"name": "fsdp", "text": "family: fsdp\n", "mesh": [["fsdp", 2]]},
        "metadata": {"format": "pt"},
        "aliases": {"v": "w"},
        "extra_files": [["config.json", 3]],
        "state": STATE | {"objects": [["objects/object-00000.pkl", 3, "0" * 32]]},
    }
    box = {"on": [0], "box": [[0, 0], [1, 2]]}
    pieces = {"on": [0, 1], "shape": [5], "pieces": [[[1, 0], [1, 2], 1, [2, 2]]], "key": "w#1"}
    tensors = {"tensors": [{"name": "w", "dtype": "uint8", "shape": [2, 2], "shards": [box, pieces]}]}
    return state_seeds() | {
        "full": json.dumps(head | rest | tensors).encode(),
        "small": json.dumps(head | tensors, separators=(",", ":")).encode(),
        "newer": json.dumps(head | {"later": [{"x": [1]}]} | tensors).encode(),
        "no_tensors": json.dumps(head).encode(),
        "envelope": b'{"format":"tenplex.manifest","version":2,"oldest_reader":2,"length":2,"checksum":"","body":{}}',
    }


def index_seeds() -> dict[str, bytes]:
    file = "model-00001-of-00001.safetensors"
    return {
        "plain": json.dumps({"metadata": {"total_size": 4}, "weight_map": {"w": file}}, indent=2).encode(),
        "float_total": json.dumps({"metadata": {"total_size": 4.0, "x": [1]}, "weight_map": {"w": file}}).encode(),
        "absent_file": json.dumps({"weight_map": {"w": file, "v": "model-00002-of-00002.safetensors"}}).encode(),
        "absent_tensor": json.dumps({"weight_map": {"v": file}, "more": {}}).encode(),
        "outside": json.dumps({"weight_map": {"w": "../x"}}).encode(),
        "duplicate": b'{"weight_map":{"w":"a","w":"b"}}',
        "negative_total": json.dumps({"metadata": {"total_size": -1}, "weight_map": {}}).encode(),
        "no_map": json.dumps({"metadata": {"total_parameters": 4}}).encode(),
        "name": b"model-00002-of-00005.safetensors",
        "name_sign": b"model--0000-of-00001.safetensors",
        "name_letters": b"model-0000a-of-00001.safetensors",
        "name_short": b"1-of-00001.safetensors",
        "name_stem": b"-00001-of-00001.safetensors",
        "name_count": b"model-of-1.safetensors",
    }


for folder, seeds in {
    "safetensors": safetensors_seeds(),
    "manifest": manifest_seeds(),
    "hf_index": index_seeds(),
}.items():
    (CORPUS / folder).mkdir(parents=True, exist_ok=True)
    for name, content in seeds.items():
        (CORPUS / folder / name).write_bytes(content)
