# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""Inputs that many tests share, made once per run with the real libraries; and two rules.

Under CI=true a skipped test counts as failed. Tests say with `wrote_by` which library wrote their input; the list is
printed at the end.
"""

from __future__ import annotations

import fcntl
import importlib.metadata
import os
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from program import program_path

_written_by: dict[str, set[str]] = {}


def pytest_sessionstart(session: pytest.Session) -> None:
    if not program_path().is_file():
        raise pytest.UsageError(f"no program at {program_path()}: build it or set TENPLEX")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
    outcome = yield
    report = outcome.get_result()
    if report.skipped and os.environ.get("CI") == "true":
        report.outcome = "failed"
        report.longrepr = f"skipped under CI=true: {report.longrepr}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        item.add_marker(item.path.parent.name)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    for library, tests in sorted(_written_by.items()):
        terminalreporter.write_line(f"input written by {library}: {len(tests)} tests")


@pytest.fixture
def wrote_by(request: pytest.FixtureRequest) -> Callable[..., None]:
    """`wrote_by("torch")` prints the distribution with its version and counts the test under it.

    `packages`: the folder in which the distribution lies, if not among those that are installed.
    """

    def say(library: str, packages: Path | None = None) -> None:
        found = importlib.metadata.distributions(name=library, path=[str(packages)] if packages else sys.path)
        version = next(iter(found)).version
        print(f"input written by {library} {version}")
        _written_by.setdefault(f"{library} {version}", set()).add(request.node.nodeid)

    return say


@pytest.fixture(scope="session")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("inputs")


def _trained(inputs: Path, name: str, kind: str, payload: str, with_objects: bool) -> Path:
    from makers.launch import run_ranks

    folder = inputs / name
    folder.mkdir()
    arguments = {"kind": kind, "folder": str(folder), "payload": payload, "with_objects": with_objects}
    run_ranks("makers.training:save", 4, arguments)
    return folder


@pytest.fixture(scope="session")
def fsdp_run(inputs: Path) -> Path:
    """FSDP2 over 4 ranks: checkpoint/ (DCP), before.pt and after.pt (whole states)."""
    return _trained(inputs, "fsdp", "fsdp", "torch_save", True)


@pytest.fixture(scope="session")
def tp_fsdp_run(inputs: Path) -> Path:
    """Tensor parallel 2 x FSDP2 2: weights that both cut on dimension 0 are strided shards."""
    return _trained(inputs, "tp_fsdp", "tp_fsdp", "torch_save", False)


@pytest.fixture(scope="session")
def safetensors_payload_run(inputs: Path) -> Path:
    """As fsdp_run, with DCP's safetensors payload."""
    return _trained(inputs, "payload", "fsdp", "safetensors", True)


@pytest.fixture(scope="session")
def models(inputs: Path) -> Callable[[str], Path]:
    """A folder that transformers saved, per family of makers.hugging_face.FAMILIES."""
    from makers.hugging_face import save_model

    made: dict[str, Path] = {}

    def get(family: str) -> Path:
        if family not in made:
            made[family] = inputs / f"hf-{family}"
            save_model(family, made[family])
        return made[family]

    return get


@pytest.fixture(scope="session")
def nested_file(inputs: Path) -> Path:
    """makers.torch_file.nested_state() as torch.save writes it."""
    from makers import torch_file

    return torch_file.save(torch_file.nested_state(), inputs / "nested.pt")


@pytest.fixture(scope="session")
def deepspeed_runs(inputs: Path) -> Callable[..., Path]:
    """A folder per ZeRO stage and number of ranks: checkpoint/, before.pt and after.pt (whole states); that of 4 ranks
    also has universal/, which DeepSpeed made of it."""
    from makers import deepspeed

    made: dict[tuple[int, int], Path] = {}

    def get(stage: int, ranks: int = 4) -> Path:
        if (stage, ranks) not in made:
            folder = inputs / f"deepspeed-{stage}-{ranks}"
            folder.mkdir()
            deepspeed.launch("save", ranks, {"stage": stage, "folder": str(folder)})
            if ranks == 4:
                options = ("--inject_missing_state",) if stage < 3 else ()
                deepspeed.make_universal(
                    folder / "checkpoint" / deepspeed.TAG, folder / "universal" / "library", *options
                )
            made[stage, ranks] = folder
        return made[stage, ranks]

    return get


