/* SPDX-FileCopyrightText: The h5lossy authors
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Chunks on a GPU, and the library's own use of GPUs.
 *
 * h5l_encode and h5l_decode, and so the HDF5 filter, can use a GPU for chunks in host memory. The environment
 * variable H5LOSSY_DEVICE is "auto" (the default), "cpu", "gpu" or "gpu:N". "auto" starts on the CPU. Chunks of 128
 * KiB and more go to the GPU if the process already has a CUDA context, or, after 256 MiB of chunks, if
 * h5l_gpu_speedup is at least 2; until then CUDA is not opened. The bytes are the same. If a requested GPU cannot be
 * used, the CPU is used, and one line on stderr gives the reason. With H5LOSSY_COUNTS=1, one line reports that
 * "auto" has opened a GPU, and one line prints h5l_counts when the process ends. One line reports that kernels are
 * compiled, and one that compiled kernels gave wrong results in the check before their first use; the CPU then does
 * their work. Nothing else is printed.
 *
 * The functions below are for data that is already on a GPU. They need only the CUDA driver. `stream` is a CUstream
 * (or cudaStream_t) of the device that holds the data, and all work runs on it. The first call of its kind loads and
 * checks the kernels. After it, nothing is allocated and nothing waits, so calls can be captured into a CUDA graph.
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

/* The numbers of chunks that h5l_encode, h5l_decode and the filter have processed in this process. */
typedef struct h5l_counts {
  uint64_t cpu_encoded;
  uint64_t cpu_decoded;
  uint64_t gpu_encoded;
  uint64_t gpu_decoded;
} h5l_counts;

void h5l_get_counts(h5l_counts* counts);

/* A GPU of this machine. All strings end in a NUL. */
typedef struct h5l_device {
  char name[128];    /* "NVIDIA H100 PCIe"; "" if it cannot be used */
  char kernels[128]; /* the origin of its kernels; "" if it cannot be used */
  char problem[256]; /* why it cannot be used, or "" */
} h5l_device;

/* Opens GPU i and describes it. Returns 1, or 0 past the last GPU or without the CUDA driver. */
int h5l_device_at(uint32_t i, h5l_device* device);

/* Describes which device processes chunks, and why, in lines of text. Writes at most capacity - 1 bytes and a NUL, and
 * returns the full length. */
size_t h5l_describe_device_selection(char* text, size_t capacity);

/* The speed of a GPU divided by that of this CPU for encoding (decode 0) or decoding (1) chunks of 1 MiB in host
 * memory, from the library's table of measured speeds; 0 if the table has no entry. */
double h5l_gpu_speedup(uint32_t codec, int decode);

/* Whether GPUs can encode (decode 0) or decode (1) chunks of this codec, requested with this mode, for values of
 * this class and a bound of this kind. If not, h5l_encode or h5l_decode uses the CPU, and the functions below return
 * H5L_UNSUPPORTED. For decoding, 2 means that the frames of a batch may have different modes of this codec;
 * otherwise all must have the mode of `info`. */
int h5l_has_kernels(uint32_t codec, uint32_t mode, uint32_t value_class, uint32_t bound_kind, int decode);

/* The GPU that memory belongs to, or -1. */
int h5l_device_of(const void* pointer);

/* Chunks of one shape on a GPU, and buffers for their frames. All strides are in bytes. */
typedef struct h5l_device_batch {
  uint32_t count;        /* chunks, at most 65535 */
  uint32_t reserved;     /* 0 */
  uint64_t raw_bytes;    /* of a chunk */
  void* raw;             /* of the first chunk; aligned to a value, preferably to 16 bytes */
  uint64_t raw_stride;   /* a multiple of a value's size */
  void* frames;          /* of the first chunk; aligned to 4 bytes, preferably to 16 */
  uint64_t frame_stride; /* a multiple of 4; to encode, at least raw_bytes + 40 */
  uint64_t* frame_bytes; /* of each frame, on the GPU: encoding writes it, decoding reads it */
  void* workspace;       /* aligned to 16 bytes */
  uint64_t workspace_bytes;
  void* stream;
} h5l_device_batch;

/* Workspace for h5l_device_encode. Uses count and raw_bytes of `batch`. */
h5l_status h5l_device_encode_workspace(const h5l_params* params, const h5l_device_batch* batch, uint64_t* bytes,
                                       h5l_message* message);

/* Starts encoding chunks, in the byte order of the GPU. A range-relative bound refers to each chunk's own range.
 * frame_bytes[i] is 0 if chunk i is left to the host; if this GPU cannot run the kernels of a codec, or they give
 * wrong results here, all of its chunks are. */
h5l_status h5l_device_encode(const h5l_params* params, const h5l_device_batch* batch, h5l_message* message);

/* Workspace for h5l_device_decode, for any range of values. */
h5l_status h5l_device_decode_workspace(const h5l_frame_info* info, const h5l_device_batch* batch, uint64_t* bytes,
                                       h5l_message* message);

/* Starts decoding values [first, first + values) of each frame to `raw`, in the byte order of the GPU. `info` gives
 * the codec, mode, bound kind, type and shape, which all frames share. statuses[i], on the GPU, is set to 0; to 1 if
 * frame i is corrupt; to 2 if it does not match `info`, is left to the host, or is malformed in a way that h5l_decode
 * can describe. Stored frames, and frames of floats of the default lossless codec, are always accepted. If `values` is
 * 0, only headers and tile tables are checked. Even for corrupt frames, nothing outside the buffers is accessed. If
 * the kernels give wrong results on this GPU, all frames are left to the host. */
h5l_status h5l_device_decode(const h5l_frame_info* info, const h5l_device_batch* batch, uint64_t first, uint64_t values,
                             uint32_t* statuses, h5l_message* message);

/* Starts copying the frames of a batch to `packed`, one after another, so that a single copy moves them to the host.
 * Each begins at the next multiple of 16 bytes. frames, frame_stride and packed must be multiples of 16, too. */
h5l_status h5l_device_pack(const h5l_device_batch* batch, void* packed, h5l_message* message);

/* Chunks of an array on a GPU. */
typedef struct h5l_device_array {
  void* data;
  uint32_t value_bytes;          /* 1, 2, 4 or 8; of a component for complex numbers: components are one more axis */
  uint32_t rank;                 /* 1 to H5L_MAX_RANK */
  int64_t strides[H5L_MAX_RANK]; /* in bytes */
  uint64_t shape[H5L_MAX_RANK];
  uint32_t chunk[H5L_MAX_RANK]; /* extents of a chunk */
  uint32_t start[H5L_MAX_RANK]; /* position of the array's first value in its chunk; not 0 for parts of larger arrays */
  uint64_t padding;             /* bits of the value that chunks hold outside the array */
} h5l_device_array;

/* Starts copying chunks [first, first + batch->count), numbered in C order over the array, to batch->raw (gather) or
 * from it (scatter). */
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
