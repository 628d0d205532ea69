# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""Pickles that give a dict one key twice, which Python's own pickler never writes. Python keeps the last value."""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterable
from typing import Any


class _Doubling(pickle._Pickler):
    def __init__(self, file: io.BytesIO, key: object, kind: type, first: object) -> None:
        super().__init__(file, 4)
        self._doubled = (key, kind, first)

    def _batch_setitems(self, items: Iterable[tuple[Any, Any]]) -> None:
        key, kind, first = self._doubled
        pairs = []
        for name, value in items:
            if name == key and isinstance(value, kind):
                pairs.append((name, first))
            pairs.append((name, value))
        super()._batch_setitems(iter(pairs))  # type: ignore[misc]


def dumps(value: object, key: object, kind: type, first: object = None) -> bytes:
    """`value`, in which every dict (the state of an object too) with a `kind` under `key` has `first` there before."""
    file = io.BytesIO()
    _Doubling(file, key, kind, first).dump(value)
    return file.getvalue()
