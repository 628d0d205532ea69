# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""Help texts against docs/cli.md, exit codes, JSON, completion, usage errors."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from program import ROOT, Limits, program_path, tenplex, tenplex_json
from refusal import fingerprint

COMMANDS = (
    (),
    ("inspect",),
    ("plan",),
    ("reshard",),
    ("verify",),
    ("digest",),
    ("layouts",),
    ("layouts", "list"),
    ("layouts", "show"),
    ("layouts", "check"),
    ("models",),
    ("models", "list"),
    ("models", "show"),
    ("maps",),
    ("maps", "list"),
    ("maps", "show"),
    ("maps", "check"),
    ("completion",),
)


@pytest.fixture(scope="module")
def checkpoint(inputs: Path) -> Path:
    path = inputs / "cli.safetensors"
    save_file({"a": torch.arange(24, dtype=torch.float32).reshape(6, 4), "b": torch.ones(3, dtype=torch.int8)}, path)
    return path


@pytest.fixture(scope="module")
def different(inputs: Path) -> Path:
    path = inputs / "different.safetensors"
    a = torch.arange(24, dtype=torch.float32).reshape(6, 4)
    a[2, 1] = -9.5
    a[5, 3] = 1e9
    save_file({"a": a, "b": torch.ones(3, dtype=torch.int8)}, path)
    return path


def documented_helps() -> list[tuple[str, str]]:
    """(command, help text) of every block that scripts/update_cli_doc.py keeps."""
    text = (ROOT / "docs/cli.md").read_text()
    return re.findall(r"<!-- help: (.*?) -->\n```\n(.*?)\n```\n<!-- end -->", text, re.DOTALL)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_is_in_the_document(command: tuple[str, ...]) -> None:
    run = tenplex(*command, "--help")
    assert run.err == ""
    assert dict(documented_helps())[" ".join(("tenplex", *command))] == run.out.strip()


def test_the_document_has_no_other_help() -> None:
    text = (ROOT / "docs/cli.md").read_text()
    names = [name for name, _ in documented_helps()]
    assert sorted(names) == sorted(" ".join(("tenplex", *command)) for command in COMMANDS)
    assert text.count("<!-- help:") == text.count("\nUsage: ") == len(names)


def test_help_names_every_command() -> None:
    out = tenplex("--help").out
    for command in {command[0] for command in COMMANDS if command}:
        assert command in out


def test_version_is_printed() -> None:
    assert re.search(r"\d+\.\d+\.\d+", tenplex("--version").out)


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("frobnicate",),
        ("inspect",),
        ("inspect", "--frobnicate", "x"),
        ("reshard", "only-one"),
        ("reshard", "a", "b", "--to", "fsdp"),
        ("reshard", "a", "b", "--to", "fsdp=0"),
        ("reshard", "a", "b", "--to", "fsdp=-1"),
        ("reshard", "a", "b", "--to", "fsdp=2,fsdp=3"),
        ("reshard", "a", "b", "--to", "fsdp=99999999999999999999"),
        ("reshard", "a", "b", "--format", "floppy"),
        ("reshard", "a", "b", "--max-memory", "much"),
        ("reshard", "a", "b", "--max-memory", "-1MiB"),
        ("reshard", "a", "b", "--threads", "none"),
        ("reshard", "a", "b", "--threads", "0"),
        ("reshard", "a", "b", "--dtype-policy", "cast:float33"),
        ("reshard", "a", "b", "--sizes", "heads"),
        ("reshard", "a", "b", "--sizes", "heads=18446744073709551616"),
        ("inspect", "a", "--only", ""),
        ("inspect", "a", "--only", "tensors,"),
        ("plan", "a", "--placement", "random", "--to", "fsdp=2"),
        ("plan", "a", "--baseline", "none", "--to", "fsdp=2"),
        ("verify", "only-one"),
        ("layouts", "frobnicate"),
    ],
    ids=" ".join,
)
def test_wrong_usage_exits_with_2(arguments: tuple[str, ...], tmp_path: Path) -> None:
    run = tenplex(*arguments, exit_code=2, cwd=tmp_path)
    assert run.out == ""
    assert "tenplex: error: " in run.err
    assert os.listdir(tmp_path) == []


