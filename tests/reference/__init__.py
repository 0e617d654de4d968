# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""A second implementation of the format in NumPy, written from docs/format alone."""
