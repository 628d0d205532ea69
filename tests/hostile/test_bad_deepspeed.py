# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed folders whose files are missing, of another job or iteration, or say what cannot be."""

from __future__ import annotations

import collections
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from deepspeed.utils.tensor_fragment import fragment_address

from compare import assert_same_tensors
from makers import deepspeed_files as files
from program import tenplex
from refusal import assert_refused, read_or_refuse

Files = dict[str, Any]
Change = Callable[[Files], None]
RANK1 = "zero_pp_rank_1_mp_rank_00_optim_states.pt"
MODEL = "mp_rank_00_model_states.pt"
MODEL1 = "zero_pp_rank_1_mp_rank_00_model_states.pt"


def inner(made: Files, name: str = RANK1) -> Any:
    return made[name]["optimizer_state_dict"]


def put(name: str, value: Any) -> Change:
    """In the model's states: of every rank, or of the one with that file."""

    def change(made: Files) -> None:
        for file, content in made.items():
            if file.endswith("model_states.pt"):
                content[name] = value

    return change


def of_optimizer(name: str, value: Any) -> Change:
    return lambda made: inner(made).__setitem__(name, value)


def address(made: Files, **values: int) -> None:
    mapping = inner(made)["param_slice_mappings"][0]["w"]
    for name, value in values.items():
        setattr(mapping, name, value)


def other_iteration(made: Files) -> None:
    base = inner(made).get("base_optimizer_state") or inner(made)["optimizer_state_dict"]
    base["state"][1]["step"] = torch.tensor(3.0)


def longer_moment(made: Files) -> None:
    base = inner(made).get("base_optimizer_state") or inner(made)["optimizer_state_dict"]
    base["state"][0]["exp_avg"] = torch.zeros(9)


def other_mesh(made: Files) -> None:
    """Rank 1 of a job with 3."""
    made[RANK1] = files.optimizer_states(1, 1, 3)


def swapped_shapes(made: Files) -> None:
    for content in made.values():
        if "param_shapes" in content:
            content["param_shapes"].reverse()


