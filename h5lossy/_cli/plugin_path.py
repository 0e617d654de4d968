# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""``h5lossy plugin-path``."""

from __future__ import annotations

import click

from h5lossy import PLUGIN_PATH


@click.command("plugin-path")
def plugin_path() -> None:
    """Print the folder of the HDF5 plugin, and nothing else.

    \b
    For programs other than Python's:
        export HDF5_PLUGIN_PATH=$(h5lossy plugin-path)
    In Windows' PowerShell:
        $env:HDF5_PLUGIN_PATH = h5lossy plugin-path
    """  # noqa: D301 - click's mark for a paragraph that keeps its lines
    click.echo(PLUGIN_PATH)
