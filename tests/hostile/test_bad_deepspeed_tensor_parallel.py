# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed folders of several tensor parallel ranks that do not fit each other, or rules that do not fit them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from compare import assert_same_tensors
from makers import deepspeed_files as files
from makers import deepspeed_tensor_files as maker
from program import tenplex
from refusal import assert_refused, read_or_refuse

Files = dict[str, Any]
Change = Callable[[Files], Any]
MODEL0, MODEL1 = "mp_rank_00_model_states.pt", maker.MODEL1
BESIDE, OTHER = (f"zero_pp_rank_{rank}_mp_rank_01_optim_states.pt" for rank in range(2))


def models(made: Files) -> list[Any]:
    return [content for name, content in made.items() if name.endswith("model_states.pt")]


def rule(**entries: Any) -> Change:
    def change(made: Files) -> None:
        for content in models(made):
            content["universal_checkpoint_info"] = {**maker.INFO, **entries}

    return change


def put(name: str, key: str, value: Any) -> Change:
    return lambda made: made[name].__setitem__(key, value)


def swap_names(made: Files) -> None:
    """The parameters of the second tensor rank in another order."""
    first = made[MODEL1]["param_shapes"][0]
    first["w"] = first.pop("w")


def step_of(made: Files) -> None:
    made[OTHER]["optimizer_state_dict"]["base_optimizer_state"]["state"][1]["step"] = torch.tensor(3.0)


def other_rank(made: Files) -> None:
    """The optimizer of another tensor rank's cut: widths of q are 3 and 2."""
    made[OTHER] = maker.optimizer_states(1, 0)


