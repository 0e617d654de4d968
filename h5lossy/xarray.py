# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""xarray: compress a dataset when it is saved, and keep codec and bound when one is opened.

This module is imported separately, since it needs xarray and h5netcdf. xarray also imports it to
find the engine "h5lossy".
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import math
import os
import posixpath
import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from itertools import accumulate
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, Self

import h5py
import numpy as np

from h5lossy._blocks import TINY_BYTES
from h5lossy._bounds import BoundKind
from h5lossy._chunking import chunks_for
from h5lossy._codecs import PFPL, Codec, checked_codec
from h5lossy._datasets import codec_of
from h5lossy._errors import H5LossyError, InvalidArgumentError, UnsupportedError
from h5lossy._frames import checked_for, taking
from h5lossy._packing import Packing, for_integers, in_counts
from h5lossy._recommendations import COMMUNITY, Recommendation, Recommendations
from h5lossy._variables import dataset_named, paths_referred_to
from h5lossy._verification.records import (
    ATTRIBUTES,
    ERROR_ATTRIBUTES,
    LOSS_ATTRIBUTES,
    PROVENANCE_ATTRIBUTE,
    loss_text,
    rounded_up,
)
from h5lossy._verify import Verification
from h5lossy._verify import verify as verify_dataset
from h5lossy._warnings import warn
from h5lossy.missing import Missing, no_data, warn_of_zero, with_exact

try:
    import xarray as xr
    from xarray.backends import H5netcdfBackendEntrypoint, H5NetCDFStore, StoreBackendEntrypoint
except ImportError as error:
    raise ImportError(
        f"h5lossy.xarray needs xarray and h5netcdf ({error}): pip install 'h5lossy[xarray]'"
    ) from error


#: Encoding entries that say how values are made from stored numbers.
_SCALE = ("scale_factor", "add_offset")

#: Encoding entries for filters other than `compression`, in the terms of netCDF4 and of h5py.
#: Shuffle is one of them, since h5py would apply it before the codec, which refuses that.
_OTHER_FILTERS = (
    "blosc",
    "blosc_shuffle",
    "bzip2",
    "complevel",
    "compression_opts",
    "shuffle",
    "szip",
    "zlib",
    "zstd",
)


