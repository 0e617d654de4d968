# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""A second implementation of the format in NumPy, written from docs/format alone.

It decodes, too, although docs/format/decoder.py does: that one is to be read, and takes 2 to 80
times as long for the millions of values that tests compare. Each also checks the other's reading
of the pages.
"""
