# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""What `reshard --overwrite` replaces, and what it refuses to remove."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from program import Run, tenplex
from refusal import fingerprint

FORMATS: dict[str, tuple[str, ...]] = {
    "dcp": ("--format", "dcp", "--to", "fsdp=2"),
    "hf": ("--format", "hf"),
    "safetensors": ("--format", "safetensors", "--to", "fsdp=2"),
}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source.safetensors"
    save_file({"w": torch.arange(8)}, path)
    return path


@pytest.mark.parametrize("target", ["/", "x/../.."])
def test_a_folder_above_the_source_is_not_looked_through(target: str, source: Path) -> None:
    (source.parent / "x").mkdir()
    run = tenplex("reshard", source, target, "--overwrite", exit_code=1, cwd=source.parent)
    assert "lies in the target" in run.err


@pytest.mark.parametrize("arguments", [("", "out"), ("source.safetensors", "")])
def test_an_empty_name_is_called_that(arguments: tuple[str, str], source: Path) -> None:
    run = tenplex("reshard", *arguments, exit_code=1, cwd=source.parent)
    assert "is empty" in run.err


def test_a_link_that_is_replaced_gives_the_permissions_of_what_it_led_to(source: Path, tmp_path: Path) -> None:
    private = tmp_path / "private.safetensors"
    tenplex("reshard", source, private)
    private.chmod(0o600)
    (tmp_path / "link.safetensors").symlink_to(private)
    tenplex("reshard", source, tmp_path / "link.safetensors", "--overwrite")
    assert not (tmp_path / "link.safetensors").is_symlink()
    assert (tmp_path / "link.safetensors").stat().st_mode & 0o7777 == 0o600
    assert private.exists()


def assert_kept(source: Path, target: Path, *mentions: str) -> Run:
    before = fingerprint(target)
    run = tenplex("reshard", source, target, "--format", "dcp", "--overwrite", exit_code=1)
    assert fingerprint(target) == before, run
    assert sorted(target.parent.iterdir()) == sorted({source, target}), run
    for text in mentions:
        assert text in run.err, run
    return run


@pytest.mark.parametrize("name", FORMATS)
def test_a_folder_that_holds_other_files_too_is_kept(name: str, source: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    tenplex("reshard", source, target, *FORMATS[name])
    (target / "thesis.tex").write_text("precious")
    (target / "sub").mkdir()
    (target / "sub/notes").write_text("precious")
    assert_kept(source, target, "2 files", "'sub/notes'")
    (target / "sub/notes").unlink()
    assert_kept(source, target, "1 file", "'thesis.tex'")
    (target / "thesis.tex").unlink()
    tenplex("reshard", source, target, *FORMATS[name], "--overwrite")
    tenplex("verify", source, target)


def test_what_the_links_of_the_source_lead_to_is_kept(source: Path, tmp_path: Path) -> None:
    """As in the cache of a hub: a snapshot is a folder of links to blobs, and the blobs happen to be a checkpoint."""
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshot"
    tenplex("reshard", source, blobs, *FORMATS["hf"])
    snapshot.mkdir()
    for file in blobs.iterdir():
        (snapshot / file.name).symlink_to(file)
    before = fingerprint(blobs)
    run = tenplex("reshard", snapshot, blobs, "--follow-links", "--format", "hf", "--overwrite", exit_code=1)
    assert fingerprint(blobs) == before
    assert "of the source is a link to what lies in the target" in run.err


def test_a_folder_of_code_beside_a_safetensors_file_is_kept(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "project"
    target.mkdir()
    save_file({"w": torch.ones(2)}, target / "m.safetensors")
    (target / "main.py").write_text("precious")
    assert_kept(source, target, "project", "remove")


def test_a_zip_that_is_no_checkpoint_is_kept(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "photos.zip"
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("a.jpg", b"x")
    assert_kept(source, target, "data.pkl", f"remove '{target}'")


def test_what_cannot_be_read_as_a_checkpoint_is_kept(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    tenplex("reshard", source, target, *FORMATS["dcp"])
    (target / ".metadata").write_bytes(b"damaged")
    assert_kept(source, target, ".metadata", "remove")


def test_extra_files_that_are_written_again_do_not_count(source: Path, tmp_path: Path) -> None:
    model, target = tmp_path / "model", tmp_path / "target"
    tenplex("reshard", source, model, "--format", "hf")
    (model / "odd.bin").write_text("1")
    tenplex("reshard", model, target, "--format", "hf")
    tenplex("reshard", model, target, "--format", "hf", "--overwrite")
    assert (target / "odd.bin").read_text() == "1"
    run = tenplex("reshard", source, target, "--format", "hf", "--overwrite", exit_code=1)
    assert "'odd.bin'" in run.err


def test_a_link_is_replaced_and_what_it_leads_to_stays(source: Path, tmp_path: Path) -> None:
    held, target = tmp_path / "held", tmp_path / "target"
    tenplex("reshard", source, held, "--format", "dcp")
    (held / "notes").write_text("precious")
    target.symlink_to(held)
    tenplex("reshard", source, target, "--format", "dcp", "--overwrite")
    assert not target.is_symlink()
    assert (held / "notes").read_text() == "precious"


@pytest.mark.parametrize(("target_format", "mode"), [("safetensors", 0o600), ("torch", 0o640), ("dcp", 0o700)])
def test_the_new_target_takes_the_permissions_of_the_old(
    target_format: str, mode: int, source: Path, tmp_path: Path
) -> None:
    target = tmp_path / "target"
    source.chmod(0o600)
    mask = os.umask(0o022)
    try:
        tenplex("reshard", source, target, "--format", target_format)
        assert target.stat().st_mode & 0o777 == (0o755 if target.is_dir() else 0o644)
        target.chmod(mode)
        tenplex("reshard", source, target, "--format", target_format, "--overwrite")
        assert target.stat().st_mode & 0o777 == mode
    finally:
        os.umask(mask)