ZERO = {
    "a rank is missing": (lambda made: made.pop(RANK1), ["'dp_world_size' 2", "1 file"]),
    "rank 0 is missing": (lambda made: made.pop(RANK1.replace("1", "0", 1)), ["rank 0"]),
    "another iteration": (other_iteration, [RANK1, "group 1", "'step'", "another iteration"]),
    "the optimizer of another version": (
        lambda made: made[RANK1].__setitem__("ds_version", "0.1"),
        [RANK1, "0.1", "0.19.8"],
    ),
    "moments of another size": (longer_moment, [RANK1, "group 0"]),
    "groups in another order": (swapped_shapes, ["group 0"]),
    "a parameter that is not in the model": (
        lambda made: [content["module"].pop("w") for name, content in made.items() if name.endswith("model_states.pt")],
        ["'w'", "'module'"],
    ),
    "no module": (put("module", None), ["'module'"]),
    "shapes that are none": (put("param_shapes", [{"w": "3x4"}]), ["'param_shapes'", "'w'"]),
    "shapes of 2^62 elements": (
        put("param_shapes", [{"w": torch.Size([1 << 31, 1 << 31])}, {"b": torch.Size([5])}]),
        ["'w'"],
    ),
    "a name twice": (put("param_shapes", [{"w": torch.Size([12])}, {"w": torch.Size([5])}]), ["'w'", "twice"]),
    "more ranks": (put("dp_world_size", 3), ["'dp_world_size' 3", "2 files"]),
    "no number of ranks": (put("dp_world_size", "two"), ["'dp_world_size'"]),
    "groups of experts": (of_optimizer("ds_zero_partition_groups", [{}]), [RANK1, "ds_zero_partition_groups"]),
    "a tensor parallel rank": (
        lambda made: made.__setitem__("mp_rank_01_model_states.pt", {}),
        ["model parallel rank 1", "missing"],
    ),
    "a pipeline's layer": (
        lambda made: made.__setitem__("layer_00-model_00-model_states.pt", {}),
        ["'layer_00-model_00-model_states.pt'", "pipeline"],
    ),
    "experts": (
        lambda made: made.__setitem__("layer_0_expert_0_mp_rank_01_model_states.pt", {}),
        ["'layer_0_expert_0_mp_rank_01_model_states.pt'", "experts"],
    ),
    "an expert that is none": (
        lambda made: made.__setitem__("layer_0_expert_1_mp_rank_00_model_states.pt", {}),
        ["'layer_0_expert_1_mp_rank_00_model_states.pt'"],
    ),
    "an unknown file": (lambda made: made.__setitem__("more.pt", {}), ["'more.pt'"]),
    "the states of a universal checkpoint": (
        lambda made: made.__setitem__("zero/optimizer_state.pt", {}),
        ["universal", "zero_pp_rank_0"],
    ),
    "a parameter called common": (
        lambda made: [
            content["module"].update(common=torch.zeros(2))
            for name, content in made.items()
            if name.endswith("model_states.pt")
        ],
        ["'common'"],
    ),
}
STAGE_1 = {
    "a rank of another mesh": (other_mesh, [RANK1, "partition_count"]),
    "an overlap": (
        lambda made: inner(made)["param_slice_mappings"][0].update(v=fragment_address(2, 1)),
        ["overlap"],
    ),
    "a fragment outside": (lambda made: address(made, numel=900), ["'w'", "group 0", RANK1]),
    "a fragment before the start": (lambda made: address(made, start=-1), ["'w'", "group 0"]),
    "a fragment of 2^63 − 1": (lambda made: address(made, numel=(1 << 63) - 1), ["'w'"]),
    "a fragment too short": (lambda made: address(made, numel=5), ["'w'", "group 0", "11 of its 12"]),
    "a padding too long": (of_optimizer("group_paddings", [3, 1]), ["group 0"]),
    "a padding of 2^63 − 1": (of_optimizer("group_paddings", [(1 << 63) - 1, 1]), ["group 0"]),
    "an alignment padding that is not there": (
        lambda made: [
            content["optimizer_state_dict"].update(param_alignment_paddings=[[4], [0]])
            for name, content in made.items()
            if "optim" in name
        ],
        ["group 0", "paddings"],
    ),
    "the elastic form": (of_optimizer("base_optimizer_state", [{}, {}]), [RANK1, "elastic"]),
    "no slices": (of_optimizer("param_slice_mappings", None), [RANK1, "param_slice_mappings"]),
    "slices that are none": (
        of_optimizer("param_slice_mappings", [{"w": (6, 0)}, {"b": (2, 0)}]),
        [RANK1, "param_slice_mappings"],
    ),
    "another parameter's slices": (
        lambda made: inner(made).update(
            param_slice_mappings=[
                collections.OrderedDict(v=fragment_address(6, 0)),
                inner(made)["param_slice_mappings"][1],
            ]
        ),
        ["'v'", "group 0"],
    ),
    "masters in 16 bits": (
        lambda made: inner(made)["single_partition_of_fp32_groups"].__setitem__(
            0, torch.zeros(6, dtype=torch.bfloat16)
        ),
        [RANK1, "group 0", "float32"],
    ),
    "another shape in the model": (
        lambda made: made[MODEL]["module"].update(w=torch.zeros(4, 3)),
        ["'w'", "[4, 3]", "[3, 4]"],
    ),
    "no model": (lambda made: made.pop(MODEL), ["no file with the model's states"]),
    "no optimizer": (
        lambda made: [made.pop(name) for name in list(made) if "optim" in name],
        ["optimizer's files", "missing"],
    ),
}
STAGE_3 = {
    "a model's file is missing": (lambda made: made.pop(MODEL1), ["'dp_world_size' is 2", "1 files"]),
    "a model's file of another iteration": (
        lambda made: made[MODEL1].__setitem__("global_steps", 3),
        [MODEL1, "'global_steps'"],
    ),
    "other shapes": (
        lambda made: made[MODEL1].__setitem__("param_shapes", [{"w": torch.Size([4, 3])}, {"b": torch.Size([5])}]),
        [MODEL1, "'param_shapes'"],
    ),
    "a frozen part is missing": (
        lambda made: made[MODEL1]["frozen_param_fragments"].pop("frozen"),
        [MODEL1, "'frozen'"],
    ),
    "a frozen part too short": (
        lambda made: made[MODEL1]["frozen_param_fragments"].update(frozen=torch.zeros(1)),
        [MODEL1, "'frozen'", "[1]", "[2]"],
    ),
    "a group too short": (
        lambda made: [
            content["optimizer_state_dict"].update(fp32_flat_groups=[torch.zeros(5), torch.zeros(3)])
            for name, content in made.items()
            if "optim" in name
        ],
        ["group 0"],
    ),
    "buffers that differ": (lambda made: made[MODEL1]["module"].update(seen=torch.tensor(4)), ["'seen'"]),
    "no buffer": (lambda made: made[MODEL1]["module"].pop("seen"), [MODEL1, "'seen'"]),
    "an optimizer of stage 1": (lambda made: made.update({RANK1: files.optimizer_states(1, 1)}), [RANK1, "stage"]),
}
UNIVERSAL = {
    "a parameter is missing": (
        lambda made: [made.pop(name) for name in list(made) if name.startswith("zero/b/")],
        ["'b'", "'zero'"],
    ),
    "no master": (lambda made: made.pop("zero/w/fp32.pt"), ["'zero/w/fp32.pt'"]),
    "another shape": (
        lambda made: made.update({"zero/w/exp_avg.pt": {"param": torch.zeros(4, 3)}}),
        ["'zero/w/exp_avg.pt'", "[4, 3]", "[3, 4]"],
    ),
    "no tensor": (lambda made: made.update({"zero/w/exp_avg.pt": [1]}), ["'zero/w/exp_avg.pt'"]),
    "an unknown folder": (lambda made: made.update({"zero/v/fp32.pt": {"param": torch.zeros(2)}}), ["'zero/v'"]),
    "a frozen one with moments": (
        lambda made: made.update({"zero/frozen/exp_avg.pt": {"param": torch.zeros(3)}}),
        ["'zero/frozen'"],
    ),
    "a frozen copy that differs": (lambda made: made["zero/frozen/fp32.pt"].update(param=torch.ones(3)), ["'frozen'"]),
    "no optimizer": (lambda made: made.pop("zero/optimizer_state.pt"), ["'zero/optimizer_state.pt'"]),
    "an optimizer without groups": (
        lambda made: made["zero/optimizer_state.pt"].pop("param_groups"),
        ["'zero/optimizer_state.pt'", "'param_groups'"],
    ),
    "no shapes": (put("param_shapes", None), ["'param_shapes'"]),
    "a step that is none": (lambda made: made.update({"zero/w/step.pt": "two"}), ["'zero/w/step.pt'"]),
    "notes of one file only": (
        lambda made: made["zero/w/exp_avg.pt"].update(cat_dim=1),
        ["'zero/w/exp_avg.pt'"],
    ),
}