def encoding(
    ds: xr.Dataset | xr.DataTree,
    variables: Mapping[str, Codec | Mapping[str, Any] | None] | None = None,
    *,
    codec: Codec | None = None,
    recommendations: str | os.PathLike[str] | None = None,
    **bound: Any,
) -> dict[str, dict[str, Any]]:
    """Return the ``encoding`` that saves a dataset with compression.

    It is for ``to_netcdf(..., engine="h5netcdf", encoding=...)``. A variable gets the codec that
    `variables` has for it; else, if it is a data variable, one with the bound of `recommendations`
    for it, or the one given by `codec` or `bound`; else the one that it was opened with (engine
    "h5lossy", or `restore_encoding`). Integers get the bound if they are packed, or if `variables`
    names them or `recommendations` have one for them; others are compressed losslessly. Left as
    they are: coordinates and what describes them, times, and variables of up to 4 KiB that can't
    grow.

    Parameters
    ----------
    ds : xarray.Dataset or xarray.DataTree
        What is to be saved.
    variables : mapping, optional
        What single variables get, by name: a codec; its arguments, such as ``{"absolute": 0.5}``,
        for the class of `codec`; or None, for no compression. What would be left as it is may be
        named, if it is of numbers. In a tree, a name is that of variables in all groups.
    codec : Codec, optional
        What all other data variables get.
    recommendations : path-like, optional
        A file of bounds by ``standard_name``, in the format of the package
        compression-recommendations, or "community", for the file that this package has.
        `recommended` says what is taken of it.
    **bound
        The arguments of `PFPL`, instead of `codec`: ``absolute=1e-3``, for example.

    Returns
    -------
    dict
        For each compressed variable: the codec, chunks as `h5lossy.chunks_for` chooses them, and
        the type and fill value with which it is saved. Of a tree: such a dict for each group, by
        path. It may be changed before it is used.

    Raises
    ------
    InvalidArgumentError
        If there is no variable of a name, a bound is not allowed, or there is no codec at all.
    UnsupportedError
        If a variable that `variables` names can't be compressed.

    Warns
    -----
    RuntimeWarning
        If nothing can be compressed, if `recommendations` have no bound for a data variable (with
        the reason; it gets `codec` or `bound`, if that is given), if packed integers can't have
        the bound and are saved losslessly, if a type can't have the safeguards and is saved as it
        is, if safeguards that a variable was opened with are not kept, or if missing values or the
        attribute ``lossy_compression`` need attention.

    Notes
    -----
    A codec that is given bounds the error of the values in `ds`: floats with ``scale_factor`` or
    ``add_offset`` are saved without these. Packed integers stay packed: an absolute bound is
    divided by ``scale_factor`` and rounded down to whole counts, which are what the result of this
    function says; the rounding of xarray, where values are not on the grid yet, comes on top.
    A codec that a variable was opened with, and keeps, bounds that of the stored numbers, and these
    are kept. Integers and halves take `PFPL` where the codec is `CuSZp2` or `AATROX`. netCDF-C, and
    so engine "netcdf4", has no halves: h5netcdf writes and reads them.

    Examples
    --------
    >>> import numpy as np, xarray as xr
    >>> tas = xr.DataArray(np.zeros((365, 721, 1440), np.float32), dims=("time", "lat", "lon"))
    >>> encoding(xr.Dataset({"tas": tas, "mask": tas > 0}), absolute=1e-3)
    {'tas': {'compression': PFPL(absolute=0.001), 'chunksizes': (1, 181, 1440)}}
    """
    groups = _groups_of(ds)
    if codec is not None and bound:
        raise TypeError(f"give either codec or a bound, got {codec!r} and {', '.join(bound)}")
    if codec is not None:
        checked_codec(codec)
    if isinstance(variables, Codec):  # which is a mapping, too: of h5py's arguments
        raise TypeError(f"give the codec of all variables as codec={variables!r}")
    if not isinstance(variables, Mapping | None):
        raise TypeError(
            "variables must be a mapping from names to codecs, such as {'pr': {'absolute': 1e-3}}, "
            f"got {variables!r}; to compress only some, give that and no bound for all others"
        )
    default = PFPL(**bound) if bound else codec
    named = {
        name: _codec_for(name, given, PFPL if default is None else type(default))
        for name, given in (variables or {}).items()
    }
    names = {name for group in groups.values() for name in group.variables}
    if unknown := [name for name in named if name not in names]:
        raise InvalidArgumentError(
            f"there is no variable {unknown[0]!r}, only {', '.join(sorted(map(repr, names)))}"
        )
    kind = PFPL if default is None else type(default)
    source = None if recommendations is None else Recommendations.load(recommendations)
    found = {}
    described = _referred_to(groups)
    for path, group in groups.items():
        advised = {} if source is None else _recommended(group, source, described[path])
        codecs = _codecs_for(group, advised, kind, named)
        found[path] = _encoding_of(group, named, default, codecs, described[path])
    if not any(found.values()):
        is_codec_kept = any(_opened_with(group).keys() - named.keys() for group in groups.values())
        if default is None and not named and not is_codec_kept and recommendations is None:
            raise InvalidArgumentError(
                "encoding needs a bound, such as absolute=1e-3, or a codec: no variable was opened "
                'with one (xr.open_dataset(..., engine="h5lossy"), or restore_encoding)'
            )
        if is_codec_kept or any(codec is not None for codec in [default, *named.values()]):
            warn(
                "nothing will be compressed: there is no data variable of numbers that can have "
                f"the bound, with more than {TINY_BYTES} bytes"
            )
    return found if isinstance(ds, xr.DataTree) else found["/"]