def test_absent_input_exits_with_1_and_names_it(tmp_path: Path) -> None:
    for command in (("inspect", "absent"), ("digest", "absent"), ("reshard", "absent", "out", "--format", "dcp")):
        run = tenplex(*command, exit_code=1, cwd=tmp_path)
        assert run.out == ""
        assert re.search(r"^tenplex: error: .*absent", run.err, re.MULTILINE)


def test_verify_says_equal(checkpoint: Path, tmp_path: Path) -> None:
    tenplex("reshard", checkpoint, tmp_path / "dcp", "--format", "dcp", "--layout", "fsdp", "--to", "fsdp=4")
    report = json.loads(tenplex("verify", checkpoint, tmp_path / "dcp", "--json").out)
    assert report["equal"] is True
    tenplex("verify", tmp_path / "dcp", checkpoint)


def test_verify_names_the_first_difference(checkpoint: Path, different: Path) -> None:
    run = tenplex("verify", checkpoint, different, exit_code=1)
    for text in ("a", "2", "[2, 1]", "9", "-9.5"):
        assert text in run.out + run.err
    report = json.loads(tenplex("verify", checkpoint, different, "--json", exit_code=1).out)
    assert report["equal"] is False
    difference = report["differences"][0]
    assert difference["tensor"] == "a"
    assert difference["index"] == [2, 1]
    assert 2 in difference.values()


def test_verify_sees_names_shapes_and_dtypes(checkpoint: Path, tmp_path: Path) -> None:
    a = torch.arange(24, dtype=torch.float32).reshape(6, 4)
    b = torch.ones(3, dtype=torch.int8)
    others = {
        "name": {"a": a, "c": b},
        "extra": {"a": a, "b": b, "extra one": b.clone()},
        "shape": {"a": a.reshape(4, 6).contiguous(), "b": b},
        "dtype": {"a": a.to(torch.float64), "b": b},
        "sign of zero": {"a": torch.where(a == 0, -a, a), "b": b},
    }
    for what, tensors in others.items():
        path = tmp_path / f"{what}.safetensors"
        save_file(tensors, path)
        run = tenplex("verify", checkpoint, path, exit_code=1)
        if what == "extra":
            assert "extra one" in run.out + run.err


