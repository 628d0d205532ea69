# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed folders of a pipeline whose layers and stages do not fit each other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from compare import assert_same_tensors
from makers import deepspeed_files as files
from makers import deepspeed_pipeline_files as pipeline
from makers.deepspeed_pipeline_files import LAYER0, LAYER1, LAYER2, MODEL1, TIED
from program import tenplex
from refusal import assert_refused, read_or_refuse

Files = dict[str, Any]
Change = Callable[[Files], object]
MODEL = "mp_rank_00_model_states.pt"
OTHER = "zero_pp_rank_1_mp_rank_01_optim_states.pt"
FIRST_OF_STAGE = "zero_pp_rank_0_mp_rank_01_optim_states.pt"


def inner(made: Files, name: str = FIRST_OF_STAGE) -> Any:
    return made[name]["optimizer_state_dict"]


def of_models(**values: Any) -> Change:
    return lambda made: [made[name].update(values) for name in (MODEL, MODEL1)]


def without_stage(made: Files) -> None:
    for name in [name for name in made if "mp_rank_01" in name]:
        del made[name]


def doubled(made: Files) -> None:
    """Two tensor parallel ranks by the names of the layers' files alone."""
    for name in (LAYER0, LAYER1, LAYER2):
        made[name.replace("-model_states", "-model_00-model_states")] = made[name]
        made[name.replace("-model_states", "-model_01-model_states")] = made.pop(name)


def listed(*patterns: Any) -> Change:
    return of_models(universal_checkpoint_info={"pipeline_replicated_parameter_patterns": list(patterns)})


def twice(made: Files) -> None:
    """A layer on both stages."""
    made[MODEL1]["param_shapes"][1]["1.b"] = torch.Size([5])


CASES: dict[str, tuple[Change, list[str]]] = {
    "a layer is missing": (lambda made: made.pop(LAYER1), ["'1.b'", "layer_01", "missing"]),
    "a layer with the only buffer is missing": (lambda made: made.pop(LAYER2), ["'2.", "layer_02", "missing"]),
    "no layer is there": (
        lambda made: [made.pop(name) for name in (LAYER0, LAYER1, LAYER2)],
        ["'module'", "layer_", "missing"],
    ),
    "a layer too many": (
        lambda made: made.update({"layer_07-model_states.pt": {"b": torch.zeros(5)}}),
        ["'layer_07-model_states.pt'", "layer 7", "too many"],
    ),
    "a layer twice": (
        lambda made: made.update({"layer_1-model_states.pt": made[LAYER1]}),
        ["'layer_1-model_states.pt'", f"'{LAYER1}'"],
    ),
    "a layer of a tensor parallel rank": (
        lambda made: made.update({"layer_01-model_01-model_states.pt": made[LAYER1]}),
        ["layer 1", "2 files"],
    ),
    "a layer of a later tensor parallel rank": (
        lambda made: made.update({"layer_04-model_01-model_states.pt": made[LAYER1]}),
        ["'layer_04-model_01-model_states.pt'", "tensor parallel rank 0"],
    ),
    "layers of other tensor parallel ranks": (doubled, ["'checkpoint_parallel_dimensions'"]),
    "layers on another axis": (
        lambda made: made.update({"layer_01-slice_00-model_states.pt": made[LAYER1]}),
        ["'layer_01-slice_00-model_states.pt'", "axis"],
    ),
    "a parameter that the layer does not have": (lambda made: made[LAYER2].pop("c"), ["'2.c'", "layer_02"]),
    "a parameter of another shape": (
        lambda made: made[LAYER2].update(c=torch.zeros(2, 3)),
        [f"'{LAYER2}'", "'2.c'", "[2, 3]", "[3, 2]"],
    ),
    "a layer that is no dict": (lambda made: made.update({LAYER1: [1]}), [f"'{LAYER1}'"]),
    "a layer with a key that is no text": (lambda made: made[LAYER1].update({3: 4}), [f"'{LAYER1}'"]),
    "a stage's optimizer is missing": (
        lambda made: [made.pop(name) for name in (OTHER, FIRST_OF_STAGE)],
        ["model parallel rank 1", "missing"],
    ),
    "a rank's optimizer is missing": (lambda made: made.pop(OTHER), ["model parallel rank 1", "missing"]),
    "a stage is missing": (without_stage, ["'checkpoint_parallel_dimensions'", "2 stages"]),
    "a stage is missing by the number of ranks": (
        lambda made: of_models(mp_world_size=3, checkpoint_parallel_dimensions=None)(made),
        ["'mp_world_size'", "2"],
    ),
    "a model of another iteration": (
        lambda made: made[MODEL1].update(global_steps=3),
        [MODEL1, "'global_steps'", "not of one checkpoint"],
    ),
    "an optimizer of another iteration": (
        lambda made: inner(made)["base_optimizer_state"]["state"][1].update(step=torch.tensor(3.0)),
        [FIRST_OF_STAGE, "group 1", "'step'", "another iteration"],
    ),
    "copies of the tied parameter that differ": (
        lambda made: inner(made)["single_partition_of_fp32_groups"][0].add_(1),
        [TIED],
    ),
    "moments of the tied parameter that differ": (
        lambda made: inner(made)["base_optimizer_state"]["state"][0]["exp_avg"].add_(1),
        [TIED],
    ),
    "layers of the tied module that differ": (
        lambda made: made.update({"layer_03-model_states.pt": {"w": torch.zeros(3, 4)}}),
        [TIED],
    ),
    "a tied parameter of another shape": (
        lambda made: made[MODEL1]["param_shapes"][0].update({TIED: torch.Size([4, 3])}),
        [TIED, "[3, 4]", "[4, 3]"],
    ),
    "a pattern that is no text": (listed(3), [MODEL, "'pipeline_replicated_parameter_patterns'", "text"]),
    "a pattern that is not known": (listed("(?=w)"), [MODEL, "'pipeline_replicated_parameter_patterns'"]),
    "two tied modules that are alike": (
        lambda made: made[MODEL1]["buffer_names"].append("tied_modules.f.w"),
        [LAYER0, "'e'", "'f'"],
    ),
    "a parameter on two stages": (twice, ["'1.b'", "two stages"]),
    "stages with other groups": (lambda made: made[MODEL1]["param_shapes"].pop(), ["stage 1", "1 groups", "2"]),
    "stages with other settings": (
        lambda made: [
            inner(made, name)["base_optimizer_state"]["param_groups"][1].update(lr=0.2)
            for name in (FIRST_OF_STAGE, OTHER)
        ],
        [FIRST_OF_STAGE, "group 1", "'param_groups'"],
    ),
    "a parameter of no layer": (
        lambda made: made[MODEL]["param_shapes"][1].update({"v": torch.Size([2])}),
        ["'v'"],
    ),
    "a model that is whole": (lambda made: made[MODEL1].update(module={}), [MODEL1, "'module'"]),
    "models that are whole": (of_models(module={}), [MODEL, "'module'", LAYER0]),
    "dimensions that are none": (
        of_models(checkpoint_parallel_dimensions={"pp_degree": "two", "tp_degree": -1}),
        ["'checkpoint_parallel_dimensions'"],
    ),
    "experts": (
        lambda made: made.update({"layer_0_expert_0_mp_rank_00_model_states.pt": {}}),
        [LAYER0, "experts"],
    ),
    "ZeRO-3": (
        lambda made: made.update({f"zero_pp_rank_0_mp_rank_0{rank}_model_states.pt": {} for rank in range(2)}),
        [LAYER0, "stage 3"],
    ),
    "a universal checkpoint": (lambda made: made.update({"zero/optimizer_state.pt": {}}), [LAYER0, "universal"]),
}


