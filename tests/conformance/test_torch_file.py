# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""`.pt` files: what torch.save wrote goes through the other formats and torch.load reads it back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from compare import TreeComparison, assert_same_tensors, assert_same_tree
from makers import torch_file, training
from program import tenplex, tenplex_json


def assert_same_file(expected: Any, path: Path) -> TreeComparison:
    comparison = TreeComparison(strides=True)
    comparison.compare(expected, torch_file.load(path))
    return comparison


def state_for(target_format: str) -> dict[str, Any]:
    """The nested state without the dtypes that the target cannot hold."""
    state = torch_file.nested_state()
    if target_format == "safetensors":
        state["dtypes"] = torch_file.every_dtype(without=torch_file.SAFETENSORS_CANNOT_HOLD)
    return state


def test_torch_to_torch_keeps_structure_sharing_strides_and_types(
    nested_file: Path, tmp_path: Path, wrote_by: Callable[[str], None]
) -> None:
    wrote_by("torch")
    tenplex("reshard", nested_file, tmp_path / "out.pt", "--format", "torch", "--verify")
    comparison = assert_same_file(torch_file.load(nested_file), tmp_path / "out.pt")
    assert comparison.storage_count > 30
    assert (tmp_path / "out.pt").stat().st_size < 1.2 * nested_file.stat().st_size


@pytest.mark.parametrize("through", ["safetensors", "dcp"])
def test_through_another_format_and_back(through: str, tmp_path: Path, wrote_by: Callable[[str], None]) -> None:
    wrote_by("torch")
    source = torch_file.save(state_for(through), tmp_path / "in.pt")
    middle = tmp_path / ("middle.safetensors" if through == "safetensors" else "middle")
    objects = ("--objects", tmp_path / "objects") if through == "safetensors" else ()
    tenplex("reshard", source, middle, "--format", through, *objects, "--verify")
    tenplex("reshard", middle, tmp_path / "out.pt", "--format", "torch", *objects)
    assert_same_file(torch_file.load(source), tmp_path / "out.pt")
    tenplex("verify", source, tmp_path / "out.pt")


@pytest.mark.parametrize("through", ["safetensors", "dcp"])
def test_through_several_devices_and_back(through: str, tmp_path: Path, wrote_by: Callable[[str], None]) -> None:
    wrote_by("torch")
    source = torch_file.save(state_for(through), tmp_path / "in.pt")
    cut = ("--layout", "fsdp", "--to", "fsdp=3")
    tenplex("reshard", source, tmp_path / "middle", "--format", through, *cut)
    tenplex("reshard", tmp_path / "middle", tmp_path / "out.pt", "--format", "torch")
    assert_same_tree(torch_file.load(source), torch_file.load(tmp_path / "out.pt"))


def test_safetensors_library_reads_every_dtype(tmp_path: Path, wrote_by: Callable[[str], None]) -> None:
    wrote_by("torch")
    tensors = torch_file.every_dtype(without=torch_file.SAFETENSORS_CANNOT_HOLD)
    source = torch_file.save(tensors, tmp_path / "in.pt")
    tenplex("reshard", source, tmp_path / "out.safetensors", "--format", "safetensors")
    assert_same_tensors(tensors, load_file(tmp_path / "out.safetensors"))


def test_safetensors_library_reads_views_as_whole_tensors(tmp_path: Path, wrote_by: Callable[[str], None]) -> None:
    wrote_by("torch")
    views = torch_file.views()
    source = torch_file.save(views, tmp_path / "in.pt")
    tenplex("reshard", source, tmp_path / "out.safetensors", "--format", "safetensors")
    with safe_open(tmp_path / "out.safetensors", "pt") as file:
        for name, view in views.items():
            assert_same_tree(view, file.get_tensor(name))


