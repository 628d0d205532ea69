# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed folders with experts that are missing, too many, or of another mesh."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from compare import assert_same_tensors
from makers import deepspeed_expert_files as maker
from makers import deepspeed_files as files
from program import tenplex
from refusal import assert_refused, read_or_refuse

Files = dict[str, Any]
Change = Callable[[Files], Any]
MODEL = "mp_rank_00_model_states.pt"
RANK3 = "zero_pp_rank_3_mp_rank_00_optim_states.pt"
FIRST, SECOND = maker.expert_file(0), maker.expert_file(1)


def inner(made: Files, name: str = RANK3) -> Any:
    return made[name]["optimizer_state_dict"]


def more_experts(made: Files) -> None:
    name = f"{maker.LAYER}.2.u"
    made[maker.expert_file(2)] = {name: torch.zeros(maker.SIZE)}


def more_experts_everywhere(made: Files) -> None:
    """Also in the model's file: 3 experts, and groups that 2 ranks share."""
    more_experts(made)
    made[MODEL]["num_experts"] = [3]


def mixed_group(made: Files) -> None:
    made[MODEL]["param_shapes"][2].update(x=torch.Size([1]))


CASES: dict[str, tuple[Change, list[str]]] = {
    "an expert is missing": (lambda made: made.pop(SECOND), ["'num_experts'", "1 files"]),
    "the first expert is missing": (lambda made: made.pop(FIRST), ["expert 1", "missing"]),
    "no experts": (lambda made: [made.pop(name) for name in (FIRST, SECOND)], [MODEL, "'num_experts'"]),
    "more experts": (more_experts, ["'num_experts'", "3 files"]),
    "more experts than ranks": (more_experts_everywhere, ["'partition_count'"]),
    "another layer": (
        lambda made: made.update({maker.expert_file(1, 1): made.pop(SECOND)}),
        ["'num_experts'"],
    ),
    "another expert": (lambda made: made.update({SECOND: made[FIRST]}), [SECOND, "expert 1"]),
    "an expert of another shape": (
        lambda made: made[SECOND].update({f"{maker.LAYER}.1.u": torch.zeros(7)}),
        [SECOND, "[7]", "[6]"],
    ),
    "no tensor": (lambda made: made[SECOND].update({f"{maker.LAYER}.1.u": 1}), [SECOND]),
    "no dict": (lambda made: made.update({SECOND: [1]}), [SECOND]),
    "another name": (lambda made: made[SECOND].update(u=torch.zeros(2)), [SECOND, "'u'"]),
    "a parameter that the model has": (
        lambda made: made[MODEL]["module"].update({f"{maker.LAYER}.1.u": torch.zeros(6)}),
        ["another file"],
    ),
    "numbers that are none": (lambda made: made[MODEL].update(num_experts=["two"]), [MODEL, "'num_experts'"]),
    "numbers that are too large": (
        lambda made: made[MODEL].update(num_experts=[(1 << 63) - 1, (1 << 63) - 1]),
        [MODEL, "'num_experts'"],
    ),
    "another mesh": (lambda made: inner(made).update(partition_count=[4, 4, 4]), [RANK3, "'partition_count'"]),
    "a mesh that does not divide": (lambda made: inner(made).update(partition_count=[4, 4, 3]), ["partition_count"]),
    "a mesh of none": (lambda made: inner(made).update(partition_count=[4, 4, 0]), ["partition_count"]),
    "a dense group on fewer ranks": (lambda made: inner(made).update(partition_count=[2, 4, 2]), [RANK3, "group 0"]),
    "a group of experts and others": (mixed_group, ["'x'", "experts and others"]),
    "a rank is missing": (lambda made: made.pop(RANK3), ["'dp_world_size' 4", "3 files"]),
    "another iteration": (
        lambda made: inner(made)["base_optimizer_state"]["state"][2].update(step=torch.tensor(3.0)),
        [RANK3, "group 2", "'step'"],
    ),
    "a fragment too short": (
        lambda made: setattr(inner(made)["param_slice_mappings"][2][f"{maker.LAYER}.0.u"], "numel", 2),
        [f"{maker.LAYER}.1.u", "expert rank 1"],
    ),
    "experts on tensor ranks": (
        lambda made: made.update({SECOND.replace("mp_rank_00", "mp_rank_01"): {}}),
        ["experts", "tensor parallel"],
    ),
    "tensor ranks": (
        lambda made: made.update(
            {name.replace("mp_rank_00", "mp_rank_01"): made[name] for name in list(made) if "expert" not in name}
        ),
        [FIRST, "one 'mp_rank_00_model_states.pt'"],
    ),
    "a gap between optimizers": (
        lambda made: made.update({"expp_rank_1_mp_rank_00_optim_states.pt": {}}),
        ["expp_rank_1", "rank 0"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_folder_is_refused(case: str, tmp_path: Path) -> None:
    change, mentions = CASES[case]
    made = maker.zero_files()
    change(made)
    assert_refused(files.write(made, tmp_path / "c"), tmp_path / "to", *mentions)


def test_every_expert_cut_short_is_refused(tmp_path: Path) -> None:
    source = files.write(maker.zero_files(), tmp_path / "c")
    for file in sorted(source.rglob("*_expert_*.pt")):
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


def test_ranks_with_the_same_experts_may_come_first(tmp_path: Path) -> None:
    """`use_data_before_expert_parallelism`: ranks 0 and 1 have expert 0."""
    made = maker.zero_files()
    made[MODEL]["ds_config"] = {"use_data_before_expert_parallelism": True}
    names = [f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt" for rank in range(maker.RANKS)]
    before = [made[name] for name in names]
    for rank, name in enumerate(names):
        group = before[(0, 2, 1, 3)[rank]]["optimizer_state_dict"]
        mine = made[name]["optimizer_state_dict"]
        made[name] = {**made[name], "optimizer_state_dict": {**mine}}
        own = made[name]["optimizer_state_dict"]
        own["single_partition_of_fp32_groups"] = [
            *mine["single_partition_of_fp32_groups"][:2],
            group["single_partition_of_fp32_groups"][2],
        ]
        state = {**mine["base_optimizer_state"]["state"], 2: group["base_optimizer_state"]["state"][2]}
        own["base_optimizer_state"] = {**mine["base_optimizer_state"], "state": state}
    source = files.write(made, tmp_path / "c")
    tenplex("reshard", source, tmp_path / "out.pt", "--format", "torch")
    state = torch.load(tmp_path / "out.pt", weights_only=False)
    state.pop("common")
    assert_same_tensors(maker.expected(), state)
