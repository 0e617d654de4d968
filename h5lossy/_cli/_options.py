# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The options that several commands share: a bound, a codec, and the codecs' own settings.

Codecs and their settings are taken from `h5lossy._codecs`.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from h5lossy import PFPL, BoundKind, ErrorBound, InvalidArgumentError
from h5lossy._bounds import FLOAT_BOUNDS
from h5lossy._codecs import CODECS, Codec, choice_text
from h5lossy._values import is_integer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np

    from h5lossy import FrameInfo

Result = TypeVar("Result")

DEFAULT_CODEC: type[Codec] = PFPL

#: A codec's argument that is called "digits" on the command line.
DIGITS = "significant_digits"

#: The options that give a bound; all but lossless take a value. With noise, absolute is its floor.
BOUND_VALUES = (*FLOAT_BOUNDS, BoundKind.NOISE, BoundKind.MODULUS, DIGITS)
BOUNDS = (*BOUND_VALUES, BoundKind.LOSSLESS)

#: The arguments of all codecs that promise more than a bound.
SAFEGUARDS = ("thresholds", "valid_range")

#: The codecs by the names on the command line.
CODEC_NAMES: dict[str, type[Codec]] = {cls.codec_name: cls for cls in CODECS.values()}


class Number(click.types.FloatParamType):
    """A number; whole numbers are exact."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return an int or a float."""
        try:
            return read_number(value)
        except ValueError:
            return super().convert(value, param, ctx)


def read_number(text: str) -> int | float:
    """Return the number that was typed; whole numbers are exact."""
    try:
        return int(text)
    except ValueError:
        return float(text)


class FileToWrite(click.Path):
    """A file to be written at the end of long work: refused at once if it cannot be written."""

    def __init__(self, suffix: str = "") -> None:
        super().__init__(dir_okay=False, writable=True)
        self._suffix = suffix

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path."""
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        folder = path.absolute().parent
        if not folder.is_dir():
            self.fail(f"there is no folder {str(path.parent)!r} to write {path.name!r} to")
        if not path.exists() and not os.access(folder, os.W_OK):
            self.fail(f"no file can be made in {str(path.parent)!r}: permission denied")
        if not path.name.lower().endswith(self._suffix):
            self.fail(f"only {self._suffix} is written, got {path.name!r}")
        return path


def _fields_by_name() -> dict[str, list[tuple[type[Codec], dataclasses.Field[Any]]]]:
    """Return the codecs' own settings; several codecs may have a field of one name."""
    found: dict[str, list[tuple[type[Codec], dataclasses.Field[Any]]]] = {}
    for cls in CODECS.values():
        for own in cls.choices():
            found.setdefault(own.name, []).append((cls, own))
    return found


_OWN_FIELDS = _fields_by_name()

#: The settings that only some codecs have, by name.
OWN_SETTINGS: tuple[str, ...] = tuple(_OWN_FIELDS)

#: Those of them that take no value.
FLAGS: frozenset[str] = frozenset(
    name
    for name, fields in _OWN_FIELDS.items()
    if all(isinstance(own.default, bool) for _, own in fields)
)

#: Most choices that a command's help lists; for more, the text describes them.
_MOST_LISTED = 8


@dataclass(frozen=True, kw_only=True)
class Request:
    """A bound and a codec as typed, each of which may be missing."""

    bound: Mapping[str, Any] = field(default_factory=dict)
    codec: type[Codec] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    safeguards: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(cls, typed: Mapping[str, Any]) -> Request:
        """Check what was typed: values by names of options, None or False where not given."""
        given = {name: v for name, v in typed.items() if not (v is None or v is False or v == ())}
        safeguards = {name: given.pop(name) for name in SAFEGUARDS if name in given}
        named = given.pop("codec", None)
        name = None if named is None else named.lower()
        if name is not None and name not in CODEC_NAMES:
            raise click.UsageError(f"codec must be one of {', '.join(CODEC_NAMES)}, got {named!r}")
        bound = {str(name): given.pop(name) for name in BOUNDS if name in given}
        if len(bound) > 1 and {*bound} != {BoundKind.NOISE, BoundKind.ABSOLUTE}:
            given_names = ", ".join(name.replace("_", "-") for name in bound)
            raise click.UsageError(f"give one bound, not {len(bound)} ({given_names})")
        settings = _settings_as_typed(name, given)
        codec = CODEC_NAMES[name] if name else DEFAULT_CODEC if settings else None
        request = cls(bound=bound, codec=codec, settings=settings, safeguards=safeguards)
        try:
            request.make()
        except InvalidArgumentError as error:
            raise click.UsageError(str(error).replace(DIGITS, "digits")) from None
        return request

    def make(self, codec: type[Codec] = DEFAULT_CODEC) -> Codec | None:
        """Make the filter, with `codec` if none was named; None if no bound was given."""
        if not self.bound:
            return None
        return (self.codec or codec)(**self.bound, **self.settings, **self.safeguards)

    def or_else(self, other: Request) -> Request:
        """Take a missing bound from another request, and a missing codec with its settings."""
        filled = other if self.codec is None else self
        return Request(
            bound=self.bound or other.bound,
            codec=filled.codec,
            settings=filled.settings,
            safeguards=self.safeguards or other.safeguards,
        )


