# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""A layout that ties two names of a checkpoint: one is stored, both are read back, and different values are refused."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import load_file, save_file
from side_file import read_body, write_body
from torch.distributed.checkpoint.filesystem import SerializationFormat

from compare import assert_same_tensors
from makers.training import load_into_plain_tensors
from program import tenplex, tenplex_json

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


CUT = ("--layout", "fsdp", "--to", "fsdp=2")
DCP_OF_TWO = ("--format", "dcp", *CUT)
DCP_OF_THREE = ("--format", "dcp", "--layout", "fsdp", "--to", "fsdp=3")
THROUGH: dict[str, list[tuple[str, ...]]] = {
    "nothing": [],
    "hf": [("--format", "hf")],
    "safetensors": [("--format", "safetensors")],
    "folder": [("--format", "safetensors", *CUT)],
    "dcp": [("--format", "dcp")],
    "dcp of two": [DCP_OF_TWO],
    "dcp and dcp": [DCP_OF_TWO, DCP_OF_THREE],
    "dcp, dcp and hf": [DCP_OF_TWO, DCP_OF_THREE, ("--format", "hf")],
    "dcp and safetensors": [DCP_OF_TWO, ("--format", "safetensors")],
    "dcp and folder": [DCP_OF_THREE, ("--format", "safetensors", *CUT)],
}


@pytest.mark.parametrize("through", list(THROUGH))
def test_a_tie_of_an_hf_folder_lasts(through: str, tmp_path: Path, wrote_by: Callable[[str], None]) -> None:
    wrote_by("torch")
    embed = torch.arange(1 << 16, dtype=torch.float32).reshape(256, 256)
    torch.save({"embed.weight": embed, "head.weight": embed, "norm.weight": torch.ones(5)}, tmp_path / "source.pt")
    path = tmp_path / "source.pt"
    tenplex("reshard", path, tmp_path / "hf", "--format", "hf")
    path = tmp_path / "hf"
    for step, arguments in enumerate(THROUGH[through]):
        tenplex("reshard", path, tmp_path / f"through{step}", *arguments, "--verify")
        path = tmp_path / f"through{step}"
        assert stored_bytes(path) < 1.2 * embed.nbytes
        if "dcp" in arguments:
            loaded = load_into_plain_tensors(path)
            assert sorted(loaded) == ["embed.weight", "head.weight", "norm.weight"]
            assert torch.equal(loaded["embed.weight"], embed)
            assert torch.equal(loaded["head.weight"], embed)
    tenplex("reshard", path, tmp_path / "back.pt", "--format", "torch", "--verify")
    back = torch.load(tmp_path / "back.pt", weights_only=True)
    assert list(back) == ["embed.weight", "norm.weight", "head.weight"]
    assert back["head.weight"].data_ptr() == back["embed.weight"].data_ptr()
    assert back["norm.weight"].data_ptr() != back["embed.weight"].data_ptr()
    assert torch.equal(back["head.weight"], embed)


def tied_dcp(folder: Path) -> Path:
    """embed.weight [6, 4] = 0 … 23 in two rows of three, head.weight is the same one; written through hf."""
    embed = torch.arange(24, dtype=torch.float32).reshape(6, 4)
    torch.save({"embed.weight": embed, "head.weight": embed}, folder / "tied.pt")
    tenplex("reshard", folder / "tied.pt", folder / "tied-hf", "--format", "hf")
    tenplex("reshard", folder / "tied-hf", folder / "tied", *DCP_OF_TWO)
    return folder / "tied"


@pytest.mark.parametrize("payload", list(SerializationFormat))
def test_a_folder_that_torch_wrote_anew_has_no_tie(
    payload: SerializationFormat, tmp_path: Path, wrote_by: Callable[[str], None]
) -> None:
    wrote_by("torch")
    folder = tied_dcp(tmp_path)
    assert tenplex_json("inspect", folder)["problems"] == []
    state = {"embed.weight": torch.full((6, 4), 1.0), "head.weight": torch.full((6, 4), 2.0)}
    dcp.save(state, storage_writer=dcp.FileSystemWriter(folder, serialization_format=payload), no_dist=True)
    assert (folder / "tenplex.json").exists()
    problems = [text for text in tenplex_json("inspect", folder)["problems"] if "no part of" not in text]
    assert problems == ["tenplex.json is passed over: it belongs to another .metadata than the one beside it"]
    tenplex("reshard", folder, tmp_path / "back.pt", "--format", "torch", "--verify")
    back = torch.load(tmp_path / "back.pt", weights_only=True)
    assert_same_tensors(state, back)
    assert back["head.weight"].data_ptr() != back["embed.weight"].data_ptr()


OTHER_FOLDERS: dict[str, tuple[dict[str, torch.Tensor], str]] = {
    "no alias": ({"embed.weight": torch.ones(6, 4)}, "there is no tensor 'head.weight'"),
    "no stored tensor": ({"head.weight": torch.ones(6, 4)}, "there is no tensor 'embed.weight'"),
    "neither": ({"w": torch.ones(6, 4)}, "there is no tensor 'head.weight'"),
    "another shape": ({"embed.weight": torch.ones(6, 4), "head.weight": torch.ones(4, 6)}, "bytes of its own"),
    "another type": (
        {"embed.weight": torch.ones(6, 4), "head.weight": torch.ones(6, 4, dtype=torch.int32)},
        "bytes of its own",
    ),
    "no elements": ({"embed.weight": torch.ones(0, 4), "head.weight": torch.ones(0, 4)}, "bytes of its own"),
}


