# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Makes a copy of an HDF5 file in which some datasets are compressed, for ``h5lossy repack``."""
