# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""`assess_all`: many variables of files, folders or xarray datasets, and one verdict."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np

from h5lossy._datasets import describe
from h5lossy._dims import has_places
from h5lossy._errors import H5LossyError, InvalidArgumentError
from h5lossy._globs import names_one
from h5lossy._names import dataset_at, name_of, paired_files
from h5lossy._printable import one_line
from h5lossy._repacking.objects import dataset_paths, open_dataset
from h5lossy._scales import is_scale
from h5lossy._values import has_numbers
from h5lossy._variables import paths_referred_to, referred_to, require_open
from h5lossy.assessment._assess import assess
from h5lossy.assessment._divergence import assess_divergence
from h5lossy.assessment._options import takes_options
from h5lossy.assessment._rules import Rules
from h5lossy.assessment.reports import Reports

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from os import PathLike

    from h5lossy.assessment.report import Report

    #: Name, paths for globs, original and decoded, and whether it is a coordinate. The original is
    #: None if it does not exist.
    _Pair = tuple[str, tuple[str, ...], Any, Any, bool]


@takes_options
def assess_all(
    original: Any,
    decoded: Any,
    *,
    variables: str | Sequence[str] | None = None,
    rules: str | PathLike[str] | Mapping[str, Mapping[str, Any]] | None = None,
    divergence: Sequence[str] | None = None,
    mask: Any = None,
    weights: Any = None,
    slices: bool = False,
    memory_limit: int | str = "256 MiB",
    **options: Any,
) -> Reports:
    """Measure what was lost in many variables, and give one verdict.

    Parameters
    ----------
    original, decoded : path-like, h5py.File, xarray.Dataset, or mapping of arrays
        Both of the same kind: files, folders whose files of the same names are compared, or
        variables by name. In files, all numeric datasets of `decoded` are compared; in xarray
        datasets, all variables. Coordinates, and variables that CF attributes such as ``bounds``
        refer to, must be unchanged, unless `variables` or a rule names them.
    variables : str or sequence of str, optional
        Globs: compare only these, by name or by path in the file.
    rules : path-like, or mapping of globs to dicts of options, optional
        Bounds, thresholds and any other option by variable, as ``{"/t*": {"absolute": 0.1},
        "/mask": {"skip": True}}``, or a TOML file with ``[[rule]]`` tables of ``dataset = "/t*"``
        and options. If several match, the last one counts.
    divergence : sequence of str, optional
        The names of a vector field's components, as `assess_divergence` takes them, for
        `Reports.divergences`: along the axes that `axes` chooses, or the horizontal ones.
    mask, weights, slices, memory_limit, **options
        As for `h5lossy.assess`, for every variable whose rules do not set them.

    Returns
    -------
    Reports
        By the names of variables: their paths in files, in folders preceded by the name of the
        file. `Reports.ok` is the verdict.

    Raises
    ------
    InvalidArgumentError
        If an argument is not allowed, there is nothing to compare, or a rule matches nothing.

    Examples
    --------
    >>> import numpy as np
    >>> x = {"t": np.linspace(0, 1, 1000), "p": np.linspace(2, 3, 1000)}
    >>> y = {name: np.round(field, 2) for name, field in x.items()}
    >>> found = assess_all(x, y, absolute=0.006, rules={"p": {"require": "psnr>=60"}})
    >>> found.ok, found.worst_first, found["t"].ok
    (False, ['p', 't'], True)
    """
    checked = Rules(rules)
    globs = [variables] if isinstance(variables, str) else variables
    same = {"mask": mask, "weights": weights, "slices": slices, "memory_limit": memory_limit}
    components = [f"/{name.lstrip('/')}" for name in divergence or ()]
    taken: dict[str, dict[str, tuple[Any, Any]]] = {}
    reports, failed, divergences, unchanged = {}, {}, {}, []
    for name, paths, x, y, is_coordinate in _pairs(original, decoded):
        path = next((one for one in paths if one in components), paths[0])
        if path in components and x is not None:
            file = name.removesuffix(paths[0].lstrip("/")).removesuffix("/")
            of_file = taken.setdefault(file, {})
            of_file[path] = x, y
            if len(of_file) == len(components):  # now, while the files are open
                divergences[file + ", ".join(divergence or ())] = assess_divergence(
                    *zip(*(of_file[one] for one in components), strict=True),
                    axes=options.get("axes"),
                    spacing=options.get("spacing", 1.0),
                    mask=mask,
                    memory_limit=memory_limit,
                )
        is_wanted = globs is None or any(names_one(paths, glob) for glob in globs)
        wanted = checked.options(paths, options) if is_wanted else None
        if wanted is None or is_no_variable(y):
            continue
        if x is None or isinstance(x, OSError):
            failed[name] = "the original has no such variable" if x is None else one_line(x)
            continue
        try:
            is_named = globs is not None or checked.names(paths)
            given = {**same, **wanted, "is_coordinate": is_coordinate and not is_named}
            report = assess_variable(x, y, **given)
        except (H5LossyError, OSError, RuntimeError, TypeError) as error:
            failed[name] = one_line(error)
            continue
        if report is None:
            unchanged.append(name)
            continue
        named = replace(report.provenance, original=_place(x, name), decoded=_place(y, name))
        reports[name] = replace(report, provenance=named)
    checked.check_used()
    if divergence and not divergences:
        raise InvalidArgumentError(f"there are not all components of {', '.join(divergence)}")
    if not (reports or failed or unchanged):
        raise InvalidArgumentError("there is no variable to compare")
    return Reports(reports, failed, divergences, unchanged)


