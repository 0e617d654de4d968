# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""``h5lossy cd-values``: how each tool and language spells a codec with its bound."""

from __future__ import annotations

import dataclasses
import re
import textwrap
from functools import partial
from typing import TYPE_CHECKING

import click
import numpy as np

from h5lossy import FILTER_ID
from h5lossy._bounds import BoundKind
from h5lossy._cli._console import say, say_json
from h5lossy._cli._options import Request, json_option, request_option
from h5lossy._cli._patterns import parse_chunks
from h5lossy._errors import H5LossyError
from h5lossy._frames import complete_filter_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from h5lossy._codecs import Codec

_TYPES = {"f4": "<f4", "float32": "<f4", "f8": "<f8", "float64": "<f8"} | {
    name: name for name in ("<f4", ">f4", "<f8", ">f8")
}

#: Columns of a line of code, well below the 132 of Fortran.
_WIDTH = 80


@click.command("cd-values")
@request_option
@click.option(
    "--var",
    "name",
    default="x",
    metavar="NAME",
    help="The dataset or variable in the forms. [default: x]",
)
@json_option
@click.option(
    "--checksum/--no-checksum", default=True, help="Frames carry a checksum. [default: they do]"
)
@click.option(
    "--dtype",
    type=click.Choice([*_TYPES]),
    help="Type of the values in the file, for a program with a static HDF5: all 16 cd_values are "
    "printed, and --chunks is needed, too.",
)
@click.option(
    "--chunks",
    metavar="SHAPE",
    help="With --dtype: extents of a chunk as h5dump and ncdump show them, such as 64x256. Fortran "
    "has them in the opposite order.",
)
@click.option(
    "--fill-value", type=float, metavar="V", help="With --dtype: the fill value, if there is one."
)
def cd_values(
    request: Request,
    name: str,
    *,
    checksum: bool,
    dtype: str | None,
    chunks: str | None,
    fill_value: float | None,
    as_json: bool,
) -> None:
    """Print a bound, and a codec, as tools, C and Fortran take it.

    Give one bound. The tools need the plugin: see h5lossy plugin-path. nccopy and ncgen read
    "0.001d" as a float64 and so keep the bound exactly.

    In a program that has HDF5 linked into it statically, the filter cannot ask HDF5 for the type
    and the chunks. It has to be told all of them: give --dtype and --chunks, and --fill-value.
    """
    if not name or "," in name or not name.isprintable():
        raise click.UsageError(
            f"h5repack and nccopy take a comma for the end of a name, and cannot take {name!r}; "
            "use h5lossy repack"
        )
    codec = request.make()
    if codec is None:
        raise click.UsageError("give a bound, for example --absolute 1e-3")
    if not checksum:
        codec = dataclasses.replace(codec, checksum=False)
    if (dtype is None) != (chunks is None):
        raise click.UsageError("give both of --dtype and --chunks, or none")
    if dtype is None or chunks is None:
        if fill_value is not None:
            raise click.UsageError("--fill-value goes with --dtype and --chunks")
        words, show = codec.filter_options, partial(_print_requested, codec)
    else:
        words = _complete(codec, dtype, chunks, fill_value)
        show = partial(_print_complete, words)
    if as_json:
        say_json({"filter": FILTER_ID, "cd_values": words, "h5py": repr(codec)})
    else:
        show(name)


def _print_requested(codec: Codec, name: str) -> None:
    """Print the words that a user gives where the filter finds out the others."""
    words = codec.filter_options
    netcdf_filter = f"{FILTER_ID},{_with_typed_bound(codec)}"
    say(f"{'h5py':10}compression={FILTER_ID}, compression_opts=({', '.join(map(str, words))})")
    say(f"{'':10}compression=h5lossy.{codec!r}")
    _print_h5repack(words, name, flag=1)
    say(f"{'nccopy':10}nccopy -F {_quoted(f'{name},{netcdf_filter}')} in.nc out.nc")
    say(f'{"ncgen":10}{_cdl(name)}:_Filter = "{netcdf_filter}" ;')
    _print_c(words, f"nc_def_var_filter(ncid, varid, {FILTER_ID}, {len(words)}, cd_values);")
    _print_fortran(
        words, f"status = nf90_def_var_filter(ncid, varid, {FILTER_ID}, {len(words)}, cd_values)"
    )


