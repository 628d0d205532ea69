# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""The flat state of Megatron-Core's distributed optimizer, in both formats: which elements are which parameter's follows
from the order that the library's own buffers have."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from compare import assert_same_tensor, assert_same_tree
from makers import megatron_dist, megatron_legacy
from makers.megatron_dist import expected
from program import tenplex, tenplex_json
from refusal import assert_refused
from stored_megatron import common_of, metadata_of, sizes_of, stored, whole

Case = Callable[[str], Path]
DIST = sorted(megatron_dist.FLAT_CASES)
LEGACY = sorted(megatron_legacy.FLAT_CASES)
GROUPS = [{"lr": 1e-4, "step": 70, "betas": (0.9, 0.999)}]


def tensors_of(path: Path) -> dict[str, torch.Tensor]:
    """Of a .pt file, under their names in the whole model."""
    state = torch.load(path, weights_only=False)
    return {key: value for key, value in state.items() if key != "common" and "/shard_" not in key}


def module_order(case: megatron_dist.Case) -> list[str]:
    """Of the parameters of the tests' model, written by hand: norms are modules of their own, experts one module each."""
    norm = ("weight", "bias")
    names = ["embedding.word_embeddings.weight", "embedding.position_embeddings.weight"]
    linear = ("weight",) if case.experts else ("weight", "bias")
    for layer in range(megatron_dist.LAYERS):
        front = f"decoder.layers.{layer}"
        names += [f"{front}.input_layernorm.{part}" for part in norm]
        names += [f"{front}.self_attention.{name}.{part}" for name in ("linear_proj", "linear_qkv") for part in linear]
        names += [f"{front}.pre_mlp_layernorm.{part}" for part in norm]
        if not case.experts:
            names += [f"{front}.mlp.{name}.{part}" for name in ("linear_fc1", "linear_fc2") for part in linear]
            continue
        names.append(f"{front}.mlp.router.weight")
        for expert in range(megatron_dist.EXPERTS):
            names += [f"{front}.mlp.experts.local_experts.{expert}.linear_fc{half}.weight" for half in (1, 2)]
    return [
        *names,
        *(f"decoder.final_layernorm.{part}" for part in norm),
        *([] if case.tied else ["output_layer.weight"]),
    ]


# ── megatron-dist ──


@pytest.mark.parametrize("name", DIST)
def test_buckets_are_read_as_slots(
    name: str, megatron_dist_case: Case, tmp_path: Path, wrote_by: Callable[[str], None]
) -> None:
    wrote_by("megatron-core")
    source = megatron_dist_case(name)
    assert not [key for key in sizes_of(source) if key.startswith("optimizer.state.")]
    tenplex("reshard", source, tmp_path / "whole.pt", "--verify")
    found = tensors_of(tmp_path / "whole.pt")
    model = [key for key in found if not key.startswith("optimizer.")]
    slots = [f"optimizer.state.{slot}.{key}" for slot in ("exp_avg", "exp_avg_sq", "param") for key in model]
    assert sorted(found) == sorted([*model, *slots])
    for key, value in found.items():
        assert_same_tensor(expected(key, tuple(value.shape), value.dtype), value, key)
    common = torch.load(tmp_path / "whole.pt", weights_only=False)["common"]
    one = {"optimizer": {"param_groups": GROUPS}, "param_state_sharding_type": "fully_reshardable"}
    assert_same_tree(common["optimizer"], {0: one, 1: one} if name == "flat-experts" else one)
    assert common["content_metadata"]["distrib_optim_sharding_type"] == "fully_reshardable"


