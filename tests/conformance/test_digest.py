# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""`tenplex digest` against two other implementations: the one printed in docs/formats/digest.md and one in numpy."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from compare import raw_bytes
from logical_digest import digest
from makers import torch_file
from program import ROOT, tenplex, tenplex_json


def digests(path: Path) -> dict[str, str]:
    return dict(tenplex_json("digest", path)["tensors"])


@pytest.fixture(scope="module")
def documented() -> Callable[..., str]:
    """The function that the page prints, run together with the assertions below it."""
    code = "\n".join(re.findall(r"```python\n(.*?)```", (ROOT / "docs/formats/digest.md").read_text(), re.DOTALL))
    names: dict[str, Any] = {}
    exec(compile(code, "docs/formats/digest.md", "exec"), names)
    return names["digest"]


def test_every_dtype_and_view(documented: Callable[..., str], tmp_path: Path, wrote_by: Callable[[str], None]) -> None:
    wrote_by("torch")
    tensors = torch_file.every_dtype() | torch_file.views()
    tensors["long"] = torch_file.random_bits((3, 1000, 7), torch.bfloat16, 9)
    found = digests(torch_file.save(tensors, tmp_path / "in.pt"))
    assert sorted(found) == sorted(tensors)
    for name, tensor in tensors.items():
        dtype = str(tensor.dtype).removeprefix("torch.")
        assert found[name] == documented(dtype, list(tensor.shape), raw_bytes(tensor)), name
        assert found[name] == digest(tensor), name


def test_digests_do_not_depend_on_the_cut(
    models: Callable[[str], Path], tmp_path: Path, wrote_by: Callable[[str], None]
) -> None:
    wrote_by("transformers")
    source = models("qwen2")
    expected = digests(source)
    for index, (layout, sizes, kind) in enumerate(
        [("hf-llama", "tp=4", "dcp"), ("fsdp", "fsdp=3", "safetensors"), ("fsdp", "fsdp=7", "dcp")]
    ):
        target = tmp_path / str(index)
        tenplex("reshard", source, target, "--layout", layout, "--to", sizes, "--format", kind)
        assert digests(target) == expected
    file = next(source.glob("*.safetensors"))
    for name, tensor in load_file(file).items():
        assert expected[name] == digest(tensor)


def changed(tensor: torch.Tensor, change: Callable[[torch.Tensor], None]) -> torch.Tensor:
    other = tensor.clone()
    change(other)
    return other


def flip_two_signs(tensor: torch.Tensor) -> None:
    tensor[10] = -tensor[10]
    tensor[500] = -tensor[500]


def exchange_two(tensor: torch.Tensor) -> None:
    tensor[[3, 700]] = tensor[[700, 3]]


def swap_opposites(tensor: torch.Tensor) -> None:
    tensor[[20, 21]] = tensor[[21, 20]]


def negate_zero(tensor: torch.Tensor) -> None:
    tensor[0] = -0.0


def change_nan_payload(tensor: torch.Tensor) -> None:
    tensor.view(torch.int64 if tensor.element_size() == 8 else torch.int32)[1] += 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_small_changes_are_seen(dtype: torch.dtype, tmp_path: Path, wrote_by: Callable[[str], None]) -> None:
    wrote_by("safetensors")
    tensor = torch.arange(1500, dtype=dtype)
    tensor[1] = float("nan")
    tensor[20], tensor[21] = 3.25, -3.25
    tensors = {"original": tensor}
    for change in (flip_two_signs, exchange_two, swap_opposites, negate_zero, change_nan_payload):
        tensors[change.__name__] = changed(tensor, change)
    save_file(tensors, tmp_path / "in.safetensors")
    found = digests(tmp_path / "in.safetensors")
    assert len(set(found.values())) == len(tensors)
