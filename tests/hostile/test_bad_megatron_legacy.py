# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""Legacy Megatron checkpoints whose ranks do not fit together: each is refused, and the message names what is wrong."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from makers import megatron_legacy
from program import tenplex
from refusal import assert_refused


@pytest.fixture
def dense(megatron_legacy_case: Callable[[str], Path], tmp_path: Path) -> Path:
    shutil.copytree(megatron_legacy_case("dense"), tmp_path / "dense")
    return tmp_path / "dense"


def file_of(root: Path, rank: str) -> Path:
    return root / "iter_0000070" / rank / "model_optim_rng.pt"


def edit(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    state = torch.load(path, weights_only=False)
    change(state)
    torch.save(state, path)


def refuse(root: Path, tmp_path: Path, *mentions: str) -> None:
    assert_refused(root, tmp_path / "to", *mentions)


def test_missing_rank_folder(dense: Path, tmp_path: Path) -> None:
    shutil.rmtree(dense / "iter_0000070/mp_rank_01_000")
    refuse(dense, tmp_path, "tensor rank 1, pipeline rank 0", "is missing")


def test_missing_last_stage(dense: Path, tmp_path: Path) -> None:
    for rank in ("mp_rank_00_001", "mp_rank_01_001"):
        shutil.rmtree(dense / "iter_0000070" / rank)
    refuse(dense, tmp_path, "'pipeline_model_parallel_size' 2", "the folders are of 1")


def test_missing_file(dense: Path, tmp_path: Path) -> None:
    file_of(dense, "mp_rank_01_000").unlink()
    refuse(dense, tmp_path, "mp_rank_01_000/model_optim_rng.pt")


def test_rank_of_another_iteration(dense: Path, tmp_path: Path) -> None:
    edit(file_of(dense, "mp_rank_01_001"), lambda state: state.update(iteration=80))
    refuse(dense, tmp_path, "mp_rank_01_001", "another 'iteration'")


def test_rank_of_another_mesh(dense: Path, megatron_legacy_case: Callable[[str], Path], tmp_path: Path) -> None:
    shutil.copy(file_of(megatron_legacy_case("experts"), "mp_rank_00_000"), file_of(dense, "mp_rank_01_001"))
    refuse(dense, tmp_path, "mp_rank_01_001")


def test_extra_experts(megatron_legacy_case: Callable[[str], Path], tmp_path: Path) -> None:
    root = tmp_path / "experts"
    shutil.copytree(megatron_legacy_case("experts"), root)

    def add(state: dict[str, Any]) -> None:
        model = state["model"]
        for key in [key for key in model if ".local_experts.3." in key]:
            model[key.replace(".local_experts.3.", ".local_experts.4.")] = model[key]

    edit(file_of(root, "mp_rank_00_001"), add)
    refuse(root, tmp_path, "mp_rank_00_001", "5 experts")


def test_missing_layer(dense: Path, tmp_path: Path) -> None:
    def drop(state: dict[str, Any]) -> None:
        for key in [key for key in state["model"] if key.startswith("decoder.layers.0.")]:
            del state["model"][key]

    edit(file_of(dense, "mp_rank_00_001"), drop)
    refuse(dense, tmp_path, "layer 1 of 'decoder'")


def test_missing_tensor(dense: Path, tmp_path: Path) -> None:
    edit(file_of(dense, "mp_rank_01_000"), lambda state: state["model"].pop("decoder.layers.1.mlp.linear_fc2.weight"))
    refuse(dense, tmp_path, "--only model", "the model has")


def test_part_of_another_shape(dense: Path, tmp_path: Path) -> None:
    def cut(state: dict[str, Any]) -> None:
        del state["optimizer"]
        key = "decoder.layers.0.mlp.linear_fc1.weight"
        state["model"][key] = state["model"][key][:-2].clone()

    for rank in ("mp_rank_00_000", "mp_rank_01_000", "mp_rank_00_001", "mp_rank_01_001"):
        edit(file_of(dense, rank), lambda state: state.pop("optimizer"))
    edit(file_of(dense, "mp_rank_01_000"), lambda state: state.update(optimizer=None))
    edit(file_of(dense, "mp_rank_01_000"), cut)
    refuse(dense, tmp_path, "decoder.layers.0.mlp.linear_fc1.weight")


def test_copies_that_differ(dense: Path, tmp_path: Path) -> None:
    edit(
        file_of(dense, "mp_rank_01_000"),
        lambda state: state["model"]["decoder.layers.1.input_layernorm.weight"].add_(1),
    )
    refuse(dense, tmp_path, "decoder.layers.1.input_layernorm.weight", "different values")


def test_optimizer_in_another_order(dense: Path, tmp_path: Path) -> None:
    def swap(state: dict[str, Any]) -> None:
        numbers = state["optimizer"]["optimizer"]["param_groups"][0]["params"]
        numbers[0], numbers[2] = numbers[2], numbers[0]

    edit(file_of(dense, "mp_rank_00_000"), swap)
    refuse(dense, tmp_path, "the order is not the model's", "--only model")


def test_groups_that_do_not_say_their_kind(dense: Path, tmp_path: Path) -> None:
    def forget(state: dict[str, Any]) -> None:
        for group in state["optimizer"]["optimizer"]["param_groups"]:
            del group["wd_mult"]

    edit(file_of(dense, "mp_rank_00_000"), forget)
    refuse(dense, tmp_path, "'wd_mult'", "--only model")


def test_distributed_optimizer(dense: Path, tmp_path: Path) -> None:
    (file_of(dense, "mp_rank_00_000").parent / "distrib_optim.pt").write_bytes(b"PK\3\4")
    refuse(dense, tmp_path, "distrib_optim.pt", "--only model")


def test_the_model_alone_is_read_where_its_optimizer_cannot_be(
    dense: Path, megatron_legacy_case: Callable[[str], Path], tmp_path: Path
) -> None:
    (file_of(dense, "mp_rank_00_000").parent / "distrib_optim.pt").write_bytes(b"PK\3\4")
    tenplex("reshard", dense, tmp_path / "model.pt", "--only", "model", "--verify")
    tree = torch.load(tmp_path / "model.pt", weights_only=False)
    assert "optimizer" not in tree["common"]
    tenplex("reshard", dense, tmp_path / "tensors.safetensors", "--only", "model,tensors", "--format", "safetensors")
    expected = {
        name: tensor
        for name, tensor in megatron_legacy.expected_tensors("dense", megatron_legacy_case("dense").parent).items()
        if not name.startswith("optimizer.")
    }
    found = load_file(tmp_path / "tensors.safetensors")
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], tensor) for name, tensor in expected.items())


