# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""Hugging Face models under Megatron-Core's names and back; what is expected is arranged here, by torch."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from compare import assert_same_tensors, raw_bytes
from makers.hugging_face import MAPPED_FAMILIES, load_model, logits, make_config, save_model, stored_tensors
from program import tenplex
from stored_megatron import sizes_of, stored, whole

Tensors = dict[str, torch.Tensor]

CUT = """meshes: {dense: [tp]}
tensors:
  - match: ['*word_embeddings.weight', 'output_layer.weight', '*.linear_qkv.weight', '*.linear_qkv.bias']
    slice: [{dim: 0, by: tp}]
  - match: ['*.linear_fc1.weight*', '*.linear_fc1.bias']
    slice: [{dim: 0, by: tp, segments: SEGMENTS}]
  - match: ['*.linear_proj.weight', '*.linear_fc2.weight*']
    slice: [{dim: 1, by: tp}]
  - match: '*'
"""

LLAMA = {
    "model.embed_tokens.weight": "embedding.word_embeddings.weight",
    "model.norm.weight": "decoder.final_layernorm.weight",
    "lm_head.weight": "output_layer.weight",
    "self_attn.o_proj.weight": "self_attention.linear_proj.weight",
    "self_attn.q_norm.weight": "self_attention.q_layernorm.weight",
    "self_attn.k_norm.weight": "self_attention.k_layernorm.weight",
    "input_layernorm.weight": "self_attention.linear_qkv.layer_norm_weight",
    "post_attention_layernorm.weight": "mlp.linear_fc1.layer_norm_weight",
    "mlp.down_proj.weight": "mlp.linear_fc2.weight",
    "block_sparse_moe.gate.weight": "mlp.router.weight",
}
GPT2 = {
    "wte.weight": "embedding.word_embeddings.weight",
    "wpe.weight": "embedding.position_embeddings.weight",
    "ln_f.": "decoder.final_layernorm.",
    "ln_1.": "self_attention.linear_qkv.layer_norm_",
    "ln_2.": "mlp.linear_fc1.layer_norm_",
    "attn.c_proj.": "self_attention.linear_proj.",
    "mlp.c_fc.": "mlp.linear_fc1.",
    "mlp.c_proj.": "mlp.linear_fc2.",
}


