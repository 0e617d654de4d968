/* SPDX-FileCopyrightText: The h5lossy authors
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The C API of h5lossy: chunks of floats or integers to frames and back, within an error bound.
 *
 * libh5lossy is also the HDF5 plugin; this header is for callers with data in memory. More headers are for data
 * on a GPU (h5lossy_device.h), for chunks in HDF5 files (h5lossy_chunks.h) and for measuring errors
 * (h5lossy_assess.h). All functions are re-entrant. They allocate nothing that outlives the call, except the threads of
 * a pool and a GPU's memory. They never read or write outside the buffers passed to them, even if a frame is corrupt.
 * They restore the caller's floating-point environment.
 *
 * Python reads the part between the two "cffi" lines, so it holds plain declarations only.
 */
#ifndef H5LOSSY_H
#define H5LOSSY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* cffi: begin */

/* The HDF5 filter number. */
#define H5L_FILTER_ID 46412

/* Largest number of cd_values that h5lossy stores. */
#define H5L_MAX_CD_VALUES 29

/* Largest number of chunk dimensions that cd_values hold; leading ones of a higher rank are multiplied into one. */
#define H5L_MAX_RANK 8

/* The most exact values of a chunk. The fill value counts as one of them; integers of 8 bytes can have only one. */
#define H5L_MAX_EXACT 2
#define H5L_MAX_THRESHOLDS 4

/* Largest rank of an array in h5l_parts: HDF5's own limit. */
#define H5L_MAX_PART_RANK 32

/* Codec numbers (docs/format/frame.md). In a request 0 means "auto", in a frame it means "stored". */
#define H5L_CODEC_AUTO 0
#define H5L_CODEC_STORED 0
#define H5L_CODEC_PFPL 1
#define H5L_CODEC_CUSZP2 2
#define H5L_CODEC_AATROX 3
#define H5L_CODEC_INTERP 4

/* Modes of "auto" (docs/format/auto.md): what it optimizes for. */
#define H5L_AUTO_SPEED 0 /* the smallest frame among the fast codecs, by a sample */
#define H5L_AUTO_SIZE 1  /* the smallest frame of all */

/* What a bound limits. */
#define H5L_BOUND_ABSOLUTE 0
#define H5L_BOUND_POINTWISE_RELATIVE 1
#define H5L_BOUND_RANGE_RELATIVE 2
#define H5L_BOUND_LOSSLESS 3
#define H5L_BOUND_NOISE 4 /* integers: the bound times the square root of the value, and at least noise_floor */

/* Classes of types: the numbers are those in frames (docs/format/frame.md). */
#define H5L_CLASS_FLOAT 0    /* IEEE floats of 4 or 8 bytes */
#define H5L_CLASS_UNSIGNED 1 /* unsigned integers of 1, 2, 4 or 8 bytes */
#define H5L_CLASS_SIGNED 2   /* signed ones, in two's complement */
#define H5L_CLASS_HALF 3     /* IEEE floats of 2 bytes (float16) */
#define H5L_CLASS_BFLOAT 4   /* bfloat16: the upper 2 bytes of a float32 */
#define H5L_CLASS_COMPLEX 5  /* pairs of IEEE floats of 4 or 8 bytes each; value_bytes gives the size of one */

typedef enum h5l_status {
  H5L_OK = 0,
  H5L_INVALID_ARGUMENT = 1, /* an argument that is not allowed */
  H5L_UNSUPPORTED = 2,      /* a newer format version, or a codec that this build does not have */
  H5L_OUTPUT_TOO_SMALL = 3, /* the buffer for the result is too small */
  H5L_TRUNCATED = 4,        /* the frame ends too early */
  H5L_CORRUPT = 5,          /* the frame contradicts itself */
  H5L_OUT_OF_MEMORY = 6,
  H5L_DEVICE_ERROR = 7,
  H5L_INTERNAL = 8 /* a bug in h5lossy; please report it */
} h5l_status;

/* Why a call failed: what was given, and what is allowed. Always ends in a NUL. */
typedef struct h5l_message {
  char text[256];
} h5l_message;

