/* SPDX-FileCopyrightText: The h5lossy authors
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Chunks on a GPU, and what the library uses GPUs for.
 *
 * h5l_encode and h5l_decode, and so the HDF5 filter, use a GPU by themselves: the environment variable H5LOSSY_DEVICE is
 * "auto" (the default), "cpu", "gpu" or "gpu:N". With "auto" the CPU begins, and the GPU gets chunks of 128 KiB and more where the
 * process has a CUDA context anyway, or, after 256 MiB of chunks, where h5l_gpu_speedup is 2 or more; before that nothing of
 * CUDA is opened. The bytes are the same. Where a GPU that was requested cannot be used, the CPU does the work, and one line
 * on standard error says why. With H5LOSSY_COUNTS=1, another one says when "auto" has opened a GPU, and one prints h5l_counts
 * when the process ends. Nothing else is ever printed.
 *
 * The functions below are for data that is on a GPU already. They need no more than the CUDA driver; `stream` is a
 * CUstream (or cudaStream_t) of the device that the pointers belong to, and all work goes to it: nothing is allocated,
 * nothing waits, and it can be captured into a CUDA graph (after one call of the same kind, which loads the kernels).
 *
 * Python reads the part between the two "cffi" lines, so it holds plain declarations only.
 */
#ifndef H5LOSSY_DEVICE_H
#define H5LOSSY_DEVICE_H

#include "h5lossy.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* cffi: begin */

/* How many chunks have been encoded and decoded by h5l_encode, h5l_decode and the filter, in this process, and on what. */
typedef struct h5l_counts {
  uint64_t cpu_encoded;
  uint64_t cpu_decoded;
  uint64_t gpu_encoded;
  uint64_t gpu_decoded;
} h5l_counts;

void h5l_get_counts(h5l_counts* counts);

/* A GPU of this machine. All strings end in a NUL. */
typedef struct h5l_device {
  char name[128];    /* "NVIDIA H100 PCIe"; "" where it cannot be used */
  char kernels[128]; /* where its kernels are from; "" where it cannot be used */
  char problem[256]; /* why it cannot be used; "" where it can */
} h5l_device;

/* Opens GPU i and says what it is. 1; or 0 past the last, or without the CUDA driver. */
int h5l_device_at(uint32_t i, h5l_device* device);

/* Where chunks go, and why: lines of text. Returns how many bytes they have, of which at most capacity - 1 are written,
 * and a NUL. */
size_t h5l_describe_device_selection(char* text, size_t capacity);

/* How many times as fast as this processor a GPU encodes (decode 0) or decodes (1) chunks of 1 MiB in the host's memory, by a
 * table of measured speeds that is part of the library; 0 where the table does not say. */
double h5l_gpu_speedup(uint32_t codec, int decode);

/* The GPU that memory belongs to; -1 if to none. */
int h5l_device_of(const void* pointer);

/* Chunks of one shape on a GPU, and room for their frames. All strides are in bytes. */
typedef struct h5l_device_batch {
  uint32_t count;        /* chunks, at most 65535 */
  uint32_t reserved;     /* 0 */
  uint64_t raw_bytes;    /* of a chunk */
  void* raw;             /* of the first chunk; aligned to a value, best to 16 bytes */
  uint64_t raw_stride;   /* a multiple of a value's size */
  void* frames;          /* of the first chunk; aligned to 4 bytes, best to 16 */
  uint64_t frame_stride; /* a multiple of 4; to encode, at least raw_bytes + 40 */
  uint64_t* frame_bytes; /* of each frame, on the GPU: encoding writes it, decoding reads it */
  void* workspace;       /* aligned to 16 bytes */
  uint64_t workspace_bytes;
  void* stream;
} h5l_device_batch;

/* Workspace for h5l_device_encode: reads count and raw_bytes of `batch`. */
h5l_status h5l_device_encode_workspace(const h5l_params* params, const h5l_device_batch* batch, uint64_t* bytes,
                                       h5l_message* message);

/* Starts to encode chunks, in the byte order of the GPU. With a range-relative bound each chunk's own range counts. */
h5l_status h5l_device_encode(const h5l_params* params, const h5l_device_batch* batch, h5l_message* message);

/* Workspace for h5l_device_decode, of whole frames or any part of them. */
h5l_status h5l_device_decode_workspace(const h5l_frame_info* info, const h5l_device_batch* batch, uint64_t* bytes,
                                       h5l_message* message);

/* Starts to decode values [first, first + values) of each frame to `raw`, in the byte order of the GPU. `info` gives the
 * codec, mode, bound kind, type and shape, which all frames share. statuses[i], on the GPU, becomes 0; or 1 if frame i is
 * corrupt; or 2 if it does not match `info`, or is broken in a way that h5l_decode can describe. Stored frames, and
 * lossless ones of the codec for these, are always accepted. If `values` is 0, only headers and tile tables are checked. However broken
 * a frame is, nothing outside the buffers is touched. */
h5l_status h5l_device_decode(const h5l_frame_info* info, const h5l_device_batch* batch, uint64_t first, uint64_t values,
                             uint32_t* statuses, h5l_message* message);

/* Starts to copy the frames of a batch to `packed`, one behind the other, so that one copy moves them to the host: each
 * begins at the next multiple of 16 bytes. Frames, frame_stride and `packed` are multiples of 16 too. */
h5l_status h5l_device_pack(const h5l_device_batch* batch, void* packed, h5l_message* message);

/* Chunks of an array on a GPU. */
typedef struct h5l_device_array {
  void* data;
  uint32_t value_bytes;          /* 4 or 8 */
  uint32_t rank;                 /* 1 to H5L_MAX_RANK */
  int64_t strides[H5L_MAX_RANK]; /* in bytes */
  uint64_t shape[H5L_MAX_RANK];
  uint32_t chunk[H5L_MAX_RANK]; /* extents of a chunk */
  uint32_t
      start[H5L_MAX_RANK]; /* where in its chunk the array's first value lies: 0, or part of a larger array is meant */
  uint64_t padding;        /* bits of a value: what a chunk holds where the array has nothing */
} h5l_device_array;

/* Starts to copy chunks [first, first + batch->count), numbered in C order over the array, to `raw` of the batch, or from there. */
h5l_status h5l_device_gather(const h5l_device_array* array, uint64_t first, const h5l_device_batch* batch,
                             h5l_message* message);
h5l_status h5l_device_scatter(const h5l_device_array* array, uint64_t first, const h5l_device_batch* batch,
                              h5l_message* message);

/* cffi: end */

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif

#endif