@pytest.mark.parametrize("case", CASES)
def test_folder_is_refused(case: str, tmp_path: Path) -> None:
    change, mentions = CASES[case]
    made = pipeline.zero_files()
    change(made)
    assert_refused(files.write(made, tmp_path / "c"), tmp_path / "to", *mentions)


def test_undamaged_folder_is_read(tmp_path: Path) -> None:
    source = files.write(pipeline.zero_files(), tmp_path / "c")
    tenplex("reshard", source, tmp_path / "out.pt", "--format", "torch")
    state = torch.load(tmp_path / "out.pt", weights_only=False)
    common = state.pop("common")
    assert_same_tensors(pipeline.expected(), state)
    assert common["model_states"]["buffer_names"] == ["2.seen"]
    assert "ranks" not in common


def test_first_stage_counts_where_the_program_says_so(tmp_path: Path) -> None:
    """In a tied module there may be parameters that are not tied."""
    made = pipeline.zero_files()
    listed("nothing", "tied_modules")(made)
    inner(made)["single_partition_of_fp32_groups"][0].add_(1)
    inner(made)["base_optimizer_state"]["state"][0]["exp_avg"].add_(1)
    made["layer_03-model_states.pt"] = {"w": torch.zeros(3, 4)}
    source = files.write(made, tmp_path / "c")
    tenplex("reshard", source, tmp_path / "out.pt", "--format", "torch")
    state = torch.load(tmp_path / "out.pt", weights_only=False)
    expected = pipeline.expected()
    assert_same_tensors(
        {name: tensor for name, tensor in expected.items() if TIED in name},
        {name: tensor for name, tensor in state.items() if TIED in name},
    )


def test_layers_without_known_names_are_read(tmp_path: Path) -> None:
    """One that is frozen as a whole; what is no tensor; a tied module without a file; an older DeepSpeed."""
    made = pipeline.zero_files()
    made.pop(LAYER0)
    made[MODEL1]["param_shapes"][1]["4.d"] = made[MODEL1]["param_shapes"][1].pop("2.d")
    for data_rank in range(2):
        mapping = inner(made, f"zero_pp_rank_{data_rank}_mp_rank_01_optim_states.pt")["param_slice_mappings"][1]
        mapping["4.d"] = mapping.pop("2.d")
    made["layer_04-model_states.pt"] = {"d": made[LAYER2].pop("d"), "_extra_state": {"scale": 2}}
    made["layer_03-model_states.pt"] = {"d": files.values("frozen", 3)}
    for name in (MODEL, MODEL1):
        del made[name]["checkpoint_parallel_dimensions"]
    source = files.write(made, tmp_path / "c")
    tenplex("reshard", source, tmp_path / "universal", "--format", "deepspeed")
    tenplex("verify", source, tmp_path / "universal")
    tenplex("reshard", source, tmp_path / "out.pt", "--format", "torch")
    state = torch.load(tmp_path / "out.pt", weights_only=False)
    common = state.pop("common")
    expected = {name.replace("2.d", "4.d"): tensor for name, tensor in pipeline.expected().items()}
    assert_same_tensors({**expected, "3.d": files.values("frozen", 3)}, state)
    assert common["model_states"]["module"] == {"4._extra_state": {"scale": 2}}


def test_every_file_cut_short_is_refused(tmp_path: Path) -> None:
    source = files.write(pipeline.zero_files(), tmp_path / "c")
    for file in sorted(source.rglob("*.pt")):
        content = file.read_bytes()
        for size in (0, 100, len(content) // 2, len(content) - 1):
            file.write_bytes(content[:size])
            assert not read_or_refuse(source, tmp_path / "out"), (file, size)
        file.write_bytes(content)