def recommended(
    ds: xr.Dataset, recommendations: str | os.PathLike[str] = COMMUNITY
) -> dict[str, Recommendation]:
    """Return what is recommended for the data variables of a dataset.

    Parameters
    ----------
    ds : xarray.Dataset
        Its variables say what they are by ``standard_name`` and ``units``, or by the attributes of
        GRIB that cfgrib writes, and on what levels by their coordinates.
    recommendations : path-like
        As `encoding` takes it.

    Returns
    -------
    dict
        By name, for each variable of floats or integers with dimensions: a `Recommendation`, whose
        text says which bound was taken and from what, or why there is none. An absolute bound is in
        the variable's own unit. Where absolute and relative bounds are recommended, the values are
        read.

    Raises
    ------
    InvalidArgumentError
        If the file is none of recommendations, or "community" is given and not installed.
    """
    return _recommended(ds, Recommendations.load(recommendations), _referred_to({"/": ds})["/"])


def _recommended(
    ds: xr.Dataset, source: Recommendations, described_by: set[Any]
) -> dict[str, Recommendation]:
    return {
        str(name): source.of(array, functools.partial(_extent, array))
        for name, array in ds.data_vars.items()
        if array.dtype.kind in "fiu" and array.dims and name not in described_by
    }


def _extent(array: xr.DataArray) -> tuple[float, float] | None:
    """Return the smallest and the largest finite value."""
    finite = array.where(np.isfinite(array))
    low, high = float(finite.min()), float(finite.max())
    return None if math.isnan(low) else (low, high)


def _codecs_for(
    ds: xr.Dataset, advised: Mapping[str, Recommendation], kind: type[Codec], named: Iterable[Any]
) -> dict[str, Codec]:
    """Return the codecs with bounds that are recommended, and warn of variables without one."""
    found, lacking = {}, []
    for name, one in advised.items():
        if name in named:
            continue
        if one.bound is None:
            lacking.append(f"{name} ({one.why})")
            continue
        is_lossless = one.bound.kind is BoundKind.LOSSLESS  # which not every codec has
        codec = (PFPL if is_lossless else kind)(**one.arguments)
        if one.bound.kind is BoundKind.RANGE_RELATIVE:
            codec = codec.resolved_for(_extent(ds[name]))
        found[name] = codec
    if lacking:
        warn(f"no bound is recommended for {', '.join(lacking)}")
    return found


def codecs_of(ds: xr.Dataset) -> dict[str, Codec]:
    """Return the codecs that the variables of a dataset were opened with, by name.

    The dataset was opened with engine "h5lossy", or is from `restore_encoding`. xarray does not
    keep the codecs in results of computations; `encoding` takes what this returns. An absolute
    bound is that of the values: what is stored, times ``scale_factor``.
    """
    if not isinstance(ds, xr.Dataset):
        is_tree = isinstance(ds, xr.DataTree)
        advice = "; of a tree, give the dataset of each group" if is_tree else ""
        raise TypeError(f"codecs_of takes an xarray.Dataset, got {type(ds).__name__}{advice}")
    found = _opened_with(ds)
    for name, codec in found.items():
        scale = abs(float(np.asarray(ds.variables[name].encoding.get("scale_factor", 1)).item()))
        if codec.absolute is None or codec.bound.kind is not BoundKind.ABSOLUTE:
            continue
        if _stored_dtype(ds.variables[name]).kind in "iu":
            # Not below their product, so that `encoding` gets the same counts from it.
            product = math.floor(codec.absolute) * Fraction(scale)
            found[name] = codec.with_bound(absolute=rounded_up(product))
        elif scale != 1:
            # Their product, rounded down, as if the scale were the range of the values.
            as_range = codec.with_bound(range_relative=codec.absolute)
            found[name] = as_range.resolved_for((0.0, scale))
    return found


def _opened_with(ds: xr.Dataset) -> dict[str, Codec]:
    """Return the codecs that variables were opened with; their bounds are of what is stored."""
    found = {name: variable.encoding.get("compression") for name, variable in ds.variables.items()}
    return {name: codec for name, codec in found.items() if isinstance(codec, Codec)}


