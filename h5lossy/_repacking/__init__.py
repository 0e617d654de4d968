# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""A copy of an HDF5 file in which some datasets are compressed: what ``h5lossy repack`` makes."""
