# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Fields in the memory of a GPU, which assesses them there."""

from __future__ import annotations

import dataclasses
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from h5lossy._arrays import cupy_memory
from h5lossy.assessment._inputs import Input

if TYPE_CHECKING:
    from collections.abc import Iterator

    from h5lossy.assessment._fields import Fields


@contextmanager
def on_device(fields: Fields) -> Iterator[Fields]:
    """Say that a GPU assesses the fields, where both are in its memory.

    Where ``H5LOSSY_DEVICE`` is "cpu", or only one of them is on a GPU, values come to the host a
    part at a time.

    Parameters
    ----------
    fields : Fields

    Yields
    ------
    Fields
        With the mask on the GPU, too, and all of the caller's work on them done.
    """
    device = fields.original.device
    wanted = os.environ.get("H5LOSSY_DEVICE", "auto") != "cpu"
    # Missing values other than the fill value are looked for on the host.
    if device is None or fields.decoded.device != device or not wanted or fields.missing.has_more:
        yield fields
        return
    library = cupy_memory(fields.original.values).library
    with library.device(device):
        mask = fields.mask
        if mask is not None and mask.device is None:
            whole = tuple(slice(0, n) for n in mask.shape)
            mask = Input(library.upload(mask.read(whole, np.dtype(np.uint8)), device).owner, "mask")
        library.wait(device)
        yield dataclasses.replace(fields, mask=mask, device=device)
