# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The public names of the package, and the folder of the plugin."""

from __future__ import annotations

import os
import sys

# pathlib would take as long to import as all of this.
PLUGIN_PATH: str = os.path.join(os.path.dirname(os.path.realpath(__file__)), "plugins")  # noqa: PTH118, PTH120
"""Folder of the plugin: the ``HDF5_PLUGIN_PATH`` for programs such as h5repack."""

#: The modules that define the public names. Each is loaded when one of its names is used.
NAMES = {
    home: names.split()
    for home, names in {
        "_batched": "read write",
        "_bounds": "BoundKind ErrorBound ErrorSummary",
        "_chunking": "chunks_for",
        "_codecs": "AATROX FILTERS FILTER_ID PFPL Auto Codec CuSZp2 Interp "
        "from_filter_options get_filters",
        "_config": "Config Device LibHDF5 get_config",
        "_datasets": "DatasetInfo describe",
        "_errors": "BoundError BoundViolationError CorruptFrameError DeviceError H5LossyError "
        "IncompleteWriteError InvalidArgumentError NativeError NotComparableError "
        "TruncatedFrameError UnsupportedError",
        "_frames": "FrameInfo decode encode inspect max_encoded_size",
        "_plugins": "register",
        "_public": "PLUGIN_PATH",
        "_verification.bound_checker": "largest_error",
        "_verify": "Problem Verification verify",
        "assessment": "Assessor DivergenceReport Report Reports assess assess_all "
        "assess_divergence",
    }.items()
}


def name_publicly(module: str) -> None:
    """Set the module of each public name to the package, for messages and pickles."""
    package, _, home = module.partition(".")
    for name in NAMES[home]:
        public = getattr(sys.modules[module], name)
        if hasattr(public, "__module__"):
            public.__module__ = package
