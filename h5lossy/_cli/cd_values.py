# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""``h5lossy cd-values``: how each tool and language spells a codec with its bound."""

from __future__ import annotations

import dataclasses
import re
import textwrap
from typing import TYPE_CHECKING

import click
import numpy as np

from h5lossy import FILTER_ID
from h5lossy._bounds import BoundKind
from h5lossy._cli._console import say, say_json
from h5lossy._cli._options import Number, Request, json_option, request_option
from h5lossy._cli._patterns import parse_chunks
from h5lossy._errors import H5LossyError
from h5lossy._frames import complete_filter_options

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from h5lossy._codecs import Codec

#: Letters and sizes of types by their names.
_SIZES = {
    "float": ("f", (2, 4, 8)),
    "complex": ("c", (8, 16)),
    "int": ("i", (1, 2, 4, 8)),
    "uint": ("u", (1, 2, 4, 8)),
}

#: Types by the names that NumPy has for them: float32, f4, <f4 or >f4.
_TYPES = {
    name: f"{name[0] if name[0] == '>' else '<'}{letter}{size}"
    for long, (letter, sizes) in _SIZES.items()
    for size in sizes
    for name in (f"{long}{8 * size}", *(f"{order}{letter}{size}" for order in ("", "<", ">")))
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
    metavar="TYPE",
    help="Type of the values in the file (float32, uint16, >i4 and so on), for a program with a "
    "static HDF5: all 16 cd_values are printed, and --chunks is needed, too.",
)
@click.option(
    "--chunks",
    metavar="SHAPE",
    help="With --dtype: extents of a chunk as h5dump and ncdump show them, such as 64x256. Fortran "
    "has them in the opposite order.",
)
@click.option(
    "--fill-value",
    type=Number(),
    metavar="V",
    help="With --dtype: the fill value, if there is one.",
)
@click.option(
    "--exact",
    type=int,
    multiple=True,
    metavar="V",
    help="Of integers and halves: a value that comes back as it is, besides the fill value. May be "
    "repeated: two in all, of integers of 64 bits one.",
)
@click.option(
    "--wide",
    is_flag=True,
    help="Of integers with an absolute or range-relative bound: bins that overlap, for noise below "
    "the bound.",
)
def cd_values(
    request: Request,
    name: str,
    *,
    checksum: bool,
    dtype: str | None,
    chunks: str | None,
    fill_value: float | None,
    exact: Sequence[int],
    wide: bool,
    as_json: bool,
) -> None:
    """Print a bound, and a codec, as tools, C and Fortran take it.

    Give one bound. The tools need the plugin: see h5lossy plugin-path. nccopy and ncgen read
    "0.001d" as a float64 and so keep the bound exactly.

    In a program that has HDF5 linked into it statically, the filter cannot ask HDF5 for the type
    and the chunks. It has to be told all of them: give --dtype and --chunks, and --fill-value.
    """
    if "," in name or not name.isprintable():
        raise click.UsageError(
            f"h5repack and nccopy take a comma for the end of a name, and cannot take {name!r}; "
            "use h5lossy repack"
        )
    codec = request.make()
    if codec is None:
        raise click.UsageError("give a bound, for example --absolute 1e-3")
    try:
        codec = dataclasses.replace(codec, checksum=checksum, exact=exact, wide=wide)
    except H5LossyError as error:
        raise click.UsageError(str(error)) from None
    if (dtype is None) != (chunks is None):
        raise click.UsageError("give both of --dtype and --chunks, or none")
    if dtype is not None and chunks is not None:
        words, is_complete = _complete(codec, dtype, chunks, fill_value), True
    elif fill_value is not None:
        raise click.UsageError("--fill-value goes with --dtype and --chunks")
    else:
        words, is_complete = codec.filter_options, False
    if as_json:
        say_json({"filter": FILTER_ID, "cd_values": words, "h5py": repr(codec)})
        return
    for tool, lines in _forms(codec, words, name, is_complete=is_complete).items():
        for i, line in enumerate(lines):
            say(f"{'' if i else tool:10}{line}")


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