def test_torch_loads_dcp_of_every_dtype_and_view(tmp_path: Path, wrote_by: Callable[[str], None]) -> None:
    wrote_by("torch")
    state = {"dtypes": torch_file.every_dtype(), "views": torch_file.views()}
    source = torch_file.save(state, tmp_path / "in.pt")
    tenplex("reshard", source, tmp_path / "out", "--format", "dcp", "--layout", "fsdp", "--to", "fsdp=2")
    found = training.load_into_plain_tensors(tmp_path / "out")
    expected = {f"dtypes.{name}": tensor for name, tensor in state["dtypes"].items()}
    expected |= {f"views.{name}": tensor.contiguous() for name, tensor in state["views"].items()}
    assert_same_tensors(expected, found)


THROUGH = ("torch", "safetensors", "safetensors folder", "dcp", "dcp of two")
# A list at the top is no state dict: torch cannot save it as dcp either, and so it is refused.
ODD_TREES = [
    (tree, through) for tree in torch_file.odd_trees() for through in THROUGH if (tree, through[:3]) != ("list", "dcp")
]


@pytest.mark.parametrize(("tree", "through"), ODD_TREES)
def test_odd_trees_come_back_exactly(tree: str, through: str, tmp_path: Path, wrote_by: Callable[[str], None]) -> None:
    wrote_by("torch")
    source = torch_file.save(torch_file.odd_trees()[tree], tmp_path / "in.pt")
    middle = tmp_path / {"torch": "m.pt", "safetensors": "m.safetensors"}.get(through, "m")
    objects = ("--objects", tmp_path / "objects") if through == "safetensors" else ()
    cut = ("--layout", "fsdp", "--to", "fsdp=2") if through in ("safetensors folder", "dcp of two") else ()
    tenplex("reshard", source, middle, "--format", through.split()[0], *objects, *cut)
    tenplex("reshard", middle, tmp_path / "out.pt", "--format", "torch", *objects)
    found = assert_same_file(torch_file.load(source), tmp_path / "out.pt")
    assert found is not None
    if tree.startswith("shared"):
        state = torch_file.load(tmp_path / "out.pt")
        assert state["a"] is state["b"]
    tenplex("verify", source, middle, *objects)


@pytest.mark.parametrize(
    ("state", "places"),
    [
        ({"a.b": torch.ones(1), "a": {"b": torch.ones(2)}}, ("['a.b']", "['a']['b']")),
        ({"a": {0: torch.ones(1), "0": torch.ones(2)}}, ("['a'][0]", "['a']['0']")),
        ({"a.b": 1, "a": {"b": 2}}, ("['a.b']", "['a']['b']")),
        ({"a": [torch.ones(1)], "a.0": torch.ones(2)}, ("['a'][0]", "['a.0']")),
    ],
)
def test_two_places_of_one_name_are_both_named(
    state: Any, places: tuple[str, str], tmp_path: Path, wrote_by: Callable[[str], None]
) -> None:
    wrote_by("torch")
    source = torch_file.save(state, tmp_path / "in.pt")
    run = tenplex("reshard", source, tmp_path / "out", "--format", "dcp", exit_code=1)
    for place in places:
        assert place in run.reason
    assert not (tmp_path / "out").exists()


def test_reserved_name_is_refused_by_safetensors(tmp_path: Path, wrote_by: Callable[[str], None]) -> None:
    wrote_by("torch")
    source = torch_file.save({"__metadata__": torch.ones(2), "w": torch.ones(1)}, tmp_path / "in.pt")
    run = tenplex("reshard", source, tmp_path / "out.safetensors", exit_code=1)
    assert "'__metadata__'" in run.reason
    tenplex("reshard", source, tmp_path / "out", "--format", "dcp")
    tenplex("reshard", tmp_path / "out", tmp_path / "out.pt", "--format", "torch")
    assert_same_file(torch_file.load(source), tmp_path / "out.pt")


