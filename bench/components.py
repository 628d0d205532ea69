#!/usr/bin/env python3
# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""Runs the C++ benchmarks of the components and holds their numbers against their limits.

bench/components.py [--build build/release]
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from measure import ROOT, Row, print_table

# Benchmark name (a regular expression) -> least share of memcpy's speed, measured in the same run.
LEAST_OF_MEMCPY = {
    r"contiguous\b": 0.95,
    r"gather/(512|1024)/0\b": 0.55,
    r"gather/4096/0\b": 0.70,
    r"gather/65536/0\b": 0.80,
    r"scatter/(1024|4096|65536)/0\b": 0.75,
    r"long_run/avx512_4_bytes\b": 0.30,
    r"long_run/avx512_2_bytes\b": 0.25,
    r"long_run/avx512_1_byte\b": 0.12,
    r"long_run/avx2_4_bytes\b": 0.20,
    r"long_run/avx2_2_bytes\b": 0.18,
    r"long_run/avx2_1_byte\b": 0.10,
}
NOT_COUNTERS = {"family_index", "per_family_instance_index", "repetition_index", "repetitions", "threads", "iterations"}


def limit_of(name: str) -> float | None:
    return next((limit for pattern, limit in LEAST_OF_MEMCPY.items() if re.match(pattern, name)), None)


def row_of(result: dict[str, Any]) -> Row:
    name = result["name"].removesuffix("/manual_time").removesuffix("/iterations:1")
    if result.get("error_occurred"):
        return Row(name, result.get("error_message", "error"))
    seconds = result["real_time"] * {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}[result["time_unit"]]
    if "of_memcpy" in result:
        share = result["of_memcpy"]
        least = limit_of(name)
        value = f"{100 * share:.0f} % of memcpy ({result['GB/s']:.1f} GB/s)"
        return Row(name, value, f">= {100 * least:.0f} %" if least else "", share >= least if least else None)
    counters = [
        f"{key} {value:.4g}"
        for key, value in result.items()
        if isinstance(value, float) and key not in NOT_COUNTERS and not key.endswith("_time")
    ]
    return Row(name, ", ".join([f"{seconds:.4g} s", *counters]))


def run_plan_bench(program: Path) -> list[Row]:
    """Its lines are: name, value, unit, limit or -, and EXCEEDED where the limit is not held."""
    done = subprocess.run([str(program)], capture_output=True, text=True, check=False)
    rows = []
    for line in done.stdout.splitlines():
        name, value, unit, limit, *exceeded = line.split()
        rows.append(Row(name, f"{value} {unit}", limit.strip("-"), None if limit == "-" else not exceeded))
    return rows


def run_program(program: Path) -> list[Row]:
    if program.name == "plan_bench":
        return run_plan_bench(program)
    done = subprocess.run([str(program), "--benchmark_format=json"], capture_output=True, text=True, check=True)
    return [row_of(result) for result in json.loads(done.stdout)["benchmarks"]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build/release")
    arguments = parser.parse_args()
    programs = sorted(path for path in arguments.build.glob("src/tenplex/*/*_bench") if path.is_file())
    if not programs:
        print(f"no benchmarks below {arguments.build}: build them first", file=sys.stderr)
        return 1
    held = [print_table(program.name, run_program(program)) for program in programs]
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
