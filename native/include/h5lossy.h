/* SPDX-FileCopyrightText: The h5lossy authors
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The C API of h5lossy: chunks of float32 or float64 values to frames and back, within an error bound.
 *
 * libh5lossy is also the HDF5 plugin; this header is for callers that have bytes in memory. All functions are
 * re-entrant, allocate nothing that outlives the call (but for the threads of the _batch functions and a GPU's memory), and
 * never read or write outside the buffers that they are given, however broken a frame is. They leave the caller's
 * floating-point environment as it was.
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
#define H5L_MAX_CD_VALUES 16

/* Largest number of chunk dimensions that cd_values hold; leading ones of a higher rank are multiplied into one. */
#define H5L_MAX_RANK 8

/* Most axes of an array in h5l_parts: as many as HDF5 knows. */
#define H5L_MAX_PART_RANK 32

/* Codec numbers (docs/format/frame.md). In a request 0 means "auto", in a frame it means "stored". */
#define H5L_CODEC_AUTO 0
#define H5L_CODEC_STORED 0
#define H5L_CODEC_PFPL 1
#define H5L_CODEC_CUSZP2 2
#define H5L_CODEC_AATROX 3

/* What a bound limits. */
#define H5L_BOUND_ABSOLUTE 0
#define H5L_BOUND_POINTWISE_RELATIVE 1
#define H5L_BOUND_RANGE_RELATIVE 2
#define H5L_BOUND_LOSSLESS 3

typedef enum h5l_status {
  H5L_OK = 0,
  H5L_INVALID_ARGUMENT = 1, /* the caller asked for something that is not allowed */
  H5L_UNSUPPORTED = 2,      /* a newer format version, or a codec that this build does not have */
  H5L_OUTPUT_TOO_SMALL = 3, /* the buffer for the result is too small */
  H5L_TRUNCATED = 4,        /* the frame ends too early */
  H5L_CORRUPT = 5,          /* the frame contradicts itself */
  H5L_OUT_OF_MEMORY = 6,
  H5L_DEVICE_ERROR = 7,
  H5L_INTERNAL = 8 /* a fault of h5lossy's own; please report it */
} h5l_status;

/* Why a call failed, for people: what was given, what is allowed. Always ends in a NUL. */
typedef struct h5l_message {
  char text[256];
} h5l_message;

/* What to do with a chunk of values. Zero-initialise it, then set what applies. */
typedef struct h5l_params {
  uint32_t codec;        /* H5L_CODEC_*; 0 lets h5lossy choose */
  uint32_t bound_kind;   /* H5L_BOUND_* */
  double bound;          /* > 0 and finite; pointwise-relative also < 1; 0 for lossless */
  uint32_t mode;         /* the codec's own mode; 0 is its default */
  uint32_t no_checksum;  /* 1: leave out the payload checksum */
  uint32_t value_bytes;  /* 4 float32, 8 float64, 0 not known: the frame holds the bytes as they are */
  uint32_t big_endian;   /* 1: the values are big-endian in memory */
  uint32_t has_fill;     /* 1: values with the bits fill_bits are kept exactly, and no other value decodes to them */
  uint32_t maybe_padded; /* 1: zeros may be padding, so a range-relative bound leaves them out of the range */
  uint64_t fill_bits;    /* the fill value's bits as a number (float32: in the low 32 bits) */
  uint32_t rank;         /* number of entries of shape; 0: one dimension, as long as the data */
  uint32_t shape[8];     /* extents, slowest first, without those of 1 */
} h5l_params;

/* What a frame says about itself. */
typedef struct h5l_frame_info {
  uint32_t version;
  uint32_t codec;       /* H5L_CODEC_*; 0 is stored */
  uint32_t bound_kind;  /* as used: lossless where the requested bound was too small to help */
  uint32_t value_bytes; /* 4, 8, or 1 where the type was not known */
  uint32_t big_endian;
  uint32_t mode;
  uint32_t has_checksum;
  uint32_t header_bytes; /* fixed fields, without the tile table */
  uint64_t raw_bytes;
  uint64_t frame_bytes;
  uint64_t tiles;
  uint64_t stored_tiles; /* tiles kept as they were */
  double bound;          /* as the user gave it */
  double step;           /* bin width; pointwise-relative: the widest, as a fraction of the value; else 0 */
  uint32_t rank;         /* 3 where the frame holds dims, else 0 */
  uint32_t dims[3];      /* z, y, x */
} h5l_frame_info;