def damaged(made: Files, change: Change, root: Path, universal: bool = False) -> Path:
    change(made)
    return files.write(made, root, universal)


@pytest.mark.parametrize("stage", [1, 3])
@pytest.mark.parametrize("case", ZERO)
def test_zero_folder_is_refused(stage: int, case: str, tmp_path: Path) -> None:
    change, mentions = ZERO[case]
    assert_refused(damaged(files.zero_files(stage), change, tmp_path / "c"), tmp_path / "to", *mentions)


@pytest.mark.parametrize("case", STAGE_1)
def test_folder_of_stage_1_is_refused(case: str, tmp_path: Path) -> None:
    change, mentions = STAGE_1[case]
    assert_refused(damaged(files.zero_files(1), change, tmp_path / "c"), tmp_path / "to", *mentions)


@pytest.mark.parametrize("case", STAGE_3)
def test_folder_of_stage_3_is_refused(case: str, tmp_path: Path) -> None:
    change, mentions = STAGE_3[case]
    assert_refused(damaged(files.zero_files(3), change, tmp_path / "c"), tmp_path / "to", *mentions)


@pytest.mark.parametrize("case", UNIVERSAL)
def test_universal_folder_is_refused(case: str, tmp_path: Path) -> None:
    change, mentions = UNIVERSAL[case]
    assert_refused(damaged(files.universal_files(), change, tmp_path / "c", True), tmp_path / "to", *mentions)


def test_steps_that_differ_in_a_group_are_refused(tmp_path: Path) -> None:
    made = files.universal_files()
    made[MODEL]["param_shapes"] = [{"w": torch.Size([3, 4]), "b": torch.Size([5])}]
    made["zero/b/step.pt"] = torch.tensor(3.0)
    source = files.write(made, tmp_path / "c", True)
    assert_refused(source, tmp_path / "to", "step.pt", "same group")


@pytest.mark.parametrize("name", ["latest", "latest_universal"])
@pytest.mark.parametrize("tag", ["../c", "/etc", "nothing", "", "a\0b"])
def test_pointer_to_nothing_is_refused(name: str, tag: str, tmp_path: Path) -> None:
    source = files.write(files.zero_files(1), tmp_path / "c")
    (source / "latest").unlink()
    (source / name).write_text(tag)
    assert_refused(source, tmp_path / "to")


