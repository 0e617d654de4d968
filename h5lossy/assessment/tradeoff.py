# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Rate and distortion of codecs and bounds for given data, and a search for the smallest result."""

from __future__ import annotations

import dataclasses
import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from h5lossy import _native
from h5lossy._blocks import blocks
from h5lossy._bounds import BoundKind, ErrorBound
from h5lossy._errors import InvalidArgumentError
from h5lossy._frames import chunk_params
from h5lossy._ranges import confirmed_range
from h5lossy._values import is_integer
from h5lossy.assessment import _numbers as numbers
from h5lossy.assessment._assess import assess
from h5lossy.missing import Missing, keeping_missing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import numpy.typing as npt

    from h5lossy._codecs import Codec
    from h5lossy.assessment.report import Report
    from h5lossy.assessment.requirements import Requirement
    from h5lossy.assessment.schema import Size

#: Candidates of a search per octave.
_PER_OCTAVE = 4

#: A search begins at an eighth of the range, and ends this many octaves below.
_OCTAVES = 48

#: Planes of each part that a search begins with, and how many parts.
_SAMPLE_PLANES, _SAMPLE_PARTS = 32, 3

#: What has run once in this process: before, code and memory are not there yet, which takes time.
_warm: set[tuple[str, np.dtype[Any]]] = set()


@dataclass(frozen=True, kw_only=True)
class Tradeoff:
    """Rate and distortion of one codec with one bound."""

    codec: Codec
    report: Report  # with sizes
    encode_seconds: float  # on one thread, for orientation
    decode_seconds: float

    @property
    def size(self) -> Size:
        """Raw and stored bytes."""
        assert self.report.size is not None
        return self.report.size


def measure(
    values: npt.NDArray[Any],
    codec: Codec,
    *,
    chunks: tuple[int, ...],
    missing: Missing,
    confirm_range: bool = False,
    metrics: str | Iterable[str] = ("ssim",),
) -> Tradeoff:
    """Encode an array in chunks as the filter does, decode it, and assess the result."""
    if codec.bound.kind is BoundKind.RANGE_RELATIVE:
        ends = confirmed_range(values, missing, codec.bound, confirmed=confirm_range)
        codec = codec.resolved_for(ends)
    codec = keeping_missing(codec, missing)
    params = chunk_params(codec, values.dtype, chunks, missing.fill)
    params = dataclasses.replace(params, maybe_padded=True)
    padding = np.asarray(0 if missing.fill is None else missing.fill, values.dtype)
    decoded = np.empty_like(values, order="C")
    stored = 0
    encode_seconds = decode_seconds = 0.0
    for where in blocks(values.shape, chunks):
        part = values[where]
        inside = tuple(map(slice, part.shape))
        chunk = np.full(chunks, padding)
        chunk[inside] = part
        if (kind := (codec.codec_name, values.dtype)) not in _warm:
            _native.decode(_native.encode(params, chunk), chunk.copy())
            _warm.add(kind)
        began = time.perf_counter()
        frame = _native.encode(params, chunk)
        encoded = time.perf_counter()
        _native.decode(frame, chunk)
        decode_seconds += time.perf_counter() - encoded
        encode_seconds += encoded - began
        decoded[where] = chunk[inside]
        stored += len(frame)
    report = assess(values, decoded, bound=codec.bound, metrics=metrics, fill_value=missing)
    size = numbers.size(values.nbytes, stored, max(1, values.size), report.original, report.error)
    return Tradeoff(
        codec=codec,
        report=dataclasses.replace(report, size=size),
        encode_seconds=encode_seconds,
        decode_seconds=decode_seconds,
    )


def front(tradeoffs: Sequence[Tradeoff]) -> list[bool]:
    """Return for each whether no other has fewer bytes and a smaller RMSE (the Pareto front)."""
    points = [(t.size.stored_bytes, t.report.error.rmse or 0.0) for t in tradeoffs]
    return [
        not any((a <= bits and b <= rmse) and (a < bits or b < rmse) for a, b in points)
        for bits, rmse in points
    ]