def restore_encoding(ds: xr.Dataset, *, group: str | None = None) -> xr.Dataset:
    """Give the variables of an opened dataset the codecs of their files.

    This is for datasets that were opened with an engine other than "h5lossy", which would not be
    saved with their codecs.

    Parameters
    ----------
    ds : xarray.Dataset
        Of one file or several: each variable has the name of its file in its encoding, and of a
        concatenated one, that is the first file.
    group : str, optional
        The group of the file that was opened; the root group by default.

    Returns
    -------
    xarray.Dataset
        The same data, as engine "h5lossy" opens them; closing it closes `ds`.

    Warns
    -----
    RuntimeWarning
        If the file of a variable, or the variable in its file, is not found.
    """
    if not isinstance(ds, xr.Dataset):
        raise TypeError(
            f"restore_encoding takes an xarray.Dataset, got {type(ds).__name__}; "
            'open trees with engine="h5lossy"'
        )
    restored = ds.copy()
    restored.set_close(ds.close)
    for source, variables in _by_file(restored).items():
        if Path(source).is_file() and not h5py.is_hdf5(source):
            continue  # such as netCDF-3
        try:
            with h5py.File(source, "r") as file:
                for name, variable in variables.items():
                    _restore_from(file[group or "/"], name, variable)
        except (KeyError, OSError) as error:
            warn(f"the codecs of {', '.join(variables)} are not known: {source}: {error}")
    return restored


def verify(
    ds: xr.Dataset, *, against: xr.Dataset | None = None, group: str | None = None
) -> dict[str, Verification]:
    """Verify the variables of an opened dataset in the files that they are from.

    Parameters
    ----------
    ds : xarray.Dataset
        Opened from a file, with any engine.
    against : xarray.Dataset, optional
        The original: its variables are compared value by value, as `h5lossy.verify` does.
    group : str, optional
        The group of the file that was opened; the root group by default.

    Returns
    -------
    dict of Verification
        What `h5lossy.verify` finds, by the names of variables that h5lossy compressed.

    Raises
    ------
    InvalidArgumentError
        If no variable says which file it is from, one is of several files, or the file is not HDF5
        or has no such group.
    """
    found: dict[str, Verification] = {}
    by_file = _by_file(ds)
    if not by_file:
        raise InvalidArgumentError("no variable is from a file; open one with xarray.open_dataset")
    for source, variables in by_file.items():
        if Path(source).is_file() and not h5py.is_hdf5(source):
            raise InvalidArgumentError(f"{source} is not an HDF5 file, so h5lossy did not write it")
        with h5py.File(source, "r") as file:
            within = file.get(group or "/")
            if not isinstance(within, h5py.Group):
                raise InvalidArgumentError(f"{source} has no group {group}")
            for name, variable in variables.items():
                dataset = dataset_named(within, name)
                if not isinstance(dataset, h5py.Dataset):
                    raise InvalidArgumentError(f"{source} has no variable {name} in this group")
                if codec_of(dataset) is None:
                    continue
                if dataset.shape != variable.shape:
                    raise InvalidArgumentError(
                        f"{name} is of shape {variable.shape}, and {dataset.shape} in {source}; "
                        "verify datasets of one file, as opened"
                    )
                if against is not None and name not in against:
                    raise InvalidArgumentError(f"the original has no variable {name}")
                original = None if against is None else against[name]
                found[name] = verify_dataset(dataset, against=original)
    return found


def _by_file(ds: xr.Dataset) -> dict[str, dict[str, xr.Variable]]:
    """Return the variables by the files that they were opened from."""
    found: dict[str, dict[str, xr.Variable]] = {}
    for name, variable in ds.variables.items():
        source = variable.encoding.get("source")
        if isinstance(source, str):
            found.setdefault(source, {})[str(name)] = variable
    return found


