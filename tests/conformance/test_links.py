# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""Snapshots of the Hugging Face cache: folders of symbolic links to ../../blobs/*."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from compare import assert_same_tensors
from program import tenplex, tenplex_json


def model() -> dict[str, torch.Tensor]:
    return {"a.weight": torch.arange(12, dtype=torch.float32).reshape(3, 4), "b.weight": torch.ones(5)}


def add_blob(cache: Path, name: str, content: bytes) -> None:
    """As huggingface_hub lays it out: blobs/HASH, and snapshots/REVISION/NAME -> ../../blobs/HASH."""
    digest = hashlib.sha256(content).hexdigest()
    (cache / "blobs").mkdir(parents=True, exist_ok=True)
    (cache / "blobs" / digest).write_bytes(content)
    link = cache / "snapshots" / "0123abcd" / name
    link.parent.mkdir(parents=True, exist_ok=True)
    up = "../" * (2 + name.count("/"))
    link.symlink_to(f"{up}blobs/{digest}")


@pytest.fixture
def snapshot(tmp_path: Path, wrote_by: Callable[[str], None]) -> Path:
    wrote_by("safetensors")
    save_file(model(), tmp_path / "weights", metadata={"format": "pt"})
    cache = tmp_path / "models--org--name"
    add_blob(cache, "model.safetensors", (tmp_path / "weights").read_bytes())
    add_blob(cache, "config.json", b'{"model_type": "x"}')
    add_blob(cache, "1_Pooling/config.json", b"[]")
    return cache / "snapshots" / "0123abcd"


def test_links_out_of_the_folder_are_refused(snapshot: Path, tmp_path: Path) -> None:
    run = tenplex("reshard", snapshot, tmp_path / "out", "--format", "dcp", exit_code=1)
    assert "--follow-links" in run.err
    assert "config.json" in run.err
    assert not (tmp_path / "out").exists()
    for command in ("inspect", "digest"):
        assert "--follow-links" in tenplex(command, snapshot, exit_code=1).err
    assert "--follow-links" in tenplex("verify", snapshot, snapshot, exit_code=3).err
    assert "--follow-links" in tenplex("plan", snapshot, "--to", "fsdp=2", exit_code=1).err
    assert "--follow-links" in tenplex("layouts", "check", "fsdp", "--checkpoint", snapshot, exit_code=1).err


def test_follow_links_reads_the_snapshot(snapshot: Path, tmp_path: Path) -> None:
    tenplex("reshard", snapshot, tmp_path / "out", "--follow-links", "--verify")
    assert_same_tensors(model(), load_file(tmp_path / "out/model.safetensors"))
    assert (tmp_path / "out/config.json").read_bytes() == b'{"model_type": "x"}'
    assert (tmp_path / "out/1_Pooling/config.json").read_bytes() == b"[]"
    assert not any(path.is_symlink() for path in (tmp_path / "out").rglob("*"))
    tenplex("verify", snapshot, tmp_path / "out", "--follow-links")
    assert tenplex("digest", snapshot, "--follow-links").out == tenplex("digest", tmp_path / "out").out
    tenplex("plan", snapshot, "--to", "fsdp=2", "--follow-links")
    assert tenplex_json("inspect", snapshot, "--follow-links")["tensor_count"] == 2
    tenplex("layouts", "check", "fsdp", "--checkpoint", snapshot, "--follow-links")


def test_links_inside_the_folder_need_no_option(tmp_path: Path, wrote_by: Callable[[str], None]) -> None:
    wrote_by("safetensors")
    folder = tmp_path / "model"
    (folder / "real").mkdir(parents=True)
    save_file(model(), folder / "real" / "w.safetensors")
    (folder / "model.safetensors").symlink_to("real/w.safetensors")
    (folder / "config.json").write_text("{}")
    assert tenplex_json("inspect", folder)["tensor_count"] == 2


@pytest.mark.parametrize("target_format", ["dcp", "safetensors"])
def test_cut_folders_of_links(target_format: str, snapshot: Path, tmp_path: Path) -> None:
    options = ("--format", target_format, "--to", "fsdp=2", "--follow-links")
    tenplex("reshard", snapshot, tmp_path / "cut", *options)
    linked = tmp_path / "linked"
    for path in sorted((tmp_path / "cut").rglob("*")):
        target = linked / path.relative_to(tmp_path / "cut")
        target.mkdir(parents=True, exist_ok=True) if path.is_dir() else target.parent.mkdir(parents=True, exist_ok=True)
        if path.is_file():
            target.symlink_to(os.path.relpath(path, target.parent))
    assert "--follow-links" in tenplex("reshard", linked, tmp_path / "out", "--format", "hf", exit_code=1).err
    tenplex("reshard", linked, tmp_path / "back", "--format", "hf", "--follow-links")
    assert_same_tensors(model(), load_file(tmp_path / "back/model.safetensors"))
    tenplex("verify", snapshot, linked, "--follow-links")


def test_dangling_link_is_not_found(snapshot: Path, tmp_path: Path) -> None:
    (snapshot / "vocab.txt").symlink_to("../../blobs/none")
    run = tenplex("reshard", snapshot, tmp_path / "out", "--follow-links", exit_code=1)
    assert "vocab.txt" in run.err
    assert not (tmp_path / "out").exists()
