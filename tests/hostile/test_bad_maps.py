# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""Maps that are wrong, and models that do not fit a map: the message names the tensors, the rule and its line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from refusal import assert_refused, run_within_limits

LAYER = "model.layers.{}.self_attn."
MODEL = {
    LAYER.format(layer) + part: torch.ones(rows, 4)
    for layer in (0, 1)
    for part, rows in (("q_proj.weight", 8), ("k_proj.weight", 4), ("v_proj.weight", 4))
} | {LAYER.format(layer) + "o_proj.weight": torch.ones(4, 8) for layer in (0, 1)}
SIZES = ("--sizes", "heads=4,groups=2")


def without(*parts: str) -> dict[str, torch.Tensor]:
    return {name: tensor for name, tensor in MODEL.items() if not any(part in name for part in parts)}


# Joined: 4 heads, 1 group, 4 rows per head.
JOINED = {
    "decoder.layers.0.self_attention.linear_qkv.weight": torch.arange(96.0).reshape(24, 4),
    "decoder.layers.0.self_attention.linear_proj.weight": torch.ones(4, 16),
}

MISFITS: dict[str, tuple[dict[str, torch.Tensor], tuple[str, ...], tuple[str, ...]]] = {
    "wrong number of heads": (MODEL, ("--sizes", "heads=3,groups=2"), ("0.self_attn.q_proj", "heads 3", "line 20")),
    "more groups than rows": (MODEL, ("--sizes", "heads=16,groups=8"), ("q_proj", "8 does not divide 4", "line 20")),
    "huge heads": (MODEL, ("--sizes", f"heads={2**62},groups=2"), ("heads",)),
    "huge groups": (MODEL, ("--sizes", f"heads={2**62},groups={2**61}"), ("blocks, at most 65536",)),
    "zero heads": (MODEL, ("--sizes", "heads=0,groups=2"), ("'heads' must be at least 1",)),
    "negative groups": (MODEL, ("--sizes", "heads=4,groups=-2"), ("'groups' must be at least 1",)),
    "a size that the map lacks": (MODEL, ("--sizes", "heads=4,experts=2"), ("'experts'", "heads, groups")),
    "a size twice": (MODEL, ("--sizes", "heads=4,heads=4"), ("'heads' is given twice",)),
    "a stack of two million layers": (
        {"decoder.layers.mlp.linear_fc2.weight": torch.ones(2**21, 0)},
        (),
        ("line", "more than 1048576 tensors"),
    ),
    "groups are not told": (JOINED, ("--sizes", "heads=4"), ("'groups' of map 'hf-llama' has no value", "'heads'")),
    "more groups than the model has": (
        JOINED,
        ("--sizes", "heads=4,groups=2"),
        ("0.self_attn.q_proj.weight' of shape [12, 4]", "0.self_attn.o_proj.weight' of shape [4, 16]", "heads 4"),
    ),
    "a layer without o_proj": (
        without("1.self_attn.o_proj"),
        SIZES,
        ("'model.layers.1.self_attn.o_proj.weight' is missing", "whole models"),
    ),
    "no sizes": (MODEL, (), ("'heads'", "--sizes", "num_attention_heads")),
    "a part is missing": (without("1.self_attn.k"), SIZES, ("layers.1.self_attn.k_proj.weight' is missing",)),
    "a layer is missing": (
        without("layers.1") | {"model.layers.2.input_layernorm.weight": torch.ones(4)},
        SIZES,
        ("no tensor has layer 1",),
    ),
    "a tensor that no rule knows": (MODEL | {"model.extra": torch.ones(3)}, SIZES, ("'model.extra' of shape [3]",)),
    "no tensor that a rule knows": ({"extra": torch.ones(3)}, SIZES, ("'extra'", "none of them")),
    "two dtypes in one tensor": (
        MODEL | {LAYER.format(0) + "k_proj.weight": torch.ones(4, 4, dtype=torch.bfloat16)},
        SIZES,
        ("k_proj.weight' of bfloat16 [4, 4]", "line 20"),
    ),
    "rows of two lengths": (
        MODEL | {LAYER.format(0) + "k_proj.weight": torch.ones(4, 5)},
        SIZES,
        ("k_proj.weight' of shape [4, 5]", "line 20"),
    ),
}


@pytest.mark.parametrize("what", MISFITS)
def test_model_that_does_not_fit_is_refused(what: str, tmp_path: Path) -> None:
    tensors, sizes, mentions = MISFITS[what]
    save_file(tensors, tmp_path / "in.safetensors")
    assert_refused(tmp_path / "in.safetensors", tmp_path / "to", *mentions, options=("--map", "hf-llama", *sizes))


EXPERTS = """sides: [a, b]
tensors:
  - {a: '{layer}.norm', b: 'x.{layer}.norm'}
  - {a: '{layer}.{expert}.w', b: 'x.{layer}.{expert}'PARTIAL}
"""