@pytest.fixture(scope="module")
def hf_model(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    made: dict[str, Path] = {}

    def model(family: str) -> Path:
        if family not in made:
            made[family] = tmp_path_factory.mktemp("maps") / family
            save_model(family, made[family])
        return made[family]

    return model


def map_of(family: str) -> str:
    return f"hf-{family}" if family in ("mixtral", "gpt2") else "hf-llama"


def grouped(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, groups: int) -> torch.Tensor:
    """Rows of group 0: its queries, its key, its value; then those of group 1, …"""
    parts = [part.reshape(groups, -1, *part.shape[1:]) for part in (query, key, value)]
    return torch.cat(parts, dim=1).reshape(-1, *query.shape[1:])


def llama_in_megatron(hf: Tensors, groups: int, mixture: bool) -> Tensors:
    out: Tensors = {}
    for name, tensor in hf.items():
        found = re.match(r"model\.layers\.(\d+)\.(.*)", name)
        prefix, rest = (f"decoder.layers.{found[1]}.", found[2]) if found else ("", name)
        before = name.removesuffix(rest)
        if rest.startswith("self_attn.q_proj."):
            kind = rest.rsplit(".", 1)[1]
            key, value = (hf[f"{before}self_attn.{part}_proj.{kind}"] for part in "kv")
            out[f"{prefix}self_attention.linear_qkv.{kind}"] = grouped(tensor, key, value, groups)
        elif rest == "mlp.gate_proj.weight":
            out[prefix + "mlp.linear_fc1.weight"] = torch.cat([tensor, hf[before + "mlp.up_proj.weight"]])
        elif expert := re.match(r"block_sparse_moe\.experts\.(\d+)\.w([123])\.weight", rest):
            if expert[2] == "1":
                up = hf[f"{before}block_sparse_moe.experts.{expert[1]}.w3.weight"]
                out[f"{prefix}mlp.experts.linear_fc1.weight{expert[1]}"] = torch.cat([tensor, up])
            if expert[2] == "2":
                out[f"{prefix}mlp.experts.linear_fc2.weight{expert[1]}"] = tensor
        elif mixture and rest == "post_attention_layernorm.weight":
            out[prefix + "pre_mlp_layernorm.weight"] = tensor
        elif rest in LLAMA:
            out[prefix + LLAMA[rest]] = tensor
        else:
            assert re.search(r"[kv]_proj|up_proj", rest), name
    return out


def gpt2_in_megatron(hf: Tensors, heads: int) -> Tensors:
    out: Tensors = {}
    for name, tensor in hf.items():
        found = re.match(r"transformer\.(?:h\.(\d+)\.)?(.*)", name)
        assert found, name
        prefix, rest = f"decoder.layers.{found[1]}." if found[1] else "", found[2]
        kind = rest.rsplit(".", 1)[1]
        turned = tensor.T if rest.startswith(("attn.", "mlp.")) and kind == "weight" else tensor
        if rest.startswith("attn.c_attn."):
            query, key, value = turned.chunk(3)
            out[f"{prefix}self_attention.linear_qkv.{kind}"] = grouped(query, key, value, heads)
            continue
        start = next(start for start in GPT2 if rest.startswith(start))
        out[prefix + rest.replace(start, GPT2[start], 1)] = turned
    return out


def in_megatron(family: str, hf: Tensors) -> Tensors:
    config = make_config(family)
    if family == "gpt2":
        return gpt2_in_megatron(hf, config.n_head)
    return llama_in_megatron(hf, config.num_key_value_heads, family == "mixtral")


@pytest.mark.parametrize("family", MAPPED_FAMILIES)
@pytest.mark.parametrize("middle", ["dcp", "safetensors"])
def test_there_cut_and_back_is_the_same_model(
    family: str, middle: str, hf_model: Callable[[str], Path], tmp_path: Path, wrote_by: Callable[[str], None]
) -> None:
    wrote_by("transformers")
    source, other = hf_model(family), ("--map", map_of(family))
    (tmp_path / "cut.yaml").write_text(CUT.replace("SEGMENTS", "[1]" if family == "gpt2" else "[1, 1]"))
    expected = in_megatron(family, stored_tensors(source))

    tenplex("reshard", source, tmp_path / "whole", *other, "--format", "hf", "--verify")
    assert_same_tensors(expected, stored_tensors(tmp_path / "whole"))

    cut = ("--layout", tmp_path / "cut.yaml", "--to", "tp=2", "--format", middle, "--verify")
    tenplex("reshard", source, tmp_path / "2", *other, *cut)
    tenplex("verify", source, tmp_path / "2", *other)
    tenplex("verify", tmp_path / "whole", tmp_path / "2")
    tenplex("reshard", tmp_path / "2", tmp_path / "back", *other, "--format", "hf", "--verify")
    tenplex("verify", source, tmp_path / "back")
    assert_same_tensors(stored_tensors(source), stored_tensors(tmp_path / "back"))

    before, after = load_model(source), load_model(tmp_path / "back")
    assert_same_tensors(before.state_dict(), after.state_dict())
    assert raw_bytes(logits(after)) == raw_bytes(logits(before))


def test_sizes_that_differ_from_the_configuration_are_warned_about(
    hf_model: Callable[[str], Path], tmp_path: Path
) -> None:
    options = ("--map", "hf-llama", "--format", "hf", "--sizes")
    run = tenplex("reshard", hf_model("llama"), tmp_path / "wrong", *options, "heads=16,groups=8")
    assert "--sizes heads=16 counts, but the configuration has num_attention_heads 8" in run.err
    assert "--sizes groups=8 counts, but the configuration has num_key_value_heads 4" in run.err
    assert "warning" not in tenplex("reshard", hf_model("llama"), tmp_path / "right", *options, "heads=8,groups=4").err


@pytest.mark.parametrize("family", MAPPED_FAMILIES)
def test_through_a_distributed_checkpoint_and_back_is_the_same_model(
    family: str, hf_model: Callable[[str], Path], tmp_path: Path, wrote_by: Callable[[str], None]
) -> None:
    """Hugging Face → Megatron-Core TP2 PP2 → TP4 → Hugging Face. Every tensor in between is what torch arranges."""
    wrote_by("transformers")
    source, other = hf_model(family), ("--map", map_of(family))
    target = ("--format", "megatron-dist", "--layout", "megatron-gpt")
    tenplex("reshard", source, tmp_path / "a", *other, *target, "--to", "tp=2,pp=2", "--verify")
    tenplex("reshard", tmp_path / "a", tmp_path / "b", "--to", "tp=4", "--verify")
    expected = in_megatron(family, stored_tensors(source))
    for folder in (tmp_path / "a", tmp_path / "b"):
        chunks, objects = stored(folder)
        assert not objects
        assert_same_tensors(expected, {name: whole(size, chunks[name]) for name, size in sizes_of(folder).items()})
    tenplex("reshard", tmp_path / "b", tmp_path / "back", *other, "--format", "hf", "--verify")
    assert_same_tensors(stored_tensors(source), stored_tensors(tmp_path / "back"))

    before, after = load_model(source), load_model(tmp_path / "back")
    assert_same_tensors(before.state_dict(), after.state_dict())
    assert raw_bytes(logits(after)) == raw_bytes(logits(before))


@pytest.mark.parametrize("family", MAPPED_FAMILIES)
def test_state_dict_has_the_names_that_are_in_memory(
    family: str, hf_model: Callable[[str], Path], tmp_path: Path, wrote_by: Callable[[str], None]
) -> None:
    """torch.save(model.state_dict()): tied heads are there, and the experts of a layer are one tensor."""
    wrote_by("transformers")
    model = load_model(hf_model(family))
    torch.save(model.state_dict(), tmp_path / "model.pt")
    config = make_config(family)
    sizes = "heads=8" if family == "gpt2" else f"heads=8,groups={config.num_key_value_heads}"
    run = tenplex(
        "reshard", tmp_path / "model.pt", tmp_path / "out.safetensors", "--map", map_of(family), "--sizes", sizes
    )
    assert "attributes of the state dict (_metadata) are left out" in run.err
    expected = in_megatron(family, stored_tensors(hf_model(family)))
    if "lm_head.weight" in model.state_dict():
        expected["output_layer.weight"] = model.state_dict()["lm_head.weight"]
    found = load_file(tmp_path / "out.safetensors")
    tied = expected.keys() - found.keys()
    assert tied <= {"output_layer.weight"}, tied
    assert_same_tensors({name: tensor for name, tensor in expected.items() if name not in tied}, found)
    again = tmp_path / "again.pt"
    tenplex("reshard", tmp_path / "out.safetensors", again, "--format", "torch")
    assert_same_tensors(expected, torch.load(again))


@pytest.mark.parametrize("family", ["llama", "qwen2", "mixtral", "gpt2"])
def test_stacked_layers_are_read(family: str, hf_model: Callable[[str], Path], tmp_path: Path) -> None:
    """Megatron's homogeneous keys: one tensor [layers, …], of experts [layers, experts, …]."""
    original = stored_tensors(hf_model(family))
    stacks: dict[str, dict[tuple[int, ...], torch.Tensor]] = {}
    for name, tensor in in_megatron(family, original).items():
        found = re.match(r"decoder\.layers\.(\d+)\.(.*?)(?:(?<=weight)(\d+))?$", name)
        key = name if not found else "decoder.layers." + found[2].replace("experts.", "experts.experts.")
        index = () if not found else tuple(int(number) for number in (found[1], found[3]) if number is not None)
        stacks.setdefault(key, {})[index] = tensor
    stacked: Tensors = {}
    for key, parts in stacks.items():
        shape = [max(index[axis] for index in parts) + 1 for axis in range(len(next(iter(parts))))]
        whole = torch.stack([parts[index] for index in sorted(parts)])
        stacked[key] = whole.reshape(*shape, *whole.shape[1:]).contiguous()
    save_file(stacked, tmp_path / "in.safetensors")
    (tmp_path / "config.json").write_text((hf_model(family) / "config.json").read_text())
    tenplex("reshard", tmp_path / "in.safetensors", tmp_path / "out.safetensors", "--map", map_of(family), "--verify")
    assert_same_tensors(original, load_file(tmp_path / "out.safetensors"))


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_local_layer_norms_are_read(family: str, hf_model: Callable[[str], Path], tmp_path: Path) -> None:
    original = stored_tensors(hf_model(family))
    local = {
        name.replace("self_attention.linear_qkv.layer_norm_", "input_layernorm.").replace(
            "mlp.linear_fc1.layer_norm_", "pre_mlp_layernorm."
        ): tensor.contiguous()
        for name, tensor in in_megatron(family, original).items()
    }
    assert "decoder.layers.0.pre_mlp_layernorm.weight" in local
    save_file(local, tmp_path / "in.safetensors")
    arguments = ("--map", map_of(family), "--sizes", "heads=8" if family == "gpt2" else "heads=8,groups=4")
    tenplex("reshard", tmp_path / "in.safetensors", tmp_path / "out.safetensors", *arguments)
    assert_same_tensors(original, load_file(tmp_path / "out.safetensors"))


def rank_part(name: str, tensor: torch.Tensor, rank: int) -> torch.Tensor:
    """What rank `rank` of two holds of a tensor of a gated model under Megatron's names."""
    if re.search(r"word_embeddings|output_layer|linear_qkv\.(weight|bias)$", name):
        return tensor.chunk(2)[rank].contiguous()
    if re.search(r"linear_fc1\.weight", name):
        return torch.cat([half.chunk(2)[rank] for half in tensor.chunk(2)])
    if re.search(r"linear_(proj|fc2)\.", name):
        return tensor.chunk(2, dim=1)[rank].contiguous()
    return tensor


@pytest.mark.parametrize("family", ["llama", "mixtral"])
def test_rank_files_are_joined_before_the_map(family: str, hf_model: Callable[[str], Path], tmp_path: Path) -> None:
    source = hf_model(family)
    ranks = tmp_path / "ranks"
    ranks.mkdir()
    for rank in range(2):
        parts = {n: rank_part(n, t, rank) for n, t in in_megatron(family, stored_tensors(source)).items()}
        save_file(parts, ranks / f"rank{rank}.safetensors")
    (ranks / "config.json").write_text((source / "config.json").read_text())
    (tmp_path / "cut.yaml").write_text(CUT.replace("SEGMENTS", "[1, 1]"))
    options = ("--map", map_of(family), "--from", "tp=2", "--from-layout", tmp_path / "cut.yaml")
    tenplex("reshard", ranks, tmp_path / "back", *options, "--format", "hf", "--verify")
    assert_same_tensors(stored_tensors(source), stored_tensors(tmp_path / "back"))
    tenplex("verify", ranks, source, *options)
    tenplex("verify", source, ranks, *options)


def test_padding_is_left_out_before_the_map_and_made_behind_it(hf_model: Callable[[str], Path], tmp_path: Path) -> None:
    """Megatron pads the vocabulary of 256 rows to 300."""
    source = hf_model("llama")
    pad = "  - match: ['*word_embeddings.weight', 'output_layer.weight']\n    pad: {dim: 0, data: 256, multiple_of: [100]}\n"
    (tmp_path / "padded.yaml").write_text("meshes: {dense: [tp]}\ntensors:\n" + pad + "  - match: '*'\n")
    stored = in_megatron("llama", stored_tensors(source))
    for name in ("embedding.word_embeddings.weight", "output_layer.weight"):
        stored[name] = torch.cat([stored[name], torch.full((44, 64), torch.nan, dtype=stored[name].dtype)])
    save_file(stored, tmp_path / "in.safetensors")
    there = ("--map", "hf-llama", "--sizes", "heads=8,groups=4")
    options = (*there, "--from-layout", tmp_path / "padded.yaml")
    tenplex("reshard", tmp_path / "in.safetensors", tmp_path / "out.safetensors", *options)
    assert_same_tensors(stored_tensors(source), load_file(tmp_path / "out.safetensors"))

    cut = ("--layout", tmp_path / "padded.yaml", "--to", "tp=2", "--format", "safetensors")
    tenplex("reshard", source, tmp_path / "2", "--map", "hf-llama", *cut)
    rows = [load_file(file)["output_layer.weight"].shape[0] for file in sorted((tmp_path / "2").glob("*.safetensors"))]
    assert rows == [300, 300]
    tenplex("reshard", tmp_path / "2", tmp_path / "again", "--map", "hf-llama", "--format", "hf")
    assert_same_tensors(stored_tensors(source), stored_tensors(tmp_path / "again"))


def rewritten(model: Path, folder: Path, change: Callable[[Tensors], Tensors]) -> Path:
    """The model in one file beside its config.json, with other tensors."""
    folder.mkdir()
    save_file(change(stored_tensors(model)), folder / "model.safetensors")
    (folder / "config.json").write_bytes((model / "config.json").read_bytes())
    return folder / "model.safetensors"


def test_buffers_that_are_computed_again_are_left_out_with_a_warning(
    hf_model: Callable[[str], Path], tmp_path: Path
) -> None:
    model = hf_model("llama")
    buffers = {f"model.layers.{layer}.self_attn.rotary_emb.inv_freq": torch.ones(3) for layer in (0, 1)}
    source = rewritten(model, tmp_path / "old", lambda tensors: tensors | buffers)
    run = tenplex("reshard", source, tmp_path / "out.safetensors", "--map", "hf-llama", "--verify")
    assert "2 tensors are left out, as the map says: 'model.layers.0.self_attn.rotary_emb.inv_freq'" in run.err
    assert_same_tensors(in_megatron("llama", stored_tensors(model)), load_file(tmp_path / "out.safetensors"))


def test_gpt2_without_a_head_is_the_same_model(hf_model: Callable[[str], Path], tmp_path: Path) -> None:
    model = hf_model("gpt2")
    source = rewritten(
        model,
        tmp_path / "base",
        lambda tensors: {name.removeprefix("transformer."): tensor for name, tensor in tensors.items()},
    )
    tenplex("reshard", source, tmp_path / "out.safetensors", "--map", "hf-gpt2")
    assert_same_tensors(in_megatron("gpt2", stored_tensors(model)), load_file(tmp_path / "out.safetensors"))
