# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""Sources that are no DeepSpeed checkpoint and cannot become a universal one: something is missing, or does not fit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from program import tenplex
from refusal import assert_refused

State = dict[str, Any]
Change = Callable[[State], object]
SLOTS = ("fp32_param", "exp_avg", "exp_avg_sq")


class Foreign:
    """Of a package that the program which loads the checkpoint may not have."""


Foreign.__module__ = "elsewhere.inner"


def state() -> State:
    made: State = {"w": torch.rand(3, 4), "b": torch.rand(5), "frozen": torch.rand(2)}
    for name in ("w", "b"):
        made |= {f"optimizer.state.{slot}.{name}": torch.rand(made[name].shape) for slot in SLOTS}
    made["common"] = {"iteration": 9, "optimizer": {"optimizer": {"param_groups": [{"step": 7}, {"step": 7}]}}}
    return made


def groups_of(made: State) -> Any:
    return made["common"]["optimizer"]["optimizer"]["param_groups"]


CASES: dict[str, tuple[Change, list[str]]] = {
    "no number of steps": (lambda made: made.pop("common"), ["number of steps", "--optimizer-steps"]),
    "numbers of steps that differ": (lambda made: groups_of(made)[1].update(step=8), ["7 and 8 steps"]),
    "a negative number of steps": (
        lambda made: [group.update(step=-1) for group in groups_of(made)],
        ["-1 steps"],
    ),
    "a number of steps that is none": (
        lambda made: [group.update(step=2.5) for group in groups_of(made)],
        ["number of steps"],
    ),
    "a slot of one parameter is missing": (
        lambda made: made.pop("optimizer.state.exp_avg.b"),
        ["'optimizer.state.exp_avg.b'"],
    ),
    "a master is missing": (
        lambda made: made.pop("optimizer.state.fp32_param.w"),
        ["'optimizer.state.fp32_param.w'"],
    ),
    "a parameter is missing": (lambda made: made.pop("w"), ["'w'"]),
    "masters without moments": (
        lambda made: [made.pop(f"optimizer.state.{slot}.{name}") for slot in SLOTS[1:] for name in ("w", "b")],
        ["'optimizer.state.fp32_param.b'", "--only model"],
    ),
    "a moment of another shape": (
        lambda made: made.update({"optimizer.state.exp_avg.w": torch.rand(4, 3)}),
        ["optimizer.state.exp_avg.w", "[4, 3]", "[3, 4]"],
    ),
    "a step that is none": (
        lambda made: made.update({"optimizer.state.step.w": torch.rand(2)}),
        ["'optimizer.state.step.w'"],
    ),
    "a step of no parameter": (
        lambda made: made.update({"optimizer.state.step.v": torch.tensor(7.0)}),
        ["'optimizer.state.step.v'"],
    ),
    "steps that differ": (
        lambda made: made.update(
            {f"optimizer.state.step.{name}": torch.tensor(step) for name, step in (("b", 7.0), ("w", 8.0))}
        ),
        ["'optimizer.state.step.b' and 'optimizer.state.step.w' have different values"],
    ),
    "steps of some parameters": (
        lambda made: made.update({"optimizer.state.step.w": torch.tensor(7.0)}),
        ["'optimizer.state.step.w' is there, and none of 'b'"],
    ),
    "two optimizers of other steps": (
        lambda made: made.update(
            common={"optimizer": [{"state": {"common_step": torch.tensor(step)}} for step in (5.0, 8.0)]}
        ),
        ["common_step' and 'common", "different values"],
    ),
    "a slot of no name": (
        lambda made: made.update({"optimizer.state.exp_avg": torch.rand(3)}),
        ["'optimizer.state.exp_avg'"],
    ),
    "an object outside of common": (lambda made: made.update({"iteration": 3}), ["'iteration'"]),
    "an object of another package": (
        lambda made: made["common"].update(args=Foreign()),
        ["'elsewhere'", "--only tensors", "--optimizer-steps"],
    ),
    "a name that is no folder's": (
        lambda made: made.update({name.replace("w", "a/w"): value for name, value in state().items() if "w" in name}),
        ["'a/w'", "folder"],
    ),
    "a name that is no text": (
        lambda made: made.update(
            {name.replace("w", "w\ud800"): made.pop(name) for name in list(made) if name.split(".")[-1] == "w"}
        ),
        ["cannot be the name of a folder"],
    ),
    "half of what DeepSpeed has": (
        lambda made: made["common"].update(model_states={}),
        ["'common.model_states.module'"],
    ),
    "common that is none": (lambda made: made.update(common=[1]), ["'common.model_states'"]),
}


@pytest.mark.parametrize("case", CASES)
def test_source_is_refused(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    change, mentions = CASES[case]
    made = state()
    change(made)
    import sys
    import types

    package = types.ModuleType("elsewhere.inner")
    package.Foreign = Foreign  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "elsewhere", types.ModuleType("elsewhere"))
    monkeypatch.setitem(sys.modules, "elsewhere.inner", package)
    torch.save(made, tmp_path / "in.pt")
    assert_refused(tmp_path / "in.pt", tmp_path / "to", *mentions, target_format="deepspeed")


@pytest.mark.parametrize("known", ["groups", "slots", "no optimizer", "another format"])
def test_number_of_steps_that_is_not_asked_for_is_refused(known: str, tmp_path: Path) -> None:
    made = state()
    if known == "slots":
        made |= {f"optimizer.state.step.{name}": torch.tensor(7.0) for name in ("w", "b")}
        del made["common"]
    elif known == "no optimizer":
        made = {"w": made["w"]}
    torch.save(made, tmp_path / "in.pt")
    options = ("--optimizer-steps", 7)
    target = "dcp" if known == "another format" else "deepspeed"
    assert_refused(tmp_path / "in.pt", tmp_path / "to", "--optimizer-steps", target_format=target, options=options)


def test_undamaged_source_is_written(tmp_path: Path) -> None:
    torch.save(state(), tmp_path / "in.pt")
    tenplex("reshard", tmp_path / "in.pt", tmp_path / "out", "--format", "deepspeed", "--verify")
    tenplex("reshard", tmp_path / "out", tmp_path / "back.pt", "--format", "torch")
    back = torch.load(tmp_path / "back.pt", weights_only=False)
    assert set(back) == set(state())
    assert back["common"]["iteration"] == 9
    assert back["common"]["optimizer_state"]["optimizer_state_dict"]["state"] == {0: {"step": torch.tensor(7.0)}}
    zero = tmp_path / "out" / "global_step9_universal" / "zero"
    assert sorted(path.name for path in zero.iterdir()) == ["b", "frozen", "optimizer_state.pt", "w"]
    assert torch.load(zero / "w" / "step.pt") == 7
