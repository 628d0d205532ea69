# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""One tensor object under several names: shapes and values where a layout pads only one name, and what several objects
hold together."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from compare import TreeComparison
from program import tenplex

# Rows 5 to 7 of `embed` are padding; `head`, the same tensor, has none.
ROWS = """family: padded
meshes: {dense: [tp]}
tensors:
  - match: embed
    pad: {dim: 0, multiple_of: [8], data: 5}
    slice: [{dim: 0, by: tp}]
  - match: "*"
"""
COLUMNS = ROWS.replace("dim: 0", "dim: 1").replace("[8]", "[4]").replace("data: 5", "data: 3")


class Opaque:
    """Of a class that no format but torch's knows."""

    q: Any
    owner: Any

    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)


def tied_states() -> dict[str, Callable[[torch.Tensor], dict[str, Any]]]:
    holder = argparse.Namespace
    return {
        "two names": lambda t: {"embed": t, "head": t},
        "the padded one last": lambda t: {"head": t, "embed": t},
        "three names": lambda t: {"embed": t, "head": t, "again": t},
        "in a namespace": lambda t: {"embed": t, "h": holder(p=t)},
        "in a namespace before": lambda t: {"h": holder(p=t), "embed": t},
        "in a tuple": lambda t: {"embed": t, "t": (t, 1)},
        "in a list": lambda t: {"embed": t, "t": [t]},
        "a parameter": lambda t: {"embed": (p := torch.nn.Parameter(t)), "head": p},
    }


def tensors_of(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, argparse.Namespace):
        value = list(vars(value).values())
    if isinstance(value, dict):
        value = list(value.values())
    return [tensor for item in value for tensor in tensors_of(item)] if isinstance(value, (list, tuple)) else []


def padded_cases() -> list[tuple[str, str]]:
    """hf holds named tensors and nothing else."""
    formats = ("torch", "safetensors", "dcp", "hf")
    return [(case, form) for case in tied_states() for form in formats if form != "hf" or not case.startswith("in a ")]


@pytest.mark.parametrize("cast", [(), ("--dtype-policy", "cast:bf16")], ids=["as it is", "cast"])
@pytest.mark.parametrize("rows", [True, False], ids=["rows", "columns"])
@pytest.mark.parametrize(("case", "through"), padded_cases())
def test_only_the_padded_name_is_clipped(
    case: str, rows: bool, through: str, cast: tuple[str, ...], tmp_path: Path, wrote_by: Callable[[str], None]
) -> None:
    wrote_by("torch")
    full = torch.arange(32.0).reshape(8, 4)
    source, middle, back = tmp_path / "source.pt", tmp_path / "middle", tmp_path / "back.pt"
    layout = tmp_path / "padded.yaml"
    layout.write_text(ROWS if rows else COLUMNS)
    torch.save(tied_states()[case](full), source)
    if through == "torch":
        tenplex("reshard", source, back, "--format", "torch", "--layout", layout, "--verify", *cast)
    else:
        to = () if through == "hf" else ("--to", "tp=2")
        tenplex("reshard", source, middle, "--format", through, "--layout", layout, *to, "--verify", *cast)
        tenplex("reshard", middle, back, "--format", "torch", "--verify")
    loaded = torch.load(back, weights_only=False)
    expected = full.to(torch.bfloat16) if cast else full
    embed = loaded.pop("embed")
    others = tensors_of(loaded)
    clipped = expected[:5] if rows else expected[:, :3]
    assert embed.shape == clipped.shape
    assert torch.equal(embed.detach(), clipped)
    assert others
    assert all(torch.equal(tensor.detach(), expected) for tensor in others)
    assert all(tensor is others[0] for tensor in others) or through == "hf"


@pytest.mark.parametrize("names", ["ach", "cah", "hca"])
def test_a_layout_that_ties_one_of_two_names_of_an_object(
    names: str, tmp_path: Path, wrote_by: Callable[[str], None]
) -> None:
    wrote_by("torch")
    one = torch.arange(6.0)
    tensors = {"a": one.clone(), "c": one, "h": one}
    torch.save({name: tensors[name] for name in names}, tmp_path / "source.pt")
    layout = tmp_path / "tied.yaml"
    layout.write_text("family: tied\nmeshes: {dense: [tp]}\ntied: [{alias: c, to: a}]\ntensors: [{match: '*'}]\n")
    tenplex("reshard", tmp_path / "source.pt", tmp_path / "back.pt", "--layout", layout, "--verify")
    loaded = torch.load(tmp_path / "back.pt", weights_only=True)
    assert all(torch.equal(loaded[name], one) for name in names)
    assert loaded["c"].data_ptr() == loaded["a"].data_ptr()


def tied_module() -> torch.nn.Module:
    first, second = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    second.weight = first.weight
    return torch.nn.Sequential(first, second)