@pytest.mark.parametrize("name, mesh", [("flat", "tp=4"), ("flat", "pp=4"), ("flat-experts", "dp=4,ep=4")])
def test_buckets_are_cut_anew(name: str, mesh: str, megatron_dist_case: Case, tmp_path: Path) -> None:
    target = tmp_path / "out"
    options = ("--layout", "megatron-gpt+zero1", "--to", mesh, "--sizes", "divisor=4")
    tenplex("reshard", megatron_dist_case(name), target, *options, "--verify")
    chunks = stored(target)[0]
    sizes = sizes_of(target)
    assert len([key for key in sizes if key.startswith("optimizer.state.")]) > 30
    for key, size in sizes.items():
        assert_same_tensor(expected(key, size, next(iter(chunks[key].values())).dtype), whole(size, chunks[key]), key)
    assert common_of(target)["content_metadata"]["distrib_optim_sharding_type"] == "fully_reshardable"
    tenplex("verify", megatron_dist_case(name), target)


def test_a_given_order_is_the_one_that_counts(megatron_dist_case: Case, tmp_path: Path) -> None:
    order = tmp_path / "order.txt"
    for name in ("flat", "flat-experts", "flat-tied"):
        right = module_order(megatron_dist.FLAT_CASES[name])
        order.write_text("# of GPTModel\n" + "".join(f"module.{line}\n" for line in right))
        target = tmp_path / f"{name}.pt"
        tenplex("reshard", megatron_dist_case(name), target, "--param-order", order)
        for key, value in tensors_of(target).items():
            assert_same_tensor(expected(key, tuple(value.shape), value.dtype), value, key)


def test_the_shared_embeddings_need_not_be_named_twice(megatron_legacy_case: Case, tmp_path: Path) -> None:
    source = megatron_legacy_case("flat-tied")
    names = module_order(megatron_dist.FLAT_CASES["flat-tied"])
    for order in (names, [*names, "output_layer.weight"]):
        (tmp_path / "order.txt").write_text("\n".join(order))
        tenplex("verify", source, source, "--param-order", tmp_path / "order.txt")


def swapped(names: list[str], one: str, other: str) -> list[str]:
    places = {one: other, other: one}
    return [places.get(name, name) for name in names]


@pytest.mark.parametrize(
    "change, mention",
    [
        # Two parameters of one size: only their values tell.
        (
            lambda names: swapped(
                names, "decoder.layers.0.input_layernorm.weight", "decoder.layers.0.pre_mlp_layernorm.weight"
            ),
            "is not what the model has",
        ),
        (lambda names: swapped(names, "output_layer.weight", "decoder.layers.3.mlp.linear_fc1.weight"), "bucket"),
        (lambda names: names[:-1], "bucket"),
        (lambda names: [*names, "decoder.layers.9.mlp.linear_fc1.weight"], "which the model does not have"),
    ],
)
def test_a_wrong_order_is_refused(
    change: Callable[[list[str]], list[str]], mention: str, megatron_dist_case: Case, tmp_path: Path
) -> None:
    (tmp_path / "order.txt").write_text("\n".join(change(module_order(megatron_dist.FLAT_CASES["flat"]))))
    run = tenplex(
        "reshard", megatron_dist_case("flat"), tmp_path / "out", "--param-order", tmp_path / "order.txt", exit_code=1
    )
    assert mention in run.err
    assert "dp_reshardable" in run.err
    assert not (tmp_path / "out").exists()


def test_what_does_not_fit_stays_in_buckets_and_says_why(megatron_dist_case: Case, tmp_path: Path) -> None:
    report = tenplex_json("inspect", megatron_dist_case("buckets"))
    assert [line for line in report["problems"] if "left as they are" in line and "common.args" in line]


# ── legacy ──


@pytest.mark.parametrize("name", LEGACY)
def test_distrib_optim_is_read_as_slots(
    name: str, megatron_legacy_case: Case, tmp_path: Path, wrote_by: Callable[[str], None]
) -> None:
    wrote_by("megatron-core")
    source = megatron_legacy_case(name)
    assert list(source.rglob("distrib_optim.pt"))
    tenplex("reshard", source, tmp_path / "whole.pt", "--verify")
    wanted = megatron_legacy.expected_tensors(name, source.parent)
    found = tensors_of(tmp_path / "whole.pt")
    assert found.keys() == wanted.keys()
    for key, value in wanted.items():
        assert_same_tensor(value, found[key], key)
    optimizer = torch.load(tmp_path / "whole.pt", weights_only=False)["common"]["optimizer"]
    for one in optimizer if isinstance(optimizer, list) else [optimizer]:
        assert one["param_state_sharding_type"] == "fully_reshardable"
        assert {group["step"] for group in one["optimizer"]["param_groups"]} == {69}