@pytest.mark.parametrize("through", [*THROUGH, "hf"])
def test_text_of_a_safetensors_file_comes_back(through: str, tmp_path: Path, wrote_by: Callable[[str], None]) -> None:
    wrote_by("safetensors")
    text = {"format": "pt", "run": "ü 42", "empty": "", "long": "x" * 100_000}
    save_file({"w": torch.arange(6.0)}, tmp_path / "in.safetensors", metadata=text)
    middle = tmp_path / {"torch": "m.pt", "safetensors": "m.safetensors"}.get(through, "m")
    cut = ("--layout", "fsdp", "--to", "fsdp=2") if through in ("safetensors folder", "dcp of two") else ()
    tenplex("reshard", tmp_path / "in.safetensors", middle, "--format", through.split()[0], *cut)
    if through == "torch":
        assert list(torch.load(middle, weights_only=True)) == ["w"]
    tenplex("reshard", middle, tmp_path / "out.safetensors")
    with safe_open(tmp_path / "out.safetensors", "pt") as file:
        found = file.metadata()
    found.pop("tenplex", None)  # the tree, where a torch file gave it one
    assert found == text


def test_usual_text_leaves_a_torch_file_as_it_is(tmp_path: Path, wrote_by: Callable[[str], None]) -> None:
    wrote_by("safetensors")
    save_file({"w": torch.arange(6.0)}, tmp_path / "in.safetensors", metadata={"format": "pt"})
    tenplex("reshard", tmp_path / "in.safetensors", tmp_path / "out.pt")
    records = torch.PyTorchFileReader(str(tmp_path / "out.pt")).get_all_records()
    assert "tenplex.json" not in records


@pytest.mark.parametrize("target", ["out.pt", "out.safetensors"])
def test_other_files_have_no_place_in_one_file(target: str, tmp_path: Path, wrote_by: Callable[[str], None]) -> None:
    wrote_by("safetensors")
    source = tmp_path / "model"
    source.mkdir()
    save_file({"w": torch.arange(6.0)}, source / "model.safetensors", metadata={"format": "pt"})
    (source / "config.json").write_text("{}")
    run = tenplex("reshard", source, tmp_path / target, exit_code=1)
    assert "config.json" in run.err
    assert "--drop-extra-files" in run.err
    assert ("--objects" in run.err) == target.endswith(".safetensors")
    assert not (tmp_path / target).exists()
    tenplex("reshard", source, tmp_path / target, "--drop-extra-files")
    if target.endswith(".safetensors"):
        (tmp_path / target).unlink()
        tenplex("reshard", source, tmp_path / target, "--objects", tmp_path / "objects")
        assert (tmp_path / "objects/config.json").read_text() == "{}"
        tenplex("reshard", tmp_path / target, tmp_path / "back", "--format", "hf", "--objects", tmp_path / "objects")
        assert (tmp_path / "back/config.json").read_text() == "{}"


@pytest.mark.parametrize("back", ["hf", "safetensors", "torch", "dcp"])
def test_extra_files_are_not_lost_when_their_folder_is_not_given_again(
    back: str, tmp_path: Path, wrote_by: Callable[[str], None]
) -> None:
    wrote_by("safetensors")
    source, middle, target = tmp_path / "model", tmp_path / "middle.safetensors", tmp_path / "back"
    source.mkdir()
    save_file({"w": torch.arange(6.0)}, source / "model.safetensors", metadata={"format": "pt"})
    (source / "config.json").write_text("{}")
    (source / "vocab.txt").write_text("a b")
    tenplex("reshard", source, middle, "--objects", tmp_path / "objects")
    run = tenplex("reshard", middle, target, "--format", back, exit_code=1)
    assert "keeps 'config.json' and 2 files in all" in run.err
    assert "--objects" in run.err
    assert "--drop-extra-files" in run.err
    assert not target.exists()
    assert "config.json" in tenplex("inspect", middle).out
    tenplex("reshard", middle, target, "--format", back, "--drop-extra-files")
    tenplex("verify", source, target)


