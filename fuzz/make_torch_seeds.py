# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of pickle_fuzz and torch_fuzz with Python's pickle and torch: python make_torch_seeds.py"""

import argparse
import collections
import io
import json
import pathlib
import pickle
import pickletools
import struct
import zipfile

import torch


def pickle_seeds() -> dict[str, bytes]:
    shared = [1, 2]
    cycle: list = []
    cycle.append((cycle, {"me": cycle}))
    values = {
        "numbers": [0, 255, 256, 65536, -1, 2**31, -(2**63), 2**63, 2**2100, 1.5, True, False, None],
        "text": ["a", "é\ud800", "x" * 300, b"", b"\x00\xff", b"z" * 300, bytearray(b"q")],
        "containers": [
            [],
            (),
            {},
            (1,),
            (1, 2),
            (1, 2, 3),
            (1, 2, 3, 4),
            {"k": [shared, shared]},
            {1, 2},
            frozenset({3}),
        ],
        "objects": [
            argparse.Namespace(a=1, b=[2]),
            collections.OrderedDict(a=1),
            collections.defaultdict(list, {"a": [1]}),
            torch.Size([1, 2]),
            torch.float32,
            collections.deque([1, 2], 3),
        ],
        "cycle": cycle,
        "batch": list(range(1001)),
    }
    seeds = {
        f"{name}_{protocol}": pickle.dumps(value, protocol) for name, value in values.items() for protocol in range(6)
    }
    seeds["optimized"] = pickletools.optimize(seeds["objects_4"])
    seeds["opcodes"] = (
        b"\x80\x02(I5\nL-7L\nI01\nF2.5\nS'a\\x41\\n'\nVu\\u0041\nU\x01bT\x01\x00\x00\x00cN20(N1]Na(lp9\n0g9\nt."
    )
    seeds["newobj_ex"] = b"\x80\x04\x8c\x01m\x8c\x01C\x93)}\x8c\x01kK\x01s\x92}b."
    seeds["hooked"] = (
        b"\x80\x04]\x94(\x8c\x01m\x94\x8c\x01C\x94\x93\x94)\x81\x94}\x94\x8c\x01x\x94]\x94K\x05asbh\x03)\x81\x94}\x94h\x06]\x94K\x06asbh\x04e."
    )
    seeds["tensors"] = (
        b"\x80\x02](" + b"".join(b"cm\nC\n)\x81}X\x01\x00\x00\x00x" + bytes([75, i]) + b"sb" for i in range(8)) + b"e."
    )
    seeds["behind_long_texts"] = b"\xff" + pickle.dumps([1, "a", b"b"], 4)
    seeds["behind_long_texts_cut"] = b"\xff" + b"X\x00\x00\x10\x00"
    seeds["behind_long_texts_line"] = b"\xff" + b"V" + b"l" * 10
    seeds["persistent"] = b"\x80\x02X\x01\x00\x00\x00kQPline\n\x86."
    return seeds


def zip_seeds() -> dict[str, bytes]:
    """A zip of two entries with one number of its directory changed each."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name in ("a/data.pkl", "a/data.pkm"):
            archive.writestr(zipfile.ZipInfo(name), b"\x80\x02N.")
    good = stream.getvalue()
    first = good.index(b"PK\x01\x02")
    second = good.index(b"PK\x01\x02", first + 1)
    end = good.index(b"PK\x05\x06")
    lies: dict[str, tuple[int, str, int | bytes]] = {
        "split": (end + 4, "<H", 1),
        "directory_far": (end + 16, "<I", 1 << 30),
        "entries": (end + 8, "<I", 0x00090009),
        "encrypted": (first + 8, "<H", 1),
        "far": (first + 42, "<I", 1 << 30),
        "sizes": (first + 24, "<I", 5),
        "absolute": (first + 46, "<c", b"/"),
        "twice": (second + 46, "<10s", b"a/data.pkl"),
        "overlap": (first + 20, "<Q", 50 << 32 | 50),
        "other_name": (first + 46, "<c", b"b"),
        "wrong_crc": (first + 16, "<I", 1),
        "local_name_long": (26, "<H", 200),
    }
    seeds = {}
    for name, (position, form, value) in lies.items():
        content = bytearray(good)
        struct.pack_into(form, content, position, value)
        seeds[f"zip_{name}"] = bytes(content)
    wide = bytearray(good)
    extra = struct.pack("<HHQQ", 1, 16, 4, 4)
    struct.pack_into("<II", wide, second + 20, 0xFFFFFFFF, 0xFFFFFFFF)
    struct.pack_into("<H", wide, second + 30, len(extra))
    struct.pack_into("<I", wide, end + 12, end - first + len(extra))
    seeds["zip_wide"] = bytes(wide[:end] + extra + wide[end:])
    wide[second + 30] = 4
    struct.pack_into("<I", wide, end + 12, end - first + 4)
    seeds["zip_wide_short"] = bytes(wide[:end] + struct.pack("<HH", 1, 0) + wide[end:])
    seeds["zip_wide_cut"] = bytes(wide[:end] + struct.pack("<HH", 1, 9) + wide[end:])
    return seeds


def torch_seeds() -> dict[str, bytes]:
    matrix = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    parameter = torch.nn.Parameter(torch.ones(2))
    values = {
        "views": {"w": matrix, "t": matrix.t(), "part": matrix[1:, :2], "same": matrix, "e": torch.zeros(0, 3)},
        "types": [
            torch.tensor([1.0]).to(t) for t in (torch.bfloat16, torch.float8_e4m3fn, torch.complex64, torch.bool)
        ],
        "objects": {"p": parameter, "a": argparse.Namespace(x=torch.tensor(3)), "s": torch.ones(2).untyped_storage()},
        "sparse": {"s": torch.eye(2).to_sparse()},
        "conj": torch.ones(1, dtype=torch.complex64).conj(),
        "uint16": torch.zeros(1, dtype=torch.uint8).view(torch.uint8).to(torch.uint16),
    }
    seeds = {}
    for name, value in values.items():
        stream = io.BytesIO()
        torch.save(value, stream)
        seeds[name + "_file"] = stream.getvalue()
        seeds[name + "_pickle"] = zipfile.ZipFile(stream).read("archive/data.pkl")
    metadata = {"version": 1, "oldest_reader": 1, "metadata": {"format": "pt", "by": "somebody"}}
    for name, side in {
        "plain": metadata,
        "later": metadata | {"later": [1]},
        "newer": metadata | {"oldest_reader": 2},
        "wrong": metadata | {"metadata": []},
        "none": metadata | {"metadata": {"format": "pt", "DCP_VERSION": "1.0"}},
    }.items():
        seeds[f"side_{name}"] = json.dumps(side).encode()
    seeds["side_cut"] = b'{"version":1'
    stream = io.BytesIO()
    torch.save({"a": torch.ones(1)}, stream, _use_new_zipfile_serialization=False)
    seeds["legacy"] = stream.getvalue()
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/data.pkl", b"\x80\x02N.")
        archive.writestr("a/constants.pkl", b"\x80\x02N.")
    seeds["script"] = stream.getvalue()
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("a/data.pkl", b"\x80\x02N.")
        archive.writestr("a/byteorder", b"big")
        archive.comment = b"comment"
    seeds["big"] = stream.getvalue()
    return seeds


def main() -> None:
    corpus = pathlib.Path(__file__).parent / "corpus"
    for target, seeds in (("pickle", pickle_seeds()), ("torch", torch_seeds() | zip_seeds())):
        folder = corpus / target
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in seeds.items():
            (folder / name).write_bytes(content)


if __name__ == "__main__":
    main()
