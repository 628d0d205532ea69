# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""Folders of per-rank `.safetensors` files that say nothing: --from and --from-layout say how they were cut.

The files are cut here by hand, with slices of torch.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from compare import assert_same_tensors
from program import tenplex, tenplex_json

TP = 4
FROM = ("--from", f"tp={TP}", "--from-layout", "hf-llama")


def whole_model() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(11)

    def weight(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator).to(torch.bfloat16)

    model = {
        "model.embed_tokens.weight": weight(40, 16),
        "model.norm.weight": weight(16),
        "lm_head.weight": weight(40, 16),
    }
    for layer in range(2):
        prefix = f"model.layers.{layer}"
        for name in ("q_proj", "k_proj", "v_proj"):
            model[f"{prefix}.self_attn.{name}.weight"] = weight(16, 16)
        model[f"{prefix}.self_attn.o_proj.weight"] = weight(16, 16)
        model[f"{prefix}.mlp.gate_proj.weight"] = weight(24, 16)
        model[f"{prefix}.mlp.up_proj.weight"] = weight(24, 16)
        model[f"{prefix}.mlp.down_proj.weight"] = weight(16, 24)
        model[f"{prefix}.input_layernorm.weight"] = weight(16)
        model[f"{prefix}.post_attention_layernorm.weight"] = weight(16)
    return model


def part_of_rank(name: str, tensor: torch.Tensor, rank: int, tp: int = TP) -> torch.Tensor:
    """What Megatron-style tensor parallelism gives a rank: rows, or columns of o_proj and down_proj; norms whole."""
    if "norm" in name:
        return tensor.clone()
    dim = 1 if "o_proj" in name or "down_proj" in name else 0
    size = tensor.shape[dim] // tp
    return tensor.narrow(dim, rank * size, size).contiguous()


def save_ranks(folder: Path, name: str = "rank{}.safetensors", tp: int = TP) -> Path:
    folder.mkdir()
    for rank in range(tp):
        parts = {key: part_of_rank(key, tensor, rank, tp) for key, tensor in whole_model().items()}
        save_file(parts, folder / name.format(rank), metadata={"format": "pt", "run": "42"})
    return folder


def change_rank(folder: Path, rank: int, name: str, change: Callable[[torch.Tensor], torch.Tensor]) -> None:
    path = folder / f"rank{rank}.safetensors"
    tensors = load_file(path)
    tensors[name] = change(tensors[name]).contiguous()
    save_file(tensors, path, metadata={"format": "pt", "run": "42"})


@pytest.fixture
def ranks(tmp_path: Path, wrote_by: Callable[[str], None]) -> Path:
    wrote_by("safetensors")
    return save_ranks(tmp_path / "ranks")


def test_ranks_become_whole_tensors(ranks: Path, tmp_path: Path) -> None:
    tenplex("reshard", ranks, tmp_path / "out.safetensors", *FROM, "--layout", "replicated", "--verify")
    assert_same_tensors(whole_model(), load_file(tmp_path / "out.safetensors"))


@pytest.mark.parametrize("target_format", ["safetensors", "dcp"])
def test_ranks_become_other_ranks(target_format: str, ranks: Path, tmp_path: Path) -> None:
    cut = ("--to", "tp=2", "--layout", "hf-llama")
    tenplex("reshard", ranks, tmp_path / "out", "--from", f"tp={TP}", *cut, "--format", target_format, "--verify")
    tenplex("reshard", tmp_path / "out", tmp_path / "whole.safetensors", "--format", "safetensors")
    assert_same_tensors(whole_model(), load_file(tmp_path / "whole.safetensors"))
    if target_format == "safetensors":
        for rank, path in enumerate(sorted((tmp_path / "out").glob("*.safetensors"))):
            expected = {key: part_of_rank(key, tensor, rank, 2) for key, tensor in whole_model().items()}
            assert_same_tensors(expected, load_file(path))


def test_eleven_ranks_are_ordered_by_number(tmp_path: Path, wrote_by: Callable[[str], None]) -> None:
    wrote_by("safetensors")
    folder = tmp_path / "ranks"
    folder.mkdir()
    whole = torch.arange(22 * 3, dtype=torch.int32).reshape(22, 3)
    for rank in range(11):
        save_file({"w": whole[2 * rank : 2 * rank + 2].clone()}, folder / f"r-{rank}-of-11.safetensors")
    tenplex("reshard", folder, tmp_path / "out.safetensors", "--from", "fsdp=11")
    assert_same_tensors({"w": whole}, load_file(tmp_path / "out.safetensors"))


