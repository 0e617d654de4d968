# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""`Assessor`: planes that arrive one after the other, in any number of processes."""

from __future__ import annotations

import itertools
import pickle
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from h5lossy import Assessor, InvalidArgumentError, assess
from reports import assert_same, numbers_of

OPTIONS: dict[str, Any] = {
    "absolute": 0.005,
    "data_range": 8.0,
    "threshold_crossings": {"zero": 0.0},
}


def pair(shape: tuple[int, ...], kind: str = "f4") -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(len(shape))
    x = rng.normal(size=shape).cumsum(axis=-1).astype(kind)
    return x, (x + rng.uniform(-0.01, 0.01, size=shape)).astype(kind)


@settings(max_examples=60, deadline=None)
@given(
    st.data(),
    st.sampled_from([(23,), (20_000,), (40, 30), (33, 300), (12, 9, 10), (1, 9, 10), (9, 3, 8, 9)]),
    st.sampled_from(["f4", "f8"]),
)
def test_it_finds_what_assess_finds_bit_for_bit(
    data: st.DataObject, shape: tuple[int, ...], kind: str
) -> None:
    x, y = pair(shape, kind)
    mask = None
    if data.draw(st.booleans()):
        mask = np.zeros(shape, bool)
        mask.reshape(-1)[:: data.draw(st.integers(2, 9))] = True
    groups = ["ssim", "derivatives", "autocorrelation"]
    whole = assess(x, y, metrics=groups, mask=mask, **OPTIONS)
    cuts = sorted(data.draw(st.sets(st.integers(1, shape[0]), max_size=6)) | {shape[0]})
    assessor = Assessor(shape, kind, **OPTIONS)
    for a, b in itertools.pairwise([0, *cuts]):
        assessor.update(x[a:b], y[a:b], mask=None if mask is None else mask[a:b])
        if data.draw(st.booleans()):
            assessor = pickle.loads(pickle.dumps(assessor))
    assert numbers_of(assessor.result()) == numbers_of(whole)
    assert assessor.result().bound == whole.bound


@pytest.mark.parametrize("shape", [(50, 40), (24, 12, 13), (10, 4, 9, 8)], ids=str)
@pytest.mark.parametrize("ranks", [2, 3, 5])
def test_processes_put_their_parts_together(shape: tuple[int, ...], ranks: int) -> None:
    x, y = pair(shape)
    y[-1] += 1
    borders = np.linspace(0, shape[0], ranks + 1).astype(int).tolist()
    parts = []
    for first, stop in itertools.pairwise(borders):
        part = Assessor(shape, "f4", planes=(first, stop), **OPTIONS)
        begin, end = part.wanted
        assert begin == first
        assert end == min(stop + part.halo, shape[0])
        part.update(x[begin:end], y[begin:end])
        parts.append(pickle.loads(pickle.dumps(part)))
    last = parts.pop()
    for part in parts:
        last.merge(part)
    whole = assess(x, y, metrics=["ssim", "derivatives", "autocorrelation"], **OPTIONS)
    assert_same(last.result(), whole)
    assert last.result().bound == whole.bound


def test_it_may_be_sent_in_buffers_at_any_address() -> None:
    x, y = pair((40, 30))
    mine, other = (
        Assessor(x.shape, "f4", planes=planes, **OPTIONS) for planes in ((0, 20), (20, 40))
    )
    for one in (mine, other):
        planes = slice(*one.wanted)
        one.update(x[planes], y[planes])
    buffers: list[pickle.PickleBuffer] = []
    sent = pickle.dumps(other, protocol=5, buffer_callback=buffers.append)
    unaligned = [memoryview(b"." + buffer.raw())[1:] for buffer in buffers]
    mine.merge(pickle.loads(sent, buffers=unaligned))
    assert mine.result().points == x.size


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)], ids=str)
def test_what_is_not_valid_in_the_planes_of_another_process_is_known(order: Any) -> None:
    x, y = pair((30, 12, 13))
    y[10, 5, 6] = np.nan  # the first of the second process, which the first one reaches into
    mask = np.zeros(x.shape, bool)
    mask[21, 5, 6] = True
    parts = []
    for first in (0, 10, 20):
        part = Assessor(x.shape, "f4", planes=(first, first + 10), **OPTIONS)
        begin, end = part.wanted
        for a in range(begin, end, 4):
            b = min(a + 4, end)
            part.update(x[a:b], y[a:b], mask=mask[a:b])
        parts.append(pickle.loads(pickle.dumps(part)))
    found = parts[order[0]]
    for other in order[1:]:
        found.merge(parts[other])
    mine = found.result()
    theirs = assess(x, y, mask=mask, metrics=["ssim", "derivatives", "autocorrelation"], **OPTIONS)
    assert (mine.points, mine.valid, mine.masked) == (x.size, x.size - 2, 1)
    assert_same(mine, theirs)


