# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""Runs a function as n ranks of a gloo process group on this machine.

`run_ranks("makers.training:save_fsdp2", 4, {...})` starts one fresh Python that imports torch once and forks the ranks.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parent.parent


def run_ranks(
    function: str,
    world_size: int,
    arguments: dict[str, Any],
    timeout_seconds: float = 240,
    packages: Path | None = None,
) -> None:
    """Calls `function(**arguments)` on every rank. Raises RuntimeError with the output if a rank fails.

    What lies in the folder `packages` counts before what is installed.
    """
    with tempfile.TemporaryDirectory() as folder:
        request = json.dumps([function, world_size, arguments, folder])
        path = os.pathsep.join(map(str, (TESTS, *([packages] if packages else []))))
        environment = dict(os.environ, PYTHONPATH=path, GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1")
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-m", "makers.launch", request],
            cwd=TESTS,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout_seconds,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"{function} failed:\n{done.stdout.decode(errors='replace')[-6000:]}")


def _run_rank(function: str, rank: int, world_size: int, arguments: dict[str, Any], folder: str) -> None:
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=world_size)
    module, name = function.split(":")
    getattr(importlib.import_module(module), name)(**arguments)
    dist.barrier()
    dist.destroy_process_group()


def main() -> int:
    function, world_size, arguments, folder = json.loads(sys.argv[1])
    importlib.import_module("torch.distributed.checkpoint")
    importlib.import_module(function.split(":")[0])
    children = []
    for rank in range(world_size):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                _run_rank(function, rank, world_size, arguments, folder)
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                atexit._run_exitfuncs()  # as an ordinary exit would: multiprocessing ends the processes the rank started
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        children.append(pid)
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
    return 1 if any(codes) else 0


if __name__ == "__main__":
    sys.exit(main())