/* Smallest and largest of the values that count (h5l_value_range). */
typedef struct h5l_range {
  double min;
  double max;
  uint64_t count; /* how many values counted; 0: min and max are 0 */
} h5l_range;

/* "1.2.3". */
const char* h5l_version(void);

/* Compiler and build type, for bug reports and benchmarks: "GNU 12.2.0, Release". */
const char* h5l_build(void);

/* "corrupt" for H5L_CORRUPT, and so on. */
const char* h5l_status_name(h5l_status status);

/* "pfpl" for H5L_CODEC_PFPL, and so on; NULL for a number that this build does not know. */
const char* h5l_codec_name(uint32_t codec);

/* The backend in use ("scalar"), or NULL where h5l_self_test fails. */
const char* h5l_backend_name(void);

/* Name of the i-th backend that this build holds, best first; NULL past the last. `usable` may be NULL; it becomes 1
 * if this machine can run the backend. */
const char* h5l_backend_at(uint32_t i, int* usable);

/* Checks that the arithmetic of this machine gives the bits that the format needs. Runs once; later calls repeat the
 * answer. H5L_OK, or H5L_INTERNAL (wrong bits), or H5L_INVALID_ARGUMENT (H5LOSSY_BACKEND names no usable backend). */
h5l_status h5l_self_test(h5l_message* message);

/* Largest frame for raw_bytes of input: raw_bytes + 40. 0 where raw_bytes is too large for a frame (4 GiB - 40). */
size_t h5l_max_encoded_size(size_t raw_bytes);

/* Encodes a chunk. `frame` needs h5l_max_encoded_size(raw_bytes) bytes and must not overlap `raw`; `message` may be
 * NULL, here and below. */
h5l_status h5l_encode(const h5l_params* params, const void* raw, size_t raw_bytes, void* frame, size_t capacity,
                      size_t* frame_bytes, h5l_message* message);

/* Reads and checks a frame's header and tile table, but not its payload. */
h5l_status h5l_inspect(const void* frame, size_t frame_bytes, h5l_frame_info* info, h5l_message* message);

/* The same for the first bytes of a frame: at least 64, or all of it. stored_tiles is 0. If they include the tile table
 * (header_bytes + 4 * tiles of `info`), the status is that of h5l_inspect. If not, neither the header's checksum nor what
 * it covers is checked, and `info` only serves to find out how many bytes are needed. */
h5l_status h5l_inspect_header(const void* header, size_t header_bytes, size_t frame_bytes, h5l_frame_info* info,
                              h5l_message* message);

/* Decodes a whole frame after checking all of it. raw_bytes must be what h5l_inspect says. */
h5l_status h5l_decode(const void* frame, size_t frame_bytes, void* raw, size_t raw_bytes, h5l_message* message);

/* Decodes values [first, first + count) and touches only the tiles that hold them. The payload checksum covers the
 * whole frame and so is not checked; all else is. `raw` takes count values of the frame's type (bytes where it is not
 * known). */
h5l_status h5l_decode_range(const void* frame, size_t frame_bytes, uint64_t first, uint64_t count, void* raw,
                            size_t raw_bytes, h5l_message* message);

/* How many threads a batch gets where its caller names no number: H5LOSSY_NUM_THREADS, or else one for each CPU that
 * the affinity mask and the cgroup's CPU quota leave to this process. H5L_INVALID_ARGUMENT where the variable is set to
 * anything but a number from 1 up. */
h5l_status h5l_default_threads(uint32_t* threads, h5l_message* message);

