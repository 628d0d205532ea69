#!/usr/bin/env python3
# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""Checks that components include only what layers.toml allows.

For every file under src/tenplex/<component>/ each `#include "tenplex/<other>/..."` must name the component itself or one
listed under `uses`; each `#include <library/...>` must come from the C++ or POSIX headers or a listed library, and each listed library must be
included; `internal/` folders are private to their component, `testing/` folders to tests; the CMake USES edges equal `uses`. Exit 0 when all hold, 1 otherwise.
"""

from __future__ import annotations

import pathlib
import re
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "tenplex"
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)
TEST_LIBRARIES = {"gtest", "gmock", "benchmark"}
# Headers without a folder are the C++ library's and POSIX's, but for these, which stand for a library.
SINGLE_HEADERS = {"xxhash.h": "xxhash", "libdeflate.h": "libdeflate"}
SYSTEM_FOLDERS = {"sys", "linux", "netinet", "arpa"}


def library_of(header: str) -> str | None:
    """The library that a <header> belongs to, or None for the C++ library and the operating system."""
    if "/" not in header:
        return SINGLE_HEADERS.get(header)
    folder = header.split("/", 1)[0]
    return None if folder in SYSTEM_FOLDERS else folder


def problems_of_file(path: pathlib.Path, component: str, rules: dict) -> list[str]:
    """One line per include of `path` that `rules` (a table of layers.toml) does not allow."""
    found = []
    is_test = re.search(r"_(test|bench)\.cc$", path.name) is not None or path.parent.name == "testing"
    for quoted, angled in INCLUDE.findall(path.read_text(encoding="utf-8")):
        where = f"{path.relative_to(ROOT)}: "
        if quoted:
            parts = quoted.split("/")
            if parts[0] != "tenplex" or len(parts) < 3:
                found.append(f'{where}#include "{quoted}" must be written as "tenplex/<component>/..."')
                continue
            if parts[1] != component and parts[1] not in rules["uses"]:
                found.append(f"{where}{component}/ may not include {parts[1]}/ ({quoted})")
            if "internal" in parts and parts[1] != component:
                found.append(f"{where}{quoted} is private to {parts[1]}/")
            if "testing" in parts and not is_test:
                found.append(f"{where}{quoted} is for tests")
            if not (SOURCE.parent / quoted).is_file():
                found.append(f"{where}{quoted} does not exist")
            continue
        library = library_of(angled)
        allowed = set(rules["libraries"]) | (TEST_LIBRARIES if is_test else set())
        if library is not None and library not in allowed:
            found.append(f"{where}{component}/ may not use the library of <{angled}>")
    return found


def problems_of_libraries(component: str, rules: dict) -> list[str]:
    """One line per library that `rules` lists and no file of the component includes."""
    included: set[str | None] = set()
    for path in (SOURCE / component).rglob("*"):
        if path.suffix in {".h", ".cc"}:
            angled = (found[1] for found in INCLUDE.findall(path.read_text(encoding="utf-8")))
            included.update(library_of(header) for header in angled)
    unused = [library for library in rules["libraries"] if library not in included]
    return [f"layers.toml: {component} lists the library {library}, which no file includes" for library in unused]


def problems_of_layers(layers: dict) -> list[str]:
    """Edges that do not go down: a component may use only lower layers, or its own without a cycle."""
    found = []
    for component, rules in layers.items():
        for used in rules["uses"]:
            if used not in layers:
                found.append(f"layers.toml: {component} uses {used}, which is not listed")
            elif layers[used]["layer"] > rules["layer"]:
                found.append(
                    f"layers.toml: {component} (layer {rules['layer']}) uses {used} (layer {layers[used]['layer']})"
                )
            elif component in layers[used]["uses"]:
                found.append(f"layers.toml: {component} and {used} use each other")
    return found


def cmake_edges(component: str) -> set[str]:
    """Components named under USES in the component's CMakeLists.txt."""
    text = (SOURCE / component / "CMakeLists.txt").read_text(encoding="utf-8")
    match = re.search(rf"component\({component}\s+USES\s+([a-z_ \n]+)", text)
    return set(match.group(1).split()) if match else set()


def closure(component: str, layers: dict) -> set[str]:
    """Everything that a component reaches through `uses`."""
    reached: set[str] = set()
    stack = list(layers[component]["uses"])
    while stack:
        used = stack.pop()
        if used not in reached:
            reached.add(used)
            stack.extend(layers[used]["uses"])
    return reached


def main() -> int:
    layers = tomllib.loads((ROOT / "layers.toml").read_text(encoding="utf-8"))
    found = problems_of_layers(layers)
    folders = {path.name for path in SOURCE.iterdir() if path.is_dir()}
    for component in sorted(folders ^ set(layers)):
        found.append(f"{component}: a folder under src/tenplex/ and a table of layers.toml must both exist")
    files = 0
    for component in sorted(folders & set(layers)):
        direct = cmake_edges(component)
        reached = set().union(direct, *(closure(used, layers) for used in direct if used in layers))
        if reached != closure(component, layers) or not direct <= set(layers[component]["uses"]):
            found.append(
                f"{component}: CMake USES {sorted(direct)} differs from layers.toml {layers[component]['uses']}"
            )
        found.extend(problems_of_libraries(component, layers[component]))
        for path in sorted((SOURCE / component).rglob("*")):
            if path.suffix in {".h", ".cc"}:
                files += 1
                found.extend(problems_of_file(path, component, layers[component]))
    for line in found:
        print(line)
    print(f"layering: {files} files, {len(found)} problems")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