/* How to encode a chunk. Zero-initialize it, then set the fields that apply. */
typedef struct h5l_params {
  uint32_t codec;        /* its number; 0: h5lossy chooses */
  uint32_t bound_kind;   /* H5L_BOUND_* */
  double bound;          /* > 0 and finite; pointwise-relative also < 1; noise from 1/16 to 256; 0 for lossless */
  uint32_t mode;         /* the codec's own mode; 0 is its default */
  uint32_t no_checksum;  /* 1: leave out the payload checksum */
  uint32_t value_bytes;  /* of a value; 0: the type is unknown, and the bytes are stored without compression */
  uint32_t big_endian;   /* 1: the values are big-endian in memory; 0 if they have one byte */
  uint32_t has_fill;     /* 1: values with the bits fill_bits are kept exactly, and no other value decodes to them */
  uint32_t maybe_padded; /* 1: zeros may be padding, so a range-relative bound leaves them out of the range */
  uint64_t fill_bits;    /* the fill value's bits as a number (of narrower types: in the low bits) */
  uint32_t rank;         /* number of entries of shape; 0: one dimension, as long as the data */
  uint32_t shape[H5L_MAX_RANK]; /* extents, slowest first, without those of 1 */
  uint32_t value_class;         /* H5L_CLASS_*. Integers and halves: by codecs 0, 1 and 4. Integers: absolute (in
                                   counts), range-relative, noise (up to 4 bytes) or lossless */
  uint32_t noise_floor;         /* kind noise: the bound is never less than so many counts; at most 32768 */
  uint32_t exact_count;         /* integers and halves with a bound: entries of `exact`, kept like the fill value */
  int64_t exact[H5L_MAX_EXACT]; /* whole numbers that the type can hold, in any order (uint64: in two's complement) */
  uint32_t wide; /* 1: integers with an absolute or range-relative bound of b counts are within b of two multiples of
                    b + 1, and come back as the one that their neighbours predict */
  /* Safeguards, with a bound: finite numbers; a value below, at or above a threshold stays so, and one in the valid
     range stays in it. Of integers and halves, 0 is the only threshold, and there is no valid range. */
  uint32_t threshold_count;
  uint32_t has_valid_range;
  double thresholds[H5L_MAX_THRESHOLDS];
  double valid_min, valid_max;
} h5l_params;

/* The header of a frame. */
typedef struct h5l_frame_info {
  uint32_t version;
  uint32_t codec;       /* its number; 0 is stored */
  uint32_t bound_kind;  /* as used: lossless if the requested bound was too small to be useful */
  uint32_t value_bytes; /* of a value; if the type is unknown, 1, and value_class is H5L_CLASS_FLOAT */
  uint32_t big_endian;
  uint32_t mode;
  uint32_t has_checksum;
  uint32_t header_bytes; /* fixed fields, without the tile table */
  uint64_t raw_bytes;
  uint64_t frame_bytes;
  uint64_t tiles;
  uint64_t stored_tiles; /* tiles kept as raw bytes */
  double bound;          /* as requested */
  double step;           /* bin width (of integers, 2 b + 1 for a bound of b counts, wide: at most b + 1);
                            pointwise-relative: the widest, as a fraction of the value; noise: 2 a + 1 with the
                            floor a; else 0 */
  uint32_t rank;         /* the number of dims in the frame: 0, 3 or 4 */
  uint32_t dims[4];      /* (w,) z, y, x */
  uint32_t value_class;  /* H5L_CLASS_* */
} h5l_frame_info;

/* Smallest and largest valid value (h5l_value_range). */
typedef struct h5l_range {
  double min;
  double max;
  uint64_t count; /* the number of valid values; if it is 0, min and max are 0 */
} h5l_range;

/* "1.2.3". */
const char* h5l_version(void);

/* Compiler and build type, for bug reports and benchmarks: "GNU 12.2.0, Release". */
const char* h5l_build(void);

/* "corrupt" for H5L_CORRUPT, and so on. */
const char* h5l_status_name(h5l_status status);

/* "pfpl" for H5L_CODEC_PFPL, and so on; NULL for an unknown number. */
const char* h5l_codec_name(uint32_t codec);

/* The backend in use ("scalar"), or NULL if h5l_self_test fails. */
const char* h5l_backend_name(void);

/* The name of the i-th backend of this build, best first; NULL past the last. If `usable` is not NULL, it is set to
 * 1 if this machine can run the backend, else to 0. */
const char* h5l_backend_at(uint32_t i, int* usable);

/* Checks that this machine's arithmetic gives the exact bits that the format needs. Runs once; later calls return
 * the same result: H5L_OK, H5L_INTERNAL (wrong bits), or H5L_INVALID_ARGUMENT (H5LOSSY_BACKEND is not a usable
 * backend). */
h5l_status h5l_self_test(h5l_message* message);

/* Largest frame for raw_bytes of input: raw_bytes + 40. 0 if raw_bytes is too large for a frame (4 GiB - 40). */
size_t h5l_max_encoded_size(size_t raw_bytes);

/* Encodes a chunk. `frame` needs h5l_max_encoded_size(raw_bytes) bytes and must not overlap `raw`. `message` may be
 * NULL in all functions. */
h5l_status h5l_encode(const h5l_params* params, const void* raw, size_t raw_bytes, void* frame, size_t capacity,
                      size_t* frame_bytes, h5l_message* message);

/* Reads and checks a frame's header and tile table, but not its payload. */
h5l_status h5l_inspect(const void* frame, size_t frame_bytes, h5l_frame_info* info, h5l_message* message);

/* The same for the first bytes of a frame: at least 64, or all of it. stored_tiles is set to 0. If the bytes include
 * the tile table (header_bytes + 4 * tiles of `info`), the status is that of h5l_inspect. If not, neither the
 * header's checksum nor the fields that it covers are checked; use `info` only to find the number of bytes needed. */
h5l_status h5l_inspect_header(const void* header, size_t header_bytes, size_t frame_bytes, h5l_frame_info* info,
                              h5l_message* message);