class H5LossyStore(H5NetCDFStore):  # type: ignore[misc]  # xarray is not needed for the checks
    """A file that xarray reads, with codecs; unpickling it registers the filter."""

    __slots__ = ()

    def open_store_variable(self, name: str, var: Any) -> xr.Variable:
        """Return a variable as xarray's own store does, with its codec."""
        variable = super().open_store_variable(name, var)
        dataset = var._h5ds  # noqa: SLF001  # h5netcdf has no other way to it
        if isinstance(dataset, h5py.Dataset):  # and not of h5pyd, for example
            _restore(variable, name, dataset)
        return variable

    def below(self) -> dict[str, Self]:
        """Return a store for this group and each one below it, by its path in the file."""
        found: dict[str, Self] = {}

        def add(path: str, group: Any) -> None:
            options = {"mode": self._mode, "lock": self.lock, "autoclose": self.autoclose}
            found[path] = type(self)(self._manager, group=path, **options)
            for name, child in group.groups.items():
                add(posixpath.join(path, name), child)

        add(posixpath.join("/", self._group or ""), self.ds)
        return found


def _parameters(method: Any) -> tuple[str, ...]:
    """Return the names of a method's parameters."""
    return tuple(inspect.signature(method).parameters)[1:]


class H5LossyBackendEntrypoint(H5netcdfBackendEntrypoint):  # type: ignore[misc]  # see above
    """xarray's engine "h5lossy": its engine "h5netcdf", with the codec of each variable.

    ``ds[name].encoding["compression"]`` is the codec, so ``to_netcdf(..., engine="h5netcdf")``
    compresses as before. Attributes that describe the stored data (``h5lossy`` and others) are in
    the encoding, too: they would not be true of another file.
    """

    description = "Open netCDF and HDF5 files using h5netcdf, and keep h5lossy's codecs and bounds"
    url = ""
    supports_groups = True
    # xarray does not take them from a method with **options.
    open_dataset_parameters: ClassVar = _parameters(H5netcdfBackendEntrypoint.open_dataset)

    def guess_can_open(self, filename_or_obj: Any) -> bool:  # noqa: ARG002
        """Make sure that xarray does not choose this engine unless told to."""
        return False

    def open_dataset(self, filename_or_obj: Any, **options: Any) -> xr.Dataset:
        """Open one group of a file."""
        return _open(filename_or_obj, options)[None]

    def open_groups_as_dict(self, filename_or_obj: Any, **options: Any) -> dict[str, xr.Dataset]:
        """Open all groups of a file, or all below a group, by their path."""
        return _open(filename_or_obj, options, is_tree=True)


def _open(
    filename_or_obj: Any, options: dict[str, Any], *, is_tree: bool = False
) -> dict[Any, xr.Dataset]:
    """Open a group of a file, or also all groups below it; the rest is up to xarray."""
    names = _parameters(StoreBackendEntrypoint.open_dataset)
    decoding = {name: options.pop(name) for name in names if name in options}
    if options.get("phony_dims") is None:  # the default that xarray is going to have
        options["phony_dims"] = "access"
    with contextlib.ExitStack() as on_error:
        store = H5LossyStore.open(_openable(filename_or_obj), **options)
        on_error.callback(store.close)
        stores: dict[str | None, H5LossyStore] = {None: store}
        if is_tree:
            group = options.get("group")
            top = posixpath.join("/", group or "")
            stores = {
                posixpath.relpath(path, top) if group else path: child
                for path, child in store.below().items()
            }
        opened = {
            path: StoreBackendEntrypoint().open_dataset(child, **decoding)
            for path, child in stores.items()
        }
        on_error.pop_all()
    return opened


def _openable(given: Any) -> Any:
    """Return a file as xarray's store takes it; a path must hold in other processes, too."""
    if isinstance(given, bytes | memoryview):
        return io.BytesIO(given)
    if isinstance(given, os.PathLike):
        given = os.fspath(given)
    if isinstance(given, str) and not re.match(r"[a-z][a-z0-9]*(://|::)", given):
        given = str(Path(given).expanduser().absolute())
    return given


def _groups_of(ds: Any) -> dict[str, xr.Dataset]:
    """Return the datasets of a tree by path; those of a dataset: itself."""
    if isinstance(ds, xr.Dataset):
        return {"/": ds}
    if isinstance(ds, xr.DataTree):
        return {node.path: node.to_dataset(inherit=False) for node in ds.subtree}
    advice = "; convert it with to_dataset(name=...)" if isinstance(ds, xr.DataArray) else ""
    raise TypeError(f"ds must be an xarray.Dataset or DataTree, got {type(ds).__name__}{advice}")


