# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""A search for the codec and the bound with the smallest size, or the best quality at a size."""

from __future__ import annotations

import dataclasses
import itertools
import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from h5lossy._blocks import block_shape
from h5lossy._bounds import BoundKind, ErrorBound
from h5lossy._codecs import Auto
from h5lossy._errors import InvalidArgumentError
from h5lossy._ranges import Extent, confirmed_range
from h5lossy._values import is_integer
from h5lossy.assessment._assess import assess
from h5lossy.assessment.requirements import Requirement
from h5lossy.assessment.tradeoff import Field, Tradeoff, measure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from h5lossy._codecs import Codec
    from h5lossy.assessment.report import Report

    #: Makes a codec from a bound.
    Make = Callable[..., Codec]

#: Number of values in a sample, and the largest number of parts that it consists of.
_SAMPLE_VALUES, _SAMPLE_PARTS = 1 << 20, 8

#: A sample whose ratio is off by more than this factor is replaced by chunks of all stored sizes,
#: at least so many.
_UNLIKE, _LEAST_CHUNKS = 1.2, 16

#: The fractional parts of its multiples are far from each other.
_GOLDEN = (math.sqrt(5) - 1) / 2

#: Least extents of a part in points, so that metrics that need neighbours are defined.
_NEIGHBOURS = 16

#: The bounds to try are numbers with three digits: this many per decade, and about this many per
#: octave. This many decades below the loosest bound comes lossless.
_PER_DECADE, _PER_OCTAVE, _DECADES = 900, 270, 15

#: Other codecs are searched for their own best bounds if, at a common bound, their size is at most
#: this multiple of the smallest one; the same for kinds of bounds with the first codec.
_RIVAL, _RIVAL_KIND, _MOST_RIVALS = 1.1, 1.5, 4

#: Around the best bound, this many looser and tighter ones are tried, and how far they are apart.
_LOOSER, _TIGHTER, _STRIDE = 24, 12, _PER_OCTAVE // 24

#: How often the whole field is encoded at most, and the fraction of the size that is worth it.
_MOST_CHECKS, _WORTH = 8, 0.01

#: What SSIM loses grows like a power of the bound between these two, usually.
_POWER_TIGHTER, _POWER_LOOSER = 1.5, 2.0

#: The highest PSNR for several fields that share a size, in tenths of a dB.
_MOST_TENTHS = 2000


@dataclass(frozen=True, kw_only=True)
class Goal:
    """The goal: the smallest size that meets these thresholds, or the best quality at a ratio."""

    requirements: tuple[Requirement, ...] = ()
    ratio: float | None = None  # if given, quality is the RMSE

    @property
    def groups(self) -> set[str]:
        """The groups of metrics that it needs."""
        return {one.measure.group for one in self.requirements} - {""}

    @property
    def of_quality(self) -> tuple[Requirement, ...]:
        """The thresholds that a tighter bound helps to meet."""
        return tuple(one for one in self.requirements if not one.measure.path.startswith("size."))

    def failures(self, found: Tradeoff) -> list[str]:
        """Return the thresholds that a result does not meet."""
        failed = [str(one) for one in self.requirements if not one.holds(found.report)]
        if self.ratio is not None and (found.size.ratio or 0.0) < self.ratio:
            failed.append(f"ratio>={self.ratio:g}")
        return failed if found.report.ok else [*failed, "its bound"]

    def cost(self, found: Tradeoff) -> tuple[float, ...]:
        """Return the number to minimize."""
        rmse = found.report.error.rmse or 0.0
        size = found.size.stored_bytes
        return (size, rmse) if self.ratio is None else (rmse, size)


@dataclass(frozen=True, kw_only=True)
class Tuned:
    """Result of a search.

    Attributes
    ----------
    best : Tradeoff or None
        The best result on the whole field that reaches the goal, if there is one.
    tried : tuple of Tradeoff
        All results on the whole field, in the order of the tries.
    tries : int
        Number of encodings, including those of samples.
    limits : tuple of str
        What keeps the result from being better: the thresholds that a looser bound would not meet,
        or the ratio. If there is no result, the requirements that can't be met together.
    """

    best: Tradeoff | None
    tried: tuple[Tradeoff, ...]
    tries: int
    limits: tuple[str, ...]


