# SPDX-FileCopyrightText: The h5lossy authors
# SPDX-License-Identifier: BSD-3-Clause
"""Writing and reading datasets on several threads.

HDF5 runs a filter for one chunk after another, under its lock. Here chunks are encoded and decoded
outside of HDF5, a batch at a time, and read and written in encoded form (direct chunk I/O). The
file is the same as if HDF5 had called the filter.

Only the calling thread touches HDF5 and the user's source: it may hold h5py's lock, and any other
thread would wait for that lock forever. The one helper thread only calls the library, which has its
own threads: it encodes one batch while the calling thread fetches the next one and stores the
previous one.
"""

from h5lossy._batched.reader import read
from h5lossy._batched.writer import write
from h5lossy._public import name_publicly

__all__ = ["read", "write"]

name_publicly(__name__)
