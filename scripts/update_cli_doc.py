#!/usr/bin/env python3
# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""Puts the current help texts into docs/cli.md, between the markers `<!-- help: COMMAND -->` and `<!-- end -->`.

Usage: update_cli_doc.py [PROGRAM]; default build/release/src/tenplex/cli/tenplex.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs/cli.md"
BLOCK = re.compile(r"(<!-- help: ([a-z ]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def main(arguments: list[str]) -> int:
    program = arguments[0] if arguments else str(ROOT / "build/release/src/tenplex/cli/tenplex")

    def block(match: re.Match[str]) -> str:
        command = [program, *match[2].split()[1:], "--help"]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        return f"{match[1]}```\n{text}\n```\n{match[3]}"

    DOCUMENT.write_text(BLOCK.sub(block, DOCUMENT.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