class _Scale:
    """The bounds of one kind that a search tries, by number: from loose to tight, then lossless."""

    def __init__(self, kind: BoundKind, largest: float, *, in_counts: bool) -> None:
        self._kind = kind
        self._top = math.floor(math.log10(largest))
        #: The number of the first bound that is not above `largest`.
        self._skipped = max(0, 999 - math.floor(largest / 10.0**self._top * 100))
        self.last = _DECADES * _PER_DECADE
        self._counts: list[int] = []
        if in_counts:  # each count once; there are no bounds below 1
            each = (math.floor(self._number(step)) for step in range(self.last))
            self._counts = list(dict.fromkeys(itertools.takewhile(bool, each)))
            self.last = len(self._counts)

    def at(self, step: int) -> dict[str, Any]:
        """Return a bound as an argument of a codec."""
        bound = self.value(step)
        return {str(self._kind): bound} if bound else {"lossless": True}

    def value(self, step: int) -> float:
        """Return a bound; 0 for lossless."""
        if step >= self.last:
            return 0
        return self._counts[step] if self._counts else self._number(step)

    def _number(self, step: int) -> float:
        decades, digits = divmod(step + self._skipped, _PER_DECADE)
        return float(f"{999 - digits}e{self._top - decades - 2}")


@dataclass(frozen=True)
class _Candidate:
    """A codec with its settings, and the bounds to try with it."""

    make: Make
    scale: _Scale

    def at(self, step: int) -> Codec:
        return self.make(**self.scale.at(step))


@dataclass(frozen=True)
class Pick:
    """A candidate with one of its bounds, and the result in the sample."""

    candidate: _Candidate
    step: int
    found: Tradeoff


