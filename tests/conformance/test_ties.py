# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""A layout that ties two names of a checkpoint: one is stored, both are read back, and different values are refused."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import load_file, save_file

from compare import assert_same_tensors
from program import tenplex

LAYOUT = """family: tied
meshes: {dense: [tp]}
tied: [{alias: head.weight, to: embed.weight}]
tensors:
  - match: "*.weight"
    slice: [{dim: 0, by: tp}]
"""


def model() -> dict[str, torch.Tensor]:
    embed = torch.arange(24, dtype=torch.float32).reshape(6, 4)
    return {"embed.weight": embed, "head.weight": embed.clone(), "norm.weight": torch.ones(5)}


@pytest.fixture
def layout(tmp_path: Path) -> Path:
    path = tmp_path / "tied.yaml"
    path.write_text(LAYOUT)
    return path


def stored_bytes(path: Path) -> int:
    return sum(file.stat().st_size for file in ([path] if path.is_file() else path.rglob("*")) if file.is_file())


@pytest.mark.parametrize("source_format", ["safetensors", "torch", "dcp"])
@pytest.mark.parametrize("target_format", ["safetensors", "torch", "dcp", "hf"])
def test_both_names_are_read_back(
    source_format: str, target_format: str, tmp_path: Path, layout: Path, wrote_by: Callable[[str], None]
) -> None:
    source = tmp_path / ("source.pt" if source_format == "torch" else "source")
    if source_format == "safetensors":
        wrote_by("safetensors")
        save_file(model(), source, metadata={"format": "pt"})
    else:
        wrote_by("torch")
        if source_format == "torch":
            torch.save(model(), source)
        else:
            dcp.save(model(), checkpoint_id=source, no_dist=True)
    target = tmp_path / ("target.pt" if target_format == "torch" else "target")
    tenplex("reshard", source, target, "--format", target_format, "--layout", layout, "--verify")
    if target_format == "torch":
        loaded = torch.load(target, weights_only=True)
        assert loaded["head.weight"].data_ptr() == loaded["embed.weight"].data_ptr()
        assert loaded["norm.weight"].data_ptr() != loaded["embed.weight"].data_ptr()
    elif target_format == "dcp":
        loaded = {name: torch.zeros_like(tensor) for name, tensor in model().items()}
        dcp.load(loaded, checkpoint_id=target, no_dist=True)
    else:
        back = tmp_path / "back.pt"
        tenplex("reshard", target, back, "--format", "torch")
        loaded = torch.load(back, weights_only=True)
    assert_same_tensors(model(), loaded)


@pytest.mark.parametrize("through", ["", "hf", "safetensors", "folder"])
def test_a_tie_of_an_hf_folder_lasts(through: str, tmp_path: Path, wrote_by: Callable[[str], None]) -> None:
    wrote_by("torch")
    embed = torch.arange(1 << 16, dtype=torch.float32).reshape(256, 256)
    torch.save({"embed.weight": embed, "head.weight": embed, "norm.weight": torch.ones(5)}, tmp_path / "source.pt")
    path = tmp_path / "source.pt"
    tenplex("reshard", path, tmp_path / "hf", "--format", "hf")
    path = tmp_path / "hf"
    if through:
        cut = ("--layout", "fsdp", "--to", "fsdp=2") if through == "folder" else ()
        target_format = "safetensors" if through == "folder" else through
        tenplex("reshard", path, tmp_path / "through", "--format", target_format, *cut, "--verify")
        path = tmp_path / "through"
    assert stored_bytes(path) < 1.2 * embed.nbytes
    tenplex("reshard", path, tmp_path / "back.pt", "--format", "torch", "--verify")
    back = torch.load(tmp_path / "back.pt", weights_only=True)
    assert list(back) == ["embed.weight", "norm.weight", "head.weight"]
    assert back["head.weight"].data_ptr() == back["embed.weight"].data_ptr()
    assert back["norm.weight"].data_ptr() != back["embed.weight"].data_ptr()
    assert torch.equal(back["head.weight"], embed)


def test_a_tied_pair_is_stored_once(tmp_path: Path, layout: Path) -> None:
    big = torch.arange(1 << 16, dtype=torch.float32).reshape(256, 256)
    save_file({"embed.weight": big, "head.weight": big.clone()}, tmp_path / "source")
    for target_format in ("safetensors", "torch", "dcp", "hf"):
        target = tmp_path / f"target-{target_format}"
        tenplex("reshard", tmp_path / "source", target, "--format", target_format, "--layout", layout)
        assert stored_bytes(target) < 1.2 * big.nbytes, target_format


@pytest.mark.parametrize("target_format", ["safetensors", "torch", "dcp", "hf"])
def test_different_values_are_refused(target_format: str, tmp_path: Path, layout: Path) -> None:
    tensors = model()
    tensors["head.weight"][3, 1] = -1.0
    save_file(tensors, tmp_path / "source")
    run = tenplex(
        "reshard", tmp_path / "source", tmp_path / "target", "--format", target_format, "--layout", layout, exit_code=1
    )
    assert "head.weight" in run.err
    assert "embed.weight" in run.err
    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize("parts", [1, 2])
def test_different_values_are_refused_beside_an_object(parts: int, tmp_path: Path, layout: Path) -> None:
    """The object has the tied tensor whole, so its bytes are in the target; its name leads to the other's."""
    embed = torch.arange(24.0).reshape(6, 4)
    for name, last in (("equal", 23.0), ("other", -1.0)):
        head = {"weight": embed.clone()}
        head["weight"][5, 3] = last
        torch.save({"embed": {"weight": embed}, "head": head, "n": argparse.Namespace(h=head)}, tmp_path / f"{name}.pt")
    arguments = ("--format", "dcp", "--layout", layout, "--to", f"tp={parts}")
    tenplex("reshard", tmp_path / "equal.pt", tmp_path / "target", *arguments, "--verify")
    run = tenplex("reshard", tmp_path / "other.pt", tmp_path / "refused", *arguments, exit_code=1)
    assert "'embed.weight' and 'head.weight' are said to be one and hold different values" in run.err
    assert not (tmp_path / "refused").exists()


def test_a_cut_pair_is_joined_again(tmp_path: Path, layout: Path) -> None:
    save_file(model(), tmp_path / "source")
    cut, back = tmp_path / "cut", tmp_path / "back"
    tenplex("reshard", tmp_path / "source", cut, "--format", "safetensors", "--layout", layout, "--to", "tp=3")
    tenplex("reshard", cut, back, "--format", "hf", "--layout", layout, "--verify")
    loaded: dict[str, torch.Tensor] = {}
    for file in sorted(back.glob("*.safetensors")):
        loaded |= load_file(file)
    for name in ("embed.weight", "norm.weight"):
        assert torch.equal(loaded[name], model()[name])
