# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""Megatron-Core distributed checkpoints that the library itself saved: read, re-cut, loaded by it in other grids."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from compare import assert_same_tensor, assert_same_tree
from makers import megatron_dist
from makers.megatron_dist import Grid, expected
from program import tenplex, tenplex_json
from stored_megatron import boxes_of, common_of, sizes_of, stored, sums_of, whole

LAYOUT = Path(__file__).parents[1] / "layouts/megatron-small.yaml"
BACK = {"dense": "tp=2,dp=2,pp=2,etp=2,edp=2", "experts": "tp=2,dp=2,etp=2,ep=2"}

FILES_OF_THE_NEWEST = [".metadata", "integrity.json", "metadata.json"]

Saved = Callable[[str], Path]


@pytest.fixture
def saved(megatron_dist_case: Saved, wrote_by: Callable[..., None]) -> Saved:
    assert megatron_dist.available(), "megatron-core or psutil is not installed: scripts/setup --tests"

    def case(name: str) -> Path:
        wrote_by("megatron-core", megatron_dist.packages_of(megatron_dist.CASES[name]))
        return megatron_dist_case(name)

    return case


def recut(source: Path, target: Path, grid: str, *options: object) -> Path:
    tenplex("reshard", source, target, "--layout", LAYOUT, "--to", grid, "--verify", *options)
    return target


def assert_holds_the_same(first: Path, second: Path) -> None:
    """Every tensor, object and thing that is not cut."""
    chunks, objects = stored(first)
    chunks_again, objects_again = stored(second)
    assert sizes_of(second) == sizes_of(first)
    for name, size in sizes_of(first).items():
        assert_same_tensor(whole(size, chunks[name]), whole(size, chunks_again[name]), name)
    assert_same_tree(objects, objects_again, types=False)
    assert_same_tree(common_of(first), common_of(second))


@pytest.mark.parametrize("name", megatron_dist.CASES)
def test_every_element_is_read(name: str, saved: Saved, tmp_path: Path) -> None:
    source = saved(name)
    tenplex("reshard", source, tmp_path / "all.pt")
    state = torch.load(tmp_path / "all.pt", weights_only=False)
    sizes = sizes_of(source)
    objects = {key: value for key, [value] in stored(source)[1].items() if not key.startswith("common_state/")}
    assert sorted(state) == sorted(["common", *sizes, *objects])
    for key, size in sizes.items():
        assert tuple(state[key].shape) == size
        if not key.startswith("optimizer.distributed"):  # between parameters a bucket holds anything
            assert_same_tensor(expected(key, size, state[key].dtype), state[key], key)
    assert_same_tree(objects, {key: state[key] for key in objects})
    assert_same_tree(common_of(source), state["common"])
    assert len(sizes) > 8


@pytest.mark.parametrize("name", megatron_dist.CASES)
def test_there_and_back_is_what_the_library_wrote(name: str, saved: Saved, tmp_path: Path) -> None:
    source = saved(name)
    back = BACK["experts" if "experts" in name else "dense"]
    if name == "dense-singleton" or name == "buckets":
        back = "tp=2,pp=2,etp=2" if name == "dense-singleton" else "tp=2,dp=2,etp=2,edp=2"
    # Buckets of flat optimizer state hold for one cut by tp and pp.
    one = recut(source, tmp_path / "one", "tp=2,etp=2" if name == "buckets" else "tp=1")
    again = recut(one, tmp_path / "again", back)
    assert_holds_the_same(source, again)
    boxes, boxes_again = boxes_of(source), boxes_of(again)
    cut = {key for key, value in boxes.items() if not key.startswith("optimizer.distributed")}
    assert {key: boxes_again[key] for key in cut} == {key: boxes[key] for key in cut}
    assert sum(len(boxes[key]) > 1 for key in cut) > 4
    assert (again / "metadata.json").read_text() == (source / "metadata.json").read_text()


GRIDS = [
    ("dense", "tp=4,etp=4", Grid(4, tp=4)),
    ("dense", "pp=4", Grid(4, pp=4)),
    ("dense", "tp=1", Grid(1)),
    ("experts", "dp=4,ep=4", Grid(4, ep=4)),
    ("dense-newest", "tp=4,etp=4", Grid(4, tp=4)),
    ("dense-newest", "pp=4", Grid(4, pp=4)),
    ("dense-newest", "tp=1", Grid(1)),
    ("experts-newest", "dp=4,ep=4", Grid(4, ep=4)),
]


@pytest.mark.parametrize("name, grid, library_grid", GRIDS)
def test_the_library_loads_every_element(
    name: str, grid: str, library_grid: Grid, saved: Saved, tmp_path: Path
) -> None:
    target = recut(saved(name), tmp_path / "out", grid)
    sizes = sizes_of(target)
    assert_holds_the_same(saved(name), target)
    seen = {key: torch.zeros(size, dtype=torch.bool) for key, size in sizes.items()}
    objects = stored(target)[1]
    for rank in megatron_dist.load(name, library_grid, target, tmp_path / "loaded"):
        assert rank["missing"] == {"rng_state"}, "what is of another grid, and was not asked for"
        assert rank["unexpected"] == set()
        for key, size, offset, tensor in rank["tensors"]:
            assert tuple(size) == sizes[key]
            place = tuple(slice(at, at + extent) for at, extent in zip(offset, tensor.shape, strict=True))
            assert_same_tensor(expected(key, sizes[key], tensor.dtype)[place], tensor, f"{key} at {offset}")
            seen[key][place] = True
        for key, value in rank["objects"].items():
            assert_same_tree(objects[key], [value])
        assert rank["common"]["iteration"] == 70
    assert all(bool(mask.all()) for mask in seen.values())


