# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The options that several commands share."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, TypeVar

import click

from h5lossy import PFPL, BoundError

if TYPE_CHECKING:
    from collections.abc import Callable

Result = TypeVar("Result")

_BOUND_OPTIONS = (
    click.option(
        "--absolute",
        type=float,
        metavar="BOUND",
        help="No value is off by more than BOUND, in the data's own unit.",
    ),
    click.option(
        "--pointwise-relative",
        type=float,
        metavar="BOUND",
        help="No value is off by more than BOUND times its own magnitude. Below 1.",
    ),
    click.option(
        "--range-relative",
        type=float,
        metavar="BOUND",
        help="No value is off by more than BOUND times (max - min) of the valid values.",
    ),
    click.option("--lossless", is_flag=True, help="Keep every bit."),
)


def make_codec(
    *,
    absolute: float | None = None,
    pointwise_relative: float | None = None,
    range_relative: float | None = None,
    lossless: bool = False,
) -> PFPL | None:
    """Make a filter from what was typed.

    Parameters
    ----------
    absolute, pointwise_relative, range_relative : float, optional
        The bounds.
    lossless : bool
        Keep every bit.

    Returns
    -------
    PFPL or None
        None where no bound was given.

    Raises
    ------
    click.UsageError
        For more than one bound, or one that is not allowed.
    """
    given = {
        "absolute": absolute,
        "pointwise_relative": pointwise_relative,
        "range_relative": range_relative,
        "lossless": lossless or None,
    }
    bounds: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if not bounds:
        return None
    if len(bounds) > 1:
        names = ", ".join(name.replace("_", "-") for name in bounds)
        raise click.UsageError(f"give one bound, not {len(bounds)} ({names})")
    try:
        return PFPL(**bounds)
    except BoundError as error:
        raise click.UsageError(str(error)) from None


def codec_option(function: Callable[..., Result]) -> Callable[..., Result]:
    """Give a command the bound options; it gets them as one argument, `codec`.

    Parameters
    ----------
    function : callable
        Called with ``codec=PFPL(...)``, or ``codec=None`` where the user gave no bound.

    Returns
    -------
    callable
    """

    @functools.wraps(function)
    def with_codec(
        *args: Any,
        absolute: float | None,
        pointwise_relative: float | None,
        range_relative: float | None,
        lossless: bool,
        **kwargs: Any,
    ) -> Result:
        codec = make_codec(
            absolute=absolute,
            pointwise_relative=pointwise_relative,
            range_relative=range_relative,
            lossless=lossless,
        )
        return function(*args, codec=codec, **kwargs)

    for option in reversed(_BOUND_OPTIONS):
        with_codec = option(with_codec)
    return with_codec
