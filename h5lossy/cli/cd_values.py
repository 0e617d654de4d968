# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""``h5lossy cd-values``: how each tool spells a codec with its bound."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import click

from h5lossy import FILTER_ID
from h5lossy.bounds import BoundKind
from h5lossy.cli._console import say
from h5lossy.cli._options import Request, request_option

if TYPE_CHECKING:
    from h5lossy.codecs import Codec


@click.command("cd-values")
@request_option
@click.option(
    "--var",
    "name",
    default="x",
    metavar="NAME",
    help="The dataset or variable in the forms. [default: x]",
)
@click.option(
    "--checksum/--no-checksum", default=True, help="Frames carry a checksum. [default: they do]"
)
def cd_values(request: Request, name: str, *, checksum: bool) -> None:
    """Print a bound, and a codec, as h5py, h5repack, nccopy and ncgen take it.

    Give one bound. The tools need the plugin: see h5lossy plugin-path. nccopy and ncgen read
    "0.001d" as a float64 and so keep the bound exactly.
    """
    codec = request.make()
    if codec is None:
        raise click.UsageError("give a bound, for example --absolute 1e-3")
    if not checksum:
        codec = dataclasses.replace(codec, checksum=False)
    words = codec.filter_options
    numbers = ",".join(map(str, words))
    h5repack_filter = f"{name}:UD={FILTER_ID},1,{len(words)},{numbers}"
    netcdf_filter = f"{FILTER_ID},{_with_typed_bound(codec)}"
    say(f"{'h5py':10}compression={FILTER_ID}, compression_opts=({', '.join(map(str, words))})")
    say(f"{'':10}compression=h5lossy.{codec!r}")
    say(f"{'h5repack':10}h5repack -f {_quoted(h5repack_filter)} in.h5 out.h5")
    say(f"{'nccopy':10}nccopy -F {_quoted(f'{name},{netcdf_filter}')} in.nc out.nc")
    say(f'{"ncgen":10}{name}:_Filter = "{netcdf_filter}" ;')


def _with_typed_bound(codec: Codec) -> str:
    """Write the cd_values with netCDF's float64 constant for the two words of the bound."""
    number, kind, low, high, *flags = codec.filter_options
    lossless = codec.bound.kind is BoundKind.LOSSLESS
    bound = [low, high] if lossless else [f"{codec.bound.value!r}d"]
    return ",".join(map(str, (number, kind, *bound, *flags)))


def _quoted(text: str) -> str:
    """Quote a word for the shell."""
    return "'" + text.replace("'", "'\\''") + "'"