class Search:
    """The search in one field: first in a sample of its chunks, if that is much smaller.

    Parameters
    ----------
    field : Field
    codecs : sequence of functions
        Each makes a codec from a bound. They are tried with all settings that change the shape of
        blocks or the prediction, and with absolute and pointwise-relative bounds.
    on_candidate : function, optional
        Called with each result on the whole field, and with the thresholds that it does not meet.
    on_try : function, optional
        Called before each try with the codec and the number of bytes.
    """

    def __init__(
        self,
        field: Field,
        codecs: Sequence[Make],
        *,
        on_candidate: Callable[[Tradeoff, list[str]], None] = lambda _found, _failed: None,
        on_try: Callable[[Codec, int], None] = lambda _codec, _nbytes: None,
    ) -> None:
        dtype = field.values.dtype
        self._codecs = [each for make in codecs for each in _variants(make, field.chunks)]
        self._on_candidate, self._on_try = on_candidate, on_try
        largest = ErrorBound(BoundKind.RANGE_RELATIVE, 1 / 8)
        ends = confirmed_range(field.values, field.missing, largest, confirmed=field.confirm_range)
        self._extent = 0.0 if ends is None else float(ends[1] - ends[0])
        if not 0 < self._extent < math.inf:
            raise InvalidArgumentError(
                "the data has no range to look for a bound in; keep it lossless"
            )
        self._scales = [_Scale(BoundKind.ABSOLUTE, self._extent / 8, in_counts=is_integer(dtype))]
        if not is_integer(dtype):  # integers have no other kinds, or only one for counts
            self._scales.append(_Scale(BoundKind.POINTWISE_RELATIVE, 0.5, in_counts=False))
        shape, along = field.values.shape, field.axes
        if along is None or all(n == 1 or axis in along for axis, n in enumerate(shape)):
            field = dataclasses.replace(field, data_range=self._extent)  # slices have their own
        self.field, self._sample = field, _sample_of(field)
        low, high = Extent.of(self._sample.values, field.missing).ends or (0.0, 0.0)
        self._range_share = (float(high) - float(low)) / self._extent or 1.0
        self.tries = 0
        self.tried: list[Tradeoff] = []
        self._seen: dict[tuple[_Candidate, int, frozenset[str], bool], Tradeoff] = {}

    @property
    def _is_small(self) -> bool:
        """Whether the sample is the whole field."""
        return self._sample.nbytes == self.field.nbytes

    def run(self, goal: Goal) -> Tuned:
        """Find the best candidate for a goal, and confirm it on the whole field."""
        self.check_defined(goal)
        pick = self.best(goal)
        best = None
        if pick is not None and goal.ratio is not None and not self._is_small:
            best, pick = self._resampled(pick, goal)
        best = (self._checked(pick, goal) if pick is not None else None) or best
        return Tuned(
            best=best,
            tried=tuple(self.tried),
            tries=self.tries,
            limits=self._limits(goal, pick, best),
        )

    def best(self, goal: Goal) -> Pick | None:
        """Return the best pick in the sample; None if no bound meets the quality thresholds."""
        firsts = [
            self._edge(_Candidate(self._codecs[0], scale), goal, None) for scale in self._scales
        ]
        kinds = [one for one in firsts if one is not None]
        if not kinds:
            return None
        least = min(goal.cost(one.found)[0] for one in kinds)
        rivals = [
            Pick(candidate, first.step, self._try(candidate, first.step, goal))
            for first in kinds
            if goal.cost(first.found)[0] <= _RIVAL_KIND * least
            for candidate in (_Candidate(make, first.candidate.scale) for make in self._codecs)
        ]
        rivals.sort(key=lambda one: one.found.size.stored_bytes)
        most = _RIVAL * rivals[0].found.size.stored_bytes
        edges = [
            self._edge(one.candidate, goal, one.step)
            for one in rivals[:_MOST_RIVALS]
            if one.found.size.stored_bytes <= most
        ]
        found = [one for one in edges if one is not None]
        if found:
            found += self._around(min(found, key=lambda one: goal.cost(one.found)), goal)
        return min(found, key=lambda one: goal.cost(one.found), default=None)

    def _resampled(self, pick: Pick, goal: Goal) -> tuple[Tradeoff | None, Pick | None]:
        """Encode the whole field; where the sample's ratio is far off, search in another sample.

        Returns the result if it reaches the goal and the search goes on elsewhere, and the pick.
        """
        step = max(pick.step - 1, 0)  # the first that `_checked` tries
        found = self._try(pick.candidate, step, goal, whole=True)
        there = self._try(pick.candidate, step, goal)
        off = (found.size.ratio or 1.0) / (there.size.ratio or 1.0)
        sample = None if 1 / _UNLIKE < off < _UNLIKE else _sample_by_size(self.field, found)
        if sample is None:
            return None, pick
        is_fit = self._tell(found, goal)
        self._sample = sample
        self._seen = {key: one for key, one in self._seen.items() if key[-1]}
        return found if is_fit else None, self.best(goal)

    def _around(self, pick: Pick, goal: Goal) -> Iterator[Pick]:
        """Yield what a bisection misses if size and quality are not monotonic in the bound."""
        # They are not if many values are the same number, or multiples of one, which some bounds
        # hit.
        first, last = pick.step - _LOOSER * _STRIDE, pick.step + _TIGHTER * _STRIDE
        for step in range(first, last + 1, _STRIDE):
            if 0 <= step <= pick.candidate.scale.last:
                one = Pick(pick.candidate, step, self._try(pick.candidate, step, goal))
                if self._reaches(one.found, goal):
                    yield one

    def _reaches(self, found: Tradeoff, goal: Goal) -> bool:
        """Return whether a result in the sample is likely to reach the goal."""
        if goal.ratio is not None:
            return (found.size.ratio or 0.0) >= goal.ratio
        return all(one.holds(found.report) for one in map(self._in_sample, goal.of_quality))

    def for_goal(self, goal: Goal, pick: Pick | None) -> Pick | None:
        """Return a codec's best bound by the sample, given its best bound for another goal."""
        return pick and self._edge(pick.candidate, goal, pick.step)

    def bytes_for(self, goal: Goal, pick: Pick | None) -> float:
        """Return the estimated size of the whole field for a pick."""
        edge = self.for_goal(goal, pick)
        share = self.field.nbytes / self._sample.nbytes
        return share * edge.found.size.stored_bytes if edge else math.inf

    def confirmed(self, pick: Pick | None, goal: Goal) -> Tradeoff | None:
        """Encode the whole field as the sample suggests, or tighter if a threshold requires it."""
        if pick is None:
            return None
        found = self._try(pick.candidate, pick.step, goal, whole=True)
        return found if self._tell(found, goal) else self._checked(pick, goal)

    def _edge(self, candidate: _Candidate, goal: Goal, guess: int | None) -> Pick | None:
        """Return the loosest bound that meets the thresholds, or the tightest for the ratio."""
        last = candidate.scale.last

        def found(step: int) -> Tradeoff:
            return self._try(candidate, step, goal)

        if goal.ratio is not None:
            ratio = goal.ratio
            step = first_step(lambda s: (found(s).size.ratio or 0.0) < ratio, last, guess) - 1
            return Pick(candidate, max(step, 0), found(max(step, 0)))
        wanted = [self._in_sample(one) for one in goal.of_quality]
        step = self._loosest(found, wanted, last, guess)
        return None if step > last else Pick(candidate, step, found(step))

    def _loosest(
        self,
        found: Callable[[int], Tradeoff],
        wanted: Sequence[Requirement],
        last: int,
        guess: int | None,
    ) -> int:
        """Return the first step that meets all thresholds; one past the last if none does."""
        ordered = [one for one in wanted if one.measure.follows_bound]

        def hold(some: Sequence[Requirement], step: int) -> bool:
            return all(one.holds(found(step).report) for one in some)

        low = first_step(partial(hold, ordered), last, guess) if ordered else 0
        if len(ordered) == len(wanted) or low > last:
            return low
        # Other thresholds may hold by chance: tighten by octaves until they hold twice in a row.
        fails, held = low - 1, 0
        for step in (*range(low, last, _PER_OCTAVE), last):
            held = held + 1 if hold(wanted, step) else 0
            fails = fails if held else step
            if held == 2 or (held and step == low):
                break
        rest = first_step(lambda more: hold(wanted, fails + 1 + more), last - fails - 1, 0)
        return int(fails + 1 + rest)

    def _checked(self, pick: Pick, goal: Goal) -> Tradeoff | None:
        """Encode the whole field with what the sample suggests, then with better estimates."""
        if self._is_small:
            return pick.found if self._tell(pick.found, goal) else None
        candidate = pick.candidate
        sign = 1 if goal.ratio is None else -1  # the direction in which the goal is easier to reach
        below, above = -1, candidate.scale.last + 1
        # Half of all samples are too optimistic, but most are not after one more step. The same
        # holds after a miss.
        step = min(max(pick.step + sign, below + 1), above - 1)
        best: Tradeoff | None = None
        ends: dict[bool, Pick] = {}  # the last that reached the goal, and the last that did not
        before: Pick | None = None
        was_fit = None
        for left in reversed(range(_MOST_CHECKS)):
            found = self._try(candidate, step, goal, whole=True)
            is_fit = self._tell(found, goal)
            best = found if is_fit else best
            below, above = (below, step) if is_fit == (sign > 0) else (step, above)
            now = ends[is_fit] = Pick(candidate, step, found)
            has_both, anchor = len(ends) == 2, ends.get(True, now)
            other = ends[False] if has_both else before
            near = None if other is None else _on_line(anchor, other, goal)
            if near is not None:
                following = near
            elif has_both:
                following = (below + above) // 2
            else:
                following = self._corrected(now, goal, is_fit=is_fit) + (0 if is_fit else sign)
            if best is None and (following - step) * sign <= 0:
                following = step + sign * _PER_OCTAVE // 8
            if best is None and left < _MOST_CHECKS // 2:  # the sample is unlike the field
                following = above if sign > 0 else below
            following = min(max(following, below + 1), above - 1)
            if above - below <= 1 or (best and not self._is_worth(anchor, other, following, sign)):
                break
            if has_both and was_fit == is_fit:  # the line is not straight: twice as far
                following = min(max(2 * following - step, below + 1), above - 1)
            before, was_fit, step = now, is_fit, following
        return best

    def _corrected(self, pick: Pick, goal: Goal, *, is_fit: bool) -> int:
        """Return the step for the whole field, after one check of it."""
        if goal.ratio is not None:  # as far off as in the sample where that is alike
            alike = dataclasses.replace(goal, ratio=pick.found.size.ratio)
            there, here = (self._edge(pick.candidate, one, pick.step) for one in (goal, alike))
            return pick.step + there.step - here.step if there and here else pick.step
        bounds = []
        for one in goal.of_quality:
            got = one.got(pick.found.report)
            if got is None:
                raise InvalidArgumentError(_undefined_text(one, pick.found.report))
            off = _even(one, got) - _even(one, one.value)
            if one.relation == ">=" and one.value < 1:  # grows like a power of the bound
                off /= _POWER_LOOSER if is_fit else _POWER_TIGHTER
            elif one.relation == ">=":  # in dB, or in nines of 10 dB each
                off *= -math.log(10) / (2 if one.measure.path == "correlation.nines" else 20)
            if math.isfinite(off):
                bounds.append(pick.candidate.scale.value(pick.step) * math.exp(min(-off, 99)))
        if not bounds:
            return pick.step
        scale, most = pick.candidate.scale, min(bounds)
        return first_step(lambda step: scale.value(step) <= most, scale.last, pick.step)

    def _is_worth(self, pick: Pick, other: Pick | None, following: int, sign: int) -> bool:
        """Return whether another check of the whole field is worthwhile.

        Judged by the sample, or by another check.
        """
        if other is None:
            goal = Goal()
            pick, other = (
                Pick(pick.candidate, step, self._try(pick.candidate, step, goal))
                for step in (pick.step, following)
            )
        growth = math.log(other.found.size.stored_bytes / pick.found.size.stored_bytes)
        share = (following - pick.step) / (other.step - pick.step or 1)
        return (pick.step - following) * sign > 0 and abs(growth * share) > _WORTH

    def _limits(self, goal: Goal, pick: Pick | None, best: Tradeoff | None) -> tuple[str, ...]:
        """Return what limits the result."""
        if pick is None:
            return tuple(map(str, goal.of_quality))
        if best is None:
            last = self.tried[-1] if self.tried else pick.found
            failed = goal.failures(last)
            others = [str(one) for one in goal.requirements if str(one) not in failed]
            return (*failed, *others)
        if goal.ratio is not None:
            is_lossless = best.codec.bound.kind is BoundKind.LOSSLESS
            return () if is_lossless else (f"ratio>={goal.ratio:g}",)
        if pick.step == 0:
            misses = (goal.failures(one) for one in reversed(self.tried))
            return tuple(next(filter(None, misses), ["the loosest bound, an eighth of the range"]))
        looser = self._try(pick.candidate, pick.step - 1, goal).report
        wanted = zip(goal.of_quality, map(self._in_sample, goal.of_quality), strict=True)
        return tuple(str(one) for one, there in wanted if not there.holds(looser))

    def _tell(self, found: Tradeoff, goal: Goal) -> bool:
        """Report a result on the whole field, and return whether it reaches the goal."""
        failed = goal.failures(found)
        self.tried.append(found)
        self._on_candidate(found, failed)
        return not failed

    def _try(
        self, candidate: _Candidate, step: int, goal: Goal, *, whole: bool = False
    ) -> Tradeoff:
        """Return the result for a bound, in the sample or in the whole field."""
        key = candidate, step, frozenset(goal.groups), whole and not self._is_small
        if key not in self._seen:
            field, codec = self.field if whole else self._sample, candidate.at(step)
            self.tries += 1
            self._on_try(codec, field.nbytes)
            self._seen[key] = measure(field, codec, metrics=goal.groups)
        return self._seen[key]

    def _in_sample(self, one: Requirement) -> Requirement:
        """Return the threshold for the sample, whose range is smaller."""
        if one.measure.path == "error.psnr":
            return dataclasses.replace(one, value=one.value + 20 * math.log10(self._range_share))
        if one.measure.path == "error.nrmse":
            return dataclasses.replace(one, value=one.value / self._range_share)
        return one

    def check_defined(self, goal: Goal) -> None:
        """Raise if a threshold is for a number that is undefined even for the data itself.

        The whole field is searched if it is undefined in the sample only.
        """
        if _undefined(goal, self._sample) and not self._is_small:
            self._sample, self._range_share = self.field, 1.0
            self._seen.clear()
        for text in _undefined(goal, self._sample):
            raise InvalidArgumentError(text)