/* How parts of chunks lie in an array in memory, for the _batch functions. All chunks have one shape, and their values
 * the type in h5l_params. */
typedef struct h5l_parts {
  uint32_t rank;
  uint64_t chunk[H5L_MAX_PART_RANK];  /* extents of a chunk, the last axis is the fastest */
  int64_t strides[H5L_MAX_PART_RANK]; /* of the array: bytes from a value to the next one along each axis */
  uint64_t padding_bits;   /* encoding: what the chunk has outside of its part; a value's bytes as in memory */
  const uint64_t* first;   /* `rank` numbers for each part: where it begins in its chunk */
  const uint64_t* extents; /* `rank` numbers for each part */
} h5l_parts;

/* Encodes `count` chunks as h5l_encode does, several at a time. Chunk i has raw_bytes[i] bytes at raw[i], and its frame
 * goes to frames[i], which has room for capacities[i]; frame_bytes[i] becomes the frame's size, 0 where there is none.
 * The bytes do not depend on the number of threads.
 *
 * `parts` may be NULL: the chunks are as they are. Otherwise raw[i] is the first value of part i in an array, and
 * raw_bytes are those of a whole chunk.
 *
 * `threads`: at most this many, the caller's among them; 0 is h5l_default_threads. If there are fewer chunks, several
 * threads share the tiles of one, given at least 1 MiB of it for each. More than one thread makes a pool, whose threads
 * stay for later batches. Batches may overlap, be nested, and go on in a forked child.
 *
 * Every chunk is tried. statuses[i] says how chunk i went, and messages[i] why it failed ("" where it did not);
 * `messages` may be NULL. The result is H5L_OK, or the status and message of the first chunk that failed, in their
 * order. If the arguments themselves are wrong, nothing is tried, and all statuses are the result. */
h5l_status h5l_encode_batch(const h5l_params* params, const h5l_parts* parts, size_t count, const void* const* raw,
                            const size_t* raw_bytes, void* const* frames, const size_t* capacities, size_t* frame_bytes,
                            h5l_status* statuses, h5l_message* messages, uint32_t threads, h5l_message* message);

/* Decodes `count` frames, several at a time; parts, threads, statuses and messages are as above. Frame i has
 * frame_bytes[i] bytes at frames[i], and its values go to raw[i]: all raw_bytes[i] of them, or those of part i. Of a
 * chunk whose part is small, only the tiles that hold it are decoded, after the payload's checksum.
 *
 * `params` may be NULL without parts. With a type in it, a frame of another type or byte order is H5L_CORRUPT; frames of
 * unknown type pass, as in the filter. */
h5l_status h5l_decode_batch(const h5l_params* params, const h5l_parts* parts, size_t count, const void* const* frames,
                            const size_t* frame_bytes, void* const* raw, const size_t* raw_bytes, h5l_status* statuses,
                            h5l_message* messages, uint32_t threads, h5l_message* message);

/* Writes cd_values (docs/format/cd_values.md): 5 words, or all 16 with value_bytes set. */
h5l_status h5l_pack_cd_values(const h5l_params* params, uint32_t words[16], size_t* count, h5l_message* message);

/* Reads cd_values. Words past the 16th are ignored. */
h5l_status h5l_unpack_cd_values(const uint32_t* words, size_t count, h5l_params* params, h5l_message* message);

/* Range of the valid values: finite, not the fill value, and with maybe_padded not zero. Reads value_bytes, big_endian,
 * has_fill, fill_bits and maybe_padded of `params`. */
h5l_status h5l_value_range(const h5l_params* params, const void* raw, size_t raw_bytes, h5l_range* range,
                           h5l_message* message);

/* The absolute bound for a range-relative one over [min, max], rounded down; 0 where only lossless will do, and where
 * the arguments make no sense. */
double h5l_absolute_bound(double range_relative, double min, double max);

