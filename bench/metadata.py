#!/usr/bin/env python3
# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""Many small things: `inspect` on a DCP of 10^6 chunks, and 50,000 tiny tensors re-cut.

bench/metadata.py [--chunks 1000000] [--tensors 50000] [--repetitions 5] [--folder /dev/shm]
"""

from __future__ import annotations

import argparse
import pickle
import shutil
import sys
import tempfile
from pathlib import Path

from measure import Measured, Row, print_table

from program import MIB, Limits, Run, tenplex

CHUNKS_PER_TENSOR = 1000
ITEM_BYTES = 1500
BUDGET_MIB = 64


def write_many_chunks(folder: Path, chunks: int) -> None:
    """The metadata that torch itself would pickle, of its own classes; the data file is one hole."""
    import torch
    from torch.distributed.checkpoint import metadata as dcp
    from torch.distributed.checkpoint.filesystem import _StorageInfo

    properties = dcp.TensorProperties(dtype=torch.float32)
    tensors: dict[str, dcp.TensorStorageMetadata | dcp.BytesStorageMetadata] = {}
    storage: dict[dcp.MetadataIndex, _StorageInfo] = {}
    for tensor in range(chunks // CHUNKS_PER_TENSOR):
        name = f"model.decoder.layers.{tensor}.mlp.weight"
        places = [torch.Size([chunk * 4, 0]) for chunk in range(CHUNKS_PER_TENSOR)]
        size = torch.Size([4, 16])
        tensors[name] = dcp.TensorStorageMetadata(
            properties=properties,
            size=torch.Size([CHUNKS_PER_TENSOR * 4, 16]),
            chunks=[dcp.ChunkStorageMetadata(offsets=place, sizes=size) for place in places],
        )
        for chunk, place in enumerate(places):
            offset = (tensor * CHUNKS_PER_TENSOR + chunk) * ITEM_BYTES
            storage[dcp.MetadataIndex(name, place, chunk)] = _StorageInfo("__0_0.distcp", offset, ITEM_BYTES)
    folder.mkdir()
    metadata = dcp.Metadata(tensors, {name: (name,) for name in tensors}, storage)
    with (folder / ".metadata").open("wb") as file:
        pickle.dump(metadata, file, protocol=4)
    with (folder / "__0_0.distcp").open("wb") as file:
        file.truncate(chunks * ITEM_BYTES)


def write_tiny_tensors(folder: Path, tensors: int) -> None:
    import torch
    import torch.distributed.checkpoint as dcp
    from safetensors.torch import save_file

    state = {f"layers.{index}.bias": torch.full((4, 4), index, dtype=torch.float32) for index in range(tensors)}
    save_file(state, folder / "tiny.safetensors")
    dcp.save(dict(state), checkpoint_id=str(folder / "tiny-dcp"), no_dist=True)


def timed_runs(repetitions: int, target: Path | None, *arguments: object) -> list[Run]:
    runs = []
    for _ in range(repetitions + 1):  # the first one warms the page cache
        runs.append(tenplex(*arguments, sample_memory=True, limits=Limits(seconds=300)))
        if target is not None:
            shutil.rmtree(target) if target.is_dir() else target.unlink()
    return runs[1:]


def seconds(runs: list[Run]) -> Measured:
    return Measured(tuple(run.wall_seconds for run in runs))


def inspect_rows(folder: Path, arguments: argparse.Namespace) -> list[Row]:
    write_many_chunks(folder / "many", arguments.chunks)
    runs = timed_runs(arguments.repetitions, None, "inspect", folder / "many")
    measured = seconds(runs)
    peak = max(run.peak_anonymous_bytes for run in runs)
    limit = 32 * MIB + 300 * arguments.chunks
    return [
        Row(f"inspect, {arguments.chunks} chunks", str(measured), "< 5 s", measured.least < 5),
        Row("inspect: peak RssAnon", f"{peak / MIB:.0f} MiB", f"<= {limit / MIB:.0f} MiB", peak <= limit),
    ]


def tiny_rows(folder: Path, arguments: argparse.Namespace) -> list[Row]:
    write_tiny_tensors(folder, arguments.tensors)
    cut = ("--layout", "fsdp", "--to", "fsdp=2", "--max-memory", f"{BUDGET_MIB}MiB")
    jobs = {
        "safetensors -> 2 devices": (folder / "tiny.safetensors", "safetensors", cut),
        "safetensors -> dcp of 2": (folder / "tiny.safetensors", "dcp", cut),
        "dcp -> dcp of 2": (folder / "tiny-dcp", "dcp", cut),
        "dcp -> safetensors of 2": (folder / "tiny-dcp", "safetensors", cut),
    }
    rows = []
    for name, (source, target_format, options) in jobs.items():
        target = folder / "target"
        runs = timed_runs(arguments.repetitions, target, "reshard", source, target, "--format", target_format, *options)
        measured = seconds(runs)
        rate = arguments.tensors / measured.least
        what = f"{arguments.tensors} tensors 4x4, {name}"
        rows.append(Row(what, f"{rate:.0f} tensors/s ({measured})", ">= 50000 tensors/s", rate >= 50_000))
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=1_000_000)
    parser.add_argument("--tensors", type=int, default=50_000)
    parser.add_argument("--folder", type=Path, default=Path("/dev/shm"))
    parser.add_argument("--repetitions", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder, prefix="tenplex-bench-") as name:
        rows = inspect_rows(Path(name), arguments) + tiny_rows(Path(name), arguments)
    return 0 if print_table(f"metadata: {arguments.repetitions} repetitions", rows) else 1


if __name__ == "__main__":
    sys.exit(main())
