# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""Writes the golden files of this folder with torch itself: python make.py [FOLDER].

views.pt: shared storages, transposed, sliced, empty and scalar tensors, a parameter, bfloat16 and float8, and objects.
nocrc.pt: one tensor, CRC-32 left out. legacy.pt: the layout before PyTorch 1.6. Made with torch 2.13.
"""

import argparse
import collections
import pathlib
import sys

import torch


def main() -> None:
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent)
    matrix = torch.arange(12, dtype=torch.float32).reshape(3, 4)
    tree = {
        "w": matrix,
        "wt": matrix.t(),
        "part": matrix[1:, 1:3],
        "empty": torch.zeros(0, 5),
        "scalar": torch.tensor(7),
        "p": torch.nn.Parameter(torch.ones(2, dtype=torch.bfloat16)),
        "f8": torch.tensor([1.0, -2.0]).to(torch.float8_e4m3fn),
        "same": [matrix, {"step": 3}],
        "args": argparse.Namespace(lr=0.5),
        "od": collections.OrderedDict(a=(1, None, True)),
    }
    torch.save(tree, folder / "views.pt")
    torch.save({"a": torch.ones(2)}, folder / "legacy.pt", _use_new_zipfile_serialization=False)
    torch.serialization.set_crc32_options(False)
    torch.save({"a": torch.ones(2)}, folder / "nocrc.pt")


if __name__ == "__main__":
    main()