/* Assessment: how far decoded data is off (docs/assess.md says what each number means).
 *
 * A field is assessed in pieces of any size. What is known so far stands in a state: plain bytes of the caller's, of
 * h5l_assess_state_bytes, which may be copied, stored and merged on a machine of the same byte order. Counts, extrema
 * and histograms do not depend on the pieces; sums do not either, as long as the pieces come in C order, and otherwise
 * in the last digits only. Nothing depends on the backend and the number of threads. */

/* Largest rank of a field with stencils and windows, and most lags, sides of a window, thresholds, and listed points. */
#define H5L_ASSESS_MAX_RANK 4
#define H5L_ASSESS_MAX_LAGS 16
#define H5L_ASSESS_MAX_WINDOW 16
#define H5L_ASSESS_MAX_THRESHOLDS 8
#define H5L_ASSESS_LISTED 16
#define H5L_ASSESS_LOG_BINS 4096
#define H5L_ASSESS_LINEAR_BINS 258

/* In place of H5L_BOUND_*: nothing was promised. */
#define H5L_BOUND_NONE 4

/* What became of values that are not compared as numbers; an index of h5l_assess_points_result.special. A point is
 * counted by what it was in the original. */
#define H5L_SPECIAL_NAN_KEPT 0       /* every bit is kept */
#define H5L_SPECIAL_NAN_CHANGED 1    /* still a NaN, but with other bits */
#define H5L_SPECIAL_NAN_LOST 2       /* became a number or infinite */
#define H5L_SPECIAL_NAN_INTRODUCED 3 /* a finite value became NaN */
#define H5L_SPECIAL_INF_KEPT 4
#define H5L_SPECIAL_INF_CHANGED 5    /* became anything else */
#define H5L_SPECIAL_INF_INTRODUCED 6 /* a finite value became infinite */
#define H5L_SPECIAL_FILL_KEPT 7
#define H5L_SPECIAL_FILL_LOST 8       /* became anything else */
#define H5L_SPECIAL_FILL_INTRODUCED 9 /* a valid value became the fill value (and counts as valid) */
#define H5L_SPECIAL_KINDS 10

/* What to assess. Zero-initialise it, then set what applies; all calls for one state get the same. */
typedef struct h5l_assess_params {
  uint32_t value_bytes;         /* of both fields: 4 float32, 8 float64 */
  uint32_t original_big_endian; /* 1: the original's values are big-endian in memory */
  uint32_t decoded_big_endian;
  uint32_t has_fill; /* 1: values with the bits fill_bits are no data */
  uint64_t fill_bits;
  uint32_t bound_kind; /* H5L_BOUND_ABSOLUTE, _POINTWISE_RELATIVE, _LOSSLESS, _NONE; for range-relative give absolute */
  uint32_t threads;    /* at most this many; 0 is h5l_default_threads */
  /* The bound is the exact sum of limit[0] and limit[1]: the nearest float64, and what that lacks, rounded down.
   * half_limit is the same for half of it, since a range-relative bound may overflow. Pointwise-relative: limit[0]. */
  double limit[2];
  double half_limit[2];
  double histogram_limit; /* the linear histogram covers errors up to it, and counts larger ones apart; 0: all errors */
  double pointwise_threshold; /* counts |y - x| > threshold |x|; 0: not */
  uint32_t threshold_count;
  uint32_t lags;        /* of the autocorrelation, at most H5L_ASSESS_MAX_LAGS; 0: none */
  double thresholds[8]; /* counts points that change from one side of a threshold to the other */
  uint32_t stencils;    /* 1: gradient and Laplacian */
  uint32_t window;      /* side of SSIM's windows, 2 to H5L_ASSESS_MAX_WINDOW; 0: no SSIM */
  uint32_t step;        /* distance of windows, from 1 up */
  uint32_t rank; /* of the field for stencils, lags and windows: 1 to 4 extents, none of them 1 unless it is all */
  uint64_t shape[4];
  double spacing[4];  /* distance of points along each axis */
  double value_range; /* SSIM's range, above 0 and finite; a piece before it is known does no SSIM */
  uint32_t on_device; /* 1: values and masks are in the memory of one GPU, and no work on them is under way */
} h5l_assess_params;