def share(
    searches: Sequence[Search], requirements: tuple[Requirement, ...], total: int
) -> list[Tuned]:
    """Find bounds with which several fields together take at most a number of bytes.

    All get the same PSNR, the highest possible, so that none is much worse than the others. There
    is no result if they take more even when they only meet the thresholds.
    """

    def goal(tenths: int) -> Goal:
        return Goal(requirements=(*requirements, Requirement("psnr", ">=", tenths / 10)))

    raw_bytes = sum(one.field.nbytes for one in searches)
    firsts = [one.best(Goal(ratio=raw_bytes / total)) for one in searches]
    quality = [one.found.report.error.psnr or 0.0 for one in firsts if one is not None]
    target, tenths = float(total), round(10 * min([*quality, _MOST_TENTHS / 10]))
    best: list[Tradeoff] = []
    for _ in range(_MOST_CHECKS):

        def is_too_large(tenths: int, target: float = target) -> bool:
            pairs = zip(searches, firsts, strict=True)
            return sum(one.bytes_for(goal(tenths), first) for one, first in pairs) > target

        tenths = max(0, first_step(is_too_large, _MOST_TENTHS, tenths) - 1)
        found = [
            one.confirmed(one.for_goal(goal(tenths), first), Goal(requirements=requirements))
            for one, first in zip(searches, firsts, strict=True)
        ]
        there = [one for one in found if one is not None]
        if len(there) < len(searches):
            break
        stored = sum(one.size.stored_bytes for one in there)
        if stored <= total:
            best = there
        if (stored <= total and (stored >= 0.99 * total or tenths == _MOST_TENTHS)) or not tenths:
            break
        target *= 0.999 * total / stored
    limits: tuple[str, ...] = ("size", *map(str, requirements))
    if best:
        limits = () if tenths == _MOST_TENTHS else ("size",)
    each = best or itertools.repeat(None)
    return [
        Tuned(best=one, tried=tuple(search.tried), tries=search.tries, limits=limits)
        for search, one in zip(searches, each, strict=False)
    ]