@pytest.mark.parametrize("other", list(OTHER_FOLDERS))
def test_ties_of_another_folder_are_passed_over(other: str, tmp_path: Path, wrote_by: Callable[[str], None]) -> None:
    wrote_by("torch")
    state, problem = OTHER_FOLDERS[other]
    dcp.save(state, checkpoint_id=tmp_path / "in", no_dist=True)
    write_body(tmp_path / "in", read_body(tied_dcp(tmp_path)))
    (found,) = tenplex_json("inspect", tmp_path / "in")["problems"]
    assert problem in found
    for target in ("back.pt", "back"):
        target_format = "torch" if target == "back.pt" else "dcp"
        tenplex("reshard", tmp_path / "in", tmp_path / target, "--format", target_format, "--verify")
    assert_same_tensors(state, torch.load(tmp_path / "back.pt", weights_only=True))
    assert_same_tensors(state, load_into_plain_tensors(tmp_path / "back"))


def test_names_that_are_cut_differently_are_two_tensors_in_dcp(tmp_path: Path) -> None:
    embed = torch.arange(24, dtype=torch.float32).reshape(6, 4)
    torch.save({"embed.weight": embed, "head.weight": embed}, tmp_path / "source.pt")
    tenplex("reshard", tmp_path / "source.pt", tmp_path / "hf", "--format", "hf")
    layout = tmp_path / "apart.yaml"
    layout.write_text(
        "family: apart\nmeshes: {dense: [tp]}\ntensors:\n"
        "  - {match: embed.weight, slice: [{dim: 0, by: tp}]}\n"
        "  - {match: head.weight, slice: [{dim: 1, by: tp}]}\n"
    )
    arguments = ("--format", "dcp", "--layout", layout, "--to", "tp=2", "--verify")
    tenplex("reshard", tmp_path / "hf", tmp_path / "dcp", *arguments)
    assert tenplex_json("inspect", tmp_path / "dcp")["problems"] == []
    entries = dcp.FileSystemReader(tmp_path / "dcp").read_metadata().state_dict_metadata
    assert [list(chunk.sizes) for chunk in entries["embed.weight"].chunks] == [[3, 4], [3, 4]]
    assert [list(chunk.sizes) for chunk in entries["head.weight"].chunks] == [[6, 2], [6, 2]]
    tenplex("reshard", tmp_path / "dcp", tmp_path / "back.pt", "--format", "torch", "--verify")
    back = torch.load(tmp_path / "back.pt", weights_only=True)
    assert_same_tensors({"embed.weight": embed, "head.weight": embed}, back)
    assert back["head.weight"].data_ptr() != back["embed.weight"].data_ptr()


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
    assert "head.weight" in run.reason
    assert "embed.weight" in run.reason
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


class Holder:
    """An object that holds a dict of the tree."""

    def __init__(self, **members: object) -> None:
        self.__dict__.update(members)


STALE: dict[str, tuple[Callable[[dict[str, torch.Tensor]], Any], Callable[[torch.Tensor], Any]]] = {
    "two names of a dict": (lambda d: {"d": d, "e": d}, lambda t: {"d": {"w": t * 2}, "e": {"w": t * 3}}),
    "a dict in an object": (
        lambda d: {"d": d, "e": Holder(**d, inner=d)},
        lambda t: {"d": {"w": t * 2}, "e": Holder(w=t * 3, inner={"w": t * 3})},
    ),
    "a number": (lambda d: {"d": d, "e": d, "step": 1}, lambda t: {"d": {"w": t * 2}, "e": {"w": t * 3}, "step": 2}),
}


@pytest.mark.parametrize("case", list(STALE))
@pytest.mark.parametrize("target", ["torch", "dcp"])
def test_what_torch_saves_into_the_folder_later_counts(
    case: str, target: str, tmp_path: Path, wrote_by: Callable[[str], None]
) -> None:
    """A second save leaves tenplex.json as it was; what that says of the first one is not true any more."""
    wrote_by("torch")
    before, after = STALE[case]
    base = torch.arange(4.0)
    torch.save(before({"w": base}), tmp_path / "in.pt")
    tenplex("reshard", tmp_path / "in.pt", tmp_path / "folder", "--format", "dcp")
    dcp.save(after(base), checkpoint_id=tmp_path / "folder", no_dist=True)
    tenplex("reshard", tmp_path / "folder", tmp_path / "again", "--format", target, "--verify")
    if target == "dcp":
        tenplex("reshard", tmp_path / "again", tmp_path / "back", "--format", "torch")
    back = torch.load(tmp_path / ("back" if target == "dcp" else "again"), weights_only=False)
    assert torch.equal(back["d"]["w"], base * 2)
    e = back["e"]
    assert torch.equal(e["w"] if isinstance(e, dict) else e.w, base * 3)
    if isinstance(e, Holder):
        assert torch.equal(e.inner["w"], base * 3)  # type: ignore[attr-defined]
    assert back.get("step", 2) == 2
