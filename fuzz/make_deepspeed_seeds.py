# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of deepspeed_fuzz with torch and DeepSpeed's classes: python make_deepspeed_seeds.py"""

import io
import sys
import zipfile
from pathlib import Path
from typing import Any

import torch

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests"))

from hostile import test_bad_deepspeed as bad  # noqa: E402

from makers import deepspeed_files as files  # noqa: E402


def pickle_of(content: Any) -> bytes:
    stream = io.BytesIO()
    torch.save(content, stream)
    with zipfile.ZipFile(stream) as archive:
        return archive.read("archive/data.pkl")


def pack(made: dict[str, Any], universal: bool = False) -> bytes:
    packed = b""
    texts = {"latest_universal" if universal else "latest": files.TAG.encode()}
    pickles = {f"{files.TAG}/{name}": pickle_of(content) for name, content in made.items()}
    for name, content in {**texts, **pickles}.items():
        packed += name.encode() + b"\n" + len(content).to_bytes(2, "little") + content
    return packed


def seeds() -> dict[str, bytes]:
    made = {f"zero{stage}": pack(files.zero_files(stage)) for stage in (1, 2, 3)}
    made["zero3_of_1"] = pack(files.zero_files(3, 1))
    made["universal"] = pack(files.universal_files(), True)
    made["no_pointer"] = b"latest\n\0\0"
    for table, stages in ((bad.ZERO, (1, 3)), (bad.STAGE_1, (1,)), (bad.STAGE_3, (3,))):
        for case, (change, _) in table.items():
            for stage in stages:
                content = files.zero_files(stage)
                change(content)
                made[f"zero{stage} {case}"] = pack(content)
    for case, (change, _) in bad.UNIVERSAL.items():
        content = files.universal_files()
        change(content)
        made[f"universal {case}"] = pack(content, True)
    return {name.replace(" ", "_").replace("'", "").replace("^", ""): content for name, content in made.items()}


def main() -> None:
    corpus = HERE / "corpus" / "deepspeed"
    corpus.mkdir(parents=True, exist_ok=True)
    for name, content in seeds().items():
        (corpus / name).write_bytes(content)


if __name__ == "__main__":
    main()