@pytest.mark.parametrize("made", [files.zero_files(1), files.zero_files(3), files.universal_files()])
def test_every_file_cut_short_is_refused(made: Files, tmp_path: Path) -> None:
    source = files.write(made, tmp_path / "c", "zero/optimizer_state.pt" in made)
    for file in sorted(source.rglob("*.pt")):
        content = file.read_bytes()
        for size in (0, 100, len(content) // 2, len(content) - 1):
            file.write_bytes(content[:size])
            assert not read_or_refuse(source, tmp_path / "out"), (file, size)
        file.write_bytes(content)


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_undamaged_folder_is_read(stage: int, tmp_path: Path) -> None:
    source = files.write(files.zero_files(stage), tmp_path / "c")
    tenplex("reshard", source, tmp_path / "out.pt", "--format", "torch")
    state = torch.load(tmp_path / "out.pt", weights_only=False)
    state.pop("common")
    assert_same_tensors(files.expected(), state)


def test_undamaged_universal_folder_is_read_and_written(tmp_path: Path) -> None:
    source = files.write(files.universal_files(), tmp_path / "c", True)
    tenplex("reshard", source, tmp_path / "out", "--format", "deepspeed")
    tenplex("verify", source, tmp_path / "out")
    tenplex("reshard", source, tmp_path / "out.pt", "--format", "torch")
    state = torch.load(tmp_path / "out.pt", weights_only=False)
    state.pop("common")
    assert_same_tensors(files.expected(), state)


def test_what_differs_between_ranks_is_kept(tmp_path: Path) -> None:
    """Also through a universal checkpoint, which has no place of its own for it."""
    made = files.zero_files(3)
    made[MODEL1]["rng"] = {"state": torch.arange(5), "seed": 7}
    inner(made)["overflow"] = True
    source = files.write(made, tmp_path / "c")
    tenplex("reshard", source, tmp_path / "universal", "--format", "deepspeed")
    tenplex("verify", source, tmp_path / "universal")
    tenplex("reshard", tmp_path / "universal", tmp_path / "out.pt", "--format", "torch")
    ranks = torch.load(tmp_path / "out.pt", weights_only=False)["common"]["ranks"]
    assert ranks[1]["optimizer_state"] == {"overflow": True}
    assert ranks[1]["model_states"]["rng"]["seed"] == 7
    assert ranks[1]["model_states"]["rng"]["state"].tolist() == [0, 1, 2, 3, 4]


def test_tied_parameters_that_the_first_rank_alone_knows_are_read(tmp_path: Path) -> None:
    """DeepSpeed makes `shared_params` on the first rank; the others have an empty dict."""
    made = files.zero_files(3)
    for name, content in made.items():
        if name.endswith("model_states.pt"):
            content["module"]["tied"] = torch.zeros(16)[:0]
    made[MODEL1.replace("rank_1", "rank_0")]["shared_params"] = {"tied": "w"}
    tenplex("reshard", files.write(made, tmp_path / "c"), tmp_path / "out.pt", "--format", "torch")
    state = torch.load(tmp_path / "out.pt", weights_only=False)
    assert torch.equal(state["tied"], files.expected()["w"])
    made[MODEL1]["shared_params"] = {"tied": "b"}
    assert_refused(files.write(made, tmp_path / "d"), tmp_path / "to", MODEL1, "'shared_params'")


def test_source_without_a_part_of_what_deepspeed_needs_is_refused(tmp_path: Path) -> None:
    source = files.write(files.zero_files(1), tmp_path / "c")
    tenplex("reshard", source, tmp_path / "whole.pt", "--format", "torch")
    for missing in ("common.optimizer_state", "common.model_states.param_shapes", "optimizer.state.fp32_param.w", "b"):
        state = torch.load(tmp_path / "whole.pt", weights_only=False)
        container = state
        if missing.startswith("common."):
            *path, last = missing.split(".")
            for step in path:
                container = container[step]
        else:
            last = missing
        del container[last]
        torch.save(state, tmp_path / "less.pt")
        assert_refused(tmp_path / "less.pt", tmp_path / "to", f"'{missing}'", target_format="deepspeed")


@pytest.mark.parametrize("what", ["the tag's folder", "a rank's file"])
def test_link_that_leaves_the_folder_is_refused(what: str, tmp_path: Path) -> None:
    elsewhere = files.write(files.zero_files(1), tmp_path / "elsewhere")
    source = tmp_path / "c"
    if what == "the tag's folder":
        source.mkdir()
        (source / "latest").write_text(files.TAG)
        (source / files.TAG).symlink_to(elsewhere / files.TAG)
    else:
        files.write(files.zero_files(1), source)
        (source / files.TAG / RANK1).unlink()
        (source / files.TAG / RANK1).symlink_to(elsewhere / files.TAG / RANK1)
    assert_refused(source, tmp_path / "to", "_states.pt")
    tenplex("reshard", source, tmp_path / "out", "--format", "dcp", "--follow-links")