def _on_line(pick: Pick, other: Pick, goal: Goal) -> int | None:
    """Return the step that just reaches a goal, by a straight line through two; None if far off."""
    wanted = goal.of_quality
    if goal.ratio is not None:
        wanted = (Requirement("ratio", ">=", goal.ratio),)
    scale, bounds = pick.candidate.scale, []
    ends = [scale.value(one.step) for one in (pick, other)]
    if not all(ends):  # lossless
        return None
    for one in wanted:
        got = one.got(pick.found.report), one.got(other.found.report)
        here, there, target = (_even(one, value) for value in (*got, one.value))
        share = (target - here) / (here - there) if here != there else math.nan
        if abs(share) <= 4:
            bounds.append(ends[0] * (ends[0] / ends[1]) ** share)
    if not bounds:
        return None
    most = max(bounds) if goal.ratio is not None else min(bounds)
    step = first_step(lambda step: scale.value(step) <= most, scale.last, pick.step)
    return step - 1 if goal.ratio is not None else step


def _even(one: Requirement, value: float | None) -> float:
    """Return a number on a scale where it is roughly linear in the logarithm of the bound."""
    if value is None:
        return math.nan
    if one.relation == ">=" and one.value < 1:  # a similarity
        value = 1 - value
    elif one.relation == ">=" and one.name != "ratio":  # in dB
        return value
    return math.log(value) if value > 0 else -math.inf