@pytest.mark.parametrize("name", LEGACY)
def test_distrib_optim_becomes_a_distributed_checkpoint(name: str, megatron_legacy_case: Case, tmp_path: Path) -> None:
    options = ("--map", "megatron-modules", "--layout", "megatron-gpt", "--to", "tp=4", "--verify")
    tenplex("reshard", megatron_legacy_case(name), tmp_path / "out", "--format", "megatron-dist", *options)
    chunks = stored(tmp_path / "out")[0]
    sizes = sizes_of(tmp_path / "out")
    assert len([key for key in sizes if key.startswith("optimizer.state.param.")]) > 20
    for key, size in sizes.items():
        assert_same_tensor(expected(key, size, next(iter(chunks[key].values())).dtype), whole(size, chunks[key]), key)


def test_distrib_optim_becomes_that_of_a_plain_optimizer(megatron_legacy_case: Case, tmp_path: Path) -> None:
    """Megatron-LM's mixed-precision optimizer, for another grid: the copies, the moments, and a step each."""
    options = ("--format", "megatron", "--layout", "megatron-gpt", "--to", "tp=2", "--verify")
    tenplex("reshard", megatron_legacy_case("flat"), tmp_path / "out", *options)
    tenplex("verify", megatron_legacy_case("flat"), tmp_path / "out", "--only", "tensors")
    assert not list((tmp_path / "out").rglob("distrib_optim.pt"))
    state = torch.load(next((tmp_path / "out").rglob("mp_rank_01/model_optim_rng.pt")), weights_only=False)
    optimizer: dict[str, Any] = state["optimizer"]
    assert {float(entry["step"]) for entry in optimizer["optimizer"]["state"].values()} == {69.0}
    assert len(optimizer["fp32_from_fp16_params"][0]) == len(optimizer["optimizer"]["param_groups"][0]["params"])
    tenplex("reshard", tmp_path / "out", tmp_path / "whole.pt")
    found = tensors_of(tmp_path / "whole.pt")
    for key, value in megatron_legacy.expected_tensors("flat", megatron_legacy_case("flat").parent).items():
        assert_same_tensor(value, found[key.replace("optimizer.state.param.", "optimizer.state.fp32_param.")], key)


@pytest.fixture
def flat(megatron_legacy_case: Case, tmp_path: Path) -> Path:
    shutil.copytree(megatron_legacy_case("flat"), tmp_path / "flat")
    return tmp_path / "flat"


def edit(root: Path, rank: str, change: Callable[[Any], None]) -> None:
    path = root / "iter_0000070" / rank / "distrib_optim.pt"
    state = torch.load(path, weights_only=False)
    change(state)
    torch.save(state, path)


def first_buffer(state: Any) -> dict[str, Any]:
    [buffer] = state[0].values()
    return buffer


def shorten(state: Any) -> None:
    buffer = first_buffer(state)
    for slot in ("param", "exp_avg", "exp_avg_sq"):
        buffer[slot] = buffer[slot][:-1].clone()
    buffer["numel_unpadded"] -= 1


def exchange(state: Any) -> None:
    """Two parameters of one size trade places, as if the order were another."""
    values = first_buffer(state)["param"]
    values[-64:] = values[-64:].flip(0)


