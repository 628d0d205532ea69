# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""Layouts that are wrong or do not fit: the message names the parameter, the shapes, the rule and its line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from refusal import assert_refused, run_within_limits


@pytest.fixture
def source(tmp_path: Path) -> Path:
    save_file({"up.weight": torch.ones(10, 6), "scalar": torch.tensor(1.0)}, tmp_path / "in.safetensors")
    return tmp_path / "in.safetensors"


HEAD = "family: x\nmeshes: {dense: [tp, dp]}\ntensors:\n"

WRONG: dict[str, tuple[str, tuple[str, ...]]] = {
    "empty": ("", ()),
    "a list": ("- a\n", ()),
    "no YAML": ("family: [x\n", ()),
    "unknown key": (HEAD + "  - match: '*'\n    slize: []\n", ("slize", "line 5")),
    "unknown key at the top": (HEAD + "  - match: '*'\ncolour: blue\n", ("colour", "line 5")),
    "key twice": (HEAD + "  - match: '*'\n    match: 'b'\n", ("match",)),
    "unknown axis": (HEAD + "  - match: '*'\n    slice: [{dim: 0, by: pp}]\n", ("pp", "line 5", "tp")),
    "axis used twice": (HEAD + "  - match: '*'\n    slice: [{dim: 0, by: tp}, {dim: 1, by: tp}]\n", ("tp", "line 5")),
    "negative dim": (HEAD + "  - match: '*'\n    slice: [{dim: -1, by: tp}]\n", ("line 5",)),
    "dim is text": (HEAD + "  - match: '*'\n    slice: [{dim: rows, by: tp}]\n", ("line 5",)),
    "dim is huge": (HEAD + "  - match: '*'\n    slice: [{dim: 99999999999999999999, by: tp}]\n", ("line 5",)),
    "no by": (HEAD + "  - match: '*'\n    slice: [{dim: 0}]\n", ("by", "line 5")),
    "unknown split": (HEAD + "  - match: '*'\n    slice: [{dim: 0, by: tp, split: fair}]\n", ("fair", "line 5")),
    "unknown mesh": (HEAD + "  - match: '*'\n    mesh: sparse\n", ("sparse", "line 5")),
    "brace not closed": (HEAD + "  - match: 'a.{layer.b'\n", ("line 4",)),
    "axis in two places of one mesh": ("family: x\nmeshes: {dense: [tp, tp]}\ntensors: [{match: '*'}]\n", ("tp",)),
    "anchors": ("family: &a x\nmeshes: {dense: [tp]}\ntensors: [{match: *a}]\n", ()),
    "nested 100,000 deep": ("family: x\nmeshes: " + "[" * 100_000 + "\n", ()),
    "binary": ("\x00\x01\x02", ("line 1", "control character (0x00)")),
    "a tab": (HEAD + "\t- match: '*'\n", ("line 4", "indented with a tab")),
    "a width beyond 64 bits": (
        HEAD + "  - match: '*'\n    slice: [{dim: 0, by: tp, widths: [18446744073709551615, 9]}]\n",
        ("line 5", "18446744073709551615"),
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_layout_is_refused_with_its_line(what: str, source: Path, tmp_path: Path) -> None:
    text, mentions = WRONG[what]
    layout = tmp_path / "wrong-layout.yaml"
    layout.write_text(text)
    run = assert_refused(source, tmp_path / "to", *mentions, options=("--layout", layout, "--to", "tp=2"))
    assert "wrong-layout" in run.err
    check = run_within_limits("layouts", "check", layout, exit_code=1)
    for mention in mentions:
        assert mention in check.reason


@pytest.mark.parametrize(
    "content",
    [
        b"# Gr\xfc\xdfe\n" + (HEAD + "  - match: '*'\n").encode(),
        (HEAD + "  - match: '*'\n").encode("utf-16"),
        (HEAD + "  - match: '\ud800'\n").encode("utf-8", "surrogatepass"),
        HEAD.replace("family: x", "family: y").encode() + b"  - match: 'w\xff'\n",
    ],
)
def test_a_layout_that_is_no_text_is_refused(content: bytes, source: Path, tmp_path: Path) -> None:
    """It would be stored in the target, which nobody could read then."""
    layout = tmp_path / "latin.yaml"
    layout.write_bytes(content)
    for target_format in ("safetensors", "dcp", "torch"):
        options = ("--layout", layout, "--to", "tp=2")
        mentions = ("not UTF-8 text", "line")
        assert_refused(source, tmp_path / "to", *mentions, target_format=target_format, options=options)
    run_within_limits("layouts", "check", layout, exit_code=1)


def test_a_name_that_is_no_text_is_not_stored(source: Path, tmp_path: Path) -> None:
    named = tmp_path / os.fsdecode(b"lay\xff.yaml")
    named.write_text(
        "meshes: {dense: [tp]}\ntensors:\n  - match: '*.weight'\n    slice: [{dim: 0, by: tp}]\n  - match: '*'\n"
    )
    options: tuple[object, ...] = ("--layout", named, "--to", "tp=2")
    assert_refused(source, tmp_path / "to", "is not UTF-8", target_format="safetensors", options=options)
    folder = tmp_path / "hf"
    folder.mkdir()
    save_file({"w": torch.ones(4, 4)}, folder / "model.safetensors")
    (folder / os.fsdecode(b"\xff\xfe")).write_text("x")
    for target_format in ("safetensors", "dcp"):
        options = ("--layout", "fsdp", "--to", "fsdp=2")
        assert_refused(folder, tmp_path / "to", "is not UTF-8", target_format=target_format, options=options)


def test_a_zero_that_there_is_not_is_named(source: Path, tmp_path: Path) -> None:
    assert_refused(
        source, tmp_path / "to", "+zero1, +zero2 or +zero3", options=("--layout", "fsdp+zero9", "--to", "fsdp=2")
    )
    assert_refused(source, tmp_path / "to", "need a layout", options=("--to", "tp=1"))


def test_laughing_yaml_is_refused(source: Path, tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x]"] + [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 20)]
    (tmp_path / "laughs.yaml").write_text("\n".join(lines))
    assert_refused(source, tmp_path / "to", options=("--layout", tmp_path / "laughs.yaml", "--to", "a=2"))


MISFITS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "no such dimension": (
        "  - match: scalar\n    slice: [{dim: 0, by: tp}]\n  - match: '*'\n",
        "tp=2",
        ("scalar", "line 4"),
    ),
    "not divisible": (
        "  - match: up.weight\n    slice: [{dim: 0, by: tp, split: even}]\n  - match: '*'\n",
        "tp=4",
        ("up.weight", "10", "4", "line 4"),
    ),
    "widths do not add up": (
        "  - match: up.weight\n    slice: [{dim: 0, by: tp, widths: [4, 5]}]\n  - match: '*'\n",
        "tp=2",
        ("up.weight", "10", "line 4"),
    ),
    "segments do not add up": (
        "  - match: up.weight\n    slice: [{dim: 0, by: tp, segments: [3, 4]}]\n  - match: '*'\n",
        "tp=2",
        ("up.weight", "10", "line 4"),
    ),
    "a tensor without a rule": ("  - match: up.weight\n", "tp=2", ("scalar",)),
}


@pytest.mark.parametrize("what", MISFITS)
def test_layout_that_does_not_fit_names_tensor_shape_and_line(what: str, source: Path, tmp_path: Path) -> None:
    rules, sizes, mentions = MISFITS[what]
    layout = tmp_path / "misfit.yaml"
    layout.write_text(HEAD + rules)
    assert_refused(source, tmp_path / "to", *mentions, options=("--layout", layout, "--to", sizes))


def test_axis_that_the_layout_lacks_is_named(source: Path, tmp_path: Path) -> None:
    run = run_within_limits("reshard", source, tmp_path / "x", "--format", "dcp", "--layout", "fsdp", "--to", "tp=2")
    assert run.exit_code in (1, 2)
    assert "'tp'" in run.reason
    assert "fsdp" in run.reason
    assert not (tmp_path / "x").exists()


def test_unknown_layout_lists_those_there_are(source: Path, tmp_path: Path) -> None:
    run = run_within_limits(
        "reshard", source, tmp_path / "x", "--format", "dcp", "--layout", "nonesuch", "--to", "tp=2"
    )
    assert run.exit_code in (1, 2)
    assert "nonesuch" in run.reason
    assert "hf-llama" in run.reason


def test_a_million_devices_are_refused_or_done_within_limits(source: Path, tmp_path: Path) -> None:
    run = run_within_limits(
        "reshard", source, tmp_path / "x", "--format", "dcp", "--layout", "fsdp", "--to", "fsdp=1000000000"
    )
    assert run.exit_code in (1, 2)
    assert not (tmp_path / "x").exists()