def _settings_as_typed(codec_name: str | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """Turn settings as typed into the values of a codec's fields."""
    wanted = codec_name or DEFAULT_CODEC.codec_name
    settings = {}
    for name, text in given.items():
        own = [own for cls, own in _OWN_FIELDS[name] if cls.codec_name == wanted]
        if not own:
            owners = " or ".join(cls.codec_name for cls, _ in _OWN_FIELDS[name])
            default = "" if codec_name else ", the default; name the codec, too"
            raise click.UsageError(
                f"{name} is a setting of codec {owners}, and not of {wanted}{default}"
            )
        choices = {_parts(choice_text(choice)): choice for choice in own[0].metadata["choices"]}
        parts = _parts(str(text))
        if parts not in choices:
            texts = [*map(choice_text, choices.values())]
            allowed = ("; " if any("," in choice for choice in texts) else ", ").join(texts)
            raise click.UsageError(f"{name} of {wanted} must be one of {allowed}, got {text!r}")
        settings[name] = choices[parts]
    return settings


def _parts(text: str) -> tuple[str, ...]:
    """Return the parts of a typed setting, in any order and in either case."""
    return tuple(sorted(part.strip() for part in text.lower().split(",")))


def _own_option(name: str) -> Callable[..., Any]:
    """Make the option for a setting that only some codecs have."""
    fields = _OWN_FIELDS[name]
    choices = dict.fromkeys(
        choice_text(choice) for _, own in fields for choice in own.metadata["choices"]
    )
    texts = (
        f"Of {cls.codec_name}: {own.metadata['help']}"
        + ("" if name in FLAGS else f" [default: {own.default}]")
        for cls, own in fields
    )
    option, text = f"--{name.replace('_', '-')}", " ".join(texts)
    if name in FLAGS:
        return click.option(option, name, is_flag=True, help=text)
    if len(choices) > _MOST_LISTED:
        return click.option(option, name, metavar=name.upper(), help=text)
    return click.option(option, name, type=click.Choice([*choices]), help=text)


_BOUND_OPTIONS = (
    click.option(
        "--absolute",
        type=Number(),
        metavar="BOUND",
        help="No value is off by more than BOUND, in the data's own unit.",
    ),
    click.option(
        "--pointwise-relative",
        type=Number(),
        metavar="BOUND",
        help="No value is off by more than BOUND times its own magnitude. Below 1.",
    ),
    click.option(
        "--range-relative",
        type=Number(),
        metavar="BOUND",
        help="No value is off by more than BOUND times (max - min) of the valid values.",
    ),
    click.option(
        "--digits",
        DIGITS,
        type=int,
        metavar="N",
        help="No value is off by more than half a unit of its N-th significant decimal digit: "
        "pointwise-relative, 0.5 * 10^-N.",
    ),
    click.option(
        "--noise",
        type=Number(),
        metavar="C",
        help="Of integers of up to 32 bits that count something: no value x is off by more than "
        "C * sqrt(|x|), in counts. With --absolute, the bound is never less than that.",
    ),
    click.option(
        "--modulus",
        type=Number(),
        metavar="BOUND",
        help="Of complex numbers: no value is off by more than BOUND, as a modulus. Compressed, "
        "real and imaginary part get the absolute bound that implies it.",
    ),
    click.option("--lossless", is_flag=True, help="Keep every bit."),
)

_OPTIONS = (
    *_BOUND_OPTIONS,
    click.option(
        "--codec",
        type=click.Choice([*CODEC_NAMES], case_sensitive=False),
        help="How values are kept; all keep the bound. auto picks one for each chunk. "
        f"[default: {DEFAULT_CODEC.codec_name}]",
    ),
    *map(_own_option, OWN_SETTINGS),
    click.option(
        "--threshold",
        "thresholds",
        type=Number(),
        multiple=True,
        metavar="T",
        help="No value changes sides of T: with 0, signs and zeros are kept. May be repeated.",
    ),
    click.option(
        "--valid-range",
        type=(Number(), Number()),
        metavar="LOW HIGH",
        help="No value from LOW to HIGH leaves this range.",
    ),
)


def parsed(
    options: Sequence[Callable[..., Any]],
    names: Sequence[str],
    argument: str,
    parse: Callable[[dict[str, Any]], Any],
) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Return a decorator that gives a command options, and their meaning as one argument."""

    def decorate(function: Callable[..., Result]) -> Callable[..., Result]:
        @functools.wraps(function)
        def command(*args: Any, **options: Any) -> Result:
            typed = {name: options.pop(name) for name in names}
            return function(*args, **{argument: parse(typed)}, **options)

        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def _parse_bound(typed: dict[str, Any]) -> ErrorBound | None:
    """Return the bound that was typed, if any."""
    request = Request.parse(typed)
    codec = request.make()
    if BoundKind.MODULUS in request.bound:  # comparisons need no bound of components
        return ErrorBound(BoundKind.MODULUS, request.bound[BoundKind.MODULUS])
    return None if codec is None else codec.bound


#: Gives a command the options of bound and codec; it gets `request`, a `Request`.
request_option = parsed(
    _OPTIONS,
    (*BOUNDS, "codec", *OWN_SETTINGS, *SAFEGUARDS),
    "request",
    Request.parse,
)

#: Gives a command the options of a bound; it gets `bound`, an `ErrorBound` or None.
bound_option = parsed(_BOUND_OPTIONS, BOUNDS, "bound", _parse_bound)

#: Adds --missing-value to a command, which gets a tuple, `missing_value`.
missing_option = click.option(
    "--missing-value",
    "missing_value",
    type=Number(),
    multiple=True,
    metavar="V",
    help="A missing value, in addition to those that the datasets declare (HDF5's fill value; the "
    "attributes _FillValue, missing_value, valid_min, valid_max, valid_range). May be repeated.",
)


def files_argument(name: str, metavar: str, *, required: bool = True) -> Callable[..., Any]:
    """Make the argument for several files that exist."""
    type_ = click.Path(exists=True, dir_okay=False, path_type=Path)
    return click.argument(name, metavar=metavar, nargs=-1, required=required, type=type_)


#: Adds -d/--dataset to a command that looks at datasets; it gets a tuple, `patterns`.
dataset_option = click.option(
    "-d",
    "--dataset",
    "patterns",
    multiple=True,
    metavar="GLOB",
    help="Only these datasets; a glob as in h5lossy repack. May be repeated.",
)

#: Adds --json to a command, which gets `as_json`.
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")

#: Adds -q/--quiet to a command, which gets `quiet`.
quiet_option = click.option(
    "-q", "--quiet", is_flag=True, help="Print nothing but errors; the exit code is the answer."
)

_THREADS_VARIABLE = "H5LOSSY_NUM_THREADS"


def _set_threads(ctx: click.Context, _option: click.Parameter, count: int | None) -> None:
    """Set the number of threads for everything that the command calls."""
    if count is None:
        return
    before = os.environ.get(_THREADS_VARIABLE)
    os.environ[_THREADS_VARIABLE] = str(count)

    @ctx.call_on_close
    def restore() -> None:
        os.environ.pop(_THREADS_VARIABLE)
        if before is not None:
            os.environ[_THREADS_VARIABLE] = before


#: Adds --threads to a command.
threads_option = click.option(
    "--threads",
    type=click.IntRange(1, 1024),
    metavar="N",
    callback=_set_threads,
    expose_value=False,
    help=f"At most so many. [default: {_THREADS_VARIABLE}, or all CPUs]",
)

_CONFIRM_OPTION = click.option(
    "--confirm-range",
    is_flag=True,
    help="Accept a range that is dominated by a repeated smallest or largest value, which usually "
    "marks missing values.",
)


def range_options(function: Callable[..., Result]) -> Callable[..., Result]:
    """Add --missing-value and --confirm-range to a command."""
    return missing_option(_CONFIRM_OPTION(function))


def own_settings(codec: Codec) -> dict[str, Any]:
    """Return a codec's own settings that differ from the defaults."""
    return {name: value for name, value in codec.get_config().items() if name in OWN_SETTINGS}


def codec_text(codec: Codec, name: str | None = None) -> str:
    """Return a codec as text for a table, with its own settings unless they are the defaults.

    Examples
    --------
    >>> codec_text(PFPL(absolute=1e-3))
    'PFPL'
    """
    return (name or type(codec).__name__) + _in_brackets(own_settings(codec))


def bound_text(bound: ErrorBound, dtype: np.dtype[Any], value: str = "") -> str:
    """Return a bound as text; of integers, and of noise, in the counts that they mean."""
    if bound.kind is BoundKind.LOSSLESS:
        return str(bound)
    if bound.kind is BoundKind.NOISE:
        noise = f"{bound.value:g}·√x"
        return f"±max({bound.floor}, {noise}) counts" if bound.floor else f"±{noise} counts"
    if bound.kind is not BoundKind.ABSOLUTE or not is_integer(dtype):
        return f"{bound.kind} {value or repr(bound.value)}"
    counts = math.floor(bound.value)
    return f"±{counts} count{'' if counts == 1 else 's'}" if counts else "lossless"


def frame_codec_text(info: FrameInfo) -> str:
    """Return the codec of a frame as text, with its own settings unless they are the defaults."""
    codec = CODEC_NAMES.get(info.codec)
    defaults = {own.name: own.default for own in codec.choices()} if codec else {}
    changed = {name: value for name, value in info.settings.items() if value != defaults[name]}
    return info.codec + _in_brackets(changed)


def _in_brackets(settings: Mapping[str, Any]) -> str:
    """Append settings to the name of a codec."""
    text = ", ".join(f"{name}={value}" for name, value in settings.items())
    return f"({text})" if text else ""
