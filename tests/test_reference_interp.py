# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The reference of Interp by itself: golden payloads, its page, and properties of predictions.

The payloads come from a program that was written before the page, and by others than the reference.
In it, patches of closed forms meant something else; no payload here has any. Their residuals were
coded anew when the coder got its sets of tables.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import itertools
import json
import math
import re
import struct
import types
import zlib
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import h5lossy
from h5lossy import Interp
from reference import (
    blocks,
    frame,
    interp,
    interp_coder,
    interp_lattice,
    interp_prediction,
    interp_tables,
    pfpl,
)
from reference.common import FLOAT_TYPES, Array, Corrupt, FloatType, Kind, Quantizer
from reference.interp_prediction import Form

if TYPE_CHECKING:
    from collections.abc import Iterator

    Shape = tuple[int, ...]

HERE = Path(__file__).parent
GOLDEN = {
    case["name"]: case
    for case in json.loads((HERE / "reference" / "interp_golden.json").read_text(encoding="utf-8"))
}
PAGE = (HERE.parent / "docs" / "format" / "interp.md").read_text(encoding="utf-8")


def quantizer_of(bound: float, float_type: FloatType) -> Quantizer:
    step = pfpl.float_to_bits(2.0 * pfpl.narrowed_bound(bound, float_type))
    return interp.own_quantizer(Quantizer(Kind.ABSOLUTE, step), float_type)


def unpacked(packed: str) -> bytes:
    return zlib.decompress(base64.b64decode(packed))


class Golden:
    """A chunk, its payloads, and its decoded values."""

    def __init__(self, name: str) -> None:
        case: dict[str, Any] = GOLDEN[name]
        dtype = np.dtype(case["dtype"])
        self.dtype = dtype
        self.float_type = FLOAT_TYPES[dtype.itemsize]
        self.quantizer = quantizer_of(case["bound"], self.float_type)
        self.mode = case["mode"]
        self.bits = np.frombuffer(unpacked(case["values"]), self.float_type.word_dtype)
        self.checksum = case["decoded_crc32"]
        fill = case["fill"]
        bits_of_fill = np.array([fill or 0.0], dtype).view(self.float_type.word_dtype)
        self.fill_bits = None if fill is None else int(bits_of_fill[0])
        dims = frame._dims_of([extent for extent in case["shape"] if extent != 1], 4)
        self.tiling = interp.tiling(self.bits.size, self.float_type, self.mode, dims)
        data = unpacked(case["table_and_payload"])
        ends = np.frombuffer(data, "<u4", self.tiling.tile_count).tolist()
        payload = data[4 * len(ends) :]
        self.tiles = [payload[begin:end] for begin, end in itertools.pairwise([0, *ends])]

    def is_of_the_frame(self, number: int) -> bool:
        """Say whether a tile is stored or empty."""
        raw_size = self.tiling.places(number).size * self.float_type.size
        return len(self.tiles[number]) in {0, raw_size}

    def decoded(self, number: int) -> Array:
        payload, places = self.tiles[number], self.tiling.places(number)
        if self.is_of_the_frame(number):
            raw = payload or bytes(places.size * self.float_type.size)
            return np.frombuffer(raw, self.float_type.word_dtype)
        return interp.decode_tile(
            payload,
            places.size,
            self.float_type,
            self.quantizer,
            mode=self.mode,
            inside=self.tiling.inside(number),
        )

    def form(self, number: int) -> Form | None:
        """Return the form of a tile; None if it has none."""
        if self.is_of_the_frame(number) or len(self.tiles[number]) == self.float_type.size:
            return None
        inside = self.tiling.inside(number)
        return interp.take_head(
            blocks.Reader(self.tiles[number]),
            len(interp_prediction.active_axes(inside.shape, self.mode)),
            self.float_type,
            are_bins=False,
        ).form


each_golden = pytest.mark.parametrize("name", GOLDEN)


