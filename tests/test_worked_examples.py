# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""The worked examples: library, reference and pages of docs/format agree byte for byte.

They are in worked_examples.json, which tests/native/worked_examples_come_out.cpp reads, too. What
a page prints of them, and every step on the way, is read out of the page itself.
"""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import h5lossy
from checks import assert_kept, assert_same_bits, pattern
from h5lossy import PFPL, _native
from h5lossy._codecs import CODECS, Codec
from matrix import frames_may_change
from reference import blocks, cuszp2
from reference import frame as frames
from reference import pfpl as reference
from reference.common import FLOAT_TYPES, Kind, Quantizer
from reference_frames import frame_of_reference

FORMAT = Path(__file__).parents[1] / "docs" / "format"

EXAMPLES: dict[str, dict[str, Any]] = {
    example["name"]: example
    for example in json.loads(Path(__file__).with_name("worked_examples.json").read_text())
}
each_example = pytest.mark.parametrize("name", EXAMPLES)


def values_of(name: str) -> np.ndarray:
    """Return the values of an example; null stands for NaN."""
    example = EXAMPLES[name]
    return np.array(example["values"], "<f4").reshape(example["shape"])


def frame_of(name: str) -> bytes:
    """Return the frame of an example."""
    return bytes.fromhex(EXAMPLES[name]["frame"])


def codec_of(example: dict[str, Any]) -> Codec:
    """Return the codec of an example, with its bound."""
    params = _native.Params(
        codec=example["codec"], mode=example["mode"], bound_kind=0, bound=example["bound"]
    )
    return CODECS[params.codec].from_params(params)


def payload_of(name: str) -> bytes:
    """Return the payload of an example's only tile."""
    [payload] = frames.parse(frame_of(name)).tiles
    return payload


@each_example
def test_the_library_writes_and_reads_it(name: str) -> None:
    example, values = EXAMPLES[name], values_of(name)
    frame = h5lossy.encode(values, codec_of(example), fill_value=example["fill"])
    assert frame == frame_of(name)
    decoded = h5lossy.decode(frame, shape=values.shape)
    assert_kept(values, decoded, {"absolute": example["bound"]}, fill_of(example))


@each_example
def test_the_reference_writes_and_reads_it(name: str) -> None:
    example, values = EXAMPLES[name], values_of(name)
    codec = codec_of(example)
    frame = frame_of_reference(values, codec, fill_of(example))
    if not frames_may_change(codec):
        assert frame == frame_of(name)
    for one in (frame, frame_of(name)):
        assert_same_bits(frames.decode(one), h5lossy.decode(one))


def fill_of(example: dict[str, Any]) -> Any:
    return None if example["fill"] is None else np.float32(example["fill"])


# ------------------------------------------------------------------------------------------------
# The pages
# ------------------------------------------------------------------------------------------------


