# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""h5lossy as a compressor of ClimateBenchPress."""

from typing import Any

from climatebenchpress.compressor.compressors.abc import Compressor

import h5lossy
import h5lossy.zarr


class H5lossy(Compressor):  # type: ignore[misc]  # it has no types
    """The codec with the smallest frames."""

    name = "h5lossy"
    description = "h5lossy (Interp)"

    @staticmethod
    def abs_bound_codec(error_bound: float, **_: Any) -> h5lossy.zarr.Compressor:
        """Return a codec whose largest error is the bound."""
        return h5lossy.zarr.Compressor(h5lossy.Interp(absolute=error_bound))

    @staticmethod
    def rel_bound_codec(error_bound: float, **_: Any) -> h5lossy.zarr.Compressor:
        """Return a codec whose largest error is the bound times the size of each value."""
        return h5lossy.zarr.Compressor(h5lossy.Interp(pointwise_relative=error_bound))