@each_golden
def test_golden_payloads_are_decoded(name: str) -> None:
    golden = Golden(name)
    decoded = np.zeros_like(golden.bits)
    for number in range(golden.tiling.tile_count):
        decoded[golden.tiling.places(number)] = golden.decoded(number)
    assert zlib.crc32(decoded.tobytes()) == golden.checksum


@each_golden
def test_golden_payloads_are_written_in_the_same_form(name: str) -> None:
    golden = Golden(name)
    for number, expected in enumerate(golden.tiles):
        form = golden.form(number)
        raw = golden.bits[golden.tiling.places(number)]
        if form is not None and form.is_closed and np.isnan(raw.view(golden.dtype)[0]):
            continue  # the program knew no base but the next value's fine point
        payload = interp.encode_tile(
            raw,
            golden.float_type,
            golden.quantizer,
            golden.fill_bits,
            mode=golden.mode,
            inside=golden.tiling.inside(number),
            forms=None if form is None else [form],
        )
        if payload is None or len(payload) >= raw.nbytes:
            payload = raw.tobytes()
        assert payload == expected


def test_golden_payloads_have_everything_in_them() -> None:
    goldens = [Golden(name) for name in GOLDEN]
    heads = []
    for golden in goldens:
        for number, payload in enumerate(golden.tiles):
            form = golden.form(number)
            if form is not None:
                heads.append((form, payload[0] >> 4 & 3, payload[1] >> 4 & 3, payload[1] >> 6 & 1))
                assert not form.is_closed or payload[1] < 128
    forms, lanes, escapes, raw = zip(*heads, strict=True)
    both = {interp_prediction.INTERPOLATION, interp_prediction.LORENZO}
    assert {form.predictor for form in forms if form.is_closed} == {interp_prediction.INTERPOLATION}
    assert {form.predictor for form in forms if not form.is_fine} == both
    assert {form.predictor for form in forms if form.is_fine and not form.is_closed} == both
    assert {form.axes.bit_count() for form in forms} == {0, 1, 2, 3, 4}
    assert set(lanes) == {0, 1, 2, 3}
    assert set(escapes) == {0, 1, 2}
    assert set(raw) == {False, True}


@each_golden
def test_damaged_payloads_are_refused_or_give_values(name: str) -> None:
    golden = Golden(name)
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    for number, payload in enumerate(golden.tiles):
        if golden.form(number) is None:
            continue
        for _ in range(40 if len(payload) < 1000 else 3):
            damaged = bytearray(payload)
            damaged[int(rng.integers(len(damaged)))] ^= 1 << int(rng.integers(8))
            golden.tiles[number] = bytes(damaged[: len(damaged) - 4 * int(rng.integers(4) == 0)])
            count = golden.tiling.places(number).size
            with contextlib.suppress(Corrupt):
                assert golden.decoded(number).size == count


# ------------------------------------------------------------------------------------------------
# Tiles and passes
# ------------------------------------------------------------------------------------------------


def test_tiles_are_those_of_the_page() -> None:
    rows = re.findall(r"^\| ([\d ×]+) \| (\d+) \| ([\d ×]+) \| (\d+) \|$", PAGE, re.MULTILINE)
    assert len(rows) == 5
    for chunk, mode, tile, tiles in rows:
        shape, piece = ([int(extent) for extent in text.split(" × ")] for text in (chunk, tile))
        tiling = interp.tiling(0, FLOAT_TYPES[4], int(mode), frame._dims_of(shape, 4))
        assert tiling.tile_count == int(tiles)
        inside = tiling.inside(0)
        assert inside.shape == frame._dims_of(piece, 4)
        places = np.concatenate([tiling.places(number) for number in range(tiling.tile_count)])
        assert np.array_equal(np.sort(places), np.arange(math.prod(shape)))


