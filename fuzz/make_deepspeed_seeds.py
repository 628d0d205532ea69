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
from hostile import test_bad_deepspeed_experts as bad_experts  # noqa: E402
from hostile import test_bad_deepspeed_pipeline as bad_pipeline  # noqa: E402
from hostile import test_bad_deepspeed_tensor_parallel as bad_tensor  # noqa: E402

from makers import deepspeed_expert_files as experts  # noqa: E402
from makers import deepspeed_files as files  # noqa: E402
from makers import deepspeed_pipeline_files as pipeline  # noqa: E402
from makers import deepspeed_tensor_files as tensor  # noqa: E402


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
    made["tensor"] = pack(tensor.zero_files())
    made["experts"] = pack(experts.zero_files())
    made["pipeline"] = pack(pipeline.zero_files())
    tables = [("tensor", tensor, bad_tensor.CASES), ("experts", experts, bad_experts.CASES)]
    for kind, maker, table in (*tables, ("pipeline", pipeline, bad_pipeline.CASES)):
        for case, (change, _) in table.items():
            content = maker.zero_files()
            change(content)
            made[f"{kind} {case}"] = pack(content)
    patterns = [r"^[^.a-c]+\.(?:w|[]\d\-_])?$|w{2,3}?\Z|\A\D\S\W", "w*.+x{2,}", "[w-z]"]
    for number, pattern in enumerate(patterns):
        content = tensor.zero_files()
        bad_tensor.rule(parameter_with_row_parallelism_patterns=["w", pattern])(content)
        made[f"tensor pattern {number}"] = pack(content)
    older = tensor.zero_files()
    shape = [
        {"patterns": ["g"], "shape": (2,), "partition_dim": 0},
        {"patterns": ["q"], "shape": (5, -1), "partition_dim": 0},
    ]
    bad_tensor.rule(
        universal_checkpoint_version=0.2, parameter_with_2_sub_params_cat_dim_0=[], parameter_with_sub_params=shape
    )(older)
    made["tensor older"] = pack(older)
    return {name.replace(" ", "_").replace("'", "").replace("^", ""): content for name, content in made.items()}


def main() -> None:
    corpus = HERE / "corpus" / "deepspeed"
    corpus.mkdir(parents=True, exist_ok=True)
    for name, content in seeds().items():
        (corpus / name).write_bytes(content)


if __name__ == "__main__":
    main()