def first_step(holds: Callable[[int], bool], last: int, guess: int | None) -> int:
    """Return the first step from 0 to `last` from which on something holds; `last` + 1 if none.

    Steps near the guess are tried first, at growing distances; then intervals are halved.
    """
    below, above, step = -1, last + 1, (last + 1) // 2 if guess is None else guess
    reach = 1 if guess is not None else last
    while above - below > 1:
        if holds(step):
            above, step = step, step - reach
        else:
            below, step = step, step + reach
        reach *= 4
        if not below < step < above or (below >= 0 and above <= last):
            step = (below + above) // 2
    return above


def _undefined(goal: Goal, field: Field) -> list[str]:
    """Return why thresholds are for numbers that are undefined even for the data itself."""
    itself = assess(
        field.values,
        field.values,
        metrics=goal.groups,
        fill_value=field.missing,
        axes=field.axes,
        data_range=field.data_range,
    )
    return [_undefined_text(one, itself) for one in goal.of_quality if one.got(itself) is None]


def _undefined_text(one: Requirement, report: Report) -> str:
    return f"{one.name} is not defined for this data: {one.measure.why_undefined(report)}"


def _variants(make: Make, chunks: tuple[int, ...]) -> Iterator[Make]:
    """Yield a codec with each setting of how the values of a chunk are arranged."""
    codec = make(lossless=True)
    rank = max(1, sum(n > 1 for n in chunks))
    settings = []
    if not isinstance(codec, Auto):  # which chooses among codecs itself
        for own in codec.choices():
            if not isinstance(own.default, bool):
                fits = [one for one in own.metadata["choices"] if _axes_needed(one) <= rank]
                settings.append([{own.name: one} for one in fits])
    for each in itertools.product(*settings):
        yield partial(make, **{name: value for one in each for name, value in one.items()})


