# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""What is tested: codecs and backends as listed by the library, bounds, types, real fields.

A new codec or backend is tested without any change here.
"""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest

import h5lossy
from checks import assert_same_bits
from h5lossy import _native
from h5lossy._codecs import CODECS, Codec, choice_text

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator


def slow_but(values: Iterable[Any], quick: Collection[Any]) -> list[Any]:
    """Return the values of a parameter; all except these are only for slow tests."""
    return [v if v in quick else pytest.param(v, marks=pytest.mark.slow) for v in values]


DECODER = Path(__file__).parents[1] / "docs" / "format" / "decoder.py"
"""The decoder next to the format's pages."""

CODEC_NAMES: dict[int, str] = {
    number: codec_name
    for number in range(1, 256)  # a frame's codec is a byte; 0 is stored
    if (codec_name := _native.codec_name(number)) is not None
}
"""The codecs of this build's frames, by number."""


SOME_CHOICES: dict[str, list[Any]] = {"axes": ["auto", (-1,), (-3, -2), (-3, -2, -1), (-4, -1)]}
"""For a field with many choices, those that represent all of them."""


def _name_of(field: Any, value: Any) -> str:
    if isinstance(value, bool):
        return field.name if value else ""
    return choice_text(value).replace("-", "").replace(",", "")


def _settings() -> Iterator[tuple[str, Callable[..., Codec]]]:
    for cls in CODECS.values():
        fields = cls.choices()
        choices = (SOME_CHOICES.get(own.name, own.metadata["choices"]) for own in fields)
        for values in itertools.product(*choices):
            chosen = {field.name: value for field, value in zip(fields, values, strict=True)}
            names = [cls.codec_name, *map(_name_of, fields, values)]
            yield "-".join(filter(None, names)), functools.partial(cls, **chosen)


SETTINGS: dict[str, Callable[..., Codec]] = dict(_settings())
"""Every codec in every mode (see `SOME_CHOICES`), auto included: each is called with a bound."""


def _on_gpu(*, decode: bool) -> dict[str, Callable[..., Codec]]:
    def is_there(codec: Codec) -> bool:
        return _native.has_kernels(codec.params(), decode=decode)

    return {name: make for name, make in SETTINGS.items() if is_there(make(lossless=True))}


KERNEL_SETTINGS: dict[str, Callable[..., Codec]] = _on_gpu(decode=False)
"""Those of these modes that GPUs encode."""

DECODED_SETTINGS: dict[str, Callable[..., Codec]] = _on_gpu(decode=True)
"""Those of these modes whose frames GPUs decode."""

EXAMPLES: dict[str, Callable[..., Codec]] = {
    name: make
    for name, make in SETTINGS.items()
    if name == "cuszp2-plain-3"
    or (not name.startswith("auto-") and make(lossless=True).params().mode == 0)
}
"""Each codec in its default mode, and cuSZp2 in a mode that has nothing in common with it.

For properties that are the same in all modes: tests/native has all modes. Codec auto is not
included, since its frames are those of another codec (test_auto.py).
"""


def codec_options(codec: Codec) -> list[str]:
    """Return the options that select a codec and its own settings."""
    chosen: list[str] = []
    for own in codec.choices():
        option, value = f"--{own.name.replace('_', '-')}", getattr(codec, own.name)
        if isinstance(value, bool):
            chosen += [option] if value else []
        else:
            chosen += [option, choice_text(value)]
    return ["--codec", codec.codec_name, *chosen]


FRAMES_MAY_CHANGE = {"interp"}
"""Codecs that promise only that decoded values are encoded to the same values, not frames."""


def frames_may_change(codec: Codec) -> bool:
    """Return whether a setting promises only this; so does auto if it may pick such a codec."""
    return codec.codec_name in FRAMES_MAY_CHANGE or getattr(codec, "prefer", None) == "size"


def assert_stays(frame: bytes, codec: Codec, shape: tuple[int, ...], fill_value: Any) -> None:
    """Fail unless the values of a frame are encoded to the same values, or to the same frame."""
    decoded = h5lossy.decode(frame, shape=shape)
    again = h5lossy.encode(decoded, codec, fill_value=fill_value)
    assert_same_bits(h5lossy.decode(again), decoded.reshape(-1))
    is_same = again == frame  # pytest would take minutes to say where long frames differ
    assert is_same or frames_may_change(codec)


NOT_IN_AUTO = {"interp"}
"""Codecs that codec auto tries for size only."""

SMALLEST_BOUNDS = {"interp": 32.0}
"""The smallest bounds that have bins, in smallest normal numbers of the type, if not 1."""

FEWER_BINS = {"interp"}
"""Codecs whose bins end at half the value where those of others end."""

BACKENDS: list[str] = [backend for backend, usable in _native.backends().items() if usable]
"""The backends that this machine can run, best first."""

BOUNDS: dict[str, dict[str, Any]] = {
    "absolute": {"absolute": 1e-3},
    "pointwise_relative": {"pointwise_relative": 1e-3},
    "range_relative": {"range_relative": 1e-3},
    "lossless": {"lossless": True},
}
"""One bound of each kind, as arguments of a codec."""

FLOATS = ["<f4", "<f8"]
"""The types that a codec sees."""

DTYPES = ["<f4", ">f4", "<f8", ">f8"]
"""The types of values that are encoded; no codec sees the byte order (test_byte_order.py)."""


# ------------------------------------------------------------------------------------------------
# Real fields
# ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Field:
    """A real field: a dataset of a file in H5LOSSY_CORPUS."""

    path: Path
    name: str

    def __str__(self) -> str:
        return f"{self.path.stem}:{self.name}"

    def read(self) -> tuple[np.ndarray[Any, Any], Any]:
        """Return the values, and the fill value where there is one that is not NaN."""
        with h5py.File(self.path) as file:
            dataset = file[self.name]
            fill_value = dataset.attrs.get("fill_value")
            values = dataset[...]
        if fill_value is None or np.isnan(fill_value):
            return values, None
        return values, values.dtype.type(fill_value)


def corpus_fields(folder: Path) -> list[Field]:
    """List the fields in a folder of HDF5 files, in groups or not."""
    fields: list[Field] = []
    for path in sorted(folder.glob("*.h5")):
        names: list[str] = []
        with h5py.File(path) as file:
            file.visit(names.append)
            fields.extend(Field(path, name) for name in names if _is_field(file[name]))
    return fields


def _is_field(item: Any) -> bool:
    if not isinstance(item, h5py.Dataset):
        return False
    return item.dtype.kind == "f" and item.dtype.itemsize in {4, 8} and bool(item.size)
