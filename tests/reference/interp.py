# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Codec 4, Interp, as docs/format/interp.md has it."""

from __future__ import annotations

import dataclasses
import math
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from . import blocks
from .common import Array, Boxes, Corrupt, FloatType, Kind, Quantizer
from .interp_coder import (
    ESCAPE_BYTES,
    LANES,
    LARGEST_RAW,
    CoderHead,
    decode_residuals,
    encode_residuals,
)
from .interp_exceptions import pack_exceptions, pack_patches, take_exceptions, unpack_patches
from .interp_labels import IS_LABELS, pack_labels, take_labels
from .interp_lattice import (
    MOST_GRADE,
    UNIT,
    Values,
    are_beyond,
    are_used,
    closed_grade,
    lattice_values,
    nearest_bins,
    nearest_point,
    own_quantizer,
    own_values,
    values_of,
)
from .interp_prediction import (
    AXES,
    INTERPOLATION,
    LORENZO,
    WEIGHTS,
    Form,
    Shape,
    active_axes,
    coding_order,
    fill_exceptions,
    has_axis,
    interpolate,
    lorenzo,
    passes_of,
    predict,
    predict_exceptions,
    undo_lorenzo,
    units_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

__all__ = [
    "AUTO_MODES",
    "HAS_LOSSLESS",
    "MODES",
    "NUMBER",
    "REQUESTS",
    "are_used",
    "chosen_mode",
    "decode_tile",
    "encode_tile",
    "own_quantizer",
    "tiling",
]

NUMBER = 4

ALL_AXES = 15
"""Bits 0 to 3 of a mode."""

REWRITABLE = 16
"""Bit 4 of a mode."""

EXACT = 32
"""Bit 5 of a frame's mode."""

MODES = {
    flags | axes: 4
    for flags in (0, REWRITABLE, EXACT, REWRITABLE | EXACT)
    for axes in range(1, 16)
    if axes.bit_count() <= 3
}
"""Modes the codec knows, and how many dims a frame of that mode has."""

REQUESTS = {0, REWRITABLE, *(mode for mode in MODES if not mode & EXACT)}
"""Modes that an encoder can be asked for: without axes, it picks them."""

HAS_LOSSLESS = False

TAKES_WORDS = True
"""Whether frames may be of integers and halves."""

AUTO_MODES: list[int] = []
"""Modes that codec auto compares."""

PER_TILE = 32768
"""Values that a tile can have."""

MOST_PATCHES = 16384
"""Patches of a form that an encoder tries."""


# ------------------------------------------------------------------------------------------------
# Modes and tiles
# ------------------------------------------------------------------------------------------------


def chosen_mode(mode: int, extents: Sequence[int]) -> int:
    """Give the mode that stands for all that an encoder may come to: any axis if it picks them."""
    return mode if mode & ALL_AXES else mode | 1


def tiling(
    count: int, float_type: FloatType, mode: int = 0, dims: tuple[int, ...] | None = None
) -> Boxes:
    """Say how a chunk is cut into tiles; `count` is only looked at without dims."""
    dims = dims or (1, 1, 1, count)
    pieces, parts = list(dims), [1] * 4
    while math.prod(pieces) > PER_TILE:
        long = [axis for axis in AXES if pieces[axis] > 1]
        candidates = [axis for axis in long if not has_axis(mode, axis)] or long
        axis = max(candidates, key=lambda axis: pieces[axis])
        parts[axis] *= 2
        pieces[axis] = -(-dims[axis] // parts[axis])
    return Boxes(tuple(dims), tuple(pieces))


# ------------------------------------------------------------------------------------------------
# The head
# ------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Head:
    """A payload's head and base."""

    form: Form  # how the tile is coded
    coder: CoderHead  # what is said of the coder
    has_exceptions: bool
    is_narrow: bool
    entries: int  # number of entries of the patches
    base: int
    # D and c of the own lattice, if the tile has one.
    own_lattice: tuple[float, float] | None = None

    def dtype(self, float_type: FloatType) -> np.dtype[Any]:
        """Give the signed type of V bits, in which integers are worked out."""
        return np.dtype("<i4" if self.is_narrow else f"<i{float_type.size}")

    def pack(self, float_type: FloatType) -> bytes:
        """Write head and base."""
        form, coder = self.form, self.coder
        flags = (
            (not coder.own_table) | form.predictor << 1 | form.is_fine << 2 | form.is_closed << 3
        )
        flags |= LANES.index(coder.lanes) << 4 | self.has_exceptions << 6 | self.is_narrow << 7
        sizes = coder.model | ESCAPE_BYTES.index(coder.escape_bytes) << 4
        sizes |= (coder.raw > 0) << 6 | (self.entries > 0) << 7
        is_short = -(1 << 15) <= self.base < 1 << 15
        rule = form.axes + sum(code * len(WEIGHTS) ** i for i, code in enumerate(form.weight_codes))
        third = coder.table_set | is_short << 3 | form.units << 4 | form.grade << 6
        head = bytes([flags, sizes, third, rule])
        head += self.base.to_bytes(2 if is_short else float_type.size, "little", signed=True)
        head += b"".join(n.to_bytes(2, "little") for n in (coder.raw, self.entries) if n)
        if coder.own_table:
            number = sum(f - 1 << 11 * symbol for symbol, f in enumerate(coder.own_table))
            head += number.to_bytes(22, "little")
        return head


def take_head(reader: blocks.Reader, active: int, float_type: FloatType, *, are_bins: bool) -> Head:
    """Read head and base; there are no fine points (`are_bins`) of kind 1, and of words."""
    flags, sizes, third, rule = reader.take(4)
    table_set, is_short = third & 7, third >> 3 & 1
    base = int.from_bytes(reader.take(2 if is_short else float_type.size), "little", signed=True)
    raw, entries = (
        int.from_bytes(reader.take(2), "little") if sizes >> bit & 1 else None for bit in (6, 7)
    )
    if 0 in {raw, entries}:
        raise Corrupt("a number that is there, though it is 0")
    raw, entries = raw or 0, entries or 0
    is_fine, is_closed, is_narrow = (bool(flags >> bit & 1) for bit in (2, 3, 7))
    own_table: tuple[int, ...] = ()
    if not flags & 1:
        number = int.from_bytes(reader.take(22), "little")
        own_table = tuple((number >> 11 * symbol & 2047) + 1 for symbol in range(16))
        if sum(own_table) != 2048:
            raise Corrupt("frequencies that do not sum to 2048")
    predictor = flags >> 1 & 1
    is_lorenzo = predictor == LORENZO
    weight_codes = tuple(rule // len(WEIGHTS) ** i % 6 for i in range(active))
    model, escape = sizes & 15, sizes >> 4 & 3
    units = third >> 4 & 3
    own_lattice: tuple[float, float] | None = None
    if not is_closed and third >> 6 & 1:
        d, c = np.frombuffer(reader.take(16), "<f8").tolist()
        with np.errstate(over="ignore"):
            are_of_type = all(float(float_type.number(number)) == number for number in (d, c))
        if not np.isfinite([d, c]).all() or d == 0 or (d < 0 and not are_of_type):
            raise Corrupt(f"an own lattice of {d} and {c}")
        if is_fine or entries or are_bins:
            raise Corrupt("an own lattice where there is none")
        own_lattice = d, c
    if (third >> 7 and not is_closed) or escape >= len(ESCAPE_BYTES):
        raise Corrupt("a head that is out of range")
    if is_lorenzo and rule > 15:
        raise Corrupt(f"axes {rule:#x}")
    if not is_lorenzo:
        if rule >= len(WEIGHTS) ** active:
            raise Corrupt(f"weight codes {rule} of {active} axes")
        if float_type.size == 4 and not is_narrow:
            raise Corrupt("interpolation of float32 that is not narrow")
    if units and not is_closed:
        raise Corrupt("units of a form that is not closed")
    if is_closed and (is_lorenzo or not is_fine):
        raise Corrupt("a closed form without interpolation on fine points")
    if entries and is_fine and not is_closed:
        raise Corrupt("patches on fine points that are not closed")
    if are_bins and (is_fine or entries):
        raise Corrupt("fine points where there are only bins")
    form = Form(
        predictor=predictor,
        weight_codes=() if is_lorenzo else weight_codes,
        axes=rule if is_lorenzo else 0,
        is_fine=is_fine,
        is_closed=is_closed,
        units=units,
        grade=third >> 6 if is_closed else 0,
    )
    lanes = LANES[flags >> 4 & 3]
    if own_table and (lanes < 16 or model or table_set):
        raise Corrupt("a head without classes that is out of range")
    coder = CoderHead(lanes, model, ESCAPE_BYTES[escape], raw, table_set, own_table)
    head = Head(form, coder, bool(flags >> 6 & 1), is_narrow, entries, base, own_lattice)
    size = head.dtype(float_type).itemsize
    if raw > LARGEST_RAW[size] or coder.escape_bytes > size:
        raise Corrupt(f"{raw} raw planes, items of {coder.escape_bytes} bytes")
    return head


# ------------------------------------------------------------------------------------------------
# Decoding tiles
# ------------------------------------------------------------------------------------------------


def are_coded(
    is_exception: Array, form: Form, shape: Shape, mode: int, *, are_words: bool
) -> Array:
    """Say which values, in coding order, have residuals."""
    if not are_words or 32 * int(is_exception.sum()) <= is_exception.size:
        return np.ones(is_exception.size, bool)
    has_residual = ~is_exception[coding_order(form, shape, mode)]
    has_residual[0] = True
    return has_residual


def decode_tile(
    payload: bytes,
    count: int,
    float_type: FloatType,
    quantizer: Quantizer | None,
    *,
    mode: int = 0,
    inside: Array | None = None,
) -> Array:
    """Decode one tile that is neither empty nor stored.

    Without a quantizer the values are words. `inside` has the tile's shape; without it, the tile is
    a line.
    """
    shape: Shape = (1, 1, 1, count) if inside is None else inside.shape
    if len(payload) % 2:
        raise Corrupt(f"a payload of {len(payload)} bytes, an odd number")
    if len(payload) == float_type.size:
        return np.frombuffer(payload * count, float_type.word_dtype)
    reader = blocks.Reader(payload)
    are_bins = quantizer is None or quantizer.kind == Kind.POINTWISE_RELATIVE
    if quantizer is None and payload[2:3] >= bytes([IS_LABELS]):
        return take_labels(reader, shape, float_type)
    head = take_head(reader, len(active_axes(shape, mode)), float_type, are_bins=are_bins)
    form = head.form
    is_exception, bits = np.zeros(count, bool), np.zeros(count, float_type.word_dtype)
    if head.has_exceptions:
        is_exception, bits = take_exceptions(reader, shape, float_type)
    entries = np.frombuffer(reader.take(2 * head.entries), "<u2").tolist()
    patches = unpack_patches(entries, count)
    has_residual = are_coded(is_exception, form, shape, mode, are_words=quantizer is None)
    residuals = decode_residuals(
        reader.take(reader.left()),
        head.coder,
        int(has_residual.sum()),
        units=units_of(form, shape, mode)[has_residual],
        dtype=head.dtype(float_type),
    )
    changes = np.zeros(count, residuals.dtype)
    changes[has_residual] = residuals
    if form.is_closed:
        changes += patches.astype(changes.dtype)
    changes[0] = 0
    if form.predictor == LORENZO:
        q = undo_lorenzo(changes, form.axes, shape)
    else:
        q = interpolate(changes, form, shape, mode)
    q = q.astype(f"<i{float_type.size}") + np.array(head.base, f"<i{float_type.size}")
    if head.own_lattice:
        values = own_values(q, float_type, *head.own_lattice)
    else:
        values = lattice_values(q, float_type, quantizer, is_fine=form.is_fine)
    if patches.any() and not form.is_closed:
        near = q * q.dtype.type(UNIT) + patches.astype(q.dtype)
        patched = lattice_values(near, float_type, quantizer, is_fine=True)
        values = np.where(patches != 0, patched, values)
    return np.where(is_exception, bits, values)


# ------------------------------------------------------------------------------------------------
# Encoding tiles
# ------------------------------------------------------------------------------------------------


class InForm(NamedTuple):
    """A tile in a form, with its grade: its integers, exceptions, patches and residuals.

    Patches are in raster order; those of closed forms, and residuals, are in coding order.
    """

    form: Form
    base: int
    is_narrow: bool
    q: Array
    is_exception: Array
    patches: Array
    residuals: Array


def apply_form(values: Values, form: Form, mode: int) -> InForm | None:
    """Predict the values of a tile in a form; None where the form fails."""
    shape = values.shape
    is_exception = ~(values.has_fine if form.is_fine else values.has_bin)
    if form.is_closed:
        grade = closed_grade(values)
        form = dataclasses.replace(form, grade=grade)
        if grade < MOST_GRADE:
            is_exception |= are_beyond(values, grade)
        is_exception[0] |= values.is_kept[0] and values.g[0] % (1 << grade) != 0
    q = np.where(is_exception, 0, values.g if form.is_fine else values.k)
    patches = np.zeros_like(q)
    if not form.is_fine:
        off_bins = values.is_off_bins & ~is_exception
        patches[off_bins] = (values.g - UNIT * values.k)[off_bins]
    kept = np.flatnonzero(~is_exception)
    base = int(q[kept[0]]) if kept.size else 0
    if form.is_closed:
        if is_exception[0]:
            base = (base + 128) & -256
        elif not values.is_kept[0]:
            base = int(nearest_point(values.parts[0], form.grade))
    is_narrow = bool((np.abs(q - base) < 1 << 22)[~is_exception].all())
    is_free = is_exception  # to take any integer
    if not form.is_fine and values.quantizer is not None:
        k, is_placed = nearest_bins(values)
        is_placed &= is_exception & ((np.abs(k - base) < 1 << 22) | (not is_narrow))
        is_placed[0] = False
        q = np.where(is_placed, k, q)
        is_free = is_exception & ~is_placed
    if form.predictor == LORENZO:
        if values.quantizer is None:
            q = predict_exceptions(q, is_free, base, form.axes, shape)
        else:
            q = fill_exceptions(q, is_free, base, shape)
        residuals = lorenzo(q, form.axes, shape)
        residuals[0] = 0
    else:
        q, changes = _interpolated(values, form, mode, q, is_free=is_free, base=base)
        residuals = changes
        if form.is_closed:
            units = units_of(form, values.shape, mode)
            residuals = (changes + units // 2) // units
            patches = changes - units * residuals
    if form.is_closed and np.any(np.abs(q[is_exception]) > 1 << 20):
        return None
    is_near = np.abs(q - base) < 1 << 22
    if form.predictor != LORENZO:
        if is_narrow and not is_near.all():
            return None
        if values.float_type.size == 4 and not is_narrow:
            return None
    if np.count_nonzero(patches) > MOST_PATCHES:
        return None
    return InForm(form, base, is_narrow, q, is_exception, patches, residuals)


def _interpolated(
    values: Values, form: Form, mode: int, wanted: Array, *, is_free: Array, base: int
) -> tuple[Array, Array]:
    """Interpolate the values of a tile, of which those that are free get their prediction.

    Give the integers in raster order, and their differences to their predictions in coding order.
    `wanted` are the integers, where the form is not closed.
    """
    first, passes = passes_of(values.shape, mode)
    active = active_axes(values.shape, mode)
    q = np.zeros_like(wanted)

    def changes_at(places: Array, predictions: Array, level: int) -> Array:
        """Give the differences, and set the integers."""
        changes = wanted[places] - predictions
        if form.is_closed:
            unit = form.unit(level)
            steps = (values.parts[places] - 64 * predictions + 32 * unit) // (64 * unit)
            changes = np.where(values.is_kept[places], changes, unit * steps)
        changes = np.where(is_free[places], 0, changes)
        q[places] = predictions + changes
        return changes

    q[first[0]] = base
    changes = [np.zeros(1, "<i8")]
    top = passes[0].level if passes else 1
    changes += [
        changes_at(first[i : i + 1], form.rounded(q[first[i - 1 : i]]), top)
        for i in range(1, first.size)
    ]
    for step in passes:
        predictions = predict(q, form, values.shape, active, step)
        changes.append(changes_at(step.places, predictions, step.level))
    return q, np.concatenate(changes)


class Payload(NamedTuple):
    """A tile's payload, and the cost of its form in 16ths of a bit."""

    data: bytes
    cost: int


def encode_form(values: Values, form: Form, mode: int) -> Payload | None:
    """Encode a tile in a form; None where the form fails."""
    tile = apply_form(values, form, mode)
    if tile is None:
        return None
    entries = pack_patches(tile.patches)
    value_bits = 32 if tile.is_narrow else 8 * values.float_type.size
    are_words = values.quantizer is None
    has_residual = are_coded(tile.is_exception, form, values.shape, mode, are_words=are_words)
    coded = encode_residuals(tile.residuals[has_residual], value_bits)
    has_exceptions = bool(tile.is_exception.any())
    exceptions = b""
    if has_exceptions:
        bins = lattice_values(values.k, values.float_type, values.quantizer, is_fine=False)
        stored = np.where(values.has_bin & ~values.is_kept, bins, values.bits)
        exceptions = pack_exceptions(values.bits, stored, tile.is_exception, values.shape)
    patches = np.array(entries, "<u2").tobytes()
    head = Head(
        form=tile.form,
        coder=coded.head,
        has_exceptions=has_exceptions,
        is_narrow=tile.is_narrow,
        entries=len(entries),
        base=tile.base,
    )
    data = head.pack(values.float_type) + exceptions + patches + coded.data
    cost = coded.cost + 128 * len(patches)
    return Payload(data, cost + 128 * len(exceptions))


def any_forms(values: Values, mode: int) -> Iterator[Form]:
    """Go through forms of all kinds, with weights and axes that depend on the tile's bits alone.

    Which form is the smallest is for the encoder of the library to find out.
    """
    rng = np.random.default_rng(zlib.crc32(values.bits.tobytes()))
    active = len(active_axes(values.shape, mode))
    for is_fine in (False,) if values.are_bins else (False, True):
        yield Form(LORENZO, axes=int(rng.integers(16)), is_fine=is_fine)
        if active:
            codes = tuple(rng.integers(len(WEIGHTS), size=active).tolist())
            is_closed = is_fine and not mode & REWRITABLE and bool(rng.integers(2))
            units = int(rng.integers(4)) if is_closed else 0
            yield Form(INTERPOLATION, codes, is_fine=is_fine, is_closed=is_closed, units=units)


def encode_tile(
    bits: Array,
    float_type: FloatType,
    quantizer: Quantizer | None,
    fill_bits: int | None = None,
    *,
    mode: int = 0,
    inside: Array | None = None,
    forms: Iterable[Form] | None = None,
) -> bytes | None:
    """Encode one tile in one of some forms, of `any_forms` by default.

    Without a quantizer the values are words. `inside` has the tile's shape; without it, the tile is
    a line.
    """
    shape: Shape = (1, 1, 1, bits.size) if inside is None else inside.shape
    values = values_of(bits, shape, float_type, quantizer, fill_bits)
    if values.is_exception.all() and np.all(bits == bits[0]):
        return bits[:1].tobytes()
    is_held = values.has_bin & ~values.is_off_bins
    if is_held.all() and np.all(values.k == values.k[0]):
        value = lattice_values(values.k[:1], float_type, quantizer, is_fine=False)
        return value.tobytes() if values.k[0] else b""
    chosen = any_forms(values, mode) if forms is None else forms
    payloads = [payload for form in chosen if (payload := encode_form(values, form, mode))]
    data = min(payloads, key=lambda payload: payload.cost).data if payloads else None
    if quantizer is not None or forms is not None:
        return data
    # Labels often enough to be tested: they win only where words are repeated.
    labels = pack_labels(bits, shape, float_type)
    is_labels = len(labels) != float_type.size and zlib.crc32(bits.tobytes()) % 4 == 0
    return labels if data is None or is_labels or len(labels) < len(data) else data