@pytest.fixture(scope="session")
def deepspeed_tensor_runs(inputs: Path) -> Callable[[int], Path]:
    """The same of makers.deepspeed_tensor_parallel, on 2 × 2 ranks; stage 0 has checkpoint/ only."""
    from makers import deepspeed, deepspeed_tensor_parallel

    made: dict[int, Path] = {}

    def get(stage: int) -> Path:
        if stage not in made:
            folder = inputs / f"deepspeed-tensor-{stage}"
            folder.mkdir()
            deepspeed_tensor_parallel.launch("save", 4, {"stage": stage, "folder": str(folder)})
            if stage > 0:  # --no_strict: it does not count that a pattern matches a frozen parameter
                tag = folder / "checkpoint" / deepspeed.TAG
                deepspeed.make_universal(tag, folder / "universal" / "library", "--no_strict")
            made[stage] = folder
        return made[stage]

    return get


@pytest.fixture(scope="session")
def deepspeed_pipeline_runs(inputs: Path) -> Callable[..., Path]:
    """The same of makers.deepspeed_pipeline, by ZeRO stage, pipeline stages and ranks; with ZeRO-1 on up to 2 stages
    also universal/: DeepSpeed's script divides by the number of layers' files less 2 by stages, as a whole number."""
    from makers import deepspeed, deepspeed_pipeline

    made: dict[tuple[int, int, int], Path] = {}

    def get(zero: int, stages: int, ranks: int) -> Path:
        if (zero, stages, ranks) not in made:
            folder = inputs / f"deepspeed-pipeline-{zero}-{stages}-{ranks}"
            folder.mkdir()
            arguments = {"zero": zero, "stages": stages, "folder": str(folder)}
            deepspeed_pipeline.launch("save", ranks, arguments)
            if zero and stages < 3:
                tag = folder / "checkpoint" / deepspeed.TAG
                deepspeed.make_universal(tag, folder / "universal" / "library")
            made[zero, stages, ranks] = folder
        return made[zero, stages, ranks]

    return get


@pytest.fixture(scope="session")
def deepspeed_expert_runs(inputs: Path) -> Callable[[int], Path]:
    """The same of makers.deepspeed_experts: checkpoint/, and before.pt except of stage 0."""
    from makers import deepspeed_experts

    made: dict[int, Path] = {}

    def get(stage: int) -> Path:
        if stage not in made:
            folder = inputs / f"deepspeed-experts-{stage}"
            folder.mkdir()
            deepspeed_experts.launch("save", 4, {"stage": stage, "folder": str(folder)})
            made[stage] = folder
        return made[stage]

    return get


@pytest.fixture(scope="session")
def shared_inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all processes of pytest-xdist."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


def _each_once(save: Callable[[str, Path], Path], folder: Path) -> Callable[[str], Path]:
    """Saves a case where it is first asked for, in whatever process."""
    folder.mkdir(exist_ok=True)
    made: dict[str, Path] = {}

    def get(name: str) -> Path:
        if name in made:
            return made[name]
        place = folder / f"{name}.path"
        with open(folder / f"{name}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not place.exists():
                place.write_text(str(save(name, folder)))
        made[name] = Path(place.read_text())
        return made[name]

    return get


@pytest.fixture(scope="session")
def megatron_dist_case(shared_inputs: Path) -> Callable[[str], Path]:
    """The checkpoint of a case of makers.megatron_dist, saved by Megatron-Core. Not to be changed."""
    from makers import megatron_dist

    return _each_once(megatron_dist.save, shared_inputs / "megatron-dist")


@pytest.fixture(scope="session")
def megatron_legacy_case(shared_inputs: Path) -> Callable[[str], Path]:
    """The checkpoint of a case of makers.megatron_legacy. Not to be changed."""
    from makers import megatron_legacy

    return _each_once(megatron_legacy.save, shared_inputs / "megatron-legacy")