def test_names_of_a_model_are_ranks_if_they_share_tensors(tmp_path: Path, wrote_by: Callable[[str], None]) -> None:
    wrote_by("safetensors")
    folder = save_ranks(tmp_path / "ranks", "model-0000{}-of-00004.safetensors")
    for rank in reversed(range(TP)):
        (folder / f"model-0000{rank}-of-00004.safetensors").rename(
            folder / f"model-0000{rank + 1}-of-00004.safetensors"
        )
    assert "--from-layout" in tenplex("inspect", folder, exit_code=1).err
    tenplex("reshard", folder, tmp_path / "out.safetensors", *FROM, "--layout", "replicated")
    assert_same_tensors(whole_model(), load_file(tmp_path / "out.safetensors"))


def test_inspect_plan_and_digest_read_them(ranks: Path, tmp_path: Path) -> None:
    report = tenplex_json("inspect", ranks, *FROM, "--tensors")
    assert report["devices"] == TP
    assert report["layout"] == {"name": "hf-llama", "mesh": {"tp": TP}}
    shapes = {tensor["name"]: tensor["shape"] for tensor in report["tensors"]}
    assert shapes == {name: list(tensor.shape) for name, tensor in whole_model().items()}
    assert (
        "21 tensors, 4 devices → 2 devices" in tenplex("plan", ranks, *FROM, "--to", "tp=2", "--layout", "hf-llama").out
    )
    save_file(whole_model(), tmp_path / "whole.safetensors")
    assert tenplex("digest", ranks, *FROM).out == tenplex("digest", tmp_path / "whole.safetensors").out


def test_verify_reads_them_on_either_side(ranks: Path, tmp_path: Path) -> None:
    whole = tmp_path / "whole.safetensors"
    save_file(whole_model(), whole)
    for pair in ((ranks, whole), (whole, ranks), (ranks, ranks)):
        report = tenplex_json("verify", *pair, *FROM)
        assert report["equal"]
        assert report["tensors_compared"] == len(whole_model())
        assert "--from" in tenplex("verify", *pair, exit_code=3).err
    assert "leave --from" in tenplex("verify", whole, whole, *FROM, exit_code=3).err
    change_rank(ranks, 2, "lm_head.weight", lambda part: part + 1)
    run = tenplex("verify", whole, ranks, *FROM, exit_code=1)
    assert "tensor 'lm_head.weight': 160 of 640 elements differ; the first at [20, 0]" in run.out


def test_layouts_check_reads_them(ranks: Path, tmp_path: Path) -> None:
    check = ("layouts", "check", "hf-llama", "--checkpoint")
    assert "fits" in tenplex(*check, ranks, *FROM, "--to", "tp=2").out
    assert "(21 tensors)" in tenplex(*check, ranks, "--from", f"tp={TP}", "--to", "tp=2").out
    assert "--from" in tenplex(*check, ranks, exit_code=1).err
    save_file(whole_model(), tmp_path / "whole.safetensors")
    assert "leave --from" in tenplex(*check, tmp_path / "whole.safetensors", *FROM, exit_code=1).err


def test_metadata_and_other_files_are_carried(ranks: Path, tmp_path: Path) -> None:
    (ranks / "config.json").write_text('{"a": 1}')
    (ranks / "sub").mkdir()
    (ranks / "sub" / "note.txt").write_text("text")
    tenplex("reshard", ranks, tmp_path / "out", *FROM, "--layout", "replicated", "--format", "dcp")
    assert (tmp_path / "out/config.json").read_text() == '{"a": 1}'
    assert (tmp_path / "out/sub/note.txt").read_text() == "text"
    tenplex("reshard", tmp_path / "out", tmp_path / "hf", "--format", "hf")
    assert (tmp_path / "hf/config.json").read_text() == '{"a": 1}'
    from safetensors import safe_open

    with safe_open(tmp_path / "hf/model.safetensors", "pt") as file:
        assert file.metadata() == {"format": "pt", "run": "42"}