def _codec_for(name: str, given: Any, kind: type[Codec]) -> Codec | None:
    """Return what is given for a variable as a codec."""
    if given is None or isinstance(given, Codec):
        return given
    if isinstance(given, Mapping):
        try:
            return kind(**given)
        except (InvalidArgumentError, TypeError) as error:
            raise type(error)(f"{name!r}: {error}") from error
    raise TypeError(
        f"{name!r} must get a codec, its arguments such as {{'absolute': 1e-3}}, or None, "
        f"got {given!r}"
    )


def _encoding_of(
    ds: xr.Dataset,
    named: Mapping[str, Codec | None],
    default: Codec | None,
    advised: Mapping[str, Codec],
    described_by: set[Any],
) -> dict[str, dict[str, Any]]:
    """Return the encoding of each variable of a dataset that is to be compressed."""
    found = {}
    opened_with = _opened_with(ds)
    described_by = {*ds.coords, *described_by}
    resizable = set(ds.encoding.get("unlimited_dims", ()))
    for name, variable in ds.variables.items():
        codec, is_kept = opened_with.get(name), False
        is_tiny = variable.nbytes <= TINY_BYTES and not resizable.intersection(variable.dims)
        if name in named:
            codec = named[name]
        elif name in described_by or is_tiny or (name not in advised and default is None):
            is_kept = True
        else:
            codec = advised.get(name, default)
        if codec is None:
            continue
        dtype = _stored_dtype(variable)
        obstacle = _obstacle(variable, resizable, codec)
        if not obstacle and dtype.kind not in "iu":  # of those, `_for_integers` warns
            obstacle = codec.safeguards.problem_of(dtype)
            if obstacle and name not in named:
                warn(f"{name} will be saved without compression: {obstacle}")
        if not obstacle:
            if dtype.kind in "iu" and not is_kept:
                codec = _for_integers(
                    name,
                    variable,
                    dtype,
                    codec,
                    is_asked_for=name in named or name in advised,
                    is_named=name in named,
                )
            codec = taking(codec, dtype)
            try:
                checked_for(codec, dtype)
            except H5LossyError as error:
                raise type(error)(f"{name!r} can't be compressed so: {error}") from error
            found[name] = {
                "compression": codec,
                "chunksizes": chunks_for(variable.shape, dtype, blocks=variable.chunks),
                **_kept(name, variable, dtype, codec, is_kept=is_kept),
            }
            _warn_of_shared_chunks(name, variable, codec, found[name]["chunksizes"])
            if found[name]["compression"] != opened_with.get(name):
                _warn_of_statement(name, variable, codec)
                _warn_of_safeguards(name, opened_with.get(name), codec)
        elif name in named:
            raise UnsupportedError(f"{name!r} can't be compressed: {obstacle}")
    return found


def _referred_to(groups: Mapping[str, xr.Dataset]) -> dict[str, set[Any]]:
    """Return the names, in each group, that attributes of the CF conventions refer to."""
    variables = {
        (group, name): variable
        for group, ds in groups.items()
        for name, variable in ds.variables.items()
    }
    paths = {place: posixpath.join(place[0], str(place[1])) for place in variables}
    found = paths_referred_to(
        {
            paths[place]: SimpleNamespace(attrs={**variable.encoding, **variable.attrs})
            for place, variable in variables.items()
        }
    )
    return {
        group: {name for name in ds.variables if paths[group, name] in found}
        for group, ds in groups.items()
    }


def _stored_dtype(variable: xr.Variable) -> np.dtype[Any]:
    """Return the type in which numbers are saved."""
    dtype: np.dtype[Any] = np.dtype(variable.encoding.get("dtype") or variable.dtype)
    return dtype