def _forms(
    codec: Codec, words: Sequence[int], name: str, *, is_complete: bool
) -> dict[str, list[str]]:
    """Return the lines for each tool; not for those of netCDF where the words are all 16.

    netCDF makes every filter optional, and h5lossy then compresses nothing by such words.
    """
    count, numbers = len(words), ",".join(map(str, words))
    user_defined = f"{name}:UD={FILTER_ID},{0 if is_complete else 1},{count},{numbers}"
    in_c = [f"{word}u" for word in words]
    in_fortran = map(_signed, words)
    forms = {
        "h5repack": [
            f"h5repack -f {_quoted(user_defined)} in.h5 out.h5",
            # Without the plugin, or for data that is refused, it copies without compression.
            "h5lossy info out.h5    # h5repack does not say if it compressed nothing",
        ],
        "C": [
            *_lines(in_c, "const unsigned cd_values[] = {", "};"),
            f"H5Pset_filter(dcpl, {FILTER_ID}, H5Z_FLAG_MANDATORY, {count}, cd_values);",
        ],
        "Fortran": [
            *_lines(in_fortran, f"integer :: cd_values({count}) = [", "]", " &"),
            # HDF5's module has no name for 0, the flag "mandatory".
            f"call h5pset_filter_f(dcpl, {FILTER_ID}, 0, {count}_size_t, cd_values, hdferr)",
        ],
        "openPMD": _lines(
            map(str, words),
            '{"hdf5": {"dataset": {"permanent_filters": '
            f'{{"id": {FILTER_ID}, "flags": "mandatory", "cd_values": [',
            "]}}}}",
        ),
    }
    if is_complete:
        return forms
    netcdf, arguments = _netcdf_filter(codec), f"(ncid, varid, {FILTER_ID}, {count}, cd_values)"
    forms["C"].append(f"nc_def_var_filter{arguments};")
    forms["Fortran"].append(f"status = nf90_def_var_filter{arguments}")
    return {
        "h5py": [
            f"compression={FILTER_ID}, compression_opts=({', '.join(map(str, words))})",
            f"compression=h5lossy.{codec!r}",
        ],
        "h5repack": forms.pop("h5repack"),
        "nccopy": [f"nccopy -F {_quoted(f'{name},{netcdf}')} in.nc out.nc"],
        "ncgen": [f'{_cdl(name)}:_Filter = "{netcdf}" ;'],
        **forms,
    }


def _signed(word: int) -> str:
    """Write a word as the signed number that Fortran has."""
    # A minus sign is an operation, and its operand has to exist: 2147483648 does not.
    return "-2147483647-1" if word == 1 << 31 else str(word - (word >> 31 << 32))


def _lines(texts: Iterable[str], before: str, after: str, at_end: str = "") -> list[str]:
    """Break a list of numbers into lines of code."""
    whole = f"{before}{', '.join(texts)}{after}"
    *lines, last = textwrap.wrap(whole, _WIDTH, subsequent_indent="    ", break_on_hyphens=False)
    return [*(line + at_end for line in lines), last]


def _netcdf_filter(codec: Codec) -> str:
    """Write number and cd_values with netCDF's float64 constant for the two words of the bound."""
    number, kind, low, high, *flags = codec.filter_options
    lossless = codec.bound.kind is BoundKind.LOSSLESS
    bound = [low, high] if lossless else [f"{codec.bound.value!r}d"]
    return ",".join(map(str, (FILTER_ID, number, kind, *bound, *flags)))


def _quoted(text: str) -> str:
    """Quote a word for the shell."""
    return "'" + text.replace("'", "'\\''") + "'"


def _cdl(name: str) -> str:
    """Write a variable's name, the last part of a path, as CDL has it."""
    escaped = re.sub(r"([^\w+.@-])", r"\\\1", name.rpartition("/")[2])
    return f"\\{escaped}" if escaped[:1].isdigit() else escaped