def test_steps_that_differ(dense: Path, tmp_path: Path) -> None:
    def advance(state: dict[str, Any]) -> None:
        state["optimizer"]["optimizer"]["state"][3]["step"] += 1

    edit(file_of(dense, "mp_rank_01_000"), advance)
    refuse(dense, tmp_path, "not all parameters are at the same step")


def test_unknown_tensor(dense: Path, tmp_path: Path) -> None:
    for rank in ("mp_rank_00_000", "mp_rank_01_000"):
        edit(file_of(dense, rank), lambda state: state["model"].update({"vision.patch.bias": torch.zeros(4)}))
        edit(file_of(dense, rank), lambda state: state.update(optimizer=None))
    refuse(dense, tmp_path, "vision.patch.bias", "no rule")


def test_model_of_before_megatron_core(dense: Path, tmp_path: Path) -> None:
    edit(file_of(dense, "mp_rank_00_000"), lambda state: state.update(model={"language_model": {}}))
    refuse(dense, tmp_path, "'language_model'", "before Megatron-Core")


@pytest.mark.parametrize("text", ["", "seventy", "-7", "7" * 40, "71"])
def test_bad_number_of_the_iteration(text: str, dense: Path, tmp_path: Path) -> None:
    (dense / "latest_checkpointed_iteration.txt").write_text(text)
    assert_refused(dense, tmp_path / "to")


@pytest.mark.parametrize("size", [0, 100, 5000])
def test_truncated_file(size: int, dense: Path, tmp_path: Path) -> None:
    with file_of(dense, "mp_rank_01_001").open("r+b") as file:
        file.truncate(size)
    refuse(dense, tmp_path, "mp_rank_01_001/model_optim_rng.pt")


def tie(root: Path, same: bool) -> None:
    """As Megatron-LM stores tied embeddings over two stages: a copy on the last one."""
    for tensor in (0, 1):
        first = torch.load(file_of(root, f"mp_rank_{tensor:02d}_000"), weights_only=False)
        words = first["model"]["embedding.word_embeddings.weight"]

        def copy(state: dict[str, Any], words: torch.Tensor = words) -> None:
            state["args"].untie_embeddings_and_output_weights = False
            state["model"]["output_layer.weight"] = words.clone() if same else words + 1
            state.pop("optimizer")

        def mark(state: dict[str, Any]) -> None:
            state["args"].untie_embeddings_and_output_weights = False
            state.pop("optimizer")

        edit(file_of(root, f"mp_rank_{tensor:02d}_001"), copy)
        edit(file_of(root, f"mp_rank_{tensor:02d}_000"), mark)


def test_tied_copies_are_one_tensor(dense: Path, tmp_path: Path) -> None:
    tie(dense, same=True)
    tenplex("reshard", dense, tmp_path / "whole.pt")
    tree = torch.load(tmp_path / "whole.pt", weights_only=False)
    assert "embedding.word_embeddings.weight" in tree
    assert "output_layer.weight" not in tree


def test_tied_copies_that_differ_are_kept_with_a_warning(dense: Path, tmp_path: Path) -> None:
    tie(dense, same=False)
    run = tenplex("reshard", dense, tmp_path / "whole.pt")
    assert "both are kept" in run.err
    tree = torch.load(tmp_path / "whole.pt", weights_only=False)
    assert torch.equal(tree["embedding.word_embeddings.weight"] + 1, tree["output_layer.weight"])
