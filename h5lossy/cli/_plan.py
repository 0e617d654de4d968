# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""What ``h5lossy repack`` will do with each dataset, decided before anything is written."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click
import h5py
from h5py import h5d, h5ds, h5t

from h5lossy import BoundKind
from h5lossy._blocks import TINY_BYTES, auto_chunks
from h5lossy.cli._console import printable, shape_text
from h5lossy.cli._patterns import Chunks, Rule, matches, require_match
from h5lossy.repacking.compressing import Plan
from h5lossy.repacking.objects import absent_filters, walk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from h5lossy.cli._options import Request
    from h5lossy.codecs import Codec

_NO_BOUND = "no rule gives a bound"

_FLOAT_TYPES = (h5t.IEEE_F32LE, h5t.IEEE_F32BE, h5t.IEEE_F64LE, h5t.IEEE_F64BE)


@dataclass(frozen=True, kw_only=True)
class RepackOptions:
    """What the options of the command say.

    Attributes
    ----------
    request : Request
        The bound and the codec of all float datasets.
    chunks : tuple of int or str
        The chunk shape of all that are compressed.
    rules : sequence of Rule
        The ``--dataset`` options.
    skip : sequence of str
        The ``--skip`` options.
    """

    request: Request
    chunks: Chunks
    rules: Sequence[Rule]
    skip: Sequence[str]


def make_plans(file: h5py.File, options: RepackOptions) -> list[Plan]:
    """Decide what becomes of each dataset."""
    plans = [
        _plan(Plan(file=file, name=name), options)
        for name, obj in walk(file)
        if isinstance(obj, h5d.DatasetID)
    ]
    obstacles = {plan.path: _obstacle(plan.dataset) for plan in plans}
    for rule in options.rules:
        require_match("--dataset", rule.pattern, obstacles)
        _require_compressible(rule, obstacles)
    for pattern in options.skip:
        require_match("--skip", pattern, [plan.path for plan in plans])
    for rule in options.rules:
        if rule.request.codec:
            _require_bound(rule, [plan for plan in plans if matches(plan.path, rule.pattern)])
    return plans


def _require_compressible(rule: Rule, obstacles: dict[str, str]) -> None:
    """Refuse a rule all of whose datasets can't be compressed."""
    named = {path: why for path, why in obstacles.items() if matches(path, rule.pattern)}
    if all(named.values()):
        why = ", ".join(f"{path}: {why}" for path, why in list(named.items())[:5])
        raise click.ClickException(
            f"--dataset {rule.pattern!r} names nothing that can be compressed ({why})"
        )


def _require_bound(rule: Rule, plans: Sequence[Plan]) -> None:
    """Refuse a rule that names a codec if nothing is compressed because there is no bound."""
    if _NO_BOUND in {plan.kept for plan in plans} and not any(plan.codec for plan in plans):
        raise click.UsageError(
            f"--dataset {rule.pattern!r} names a codec, but no option gives its datasets a bound; "
            "add one, such as absolute=1e-3"
        )


def _plan(plan: Plan, options: RepackOptions) -> Plan:
    """Decide what becomes of one dataset."""
    rules = [rule for rule in options.rules if matches(plan.path, rule.pattern)]
    request = options.request
    for rule in rules:
        request = rule.request.or_else(request)
    codec = request.make()
    dataset = plan.dataset
    kept = _obstacle(dataset) or _objection(plan, codec, rules, options.skip)
    if kept:
        return dataclasses.replace(plan, kept=kept)
    by_rule = [rule for rule in rules if rule.chunks]
    wanted = by_rule[-1].chunks if by_rule else options.chunks
    if isinstance(wanted, tuple) and len(wanted) != dataset.ndim:
        if by_rule and by_rule[-1].is_literal:
            raise click.UsageError(
                f"--dataset {by_rule[-1].pattern!r} gives chunks of {len(wanted)} dimensions to "
                f"{plan.path}, which has {dataset.ndim}"
            )
        wanted = "keep"
    return dataclasses.replace(plan, codec=codec, chunks=_chunk_shape(plan, wanted))


def _objection(plan: Plan, codec: Codec | None, rules: Sequence[Rule], skip: Sequence[str]) -> str:
    """Return why a dataset is better not compressed; nothing if it may be."""
    if any(matches(plan.path, pattern) for pattern in skip):
        return "skipped"
    if codec is None:
        return _NO_BOUND
    dataset = plan.dataset
    if codec.bound.kind is BoundKind.RANGE_RELATIVE and not dataset.id.get_storage_size():
        return "no values, so no range"
    if any(rule.request.bound and rule.is_literal for rule in rules):
        return ""
    if h5ds.is_scale(dataset.id):
        return "dimension scale"
    resizable = dataset.maxshape != dataset.shape
    return "" if resizable or dataset.nbytes > TINY_BYTES else "small"


def _obstacle(dataset: h5py.Dataset) -> str:
    """Return why a dataset can't be compressed; nothing if it can."""
    type_id = dataset.id.get_type()
    obstacles = {
        "not float32 or float64": not any(type_id.equal(known) for known in _FLOAT_TYPES),
        "scalar": not dataset.shape,
        "virtual": dataset.is_virtual,
        "external storage": bool(dataset.external),
        "empty": 0 in (dataset.shape or ()) and dataset.maxshape == dataset.shape,
    }
    for obstacle, is_there in obstacles.items():
        if is_there:
            return obstacle
    filters = absent_filters(dataset.id)
    return f"no filter {printable(', '.join(filters))} here" if filters else ""


def _chunk_shape(plan: Plan, wanted: Chunks | None) -> tuple[int, ...]:
    """Return the chunks that a dataset gets."""
    dataset = plan.dataset
    if wanted == "keep" and dataset.chunks and _fits_frame(dataset.chunks, dataset):
        return tuple(dataset.chunks)
    if not isinstance(wanted, tuple):
        return auto_chunks(dataset.shape, dataset.maxshape, dataset.dtype.itemsize)
    chunks = tuple(
        length if most is None else min(length, most)
        for length, most in zip(wanted, dataset.maxshape, strict=True)
    )
    if not _fits_frame(chunks, dataset):
        raise click.UsageError(
            f"chunks of {shape_text(chunks)} are too large for {plan.path}: "
            "a chunk takes less than 4 GiB"
        )
    return chunks


def _fits_frame(chunks: tuple[int, ...], dataset: h5py.Dataset) -> bool:
    """Return whether a frame can hold a chunk."""
    return math.prod(chunks) * int(dataset.dtype.itemsize) < 2**32 - 40