CASES: dict[str, tuple[Change, list[str]]] = {
    "no rules": (
        lambda made: [content.pop("universal_checkpoint_info") for content in models(made)],
        ["'universal_checkpoint_info'", MODEL0],
    ),
    "rules that differ": (put(MODEL1, "universal_checkpoint_info", {}), [MODEL1, "universal_checkpoint_info"]),
    "rules that are no dict": (
        lambda made: [content.update(universal_checkpoint_info=[1]) for content in models(made)],
        ["'universal_checkpoint_info'"],
    ),
    "a rank's optimizer is missing": (lambda made: made.pop(OTHER), ["model parallel rank 1", "missing"]),
    "a rank's model is missing": (lambda made: made.pop(MODEL1), ["model parallel rank 1", "missing"]),
    "the first rank is missing": (
        lambda made: [made.pop(name) for name in list(made) if "mp_rank_00" in name],
        ["model parallel rank 0"],
    ),
    "more ranks": (
        lambda made: [content.update(mp_world_size=4) for content in models(made)],
        ["'mp_world_size'", MODEL0],
    ),
    "stages of a pipeline": (
        lambda made: [content.update(checkpoint_parallel_dimensions={"pp_degree": 2}) for content in models(made)],
        ["'pp_degree'", MODEL0],
    ),
    "another iteration": (step_of, [OTHER, "group 1", "'step'", "another iteration"]),
    "a model of another iteration": (put(MODEL1, "global_steps", 3), [MODEL1, "'global_steps'"]),
    "another order": (swap_names, ["'param_shapes'", "order"]),
    "another rank's optimizer": (other_rank, [OTHER]),
    "a copy that differs": (
        lambda made: made[MODEL1]["module"]["b"].add_(1),
        ["'b'"],
    ),
    "a master that differs": (
        lambda made: made[BESIDE]["optimizer_state_dict"]["single_partition_of_fp32_groups"][1].add_(1),
        ["fp32_param.b"],
    ),
    "a tensor of one rank only": (lambda made: made[MODEL1]["module"].pop("frozen"), [MODEL1, "'frozen'"]),
    "a part of another shape": (
        lambda made: made[MODEL1]["module"].update(w=torch.zeros(3, 3)),
        ["'w'", "[3, 3]", "[3, 2]"],
    ),
    "parts that do not fit": (
        lambda made: made[MODEL1]["param_shapes"][0].update(w=torch.Size([4, 2])),
        ["'w'", "[3, 2]", "[4, 2]"],
    ),
    "a newer version": (rule(universal_checkpoint_version=0.5), ["'universal_checkpoint_version'", "0.5"]),
    "a version that is none": (rule(universal_checkpoint_version="new"), ["'universal_checkpoint_version'"]),
    "patterns that are no list": (rule(vocabulary_parameter_patterns="v"), ["'vocabulary_parameter_patterns'"]),
    "a pattern that is no text": (rule(vocabulary_parameter_patterns=[7]), ["'vocabulary_parameter_patterns'"]),
    "a pattern that matches nothing": (
        rule(parameter_to_average_patterns=[r"layers\.\d+"]),
        [r"layers\.\d+", "matches no parameter"],
    ),
    "two patterns that match": (rule(tp_replicated_parameter_patterns=["^b$", "b"]), ["'b'", "'^b$'"]),
    "a pattern twice": (rule(tp_replicated_parameter_patterns=["^b$", "^b$"]), ["'b'", "'^b$'"]),
    "a pattern that looks back": (rule(vocabulary_parameter_patterns=["(?<=a)v"]), ["(?<=a)v", "not understood"]),
    "a pattern of repeats of repeats": (
        rule(vocabulary_parameter_patterns=["((((a{99}){99}){99}){99}){99}"]),
        ["not understood"],
    ),
    "a pattern that is too long": (rule(vocabulary_parameter_patterns=["a" * 5_000]), ["not understood"]),
    "a pattern that is too deep": (rule(vocabulary_parameter_patterns=["(" * 900 + ")"]), ["not understood"]),
    "a map": (rule(affine_map={"version": 1, "params": {"w": {}}}), ["'affine_map'"]),
    "a cut that DeepSpeed does not know": (
        rule(autotp_unsupported_parameter_patterns={"w": "fused"}),
        ["'w'", "autotp_unsupported_parameter_patterns"],
    ),
    "no vocabulary size": (rule(original_vocab_size=None), ["'v'", "'original_vocab_size'"]),
    "a vocabulary too large": (rule(original_vocab_size=5), ["'v'", "'original_vocab_size'"]),
    "a vocabulary of 2^63 − 1": (rule(original_vocab_size=(1 << 63) - 1), ["'v'", "'original_vocab_size'"]),
    "a vocabulary below nothing": (rule(original_vocab_size=-1), ["'v'", "'original_vocab_size'"]),
    "a vocabulary of one dimension": (rule(vocabulary_parameter_patterns=["v", "b"]), ["'b'", "two dimensions"]),
    "halves of an odd number": (rule(parameter_with_2_sub_params_cat_dim_0=["q", "g"]), ["'q'", "halves"]),
    "a copy that is cut": (rule(tp_replicated_parameter_patterns=["^b$", "q"]), ["'q'", "[3, 2]", "[2, 2]"]),
    "no widths": (rule(sub_param_shard_widths=None), ["'q'", "'sub_param_shard_widths'"]),
    "widths of another mesh": (
        rule(sub_param_shard_widths={"q": [[1, 1, 0], [1, 0, 0], [1, 1, 0]]}),
        ["'q'", "3 widths"],
    ),
    "widths of too few": (rule(sub_param_shard_widths={"q": [[1, 1], [1, 0]]}), ["'q'", "'sub_param_shard_widths'"]),
    "widths that do not add up": (
        rule(sub_param_shard_widths={"q": [[1, 1], [1, 1], [1, 1]]}),
        ["'q'", "add up to 2, expected 2 of 1"],
    ),
    "widths of another cut": (rule(sub_param_shard_widths={"q": [[2, 0], [1, 0], [1, 1]]}), ["'q'", "tensor rank 0"]),
    "widths below nothing": (rule(sub_param_shard_widths={"q": [[3, -1], [1, 0], [1, 1]]}), ["'q'"]),
    "another shape": (
        rule(parameter_with_sub_params=[{"patterns": ["q"], "shape": ((2, 1, 2), 7), "partition_dim": 0}]),
        ["'q'", "says 7"],
    ),
    "a shape of more dimensions": (
        rule(parameter_with_sub_params=[{"patterns": ["q"], "shape": ((2, 1, 2), 1, 2), "partition_dim": 0}]),
        ["'q'", "3 dimensions"],
    ),
    "a dimension that is not there": (
        rule(parameter_with_sub_params=[{"patterns": ["q"], "shape": ((2, 1, 2), -1), "partition_dim": 2}]),
        ["'parameter_with_sub_params'"],
    ),
    "a shape that is none": (
        rule(parameter_with_sub_params=[{"patterns": ["q"], "shape": ("5", -1), "partition_dim": 0}]),
        ["'parameter_with_sub_params'"],
    ),
    "a width that cannot be cut evenly": (
        rule(universal_checkpoint_version=0.2, sub_param_shard_widths=None),
        ["'q'", "width 1", "2 tensor ranks"],
    ),
    "a number of sub-parameters that does not divide": (
        rule(
            universal_checkpoint_version=0.2,
            parameter_with_sub_params=[{"patterns": ["q"], "shape": (3, -1), "partition_dim": 0}],
        ),
        ["'q'", "3 sub-parameters"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_folder_is_refused(case: str, tmp_path: Path) -> None:
    change, mentions = CASES[case]
    made = maker.zero_files()
    change(made)
    assert_refused(files.write(made, tmp_path / "c"), tmp_path / "to", *mentions)


def test_every_file_cut_short_is_refused(tmp_path: Path) -> None:
    source = files.write(maker.zero_files(), tmp_path / "c")
    for file in sorted(source.rglob("*.pt")):
        content = file.read_bytes()
        for size in (0, len(content) // 2, len(content) - 1):
            file.write_bytes(content[:size])
            assert not read_or_refuse(source, tmp_path / "out"), (file, size)
        file.write_bytes(content)


def test_undamaged_folder_is_read(tmp_path: Path) -> None:
    source = files.write(maker.zero_files(), tmp_path / "c")
    tenplex("reshard", source, tmp_path / "out.pt", "--format", "torch")
    state = torch.load(tmp_path / "out.pt", weights_only=False)
    state.pop("common")
    assert_same_tensors(maker.expected(), state)


def test_widths_of_an_older_version_are_even(tmp_path: Path) -> None:
    """Of `g`, as two sub-parameters: (2, …) is their number, ((4, 4), …) their widths."""
    for shape in ((2,), ((4, 4),)):
        made = maker.zero_files()
        rules = [{"patterns": ["g"], "shape": shape, "partition_dim": 0}]
        change = rule(
            universal_checkpoint_version=0.2,
            parameter_with_2_sub_params_cat_dim_0=[],
            parameter_with_sub_params=rules,
        )
        change(made)
        source = files.write(made, tmp_path / "c")
        tenplex("reshard", source, tmp_path / "out.pt", "--format", "torch", "--overwrite")
        state = torch.load(tmp_path / "out.pt", weights_only=False)
        assert state["g"].tolist() == maker.expected()["g"].tolist()


def test_what_differs_between_tensor_ranks_is_kept(tmp_path: Path) -> None:
    made = maker.zero_files()
    made[MODEL1]["rng"] = {"seed": 7}
    made[OTHER]["optimizer_state_dict"]["overflow"] = True
    source = files.write(made, tmp_path / "c")
    tenplex("reshard", source, tmp_path / "out.pt", "--format", "torch")
    ranks = torch.load(tmp_path / "out.pt", weights_only=False)["common"]["ranks"]
    assert ranks == {1: {"model_states": {"rng": {"seed": 7}}}, 3: {"optimizer_state": {"overflow": True}}}
