# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Frames of the past are still read, and their values are still encoded to the same bytes."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING

import pytest

import golden
import h5lossy
from checks import assert_kept
from golden.__main__ import add
from h5lossy import _native
from matrix import BOUNDS, CODEC_NAMES, NOT_IN_AUTO, SOME_CHOICES
from reference import frame as reference

if TYPE_CHECKING:
    from pathlib import Path

GOLDEN = golden.load()

each = pytest.mark.parametrize("frame", GOLDEN, ids=str)


@each
def test_a_frame_of_the_past_is_read_as_ever(frame: golden.Golden) -> None:
    decoded = h5lossy.decode(frame.frame)
    assert golden.digest(decoded) == frame.holds["decoded_sha256"]
    assert golden.contents(frame.frame) == {
        key: value for key, value in frame.holds.items() if key != "input_sha256"
    }
    assert golden.digest(reference.decode(frame.frame)) == frame.holds["decoded_sha256"]
    third = decoded.size // 3
    for start, stop in ((0, third), (third, decoded.size), (decoded.size, decoded.size)):
        part = h5lossy.decode(frame.frame, start, stop)
        assert part.tobytes() == decoded[start:stop].tobytes()


@each
def test_the_values_of_the_past_are_written_to_the_same_frame_and_kept(
    frame: golden.Golden,
) -> None:
    values = frame.recipe.make_values()
    assert golden.digest(values) == frame.holds["input_sha256"], "a piece was changed"
    assert frame.recipe.encode() == frame.frame
    decoded = h5lossy.decode(frame.frame)
    if frame.recipe.dtype == "u1":
        assert decoded.tobytes() == values.tobytes()
    else:
        fill_value, maybe_padded = frame.recipe.fill_value(), frame.recipe.maybe_padded
        bound = frame.recipe.bound
        assert_kept(values, decoded, bound, fill_value, maybe_padded=maybe_padded)
    # As other machines do it, which have no Python.
    assert _native.encode(frame.recipe.params(), values) == frame.frame
    case = frame.recipe.case()
    assert case.endswith(values.tobytes() + decoded.tobytes() + frame.frame)


@pytest.mark.parametrize("codec_name", CODEC_NAMES.values())
@pytest.mark.parametrize("kind", BOUNDS)
@pytest.mark.parametrize("float_type", ["<f4", "<f8"])
def test_every_codec_has_frames_of_each_kind_and_type(
    codec_name: str, kind: str, float_type: str
) -> None:
    found = [
        frame.name
        for frame in GOLDEN
        if frame.name.startswith(f"{codec_name}-")
        # PFPL is what every codec uses where lossless was asked for.
        and (kind == "lossless" or frame.holds["codec"] == codec_name)
        and frame.holds["bound"].startswith(kind)
        and frame.recipe.dtype == float_type
    ]
    assert found, f"make some, with recipes: python -m tests.golden add {codec_name}-..."


def test_every_mode_of_every_codec_has_a_frame() -> None:
    for cls in (golden.CLASSES[codec_name] for codec_name in CODEC_NAMES.values()):
        own = cls.choices()
        choices = (SOME_CHOICES.get(field.name, field.metadata["choices"]) for field in own)
        for values in itertools.product(*choices):
            if "auto" in values:  # no frame says so
                continue
            chosen = {
                field.name: list(value) if isinstance(value, tuple) else value
                for field, value in zip(own, values, strict=True)
            }
            assert any(
                frame.holds["codec"] == cls.codec_name and frame.holds.get("settings", {}) == chosen
                for frame in GOLDEN
            ), f"{cls.codec_name} {chosen}"


def test_auto_has_frames_of_every_codec() -> None:
    found = {frame.holds["codec"] for frame in GOLDEN if frame.recipe.codec == "auto"}
    assert found == set(CODEC_NAMES.values()) - NOT_IN_AUTO


def test_every_frame_belongs_to_a_codec_and_has_a_description() -> None:
    frames = {path.stem for path in golden.FOLDER.glob("*.frame")}
    assert frames == {path.stem for path in golden.FOLDER.glob("*.json")}
    assert {path.suffix for path in golden.FOLDER.iterdir()} == {".frame", ".json"}
    assert all(frame.name.split("-")[0] == frame.recipe.codec for frame in GOLDEN)


def test_golden_frames_stay_small() -> None:
    assert sum(path.stat().st_size for path in golden.FOLDER.iterdir()) < 700_000


def test_a_golden_frame_is_made_once_only(tmp_path: Path) -> None:
    recipe = tmp_path / "pfpl-part-f4.json"
    [before] = [frame for frame in GOLDEN if frame.name == recipe.stem]
    with pytest.raises(SystemExit, match=r"no recipe for pfpl-part-f4: write one to .*\.json"):
        add(recipe.stem, tmp_path)
    assert not list(tmp_path.iterdir())
    made_of = json.loads((golden.FOLDER / recipe.name).read_text(encoding="utf-8"))["made_of"]
    recipe.write_text(json.dumps({"made_of": made_of}), encoding="utf-8")
    add(recipe.stem, tmp_path)
    assert golden.load(tmp_path) == [before]
    with pytest.raises(SystemExit, match=r"pfpl-part-f4\.frame exists, and what is golden"):
        add(recipe.stem, tmp_path)
