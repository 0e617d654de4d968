/* SPDX-FileCopyrightText: The h5lossy authors
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Many chunks of an HDF5 dataset at a time, which would be a call each from another language.
 *
 * The caller passes functions of the HDF5 that has opened the dataset, for a process may hold several. Unless that HDF5
 * is thread-safe, no other thread may call it meanwhile. `uint64_t` stands for hsize_t and haddr_t.
 *
 * Python reads the part between the two "cffi" lines, so it holds plain declarations only.
 */
#ifndef H5LOSSY_CHUNKS_H
#define H5LOSSY_CHUNKS_H

#include "h5lossy.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* cffi: begin */

/* H5Dwrite_chunk, H5Dget_chunk_storage_size, H5Dflush, H5Fget_eoa, H5Ewalk2 and H5Dchunk_iter. The last one, which
 * HDF5 has since 1.12.3 (and 1.10.10), is for h5l_list_chunks only. */
typedef struct h5l_hdf5 {
  int (*write_chunk)(int64_t dataset, int64_t transfer, uint32_t mask, const uint64_t* place, size_t bytes,
                     const void* data);
  int (*get_chunk_storage_size)(int64_t dataset, const uint64_t* place, uint64_t* bytes);
  int (*flush_dataset)(int64_t dataset);
  int (*get_eoa)(int64_t file, uint64_t* end);
  int (*walk_errors)(int64_t stack, int direction, int (*visit)(unsigned n, const void* error, void* data), void* data);
  int (*iterate_chunks)(int64_t dataset, int64_t transfer,
                        int (*visit)(const uint64_t* place, unsigned mask, uint64_t address, uint64_t bytes,
                                     void* data),
                        void* data);
} h5l_hdf5;

/* What HDF5 allocates in a file, as far as the caller knows. */
typedef struct h5l_space {
  uint64_t reserved;    /* disk space is reserved up to here; UINT64_MAX if none has to be */
  uint64_t index_bytes; /* the most that the index takes for one more chunk */
  uint64_t stated;      /* the length of the file that its superblock states; UINT64_MAX if no flush is needed */
} h5l_space;

typedef enum {
  H5L_WRITE_DONE = 0,
  H5L_WRITE_NEEDS_SPACE, /* for the next chunk */
  H5L_WRITE_NEEDS_FLUSH, /* of the file, before another chunk is written */
  H5L_WRITE_FAILED       /* at the next chunk */
} h5l_write_end;

/* Writes the frames of `count` chunks of a dataset, frame_bytes[i] bytes at frames[i] to the chunk that begins at
 * places[rank * i], until the caller has to do something. *written is set to the number of chunks that were written.
 *
 * A chunk is written only if space for it and its index is reserved. If it replaces one of another size, whose space
 * HDF5 may use for the next one, the dataset is flushed, or, if HDF5 has allocated beyond the stated length, the caller
 * has to flush the file. */
h5l_write_end h5l_write_chunks(const h5l_hdf5* hdf5, int64_t file, int64_t dataset, uint32_t rank, size_t count,
                               const uint64_t* places, const void* const* frames, const size_t* frame_bytes,
                               const h5l_space* space, size_t* written, h5l_message* message);

/* Lists the chunks of a dataset that are in the file, at most `capacity` of them: for each one `rank` numbers of its
 * place, its filter mask, address and size. *count is set to their number. */
h5l_status h5l_list_chunks(const h5l_hdf5* hdf5, int64_t dataset, uint32_t rank, size_t capacity, uint64_t* rows,
                           size_t* count, h5l_message* message);

/* cffi: end */

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif

#endif