def _obstacle(variable: xr.Variable, resizable: set[Any], codec: Codec) -> str:
    """Say why a variable can't be compressed; nothing if it can."""
    possible = "and only floats of 16, 32 and 64 bits, complex numbers and integers can be"
    if variable.dtype.kind not in "fciu":  # times may be saved as floats
        return f"it holds {variable.dtype}, {possible}"
    dtype = _stored_dtype(variable)
    if dtype.kind not in "iu" and dtype.str[1:] not in {"f2", "f4", "f8", "c8", "c16"}:
        return f"it is saved as {dtype}, {possible}"
    if dtype.itemsize == 2 and dtype.kind == "f" and variable.dtype.itemsize > 2:
        return f"it is saved as {dtype}, which rounds it: convert it with astype, or save float32"
    if h5py.check_enum_dtype(dtype) is not None:
        return "it is of an enum, which h5netcdf saves without filters"
    if codec.bound.kind is BoundKind.NOISE and dtype.kind not in "iu":
        return f"a noise bound is of integers, and it is saved as {dtype}"
    sizes = [n for dim, n in variable.sizes.items() if dim not in resizable]
    has_values = bool(variable.dims) and 0 not in sizes
    return (
        "" if has_values else f"it has no values, or no dimensions: its shape is {variable.shape}"
    )


def _for_integers(
    name: Any,
    variable: xr.Variable,
    dtype: np.dtype[Any],
    codec: Codec,
    *,
    is_asked_for: bool,
    is_named: bool,
) -> Codec:
    """Return the codec for a variable that is saved as integers, with a bound in counts."""
    packing = Packing.of(SimpleNamespace(attrs=variable.encoding), dtype)
    if packing is None and variable.dtype.kind == "f":  # xarray rounds them to integers
        packing = Packing(1.0, 0.0)
    own, attributes = variable.encoding, variable.attrs
    declared = own | _undeclared_fill(name, own, attributes, dtype)
    chosen, why = for_integers(
        codec,
        dtype,
        packing,
        fill_value=_missing(name, declared, attributes, dtype).fill,
        is_asked_for=is_asked_for,
    )
    if why and is_named:
        raise UnsupportedError(f"{name!r} can't be compressed with {codec!r}: {why}")
    if why and packing is not None:
        warn(f"{name} will be saved losslessly: {why}")
    return chosen if packing is None else in_counts(chosen, packing.scale)


def _kept(
    name: Any, variable: xr.Variable, dtype: np.dtype[Any], codec: Codec, *, is_kept: bool
) -> dict[str, Any]:
    """Return what remains of a variable's own encoding, which the result of `encoding` replaces."""
    own = variable.encoding
    if not is_kept and dtype.kind == "f" and any(key in own for key in _SCALE):
        own = {}  # it describes other numbers than those that are stored now
    names = ("dtype", "_FillValue", "missing_value", "_Unsigned", *_SCALE)
    kept = {key: own[key] for key in names if key in own}
    kept |= _undeclared_fill(name, own, variable.attrs, dtype)
    if not codec.lossless:
        missing = _missing(name, own | kept, variable.attrs, dtype)
        others = [str(value) for value in missing.values if value != missing.fill]
        exact = with_exact(codec, missing) if missing.values else None
        if exact is not None:
            kept["compression"] = codec = exact
        elif others:
            warn(
                f"{name}: its missing values {', '.join(others)} may change by the bound, since "
                "only the fill value is kept bit for bit; h5lossy repack keeps them, too"
            )
        warn_of_zero(name, missing.fill, codec)
    return kept


def _missing(name: Any, own: Any, attributes: Any, dtype: np.dtype[Any]) -> Missing:
    """Return which values of what is stored are no data."""
    declared = {key: value for key, value in own.items() if value is not None}
    return no_data(SimpleNamespace(name=name, dtype=dtype, attrs={**declared, **attributes}))


def _undeclared_fill(name: Any, own: Any, attributes: Any, dtype: np.dtype[Any]) -> dict[str, Any]:
    """Return ``_FillValue`` from a single missing value, where nothing declares a fill value."""
    if own.get("_FillValue") is not None or "_FillValue" in attributes:
        return {}
    values = _missing(name, own, attributes, dtype).values
    return {"_FillValue": values[0]} if len(values) == 1 else {}