@pytest.mark.parametrize("dtype", torch_file.SAFETENSORS_CANNOT_HOLD, ids=str)
def test_safetensors_refuses_what_it_cannot_hold(dtype: Any, tmp_path: Path, wrote_by: Callable[[str], None]) -> None:
    wrote_by("torch")
    source = torch_file.save({"odd one": torch_file.random_bits((4,), dtype, 1)}, tmp_path / "in.pt")
    run = tenplex("reshard", source, tmp_path / "out.safetensors", "--format", "safetensors", exit_code=1)
    assert "odd one" in run.reason
    assert str(dtype).removeprefix("torch.") in run.reason
    assert not (tmp_path / "out.safetensors").exists()


def test_objects_are_refused_by_safetensors_without_a_place_for_them(
    nested_file: Path, tmp_path: Path, wrote_by: Callable[[str], None]
) -> None:
    wrote_by("torch")
    state = {"w": torch_file.random_bits((3,), torch_file.DTYPES[0], 1), "random": torch_file.random_state()}
    source = torch_file.save(state, tmp_path / "in.pt")
    run = tenplex("reshard", source, tmp_path / "out.safetensors", "--format", "safetensors", exit_code=1)
    assert "--objects" in run.err
    assert "state 'random." in run.reason
    assert not (tmp_path / "out.safetensors").exists()


def test_layout_of_older_torch_zips_is_read(nested_file: Path, tmp_path: Path, wrote_by: Callable[[str], None]) -> None:
    wrote_by("torch")
    old = torch_file.without_zip_extras(nested_file, tmp_path / "x.pt", stem="model_optim_rng")
    tenplex("reshard", old, tmp_path / "out.pt", "--format", "torch")
    assert_same_file(torch_file.load(old), tmp_path / "out.pt")


def test_file_from_before_the_zip_format_is_named(tmp_path: Path, wrote_by: Callable[[str], None]) -> None:
    wrote_by("torch")
    source = torch_file.save(torch_file.optimizer_state(), tmp_path / "in.pt", zip_format=False)
    run = tenplex("reshard", source, tmp_path / "out.pt", "--format", "torch", exit_code=1)
    assert "the layout of PyTorch before 1.6, which is no zip" in run.reason
    assert not (tmp_path / "out.pt").exists()


def test_nothing_in_a_pickle_is_executed(tmp_path: Path, wrote_by: Callable[[str], None]) -> None:
    wrote_by("torch")
    witness = tmp_path / "executed"

    class Attack:
        def __reduce__(self) -> Any:
            return (Path.touch, (witness,))

    source = torch_file.save({"w": torch_file.views()["base"], "attack": Attack()}, tmp_path / "in.pt")
    tenplex("inspect", source)
    tenplex("reshard", source, tmp_path / "out.pt", "--format", "torch")
    assert not witness.exists()


def test_inspect_lists_tensors_as_torch_has_them(nested_file: Path, wrote_by: Callable[[str], None]) -> None:
    wrote_by("torch")
    report = tenplex_json("inspect", nested_file, "--tensors")
    assert report["format"] == "torch"
    found = {tensor["name"]: tensor for tensor in report["tensors"]}
    for name, view in torch_file.views().items():
        assert found[f"views.{name}"]["shape"] == list(view.shape)


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_bytes_fit_in_a_safetensors_file(protocol: int, tmp_path: Path, wrote_by: Callable[[str], None]) -> None:
    wrote_by("torch")
    values = [b"", b"\x00\xff", bytearray(), bytearray(b"abc\xff"), {"key": (b"\xc3\xbf",)}]
    source, middle = tmp_path / "in.pt", tmp_path / "middle.safetensors"
    torch.save({"w": torch.ones(2), "values": values}, source, pickle_protocol=protocol)
    tenplex("reshard", source, middle)
    tenplex("reshard", middle, tmp_path / "out.pt")
    assert torch_file.load(tmp_path / "out.pt")["values"] == values
    assert [type(value) for value in torch_file.load(tmp_path / "out.pt")["values"]] == [type(v) for v in values]
    tenplex("verify", source, tmp_path / "out.pt")