def _axes_needed(choice: Any) -> int:
    """Return how many axes a chunk must have for a setting to make a difference."""
    if isinstance(choice, tuple):
        return int(-min(choice))
    return choice if isinstance(choice, int) else 0


def _sample_of(field: Field) -> Field:
    """Return parts of a large field, one after the other; a small field as a whole."""
    values, chunks, shape = field.values, field.chunks, tuple(field.values.shape)
    axes = range(len(shape))
    unit = tuple(min(n, -(-_NEIGHBOURS // c) * c) for n, c in zip(shape, chunks, strict=True))
    part = block_shape(shape, unit, 1, most_bytes=_SAMPLE_VALUES // _SAMPLE_PARTS)
    count = min(_SAMPLE_PARTS, max(2, _SAMPLE_VALUES // math.prod(part)))
    starts = []
    for number in range(count):
        # Evenly along the first axis; along the others such that any few are far apart.
        where = [(number * _GOLDEN**axis + 0.5 / count) % 1 for axis in axes]
        where[0] = number / (count - 1)
        free = [n - p for n, p in zip(shape, part, strict=True)]
        starts.append(
            tuple(round(w * n) // c * c for w, n, c in zip(where, free, chunks, strict=True))
        )
    starts = list(dict.fromkeys(starts))
    if math.prod(shape) <= max(_SAMPLE_VALUES, 2 * len(starts) * math.prod(part)):
        return dataclasses.replace(field, values=values[tuple(slice(0, n) for n in shape)])
    parts = [
        values[tuple(slice(s, s + n) for s, n in zip(start, part, strict=True))] for start in starts
    ]
    # Joined along an axis along which parts end with a chunk, if there is one.
    along = next((axis for axis in axes if part[axis] % chunks[axis] == 0), 0)
    return dataclasses.replace(field, values=np.concatenate(parts, axis=along))


def _sample_by_size(field: Field, found: Tradeoff) -> Field | None:
    """Return whole chunks of all stored sizes, one after the other; None if the field has few."""
    shape, chunks = field.values.shape, field.chunks
    whole = [
        start
        for _, start in sorted(found.chunks)
        if all(s + c <= n for s, c, n in zip(start, chunks, shape, strict=True))
    ]
    count = max(_LEAST_CHUNKS, _SAMPLE_VALUES // math.prod(chunks))
    if len(whole) < 2 * count:
        return None
    parts = []
    for number in range(count):  # in the middle of equal shares
        start = whole[(2 * number + 1) * len(whole) // (2 * count)]
        parts.append(
            field.values[tuple(slice(s, s + c) for s, c in zip(start, chunks, strict=True))]
        )
    return dataclasses.replace(field, values=np.concatenate(parts))
