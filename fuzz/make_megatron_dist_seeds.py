# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of megatron_dist_fuzz with torch: python make_megatron_dist_seeds.py

The layout of a seed is described in megatron_dist_fuzz.cc.
"""

import argparse
import hashlib
import io
import json
import math
import pickle
import struct
import tempfile
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner
from torch.distributed.checkpoint.metadata import Metadata

CORPUS = Path(__file__).resolve().parent / "corpus/megatron_dist"
OLD: dict[str, Any] = {
    "sharded_backend": "torch_dist",
    "sharded_backend_version": 1,
    "common_backend": "torch",
    "common_backend_version": 1,
}
NEW: dict[str, Any] = {"sharded_backend": "torch_dist", "sharded_backend_version": 1}
COMMON: dict[str, Any] = {"args": argparse.Namespace(tp=2), "iteration": 70, "optimizer": {"lr": 0.1}}


def saved(value: object) -> bytes:
    stream = io.BytesIO()
    torch.save(value, stream)
    return stream.getvalue()


def tensors(**objects: object) -> dict[str, Any]:
    state: dict[str, Any] = {
        "decoder.layers.mlp.linear_fc1.weight": torch.arange(8, dtype=torch.float32).reshape(2, 4),
        "w": torch.ones(2, dtype=torch.bfloat16),
    }
    return state | {name.replace("__0", "/shard_0_1"): [value] for name, value in objects.items()}


def data(state: dict[str, Any]) -> tuple[bytes, bytes]:
    """`.metadata` and the data file."""
    with tempfile.TemporaryDirectory() as folder:
        dcp.save(state, checkpoint_id=folder, planner=DefaultSavePlanner(flatten_state_dict=False), no_dist=True)
        return (Path(folder) / ".metadata").read_bytes(), (Path(folder) / "__0_0.distcp").read_bytes()


def sums(**files: bytes) -> dict[str, str]:
    names = {"backend": "metadata.json", "common": "common.pt", "metadata": ".metadata", "first": "__0_0.distcp"}
    return {names[name]: hashlib.sha256(content).hexdigest() for name, content in files.items()}


def pack(latest: str, backend: object, integrity: object, common: bytes, metadata: bytes, first: bytes) -> bytes:
    texts = [
        text if isinstance(text, str) else json.dumps(text) if text else "" for text in (latest, backend, integrity)
    ]
    parts = [text.encode() for text in texts] + [common, metadata]
    return struct.pack("<5H", *map(len, parts)) + b"".join(parts) + first


def reformulated(metadata: bytes) -> bytes:
    changed: Metadata = pickle.loads(metadata)
    changed.__dict__["mcore_data"] = {"w": {"nd_reformulated_orig_global_shape": (2, 1)}}
    return pickle.dumps(changed, protocol=4)


FLAT = "optimizer.distributed.dp_group_idx_"
TYPES = "dtype_(torch.float32, torch.float32)"


def arguments(**changed: Any) -> dict[str, Any]:
    sizes = {"tensor_model_parallel_size": 1, "pipeline_model_parallel_size": 1, "transformer_impl": "local"}
    return {"args": argparse.Namespace(**(sizes | changed)), "content_metadata": {"distrib_optim_sharding_type": "x"}}


def flat_model(experts: bool = False) -> dict[str, torch.Tensor]:
    """Of one rank, in the order of the model."""
    front = "decoder.layers.0."
    model = {
        "embedding.word_embeddings.weight": torch.arange(8, dtype=torch.float32).reshape(4, 2),
        front + "self_attention.linear_qkv.layer_norm_weight": torch.ones(2),
        front + "self_attention.linear_proj.weight": torch.ones(2, 2) * 3,
        "decoder.final_layernorm.weight": torch.ones(2) * 5,
    }
    if experts:
        model[front + "mlp.experts.experts.linear_fc1.weight"] = torch.ones(2, 2, 2) * 7
        model[front + "mlp.experts.experts.linear_fc2.weight"] = torch.ones(2, 2, 2) * 9
    return model


def buckets(
    tensors: list[torch.Tensor], front: str, size: int = 0, slots: tuple[str, ...] = ("param", "exp_avg")
) -> dict[str, Any]:
    """One after the other from behind; `size` elements in the first bucket, if they do not all go into one."""
    flat: list[list[float]] = [[]]
    for tensor in reversed(tensors):
        if size and len(flat[-1]) >= size:
            flat.append([])
        flat[-1] += [0.0] * (-len(flat[-1]) % 64) + tensor.flatten().tolist()
    return {
        f"{front}.gbuf_idx_0.{TYPES}.bucket_idx_{index}.{slot}": torch.tensor(values)
        for index, values in enumerate(flat)
        for slot in slots
    } | {f"{front}.optimizer/shard_0_1": [{"step": 1}], f"{front}.per_bucket_numel/shard_0_1": [1]}


def flat_seeds() -> dict[str, bytes]:
    def packed(state: dict[str, Any], **changed: Any) -> bytes:
        return pack("", OLD, "", saved(arguments(**changed)), *data(state))

    model = flat_model()
    tensors = list(model.values())
    order = [tensors[0], tensors[1], tensors[3], tensors[2]]
    stacked = {
        "decoder.layers.mlp.linear_fc1.weight_w": torch.ones(2, 2, 2),
        "decoder.layers.mlp.linear_fc1.weight_v": torch.ones(2, 2, 2) * 2,
        "decoder.layers.mlp.linear_fc2.weight": torch.ones(2, 2, 2) * 3,
    }
    of_layers = [
        tensor
        for layer in range(2)
        for tensor in (
            torch.cat([stacked[f"decoder.layers.mlp.linear_fc1.weight_{half}"][layer] for half in "wv"]),
            stacked["decoder.layers.mlp.linear_fc2.weight"][layer],
        )
    ]
    mixture = flat_model(experts=True)
    experts = [tensor[index] for index in range(2) for name, tensor in mixture.items() if "experts" in name]
    one, two = f"{FLAT}0", f"{FLAT}1"
    right = model | buckets(tensors, one)
    odd = {
        "embedding.word_embeddings.weight": torch.tensor([[0.0, 1e-7], [math.inf, -1.0]]),
        "decoder.final_layernorm.weight": torch.tensor([math.nan, 1.001]),
    }
    first = f"{one}.gbuf_idx_0.{TYPES}.bucket_idx_0"
    apart = {"expert_model_parallel_size": 2}
    of_two = [buckets(experts[2 * rank : 2 * rank + 2], f"chained_1.{FLAT}{rank}") for rank in range(2)]
    return {
        "buckets": packed(right),
        "buckets_fused": packed(model | buckets([tensors[0], tensors[2], tensors[1], tensors[3]], one)),
        "buckets_small": packed(model | buckets(tensors, one, size=1)),
        "buckets_order": packed(model | buckets(order, one)),
        "buckets_long": packed(model | buckets([*tensors, torch.ones(3)], one)),
        "buckets_short": packed(model | buckets(tensors[1:], one)),
        "buckets_stacked": packed(stacked | buckets(of_layers, one)),
        "buckets_experts": packed(mixture | buckets([*tensors[:3], *experts, tensors[3]], one)),
        "buckets_apart": packed(mixture | buckets(tensors, f"chained_0.{one}") | of_two[0] | of_two[1], **apart),
        "buckets_other_object": packed(
            {"decoder.final_layernorm.weight": torch.ones(2)}
            | buckets([torch.ones(2)], one)
            | buckets([torch.ones(2)], two)
            | {f"{two}.optimizer/shard_0_1": [{"step": 2}]},
            tensor_model_parallel_size=2,
        ),
        "buckets_other_copy": packed(
            {"decoder.final_layernorm.weight": torch.ones(2)}
            | buckets([torch.ones(2)], one)
            | buckets([torch.ones(2)], two)
            | {f"{two}.gbuf_idx_0.{TYPES}.bucket_idx_0.exp_avg": torch.zeros(2)},
            tensor_model_parallel_size=2,
        ),
        "buckets_one_rank": packed(right, tensor_model_parallel_size=2),
        "buckets_two_ranks": packed(right | buckets(tensors, two)),
        "buckets_no_sizes": packed(right, pipeline_model_parallel_size=None),
        "buckets_huge_size": packed(right, tensor_model_parallel_size=2**40),
        "buckets_no_masters": packed(model | buckets(tensors, one, slots=("exp_avg",))),
        "buckets_other_slots": packed(right | {first.replace("idx_0.dtype", "idx_1.dtype") + ".param": torch.ones(3)}),
        "buckets_lost": packed(
            right | {f"{one}.gbuf_idx_0.{TYPES}.bucket_idx_2.{s}": torch.ones(1) for s in ("param", "exp_avg")}
        ),
        "buckets_lengths": packed(right | {f"{first}.exp_avg": torch.ones(3)}),
        "buckets_square": packed(right | {f"{first}.exp_avg": torch.ones(3, 3)}),
        "buckets_of_half": packed({name: tensor.half() for name, tensor in model.items()} | buckets(tensors, one)),
        "buckets_of_bytes": packed(
            {name: tensor.to(torch.uint8) for name, tensor in model.items()} | buckets(tensors, one)
        ),
        **{
            f"buckets_{kind}": packed(
                {name: tensor.to(dtype) for name, tensor in odd.items()}
                | {
                    name.replace("(torch.float32", f"(torch.{kind}"): value
                    for name, value in buckets(list(odd.values()), one).items()
                }
            )
            for kind, dtype in (("bfloat16", torch.bfloat16), ("float16", torch.float16))
        },
        "buckets_unknown": packed(right | {"decoder.layers.0.other.weight": torch.ones(2)}),
        "buckets_no_place": packed({"decoder.layers.0.mlp.router.bias": torch.ones(2)} | buckets([torch.ones(2)], one)),
        "buckets_types": packed(
            model
            | {
                name.replace("(torch.float32", "(torch.bfloat16"): value
                for name, value in buckets(tensors, one).items()
            }
        ),
    }


def seeds() -> dict[str, bytes]:
    common = saved(COMMON)
    old, old_data = data(tensors(rng__0=[{"seed": 1}]))
    new, new_data = data(tensors(common_state__0=COMMON, rng__0=[{"seed": 1}]))
    lost, lost_data = data({"w": torch.ones(2), "rng/shard_1_2": [1]})
    twice, twice_data = data({"w": torch.ones(2), "rng/shard_0_1": [1], "rng/shard_0_2": [1]})
    odd, odd_data = data({"w": torch.ones(2), "rng/shard_0.01_2": [1]})
    outside, outside_data = data({"w": torch.ones(2), "rng/shard_2_2": [1]})
    grid, grid_data = data({"w": torch.ones(2)} | {f"r/shard_{i // 2}.{i % 2}_2.2": [i] for i in range(4)})
    bare, bare_data = data({"w": torch.ones(2), "x/shard_0_1": 3})
    backend = json.dumps(NEW).encode()
    right = {"algorithm": "sha256", "files": sums(backend=backend, metadata=new, first=new_data)}
    wrong = {"algorithm": "sha256", "files": sums(backend=b"", metadata=new, first=new_data)}
    extra = {"algorithm": "sha256", "files": sums(metadata=new, first=new_data)}
    missing = {"files": sums(backend=backend, common=b"", metadata=new, first=new_data)}
    return {
        "old": pack("", OLD, "", common, old, old_data),
        "new": pack("", NEW, right, b"", new, new_data),
        "root": pack("70\n", OLD, "", common, old, old_data),
        "release": pack("release", OLD, "", common, old, old_data),
        "no_number": pack("7x", OLD, "", common, old, old_data),
        "long_latest": pack("7" * 80, OLD, "", common, old, old_data),
        "others": pack("", OLD | {"more": {"x": [1, None]}}, "", common, old, old_data),
        "zarr": pack("", OLD | {"sharded_backend": "zarr"}, "", common, old, old_data),
        "common_version": pack("", OLD | {"common_backend_version": 2}, "", common, old, old_data),
        "no_backend": pack("", {"x": 1}, "", common, old, old_data),
        "unfinished": pack("", "", "", common, old, old_data),
        "only_backend": pack("", NEW, "", b"", b"", b""),
        "no_common": pack("", NEW, "", b"", old, old_data),
        "wrong_sum": pack("", NEW, wrong, b"", new, new_data),
        "not_listed": pack("", NEW, extra, b"", new, new_data),
        "listed": pack("", NEW, missing, b"", new, new_data),
        "md5": pack("", NEW, {"algorithm": "md5", "files": {}}, b"", new, new_data),
        "no_files": pack("", NEW, {"algorithm": "sha256"}, b"", new, new_data),
        "no_sum": pack("", NEW, {"later": [], "files": {"a": "12"}}, b"", new, new_data),
        "lost_object": pack("", OLD, "", common, lost, lost_data),
        "two_grids": pack("", OLD, "", common, twice, twice_data),
        "odd_name": pack("", OLD, "", common, odd, odd_data),
        "outside": pack("", OLD, "", common, outside, outside_data),
        "grid": pack("", OLD, "", common, grid, grid_data),
        "no_list": pack("", OLD, "", common, bare, bare_data),
        "common_list": pack("", OLD, "", saved([1]), old, old_data),
        "flat": pack("", OLD, "", saved({}), *data({"w": torch.ones(2)})),
        "reformulated": pack("", OLD, "", common, reformulated(old), old_data),
    } | flat_seeds()


def main() -> None:
    CORPUS.mkdir(parents=True, exist_ok=True)
    for name, content in seeds().items():
        (CORPUS / name).write_bytes(content)


if __name__ == "__main__":
    main()