def _print_complete(words: Sequence[int], name: str) -> None:
    """Print all words; netCDF makes every filter optional, and h5lossy then compresses nothing."""
    _print_h5repack(words, name, flag=0)
    _print_c(words)
    _print_fortran(words)


def _complete(codec: Codec, dtype: str, chunks: str, fill_value: float | None) -> tuple[int, ...]:
    """Return all words, as set_local would write them."""
    try:
        extents = parse_chunks(chunks)
    except click.BadParameter:
        extents = "keep"
    if isinstance(extents, str):
        raise click.UsageError(f"--chunks takes extents such as 64x256, got {chunks!r}")
    try:
        return complete_filter_options(codec, np.dtype(_TYPES[dtype]), extents, fill_value)
    except H5LossyError as error:  # everything here was typed
        raise click.UsageError(str(error)) from None


def _print_h5repack(words: Sequence[int], name: str, *, flag: int) -> None:
    numbers = ",".join(map(str, words))
    text = f"{name}:UD={FILTER_ID},{flag},{len(words)},{numbers}"
    say(f"{'h5repack':10}h5repack -f {_quoted(text)} in.h5 out.h5")
    # Without the plugin, or for data that is refused, h5repack copies without compression.
    say(f"{'':10}h5lossy info out.h5    # h5repack does not say if it compressed nothing")


def _print_c(words: Sequence[int], *calls: str) -> None:
    _print_code(
        "C",
        *_lines([f"{word}u" for word in words], "const unsigned cd_values[] = {", "};"),
        f"H5Pset_filter(dcpl, {FILTER_ID}, H5Z_FLAG_MANDATORY, {len(words)}, cd_values);",
        *calls,
    )


def _print_fortran(words: Sequence[int], *calls: str) -> None:
    """Print the words as the signed numbers that Fortran has."""
    count = len(words)
    signed = [word - (1 << 32) if word >> 31 else word for word in words]
    # A minus sign is an operation, and its operand has to exist: 2147483648 does not.
    texts = ["-2147483647-1" if word == -(1 << 31) else str(word) for word in signed]
    _print_code(
        "Fortran",
        *_lines(texts, f"integer :: cd_values({count}) = [", "]", " &"),
        # HDF5's module has no name for 0, the flag "mandatory".
        f"call h5pset_filter_f(dcpl, {FILTER_ID}, 0, {count}_size_t, cd_values, hdferr)",
        *calls,
    )


def _lines(texts: Sequence[str], before: str, after: str, at_end: str = "") -> list[str]:
    """Break a list of numbers into lines of code."""
    whole = f"{before}{', '.join(texts)}{after}"
    first, *rest = textwrap.wrap(whole, _WIDTH, subsequent_indent="    ", break_on_hyphens=False)
    lines = [first, *rest]
    return [line + at_end for line in lines[:-1]] + lines[-1:]


def _print_code(language: str, *lines: str) -> None:
    for i, line in enumerate(lines):
        say(f"{'' if i else language:10}{line}")


def _with_typed_bound(codec: Codec) -> str:
    """Write the cd_values with netCDF's float64 constant for the two words of the bound."""
    number, kind, low, high, *flags = codec.filter_options
    lossless = codec.bound.kind is BoundKind.LOSSLESS
    bound = [low, high] if lossless else [f"{codec.bound.value!r}d"]
    return ",".join(map(str, (number, kind, *bound, *flags)))


def _quoted(text: str) -> str:
    """Quote a word for the shell."""
    return "'" + text.replace("'", "'\\''") + "'"


def _cdl(name: str) -> str:
    """Write a variable's name, the last part of a path, as CDL has it."""
    escaped = re.sub(r"([^\w+.@-])", r"\\\1", name.rpartition("/")[2])
    return f"\\{escaped}" if escaped[:1].isdigit() else escaped