def held_twice() -> dict[str, dict[str, Any]]:
    holder = argparse.Namespace
    base, weight = torch.arange(12.0), torch.nn.Parameter(torch.arange(4.0))
    return {
        "a tied module": {"model": tied_module(), "w": torch.ones(2)},
        "a list in an object": {"k": Opaque(p=[base] * 2)},
        "two attributes": {"k": Opaque(p=weight, q=weight)},
        "a parameter and its data": {"k": Opaque(p=weight, q=weight.detach(), r=weight)},
        "two objects": {"k": Opaque(p=base), "l": Opaque(p=base), "m": Opaque(p=base[2:])},
        "an object and the tree": {"k": Opaque(p=base, q=base), "w": base, "v": base[3:], "n": holder(p=base)},
        "the tree and an object": {"w": weight, "k": Opaque(p=weight, q=weight, r=weight.detach()[1:])},
    }


def plain(value: Any) -> Any:
    """The same with dicts and lists in the place of objects; an object in itself is left out."""
    if isinstance(value, torch.nn.Module):
        return {"parameters": plain(value._parameters), "modules": plain(value._modules)}
    if isinstance(value, (Opaque, argparse.Namespace)):
        return {key: plain(item) for key, item in vars(value).items() if key != "owner"}
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return type(value)(plain(item) for item in value) if isinstance(value, (list, tuple)) else value


def identities(value: Any) -> Iterator[int]:
    """The ids of all that `value` leads to, in the order of a walk that enters nothing twice."""
    seen: set[int] = set()
    todo = [value]
    while todo:
        item = todo.pop()
        if not isinstance(
            item, (torch.Tensor, torch.nn.Module, Opaque, argparse.Namespace, dict, list, tuple, bytearray)
        ):
            continue
        yield id(item)
        if id(item) in seen or isinstance(item, (torch.Tensor, bytearray)):
            continue
        seen.add(id(item))
        if isinstance(item, torch.nn.Module):
            todo += [item._parameters, item._modules]
        elif isinstance(item, (Opaque, argparse.Namespace)):
            todo.append(vars(item))
        else:
            todo += item.values() if isinstance(item, dict) else item


def assert_same_sharing(expected: Any, found: Any) -> None:
    """Values, which tensors share memory, and which objects and tensors are one."""
    TreeComparison(strides=True).compare(plain(expected), plain(found))
    one, other = list(identities(expected)), list(identities(found))
    assert [one.index(item) for item in one] == [other.index(item) for item in other]


def there_and_back(state: dict[str, Any], through: str, folder: Path) -> None:
    source, middle, back = folder / "source.pt", folder / "middle", folder / "back.pt"
    cut = () if through == "a file" else ("--layout", "fsdp", "--to", "fsdp=2")
    target = ("--format", "dcp" if through == "dcp" else "safetensors", *cut)
    objects = ("--objects", folder / "objects") if through == "a file" else ()
    torch.save(state, source)
    tenplex("reshard", source, middle, *target, *objects, "--verify")
    tenplex("reshard", middle, back, "--format", "torch", *objects, "--verify")
    assert_same_sharing(state, torch.load(back, weights_only=False))
    tenplex("verify", source, back)


@pytest.mark.parametrize("through", ["a file", "a folder", "dcp"])
@pytest.mark.parametrize("case", held_twice())
def test_objects_that_hold_a_tensor_twice(
    case: str, through: str, tmp_path: Path, wrote_by: Callable[[str], None]
) -> None:
    wrote_by("torch")
    there_and_back(held_twice()[case], through, tmp_path)


def shared_parts() -> dict[str, dict[str, Any]]:
    base = torch.arange(6.0)
    held, listed = Opaque(p=base, l=[1, base[2:]]), [base, {"x": 3}]
    tuples, inner = (Opaque(v=7), base), Opaque(q=Opaque(p=base))
    circle = Opaque(p=base)
    circle.owner = {"a": Opaque(of=circle), "b": circle}
    return {
        "one object in the tree and in another": {"k0": held, "k1": Opaque(p=held), "w": base},
        "one object in the tree after another": {"k1": Opaque(p=held), "k0": held},
        "one object in two others": {"k0": Opaque(p=held), "k1": Opaque(p=held, q=[held])},
        "two objects in two others, one in the other": {
            "k0": Opaque(p=inner, q=inner.q),
            "k1": Opaque(p=inner.q, q=inner),
            "k2": Opaque(r=inner),
        },
        "a list in the tree and in an object": {"l": listed, "k": Opaque(l=listed, m=listed[1])},
        "a list in two objects": {"a": Opaque(l=listed), "b": Opaque(l=[listed], m=listed)},
        "a tuple of two objects": {"a": Opaque(t=tuples), "b": Opaque(t=tuples, u=tuples[0])},
        "a bytearray in two objects": {"a": Opaque(t=(data := bytearray(b"abc"))), "b": Opaque(t=data), "w": base},
        "a circle of two objects": {"a": circle, "b": Opaque(p=circle), "w": base},
    }


@pytest.mark.parametrize("through", ["a file", "a folder", "dcp"])
@pytest.mark.parametrize("case", shared_parts())
def test_parts_that_several_objects_hold(
    case: str, through: str, tmp_path: Path, wrote_by: Callable[[str], None]
) -> None:
    wrote_by("torch")
    there_and_back(shared_parts()[case], through, tmp_path)