/* One point of the field, by its number in C order. */
typedef struct h5l_assess_point {
  uint64_t at;
  double original;
  double decoded;
} h5l_assess_point;

/* Reductions over all points. Sums of squares are about the means. Without a valid point all but counts are 0. */
typedef struct h5l_assess_points_result {
  uint64_t count; /* points seen */
  uint64_t valid; /* finite in both, not the fill value, not masked */
  uint64_t masked;
  uint64_t special[10];
  uint64_t special_first[10]; /* the lowest number of such a point */
  double original_min, original_max, decoded_min, decoded_max;
  double error_min, error_max, error_min_abs;
  h5l_assess_point worst;              /* the first with the largest |y - x| */
  double pointwise_min, pointwise_max; /* of |y - x| / |x|, over original values other than 0 */
  double mean_original, mean_error;
  double squares_original, squares_error, products; /* sums about the means; products of original and error */
  double sum_abs_error, sum_pointwise;
  uint64_t zeros, zeros_changed; /* original values that are 0 */
  uint64_t over_threshold;
  uint64_t threshold_crossings[8];
  uint64_t violations;
  uint32_t listed;                /* entries of violation */
  int32_t grid_exponent;          /* bins of the linear histogram are 2^this wide; INT32_MIN: all errors are 0 */
  h5l_assess_point violation[16]; /* the first ones */
  /* Errors from 0 up, then those below, each in eighths of octaves from 2^-127 up: bin i begins at
   * 2^(i / 8 - 127) (1 + i % 8 / 8), the first one at 0, and the last one has no end. */
  uint64_t log_bins[4096];
  uint64_t linear_bins[258]; /* 128 bins from 0 up, 128 from 0 down, and what is larger in size: above, below */
} h5l_assess_points_result;

/* Stencils at points that have all their neighbours; autocorrelation of pairs; windows. The a-th axis of the field has
 * index a. Sums of the autocorrelation are of errors less pivot_error. */
typedef struct h5l_assess_field_result {
  uint64_t interior;
  double slope_max[4], slope_error_max[4], slope_error_squares[4];
  double gradient_min, gradient_max, gradient_error_max, gradient_error_squares;
  double laplacian_squares, laplacian_error_max, laplacian_error_squares;
  double error_squares; /* of the error itself, at the same points */
  double pivot_error;
  /* For lag k + 1: pairs, sum of products, sum of both. Index 4 is the paper's mean over the axes (its equation 2). */
  double lag_pairs[5][16], lag_products[5][16], lag_sums[5][16];
  uint64_t windows;
  double window_sum;     /* of 1 - SSIM */
  double window_worst;   /* largest 1 - SSIM */
  uint64_t window_at[4]; /* its lowest corner, the first of several */
} h5l_assess_field_result;

/* Largest error and more in each box of a grid: h5l_assess_boxes. */
typedef struct h5l_assess_box {
  uint64_t valid;
  uint64_t special_failures; /* NaN, infinite and fill values that were changed, lost or made */
  double error_max_abs;
  double error_squares; /* sum, not about the mean */
} h5l_assess_box;

/* A part of the field in memory, and the points that a call counts. A stencil, pair or window belongs to its lowest
 * corner, so a piece reaches further than what it owns by max(lags, window - 1, 2) along each axis, unless the field
 * ends. Values may stand at any address; along the last axis they are adjacent. */
typedef struct h5l_assess_piece {
  const void* original;
  const void* decoded;
  const uint8_t* mask;                                              /* not 0: leave the point out; may be NULL */
  int64_t original_strides[4], decoded_strides[4], mask_strides[4]; /* in bytes; the last is a value's size */
  uint64_t origin[4], extent[4];
  uint64_t own_origin[4], own_extent[4];
} h5l_assess_piece;

/* Size of a state. */
size_t h5l_assess_state_bytes(void);

/* Makes an empty state; its address is a multiple of 8. */
h5l_status h5l_assess_begin(void* state, h5l_message* message);

