/* SPDX-FileCopyrightText: The h5lossy authors
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Decodes frames of h5lossy, and does nothing else: for readers in other languages, and programs without HDF5.
 *
 * A frame is what the filter of HDF5, number 46412, makes of a chunk. The library libh5lossy_decode needs nothing but
 * the C library: it starts no threads, opens no files and prints nothing. All functions are re-entrant, and keep no
 * memory. Any bytes may be passed as a frame: those that are not a sound one give a status, and nothing is read or
 * written outside of the buffers.
 *
 *   h5ld_info info;
 *   h5ld_status status = h5ld_inspect(frame, frame_bytes, &info);
 *   if (status == H5LD_OK) {
 *     values = malloc(info.raw_bytes);
 *     status = h5ld_decode(frame, frame_bytes, H5LD_LITTLE_ENDIAN, values, info.raw_bytes);
 *   }
 *
 * The documentation has the part between the two "cffi" lines, so it holds plain declarations only.
 */
#ifndef H5LOSSY_DECODE_H
#define H5LOSSY_DECODE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* cffi: begin */

/* Classes of types. */
#define H5LD_CLASS_FLOAT 0    /* IEEE floats of 4 or 8 bytes; 1 byte: bytes of an unknown type */
#define H5LD_CLASS_UNSIGNED 1 /* unsigned integers of 1, 2, 4 or 8 bytes */
#define H5LD_CLASS_SIGNED 2   /* signed ones, in two's complement */
#define H5LD_CLASS_HALF 3     /* IEEE floats of 2 bytes (float16) */
#define H5LD_CLASS_BFLOAT 4   /* bfloat16: the upper 2 bytes of a float32 */
#define H5LD_CLASS_COMPLEX 5  /* pairs of IEEE floats of 4 or 8 bytes each; value_bytes gives the size of one */

/* What a bound limits. */
#define H5LD_BOUND_ABSOLUTE 0
#define H5LD_BOUND_POINTWISE_RELATIVE 1
#define H5LD_BOUND_RANGE_RELATIVE 2
#define H5LD_BOUND_LOSSLESS 3
#define H5LD_BOUND_NOISE 4 /* integers: the bound times the square root of the value */

typedef enum h5ld_status {
  H5LD_OK = 0,
  H5LD_INVALID_ARGUMENT = 1, /* a null pointer, or an unknown byte order */
  H5LD_UNSUPPORTED = 2,      /* made by a newer version of h5lossy */
  H5LD_OUTPUT_TOO_SMALL = 3,
  H5LD_TRUNCATED = 4, /* the frame ends too early */
  H5LD_CORRUPT = 5,   /* not a frame, or one that contradicts itself or its checksum */
  H5LD_OUT_OF_MEMORY = 6
} h5ld_status;

typedef enum h5ld_byte_order {
  H5LD_AS_STORED = 0, /* the byte order of the dataset, as in big_endian */
  H5LD_LITTLE_ENDIAN = 1,
  H5LD_BIG_ENDIAN = 2
} h5ld_byte_order;

/* Properties of a frame. */
typedef struct h5ld_info {
  uint64_t count;       /* values; a complex number is one */
  uint64_t raw_bytes;   /* of all values */
  double bound;         /* as requested; 0 if lossless */
  uint32_t bound_kind;  /* H5LD_BOUND_*; lossless if the bound was too small to be useful */
  uint32_t codec;       /* its number in docs/format/frame.md; 0: values are stored unencoded */
  uint32_t value_class; /* H5LD_CLASS_* */
  uint32_t value_bytes; /* of a value; of a complex number, of each of its two parts */
  uint32_t big_endian;  /* 1: the values of the dataset are big-endian */
  uint32_t rank;        /* number of dims: 0 (the codec does not use them), 3 or 4 */
  uint32_t dims[4];     /* (w,) z, y, x: the shape of the chunk; if it has more axes, the leading ones are multiplied */
} h5ld_info;

/* "1.2.3". */
const char* h5ld_version(void);

/* What a status means, and what to do. */
const char* h5ld_status_text(h5ld_status status);

/* Reads and checks the header and the tile table of a frame, but not its payload. If the status is not H5LD_OK,
 * `info` is zeroed. */
h5ld_status h5ld_inspect(const void* frame, size_t frame_bytes, h5ld_info* info);

/* Checks and decodes a frame. `values` has `values_bytes`, at least the raw_bytes of h5ld_inspect, and must not overlap
 * the frame. If the status is not H5LD_OK, their contents are undefined. */
h5ld_status h5ld_decode(const void* frame, size_t frame_bytes, h5ld_byte_order order, void* values,
                        size_t values_bytes);

/* cffi: end */

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif

#endif
