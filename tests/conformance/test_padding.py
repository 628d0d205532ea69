# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints that hold padding, and a layout that says how many rows are data: the padding goes, and is made anew.

In makers.padded 13 rows (and columns) are stored as 16, and 12 as 16; all padding is NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from compare import assert_same_tensors
from makers import padded, training
from program import tenplex, tenplex_json

KINDS = ["safetensors", "hf", "torch", "dcp"]


@pytest.fixture
def layout(tmp_path: Path) -> Path:
    path = tmp_path / "padded.yaml"
    path.write_text(padded.LAYOUT)
    return path


@pytest.fixture
def save(tmp_path: Path, wrote_by: Callable[[str], None]) -> Callable[[str], Path]:
    def made(kind: str) -> Path:
        wrote_by("safetensors" if kind in ("safetensors", "hf") else "torch")
        return padded.save(kind, tmp_path)

    return made


def parts_of_devices(tp: int, extents: dict[str, int]) -> list[dict[str, torch.Tensor]]:
    """What each device holds if `extents` are the padded ones."""
    devices: list[dict[str, torch.Tensor]] = [{} for _ in range(tp)]
    for name, real in padded.real_tensors().items():
        if name not in extents:
            parts = [real] * tp
        else:
            parts = list(padded.with_padding(name, real, extents[name]).chunk(tp, padded.PADDED[name][0]))
        for device, part in zip(devices, parts, strict=True):
            device[name] = part.contiguous()
    return devices


def load_devices(folder: Path) -> list[dict[str, torch.Tensor]]:
    return [load_file(path) for path in sorted(folder.glob("*.safetensors"))]


@pytest.mark.parametrize("kind", KINDS)
def test_padding_is_made_anew_for_the_target(
    kind: str, save: Callable[[str], Path], layout: Path, tmp_path: Path
) -> None:
    source = save(kind)
    to = ("--format", "safetensors", "--layout", layout, "--verify")
    # 13 to a multiple of 4·tp, 12 to one of 8·tp.
    for tp, extents in ((4, (16, 16, 32)), (2, (16, 16, 16)), (3, (24, 24, 24))):
        target = tmp_path / f"tp{tp}"
        run = tenplex("reshard", source, target, "--to", f"tp={tp}", "--drop-extra-files", *to)
        assert "padding   of the source left out of 3 tensors" in run.out
        expected = parts_of_devices(tp, dict(zip(padded.PADDED, extents, strict=True)))
        for wanted, found in zip(expected, load_devices(target), strict=True):
            assert_same_tensors(wanted, found)


def test_values_of_the_devices(save: Callable[[str], Path], layout: Path, tmp_path: Path) -> None:
    tenplex("reshard", save("torch"), tmp_path / "out", "--format", "safetensors", "--layout", layout, "--to", "tp=4")
    devices = load_devices(tmp_path / "out")
    assert [device["emb"].tolist() for device in devices] == [
        [[0, 1], [2, 3], [4, 5], [6, 7]],
        [[8, 9], [10, 11], [12, 13], [14, 15]],
        [[16, 17], [18, 19], [20, 21], [22, 23]],
        [[24, 25], [0, 0], [0, 0], [0, 0]],
    ]
    assert [device["head"].tolist() for device in devices] == [
        [[0, 1, 2, 3], [16, 17, 18, 19]],
        [[4, 5, 6, 7], [20, 21, 22, 23]],
        [[8, 9, 10, 11], [24, 25, 26, 27]],
        [[12, 0, 0, 0], [28, 0, 0, 0]],
    ]
    # 12 rows padded to 32: the third device has none of them, nor has the fourth.
    assert devices[1]["places"].flatten().tolist() == [-8, -9, -10, -11, 0, 0, 0, 0]
    assert devices[2]["places"].flatten().tolist() == [0] * 8


@pytest.mark.parametrize("kind", KINDS)
def test_whole_tensors_hold_the_data_alone(
    kind: str, save: Callable[[str], Path], layout: Path, tmp_path: Path
) -> None:
    source = save(kind)
    real = padded.real_tensors()
    cut = ("--layout", layout, "--verify", "--drop-extra-files")
    tenplex("reshard", source, tmp_path / "one.safetensors", *cut)
    assert_same_tensors(real, load_file(tmp_path / "one.safetensors"))
    tenplex("reshard", source, tmp_path / "hf", "--format", "hf", *cut)
    assert_same_tensors(real, load_file(tmp_path / "hf/model.safetensors"))
    tenplex("reshard", source, tmp_path / "one.pt", *cut)
    loaded = torch.load(tmp_path / "one.pt")
    assert_same_tensors(real, loaded)
    assert all(tensor.is_contiguous() for tensor in loaded.values())
    assert all(tensor.untyped_storage().nbytes() == tensor.nbytes for tensor in loaded.values())
    for devices in ("tp=2", "tp=3"):
        target = tmp_path / devices
        tenplex("reshard", source, target, "--format", "dcp", "--to", devices, *cut)
        assert_same_tensors(real, training.load_whole(target))