def test_a_range_relative_bound_takes_the_range_that_is_given() -> None:
    x, y = pair((20, 30))
    assessor = Assessor(x.shape, x.dtype, range_relative=1e-3, data_range=2.0)
    assessor.update(x, y)
    report = assessor.result()
    assert report.bound.limit == pytest.approx(2e-3)
    over = np.abs(y.astype(float) - x) > report.bound.limit
    assert report.bound.violations == over.sum()


def test_what_it_cannot_do_is_said() -> None:
    x, y = pair((20, 30))
    for arguments, text in (
        ({"metrics": "climate"}, "whole fields"),
        ({"metrics": "standard"}, "whole fields"),
        ({"metrics": ["ssim"]}, "data_range"),
        ({"range_relative": 0.1}, "data_range"),
        ({"planes": (5, 30)}, "planes"),
        ({"planes": (5, 5)}, "planes"),
        ({"fill_value": "none"}, "fill_value must be a number"),
        ({"absolute": 1.0, "lossless": True}, "one bound"),
    ):
        with pytest.raises(InvalidArgumentError, match=text):
            Assessor(x.shape, x.dtype, **arguments)
    with pytest.raises(InvalidArgumentError, match="not object"):
        Assessor(x.shape, "O")
    with pytest.raises(InvalidArgumentError, match="compares complex64, got float32"):
        Assessor(x.shape, "c8").update(x, y)
    with pytest.raises(InvalidArgumentError, match="this assessor compares int64, got float64"):
        Assessor(x.shape, "i8").update(x.astype("f8"), x.astype("f8"))
    with pytest.raises(InvalidArgumentError, match="shape"):
        Assessor((3, 0), "f4")
    assessor = Assessor(x.shape, x.dtype)
    with pytest.raises(InvalidArgumentError, match="0 to 20 are still to come"):
        assessor.result()
    with pytest.raises(InvalidArgumentError, match="are of shape"):
        assessor.update(x[:, 1:], y[:, 1:])
    with pytest.raises(InvalidArgumentError, match="compares float32"):
        assessor.update(x.astype(float), y)
    with pytest.raises(InvalidArgumentError, match="mask"):
        assessor.update(x, y, mask=np.zeros(3, bool))
    with pytest.raises(InvalidArgumentError, match="mask must be of bool or integers"):
        assessor.update(x, y, mask=np.full(x.shape, 0.5))
    assessor.update(x, y)
    with pytest.raises(InvalidArgumentError, match="still to come, got 1"):
        assessor.update(x[:1], y[:1])
    with pytest.raises(InvalidArgumentError, match="same arguments"):
        assessor.merge(Assessor(x.shape, "f8"))
    with pytest.raises(InvalidArgumentError, match="still to come"):
        assessor.merge(Assessor(x.shape, "f4"))
    with pytest.raises(InvalidArgumentError, match="both assessors took some planes: 600 and 600"):
        assessor.merge(assessor)


def test_positions_are_of_64_bits() -> None:
    first = 2**32 + 4096 * 5
    x = np.zeros(9000 + 15, np.float32)
    y = x.copy()
    y[7001] = 1
    assessor = Assessor((2**33,), "f4", planes=(first, first + 9000), lags=15, **OPTIONS)
    assessor.update(x, y)
    report = assessor.result()
    assert report.points == 9000
    assert report.error.max_at == (first + 7001,)
    assert [v.at for v in report.bound.listed] == [(first + 7001,)]
    assert first + 7001 - 6 <= report.ssim.min_at[0] <= first + 7001


@pytest.mark.slow
def test_more_points_than_32_bits_count() -> None:
    class Field:
        """Zeros, and a few values near the end, without ever being in memory as a whole."""

        shape = (4160, 1024, 512)
        dtype = np.dtype(np.float32)

        def __init__(self, spike: float) -> None:
            self.spike = spike

        def __getitem__(self, selection: tuple[slice, ...]) -> np.ndarray:
            planes = selection[0]
            part = np.zeros((planes.stop - planes.start, *self.shape[1:]), np.float32)
            if planes.start <= 4159 < planes.stop:
                part[4159 - planes.start, 1023, 464:] = self.spike
            return part

    report = assess(Field(0.0), Field(2.0), absolute=1.0, metrics="bound")
    assert report.points == report.valid == 4160 * 1024 * 512 > 2**31
    assert report.error.max_at == (4159, 1023, 464)
    assert report.bound.violations == 48
    assert report.error.mean == pytest.approx(2 * 48 / report.points, rel=1e-12)
    assert report.histogram.counts[128] == report.points - 48