def _warn_of_statement(name: Any, variable: xr.Variable, codec: Codec) -> None:
    """Warn if an earlier loss would not be stated, or stated as if it were the only one."""
    said = variable.attrs.get(PROVENANCE_ATTRIBUTE)
    earlier = variable.encoding.get(PROVENANCE_ATTRIBUTE, said)
    if not isinstance(earlier, str):
        return
    packing = ", ".join(f"{key} {own[key]}" for key in _SCALE if key in (own := variable.encoding))
    if packing and packing not in earlier:  # it describes numbers that are no longer stored
        earlier += f", of numbers packed with {packing}"
    wanted = earlier if codec.lossless else f"{earlier}; {loss_text(codec)}"
    numbers = [] if codec.lossless else [*ERROR_ATTRIBUTES.values()]
    stale = "".join(f"; del ds[{name!r}].attrs[{x!r}]" for x in numbers if x in variable.attrs)
    is_said = isinstance(said, str) and said.startswith(earlier)
    if not is_said or not (codec.lossless or said.endswith(loss_text(codec))):
        warn(
            f"{name}: the data were compressed before, and the errors add up; to say so in the "
            f"file, ds[{name!r}].attrs[{PROVENANCE_ATTRIBUTE!r}] = {wanted!r}{stale}"
        )


def _warn_of_shared_chunks(
    name: Any, variable: xr.Variable, codec: Codec, chunks: tuple[int, ...]
) -> None:
    """Warn where blocks of Dask share a chunk under a bound that does not hold for them together.

    `chunks_for` fits chunks to blocks, unless these are small, or of many lengths.
    """
    if codec.bound.kind is not BoundKind.RANGE_RELATIVE or variable.chunks is None:
        return
    axes = zip(variable.chunks, chunks, strict=True)
    if any(edge % chunk for blocks, chunk in axes for edge in accumulate(blocks[:-1])):
        warn(
            f"{name}: several blocks of Dask share a chunk, which is encoded again for each, and "
            "the errors of a range-relative bound add up: resolve the bound first "
            f"(codec.resolve(ds[{name!r}])), or rechunk the array"
        )


def _warn_of_safeguards(name: Any, before: Codec | None, codec: Codec) -> None:
    """Warn where a codec does not promise what the one did that a variable was opened with."""
    if before is None or codec.lossless or codec.safeguards.include(before.safeguards):
        return
    warn(
        f"{name}: safeguards that it was opened with are not kept ({before.safeguards}); give "
        "thresholds and valid_range again to keep them"
    )


def _restore_from(group: h5py.Group, name: str, variable: xr.Variable) -> None:
    """Give a variable the codec of a dataset in a group."""
    dataset = dataset_named(group, name)
    if isinstance(dataset, h5py.Dataset):
        _restore(variable, name, dataset)
    elif variable.encoding.get("chunksizes"):
        warn(
            f"the codec of {name} is not known: {group.file.filename} has no such variable in "
            f"group {group.name}; was it renamed, or is it in another group (group=...)?"
        )


def _restore(variable: xr.Variable, name: str, dataset: h5py.Dataset) -> None:
    """Put the codec of a dataset, and what attributes say of it, into a variable's encoding."""
    own, attributes = variable.encoding, variable.attrs
    for attribute in (*ATTRIBUTES, *LOSS_ATTRIBUTES):
        if attribute in attributes:
            own[attribute] = attributes.pop(attribute)
    try:
        codec = codec_of(dataset)
    except (InvalidArgumentError, UnsupportedError) as error:
        warn(f"{error}. If {name} can be read at all, it will be saved without compression")
        own.pop("compression", None)
        return
    if codec is None:
        return
    for other in _OTHER_FILTERS:
        own.pop(other, None)
    own["compression"] = codec
    # The dataset's fill value may be its missing value, with no attribute that says so.
    place = own if "missing_value" in own else attributes
    place |= _undeclared_fill(name, own, attributes, dataset.dtype)