def test_the_way_there_and_back(save: Callable[[str], Path], layout: Path, tmp_path: Path) -> None:
    devices = tmp_path / "devices"
    tenplex("reshard", save("torch"), devices, "--format", "safetensors", "--layout", layout, "--to", "tp=4")
    tenplex("reshard", devices, tmp_path / "dcp", "--format", "dcp", "--layout", layout, "--to", "tp=3")
    tenplex("reshard", tmp_path / "dcp", tmp_path / "hf", "--format", "hf", "--layout", layout)
    assert_same_tensors(padded.real_tensors(), load_file(tmp_path / "hf/model.safetensors"))
    tenplex(
        "reshard", tmp_path / "hf", tmp_path / "again", "--format", "safetensors", "--layout", layout, "--to", "tp=4"
    )
    for first, second in zip(load_devices(devices), load_devices(tmp_path / "again"), strict=True):
        assert_same_tensors(first, second)
    # The same files, which say nothing about their cut.
    bare = tmp_path / "bare"
    bare.mkdir()
    for rank, tensors in enumerate(load_devices(devices)):
        save_file(tensors, bare / f"rank{rank}.safetensors")
    tenplex("reshard", bare, tmp_path / "whole.safetensors", "--from", "tp=4", "--layout", layout)
    assert_same_tensors(padded.real_tensors(), load_file(tmp_path / "whole.safetensors"))


def test_strided_and_tied_views_keep_their_values(
    layout: Path, tmp_path: Path, wrote_by: Callable[[str], None]
) -> None:
    wrote_by("torch")
    real = padded.real_tensors()
    stored = padded.stored_tensors()
    fused = torch.cat([stored["emb"], torch.full((4, 2), 7.0)])
    views = {
        "emb": fused[:16],
        "rest": fused[16:],
        "head": stored["head"].t().contiguous().t(),
        "places": stored["places"],
        "again": stored["places"],
    }
    torch.save(views, tmp_path / "views.pt")
    rule = "  - match: [places, again]\n"
    layout.write_text(padded.LAYOUT.replace("  - match: places\n", rule))
    expected = {name: real[name] for name in padded.PADDED} | {"rest": fused[16:], "again": real["places"]}
    tenplex("reshard", tmp_path / "views.pt", tmp_path / "out.pt", "--layout", layout, "--verify")
    loaded = torch.load(tmp_path / "out.pt")
    assert_same_tensors(expected, loaded)
    assert loaded["places"].data_ptr() == loaded["again"].data_ptr()
    assert b"\x00\x00\xc0\x7f" not in (tmp_path / "out.pt").read_bytes()  # NaN
    tenplex("reshard", tmp_path / "views.pt", tmp_path / "dcp", "--format", "dcp", "--layout", layout, "--to", "tp=2")
    assert_same_tensors(expected, training.load_whole(tmp_path / "dcp"))


def test_moments_lose_the_padding_of_their_parameter(
    layout: Path, tmp_path: Path, wrote_by: Callable[[str], None]
) -> None:
    wrote_by("torch")
    stored = padded.stored_tensors()
    state = {
        "model": {name: stored[name] for name in ("emb", "head")},
        "optim": {
            "state": {
                "emb": {"step": torch.tensor(3.0), "exp_avg": 2 * stored["emb"], "exp_avg_sq": stored["emb"] ** 2},
                "head": {"step": torch.tensor(3.0), "exp_avg": -stored["head"]},
            }
        },
        "epoch": 7,
    }
    torch.save(state, tmp_path / "state.pt")
    text = padded.LAYOUT.replace("match: emb", "match: model.emb").replace("match: head", "match: model.head")
    layout.write_text(text)
    target = tmp_path / "out"
    cut = ("--layout", layout, "--verify")
    tenplex("reshard", tmp_path / "state.pt", target, "--format", "safetensors", "--to", "tp=4", *cut)
    last = load_devices(target)[3]
    assert last["model.emb"].tolist() == [[24, 25], [0, 0], [0, 0], [0, 0]]
    assert last["optim.state.emb.exp_avg"].tolist() == [[48, 50], [0, 0], [0, 0], [0, 0]]
    assert last["optim.state.emb.exp_avg_sq"].tolist() == [[576, 625], [0, 0], [0, 0], [0, 0]]
    assert last["optim.state.head.exp_avg"].tolist() == [[-12, 0, 0, 0], [-28, 0, 0, 0]]
    assert last["optim.state.emb.step"].item() == 3
    tenplex("reshard", target, tmp_path / "one.pt", *cut)
    whole = torch.load(tmp_path / "one.pt")
    assert whole["epoch"] == 7
    assert whole["optim"]["state"]["emb"]["exp_avg"].equal(2 * stored["emb"][:13])


