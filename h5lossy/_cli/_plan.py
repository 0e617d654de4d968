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
from h5lossy._blocks import TINY_BYTES
from h5lossy._chunking import chunks_for
from h5lossy._cli._console import printable, shape_text
from h5lossy._cli._patterns import Chunks, Rule, matches, matching, require_match
from h5lossy._repacking.compressing import Plan
from h5lossy._repacking.objects import absent_filters, walk

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from h5lossy._cli._options import Request
    from h5lossy._codecs import Codec

_NO_BOUND = "no rule gives a bound"
_NO_RANGE = "no values, so no range"
_SCALE = "dimension scale"
_SKIPPED = "skipped"
_SMALL = "small"

#: Why a dataset is kept although it could be compressed.
_OBJECTIONS = {_NO_BOUND, _NO_RANGE, _SCALE, _SKIPPED, _SMALL}

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
        The rules of the ``--rules`` files, then the ``--dataset`` options.
    skip : sequence of str
        The ``--skip`` options.
    """

    request: Request
    chunks: Chunks
    rules: Sequence[Rule]
    skip: Sequence[str]


def make_plans(file: h5py.File, options: RepackOptions) -> list[Plan]:
    """Decide what becomes of each dataset."""
    return [
        _plan(Plan(file=file, name=name), options)
        for name, obj in walk(file)
        if isinstance(obj, h5d.DatasetID)
    ]


def check_rules(options: RepackOptions, datasets: Sequence[tuple[str, str]]) -> None:
    """Refuse a rule that does nothing: most likely it is a slip of the pen.

    Parameters
    ----------
    options : RepackOptions
    datasets : sequence of (str, str)
        The path of each dataset of all files, and why it is kept; "" where it is compressed.
    """
    kept: dict[str, list[str]] = {}
    for path, why in datasets:
        kept.setdefault(path, []).append(why)
    for rule in options.rules:
        require_match(rule.where, rule.pattern, kept)
        if not rule.skip:
            _require_compressible(rule, kept)
    for pattern in options.skip:
        require_match("--skip", pattern, kept)
    for rule in options.rules:
        if rule.request.codec:
            _require_bound(rule, kept)


def _named(rule: Rule, kept: Mapping[str, list[str]]) -> list[tuple[str, str]]:
    """Return path and reason of the datasets that a rule names."""
    return [(path, why) for path in matching(kept, rule.pattern) for why in kept[path]]


def _require_compressible(rule: Rule, kept: Mapping[str, list[str]]) -> None:
    """Refuse a rule all of whose datasets can't be compressed."""
    named = _named(rule, kept)
    if all(why and why not in _OBJECTIONS for _, why in named):
        text = ", ".join(f"{path}: {why}" for path, why in named[:5])
        raise click.ClickException(
            f"{rule.where} {rule.pattern!r} names nothing that can be compressed ({text})"
        )


def _require_bound(rule: Rule, kept: Mapping[str, list[str]]) -> None:
    """Refuse a rule that names a codec if nothing is compressed because there is no bound."""
    reasons = [why for _, why in _named(rule, kept)]
    if _NO_BOUND in reasons and all(reasons):
        raise click.UsageError(
            f"{rule.where} {rule.pattern!r} names a codec, but no option gives its datasets a "
            "bound; add one, such as absolute=1e-3"
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
                f"{by_rule[-1].where} {by_rule[-1].pattern!r} gives chunks of {len(wanted)} "
                f"dimensions to {plan.path}, which has {dataset.ndim}"
            )
        wanted = "keep"
    return dataclasses.replace(plan, codec=codec, chunks=_chunk_shape(plan, wanted))


def _objection(plan: Plan, codec: Codec | None, rules: Sequence[Rule], skip: Sequence[str]) -> str:
    """Return why a dataset is better not compressed; nothing if it may be."""
    is_skipped = bool(rules) and rules[-1].skip
    if is_skipped or any(matches(plan.path, pattern) for pattern in skip):
        return _SKIPPED
    if codec is None:
        return _NO_BOUND
    dataset = plan.dataset
    if codec.bound.kind is BoundKind.RANGE_RELATIVE and not dataset.id.get_storage_size():
        return _NO_RANGE
    if any(rule.request.bound and rule.is_literal for rule in rules):
        return ""
    if h5ds.is_scale(dataset.id):
        return _SCALE
    resizable = dataset.maxshape != dataset.shape
    return "" if resizable or dataset.nbytes > TINY_BYTES else _SMALL


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
    filters = absent_filters(dataset.id.get_create_plist())
    return f"no filter {printable(filters)} here" if filters else ""


def _chunk_shape(plan: Plan, wanted: Chunks | None) -> tuple[int, ...]:
    """Return the chunks that a dataset gets."""
    dataset = plan.dataset
    if wanted == "keep" and dataset.chunks and _fits_frame(dataset.chunks, dataset):
        return tuple(dataset.chunks)
    if not isinstance(wanted, tuple):
        return chunks_for(dataset.shape, dataset.dtype, maxshape=dataset.maxshape)
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