@dataclass(frozen=True, kw_only=True)
class Tuned:
    """Result of a search."""

    #: The smallest that meets every threshold on the whole field, or of those with a given ratio
    #: the one with the smallest RMSE; None if there is none.
    best: Tradeoff | None
    tried: tuple[Tradeoff, ...]  # all candidates on the whole field, in their order
    tries: int  # encodings, of samples too


class _Bounds:
    """The absolute bounds that a search tries, from loose to tight; the last of counts is none."""

    def __init__(self, extent: float, *, in_counts: bool) -> None:
        self._extent = extent
        self.last = _OCTAVES * _PER_OCTAVE
        self._counts: list[int] = []
        if in_counts:  # each once
            steps = range(2 * self.last)
            self._counts = [*dict.fromkeys(math.floor(self._exact(step)) for step in steps)]
            self.last = len(self._counts) - 1

    def at(self, step: float) -> dict[str, Any]:
        """Return candidate number `step` as an argument of a codec."""
        absolute, whole, counts = self._exact(step), int(step), self._counts
        if counts:
            absolute = counts[whole]
            if step > whole:
                absolute -= math.ceil((absolute - counts[whole + 1]) * (step - whole))
        return {"absolute": absolute} if absolute else {"lossless": True}

    def _exact(self, step: float) -> float:
        """Return a number of few digits."""
        exact = self._extent / 8 * 2.0 ** (-step / _PER_OCTAVE)
        return float(f"{exact:.{2 if step == int(step) else 3}g}")


def tune(
    values: npt.NDArray[Any],
    requirements: Sequence[Requirement],
    codecs: Sequence[Callable[..., Codec]],  # each makes one of a bound
    *,
    chunks: tuple[int, ...],
    missing: Missing,
    confirm_range: bool = False,
    on_candidate: Callable[[Tradeoff, bool], None] | None = None,  # on the whole field; is it fit?
    on_try: Callable[[Codec, int], None] | None = None,  # before each try, with the bytes to encode
    ratio: float | None = None,
) -> Tuned:
    """Find the codec and the absolute bound that give the smallest data and meet all thresholds."""
    # Thresholds that a looser bound can only make worse are searched by bisection. For others, such
    # as SSIM, bounds are tightened until all thresholds hold. A large field is first searched in
    # three samples. With `ratio` it is the smallest RMSE at this ratio or a higher one.
    largest = ErrorBound(BoundKind.RANGE_RELATIVE, 1 / 8)
    ends = confirmed_range(values, missing, largest, confirmed=confirm_range)
    extent = 0.0 if ends is None else float(ends[1] - ends[0])
    if not 0 < extent < math.inf:
        raise InvalidArgumentError("the data has no range to look for a bound in; keep it lossless")
    groups = {one.measure.group for one in requirements} - {""}
    _check_defined(values, requirements, groups, missing)
    sample = _sample(values)
    sample_chunks = tuple(min(c, n) for c, n in zip(chunks, sample.shape, strict=True))
    tries = 0
    tried: list[Tradeoff] = []
    best: Tradeoff | None = None
    bounds = _Bounds(extent, in_counts=is_integer(values.dtype))

    def is_better(one: Tradeoff) -> bool:
        if best is None:
            return True
        if ratio is not None:
            return (one.report.error.rmse or 0.0) < (best.report.error.rmse or 0.0)
        return one.size.stored_bytes < best.size.stored_bytes

    def try_out(part: npt.NDArray[Any], codec: Codec, part_chunks: tuple[int, ...]) -> Tradeoff:
        nonlocal tries
        tries += 1
        if on_try is not None:
            on_try(codec, part.nbytes)
        return measure(part, codec, chunks=part_chunks, missing=missing, metrics=groups)

    for codec in codecs:
        seen: dict[int, Tradeoff] = {}

        def on_sample(
            step: int, codec: Callable[..., Codec] = codec, seen: dict[int, Tradeoff] = seen
        ) -> Report:
            if step not in seen:
                seen[step] = try_out(sample, codec(**bounds.at(step)), sample_chunks)
            return seen[step].report

        def on_all(step: float, codec: Callable[..., Codec] = codec) -> bool:
            nonlocal best
            found = try_out(values, codec(**bounds.at(step)), chunks)
            is_small = ratio is None or (found.size.ratio or 0.0) >= ratio
            fits = found.report.ok and all(one.holds(found.report) for one in requirements)
            tried.append(found)
            if on_candidate is not None:
                on_candidate(found, fits and is_small)
            if fits and is_small and is_better(found):
                best = found
            return is_small if ratio is not None else fits

        if ratio is not None:
            _search_ratio(on_sample, on_all, ratio, bounds.last)
            continue
        first = step = _search(on_sample, requirements, bounds.last)
        if step is None:
            continue
        while step <= bounds.last and not on_all(step):
            step += 1
        # The sample may need a tighter bound than the whole field.
        if step == first and sample is not values:
            while step > 0 and on_all(step - 1):
                step -= 1
    return Tuned(best=best, tried=tuple(tried), tries=tries)


