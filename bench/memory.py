#!/usr/bin/env python3
# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""Re-cuts a checkpoint ten times larger than --max-memory, with one tensor four times larger, on a disk and under a
memory cgroup of --max-memory + 32 MiB, page cache included.

    bench/memory.py [--budget-mib 64] [--folder /tmp]
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from measure import Row, print_table

from memory_group import MemoryGroup
from program import MIB, Limits, Run, tenplex

COLUMNS = 'family: columns\nmeshes: {dense: [tp]}\ntensors: [{match: "*", slice: [{dim: 1, by: tp}]}]\n'


def make_sources(folder: Path, budget_mib: int) -> dict[str, Path]:
    import torch
    import torch.distributed.checkpoint as dcp
    from safetensors.torch import save_file

    def make(mib: int) -> torch.Tensor:
        return torch.randint(0, 1 << 30, (mib * 128, 2048), dtype=torch.int32)

    small = max(1, budget_mib // 2)
    state = {"large": make(4 * budget_mib), **{f"small.{index}": make(small) for index in range(12)}}
    save_file(state, folder / "in.safetensors")
    dcp.save(dict(state), checkpoint_id=str(folder / "dcp"), no_dist=True)
    torch.save(state, folder / "in.pt")
    (folder / "columns.yaml").write_text(COLUMNS)
    return {"safetensors": folder / "in.safetensors", "dcp": folder / "dcp", "torch": folder / "in.pt"}


def run_confined(limit_bytes: int, *arguments: object) -> Run:
    group = MemoryGroup(limit_bytes)
    try:
        return tenplex(*arguments, sample_memory=True, before_exec=group.join, limits=Limits(seconds=600))
    finally:
        group.remove()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget-mib", type=int, default=64)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()), help="on a disk")
    arguments = parser.parse_args()
    budget = arguments.budget_mib
    rows = []
    with tempfile.TemporaryDirectory(dir=arguments.folder, prefix="tenplex-bench-") as name:
        folder = Path(name)
        for kind, source in make_sources(folder, budget).items():
            chunks = tenplex("inspect", source, "--json").json()["chunk_count"]
            limit = (budget + 32) * MIB + 300 * chunks
            for target_format in ("safetensors", "dcp"):
                for layout, sizes in (("fsdp", "fsdp=3"), (folder / "columns.yaml", "tp=4")):
                    target = folder / "target"
                    cut = ("--format", target_format, "--layout", layout, "--to", sizes)
                    memory = ("--max-memory", f"{budget}MiB")
                    run = run_confined(limit, "reshard", source, target, *cut, *memory)
                    shutil.rmtree(target)
                    peak = run.peak_anonymous_bytes
                    what = f"{kind} -> {target_format} {sizes}: peak RssAnon in a cgroup of {limit / MIB:.1f} MiB"
                    rows.append(Row(what, f"{peak / MIB:.1f} MiB", f"<= {limit / MIB:.1f} MiB", peak <= limit))
    title = (
        f"memory on a disk: --max-memory {budget} MiB, checkpoint {10 * budget} MiB, largest tensor {4 * budget} MiB"
    )
    return 0 if print_table(title, rows) else 1


if __name__ == "__main__":
    sys.exit(main())
