# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""Side data of ours, read and written without tenplex, for lying ones: tenplex.json of a DCP folder
(docs/formats/dcp.md) and metadata of a safetensors file (docs/formats/safetensors.md)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import xxhash


def read_body(folder: Path) -> dict[str, Any]:
    body = json.loads((folder / "tenplex.json").read_text())["body"]
    assert isinstance(body, dict)
    return body


def write_body(folder: Path, body: dict[str, Any]) -> None:
    """Writes `body` as that of the folder's own .metadata, in an envelope that holds."""
    body = {**body, "of": xxhash.xxh3_128_hexdigest((folder / ".metadata").read_bytes())}
    text = json.dumps(body, separators=(",", ":"), ensure_ascii=False)
    envelope = (
        f'{{"format":"tenplex.dcp","version":1,"oldest_reader":1,"length":{len(text.encode())},'
        f'"checksum":"{xxhash.xxh3_128_hexdigest(text.encode())}","body":{text}}}\n'
    )
    (folder / "tenplex.json").write_text(envelope)


def side_text(state: dict[str, Any]) -> str:
    """`__metadata__["tenplex"]` of a safetensors file with the tree `state`, with a checksum that holds."""
    text = json.dumps({"version": 1, "oldest_reader": 1, "state": state}, separators=(",", ":"))[:-1]
    return f'{text},"checksum":"{xxhash.xxh3_128_hexdigest(text.encode())}"}}'