def test_inspect_names_the_format_and_the_cut(saved: Saved) -> None:
    report = tenplex_json("inspect", saved("dense"), "--tensors")
    assert report["format"] == "megatron-dist"
    assert report["devices"] == 6
    names = {tensor["name"]: tensor for tensor in report["tensors"]}
    assert names["decoder.layers.mlp.linear_fc1.weight"]["shape"] == [4, 48, 16]
    assert {"common.iteration", "common.args"} <= {entry["name"] for entry in report["objects"]}


def test_the_root_that_megatron_lm_saves_into_leads_to_the_checkpoint(saved: Saved, tmp_path: Path) -> None:
    root = tmp_path / "root"
    shutil.copytree(saved("dense"), root / "iter_0000070")
    (root / "latest_checkpointed_iteration.txt").write_text("70\n")
    tenplex("verify", saved("dense"), root)
    (root / "iter_0000070").rename(root / "release")
    (root / "latest_checkpointed_iteration.txt").write_text("release")
    tenplex("verify", saved("dense"), root)


@pytest.mark.parametrize("grid, mention", [("tp=1", "tp=2"), ("tp=4,etp=4", "tp=4"), ("tp=2,pp=2,etp=2", "4")])
def test_buckets_are_not_cut_anew(grid: str, mention: str, saved: Saved, tmp_path: Path) -> None:
    options = ("--layout", LAYOUT, "--to", grid)
    run = tenplex("reshard", saved("buckets"), tmp_path / "out", *options, exit_code=1)
    assert "order of the parameters" in run.err
    assert mention in run.err
    assert "--only model" in run.err
    tenplex("reshard", saved("buckets"), tmp_path / "out", *options, "--only", "model")


def test_only_the_model_has_no_optimizer(saved: Saved, tmp_path: Path) -> None:
    for name in ("dense", "buckets"):
        target = recut(saved(name), tmp_path / name, "tp=1", "--only", "model")
        chunks, objects = stored(target)
        assert not [key for key in [*chunks, *objects] if key.startswith("optimizer")]
        assert sorted(chunks) == sorted(key for key in sizes_of(saved(name)) if not key.startswith("optimizer"))
        left = common_of(saved(name))
        left.pop("optimizer", None)
        assert_same_tree(left, common_of(target))
    tensors = tenplex_json("inspect", saved("dense"), "--tensors", "--only", "model,tensors")
    assert tensors["objects"] == []
    assert all(not entry["name"].startswith(("optimizer", "rng_state")) for entry in tensors["tensors"])


def test_the_newer_form_stays_in_its_form(saved: Saved, tmp_path: Path) -> None:
    """The common state is an object, metadata.json has two members, and integrity.json has sums."""
    source = saved("dense-newest")
    assert sorted(path.name for path in source.iterdir() if path.suffix != ".distcp") == FILES_OF_THE_NEWEST
    target = recut(source, tmp_path / "out", "tp=2,pp=2,etp=2")
    ours = sorted(path.name for path in target.iterdir() if path.suffix != ".distcp")
    assert ours == sorted([*FILES_OF_THE_NEWEST, "tenplex.json"])
    assert json.loads((target / "integrity.json").read_text()) == {"algorithm": "sha256", "files": sums_of(target)}


def test_any_other_tree_becomes_common_and_comes_back(tmp_path: Path) -> None:
    state = {
        "model": {"w": torch.arange(12.0).reshape(4, 3), "b": torch.ones(3, requires_grad=True)},
        "optimizer": {"state": {0: {"m": torch.zeros(4, 3), "step": 7}}, "param_groups": [{"lr": 0.1, "params": [0]}]},
        "pair": (torch.arange(4), 2),
        "empty": {},
    }
    torch.save(state, tmp_path / "state.pt")
    target = tmp_path / "target"
    tenplex("reshard", tmp_path / "state.pt", target, "--format", "megatron-dist", "--verify")
    common = torch.load(target / "common.pt", weights_only=True)
    assert common["optimizer"]["state"] == {0: {"step": 7}}
    assert "model" not in common
    assert common["empty"] == {}
    tenplex("reshard", target, tmp_path / "back.pt", "--verify")
    assert_same_tree(state, torch.load(tmp_path / "back.pt", weights_only=False))


def test_flat_tensors_stay_flat(models: Callable[[str], Path], tmp_path: Path) -> None:
    tenplex("reshard", models("llama"), tmp_path / "mdist", "--format", "megatron-dist", "--verify")
    assert torch.load(tmp_path / "mdist/common.pt", weights_only=True) == {}
    tenplex("reshard", tmp_path / "mdist", tmp_path / "hf", "--format", "hf", "--verify")
    tenplex("verify", models("llama"), tmp_path / "hf")


def test_tensors_alone_are_those_that_are_cut(saved: Saved, tmp_path: Path) -> None:
    """Not those in objects: random states, extra states of modules."""
    tenplex("reshard", saved("dense"), tmp_path / "out.pt", "--only", "tensors")
    state = torch.load(tmp_path / "out.pt")
    assert sorted(state) == sorted(key for key in sizes_of(saved("dense")))
