# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Reports as text, Markdown, an HTML page and a figure. Only `figure` draws, with matplotlib."""