@pytest.mark.parametrize(
    "change, mention",
    [
        (shorten, "elements, and the rank's parameters take"),
        (exchange, "is not what the model has"),
        (lambda state: state.update(buckets_coalesced=False), "'buckets_coalesced' is not True"),
        (lambda state: state.pop(0), "0 buffers"),
        (lambda state: state.update({5: state[0]}), "1 more beside"),
        (lambda state: first_buffer(state).pop("param"), "it has no 'param'"),
        (lambda state: first_buffer(state).pop("numel_unpadded"), "it has no 'numel_unpadded'"),
        (lambda state: first_buffer(state).update(exp_avg=torch.zeros(3)), "'exp_avg' has shape [3]"),
        (lambda state: state.update({0: {"x": first_buffer(state)}}), "its key is no pair of types"),
        (lambda state: state.update({0: {(torch.float16, torch.float32): first_buffer(state)}}), "float16"),
    ],
)
def test_a_damaged_distrib_optim_is_refused(
    change: Callable[[Any], None], mention: str, flat: Path, tmp_path: Path
) -> None:
    edit(flat, "mp_rank_01_001", change)
    assert_refused(flat, tmp_path / "out", mention, "mp_rank_01_001/distrib_optim.pt", "--only model")


def test_a_missing_or_truncated_distrib_optim_is_refused(flat: Path, tmp_path: Path) -> None:
    path = flat / "iter_0000070/mp_rank_00_001/distrib_optim.pt"
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    assert_refused(flat, tmp_path / "out", "mp_rank_00_001/distrib_optim.pt")
    path.unlink()
    assert_refused(flat, tmp_path / "out", "mp_rank_00_001/distrib_optim.pt")
    tenplex("reshard", flat, tmp_path / "model.pt", "--only", "model")


def test_one_of_another_iteration_is_refused(flat: Path, tmp_path: Path) -> None:
    """Its float32 copies are not those of the model beside it."""
    edit(flat, "mp_rank_00_000", lambda state: first_buffer(state)["param"].mul_(1.5))
    assert_refused(flat, tmp_path / "out", "not of one iteration")


def test_frozen_parameters_are_left_out_by_the_order(flat: Path, tmp_path: Path) -> None:
    """What an optimizer has no state of is not in the order; with another order than its own nothing fits."""
    names = module_order(megatron_dist.FLAT_CASES["flat"])
    (tmp_path / "order.txt").write_text("\n".join(names))
    tenplex("reshard", flat, tmp_path / "right.pt", "--param-order", tmp_path / "order.txt")
    (tmp_path / "order.txt").write_text("\n".join(name for name in names if "word_embeddings" not in name))
    run = tenplex("reshard", flat, tmp_path / "out", "--param-order", tmp_path / "order.txt", exit_code=1)
    assert "the rank's parameters take" in run.err


@pytest.mark.parametrize(
    "change, mention",
    [
        (lambda name: name.replace("bucket_idx_0", "bucket_idx_00"), "is the name of no bucket"),
        (lambda name: name.replace("bucket_idx_0", "bucket_idx_7"), "the one before it is missing"),
        (lambda name: name.replace("gbuf_idx_0.", "gbuf_idx_0.more."), "is the name of no bucket"),
    ],
)
def test_what_only_looks_like_a_bucket_is_refused(
    change: Callable[[str], str], mention: str, megatron_dist_case: Case, tmp_path: Path
) -> None:
    shutil.copytree(megatron_dist_case("flat"), tmp_path / "flat")
    metadata = metadata_of(tmp_path / "flat")
    front = "optimizer.distributed.dp_group_idx_0.gbuf_idx_0."
    for name in [key for key in metadata.state_dict_metadata if key.startswith(front) and "bucket_idx_0" in key]:
        metadata.state_dict_metadata[change(name)] = copy.deepcopy(metadata.state_dict_metadata[name])
        for index, place in list(metadata.storage_data.items()):
            if index.fqn == name:
                metadata.storage_data[dataclasses.replace(index, fqn=change(name))] = copy.deepcopy(place)
    with open(tmp_path / "flat/.metadata", "wb") as file:
        pickle.dump(metadata, file)
    assert_refused(tmp_path / "flat", tmp_path / "out", mention, "dp_reshardable")
