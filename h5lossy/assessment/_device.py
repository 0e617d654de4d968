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
    """Have a GPU assess the fields, with their mask, where both are in its memory.

    Otherwise, and where ``H5LOSSY_DEVICE`` is "cpu", values are copied to the host part by part.
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
