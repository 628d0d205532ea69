# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""Exact comparison of tensors and of nested state, bit for bit: NaN payloads and the sign of zero count."""

from __future__ import annotations

import argparse
import collections
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch


def raw_bytes(tensor: torch.Tensor) -> bytes:
    """Elements in row-major order as they lie in memory."""
    flat = tensor.detach().cpu().clone(memory_format=torch.contiguous_format).reshape(-1)
    if flat.numel() == 0:
        return b""
    if flat.dtype.is_complex:
        flat = torch.view_as_real(flat).reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes()


def assert_same_tensor(expected: torch.Tensor, found: torch.Tensor, where: str) -> None:
    assert found.dtype == expected.dtype, f"{where}: dtype {found.dtype}, expected {expected.dtype}"
    assert found.shape == expected.shape, f"{where}: shape {tuple(found.shape)}, expected {tuple(expected.shape)}"
    assert raw_bytes(found) == raw_bytes(expected), f"{where}: the bits differ"


def assert_same_tensors(expected: Mapping[str, torch.Tensor], found: Mapping[str, torch.Tensor]) -> None:
    assert sorted(found) == sorted(expected)
    for name, tensor in expected.items():
        assert_same_tensor(tensor, found[name], name)


class TreeComparison:
    """Compares two nested states: types, values, keys and their order, and which tensors share memory how."""

    def __init__(self, *, strides: bool = False, types: bool = True) -> None:
        self._strides = strides
        self._types = types
        self._storages: dict[int, int] = {}  # data pointer of the expected storage -> of the found one

    def compare(self, expected: Any, found: Any, where: str = "") -> None:
        if isinstance(expected, torch.Tensor):
            self._compare_tensor(expected, found, where)
        elif isinstance(expected, np.ndarray):
            assert isinstance(found, np.ndarray), f"{where}: {type(found)}"
            assert expected.dtype == found.dtype, where
            np.testing.assert_array_equal(expected, found, where)
        elif isinstance(expected, Mapping):
            assert isinstance(found, Mapping), f"{where}: {type(found)}"
            self._compare_type(expected, found, where)
            keys, found_keys = list(expected), list(found)
            if not self._types:
                keys, found_keys = sorted(keys, key=str), sorted(found_keys, key=str)
            assert found_keys == keys, f"{where}: keys {found_keys}, expected {keys}"
            if self._types:
                assert [type(key) for key in found_keys] == [type(key) for key in keys], f"{where}: types of keys"
            for key in keys:
                self.compare(expected[key], found[key], f"{where}.{key}")
        elif isinstance(expected, (list, tuple, collections.deque)):
            self._compare_type(expected, found, where)
            assert len(found) == len(expected), f"{where}: {len(found)} items, expected {len(expected)}"
            for index, (one, other) in enumerate(zip(expected, found, strict=True)):
                self.compare(one, other, f"{where}[{index}]")
        elif isinstance(expected, argparse.Namespace):
            self._compare_type(expected, found, where)
            self.compare(vars(expected), vars(found), where)
        elif self._types and type(expected) is float:
            self._compare_type(expected, found, where)
            assert struct.pack("<d", found) == struct.pack("<d", expected), f"{where}: {found!r}, expected {expected!r}"
        else:
            self._compare_type(expected, found, where)
            assert found == expected or (found != found and expected != expected), (
                f"{where}: {found!r}, expected {expected!r}"
            )

    def _compare_type(self, expected: Any, found: Any, where: str) -> None:
        if self._types:
            assert type(found) is type(expected), f"{where}: type {type(found)}, expected {type(expected)}"

    def _compare_tensor(self, expected: torch.Tensor, found: Any, where: str) -> None:
        assert isinstance(found, torch.Tensor), f"{where}: {type(found)}, expected a tensor"
        assert_same_tensor(expected, found, where)
        if not self._strides:
            return
        self._compare_type(expected, found, where)
        assert found.stride() == expected.stride(), f"{where}: strides {found.stride()}, expected {expected.stride()}"
        assert found.requires_grad == expected.requires_grad, f"{where}: requires_grad"
        if expected.numel() == 0:
            return
        expected_base = expected.untyped_storage().data_ptr()
        found_base = found.untyped_storage().data_ptr()
        known = self._storages.setdefault(expected_base, found_base)
        assert found_base == known, f"{where}: does not share memory as before"
        assert len(set(self._storages.values())) == len(self._storages), f"{where}: shares memory that it did not"

    @property
    def storage_count(self) -> int:
        return len(self._storages)


def assert_same_tree(expected: Any, found: Any, *, strides: bool = False, types: bool = True) -> None:
    TreeComparison(strides=strides, types=types).compare(expected, found)