/* Takes the points first, first + 1, ... in C order; `mask` may be NULL. */
h5l_status h5l_assess_points(const h5l_assess_params* params, void* state, uint64_t first, uint64_t count,
                             const void* original, const void* decoded, const uint8_t* mask, h5l_message* message);

/* Stencils, lags and windows of the points that a piece owns. All points of the piece, those that it does not own too, have
 * been given to h5l_assess_points before: a state that has seen none but valid points takes a piece's for valid. */
h5l_status h5l_assess_field(const h5l_assess_params* params, void* state, const h5l_assess_piece* piece,
                            h5l_message* message);

/* Adds what a piece owns to the boxes of a grid that starts at the field's origin: boxes of box_extent along each axis,
 * in C order. */
h5l_status h5l_assess_boxes(const h5l_assess_params* params, const h5l_assess_piece* piece,
                            const uint64_t box_extent[4], h5l_assess_box* boxes, size_t box_count,
                            h5l_message* message);

/* Adds another state, of other points of the same field, to this one. `params` are the other's. */
h5l_status h5l_assess_merge(const h5l_assess_params* params, void* state, const void* other, h5l_message* message);

/* What is known so far. Leaves the state as it is; either result may be NULL. */
h5l_status h5l_assess_result(const h5l_assess_params* params, const void* state, h5l_assess_points_result* points,
                             h5l_assess_field_result* field, h5l_message* message);

/* GPUs
 *
 * h5l_encode and h5l_decode, and so the HDF5 filter, use a GPU by themselves: the environment variable H5LOSSY_DEVICE is
 * "auto" (the faster one, the default), "cpu", "gpu" or "gpu:N". The bytes are the same. Where a GPU that was asked for cannot
 * be used, the CPU does the work, and one line on standard error says why. With H5LOSSY_COUNTS=1, another one tells
 * h5l_counts when the process ends. Nothing else is ever printed.
 *
 * The functions below are for data that is on a GPU already. They need no more than the CUDA driver; `stream` is a
 * CUstream (or cudaStream_t) of the device that the pointers belong to, and all work goes to it: nothing is allocated,
 * nobody waits, and it can be captured into a CUDA graph (after one call of the same kind, which loads the kernels). */

/* How many chunks have been encoded and decoded by h5l_encode, h5l_decode and the filter, in this process, and by whom. */
typedef struct h5l_counts {
  uint64_t cpu_encoded;
  uint64_t cpu_decoded;
  uint64_t gpu_encoded;
  uint64_t gpu_decoded;
} h5l_counts;

void h5l_get_counts(h5l_counts* counts);

/* What GPUs there are, where chunks go, and why: lines of text. Opens the GPUs. Returns how many bytes the text has, of which
 * at most capacity - 1 are written, and a NUL. */
size_t h5l_describe_devices(char* text, size_t capacity);

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
 * lossless ones of PFPL, are always accepted. If `values` is 0, only headers and tile tables are checked. However broken
 * a frame is, nothing outside the buffers is touched. */
h5l_status h5l_device_decode(const h5l_frame_info* info, const h5l_device_batch* batch, uint64_t first, uint64_t values,
                             uint32_t* statuses, h5l_message* message);

/* Starts to copy the frames of a batch to `packed`, one behind the other, so that one copy brings them to the host: each
 * begins at the next multiple of 16 bytes. Frames, frame_stride and `packed` are multiples of 16 too. */
h5l_status h5l_device_pack(const h5l_device_batch* batch, void* packed, h5l_message* message);

/* Chunks of an array on a GPU. */
typedef struct h5l_device_array {
  void* data;
  uint32_t value_bytes; /* 4 or 8 */
  uint32_t rank;        /* 1 to 8 */
  int64_t strides[8];   /* in bytes */
  uint64_t shape[8];
  uint32_t chunk[8]; /* extents of a chunk */
  uint32_t start[8]; /* where in its chunk the array's first value lies: 0, or part of a larger array is meant */
  uint64_t padding;  /* bits of a value: what a chunk holds where the array has nothing */
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
