# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of megatron_legacy_fuzz with torch: python make_megatron_legacy_seeds.py

They are small models in the structure of a legacy checkpoint, and each of them with one thing changed.
"""

import argparse
import io
import math
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

HERE = Path(__file__).resolve().parent
FILE = "model_optim_rng.pt"
Ranks = dict[str, dict[str, Any]]


def pickle_of(content: Any) -> bytes:
    stream = io.BytesIO()
    torch.save(content, stream)
    with zipfile.ZipFile(stream) as archive:
        return archive.read("archive/data.pkl")


def entry(name: str, content: bytes) -> bytes:
    return name.encode() + b"\n" + len(content).to_bytes(2, "little") + content


def pack(ranks: Ranks, iteration: bytes = b"7", folder: str = "iter_0000007") -> bytes:
    packed = entry("latest_checkpointed_iteration.txt", iteration)
    return packed + b"".join(entry(f"{folder}/{name}/{FILE}", pickle_of(state)) for name, state in ranks.items())


def shared(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    """The beginning of a storage of 64 bytes, as archives around seeds have them."""
    whole = torch.zeros(64 // dtype.itemsize, dtype=dtype)
    return whole[: math.prod(shape)].reshape(shape)


def optimizer(model: dict[str, Any], experts: bool = False) -> dict[str, Any]:
    names = [name for name, value in model.items() if isinstance(value, torch.Tensor)]
    kinds = [(1.0, False), (0.0, False)] + ([(1.0, True)] if experts else [])
    groups, masters, state, number = [], [], {}, 0
    step = shared(dtype=torch.float32)
    moment = {(2, 2): shared(2, 2, dtype=torch.float32), (2,): shared(2, dtype=torch.float32)}
    for decay, of_experts in kinds:
        members = [
            name
            for name in names
            if (model[name].dim() == 1 or name.endswith(".bias")) == (decay == 0.0)
            and ("local_experts" in name) == of_experts
        ]
        groups.append(
            {
                "wd_mult": decay,
                "is_expert_parallel": of_experts,
                "params": list(range(number, number + len(members))),
            }
        )
        masters.append([moment[tuple(model[name].shape)] for name in members])
        for name in members:
            values = moment[tuple(model[name].shape)]
            state[number] = {"step": step, "exp_avg": values, "exp_avg_sq": values}
            number += 1
    return {"optimizer": {"state": state, "param_groups": groups}, "fp32_from_fp16_params": masters}


def model(stage: int, stages: int, experts: int = 0) -> dict[str, Any]:
    layer = "decoder.layers.0."
    made: dict[str, Any] = {"embedding.word_embeddings.weight": shared(2, 2)} if stage == 0 else {}
    made[layer + "input_layernorm.weight"] = shared(2)
    made[layer + "self_attention.linear_proj.weight"] = shared(2, 2)
    made[layer + "self_attention.linear_proj._extra_state"] = None
    if experts:
        for expert in range(experts):
            made[layer + f"mlp.experts.local_experts.{expert}.linear_fc1.weight"] = shared(2, 2)
            made[layer + f"mlp.experts.local_experts.{expert}.linear_fc2.weight"] = shared(2, 2)
    else:
        made[layer + "mlp.linear_fc1.weight"] = shared(2, 2)
        made[layer + "mlp.linear_fc2.weight"] = shared(2, 2)
    if stage == stages - 1:
        made["output_layer.weight"] = shared(2, 2)
    return made


def state_of(made: dict[str, Any], **numbers: Any) -> dict[str, Any]:
    defaults = {
        "tensor_model_parallel_size": 1,
        "pipeline_model_parallel_size": 1,
        "expert_model_parallel_size": 1,
        "untie_embeddings_and_output_weights": True,
    }
    return {
        "args": argparse.Namespace(**(defaults | numbers)),
        "checkpoint_version": 3.0,
        "iteration": 7,
        "rng_state": [{"torch_rng_state": 7}],
        "model": made,
        "optimizer": optimizer(made, any("experts" in name for name in made)),
    }


def stages() -> Ranks:
    return {
        f"mp_rank_{tensor:02d}_{stage:03d}": state_of(
            model(stage, 2), tensor_model_parallel_size=2, pipeline_model_parallel_size=2, num_layers=2
        )
        for stage in (0, 1)
        for tensor in (0, 1)
    }


def experts() -> Ranks:
    return {
        f"mp_rank_00_{expert:03d}": state_of(model(0, 1, experts=2), expert_model_parallel_size=2) for expert in (0, 1)
    }


def virtual() -> Ranks:
    made = state_of(model(0, 2))
    made["model0"], made["model1"] = made.pop("model"), model(1, 2)
    made["optimizer"] = None
    return {"mp_rank_00": made}


TYPES = (torch.bfloat16, torch.float32)


def flat(elements: int, **slots: Any) -> dict[Any, Any]:
    """The state of a distributed optimizer: one buffer."""
    values = shared(elements, dtype=torch.float32)
    state = {"param": values, "exp_avg": values, "numel_unpadded": elements}
    return {
        "buckets_coalesced": True,
        0: {TYPES: {key: value for key, value in (state | slots).items() if value is not None}},
    }


def distributed(state: Any, experts: int = 0, chunks: int = 1, **numbers: Any) -> bytes:
    """One rank with 10 elements in buckets of one parameter each, and its distrib_optim.pt."""
    small = {name: value for name, value in model(0, 2).items() if "mlp" not in name}
    if experts:
        small = {name: value for name, value in model(0, 2, experts=2).items() if "word" in name or "experts.0" in name}
    made = state_of(small, **({"overlap_grad_reduce": True, "ddp_bucket_size": 1} | numbers))
    made["optimizer"] = {"optimizer": {"param_groups": [{"wd_mult": 1.0, "step": 1}]}}
    if chunks > 1:
        made["model0"], made["model1"] = made.pop("model"), {"output_layer.weight": shared(2, 2)}
    if not experts:
        return pack({"mp_rank_00": made}) + entry("iter_0000007/mp_rank_00/distrib_optim.pt", pickle_of(state))
    ranks = {f"mp_rank_00_{rank:03d}": made for rank in range(experts)}
    files = [state, [None, state[1]]]
    return pack(ranks) + b"".join(
        entry(f"iter_0000007/mp_rank_00_{rank:03d}/distrib_optim.pt", pickle_of(files[rank])) for rank in range(experts)
    )


def distributed_seeds() -> dict[str, bytes]:
    right = flat(10)
    [buffer] = right[0].values()
    return {
        "flat": distributed(right),
        "flat_other_size": distributed(right, ddp_bucket_size=7),
        "flat_no_rule": distributed(right, overlap_grad_reduce=False),
        "flat_long": distributed(flat(11)),
        "flat_chunks": distributed(right | {1: {TYPES: flat(4)[0][TYPES]}}, chunks=2),
        "flat_one_buffer": distributed(right, chunks=2),
        "flat_experts": distributed([flat(4), flat(8)], experts=2, expert_model_parallel_size=2),
        "flat_no_experts": distributed([flat(10), flat(4)]),
        "flat_tied": distributed(right, untie_embeddings_and_output_weights=False),
        "flat_old": distributed(right | {"buckets_coalesced": False}),
        "flat_more": distributed(right | {"x": 1}),
        "flat_no_buffer": distributed({"buckets_coalesced": True}),
        "flat_text": distributed("x"),
        "flat_buffer_text": distributed({"buckets_coalesced": True, 0: "x"}),
        "flat_types": distributed(right | {0: {"x": buffer}}),
        "flat_other_type": distributed(right | {0: {(torch.float16, torch.float32): buffer}}),
        "flat_no_size": distributed(flat(10, numel_unpadded=None)),
        "flat_no_masters": distributed(flat(10, param=None)),
        "flat_shape": distributed(flat(10, exp_avg=shared(3, dtype=torch.float32))),
        "flat_no_tensor": distributed(flat(10, exp_avg=1)),
        "flat_number": distributed(right | {0: {TYPES: buffer | {1: 2}}}),
        "flat_half": distributed(flat(10, param=shared(10, dtype=torch.float16))),
        "flat_lost": pack(stages()) + entry("iter_0000007/mp_rank_00_001/distrib_optim.pt", pickle_of(right)),
    }


def tied(same: bool) -> Ranks:
    ranks = stages()
    for state in ranks.values():
        state["args"].untie_embeddings_and_output_weights = False
        if not same and "output_layer.weight" in state["model"]:
            state["model"]["output_layer.weight"] = shared(1, 2)
            state["optimizer"] = None
    return ranks


def in_first(change: Callable[[dict[str, Any]], Any], made: Callable[[], Ranks] = stages) -> bytes:
    ranks = made()
    change(ranks[sorted(ranks)[0]])
    return pack(ranks)


def in_last(change: Callable[[dict[str, Any]], Any], made: Callable[[], Ranks] = stages) -> bytes:
    ranks = made()
    change(ranks[sorted(ranks)[-1]])
    return pack(ranks)


def without(name: str) -> bytes:
    ranks = stages()
    del ranks[name]
    return pack(ranks)


def groups(state: dict[str, Any]) -> list[dict[str, Any]]:
    return state["optimizer"]["optimizer"]["param_groups"]


def states(state: dict[str, Any]) -> list[dict[str, Any]]:
    return list(state["optimizer"]["optimizer"]["state"].values())


def seeds() -> dict[str, bytes]:
    layer = "decoder.layers.0."
    chained = experts()
    for state in chained.values():
        state["optimizer"] = [state["optimizer"]]
    plain = stages()
    for state in plain.values():
        state["optimizer"] = state["optimizer"]["optimizer"]
        state["model"] = {
            name: value.float() if isinstance(value, torch.Tensor) else value for name, value in state["model"].items()
        }
    return {
        "stages": pack(stages()),
        "experts": pack(experts()),
        "virtual": pack(virtual()),
        "chained": pack(chained),
        "float32": pack(plain),
        "tied": pack(tied(True)),
        "tied_different": pack(tied(False)),
        "release": pack(stages(), b"release\n", "release"),
        "no_number": pack(stages(), b"seven"),
        "no_rank": without("mp_rank_01_000"),
        "no_last_rank": without("mp_rank_01_001"),
        "other_form": pack(stages() | {"mp_rank_02": virtual()["mp_rank_00"]}),
        "same_rank": pack(stages() | {"mp_rank_000_000": state_of(model(0, 2))}),
        "bad_names": pack({"mp_rank_0": {}, "mp_rank_00_": {}, "mp_rank_00_001_002_003": {}, "mp_rank_0x": {}}),
        "other_iteration": in_last(lambda state: state.update(iteration=8)),
        "other_sizes": in_last(lambda state: setattr(state["args"], "tensor_model_parallel_size", 4)),
        "other_layers": in_first(lambda state: setattr(state["args"], "num_layers", 3)),
        "more_parts": in_last(lambda state: state.update(model0=state.pop("model"), model1={})),
        "no_model": in_last(lambda state: state.pop("model")),
        "model_is_none": in_last(lambda state: state.update(model=None)),
        "old_model": in_first(lambda state: state["model"].update(language_model={})),
        "number_key": in_first(lambda state: state["model"].update({3: None})),
        "missing_layer": in_first(lambda state: state["model"].update({"decoder.layers.2.x": None})),
        "missing_expert": in_first(
            lambda state: state["model"].update({layer + "mlp.experts.local_experts.5.x": None}), experts
        ),
        "extra_expert": in_last(
            lambda state: state["model"].update({layer + "mlp.experts.local_experts.2.x": None}), experts
        ),
        "no_rule": in_first(lambda state: state.update(model={"vision.weight": shared(2, 2)}, optimizer=None)),
        "other_shape": in_first(
            lambda state: state.update(
                model=state["model"] | {layer + "self_attention.linear_proj.weight": shared(1, 2)}, optimizer=None
            )
        ),
        "other_rank": in_first(
            lambda state: state.update(
                model=state["model"] | {layer + "self_attention.linear_proj.weight": shared(2)}, optimizer=None
            )
        ),
        "missing_tensor": in_last(
            lambda state: (state["model"].pop(layer + "mlp.linear_fc2.weight"), state.update(optimizer=None))
        ),
        "missing_norm": in_last(
            lambda state: (state["model"].pop(layer + "input_layernorm.weight"), state.update(optimizer=None))
        ),
        "other_dtype": in_last(
            lambda state: state.update(
                model=state["model"] | {layer + "input_layernorm.weight": shared(2, dtype=torch.float32)},
                optimizer=None,
            )
        ),
        "no_groups": in_first(lambda state: state["optimizer"]["optimizer"].pop("param_groups")),
        "no_decay": in_first(lambda state: groups(state)[0].pop("wd_mult")),
        "decay_is_text": in_first(lambda state: groups(state)[0].update(wd_mult="1")),
        "decay_is_int": in_first(lambda state: groups(state)[0].update(wd_mult=1)),
        "decoupled": in_first(lambda state: groups(state)[0].update(is_decoupled_lr=True)),
        "no_params": in_first(lambda state: groups(state)[0].pop("params")),
        "few_params": in_first(lambda state: groups(state)[0]["params"].pop()),
        "param_is_text": in_first(lambda state: groups(state)[0].update(params=["a", "b", "c", "d"])),
        "one_group": in_first(lambda state: groups(state).pop()),
        "few_masters": in_first(lambda state: state["optimizer"]["fp32_from_fp16_params"][0].pop()),
        "many_masters": in_first(
            lambda state: state["optimizer"]["fp32_from_fp16_params"][1].append(shared(2, dtype=torch.float32))
        ),
        "no_masters_of_group": in_first(lambda state: state["optimizer"]["fp32_from_fp16_params"].pop()),
        "slot_is_int": in_first(lambda state: state["optimizer"]["optimizer"]["state"][0].update(exp_avg=1)),
        "slot_is_none": in_first(lambda state: state["optimizer"]["optimizer"]["state"][0].update(other=None)),
        "slot_without_name": in_first(lambda state: state["optimizer"]["optimizer"]["state"][0].update({3: 1})),
        "slot_shape": in_first(
            lambda state: state["optimizer"]["optimizer"]["state"][0].update(exp_avg=shared(1, dtype=torch.float32))
        ),
        "no_state": in_first(lambda state: state["optimizer"]["optimizer"].update(state={})),
        "other_scheduler": in_last(lambda state: state.update(opt_param_scheduler={"num_steps": 1})),
        "distributed": pack(stages()) + entry("iter_0000007/mp_rank_00_000/distrib_optim.pt", b"x"),
        "step_is_int": in_first(lambda state: [slot.update(step=1) for slot in states(state)]),
        "steps_differ": in_first(lambda state: states(state)[0].update(step=1) or states(state)[1].update(step=2)),
    } | distributed_seeds()


def main() -> None:
    corpus = HERE / "corpus" / "megatron_legacy"
    corpus.mkdir(parents=True, exist_ok=True)
    for name, content in seeds().items():
        (corpus / name).write_bytes(content)


if __name__ == "__main__":
    main()