def test_without_from_the_error_says_what_to_give(ranks: Path, tmp_path: Path) -> None:
    for arguments in (("inspect", ranks), ("reshard", ranks, tmp_path / "out", "--format", "dcp")):
        run = tenplex(*arguments, exit_code=1)
        assert "--from" in run.err
        assert "--from-layout" in run.err
    run = tenplex("reshard", ranks, tmp_path / "out", "--from", "tp=4", exit_code=1)
    assert "--from-layout" in run.err


def test_absent_rank_is_named(ranks: Path, tmp_path: Path) -> None:
    (ranks / "rank2.safetensors").unlink()
    run = tenplex("reshard", ranks, tmp_path / "out", *FROM, exit_code=1)
    assert "number 2 is missing" in run.reason
    assert not (tmp_path / "out").exists()


def test_absent_last_rank_is_a_mismatch_with_the_mesh(ranks: Path, tmp_path: Path) -> None:
    (ranks / "rank3.safetensors").unlink()
    run = tenplex("reshard", ranks, tmp_path / "out", *FROM, exit_code=1)
    assert "3" in run.reason
    assert "4" in run.reason
    assert not (tmp_path / "out").exists()


def test_shape_that_does_not_fit_names_tensor_shapes_and_rule(ranks: Path, tmp_path: Path) -> None:
    name = "model.layers.0.mlp.down_proj.weight"
    change_rank(ranks, 2, name, lambda part: part[:, :5])
    run = tenplex("reshard", ranks, tmp_path / "out", *FROM, exit_code=1)
    assert name in run.reason
    assert "[16, 5]" in run.reason
    assert "[16, 6]" in run.reason
    assert "line" in run.reason
    assert not (tmp_path / "out").exists()


def test_another_dtype_on_one_rank_is_refused(ranks: Path, tmp_path: Path) -> None:
    change_rank(ranks, 1, "lm_head.weight", lambda part: part.float())
    run = tenplex("reshard", ranks, tmp_path / "out", *FROM, exit_code=1)
    assert "lm_head.weight" in run.reason
    assert "float32" in run.reason
    assert "bfloat16" in run.reason


def test_tensor_that_one_rank_lacks_is_named(ranks: Path, tmp_path: Path) -> None:
    tensors = load_file(ranks / "rank1.safetensors")
    del tensors["model.norm.weight"]
    save_file(tensors, ranks / "rank1.safetensors")
    run = tenplex("reshard", ranks, tmp_path / "out", *FROM, exit_code=1)
    assert "model.norm.weight" in run.reason


def test_copies_that_differ_are_refused(ranks: Path, tmp_path: Path) -> None:
    change_rank(ranks, 3, "model.layers.1.input_layernorm.weight", lambda part: part + 1)
    run = tenplex("reshard", ranks, tmp_path / "out", *FROM, "--layout", "replicated", exit_code=1)
    assert "model.layers.1.input_layernorm.weight" in run.reason
    assert not (tmp_path / "out").exists()


def test_from_is_refused_where_the_source_says_it(ranks: Path, tmp_path: Path) -> None:
    tenplex(
        "reshard", ranks, tmp_path / "cut", *FROM, "--to", "tp=2", "--format", "safetensors", "--layout", "hf-llama"
    )
    save_file(whole_model(), tmp_path / "whole.safetensors")
    tenplex("reshard", ranks, tmp_path / "dcp", *FROM, "--to", "tp=2", "--format", "dcp", "--layout", "hf-llama")
    tenplex("reshard", ranks, tmp_path / "hf", *FROM, "--format", "hf", "--layout", "replicated")
    for name in ("cut", "whole.safetensors", "dcp", "hf"):
        run = tenplex("reshard", tmp_path / name, tmp_path / "out", *FROM, exit_code=1)
        assert "says itself how it is cut" in run.err, run
        assert not (tmp_path / "out").exists()
        tenplex("plan", tmp_path / name, *FROM, "--to", "tp=2", "--layout", "hf-llama")


def test_model_folder_stays_a_model(ranks: Path, tmp_path: Path) -> None:
    tenplex("reshard", ranks, tmp_path / "hf", *FROM, "--format", "hf", "--layout", "replicated", "--max-file", "4KiB")
    index = tmp_path / "hf/model.safetensors.index.json"
    index.unlink()
    run = tenplex("reshard", tmp_path / "hf", tmp_path / "out", *FROM, exit_code=1)
    assert "says itself how it is cut" in run.err
    shutil.rmtree(tmp_path / "hf")
