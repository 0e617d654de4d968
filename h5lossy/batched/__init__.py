# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Writing and reading datasets on several threads."""

from h5lossy.batched.writer import read, write

__all__ = ["read", "write"]
