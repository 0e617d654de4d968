// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Work on whole chunks: headers and stored frames after encoding, opening frames before decoding, and the value range
// for range-relative bounds.
#pragma once

#include "codecs/bounds.h"
#include "kernels/common/integers.cuh"
#include "kernels/common/lookback.cuh"
#include "kernels/common/tile_io.cuh"

namespace h5lossy::H5L_TARGET {

using gpu::FinishPlan;
using gpu::OpenPlan;

// Absolute and range-relative frames are decoded by the same kernels.
H5L_DEVICE u32 kind_class(u32 kind) { return kind == static_cast<u32>(BoundKind::range_relative) ? 0 : kind; }

struct FinishShared {
  u32 totals[kWarps];
};

template <bool has_integers>
H5L_DEVICE FrameHeader make_header(const FinishPlan& plan, const Quantizer& quantizer, bool is_stored) {
  const EncodePlan& encode = plan.encode;
  FrameHeader header;
  header.value_class = static_cast<u8>(plan.value_class);
  header.value_bytes = static_cast<u8>(plan.value_bytes);
  header.big_endian = plan.big_endian != 0;
  header.bound_kind = static_cast<u8>(is_stored ? plan.requested_kind : static_cast<u32>(quantizer.kind));
  header.has_checksum = encode.with_checksum != 0;
  header.raw_bytes = encode.shape.raw_bytes;
  header.bound = plan.bound;
  if (is_stored) return header;
  header.codec = static_cast<u8>(plan.codec);
  header.mode = static_cast<u8>(encode.mode);
  header.step_bits = step_bits_of(quantizer);
  header.header_bytes = encode.header_bytes;
  if (has_integers) {
    header.step_bits = quantizer.scale;
    header.exact_count = quantizer.exact_count;
    header.set_exact(quantizer.exact[0], quantizer.exact[1]);
    if (quantizer.stride > 1) header.set_stride(quantizer.base, quantizer.stride);
  }
  header.dim_count = has_integers ? plan.header_dims : (encode.header_bytes - kHeaderBytes) / 4;
  for (u32 i = 0; i < header.dim_count; ++i) header.dims[i] = encode.shape.dims[kAxes - header.dim_count + i];
  return header;
}

// Writes a header with its checksum; `table_sum` is the tile table's share. Called by one thread.
H5L_DEVICE void write_header(const FrameHeader& header, u32 payload_sum, u32 table_sum, u8* frame) {
  HeaderWords words = pack_header(header, payload_sum);
  const u32 count = header.header_bytes / 4;
  u32 sum = table_sum;
  for (u32 i = 0; i < count; ++i) sum += header_sum_share(words.at[i], i);
  words.at[kHeaderSumWord] = sum;
  for (u32 i = 0; i < count; ++i) reinterpret_cast<u32*>(frame)[i] = words.at[i];
}

// A column of thread blocks per chunk (block_row). The first one writes the header; if the frame would not shrink, all
// of them store the chunk.
template <bool is_lossless, bool has_integers = false>
H5L_DEVICE void finish_frames(const FinishPlan& plan) {
  const EncodePlan& encode = plan.encode;
  const u32 chunk = block_row();
  const Quantizer& quantizer = quantizer_of(encode, chunk);
  if (!has_integers && (quantizer.kind == BoundKind::lossless) != is_lossless) return;  // another launch handles it
  u32* const totals = reinterpret_cast<FinishShared*>(shared_memory())->totals;
  u8* const frame = frame_of(encode, chunk);
  const u32 payload = encode.totals[chunk];
  const u64 frame_bytes = encode.header_bytes + u64{kTileEntryBytes} * encode.shape.tiles + payload;
  const u64 stored_bytes = u64{kHeaderBytes} + encode.shape.raw_bytes;
  u32 sum = 0;
  if (frame_bytes < stored_bytes) {
    if (block_number() != 0) return;
    if (thread() != 0) return;
    write_header(make_header<has_integers>(plan, quantizer, false), encode.sums[chunk], encode.table_sums[chunk],
                 frame);
    plan.frame_bytes[chunk] = frame_bytes;
    return;
  }
  // The encoded payload is discarded, and so is its checksum. The stored values' checksum is collected in a second
  // word, and replaces it when all blocks are done.
  const u8* const raw = raw_of(encode, chunk);
  const u32 bytes = encode.shape.raw_bytes;
  for (u32 i = block_number() * kThreads + thread(); i < (bytes + 3) / 4; i += grid_blocks() * kThreads) {
    const u32 size = bytes - 4 * i < 4 ? bytes - 4 * i : 4;
    const u32 word = load_some(raw + 4 * i, size);
    store_some(frame + kHeaderBytes + 4 * i, size, word);
    sum += checksum_share(word, 0, i);
  }
  u32 total = 0;
  scan_of_block(sum, totals, total);
  if (thread() != 0) return;
  atomic_add(plan.done + 2 * chunk + 1, total);
  fence();
  if (atomic_add_and_get(plan.done + 2 * chunk, 1) + 1 != grid_blocks()) return;
  const u32 stored_sum = atomic_add_and_get(plan.done + 2 * chunk + 1, 0);
  write_header(make_header<has_integers>(plan, quantizer, true), stored_sum, 0, frame);
  plan.frame_bytes[chunk] = stored_bytes;
}

// ---------------------------------------------------------------------------------------------------------------------
// Before decoding

// The header's first fields, compared with the description of the batch.
struct FrameOpening {
  gpu::FrameForm form;
  u32 header_bytes, dims;
  gpu::FrameTiles tiles;
};

template <bool has_integers>
H5L_DEVICE FrameOpening open_header(const OpenPlan& plan, const HeaderWords& words, const FrameHeader& header,
                                    u64 bytes) {
  constexpr FrameOpening none = {gpu::FrameForm::none, 0, 0, {}};
  const gpu::Shape& shape = plan.decode.shape;
  if (bytes < kHeaderBytes || words.at[0] != kFrameMagic || version_of(words) != kFormatVersion) return none;
  if ((flags_of(words) & kMustUnderstandFlags) != 0 || header.raw_bytes != shape.raw_bytes) return none;
  if (header.value_class != plan.value_class || header.value_bytes != plan.value_bytes) return none;
  if (header.big_endian != (plan.big_endian != 0)) return none;
  if (header.bound_kind > H5L_BOUND_LOSSLESS || !has_valid_bound(header)) return none;
  const bool has_words = has_integers && header.codec != H5L_CODEC_STORED;
  if (has_words ? !has_plain_integer_fields(header) : !has_valid_step(header)) return none;
  if (!header.has_checksum && words.at[kPayloadSumWord] != 0) return none;
  FrameOpening opening = {gpu::FrameForm::none, kHeaderBytes, 0, {}};
  const bool is_lossless = header.bound_kind == H5L_BOUND_LOSSLESS;
  if (header.codec == H5L_CODEC_STORED && header.mode == 0) {
    opening.form = gpu::FrameForm::stored;
  } else if (header.codec == plan.lossless_codec && header.mode == 0 && (is_lossless || has_integers)) {
    opening.form = gpu::FrameForm::lossless;
    opening.tiles = plan.lossless_tiles;
    if (has_integers) opening.header_bytes = kIntegerHeaderBytes;
    if (has_integers) opening.dims = 3;
  } else if (header.codec == plan.codec && ((header.mode ^ plan.decode.mode) & plan.other_bits) == 0 &&
             (has_integers || (!is_lossless && kind_class(header.bound_kind) == kind_class(plan.kind)))) {
    opening.tiles = plan.layouts[header.mode & plan.layout_bits];
    if (opening.tiles.count == 0) return none;
    opening.form = gpu::FrameForm::main;
    opening.header_bytes = plan.decode.header_bytes;
    opening.dims = plan.header_dims;
  }
  // Later versions may have longer headers, which the host parses.
  if (header.header_bytes != opening.header_bytes) return none;
  if (opening.header_bytes + u64{kTileEntryBytes} * opening.tiles.count > bytes) return none;
  if (opening.header_bytes == kHeaderBytes) return opening;
  bool has_dims = true;
  H5L_UNROLL for (u32 i = 0; i < kMaxDims; ++i) {
    const u32 word = words.at[kFirstDimWord + i];
    // In headers of integers, words that no dim takes are 0.
    has_dims =
        has_dims && (i < opening.dims ? word == shape.dims[kAxes - opening.dims + i] : !has_integers || word == 0);
  }
  return has_dims ? opening : none;
}

// A column of thread blocks per frame (block_row): the first one opens the frame, all of them clear the words through
// which its decoders communicate. The host decodes rejected frames again and produces the error message.
template <bool has_integers>
H5L_DEVICE void open_frames(const OpenPlan& plan) {
  const DecodePlan& decode = plan.decode;
  auto& shared = *reinterpret_cast<FinishShared*>(shared_memory());
  const u32 chunk = block_row();
  for (u32 i = block_number() * kThreads + thread(); i < plan.published_words; i += grid_blocks() * kThreads) {
    decode.published[u64{chunk} * plan.published_words + i] = 0;
  }
  if (block_number() != 0) return;
  if (thread() < decode.slots) decode.sums[chunk * decode.slots + thread()] = {};
  const u32* const frame = reinterpret_cast<const u32*>(decode.frames + chunk * decode.frame_stride);
  const u64 bytes = plan.frame_bytes[chunk];
  // Load everything that nearly every frame needs at once, to overlap the latencies.
  HeaderWords words;
  H5L_UNROLL for (u32 i = 0; i < (has_integers ? kIntegerHeaderBytes / 4 : kFirstDimWord + kMaxDims); ++i) {
    words.at[i] = 4 * i + 4 <= bytes ? load_constant(frame + i) : 0;
  }
  const u32 main_words = decode.header_bytes / 4 + decode.shape.tiles;
  const u32 last_of_main = u64{4} * main_words <= bytes && main_words != 0 ? load_constant(frame + main_words - 1) : 0;
  FrameHeader header = unpack_header(words);
  if constexpr (has_integers) unpack_integer_fields(words, header);
  const FrameOpening opening = open_header<has_integers>(plan, words, header, bytes);
  bool is_fine = opening.form != gpu::FrameForm::none;
  const u64 payload_at = opening.header_bytes + u64{kTileEntryBytes} * opening.tiles.count;
  // If all tiles are decoded, their decoders add up the table's checksum.
  const bool is_whole = decode.wanted == decode.shape.count && opening.form != gpu::FrameForm::stored;
  u32 sum = 0;
  u32 last = 0;
  if (is_fine) {
    const u32 summed = is_whole ? opening.header_bytes / 4 : static_cast<u32>(payload_at / 4);
    for (u32 i = thread(); i < summed; i += kThreads) sum += header_sum_share(frame[i], i);
    const u32* const ends = frame + opening.header_bytes / 4;
    for (u32 i = thread(); !is_whole && i < opening.tiles.count; i += kThreads) {
      is_fine = is_fine && (i == 0 || ends[i - 1] <= ends[i]);
    }
    last = opening.form == gpu::FrameForm::stored                         ? decode.shape.raw_bytes
           : opening.tiles.count == 0                                     ? 0
           : opening.header_bytes / 4 + opening.tiles.count == main_words ? last_of_main
                                                                          : ends[opening.tiles.count - 1];
    is_fine = is_fine && payload_at + last == bytes;
  }
  u32 total = 0;
  scan_of_block(sum, shared.totals, total);
  is_fine = is_fine && (is_whole || total == words.at[kHeaderSumWord]);
  is_fine = !any_in_block(!is_fine);
  if (thread() != 0) return;
  DecodeJob job = {};
  job.form = is_fine ? opening.form : gpu::FrameForm::none;
  if (is_fine) {
    job.mode = header.mode;
    job.tiles = opening.tiles;
    job.payload_bytes = last;
    job.check_sum = header.has_checksum && decode.wanted == decode.shape.count ? 1 : 0;
    job.payload_sum = words.at[kPayloadSumWord];
    job.check_table = is_whole ? 1 : 0;
    job.table_sum = words.at[kHeaderSumWord] - total;
    job.step_bits = header.step_bits;
  }
  plan.jobs[chunk] = job;
  if constexpr (has_integers) {
    if (job.form == gpu::FrameForm::lossless || job.form == gpu::FrameForm::main) {
      plan.lattices[chunk] = word_lattice_of(integer_quantizer_of(header), header.value_class, header.value_bytes);
    }
  }
  decode.statuses[chunk] = static_cast<u32>(is_fine ? gpu::DecodeStatus::ok : gpu::DecodeStatus::other);
}

// ---------------------------------------------------------------------------------------------------------------------
// Range-relative bounds

// Maps a number's bits to an integer with the same order; finite numbers map to neither 0 nor all ones.
template <class W>
H5L_DEVICE u64 ordered(W bits) {
  constexpr W sign = W{1} << (8 * sizeof(W) - 1);
  return (bits & sign) != 0 ? static_cast<W>(~bits) : static_cast<W>(bits | sign);
}
template <class W>
H5L_DEVICE W unordered(u64 key) {
  constexpr W sign = W{1} << (8 * sizeof(W) - 1);
  const W bits = static_cast<W>(key);
  return (bits & sign) != 0 ? static_cast<W>(bits & ~sign) : static_cast<W>(~bits);
}

struct RangeShared {
  u64 largest[kWarps], smallest[kWarps];
};

// Several thread blocks per chunk. They read it from its end to its beginning, so that the encoder finds the beginning
// in L2.
template <class T>
H5L_DEVICE void range_of_chunk(const gpu::RangePlan& plan) {
  using W = Word<T>;
  constexpr u32 per_quad = sizeof(Quad) / sizeof(W), at_once = 4;  // quads of a thread
  const W* const values = reinterpret_cast<const W*>(plan.raw + block_row() * plan.raw_stride);
  W largest = 0, smallest = 0;
  const auto take = [&](W bits) {
    const W size = bits & ~kSignBit<T>;
    const bool is_skipped = size >= kInfinity<T> || (plan.has_fill != 0 && bits == static_cast<W>(plan.fill_bits)) ||
                            (plan.skip_zeros != 0 && size == 0);
    const W key = static_cast<W>(ordered(bits)), complement = static_cast<W>(~key);
    if (!is_skipped && key > largest) largest = key;
    if (!is_skipped && complement > smallest) smallest = complement;
  };
  // Single values before the first aligned quad and after the last one.
  const u32 lead = static_cast<u32>(0 - reinterpret_cast<u64>(values)) % sizeof(Quad) / sizeof(W);
  const u32 head = lead < plan.count ? lead : plan.count;
  const u32 quads = (plan.count - head) / per_quad, tail = head + quads * per_quad;
  if (block_number() == 0 && thread() < head) take(values[thread()]);
  if (block_number() == 0 && tail + thread() < plan.count) take(values[tail + thread()]);
  const Quad* const all = reinterpret_cast<const Quad*>(values + head);
  const u32 threads = grid_blocks() * kThreads;
  for (u32 i = block_number() * kThreads + thread(); i < quads; i += at_once * threads) {
    Quad own[at_once];
    H5L_UNROLL for (u32 k = 0; k < at_once; ++k) {
      const u32 at = i + k * threads;
      own[k] = all[quads - 1 - (at < quads ? at : i)];
    }
    H5L_UNROLL for (u32 k = 0; k < at_once; ++k) {
      if constexpr (sizeof(W) == 4) {
        take(own[k].x);
        take(own[k].y);
        take(own[k].z);
        take(own[k].w);
      } else {
        take(u64{own[k].x} | u64{own[k].y} << 32);
        take(u64{own[k].z} | u64{own[k].w} << 32);
      }
    }
  }
  // Once for the thread block: atomic operations on one address are serialized.
  auto& shared = *reinterpret_cast<RangeShared*>(shared_memory());
  const u64 warp_largest = largest_of_warp(u64{largest}), warp_smallest = largest_of_warp(u64{smallest});
  if (lane() == 0) {
    shared.largest[warp()] = warp_largest;
    shared.smallest[warp()] = warp_smallest;
  }
  sync_block();
  if (thread() >= kWarps) return;
  atomic_max(plan.ends + 2 * block_row(), shared.largest[thread()]);
  atomic_max(plan.ends + 2 * block_row() + 1, shared.smallest[thread()]);
}

H5L_DEVICE void measure_ranges(const gpu::RangePlan& plan) {
  plan.value_bytes == 4 ? range_of_chunk<float>(plan) : range_of_chunk<double>(plan);
}

template <class T>
H5L_DEVICE Quantizer quantizer_of_range(const gpu::RangePlan& plan, u64 largest, u64 smallest) {
  double bound = 0;
  if (largest != 0) {
    const T max = bit_cast<T>(unordered<Word<T>>(largest));
    const T min = bit_cast<T>(unordered<Word<T>>(static_cast<Word<T>>(~smallest)));
    bound = bound_of_range(plan.bound, static_cast<double>(min), static_cast<double>(max));
  }
  return make_absolute<T>(plan.quantizer, bound, plan.step_rule);
}

// One thread per chunk.
H5L_DEVICE void make_quantizers(const gpu::RangePlan& plan) {
  const u32 i = block_number() * kThreads + thread();
  if (i >= plan.chunks) return;
  const u64 largest = plan.ends[2 * i], smallest = plan.ends[2 * i + 1];
  plan.quantizers[i] = plan.value_bytes == 4 ? quantizer_of_range<float>(plan, largest, smallest)
                                             : quantizer_of_range<double>(plan, largest, smallest);
}

// ---------------------------------------------------------------------------------------------------------------------
// Integers

H5L_DEVICE u64 divisor_of(u64 a, u64 b) {
  while (b != 0) {
    const u64 rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}
H5L_DEVICE u64 divisor_of_warp(u64 value) {
  for (u32 by = 16; by != 0; by /= 2) value = divisor_of(value, shuffle_xor(value, by));
  return value;
}

// The range of a chunk, and the greatest common divisor of all differences to its first value. Several thread blocks
// per chunk; most find after a few values that the divisor is 1.
template <class W>
H5L_DEVICE void measure_integers_of(const gpu::IntegerPlan& plan) {
  constexpr u32 first_values = 256;
  const W* const values = reinterpret_cast<const W*>(plan.raw + block_row() * plan.raw_stride);
  const W sign = static_cast<W>(sign_of_words(plan.value_class, sizeof(W)));
  const bool has_stride = !is_half(plan.value_class);
  const W first = static_cast<W>(values[0] ^ sign);
  W stride = has_stride ? 0 : 1, largest = 0, smallest = 0;
  const auto take = [&](u32 i) {
    const W rank = static_cast<W>(values[i] ^ sign);
    const W difference = static_cast<W>(rank > first ? rank - first : first - rank);
    if (stride != 1 && (stride == 0 ? difference != 0 : difference % stride != 0)) {
      stride = static_cast<W>(divisor_of(stride, difference));
    }
    if (plan.from_range == 0 || (plan.skip_zeros != 0 && values[i] == 0) || is_exact(plan.quantizer, values[i])) return;
    const W complement = static_cast<W>(~rank);
    largest = rank > largest ? rank : largest;
    smallest = complement > smallest ? complement : smallest;
  };
  auto& shared = *reinterpret_cast<RangeShared*>(shared_memory());
  const auto combine = [&] {
    const u64 own = divisor_of_warp(u64{stride});
    if (lane() == 0) shared.largest[warp()] = own;
    sync_block();
    u64 all = 0;
    for (u32 w = 0; w < kWarps; ++w) all = divisor_of(all, shared.largest[w]);
    sync_block();
    stride = static_cast<W>(all);
  };
  for (u32 i = thread(); i < plan.count && i < first_values; i += kThreads) take(i);
  combine();
  if (stride != 1 || plan.from_range != 0) {
    for (u32 i = block_number() * kThreads + thread(); i < plan.count; i += grid_blocks() * kThreads) take(i);
    combine();
  }
  if (thread() == 0) plan.strides[block_row() * plan.blocks + block_number()] = stride;
  if (plan.from_range == 0) return;
  const u64 warp_largest = largest_of_warp(u64{largest}), warp_smallest = largest_of_warp(u64{smallest});
  if (lane() != 0) return;
  atomic_max(plan.ends + 2 * block_row(), warp_largest);
  atomic_max(plan.ends + 2 * block_row() + 1, warp_smallest);
}

H5L_DEVICE void measure_integers(const gpu::IntegerPlan& plan) {
  switch (plan.value_bytes) {
    case 1:
      return measure_integers_of<u8>(plan);
    case 2:
      return measure_integers_of<u16>(plan);
    case 4:
      return measure_integers_of<u32>(plan);
    default:
      return measure_integers_of<u64>(plan);
  }
}

// One thread block per chunk.
H5L_DEVICE void make_lattices(const gpu::IntegerPlan& plan) {
  if (warp() != 0) return;
  const u32 chunk = block_row();
  u64 stride = 0;
  for (u32 i = lane(); i < plan.blocks; i += kWarpThreads) {
    stride = divisor_of(stride, plan.strides[chunk * plan.blocks + i]);
  }
  stride = divisor_of_warp(stride);
  if (lane() != 0) return;
  const u32 bytes = plan.value_bytes;
  Quantizer quantizer = plan.quantizer;
  if (plan.from_range != 0) {
    const u64 largest = plan.ends[2 * chunk], least = ~plan.ends[2 * chunk + 1] & ~u64{0} >> (64 - 8 * bytes);
    quantizer.scale = 2 * bound_of_integer_range(plan.bound, least, largest, bytes) + 1;
    if (quantizer.scale == 1) quantizer = {};
  }
  if (quantizer.kind == BoundKind::lossless && plan.blocks != 0) {
    const u8* const raw = plan.raw + chunk * plan.raw_stride;
    const u64 first = load_some(raw, bytes < 4 ? bytes : 4) | u64{bytes == 8 ? load_some(raw + 4, 4) : 0} << 32;
    const u64 sign = sign_of_words(plan.value_class, bytes);
    take_stride(quantizer, stride, first ^ sign, sign, bytes);
  }
  plan.quantizers[chunk] = quantizer;
  plan.lattices[chunk] = word_lattice_of(quantizer, plan.value_class, bytes);
}

// ---------------------------------------------------------------------------------------------------------------------
// Codec auto

// Several thread blocks per piece: copies the piece into the sample.
H5L_DEVICE void take_samples(const gpu::AutoPlan& plan) {
  const gpu::SamplePart& part = plan.parts[plan.part];
  const u32 chunk = block_row() / part.sampled, j = block_row() % part.sampled;
  const u64 piece = ((2 * u64{j} + 1) * part.pieces - 1) / (2 * u64{part.sampled});
  const u8* const first = plan.raw + chunk * plan.raw_stride + part.first_byte;
  const u32* const from = reinterpret_cast<const u32*>(first + piece * part.run_bytes);
  u32* const to = reinterpret_cast<u32*>(part.values + u64{block_row()} * part.piece_bytes);
  for (u32 i = block_number() * kThreads + thread(); i < part.piece_bytes / 4; i += grid_blocks() * kThreads) {
    to[i] = from[u64{i / (part.run_bytes / 4)} * (part.apart_bytes / 4) + i % (part.run_bytes / 4)];
  }
  if (part.of_pieces != nullptr && block_number() == 0 && thread() == 0) {
    part.of_pieces[block_row()] = plan.quantizers[chunk];
  }
}

// One thread block per chunk: tests whether the sample's frames are smaller than those of earlier candidates. Sizes fit
// in 32 bits: a sample has an overhead of at most kHeaderBytes per 8192 values.
H5L_DEVICE void compare_candidates(const gpu::AutoPlan& plan) {
  const u32 chunk = block_row();
  u64 estimate = 0;
  for (u32 i = 0; i < plan.part_count; ++i) {
    const gpu::SamplePart& part = plan.parts[i];
    u32 sum = 0, total = 0;
    for (u32 j = thread(); j < part.sampled; j += kThreads) {
      sum += static_cast<u32>(part.sizes[u64{chunk} * part.sampled + j]);
    }
    if (i != 0) sync_block();
    scan_of_block(sum, reinterpret_cast<FinishShared*>(shared_memory())->totals, total);
    estimate += u64{part.weight} * total;
  }
  if (thread() != 0 || (plan.candidate != 0 && estimate >= plan.least[chunk])) return;
  plan.least[chunk] = estimate;
  plan.picked[chunk] = plan.candidate;
}

// One thread per chunk.
H5L_DEVICE void list_picked(const gpu::AutoPlan& plan) {
  const u32 i = block_number() * kThreads + thread();
  if (i >= plan.chunks) return;
  Quantizer quantizer = plan.quantizers == nullptr ? plan.quantizer : plan.quantizers[i];
  if (plan.picked[i] != plan.candidate) quantizer.kind = BoundKind::lossless;
  plan.chosen[i] = quantizer;
}

// ---------------------------------------------------------------------------------------------------------------------
// Chunks and arrays

template <class W>
H5L_DEVICE W swapped(W word) {
  W result = 0;
  H5L_UNROLL for (u32 i = 0; i < sizeof(W); ++i) result = static_cast<W>(result << 8 | (word >> (8 * i) & 0xFF));
  return result;
}

H5L_DEVICE void swap_values(const gpu::SwapPlan& plan) {
  for (u64 i = block_number() * kThreads + thread(); i < plan.count; i += u64{grid_blocks()} * kThreads) {
    if (plan.value_bytes == 2) {
      u16* const value = reinterpret_cast<u16*>(plan.values) + i;
      *value = swapped(*value);
    } else if (plan.value_bytes == 4) {
      u32* const value = reinterpret_cast<u32*>(plan.values) + i;
      *value = swapped(*value);
    } else {
      u64* const value = reinterpret_cast<u64*>(plan.values) + i;
      *value = swapped(*value);
    }
  }
}

// Several thread blocks per frame.
H5L_DEVICE void pack_frames(const gpu::PackPlan& plan) {
  const u32 frame = block_row();
  u32 quads = 0;  // units of 16 bytes before this frame
  for (u32 i = thread(); i < frame; i += kThreads) quads += static_cast<u32>((plan.frame_bytes[i] + 15) / 16);
  u32 begin = 0;
  scan_of_block(quads, reinterpret_cast<FinishShared*>(shared_memory())->totals, begin);
  const Quad* const from = reinterpret_cast<const Quad*>(plan.frames + frame * plan.frame_stride);
  Quad* const to = reinterpret_cast<Quad*>(plan.packed) + begin;
  const u32 count = static_cast<u32>((plan.frame_bytes[frame] + 15) / 16);
  for (u32 i = block_number() * kThreads + thread(); i < count; i += grid_blocks() * kThreads) to[i] = from[i];
}

// Copies the values of chunk block_row() from the array, or to it.
template <class W, bool to_array>
H5L_DEVICE void copy_chunk(const gpu::ChunkPlan& plan) {
  u64 origin[8];
  u64 number = plan.first_chunk + block_row();
  u64 values = 1;
  // From the last axis to the first, with constant indices, which keep the arrays in registers.
  H5L_UNROLL for (u32 i = 0; i < 8; ++i) {
    const u32 axis = 7 - i;
    origin[axis] = 0;
    if (axis >= plan.rank) continue;
    const u64 chunks = (plan.start[axis] + plan.extents[axis] + plan.chunk[axis] - 1) / plan.chunk[axis];
    origin[axis] = number % chunks * plan.chunk[axis];
    number /= chunks;
    values *= plan.chunk[axis];
  }
  W* const chunk = reinterpret_cast<W*>(plan.chunk_values + block_row() * plan.chunk_stride);
  for (u64 i = block_number() * kThreads + thread(); i < values; i += u64{grid_blocks()} * kThreads) {
    u32 left = static_cast<u32>(i);
    i64 offset = 0;
    bool is_inside = true;
    H5L_UNROLL for (u32 k = 0; k < 8; ++k) {
      const u32 axis = 7 - k;
      if (axis >= plan.rank) continue;
      // Wraps to a huge number before the array's start.
      const u64 at = origin[axis] + left % plan.chunk[axis] - plan.start[axis];
      left /= plan.chunk[axis];
      is_inside = is_inside && at < plan.extents[axis];
      offset += static_cast<i64>(at) * plan.strides[axis];
    }
    if constexpr (to_array) {
      if (is_inside) *reinterpret_cast<W*>(plan.array + offset) = chunk[i];
    } else {
      chunk[i] = is_inside ? *reinterpret_cast<const W*>(plan.array + offset) : static_cast<W>(plan.padding);
    }
  }
}

template <bool to_array>
H5L_DEVICE void copy_chunk(const gpu::ChunkPlan& plan) {
  switch (plan.value_bytes) {
    case 1:
      return copy_chunk<u8, to_array>(plan);
    case 2:
      return copy_chunk<u16, to_array>(plan);
    case 4:
      return copy_chunk<u32, to_array>(plan);
    default:
      return copy_chunk<u64, to_array>(plan);
  }
}
H5L_DEVICE void gather_chunks(const gpu::ChunkPlan& plan) { copy_chunk<false>(plan); }
H5L_DEVICE void scatter_chunks(const gpu::ChunkPlan& plan) { copy_chunk<true>(plan); }

}  // namespace h5lossy::H5L_TARGET
