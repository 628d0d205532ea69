# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""Hand-written pickles that ask a reader to crash, hang, recurse or allocate, and torch zips that carry them."""

from __future__ import annotations

import pickle
import struct
from pathlib import Path

import torch

FOUR_FLOATS = struct.pack("<4f", 1, 2, 3, 4)


def text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def integer(value: int) -> bytes:
    return pickle.dumps(value, protocol=2)[2:-1]


def integers(values: tuple[int, ...]) -> bytes:
    return b"(" + b"".join(map(integer, values)) + b"t"


def storage(key: str = "0", count: int = 4, kind: str = "FloatStorage") -> bytes:
    return (
        b"(" + text("storage") + b"ctorch\n" + kind.encode() + b"\n" + text(key) + text("cpu") + integer(count) + b"tQ"
    )


def tensor(
    shape: tuple[int, ...] = (4,), strides: tuple[int, ...] = (1,), offset: int = 0, stored: bytes | None = None
) -> bytes:
    stored = storage() if stored is None else stored
    return (
        b"ctorch._utils\n_rebuild_tensor_v2\n("
        + stored
        + integer(offset)
        + integers(shape)
        + integers(strides)
        + b"\x89ccollections\nOrderedDict\n)RtR"
    )


def program(body: bytes) -> bytes:
    return b"\x80\x02" + body + b"."


def named(value: bytes) -> bytes:
    """{"w": value}"""
    return b"}" + text("w") + value + b"s"


def write_zip(path: Path, pickled: bytes, data: bytes | None = FOUR_FLOATS) -> Path:
    """By torch's own zip writer, so that only the pickle is odd."""
    writer = torch.PyTorchFileWriter(str(path))
    writer.write_record("data.pkl", pickled, len(pickled))
    if data is not None:
        writer.write_record("data/0", data, len(data))
    writer.write_end_of_file()
    return path


def nested(opcode: bytes, close: bytes, depth: int) -> bytes:
    return opcode * depth + close * depth


def laughs(levels: int, dictionaries: bool) -> bytes:
    """10^levels leaves in a few bytes: each level holds the one below ten times."""
    body = tensor() + b"q\x00"
    for level in range(levels):
        if dictionaries:
            items = b"".join(text(f"k{i}") + b"h" + bytes([level]) for i in range(10))
            body += b"0}(" + items + b"u" + b"q" + bytes([level + 1])
        else:
            body += b"0](" + (b"h" + bytes([level])) * 10 + b"e" + b"q" + bytes([level + 1])
    return named(body)


BOMBS: dict[str, bytes] = {
    "nothing": b"",
    "no STOP": b"\x80\x02" + named(tensor()),
    "STOP on an empty stack": program(b""),
    "protocol 99": b"\x80\x63N.",
    "opcode that there is not": program(named(b"\xf0")),
    "stack underflow": program(b"s"),
    "no MARK": program(b"e"),
    "memo entry that there is not": program(named(b"h\x07")),
    "memo index 2^32 - 1": program(named(tensor() + b"r\xff\xff\xff\xff" + b"j\xfe\xff\xff\xff")),
    "text of 4 GB": program(b"X\xff\xff\xff\xff"),
    "text of 2^63 bytes": program(b"\x8d" + b"\xff" * 7 + b"\x7f"),
    "bytes of 2^64 - 1": program(b"\x8e" + b"\xff" * 8),
    "byte array of 2^62": program(b"\x96" + b"\x00" * 7 + b"\x40"),
    "integer of 2 GB": program(b"\x8b\xff\xff\xff\x7f"),
    "integer of negative length": program(b"\x8b\xff\xff\xff\xff"),
    "frame past the end": b"\x80\x04\x95" + b"\xff" * 7 + b"\x7f" + b"}.",
    "list in a list, a million deep": program(named(b"]" * 1_000_000 + b"a" * 999_999)),
    "tuple in a tuple, a million deep": program(named(b")" + b"\x85" * 1_000_000)),
    "a million marks": program(b"(" * 1_000_000),
    "list that holds itself": program(named(b"]q\x01(h\x01" + tensor() + b"e")),
    "dict that holds itself": program(b"}q\x01" + text("self") + b"h\x01s"),
    "dicts of 10^12 leaves": program(laughs(12, True)),
    "lists of 10^12 leaves": program(laughs(12, False)),
    "state that is its own object": program(
        named(b"cargparse\nNamespace\n)\x81q\x01}" + text("me") + b"h\x01sb" + tensor() + b"0")
    ),
    "storage key with ..": program(named(tensor(stored=storage(key="../../x")))),
    "storage that there is not": program(named(tensor(stored=storage(key="7")))),
    "storage longer than its record": program(named(tensor((5,), stored=storage(count=5)))),
    "storage of 2^62 elements": program(named(tensor((1 << 62,), stored=storage(count=1 << 62)))),
    "storage of negative size": program(named(tensor(stored=storage(count=-4)))),
    "storage class that there is not": program(named(tensor(stored=storage(kind="QuantumStorage")))),
    "view past its storage": program(named(tensor((4,), (2,)))),
    "view before its storage": program(named(tensor((2,), (1,), -1))),
    "negative stride": program(named(tensor((4,), (-1,), 3))),
    "stride of 2^62": program(named(tensor((4, 4), (1 << 62, 1)))),
    "offset of 2^62": program(named(tensor((1,), (1,), 1 << 62))),
    "negative extent": program(named(tensor((-4,), (1,)))),
    "strides of another rank": program(named(tensor((2, 2), (1,)))),
    "10^18 elements over one": program(named(tensor((10**9, 10**9), (0, 0)))),
    "2^64 elements over one": program(named(tensor((1 << 32, 1 << 32), (0, 0)))),
    "rank 9": program(named(tensor((1,) * 9, (1,) * 9))),
    "tensor of three arguments": program(
        named(b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage() + integer(0) + b"tR")
    ),
    "one storage as two types": program(
        b"}(" + text("a") + tensor() + text("b") + tensor((2,), stored=storage(count=2, kind="DoubleStorage")) + b"u"
    ),
    "one storage with two sizes": program(
        b"}(" + text("a") + tensor() + text("b") + tensor(stored=storage(count=400)) + b"u"
    ),
    "two leaves of one name": program(
        b"}(" + text("a.b") + tensor() + text("a") + b"}" + text("b") + tensor() + b"s" + b"u"
    ),
}

# Odd, but a reader may make sense of them; they must only stay within the limits.
READ_OR_REFUSED = {
    "one storage as two types",  # torch itself reads the second as bytes of the first
    "state that is its own object",  # legal, and no tensor is in it
    "10^18 elements over one",  # legal for torch
    "list in a list, a million deep",
    "tuple in a tuple, a million deep",
}