@pytest.mark.parametrize(
    ("partial", "experts", "missing"),
    [
        ("", ["0.0", "0.1", "1.0", "1.1", "2.0"], "2.1.w"),
        ("", ["0.0", "0.1", "2.0", "2.1"], "1.0.w"),
        (", partial: layer", ["0.0", "0.1", "2.0"], "2.1.w"),
        (", partial: layer", ["0.0", "0.1", "2.0", "2.1"], None),
        (", partial: [layer, expert]", ["0.0", "0.1", "2.0"], None),
    ],
)
def test_layers_have_all_experts_unless_they_may_lack_them(
    partial: str, experts: list[str], missing: str | None, tmp_path: Path
) -> None:
    (tmp_path / "experts.yaml").write_text(EXPERTS.replace("PARTIAL", partial))
    names = [f"{layer}.norm" for layer in range(3)] + [f"{expert}.w" for expert in experts]
    save_file({name: torch.ones(2) for name in names}, tmp_path / "in.safetensors")
    options = ("--map", tmp_path / "experts.yaml")
    if missing:
        assert_refused(tmp_path / "in.safetensors", tmp_path / "to", f"'{missing}' is missing", options=options)
    else:
        run_within_limits("inspect", tmp_path / "in.safetensors", *options, exit_code=0)


def test_one_name_twice_in_a_list_is_refused(tmp_path: Path) -> None:
    (tmp_path / "twice.yaml").write_text("sides: [a, b]\ntensors: [{a: [x, x], b: y, widths: [1, 1]}]\n")
    run = run_within_limits("maps", "check", tmp_path / "twice.yaml", exit_code=1)
    assert "'x' occurs twice" in run.err


CONFIGS: dict[str, tuple[str, tuple[str, ...]]] = {
    "no JSON": ("{", ("config.json", "no JSON object")),
    "a list": ("[]", ("config.json", "no JSON object")),
    "deep": ("[" * 1_000_000, ("config.json", "no JSON object")),
    "text for a number": (
        json.dumps({"num_attention_heads": "4"}),
        ("'heads'", 'num_attention_heads "4"', "a whole number"),
    ),
    "a fraction": ('{"num_attention_heads": 4.0}', ("num_attention_heads 4.0", "a whole number")),
    "true": ('{"num_attention_heads": true}', ("num_attention_heads true", "a whole number")),
    "a list of one": ('{"num_attention_heads": [4]}', ("num_attention_heads [4]", "a whole number")),
    "null": ('{"num_attention_heads": null}', ("'heads'", "no value")),
    "groups as text": ('{"num_attention_heads": 4, "num_key_value_heads": "2"}', ('num_key_value_heads "2"',)),
    "zero": (json.dumps({"num_attention_heads": 0}), ("'heads' must be at least 1",)),
    "beyond 64 bits": (json.dumps({"num_attention_heads": 2**64 - 1}), ("heads",)),
}


@pytest.mark.parametrize("what", CONFIGS)
def test_config_that_does_not_tell_is_refused(what: str, tmp_path: Path) -> None:
    text, mentions = CONFIGS[what]
    save_file(MODEL, tmp_path / "in.safetensors")
    (tmp_path / "config.json").write_text(text)
    assert_refused(tmp_path / "in.safetensors", tmp_path / "to", *mentions, options=("--map", "hf-llama"))


def test_objects_have_no_other_names(tmp_path: Path) -> None:
    torch.save({**MODEL, "step": 7}, tmp_path / "in.pt")
    run = run_within_limits("inspect", tmp_path / "in.pt", "--map", "hf-llama", *SIZES, exit_code=1)
    assert "object 'step' has no place" in run.err


HEAD = "sides: [a, b]\n"
WRONG: dict[str, tuple[str, tuple[str, ...]]] = {
    "empty": ("", ()),
    "no YAML": ("sides: [x\n", ()),
    "unknown key": (HEAD + "tensors:\n  - {a: x, c: y}\n", ("'c'", "line 3")),
    "anchors": (HEAD + "tensors: &x []\n", ("anchors",)),
    "nested 100,000 deep": (HEAD + "tensors: " + "[" * 100_000, ()),
    "a rule that two sides share": (HEAD + "tensors:\n  - {a: '{l}', b: x}\n", ("[l]", "line 3")),
    "binary": ("\x00\x01\x02", ()),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_map_is_refused_with_its_line(what: str, tmp_path: Path) -> None:
    text, mentions = WRONG[what]
    (tmp_path / "wrong.yaml").write_text(text)
    save_file(MODEL, tmp_path / "in.safetensors")
    options = ("--map", tmp_path / "wrong.yaml")
    run = assert_refused(tmp_path / "in.safetensors", tmp_path / "to", *mentions, options=options)
    assert "wrong.yaml" in run.err
    run_within_limits("maps", "check", tmp_path / "wrong.yaml", exit_code=1)
