# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""Packs DCP folders into seeds for dcp_fuzz: python make_dcp_seeds.py [FOLDER ...]

Without arguments it takes the folders of tests/golden/v1/dcp. The layout of a seed is described in dcp_fuzz.cc.
"""

import struct
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
GOLDEN = HERE.parent / "tests" / "golden" / "v1" / "dcp"


def pack(folder: Path) -> bytes:
    def read(name: str) -> bytes:
        path = folder / name
        return path.read_bytes() if path.exists() else b""

    first = [read(".metadata"), read("__0_0.distcp"), read("tenplex.json")]
    return struct.pack("<3H", *map(len, first)) + b"".join(first) + read("__1_0.distcp")


def main() -> None:
    corpus = HERE / "corpus" / "dcp"
    corpus.mkdir(parents=True, exist_ok=True)
    folders = [Path(name) for name in sys.argv[1:]] or [path.parent for path in GOLDEN.glob("*/.metadata")]
    for folder in sorted(folders):
        (corpus / folder.name).write_bytes(pack(folder))


if __name__ == "__main__":
    main()
