# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Fuzzing: of frames and of the filter by libFuzzer (C++), and of whole files (`files`)."""
