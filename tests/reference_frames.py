# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""What the reference writes where the library is given a codec."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from checks import pattern
from reference import frame as reference

if TYPE_CHECKING:
    from checks import Array
    from h5lossy._codecs import Codec


def frame_of_reference(values: Array, codec: Codec, fill: Any = None, **options: Any) -> bytes:
    """Return the reference's frame; `options` go to the reference's `encode` instead."""
    params, dtype = codec.params(), values.dtype
    given: dict[str, Any] = {
        "fill_bits": None if fill is None else pattern(fill, dtype),
        "codec": params.codec,
        "mode": params.mode,
        "shape": values.shape,
        "floor": params.noise_floor,
        "exact": [pattern(x, dtype) for x in codec.exact],
        "wide": codec.wide,
    }
    return reference.encode(values, params.bound_kind, params.bound, **given | options)