def test_inspect_plan_and_digest_leave_it_out(save: Callable[[str], Path], layout: Path, tmp_path: Path) -> None:
    source = save("dcp")
    report = tenplex_json("inspect", source, "--tensors", "--from-layout", layout)
    assert {tensor["name"]: tensor["shape"] for tensor in report["tensors"]} == {
        name: list(tensor.shape) for name, tensor in padded.real_tensors().items()
    }
    assert {tensor["name"]: tensor["cut"]["boxes"] for tensor in report["tensors"]} == {
        "emb": 4,
        "head": 4,
        "norm": 1,
        "places": 3,  # the fourth was all padding
    }
    assert report["clipped_tensor_count"] == 3
    assert "padding      left out of 3 tensors" in tenplex("inspect", source, "--from-layout", layout).out
    assert "padding" not in tenplex("inspect", source).out
    save_file(padded.real_tensors(), tmp_path / "real.safetensors")
    real = tenplex("digest", tmp_path / "real.safetensors").out
    assert tenplex("digest", source, "--from-layout", layout).out == real
    assert tenplex("digest", source).out != real
    # emb 13·2·4, head 2·13·4 and places 12·8 bytes once, norm 3·4 bytes on both devices.
    plan = tenplex_json("plan", source, "--layout", layout, "--to", "tp=2")
    assert plan["bytes_of_target"] == 104 + 104 + 96 + 2 * 12
    assumed = tenplex("plan", source, "--from", "tp=4", "--layout", layout, "--to", "tp=2", exit_code=1)
    assert "expected 12 or 32 in dim 0 with tp=4, found 16" in assumed.err
    assert tenplex_json("plan", source, "--from", "tp=2", "--layout", layout, "--to", "tp=2")["bytes_in"] == 0


def test_verify_compares_the_data_where_a_layout_says_so(
    save: Callable[[str], Path], layout: Path, tmp_path: Path
) -> None:
    source = save("torch")
    target = tmp_path / "out"
    tenplex("reshard", source, target, "--format", "dcp", "--layout", layout, "--to", "tp=2")
    run = tenplex("verify", source, target, exit_code=1)
    assert "tensor 'emb': shape [16, 2] in the first, [13, 2] in the second" in run.out
    for pair in ((source, target), (target, source), (source, source)):
        assert tenplex_json("verify", *pair, "--from-layout", layout)["equal"]
    changed = padded.stored_tensors()
    changed["emb"][14] = 5  # padding
    changed["head"][1, 12] = 5
    torch.save(changed, tmp_path / "changed.pt")
    run = tenplex("verify", source, tmp_path / "changed.pt", "--from-layout", layout, exit_code=1)
    assert "tensor 'head': 1 of 26 elements differ; the first at [1, 12]" in run.out
    assert "'emb'" not in run.out


# Rows of emb, --from -> what the refusal says was expected.
REFUSED = {
    (12, None): "expected at least 13 in dim 0, found 12",
    (18, None): "expected 13 or a multiple of 4 in dim 0, found 18",
    (20, "tp=2"): "expected 13 or 16 in dim 0 with tp=2, found 20",
}


@pytest.mark.parametrize(("rows", "sizes"), REFUSED)
def test_another_extent_is_refused(
    rows: int, sizes: str | None, layout: Path, tmp_path: Path, wrote_by: Callable[[str], None]
) -> None:
    wrote_by("safetensors")
    source = tmp_path / "in.safetensors"
    save_file({"emb": torch.zeros(rows, 2)}, source)
    from_sizes = ("--from", sizes) if sizes else ()
    text = f"tensor 'emb' has shape [{rows}, 2] in the checkpoint and [13, 2] without what layout '{layout}' line 5"
    for command in (
        ("reshard", source, tmp_path / "out", "--layout", layout, "--to", "tp=2"),
        ("plan", source, "--layout", layout, "--to", "tp=2"),
        ("layouts", "check", layout, "--checkpoint", source),
        ("inspect", source, "--from-layout", layout),
        ("digest", source, "--from-layout", layout),
    ):
        run = tenplex(*command, *from_sizes, exit_code=1)
        assert text in run.err
        assert f"('emb') calls padding: {REFUSED[rows, sizes]}" in run.err
    assert not (tmp_path / "out").exists()
    save_file({"emb": torch.zeros(20, 2)}, source)  # what tp=5 pads to
    assert "fits" in tenplex("layouts", "check", layout, "--checkpoint", source, "--from", "tp=5").out
