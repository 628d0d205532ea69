# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""States that no legacy Megatron checkpoint can hold, or whose optimizer cannot be put together: each is refused, and
the message names what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from makers import megatron_legacy
from program import tenplex
from refusal import assert_refused

LAYER = "decoder.layers.0.self_attention.linear_proj.weight"


def state(**common: Any) -> dict[str, Any]:
    """A layer's weight with a slot, and groups that fit."""
    groups = [{"wd_mult": 1.0, "lr": 1e-4}, {"wd_mult": 0.0, "lr": 1e-4}]
    return {
        LAYER: torch.ones(4, 4),
        f"optimizer.state.exp_avg.{LAYER}": torch.ones(4, 4),
        "common": {"iteration": 7, "optimizer": {"optimizer": {"param_groups": groups}}} | common,
    }


def refuse(
    tree: dict[str, Any], tmp_path: Path, *mentions: str, layout: str = "megatron-gpt", to: str = "tp=2"
) -> None:
    torch.save(tree, tmp_path / "source.pt")
    options = ("--layout", layout, "--to", to)
    assert_refused(tmp_path / "source.pt", tmp_path / "to", *mentions, options=options, target_format="megatron")


def test_such_a_state_is_written(tmp_path: Path) -> None:
    torch.save(state(), tmp_path / "source.pt")
    options = ("--format", "megatron", "--layout", "megatron-gpt", "--to", "tp=2")
    tenplex("reshard", tmp_path / "source.pt", tmp_path / "target", *options, "--verify")


def test_slot_without_optimizer(tmp_path: Path) -> None:
    refuse(state(optimizer=None), tmp_path, "no 'common.optimizer'", "--only model")


def test_groups_that_do_not_say_what_they_have(tmp_path: Path) -> None:
    refuse(state(optimizer={"optimizer": {"param_groups": [{"lr": 1e-4}]}}), tmp_path, "wd_mult", "group 0")


def test_optimizer_without_slots(tmp_path: Path) -> None:
    tree = state()
    del tree[f"optimizer.state.exp_avg.{LAYER}"]
    refuse(tree, tmp_path, "no slots", "--only model")


def test_no_groups(tmp_path: Path) -> None:
    refuse(state(optimizer={"optimizer": {}}), tmp_path, "no 'param_groups'")


def test_parameter_without_a_group(tmp_path: Path) -> None:
    groups = {"optimizer": {"param_groups": [{"wd_mult": 0.0}]}}
    refuse(state(optimizer=groups), tmp_path, LAYER, "in no group")


def test_slot_without_its_parameter(tmp_path: Path) -> None:
    tree = state()
    tree["optimizer.state.exp_avg.decoder.layers.0.input_layernorm.weight"] = torch.ones(4)
    refuse(tree, tmp_path, "optimizer.state.exp_avg.decoder.layers.0.input_layernorm.weight")


def test_slot_of_another_shape(tmp_path: Path) -> None:
    refuse(state() | {f"optimizer.state.exp_avg.{LAYER}": torch.ones(8, 4)}, tmp_path, f"exp_avg.{LAYER}")


def test_float32_copy_of_a_float32_parameter(tmp_path: Path) -> None:
    refuse(state() | {f"optimizer.state.fp32_param.{LAYER}": torch.ones(4, 4)}, tmp_path, LAYER, "float32 copy")


def test_object_without_a_place(tmp_path: Path) -> None:
    refuse(state() | {"loss": 0.5}, tmp_path, "object 'loss' has no place")


def test_common_state_with_the_name_of_the_model(tmp_path: Path) -> None:
    refuse(state(model={"a": 1}), tmp_path, "'common' has an item 'model'")


def test_missing_layer(tmp_path: Path) -> None:
    refuse({LAYER.replace("0", "1"): torch.ones(4, 4)}, tmp_path, "layer 0 of 'decoder' is missing")


def test_missing_expert(tmp_path: Path) -> None:
    front = "decoder.layers.0.mlp.experts.local_experts"
    tree = {f"{front}.{expert}.linear_fc2.weight": torch.ones(4, 4) for expert in (0, 2)}
    refuse(tree, tmp_path, "expert 2 is there, and not all before it")


@pytest.mark.parametrize(
    "name",
    ["decoder.layers.self_attention.linear_proj.weight", "decoder.layers.0.mlp.experts.experts.linear_fc2.weight"],
)
def test_tensor_of_several_modules(name: str, tmp_path: Path) -> None:
    refuse({name: torch.ones(2, 4, 4)}, tmp_path, name, "--map megatron-modules", to="")


def test_slots_that_are_cut_over_data_parallel_ranks(
    megatron_legacy_case: Callable[[str], Path], tmp_path: Path
) -> None:
    options = ("--layout", "megatron-gpt+zero1", "--to", "tp=2,dp=2")
    source = megatron_legacy_case("dense")
    assert megatron_legacy.CASES["dense"].optimizer
    run = tenplex("reshard", source, tmp_path / "to", "--format", "megatron", *options, exit_code=1)
    assert "optimizer.state." in run.err
    assert not (tmp_path / "to").exists()


def test_layout_of_other_axes(tmp_path: Path) -> None:
    refuse({LAYER: torch.ones(4, 4)}, tmp_path, "axis 'fsdp'", layout="fsdp", to="fsdp=2")


def test_experts_of_another_tensor_parallel_size(tmp_path: Path) -> None:
    refuse({LAYER: torch.ones(4, 4)}, tmp_path, "tp 2 and etp 1", to="tp=2,etp=1,ep=2")


def test_file_beside_the_tensors(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    folder = tmp_path / "hf"
    folder.mkdir()
    save_file({LAYER: torch.ones(4, 4)}, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text("{}")
    options = ("--format", "megatron", "--layout", "megatron-gpt")
    run = tenplex("reshard", folder, tmp_path / "to", *options, exit_code=1)
    assert "config.json" in run.err
    assert "--drop-extra-files" in run.err
    tenplex("reshard", folder, tmp_path / "to", *options, "--drop-extra-files")


def test_a_layout_that_cuts_otherwise_is_refused(tmp_path: Path) -> None:
    """The files do not say how they are cut: nobody could put them together again."""
    plain = "meshes: {dense: [tp]}\ntensors:\n  - match: '*'\n    slice: [{dim: 0, by: tp}]\n"
    (tmp_path / "plain.yaml").write_text(plain)
    save_file({"t0": torch.ones(8, 6)}, tmp_path / "other.safetensors")
    options = ("--layout", tmp_path / "plain.yaml", "--to", "tp=2")
    assert_refused(
        tmp_path / "other.safetensors",
        tmp_path / "to",
        "'t0'",
        "megatron-gpt",
        target_format="megatron",
        options=options,
    )
    gated = {
        "decoder.layers.0.mlp.linear_fc1.weight": torch.ones(16, 4),
        "decoder.layers.0.mlp.linear_fc2.weight": torch.ones(4, 8),
    }
    save_file(gated, tmp_path / "gated.safetensors")
    mentions = ("cut otherwise", "linear_fc1", "mp_rank_00")
    assert_refused(
        tmp_path / "gated.safetensors", tmp_path / "to", *mentions, target_format="megatron", options=options
    )