def test_verify_exits_with_3_if_it_cannot_compare(checkpoint: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.safetensors"
    damaged.write_bytes(checkpoint.read_bytes()[:-1])
    for pair in ((checkpoint, damaged), (damaged, checkpoint), (checkpoint, tmp_path / "absent")):
        run = tenplex("verify", *pair, exit_code=3)
        assert "tenplex: error: " in run.err


def plan_arguments(checkpoint: Path) -> tuple[object, ...]:
    return ("plan", checkpoint, "--layout", "fsdp", "--to", "fsdp=3")


def test_json_of_every_command_parses(checkpoint: Path, tmp_path: Path) -> None:
    cut = ("--layout", "fsdp", "--to", "fsdp=3")
    commands: list[tuple[object, ...]] = [
        ("inspect", checkpoint),
        ("inspect", checkpoint, "--tensors"),
        plan_arguments(checkpoint),
        ("reshard", checkpoint, tmp_path / "out", "--format", "dcp", *cut),
        ("verify", checkpoint, tmp_path / "out"),
        ("digest", checkpoint),
        ("layouts", "list"),
        ("maps", "list"),
        ("maps", "show", "hf-llama"),
        ("maps", "check", "hf-llama"),
    ]
    for command in commands:
        run = tenplex(*command, "--json")
        assert isinstance(json.loads(run.out), (dict, list)), command
        assert run.err == ""


def test_json_error_has_a_code_and_a_message(tmp_path: Path) -> None:
    run = tenplex("inspect", tmp_path / "absent", "--json", exit_code=1)
    error = json.loads(run.out)["error"]
    assert error["code"] == "not_found"
    assert "absent" in error["message"]


@pytest.mark.parametrize(
    "arguments", [("inspect",), ("plan", "a", "--placement", "foo"), ("reshard", "a", "b", "--to", "fsdp=0")]
)
def test_a_usage_error_is_json_too(arguments: tuple[str, ...]) -> None:
    run = tenplex(*arguments, "--json", exit_code=2)
    error = json.loads(run.out)["error"]
    assert error["code"] == "invalid_argument"
    assert error["message"] in run.err


def test_an_unknown_command_is_named() -> None:
    assert "unknown command 'inspct'; the commands are: inspect, plan," in tenplex("inspct", "a", exit_code=2).err
    assert "unknown command 'shw'; the commands are: list, show, check" in tenplex("layouts", "shw", exit_code=2).err
    assert "subcommand is required" in tenplex(exit_code=2).err


def values_of(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in values_of(item)]
    if isinstance(value, list):
        return [leaf for item in value for leaf in values_of(item)]
    return [value]


def test_json_has_exact_bytes(checkpoint: Path) -> None:
    report = json.loads(tenplex("inspect", checkpoint, "--json").out)
    assert report["tensor_bytes"] == 24 * 4 + 3
    assert not any(isinstance(value, str) and re.search(r"\d [KMG]iB", value) for value in values_of(report))


def test_plan_writes_nothing_but_the_page(checkpoint: Path, tmp_path: Path) -> None:
    page = tmp_path / "plan.html"
    tenplex(*plan_arguments(checkpoint), "--html", page)
    text = page.read_text()
    assert "<html" in text.lower()
    assert not re.search(r"""(src|href)\s*=\s*["']https?://""", text), "the page needs the network"
    assert os.listdir(tmp_path) == ["plan.html"]
    page.write_text(text + "<!-- an older page -->")
    tenplex(*plan_arguments(checkpoint), "--html", page)
    assert page.read_text() == text


@pytest.mark.parametrize("what", ["source", "layout", "topology", "other page", "empty", "folder", "link"])
def test_plan_replaces_nothing_but_a_page(what: str, checkpoint: Path, tmp_path: Path) -> None:
    source = Path(shutil.copy(checkpoint, tmp_path / "source.safetensors"))
    (tmp_path / "layout").write_text(
        "family: x\nmeshes: {m: [fsdp]}\ntensors: [{match: '*', slice: [{dim: 0, by: fsdp}]}]\n"
    )
    (tmp_path / "topology").write_text("workers:\n  - {name: a, devices: 2}\n")
    (tmp_path / "other page").write_text("<!DOCTYPE html>\n" + 1000 * "<p>")
    (tmp_path / "empty").touch()
    (tmp_path / "folder").mkdir()
    arguments = ("plan", source, "--to", "fsdp=2", "--layout", tmp_path / "layout", "--topology", tmp_path / "topology")
    tenplex(*arguments, "--html", tmp_path / "page")
    (tmp_path / "link").symlink_to("page")
    path = source if what == "source" else tmp_path / what
    before = fingerprint(tmp_path)
    run = tenplex(*arguments, "--html", path, exit_code=1)
    assert f"'{path}' exists and is no page of tenplex plan" in run.err
    assert run.out == ""
    assert fingerprint(tmp_path) == before


# A tensor of 12 rows of 16 B, cut in four on workers a, b, c, d (rows 0-2, 3-5, 6-8, 9-11), for two devices.
#   rank-order: a needs 0-5 and has 0-2, b needs 6-11 and has none of them: 3 + 6 rows.
#   keep: the second device goes to c (or d), which has half of what it needs: 3 + 3 rows.
#   central: a collects the 9 rows that it lacks and sends the other worker all of its 6.
#   full: every row of both devices crosses the network.
PLANNED_BYTES = {
    ("keep", None): 6 * 16,
    ("rank-order", None): 9 * 16,
    ("keep", "central"): 15 * 16,
    ("rank-order", "central"): 15 * 16,
    ("keep", "full"): 12 * 16,
    ("rank-order", "full"): 12 * 16,
}


@pytest.mark.parametrize(("placement", "baseline"), PLANNED_BYTES)
def test_plan_moves_the_bytes_of_its_bound(placement: str, baseline: str | None, tmp_path: Path) -> None:
    save_file({"w": torch.arange(48, dtype=torch.float32).reshape(12, 4)}, tmp_path / "whole.safetensors")
    tenplex("reshard", tmp_path / "whole.safetensors", tmp_path / "four", "--format", "dcp", "--to", "fsdp=4")
    topology = tmp_path / "topology.yaml"
    topology.write_text("workers:\n" + "".join(f"  - {{name: {name}, devices: 1}}\n" for name in "abcd"))
    command = ("plan", tmp_path / "four", "--to", "fsdp=2", "--topology", topology, "--placement", placement)
    report = tenplex_json(*command, *(("--baseline", baseline) if baseline else ()))
    assert report["bytes_in"] == PLANNED_BYTES[placement, baseline]
    assert report["bytes_in_bound"] == PLANNED_BYTES[placement, None]
    assert report["bytes_of_target"] == 12 * 16
    assert sum(worker["bytes_in"] for worker in report["workers"]) == report["bytes_in"]
    assert sum(worker["bytes_out"] for worker in report["workers"]) == report["bytes_in"]


def test_padding_of_the_target_alone_is_refused_with_its_rule(tmp_path: Path) -> None:
    layout = tmp_path / "padded.yaml"
    layout.write_text(
        "family: padded\nmeshes: {d: [tp]}\nsizes: {vocab: 9}\ntensors:\n"
        "  - match: emb\n    pad: {dim: 0, multiple_of: [tp, 4], data: vocab}\n    slice: [{dim: 0, by: tp}]\n"
    )
    source = tmp_path / "in.safetensors"
    save_file({"emb": torch.ones(12, 2)}, source)
    plain = tmp_path / "plain.yaml"
    plain.write_text(
        layout.read_text().replace(", data: vocab", "") + "  - {match: x, pad: {dim: 0, multiple_of: [2], data: 1}}\n"
    )
    cut = ("--from-layout", plain, "--layout", layout, "--to", "tp=2")
    for command in (("plan", source, "--from", "tp=1"), ("reshard", source, tmp_path / "out")):
        run = tenplex(*command, *cut, exit_code=1)
        assert "tensor 'emb' has shape [12, 2] in the checkpoint and [9, 2] without what" in run.err
        assert f"layout '{layout}' line 5 calls padding: give that layout as --from-layout" in run.err
    assert not (tmp_path / "out").exists()
    tenplex("reshard", source, tmp_path / "out", "--layout", layout, "--to", "tp=2")


def test_from_is_refused_where_the_source_says_how_it_is_cut(checkpoint: Path) -> None:
    for options in (("--from", "tp=2"), ("--from-layout", "hf-llama")):
        run = tenplex("inspect", checkpoint, *options, exit_code=1)
        assert "says itself how it is cut: leave --from and --from-layout out" in run.err


def test_layouts_are_listed_shown_and_checked(tmp_path: Path) -> None:
    names = tenplex("layouts", "list").out
    for name in ("replicated", "fsdp", "hf-llama"):
        assert name in names
        shown = tenplex("layouts", "show", name).out
        (tmp_path / f"{name}.yaml").write_text(shown)
        tenplex("layouts", "check", tmp_path / f"{name}.yaml")


def test_sizes_need_a_map_or_a_layout(checkpoint: Path) -> None:
    run = tenplex("inspect", checkpoint, "--sizes", "heads=4", exit_code=1)
    assert "--sizes heads=4 is for a map or a layout: give --map, --layout or --from-layout" in run.err


def test_an_unknown_map_is_named_with_the_built_in_ones(checkpoint: Path) -> None:
    run = tenplex("inspect", checkpoint, "--map", "hf-lama", exit_code=1)
    assert "map 'hf-lama' is neither a file nor built in: there are hf-gpt2, hf-llama, hf-mixtral, megatron-" in run.err


def test_example_layouts_are_sound() -> None:
    examples = sorted((ROOT / "examples/layouts").glob("*.yaml"))
    assert len(examples) >= 3
    for layout in examples:
        tenplex("layouts", "check", layout)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script_names_every_command(shell: str) -> None:
    script = tenplex("completion", shell).out
    for command in ("inspect", "plan", "reshard", "verify", "digest", "layouts"):
        assert command in script


def test_bash_completes_commands_and_options(tmp_path: Path) -> None:
    script = tenplex("completion", "bash").out
    probe = (
        script
        + """
COMP_WORDS=(tenplex res); COMP_CWORD=1; COMP_LINE="tenplex res"; COMP_POINT=11
function=$(complete -p tenplex | sed 's/.*-F \\([^ ]*\\).*/\\1/')
$function tenplex res tenplex; echo "${COMPREPLY[@]}"
COMP_WORDS=(tenplex reshard --over); COMP_CWORD=2; COMP_LINE="tenplex reshard --over"; COMP_POINT=22
$function tenplex --over reshard; echo "${COMPREPLY[@]}"
COMP_WORDS=(tenplex reshard --format saf); COMP_CWORD=3
$function tenplex saf --format; echo "${COMPREPLY[@]}"
COMP_WORDS=(tenplex layouts show fs); COMP_CWORD=3
$function tenplex fs show; echo "${COMPREPLY[@]}"
"""
    )
    done = subprocess.run(["bash", "--norc", "-c", probe], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.stdout.split() == ["reshard", "--overwrite", "safetensors", "fsdp"], done


def test_closed_pipe_ends_quietly(checkpoint: Path) -> None:
    command = f"'{program_path()}' inspect --tensors '{checkpoint}' | true"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.stderr == ""


def test_no_progress_line_without_a_terminal(checkpoint: Path, tmp_path: Path) -> None:
    run = tenplex("reshard", checkpoint, tmp_path / "out", "--format", "dcp")
    assert "\r" not in run.out + run.err
    assert run.err == ""


def run_into_full_device(*arguments: object) -> subprocess.CompletedProcess[str]:
    with open("/dev/full", "w") as full:
        return subprocess.run(
            [str(program_path()), *map(str, arguments)], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )


def test_output_that_cannot_be_written_is_an_error(checkpoint: Path) -> None:
    done = run_into_full_device("inspect", checkpoint)
    assert done.returncode == 1
    assert "tenplex: error: cannot write to standard output" in done.stderr


def test_target_stays_if_the_report_cannot_be_written(checkpoint: Path, tmp_path: Path) -> None:
    for options in ((), ("--json",)):
        done = run_into_full_device("reshard", checkpoint, tmp_path / "out", "--format", "dcp", "--overwrite", *options)
        assert done.returncode == 1
        assert "tenplex: error: cannot write to standard output" in done.stderr
        tenplex("verify", checkpoint, tmp_path / "out")


def test_verify_does_not_say_different_if_it_cannot_write(checkpoint: Path, different: Path) -> None:
    for second in (checkpoint, different):
        assert run_into_full_device("verify", checkpoint, second).returncode == 3


@pytest.mark.parametrize(
    "option",
    [("--to", "fsdp=2"), ("--from", "fsdp=2"), ("--from-layout", "fsdp"), ("--objects", "o"), ("--follow-links",)],
)
def test_layouts_check_takes_options_for_a_checkpoint_only_with_one(option: tuple[str, ...]) -> None:
    run = tenplex("layouts", "check", "fsdp", *option, exit_code=2)
    assert f"{option[0]} requires --checkpoint" in run.err


def test_counts_agree_with_their_nouns(checkpoint: Path, tmp_path: Path) -> None:
    save_file({"w": torch.ones(1)}, tmp_path / "one.safetensors")
    run = tenplex("reshard", tmp_path / "one.safetensors", tmp_path / "out", "--format", "dcp")
    assert "1 device\n" in run.out
    assert ", 1 data file)" in tenplex("inspect", tmp_path / "out").out
    assert "1 tensor, 1 element compared" in tenplex("verify", tmp_path / "out", tmp_path / "out").out
    assert "2 tensors, 27 elements compared" in tenplex("verify", checkpoint, checkpoint).out


@pytest.mark.parametrize("name", ["x" * 255, "x" * 247 + ".extra99", "\u00e9" * 127])
def test_target_may_have_the_longest_name(name: str, checkpoint: Path, tmp_path: Path) -> None:
    for target_format in ("safetensors", "dcp"):
        tenplex("reshard", checkpoint, tmp_path / name, "--format", target_format, "--overwrite")
        tenplex("verify", checkpoint, tmp_path / name)
    assert os.listdir(tmp_path) == [name]


def test_name_that_is_too_long_is_named(checkpoint: Path, tmp_path: Path) -> None:
    run = tenplex("reshard", checkpoint, tmp_path / ("x" * 256), "--format", "dcp", exit_code=1)
    assert "File name too long" in run.err
    assert os.listdir(tmp_path) == []


def test_slash_at_the_end_is_for_folders(checkpoint: Path, tmp_path: Path) -> None:
    tenplex("reshard", checkpoint, f"{tmp_path}/folder//", "--format", "dcp")
    assert (tmp_path / "folder/.metadata").is_file()
    for name in ("a.safetensors/", "a.pt/", "plain/"):
        run = tenplex("reshard", checkpoint, f"{tmp_path}/{name}", exit_code=1)
        assert f"'{tmp_path}/{name}' names a folder, and the target is one file" in run.err
    assert os.listdir(tmp_path) == ["folder"]


def test_slash_at_the_end_does_not_hide_what_is_there(checkpoint: Path, tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("precious")
    for options in ((), ("--overwrite",)):
        tenplex("reshard", checkpoint, f"{tmp_path}/notes/", "--format", "dcp", *options, exit_code=1)
        assert (tmp_path / "notes").read_text() == "precious"


@pytest.mark.parametrize("name", ["new/out.pt", "new/deep/out", "new/out.safetensors"])
def test_absent_folder_of_the_target_is_named(name: str, checkpoint: Path, tmp_path: Path) -> None:
    target = tmp_path / name
    command = ("--format", "dcp") if name.endswith("out") else ()
    run = tenplex("reshard", checkpoint, target, *command, exit_code=1)
    assert f"cannot write '{target}': there is no folder '{target.parent}'" in run.err
    run = tenplex(*plan_arguments(checkpoint), "--html", target, exit_code=1)
    assert f"there is no folder '{target.parent}'" in run.err
    assert os.listdir(tmp_path) == []


PIECES = (
    "family: x\nmeshes: {m: [tp]}\ntensors:\n"
    "  - {match: a, slice: [{dim: 0, by: tp, segments: [1, 1], local_interleave: 1}]}\n  - {match: '*'}\n"
)
FLAT = "family: x\nmeshes: {m: [tp]}\ntensors: [{match: a, slice: [{flat: true, by: tp}]}, {match: '*'}]\n"


@pytest.mark.parametrize(
    ("layout", "sizes", "reason"),
    [(PIECES, "tp=1", "tensor 'a' is in pieces"), (FLAT, "tp=2", "a target on 2 devices is a folder")],
)
def test_name_of_one_safetensors_file_is_for_whole_tensors(
    layout: str, sizes: str, reason: str, checkpoint: Path, tmp_path: Path
) -> None:
    (tmp_path / "layout.yaml").write_text(layout)
    arguments = ("--layout", tmp_path / "layout.yaml", "--to", sizes)
    target = tmp_path / "out.safetensors"
    run = tenplex("reshard", checkpoint, target, *arguments, exit_code=1)
    assert f"'{target}' is the name of one file of whole tensors" in run.err
    assert reason in run.err
    assert not target.exists()
    tenplex("reshard", checkpoint, tmp_path / "out", *arguments)
    assert (tmp_path / "out/tenplex.json").is_file()
    tenplex("reshard", checkpoint, f"{target}/", *arguments)
    assert (target / "tenplex.json").is_file()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--format", "safetensors", "--to", "fsdp=2"), "a folder, which has 'objects' of its own"),
        (("--format", "dcp"), "of format 'dcp'"),
        (("--format", "torch"), "of format 'torch'"),
    ],
)
def test_objects_folder_is_refused_where_nothing_uses_it(arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    source, objects, out = tmp_path / "in.pt", tmp_path / "objects", tmp_path / "out"
    torch.save({"w": torch.ones(4), "c": 2j}, source)
    run = tenplex("reshard", source, out, *arguments, "--objects", objects, exit_code=1)
    assert f"the target is {said}: leave it out" in run.err
    assert not objects.exists()
    assert not out.exists()
    tenplex("reshard", source, tmp_path / "one.safetensors", "--objects", objects)
    tenplex("reshard", tmp_path / "one.safetensors", out, *arguments, "--objects", objects)  # the source needs it
    tenplex("verify", source, out)


@pytest.mark.parametrize("arguments", [("--help",), ("--version",), ("reshard", "--help"), ("--help-all",)], ids=str)
def test_help_that_cannot_be_written_is_an_error(arguments: tuple[str, ...]) -> None:
    done = run_into_full_device(*arguments)
    assert done.returncode == 1
    assert "tenplex: error: cannot write to standard output" in done.stderr


def test_max_file_is_for_hugging_face_models_only(checkpoint: Path, tmp_path: Path) -> None:
    run = tenplex("reshard", checkpoint, tmp_path / "out", "--format", "dcp", "--max-file", "1GB", exit_code=1)
    assert "--max-file is for format 'hf', and the target is of format 'dcp'" in run.err
    assert not (tmp_path / "out").exists()


def test_a_million_devices_end_in_seconds(tmp_path: Path) -> None:
    """Refused before the first file: one tensor of 32 elements."""
    save_file({"w": torch.ones(8, 4)}, tmp_path / "in.safetensors")
    million = 1 << 20
    limits = Limits(seconds=60)
    command = ("reshard", tmp_path / "in.safetensors", tmp_path / "out", "--format", "safetensors")
    for layout, axis in (("replicated", "dp"), ("fsdp", "fsdp")):
        to = ("--layout", layout, "--to", f"{axis}={million}")
        run = tenplex(*command, *to, exit_code=1, limits=limits)
        assert f"the target has {million} files" in run.err
        assert "ulimit -n" in run.err
        run = tenplex("plan", tmp_path / "in.safetensors", *to, exit_code=1, limits=limits)
        assert f"a plan is for at most 65536 devices, found {million}" in run.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.safetensors"]


def test_objects_are_named_as_absent_where_neither_side_has_any(tmp_path: Path) -> None:
    save_file({"w": torch.ones(8, 4)}, tmp_path / "in.safetensors")
    run = tenplex("verify", tmp_path / "in.safetensors", tmp_path / "in.safetensors")
    assert run.out.endswith("objects not compared, since there are none\n")