def code_blocks(page: str, heading: str) -> list[str]:
    """Return the code blocks of one section of a page."""
    text = (FORMAT / page).read_text(encoding="utf-8")
    [section] = re.findall(rf"^## {heading}$(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
    return re.findall(r"^```\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)


def hex_dump(block: str) -> bytes:
    """Return the bytes of a dump: an offset, the bytes in hex, remarks behind wide space."""
    data = b""
    for line in block.splitlines():
        offset, digits, *_ = re.split(r"\s{2,}", line.strip())
        assert int(offset, 16) == len(data), f"wrong offset in {line!r}"
        data += bytes.fromhex(digits)
    return data


def number_rows(block: str) -> dict[str, list[float]]:
    """Return rows such as "q   0 1 2 | -1 x8" as numbers by name."""
    rows = {}
    for line in block.splitlines():
        name, *words = line.replace("|", " ").split()
        numbers: list[float] = []
        for word in words:
            if re.fullmatch(r"x\d+", word):
                numbers += numbers[-1:] * (int(word[1:]) - 1)
            else:
                numbers.append(float(word))
        rows[name] = numbers
    return rows


CODED, STORED = frame_of("PFPL"), frame_of("PFPL, stored")
TABLE, PLANES, PAYLOAD = code_blocks("pfpl.md", "Worked example")
ROWS = number_rows(TABLE)
VALUES = np.array(ROWS["x"], "<f4")


def words(name: str) -> np.ndarray:
    """Return a row of the table as 32-bit words."""
    return np.array(ROWS[name]).astype("<i4").view("<u4")


def test_the_frames_are_those_of_the_page() -> None:
    assert [*map(hex_dump, code_blocks("frame.md", "Worked example"))] == [CODED, STORED]
    assert VALUES.tolist() == values_of("PFPL").tolist()


def test_the_coded_frame_is_read_as_the_page_says() -> None:
    info = h5lossy.inspect(CODED)
    assert (info.codec, str(info.bound), info.count) == ("pfpl", "absolute 0.01", 32)
    expected = np.array(ROWS["q"], "<f4") * np.float32(info.step)
    assert h5lossy.decode(CODED).tobytes() == expected.tobytes()


def test_the_remarks_beside_the_frame_are_true() -> None:
    [block, _] = code_blocks("frame.md", "Worked example")
    [(header_sum, payload_sum, step, end)] = re.findall(
        r"header_sum (\w+); payload_sum (\w+);.*step ([\d.]+); tile 0 ends at (\d+)",
        block,
        re.DOTALL,
    )
    assert struct.unpack_from("<2I", CODED, 16) == (int(header_sum, 16), int(payload_sum, 16))
    assert struct.unpack_from("<d", CODED, 32) == (float(step),)
    assert struct.unpack_from("<I", CODED, 40) == (int(end),)
    assert len(CODED) == 44 + int(end)


def test_the_payload_is_that_of_the_frame() -> None:
    payload = bytes.fromhex(PAYLOAD.replace("|", " "))
    assert payload == CODED[44:]


def test_the_rows_follow_from_each_other() -> None:
    q, w = np.array(ROWS["q"], np.int64), np.array(ROWS["w"], np.int64)
    assert np.where(q < 0, -2 * q - 1, 2 * q).tolist() == w.tolist()
    assert np.diff(w, prepend=0).tolist() == ROWS["d"]
    assert reference.to_differences(words("w")).tolist() == words("n").tolist()


def test_the_planes_are_those_of_the_row() -> None:
    planes = np.frombuffer(reference.to_planes(words("n")), "<u4")
    written = {int(j): int(word, 16) for j, word in re.findall(r"(\d+) ([0-9a-f]{8})", PLANES)}
    assert {j: int(plane) for j, plane in enumerate(planes) if plane} == written


def test_the_short_payload_beside_the_stored_frame_is_right() -> None:
    text = (FORMAT / "frame.md").read_text(encoding="utf-8")
    [(count, digits)] = re.findall(r"payload would have (\d+) bytes \(`([0-9a-f ]+)`\)", text)
    payload = bytes.fromhex(digits)
    assert len(payload) == int(count)
    step = struct.unpack_from("<Q", CODED, 32)[0]
    bits = np.array([1.5], "<f4").view("<u4")
    quantizer = Quantizer(Kind.ABSOLUTE, step)
    assert reference.encode_tile(bits, FLOAT_TYPES[4], quantizer) == payload


# ------------------------------------------------------------------------------------------------
# The block codecs
# ------------------------------------------------------------------------------------------------

CUSZP2 = code_blocks("cuszp2.md", "Worked example")
AATROX_PAGE = code_blocks("aatrox.md", "Worked example")


def hex_lines(block: str) -> bytes:
    """Return the bytes of lines in hex, with remarks behind wide space."""
    lines = [re.split(r"\s{3,}", line.replace(" | ", " "))[0] for line in block.splitlines()]
    return bytes.fromhex(" ".join(lines))


def integer_rows(block: str) -> dict[str, np.ndarray]:
    """Return rows of numbers by name, where lines without a name go on with the row above."""
    rows: dict[str, list[int]] = {}
    name = ""
    for line in block.splitlines():
        name = line[0].strip() or name
        rows.setdefault(name, []).extend(map(int, line[1:].replace("|", " ").split()))
    return {name: np.array(numbers) for name, numbers in rows.items()}


def test_the_rows_of_the_block_codecs_follow_from_each_other() -> None:
    ours, theirs = integer_rows(CUSZP2[0]), integer_rows(AATROX_PAGE[0])
    assert ours["q"].size == 32
    assert ours["q"].tolist() == theirs["q"].tolist() == values_of("AATROX").tolist()
    assert np.diff(ours["q"], prepend=0).tolist() == ours["d"].tolist()
    assert np.diff(ours["q"], prepend=100).tolist() == theirs["d"].tolist()


def test_the_payloads_are_those_of_the_pages() -> None:
    plain, outlier = (line.split(maxsplit=1) for line in CUSZP2[1].splitlines())
    assert (plain[0], outlier[0]) == ("plain", "outlier")
    assert payload_of("cuSZp2, plain") == bytes.fromhex(plain[1].replace("|", " "))
    assert payload_of("cuSZp2, outlier") == bytes.fromhex(outlier[1].replace("|", " "))
    assert payload_of("AATROX") == hex_lines(AATROX_PAGE[1])
    assert payload_of("cuSZp2, exceptions") == hex_lines(CUSZP2[2])
    assert payload_of("AATROX, exceptions") == hex_lines(AATROX_PAGE[2])


def test_the_two_dimensional_frame_is_that_of_the_page() -> None:
    rows, data = integer_rows(CUSZP2[3]), hex_dump(CUSZP2[4])
    assert data == frame_of("cuSZp2, two dimensions")
    # A row of the chunk is a line of the table; the last two columns are block 1.
    assert rows["q"].tolist() == values_of("cuSZp2, two dimensions").reshape(-1).tolist()
    fields = frames.parse(data)
    inside = fields.tiling.inside(0)
    assert (~inside).sum(axis=1).tolist() == [40, 58]
    q = np.zeros(inside.shape, int)
    q[inside] = rows["q"][fields.tiling.places(0)]
    d = cuszp2.to_differences(q, fields.mode, inside)
    assert d[inside].tolist() == rows["d"][fields.tiling.places(0)].tolist()


def test_the_remarks_beside_the_two_dimensional_frame_are_true() -> None:
    data = hex_dump(CUSZP2[4])
    [(header_sum, payload_sum, step, z, y, x, end)] = re.findall(
        r"header_sum (\w+); payload_sum (\w+);.*step (\d+)$"
        r".*dims (\d+), (\d+), (\d+)$.*tile 0 ends at (\d+)$",
        CUSZP2[4],
        re.DOTALL | re.MULTILINE,
    )
    assert struct.unpack_from("<2I", data, 16) == (int(header_sum, 16), int(payload_sum, 16))
    assert struct.unpack_from("<d3II", data, 32) == tuple(map(int, (step, z, y, x, end)))
    assert len(data) == 56 + int(end)


def test_the_remarks_beside_the_exceptions_are_true() -> None:
    inside = blocks.consecutive_inside(64)
    bits = values_of("AATROX, exceptions").view("<u4").reshape(inside.shape)
    is_exception = np.isnan(bits.view("<f4")) | (bits == pattern(-999.0, "<f4"))
    section = blocks.pack_exceptions(bits, is_exception, inside)
    for page in (CUSZP2, AATROX_PAGE):
        [masked] = re.findall(r"mask of block 0: values (\d+), (\d+)$", page[2], re.MULTILINE)
        assert np.flatnonzero(is_exception[0]).tolist() == list(map(int, masked))
        assert section in hex_lines(page[2])


# ------------------------------------------------------------------------------------------------
# cd_values
# ------------------------------------------------------------------------------------------------

CD_VALUES = (FORMAT / "cd_values.md").read_text(encoding="utf-8")


def numbers_in(text: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", text)))


def test_the_cd_values_of_a_bound_are_those_of_the_page() -> None:
    options = PFPL(absolute=0.001).filter_options
    [h5py_form] = re.findall(r"compression=46412, compression_opts=\(([^)]*)\)", CD_VALUES)
    assert numbers_in(h5py_form) == options
    [h5repack_form] = re.findall(r"UD=46412,1,(\d+),([\d,]+)'", CD_VALUES)
    assert int(h5repack_form[0]) == len(options)
    assert numbers_in(h5repack_form[1]) == options
    [bits] = re.findall(r"0\.001 is `0x([0-9A-F]{16})`", CD_VALUES)
    assert int(bits, 16) == struct.unpack("<Q", struct.pack("<d", 0.001))[0]


def test_the_stored_cd_values_are_those_of_the_page() -> None:
    [block] = re.findall(r"^```\n(.*?)^```$", CD_VALUES, re.DOTALL | re.MULTILINE)
    stored = numbers_in(block.splitlines()[0])
    fill = np.array([-999.0], "<f4").view("<u4")[0]
    params = _native.Params(
        codec=1,
        bound_kind=_native.BOUND_ABSOLUTE,
        bound=0.001,
        value_bytes=4,
        fill_bits=int(fill),
        shape=(100, 200),
    )
    assert _native.pack_cd_values(params) == stored
    assert _native.unpack_cd_values(stored) == params
    assert re.findall(r"0x[0-9A-F]{8}", block) == [f"0x{stored[5]:08X}", f"0x{stored[14]:08X}"]


@pytest.mark.parametrize(("tool", "form"), [("nccopy", "0.001d"), ("ncgen", "0.001d")])
def test_netcdf_takes_the_bound_as_a_double(tool: str, form: str) -> None:
    [line] = [line for line in CD_VALUES.splitlines() if line.startswith(f"| {tool}")]
    [words] = re.findall(r"46412,([^'\"]*)['\"]", line)
    codec, kind, bound = words.split(",")
    assert (int(codec), int(kind), bound) == (1, 0, form)
    low, high = struct.unpack("<2I", struct.pack("<d", float(bound[:-1])))
    assert (int(codec), int(kind), low, high) == PFPL(absolute=0.001).filter_options