/* Decodes a whole frame after checking all of it. raw_bytes must be the value that h5l_inspect returns. */
h5l_status h5l_decode(const void* frame, size_t frame_bytes, void* raw, size_t raw_bytes, h5l_message* message);

/* Decodes values [first, first + count), reading only the tiles that hold them. The payload checksum is not checked,
 * because it covers the whole frame; everything else is. `raw` receives `count` values of the frame's type (bytes if
 * the type is unknown). */
h5l_status h5l_decode_range(const void* frame, size_t frame_bytes, uint64_t first, uint64_t count, void* raw,
                            size_t raw_bytes, h5l_message* message);

/* The default number of threads of a batch: H5LOSSY_NUM_THREADS, or else one for each CPU that the affinity mask and
 * the cgroup's CPU quota allow. H5L_INVALID_ARGUMENT if the variable is set and is not a number from 1 up. */
h5l_status h5l_default_threads(uint32_t* threads, h5l_message* message);

/* The layout of parts of chunks in an array in memory, for the _batch functions. All chunks have the same shape, and
 * the type in h5l_params. */
typedef struct h5l_parts {
  uint32_t rank;
  uint64_t chunk[H5L_MAX_PART_RANK];  /* extents of a chunk, the last axis is the fastest */
  int64_t strides[H5L_MAX_PART_RANK]; /* of the array: bytes from a value to the next one along each axis */
  uint64_t padding_bits;   /* encoding: the value of the chunk outside its part, with its bytes as in memory */
  const uint64_t* first;   /* `rank` numbers for each part: its position in its chunk */
  const uint64_t* extents; /* `rank` numbers for each part */
} h5l_parts;

/* Encodes `count` chunks as h5l_encode does, several at a time. Chunk i has raw_bytes[i] bytes at raw[i]. Its frame
 * is written to frames[i], which has capacities[i] bytes; frame_bytes[i] is set to the frame's size, or 0 on
 * failure. The bytes do not depend on the number of threads.
 *
 * If `parts` is NULL, chunks are contiguous. Otherwise raw[i] is the first value of part i in an array, and
 * raw_bytes[i] is the size of a whole chunk.
 *
 * `threads` is the largest number of threads, including the caller's; 0 is h5l_default_threads. If there are fewer
 * chunks than threads, several threads share the tiles of a chunk, with at least 1 MiB each. More than one thread
 * creates a pool, whose threads are kept for later batches. Batches may overlap and be nested, and also work in a
 * forked child.
 *
 * Every chunk is processed. statuses[i] is the status of chunk i, and messages[i] the reason of a failure, or "";
 * `messages` may be NULL. Returns H5L_OK, or the status and message of the first failed chunk in order. If the
 * arguments are invalid, no chunk is processed, and all statuses are set to the result. */
h5l_status h5l_encode_batch(const h5l_params* params, const h5l_parts* parts, size_t count, const void* const* raw,
                            const size_t* raw_bytes, void* const* frames, const size_t* capacities, size_t* frame_bytes,
                            h5l_status* statuses, h5l_message* messages, uint32_t threads, h5l_message* message);

/* Decodes `count` frames, several at a time; parts, threads, statuses and messages are as above. Frame i has
 * frame_bytes[i] bytes at frames[i]. Its values are written to raw[i]: all raw_bytes[i] of them, or those of part i.
 * If a part needs at most half of the tiles, only those are decoded. The payload's checksum is checked all the same.
 *
 * `params` may be NULL without parts. If it gives a type, a frame of another type or byte order is H5L_CORRUPT;
 * frames of unknown type are accepted, as in the filter. */
h5l_status h5l_decode_batch(const h5l_params* params, const h5l_parts* parts, size_t count, const void* const* frames,
                            const size_t* frame_bytes, void* const* raw, const size_t* raw_bytes, h5l_status* statuses,
                            h5l_message* messages, uint32_t threads, h5l_message* message);

/* Writes cd_values (docs/format/cd_values.md): 5 words, or 8 or 10 with exact values, or 16 if value_bytes is set;
 * plus up to 13 for safeguards. */
h5l_status h5l_pack_cd_values(const h5l_params* params, uint32_t words[H5L_MAX_CD_VALUES], size_t* count,
                              h5l_message* message);

/* Reads cd_values. Words past the first H5L_MAX_CD_VALUES are ignored. */
h5l_status h5l_unpack_cd_values(const uint32_t* words, size_t count, h5l_params* params, h5l_message* message);

/* The range of the valid values: finite, not the fill value, and, if maybe_padded is set, not zero. Uses value_bytes,
 * big_endian, has_fill, fill_bits and maybe_padded of `params`. Threads share the work as in a batch. */
h5l_status h5l_value_range(const h5l_params* params, const void* raw, size_t raw_bytes, uint32_t threads,
                           h5l_range* range, h5l_message* message);

/* The absolute bound for a range-relative one over [min, max], rounded down. 0 if only lossless satisfies the bound,
 * or if the arguments are invalid. */
double h5l_absolute_bound(double range_relative, double min, double max);

/* cffi: end */

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif

#endif
