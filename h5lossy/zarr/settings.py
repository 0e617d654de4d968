# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Codecs in words, as Zarr's metadata has them: ``{"codec": "PFPL", "absolute": 0.001}``."""

from __future__ import annotations

import dataclasses
from typing import Any

from h5lossy._codecs import CODECS, Codec
from h5lossy._errors import InvalidArgumentError

_CLASSES = {cls.__name__: cls for cls in CODECS.values()}


def codec_of(codec: Codec | str, settings: dict[str, Any]) -> Codec:
    """Return the codec that words mean; a `Codec` stands for itself."""
    if isinstance(codec, Codec):
        if settings:
            raise TypeError(f"{codec!r} has its settings, but {', '.join(settings)} came with it")
        return codec
    names = {name.lower(): cls for name, cls in _CLASSES.items()}
    cls = names.get(codec.lower()) if isinstance(codec, str) else None
    if cls is None:
        raise InvalidArgumentError(
            "codec must be a codec such as PFPL(absolute=1e-3), or the name of one "
            f"({', '.join(_CLASSES)}), got {codec!r}"
        )
    known = [field.name for field in dataclasses.fields(cls)] + ["significant_digits"]
    unknown = [name for name in settings if name not in known]
    if unknown:
        raise InvalidArgumentError(
            f"{cls.__name__} has no setting {' or '.join(map(repr, unknown))}; it takes "
            f"{', '.join(known)}"
        )
    return cls(**settings)


def words_of(codec: Codec) -> dict[str, Any]:
    """Return the words for a codec: what `codec_of` takes, in JSON's types."""
    settings = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in codec.get_config().items()
    }
    return {"codec": type(codec).__name__} | settings


def arguments_of(words: dict[str, Any]) -> str:
    """Write words as the arguments of a call, for ``repr``."""
    return ", ".join(f"{name}={value!r}" for name, value in words.items())
