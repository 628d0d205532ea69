# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of pickle_fuzz and torch_fuzz with Python's pickle and torch: python make_torch_seeds.py"""

import argparse
import collections
import io
import pathlib
import pickle
import pickletools
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
    seeds["persistent"] = b"\x80\x02X\x01\x00\x00\x00kQPline\n\x86."
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
    for target, seeds in (("pickle", pickle_seeds()), ("torch", torch_seeds())):
        folder = corpus / target
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in seeds.items():
            (folder / name).write_bytes(content)


if __name__ == "__main__":
    main()