def boxes() -> Iterator[tuple[Shape, int]]:
    """Yield shapes of tiles and modes."""
    lines = [(1, 1, 1, n) for n in [*range(1, 70), 255, 256, 257, 1000, 32768]]
    planes = [(1, 1, y, x) for y in range(1, 12) for x in (1, 2, 3, 5, 8, 9, 17)]
    solids = [(1, z, y, x) for z in (1, 2, 3, 6, 9) for y in (1, 2, 4, 5) for x in (2, 3, 10, 16)]
    others = [(2, 3, 4, 5), (5, 1, 3, 2), (7, 2, 1, 9), (4, 4, 4, 4), (1, 40, 40, 20)]
    for shape in lines:
        yield shape, 1
    for shape, mode in itertools.product(planes, (1, 2, 3)):
        yield shape, mode
    for shape, mode in itertools.product(solids, (1, 2, 4, 3, 5, 6, 7)):
        yield shape, mode
    for shape, mode in itertools.product(others, interp.MODES):
        yield shape, mode & 15


def test_each_value_is_visited_once() -> None:
    for shape, mode in boxes():
        first, passes = interp_prediction.passes_of(shape, mode)
        places = np.concatenate([first, *(step.places for step in passes)])
        assert places[0] == 0
        assert np.array_equal(np.sort(places), np.arange(math.prod(shape)))
    for counts in itertools.product((1, 2, 3), (1, 2, 5), (1, 4, 9), (1, 8, 33)):
        order = interp_prediction.brick_order(counts)
        assert np.array_equal(np.sort(order), np.arange(math.prod(counts)))


def test_a_row_looks_at_values_of_earlier_passes() -> None:
    for n in [*range(2, 66), 100, 129]:
        known: set[int] = {0}
        _, passes = interp_prediction.passes_of((1, 1, 1, n), 1)
        for step in passes:
            for i in step.places.tolist():
                if not step.is_top:
                    row = interp_prediction.row_of(i, n, 1 << step.level)
                    assert known >= {i + offset for offset in row.offsets}
            known |= set(step.places.tolist())