def assess_variable(x: Any, y: Any, *, is_coordinate: bool, **options: Any) -> Report | None:
    """Compare a variable; None if it is an unchanged coordinate."""
    require_open(x, "original")
    require_open(y, "decoded")
    if not is_coordinate:
        return assess(x, y, **options)
    if x.shape == y.shape and x.dtype == y.dtype:
        mine, theirs = (np.asarray(one[...]) for one in (x, y))
        if np.array_equal(mine, theirs, equal_nan=y.dtype.kind in "fc"):
            return None
    kept = {name: options[name] for name in ("threads", "memory_limit") if name in options}
    return assess(x, y, lossless=True, metrics="bound", **kept)


def _place(field: Any, name: str) -> str:
    """Return the file of a dataset and its path there; otherwise the name of the variable."""
    return f"{field.file.filename}:{name_of(field)}" if isinstance(field, h5py.Dataset) else name


def is_no_variable(found: Any) -> bool:
    """Return whether a dataset is only a netCDF dimension."""
    is_open = isinstance(found, h5py.Dataset) and bool(found)
    return is_open and is_scale(found) and not has_places(found)


def coordinates_of(datasets: Mapping[str, h5py.Dataset]) -> set[str]:
    """Return the paths of datasets that are coordinates of others by the CF conventions.

    A dataset that h5lossy compressed does not count, since it has a bound.
    """
    named = paths_referred_to(datasets)
    return {
        path
        for path, dataset in datasets.items()
        if (path in named or is_scale(dataset)) and describe(dataset) is None
    }


def _pairs(original: Any, decoded: Any) -> Iterator[_Pair]:
    """Yield the variables to compare."""
    for given, name in ((original, "original"), (decoded, "decoded")):
        require_open(given, name)
    if isinstance(original, h5py.Group) and isinstance(decoded, h5py.Group):
        yield from _of_files(original.file, decoded.file, "")
    elif isinstance(original, Mapping) and isinstance(decoded, Mapping):
        coordinates = {*getattr(decoded, "coords", ())}
        data = getattr(decoded, "data_vars", decoded)
        coordinates.update(*(referred_to(decoded[name]) for name in (*data, *coordinates)))
        for name in dict.fromkeys([*data, *getattr(decoded, "coords", ())]):
            first, second = (given.get(name) for given in (original, decoded))
            yield str(name), (f"/{str(name).lstrip('/')}",), first, second, name in coordinates
    elif isinstance(original, Mapping) or isinstance(decoded, Mapping):
        raise TypeError(
            "original and decoded must be of one kind (paths, h5py.File, xarray.Dataset or mapping "
            f"of arrays), got {type(original).__name__} and {type(decoded).__name__}"
        )
    else:
        for path in map(Path, (original, decoded)):
            if not path.exists():
                raise FileNotFoundError(f"{path} does not exist")
        folder = Path(decoded) if Path(decoded).is_dir() else None
        for file, other in paired_files(Path(original), Path(decoded)).items():
            name = "" if folder is None else str(file.relative_to(folder))
            with ExitStack() as own:
                try:
                    first, second = (own.enter_context(h5py.File(f, "r")) for f in (other, file))
                except OSError as error:
                    if not name:
                        raise
                    yield name, (name,), error, None, False
                    continue
                yield from _of_files(first, second, f"{name}:" if name else "")


def _of_files(x: h5py.File, y: h5py.File, prefix: str) -> Iterator[_Pair]:
    found = dataset_paths(y)
    coordinates = coordinates_of({name: open_dataset(y, name) for name, *_ in found})
    for paths in found:
        name = paths[0]
        dataset = open_dataset(y, name)
        if has_numbers(dataset):
            yield prefix + name, paths, dataset_at(x, name), dataset, name in coordinates
