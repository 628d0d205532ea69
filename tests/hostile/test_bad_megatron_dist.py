# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""Damaged and lying Megatron-Core checkpoints. They are made by torch's own writer in the forms that Megatron-Core stores
(conformance/test_megatron_dist.py reads the library's own)."""

from __future__ import annotations

import argparse
import json
import pickle
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner
from torch.distributed.checkpoint.metadata import Metadata

from makers.pickle_bombs import BOMBS
from program import tenplex
from refusal import assert_refused, read_or_refuse
from stored_megatron import write_integrity

WORDS = "embedding.word_embeddings.weight"
OLD: dict[str, Any] = {
    "sharded_backend": "torch_dist",
    "sharded_backend_version": 1,
    "common_backend": "torch",
    "common_backend_version": 1,
}
NEW: dict[str, Any] = {"sharded_backend": "torch_dist", "sharded_backend_version": 1}
COMMON: dict[str, Any] = {
    "args": argparse.Namespace(tensor_model_parallel_size=2),
    "iteration": 70,
    "optimizer": {"param_groups": [{"lr": 0.1, "step": torch.tensor(7)}]},
}


def make(folder: Path, newer: bool = False) -> Path:
    state: dict[str, Any] = {WORDS: torch.arange(48.0).reshape(12, 4), "decoder.layers.x": torch.ones(2, 3)}
    state |= {f"rng_state/shard_{rank}.0_2.1": [[{"seed": rank, "state": torch.arange(5)}]] for rank in range(2)}
    if newer:
        state["common_state/shard_0_1"] = [COMMON]
    dcp.save(state, checkpoint_id=folder, planner=DefaultSavePlanner(flatten_state_dict=False), no_dist=True)
    if not newer:
        torch.save(COMMON, folder / "common.pt")
    (folder / "metadata.json").write_text(json.dumps(NEW if newer else OLD))
    return folder


@pytest.fixture
def old(tmp_path: Path) -> Path:
    return make(tmp_path / "old")


@pytest.fixture
def new(tmp_path: Path) -> Path:
    folder = make(tmp_path / "new", newer=True)
    write_integrity(folder)
    return folder


def rewrite(folder: Path, change: Callable[[Metadata], None]) -> None:
    metadata: Metadata = pickle.loads((folder / ".metadata").read_bytes())
    change(metadata)
    (folder / ".metadata").write_bytes(pickle.dumps(metadata, protocol=4))


def rename(metadata: Metadata, name: str, to: str) -> None:
    metadata.state_dict_metadata[to] = metadata.state_dict_metadata.pop(name)
    for index, place in list(metadata.storage_data.items()):
        if index.fqn == name:
            del metadata.storage_data[index]
            metadata.storage_data[type(index)(to, index.offset, index.index)] = place


def forget(metadata: Metadata, name: str) -> None:
    del metadata.state_dict_metadata[name]
    metadata.storage_data = {index: place for index, place in metadata.storage_data.items() if index.fqn != name}


def test_what_is_not_damaged_is_read(old: Path, new: Path, tmp_path: Path) -> None:
    tenplex("verify", old, new)
    assert read_or_refuse(old, tmp_path / "again", target_format="megatron-dist")


BACKENDS: dict[str, tuple[str, str]] = {
    "empty": ("", "metadata.json"),
    "no object": ("[]", "metadata.json"),
    "no backend": ("{}", "sharded_backend"),
    "cut short": ('{"sharded_backend": "torch_dist", "sharded_backend_ver', "metadata.json"),
    "zarr": (json.dumps(OLD | {"sharded_backend": "zarr"}), "'zarr'"),
    "version 2": (json.dumps(OLD | {"sharded_backend_version": 2}), "version 2"),
    "a version that is text": (json.dumps(OLD | {"sharded_backend_version": "1"}), "metadata.json"),
    "another common backend": (json.dumps(OLD | {"common_backend": "pickle"}), "'pickle'"),
    "twice": ('{"sharded_backend": "torch_dist", "sharded_backend": "torch_dist"}', "metadata.json"),
}


@pytest.mark.parametrize("text, mention", BACKENDS.values(), ids=BACKENDS)
def test_metadata_json_that_is_none(text: str, mention: str, old: Path, tmp_path: Path) -> None:
    (old / "metadata.json").write_text(text)
    assert_refused(old, tmp_path / "to", mention)


@pytest.mark.parametrize("name", ["metadata.json", "common.pt", ".metadata", "__0_0.distcp"])
def test_a_file_that_is_not_there(name: str, old: Path, tmp_path: Path) -> None:
    (old / name).unlink()
    assert_refused(old, tmp_path / "to", name if name != ".metadata" else "incomplete")


def test_the_newer_form_without_metadata_json(new: Path, tmp_path: Path) -> None:
    (new / "metadata.json").unlink()
    assert_refused(new, tmp_path / "to", "metadata.json")


@pytest.mark.parametrize("part", ["embedding", "all"])
def test_flattened_data_of_old_versions_are_refused(part: str, old: Path, tmp_path: Path) -> None:
    def add(metadata: Metadata) -> None:
        shape = {"nd_reformulated_orig_global_shape": (12, 4)}
        metadata.__dict__["mcore_data"] = {"decoder.layers.x": shape if part == "all" else {}, WORDS: shape}

    rewrite(old, add)
    assert_refused(old, tmp_path / "to", WORDS if part == "embedding" else "decoder.layers.x", "0.14")


def test_empty_data_of_old_versions_are_passed_over(old: Path, tmp_path: Path) -> None:
    rewrite(old, lambda metadata: metadata.__dict__.update(mcore_data={WORDS: {}}))
    tenplex("verify", old, make(tmp_path / "again"))


NAMES = ["rng_state/shard_1_2", "rng_state/shard_1.0_2.1.1", "rng_state/shard_2.0_2.1", "rng_state/shard_1.-0_2.1"]


@pytest.mark.parametrize("name", [*NAMES, "rng_state/shard_1.0", "rng_state", "rng_state/shard_01.0_2.1"])
def test_objects_with_names_that_cannot_be(name: str, old: Path, tmp_path: Path) -> None:
    rewrite(old, lambda metadata: rename(metadata, "rng_state/shard_1.0_2.1", name))
    assert_refused(old, tmp_path / "to", name)


def test_an_object_of_a_rank_that_is_not_there(old: Path, tmp_path: Path) -> None:
    rewrite(old, lambda metadata: forget(metadata, "rng_state/shard_1.0_2.1"))
    assert_refused(old, tmp_path / "to", "rng_state/shard_1.0_2.1", "incomplete")


def test_an_object_that_is_in_no_list(old: Path, tmp_path: Path) -> None:
    state: dict[str, Any] = {WORDS: torch.ones(3), "rng_state/shard_0_1": {"seed": 1}}
    target = tmp_path / "bare"
    dcp.save(state, checkpoint_id=target, planner=DefaultSavePlanner(flatten_state_dict=False), no_dist=True)
    for name in ("common.pt", "metadata.json"):
        (target / name).write_bytes((old / name).read_bytes())
    assert_refused(target, tmp_path / "to", "rng_state/shard_0_1", "list")


@pytest.mark.parametrize("value", [[1], None, torch.ones(2), 7], ids=["list", "None", "tensor", "number"])
def test_common_that_is_no_dict(value: object, old: Path, tmp_path: Path) -> None:
    torch.save(value, old / "common.pt")
    assert_refused(old, tmp_path / "to", "common.pt")


def test_common_of_another_layer_name_is_taken(old: Path, tmp_path: Path) -> None:
    rewrite(old, lambda metadata: rename(metadata, WORDS, "common"))
    assert_refused(old, tmp_path / "to", "common")


def test_common_cut_short_or_with_other_bytes(old: Path, tmp_path: Path) -> None:
    path = old / "common.pt"
    content = path.read_bytes()
    for size in range(0, len(content), len(content) // 12):
        path.write_bytes(content[:size])
        assert_refused(old, tmp_path / "to", "common.pt")
    generator = random.Random(1)
    for _ in range(20):
        place = generator.randrange(len(content))
        path.write_bytes(content[:place] + bytes([content[place] ^ 1 << generator.randrange(8)]) + content[place + 1 :])
        read_or_refuse(old, tmp_path / f"at-{generator.randrange(10**9)}")


@pytest.mark.parametrize("name", sorted(BOMBS)[:6])
def test_pickle_bombs_as_metadata(name: str, old: Path, tmp_path: Path) -> None:
    bomb = BOMBS[name]
    (old / ".metadata").write_bytes(bomb() if callable(bomb) else bomb)
    read_or_refuse(old, tmp_path / "target")


def test_a_chunk_that_no_file_has(old: Path, tmp_path: Path) -> None:
    def cut(metadata: Metadata) -> None:
        metadata.state_dict_metadata[WORDS].size = torch.Size([13, 4])

    rewrite(old, cut)
    assert_refused(old, tmp_path / "to", WORDS, "no chunk holds")


INTEGRITY: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "a wrong sum": (lambda all: all["files"].update({"__0_0.distcp": "0" * 64}), "__0_0.distcp"),
    "a file that is not there": (lambda all: all["files"].update({"__7_0.distcp": "0" * 64}), "__7_0.distcp"),
    "a file that is not listed": (lambda all: all["files"].pop(".metadata"), ".metadata"),
    "another algorithm": (lambda all: all.update(algorithm="md5"), "md5"),
    "no files": (lambda all: all.pop("files"), "files"),
    "a sum that is none": (lambda all: all["files"].update({".metadata": "12"}), ".metadata"),
    "a file outside": (lambda all: all["files"].update({"../x": "0" * 64}), ".."),
    "a number": (lambda all: all["files"].update({".metadata": 12}), "integrity.json"),
}


@pytest.mark.parametrize("change, mention", INTEGRITY.values(), ids=INTEGRITY)
def test_integrity_json_that_does_not_fit(
    change: Callable[[dict[str, Any]], None], mention: str, new: Path, tmp_path: Path
) -> None:
    content = json.loads((new / "integrity.json").read_text())
    change(content)
    (new / "integrity.json").write_text(json.dumps(content))
    assert_refused(new, tmp_path / "to", mention)


def test_integrity_is_checked_before_bytes_are_used(new: Path, tmp_path: Path) -> None:
    # A byte that nothing else sums: the zip's serialization id of the first object.
    data = bytearray((new / "__0_0.distcp").read_bytes())
    place = data.rindex(b".data/serialization_id")
    data[place] ^= 1
    (new / "__0_0.distcp").write_bytes(data)
    tenplex("inspect", new)
    for command in (["digest", new], ["verify", new, new]):
        run = tenplex(*command, exit_code=None)
        assert run.exit_code in (1, 3)
        assert "__0_0.distcp" in run.err


def test_integrity_json_cut_short(new: Path, tmp_path: Path) -> None:
    content = (new / "integrity.json").read_bytes()
    for size in range(0, len(content), 40):
        (new / "integrity.json").write_bytes(content[:size])
        assert_refused(new, tmp_path / "to", "integrity.json")


@pytest.mark.parametrize("text", ["", "x", "-1", "7 8", "99999999999999999999999", "../old", "70"])
def test_a_root_that_leads_nowhere(text: str, old: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "latest_checkpointed_iteration.txt").write_text(text)
    assert_refused(root, tmp_path / "to", "latest_checkpointed_iteration.txt")


def test_classes_that_the_library_does_not_load_are_refused(tmp_path: Path) -> None:
    torch.save({"w": torch.ones(2), "when": frozenset([1])}, tmp_path / "state.pt")
    run = tenplex("reshard", tmp_path / "state.pt", tmp_path / "out", "--format", "megatron-dist", exit_code=1)
    assert "frozenset" in run.err
    assert "--only tensors" in run.err
    tenplex("reshard", tmp_path / "state.pt", tmp_path / "out", "--format", "megatron-dist", "--only", "tensors")