def _check_defined(
    values: npt.NDArray[Any],
    requirements: Sequence[Requirement],
    groups: set[str],
    missing: Missing,
) -> None:
    """Raise if a threshold is for a number that even the data itself does not have."""
    itself = assess(values, values, metrics=groups, fill_value=missing)
    for one in requirements:
        if not one.measure.path.startswith("size.") and one.got(itself) is None:
            raise InvalidArgumentError(
                f"{one.name} is not defined for this data: {one.measure.why_undefined(itself)}"
            )


def _sample(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return three parts of a large field along its first axis, one behind the other."""
    planes = values.shape[0]
    if planes <= 2 * _SAMPLE_PLANES * _SAMPLE_PARTS or values.ndim < 2:
        return values
    starts = [(planes - _SAMPLE_PLANES) * i // (_SAMPLE_PARTS - 1) for i in range(_SAMPLE_PARTS)]
    return np.concatenate([values[s : s + _SAMPLE_PLANES] for s in starts])


def _search(
    report: Callable[[int], Report], requirements: Sequence[Requirement], last: int
) -> int | None:
    """Return the first step, from loose to tight, at which all thresholds hold; None for none."""
    ordered = [one for one in requirements if one.measure.follows_bound]
    others = [one for one in requirements if not one.measure.follows_bound]
    low, high = 0, last  # the answer of the ordered ones is in [low, high]
    while ordered and low < high:
        middle = (low + high) // 2
        if all(one.holds(report(middle)) for one in ordered):
            high = middle
        else:
            low = middle + 1
    if not all(one.holds(report(low)) for one in ordered):
        return None
    if not others:
        return low
    # Tighter by octaves until all hold twice in a row, and back in small steps while they do.
    step, held = low, 0
    while step <= last:
        held = held + 1 if all(one.holds(report(step)) for one in requirements) else 0
        if held == 2 or (held and step == low):
            break
        step += _PER_OCTAVE
    if not held:
        return None
    step = min(step, last)
    while step > low and all(one.holds(report(step - 1)) for one in requirements):
        step -= 1
    return step


def _search_ratio(
    report: Callable[[int], Report], on_all: Callable[[float], bool], ratio: float, last: int
) -> None:
    """Try the tightest bounds on the whole field that have a ratio, found in the samples."""
    low, high = 0, last  # it has the ratio at `low`, if anywhere
    while low < high:
        middle = (low + high + 1) // 2
        size = report(middle).size
        low, high = (middle, high) if size and (size.ratio or 0) >= ratio else (low, middle - 1)
    step = low
    if on_all(step):
        while step < last and on_all(step + 1):
            step += 1
    else:
        while step > 0 and not on_all(step - 1):
            step -= 1
        step -= 1
    if step >= 0:  # between this one and the next, which is too tight
        on_all(step + (0.75 if on_all(step + 0.5) else 0.25))