def test_the_picture_of_passes_is_right() -> None:
    [picture] = re.findall(r"^```\n(y.x .*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    rows = [line.split()[1:] for line in picture.splitlines()[1:]]
    first, passes = interp_prediction.passes_of((1, 1, 8, 8), 3)
    expected = np.full(64, "?   ")
    expected[first] = "."
    for step in passes:
        expected[step.places] = f"{step.level}" + "".join("yx"[i] for i in step.odd)
    assert np.array(rows).tolist() == expected.reshape(8, 8).tolist()


# ------------------------------------------------------------------------------------------------
# Rows and blends
# ------------------------------------------------------------------------------------------------


def lagrange(offsets: tuple[int, ...]) -> list[Fraction]:
    """Return the weights at 0 of the polynomial through values at these offsets."""
    return [
        math.prod((Fraction(-b, a - b) for b in offsets if b != a), start=Fraction(1))
        for a in offsets
    ]


def test_rows_are_polynomials_to_within_rounding() -> None:
    lengths = set()
    for n in range(3, 65):
        _, passes = interp_prediction.passes_of((1, 1, 1, n), 1)
        for step in passes:
            for i in [] if step.is_top else step.places.tolist():
                row = interp_prediction.row_of(i, n, 1 << step.level)
                assert sum(row.weights) == 16
                errors = [
                    abs(weight - 16 * exact)
                    for weight, exact in zip(row.weights, lagrange(row.offsets), strict=True)
                ]
                # All are rounded to nearest, but for the last one, which makes the sum right.
                assert max(errors[:-1]) <= Fraction(1, 2)
                assert errors[-1] <= Fraction(len(errors) - 1, 2)
                if row.offsets[-1] == 1 << step.level or len(errors) > 3:
                    assert max(errors) == 0
                lengths.add(len(errors))
    assert lengths == {2, 3, 4}


def test_blends_sum_to_16() -> None:
    for size in (1, 2, 3):
        for codes in itertools.product(range(6), repeat=size):
            for odd in itertools.chain.from_iterable(
                itertools.combinations(range(size), count) for count in range(1, size + 1)
            ):
                blend = interp_prediction.blend_of(codes, odd)
                assert sum(blend) == 16
                assert min(blend) >= 0
    assert interp_prediction.blend_of((0, 1, 5), (0, 1, 2)) == [11, 5, 0]
    assert interp_prediction.blend_of((5, 5, 0), (0, 1)) == [8, 8]
    assert interp_prediction.blend_of((5, 5, 5), (0, 1, 2)) == [6, 5, 5]


def forms_for(shape: Shape, mode: int, rng: np.random.Generator) -> Iterator[Form]:
    """Yield the predictors, each with any weights or axes."""
    active = len(interp_prediction.active_axes(shape, mode))
    for _ in range(2):
        codes = tuple(rng.integers(0, 6, active).tolist())
        yield Form(interp_prediction.INTERPOLATION, codes)
    yield Form(interp_prediction.LORENZO, axes=int(rng.integers(0, 16)))


def integers_from(changes: Array, form: Form, shape: Shape, mode: int) -> Array:
    """Return the integers of a tile from their differences to their predictions."""
    if form.predictor == interp_prediction.LORENZO:
        return interp_prediction.undo_lorenzo(changes, form.axes, shape)
    return interp_prediction.interpolate(changes, form, shape, mode)


@pytest.mark.slow
def test_predictions_move_with_the_integers() -> None:
    rng = np.random.default_rng(5)
    for shape, mode in itertools.islice(boxes(), 0, None, 7):
        for form in forms_for(shape, mode, rng):
            changes = rng.integers(-50, 51, math.prod(shape))
            q = integers_from(changes, form, shape, mode)
            for shift in (1, -77, 10**6):
                changes[0] += shift
                assert np.array_equal(integers_from(changes, form, shape, mode), q + shift)
                changes[0] -= shift


def test_lorenzo_prediction_is_that_of_the_decoder(decoder: Any) -> None:
    rng = np.random.default_rng(6)
    for shape in [(1, 1, 1, 9), (1, 1, 5, 6), (2, 3, 4, 5), (3, 1, 2, 4)]:
        q = rng.integers(-1000, 1000, math.prod(shape))
        for axes in range(16):
            head = types.SimpleNamespace(axes=decoder.axes_of(axes))
            found = decoder.lorenzo(head, shape, [], q.tolist())
            expected = [q[place] - prediction for place, prediction, _ in found]
            residuals = interp_prediction.lorenzo(q, axes, shape)
            assert residuals.tolist() == expected
            assert np.array_equal(interp_prediction.undo_lorenzo(residuals, axes, shape), q)


# ------------------------------------------------------------------------------------------------
# Values
# ------------------------------------------------------------------------------------------------


def hostile_values(float_type: FloatType, quantizer: Quantizer, rng: np.random.Generator) -> Array:
    """Return values on and near lattice points, the ends of the lattice, and special values."""
    step = pfpl.bits_to_float(quantizer.step)
    limit = interp_lattice.fine_limit(float_type)
    largest = 1 << (float_type.mantissa_bits - 2)
    g = np.concatenate([rng.integers(-limit, limit + 1, 600), [limit, -limit, limit + 1, 0, 1]])
    k = np.concatenate([rng.integers(-largest, largest, 300), [largest, largest - 1, -largest]])
    near = [-0.5, -0.499, 0.0, 0.0, 0.25, 0.5, 1.0]
    numbers = np.concatenate(
        [
            (g + rng.choice(near, g.size)) * (step / 16),
            (k + rng.choice(near, k.size)) * step,
            rng.choice([0.0, -0.0, np.nan, np.inf, -np.inf, quantizer.bound, step / 2], 60),
        ]
    )
    words = numbers.astype(float_type.float_dtype).view(float_type.word_dtype)
    return words + rng.integers(-1, 2, words.size).astype(words.dtype)


@pytest.mark.slow
@pytest.mark.parametrize("size", [4, 8])
def test_values_are_within_the_bound_in_every_form_and_stay(size: int) -> None:
    float_type = FLOAT_TYPES[size]
    rng = np.random.default_rng(size)
    for shape, mode in [((1, 1, 1, 968), 1), ((1, 8, 11, 11), 7), ((4, 2, 11, 11), 11)]:
        for bound in (0.1, 1.0, 7e-5 if size == 4 else 1e-12, 3e30):
            quantizer = quantizer_of(bound, float_type)
            bits = hostile_values(float_type, quantizer, rng)
            bits = np.sort(bits)[rng.permutation(bits.size) if bound == 1.0 else slice(None)]
            fill_bits = int(bits[bits.size // 3])
            once = None
            for form in every_form(shape, mode, rng):
                first = once
                for source in (bits, once):
                    if source is None:
                        continue
                    values = interp.values_of(source, shape, float_type, quantizer, fill_bits)
                    payload = interp.encode_form(values, form, mode)
                    if payload is None:
                        continue
                    decoded = interp.decode_tile(
                        payload.data,
                        bits.size,
                        float_type,
                        quantizer,
                        mode=mode,
                        inside=np.ones(shape, bool),
                    )
                    assert_kept(bits, decoded, float_type, bound, fill_bits)
                    if source is not bits:  # what has moved once does not move again
                        assert np.array_equal(decoded[once != bits], once[once != bits])
                    else:
                        first = decoded
                once = first


def every_form(shape: Shape, mode: int, rng: np.random.Generator) -> Iterator[Form]:
    """Yield predictors and kinds of integers, with any weights or axes."""
    for is_fine in (False, True):
        for form in forms_for(shape, mode, rng):
            yield Form(form.predictor, form.weight_codes, form.axes, is_fine)
            if is_fine and form.predictor != interp_prediction.LORENZO:
                yield Form(form.predictor, form.weight_codes, 0, is_fine, is_closed=True)


def assert_kept(
    bits: Array, decoded: Array, float_type: FloatType, bound: float, fill_bits: int
) -> None:
    """Fail unless the bound holds exactly, and values come back bit for bit where required."""
    before, after = (words.view(float_type.float_dtype) for words in (bits, decoded))
    exact = ~np.isfinite(before) | (bits == fill_bits)
    assert np.array_equal(bits[exact], decoded[exact])
    assert not np.any((decoded == fill_bits) & ~exact)
    moved = ~exact & (bits != decoded)
    for x, y in zip(before[moved].tolist(), after[moved].tolist(), strict=True):
        assert abs(Fraction(x) - Fraction(y)) <= Fraction(bound)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["<f4", "<f8", ">f4"])
@pytest.mark.parametrize("kind", [Kind.ABSOLUTE, Kind.POINTWISE_RELATIVE, Kind.RANGE_RELATIVE])
def test_frames_come_back(dtype: str, kind: Kind) -> None:
    z, y, x = np.indices((20, 50, 60))
    values = (np.sin(z / 9 + y / 13) * np.cos(x / 17) * 40 + 3).astype(dtype)
    values[3, 4:9] = np.nan
    for mode in (0, 16 | 3):
        data = frame.encode(values, kind, 1e-3, codec=interp.NUMBER, mode=mode, shape=values.shape)
        parsed = frame.parse(data)
        assert (parsed.codec, parsed.dims) == (interp.NUMBER, (1, 20, 50, 60))
        assert len(data) < values.nbytes / 2
        decoded = frame.decode(data).reshape(values.shape)
        assert np.array_equal(np.isnan(decoded), np.isnan(values))
        scale = np.abs(values) if kind == Kind.POINTWISE_RELATIVE else 1.0
        span = float(np.nanmax(values) - np.nanmin(values))
        bound = 1e-3 * span if kind == Kind.RANGE_RELATIVE else 1e-3 * scale
        assert np.nanmax(np.abs(decoded.astype("f8") - values) - bound) <= 0
        part = frame.decode_range(data, 30000, 4000)
        assert part.tobytes() == decoded.reshape(-1)[30000:34000].tobytes()


def test_a_small_bound_is_lossless() -> None:
    for float_type, exponent in ((FLOAT_TYPES[4], -121), (FLOAT_TYPES[8], -1017)):
        assert quantizer_of(2.0**exponent, float_type).kind == Kind.ABSOLUTE
        below = math.nextafter(2.0**exponent, 0.0)
        assert quantizer_of(below, float_type).kind == Kind.LOSSLESS


# ------------------------------------------------------------------------------------------------
# The coder
# ------------------------------------------------------------------------------------------------


def test_the_frequencies_of_a_table_are_of_2048() -> None:
    tables = [*interp_tables.SYMBOLS, *interp_tables.CLASSES]
    assert [len(table) for table in tables] == [5] * 8 + [17] * 16
    for row in itertools.chain.from_iterable(tables):
        assert (len(row), sum(row)) == (16, 2048)


def test_costs_are_rounded_logarithms() -> None:
    for frequency in range(1, 2049):
        expected = 16 * math.log2(2048 / frequency)
        assert abs(interp_coder.cost_of(frequency) - expected) <= 0.5


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 31, 32, 33, 1000, 32768])
def test_residuals_come_back(count: int) -> None:
    rng = np.random.default_rng(count)
    for magnitude in (0, 0.2, 1, 5, 100, 3000, 1e6, 1e12, 1e17):
        residuals = (rng.laplace(0, 1, count) * magnitude).astype("<i8")
        residuals[::50] *= 40
        for unit in (1, 16):
            units = np.full(count, unit)
            units[: count // 3] //= min(unit, 4)
            coded = interp_coder.encode_residuals(residuals)
            found = interp_coder.decode_residuals(
                coded.data, coded.head, count, units=units, dtype=np.dtype("<i8")
            )
            assert np.array_equal(found, residuals * units)


# ------------------------------------------------------------------------------------------------
# The worked example
# ------------------------------------------------------------------------------------------------


def code_blocks(heading: str) -> list[str]:
    """Return the code blocks of one section of the page."""
    [section] = re.findall(rf"^## {heading}$(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)
    return re.findall(r"^```\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)


(
    EXAMPLE, STATES, PLACES, INTEGERS, PATCHED, ROWS, GRADED, OF_GRADED, DECIMALS, PACKED, COUNTS,
    OF_COUNTS, LABELS, OF_LABELS,
) = code_blocks("Worked example")  # fmt: skip


def bytes_of(block: str) -> bytes:
    """Return the bytes at the beginning of each line."""
    return b"".join(bytes.fromhex(re.split(r"\s{2,}", line)[0]) for line in block.splitlines())


def numbers_of(block: str) -> Array:
    """Return a block of numbers."""
    return np.array([[float(word) for word in line.split()] for line in block.splitlines()])


FLOAT32 = FLOAT_TYPES[4]


def test_the_worked_example_is_right() -> None:
    golden = Golden("smooth 8x8")
    i = np.arange(8)
    a, b = (j * i * (97 - j * i) for j in (5, 7))
    values = ((a[:, None] + b) / 64).astype("<f4")
    assert values.tobytes() == golden.bits.tobytes()
    assert golden.tiles == [bytes_of(EXAMPLE)]
    step = pfpl.bits_to_float(golden.quantizer.step)
    assert f"The step is {step}, and u is {step / 16}." in PAGE
    shape = (1, 1, 8, 8)
    tile = interp.values_of(golden.bits, shape, FLOAT32, golden.quantizer)
    form = golden.form(0)
    assert form == Form(interp_prediction.INTERPOLATION, (0, 2), is_fine=True, is_closed=True)
    applied = interp.apply_form(tile, form, 3)
    assert applied.q.reshape(8, 8).tolist() == numbers_of(INTEGERS).tolist()
    first, passes = interp_prediction.passes_of(shape, 3)
    order = np.concatenate([first, *(step.places for step in passes)]).tolist()
    levels = ["-"] * first.size + [str(step.level) for step in passes for _ in step.places]
    for number, line in enumerate(PLACES.splitlines()[1:]):
        level, *words = line.replace(",", " ").split()
        y, x, parts, *prediction, d, q = map(int, words)
        place = order[number]
        assert (level, 8 * y + x) == (levels[number], place)
        assert (parts, d, q) == (tile.parts[place], applied.residuals[number], applied.q[place])
        assert parts % 64 or number == 0
        if prediction:
            assert q == prediction[0] + 16 * d
    assert (applied.residuals[number:] == 0).all()


def test_the_states_of_the_worked_example_are_right() -> None:
    decoder = interp_coder.Decoder(bytes_of(EXAMPLE)[6:], 1)
    tables: list[tuple[int, ...]] = [interp_tables.CLASSES[14][16], interp_tables.CLASSES[14][1]]
    tables += [interp_tables.SYMBOLS[3][0]] * 32
    for frequencies, line in zip(tables, STATES.splitlines()[1:], strict=False):
        before, slot, symbol, f, after, *_ = line.split()
        state = decoder._states[0]
        assert (state, state & 2047) == (int(before, 16), int(slot))
        assert decoder.symbol(0, frequencies) == int(symbol)
        assert frequencies[int(symbol)] == int(f)
        assert decoder._states[0] == int(after, 16)
    assert [decoder.symbol(0, tables[-1]) for _ in range(24)] == [0] * 24
    assert decoder.borrowed(0) == b""


def test_the_example_with_a_patch_is_right() -> None:
    golden = Golden("smooth 8x8")
    x = golden.bits.copy()
    u = pfpl.bits_to_float(golden.quantizer.step) / 16
    x[[1, 20]] = np.array([5 * u, np.nan], "<f4").view("<u4")
    assert f"number 1 is 5u = {5 * u}, and" in PAGE
    inside = np.ones((1, 1, 8, 8), bool)
    form = Form(interp_prediction.INTERPOLATION, (1, 0), is_fine=True, is_closed=True)
    payload = interp.encode_tile(x, FLOAT32, golden.quantizer, mode=3, inside=inside, forms=[form])
    assert payload == bytes_of(PATCHED)
    tile = interp.values_of(x, inside.shape, FLOAT32, golden.quantizer)
    applied = interp.apply_form(tile, form, 3)
    assert applied.q.reshape(8, 8)[1:3].tolist() == numbers_of(ROWS).tolist()
    first, passes = interp_prediction.passes_of(inside.shape, 3)
    order = np.concatenate([first, *(step.places for step in passes)]).tolist()
    [number] = np.flatnonzero(applied.patches).tolist()
    assert (order[number], applied.patches[number], applied.q[1]) == (1, -4, 5)
    assert f"So residual number {number} is patched" in PAGE
    decoded = interp.decode_tile(
        payload, 64, FLOAT32, golden.quantizer, mode=3, inside=inside
    ).view("<f4")
    assert decoded[1] == 5 * u
    assert np.flatnonzero(np.isnan(decoded)).tolist() == [20]
    assert applied.q[20] == 41


def test_the_graded_tile_of_the_page_is_right(decoder: Any) -> None:
    golden = Golden("smooth 8x8")
    values = golden.bits.view("<f4") + np.float32(150000)
    assert (values - np.float32(150000) == golden.bits.view("<f4")).all()
    encoded = h5lossy.encode(values.reshape(8, 8), Interp(absolute=8, axes=(-2, -1)))
    parsed = frame.parse(encoded)
    assert (parsed.tiles, parsed.mode) == ((bytes_of(GRADED),), 3)
    assert parsed.step == golden.quantizer.step
    inside = np.ones((1, 1, 8, 8), bool)
    form = Form(interp_prediction.INTERPOLATION, (0, 2), is_fine=True, is_closed=True)
    payload = interp.encode_tile(
        values.view("<u4"), FLOAT32, golden.quantizer, mode=3, inside=inside, forms=[form]
    )
    assert payload == bytes_of(GRADED)
    tile = interp.values_of(values.view("<u4"), inside.shape, FLOAT32, golden.quantizer)
    applied = interp.apply_form(tile, form, 3)
    assert (applied.form.grade, applied.base) == (3, 151440)
    expected = numbers_of(OF_GRADED)
    assert (applied.q.reshape(8, 8) - applied.base).tolist() == expected.tolist()
    begin, others = np.split(applied.residuals, [7])
    assert f"The residuals are {', '.join(map(str, begin))}, and then 0, but for two that" in PAGE
    assert sorted(others.tolist()) == [-1, -1, *[0] * 55]
    u = np.float32(pfpl.bits_to_float(golden.quantizer.step) / 16)
    decoded = (np.float32(151440) + expected.ravel().astype("<f4")) * u
    assert h5lossy.decode(encoded).tobytes() == decoded.tobytes()
    assert frame.decode(encoded).tobytes() == decoder.decode(encoded) == decoded.tobytes()


def test_the_decimals_of_the_page_are_decoded() -> None:
    decoded = interp.decode_tile(
        bytes_of(DECIMALS), 32, FLOAT32, Quantizer(Kind.ABSOLUTE, 0), mode=33
    )
    i = np.arange(32)
    numbers = 2000 + 5 * i * (31 - i) // 6 + (i % 3 == 1)
    assert decoded.view("<f4").tolist() == (numbers / 100).astype("<f4").tolist()
    assert f"The first integers are {', '.join(map(str, numbers[:3]))} and {numbers[3]}" in PAGE


def test_the_packed_values_of_the_page_are_decoded() -> None:
    payload = bytes_of(PACKED)
    decoded = interp.decode_tile(payload, 32, FLOAT_TYPES[8], Quantizer(Kind.ABSOLUTE, 0), mode=33)
    i = np.arange(32)
    numbers = 5 * i * (31 - i) // 6 + (i % 3 == 1) - 32765
    values = (numbers * 0.01 + 500.1).tolist()
    assert decoded.view("<f8").tolist() == values
    encoded = h5lossy.encode(np.array(values), Interp(absolute=0.004, axes=(-1,)))
    assert frame.parse(encoded).tiles == (payload,)
    first = [", ".join(map(str, some[:3])) + f" and {some[3]}" for some in (numbers, values)]
    said = f"The first integers are {first[0]}, and the values {first[1]}: ".replace(" -", " −")
    assert said in PAGE


@pytest.mark.parametrize(
    "d", [0.0, -0.0, np.nan, np.inf, -np.inf, -1e300, -0.1], ids=lambda d: f"D {d}"
)
def test_a_lattice_of_no_numbers_of_the_type_is_refused(d: float) -> None:
    payload = bytearray(bytes_of(DECIMALS))
    payload[6:14] = struct.pack("<d", d)
    with pytest.raises(Corrupt, match="own lattice"):
        interp.decode_tile(bytes(payload), 32, FLOAT32, Quantizer(Kind.ABSOLUTE, 0), mode=33)
    i = np.arange(32)
    values = (2000 + 5 * i * (31 - i) // 6 + (i % 3 == 1)) / 100
    encoded = h5lossy.encode(values.astype("<f4"), Interp(absolute=0.004, axes=(-1,)))
    parsed = frame.parse(encoded)
    assert parsed.tiles == (bytes_of(DECIMALS),)
    broken = frame.build(dataclasses.replace(parsed, tiles=(bytes(payload),)))
    with pytest.raises(h5lossy.CorruptFrameError, match="tile 0"):
        h5lossy.decode(broken)


@pytest.mark.parametrize("predictor", [0, 2])
def test_a_table_of_the_tiles_own_takes_16_lanes(predictor: int) -> None:
    golden = Golden("smooth 8x8")
    [payload] = golden.tiles
    golden.tiles[0] = bytes([payload[0] & ~3 | predictor, *payload[1:]])
    with pytest.raises(Corrupt):
        golden.decoded(0)
