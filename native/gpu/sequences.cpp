// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "gpu/sequences.h"

#include <algorithm>
#include <bit>
#include <cstdio>

#include "frame/header.h"

namespace h5lossy::gpu {
namespace {

constexpr std::size_t kMaxName = 64;
constexpr std::uint32_t kMaxRows = 65535;  // of a grid

// Hands out pieces of a call's workspace. Without memory it only counts.
class Pieces {
 public:
  explicit Pieces(std::uint8_t* memory) : memory_(memory) {}

  template <class T>
  T* take(std::size_t count) {
    T* const piece = memory_ == nullptr ? nullptr : reinterpret_cast<T*>(memory_ + bytes_);
    bytes_ += (count * sizeof(T) + 15) / 16 * 16;
    return piece;
  }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

  // Goes behind what another one that began here has handed out: memory for one of several uses, in turn.
  void pass(const Pieces& other) { bytes_ = std::max(bytes_, other.bytes_); }

 private:
  std::uint8_t* memory_;
  std::size_t bytes_ = 0;
};

std::uint32_t items_per_chunk(const Method& method) {
  return method.is_split ? (method.shape.count + kPartValues - 1) / kPartValues : method.shape.tiles;
}

// As in kernels.def.
void name_kernel(char (&name)[kMaxName], const Method& method, const char* direction, std::uint32_t value_bytes,
                 BoundKind kind) {
  const char* const quantizer = kind == BoundKind::pointwise_relative ? "pointwise"
                                : kind == BoundKind::lossless         ? "lossless"
                                                                      : "absolute";
  const int length = std::snprintf(name, kMaxName, "%s_%s_%s_%s", method.codec, direction,
                                   value_bytes == 4 ? "f32" : "f64", quantizer);
  if (method.mode != 0) {  // a codec whose modes have dimensions
    std::snprintf(name + length, kMaxName - static_cast<std::size_t>(length), "_%ud", method.dimensions);
  }
}

// What the encoder of one method keeps of its chunks.
struct EncodePieces {
  u32 *sizes, *group_sums;
  std::uint32_t groups_per_chunk;
  u64* parts;
  u32 *sums, *table_sums, *done, *totals;
  std::size_t cleared;  // bytes, from sums on
};

EncodePieces take_pieces(Pieces& pieces, const EncodeCall& call, const Method& method) {
  const std::size_t items = std::size_t{call.chunks} * items_per_chunk(method);
  EncodePieces taken = {};
  const std::size_t begin = pieces.bytes();
  taken.sums = pieces.take<u32>(call.chunks);
  taken.table_sums = pieces.take<u32>(call.chunks);
  taken.done = pieces.take<u32>(2 * std::size_t{call.chunks});
  taken.totals = pieces.take<u32>(call.chunks);
  taken.groups_per_chunk = method.is_split ? method.shape.tiles : (method.shape.tiles + kGroupTiles - 1) / kGroupTiles;
  taken.group_sums = pieces.take<u32>(std::size_t{call.chunks} * taken.groups_per_chunk);
  if (method.is_split) {
    taken.cleared = pieces.bytes() - begin + 8 * items;
    taken.parts = pieces.take<u64>(4 * items);  // records need not be cleared
  } else {
    taken.sizes = pieces.take<u32>(items);
    taken.cleared = pieces.bytes() - begin;
  }
  return taken;
}

// What codec auto needs.
struct AutoMemory {
  SamplePart sample[kSampleParts];
  u8* frames;  // of one part at a time
  u64* least;
  u32* picked;
  Quantizer* chosen;
};

struct EncodeMemory {
  EncodePieces main, lossless;
  u64* ends;
  Quantizer* quantizers;
  AutoMemory automatic;
  Pieces scratch;  // where candidates have theirs, one after the other
};

bool needs_main(const EncodeCall& call) { return call.from_range || call.quantizer.kind != BoundKind::lossless; }
bool needs_lossless(const EncodeCall& call) { return call.from_range || call.quantizer.kind == BoundKind::lossless; }

bool is_auto(const EncodeCall& call) { return !call.candidates.empty() && needs_main(call); }

// As many chunks as are sampled at once.
std::uint32_t sampled_chunks(const EncodeCall& call) {
  constexpr std::uint64_t most_bytes = std::uint64_t{64} << 20;
  std::uint64_t rows = 1, bytes = 0;
  for (std::uint32_t i = 0; i < call.sample_parts; ++i) {
    const SamplePart& part = call.sample[i];
    rows = std::max<std::uint64_t>(rows, part.sampled);
    bytes += std::uint64_t{part.sampled} * part.piece_bytes;
  }
  const std::uint64_t most = std::min(kMaxRows / rows, most_bytes / bytes);
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(most, 1, call.chunks));
}

// The sampled pieces of some chunks, as chunks of their own.
EncodeCall sample_call(const EncodeCall& call, const SamplePart& part, u8* frames, std::uint32_t chunks) {
  EncodeCall pieces = call;
  pieces.candidates.clear();
  pieces.with_checksum = false;
  pieces.chunks = chunks * part.sampled;
  pieces.raw = part.values;
  pieces.raw_stride = part.piece_bytes;
  pieces.frames = frames;
  pieces.frame_stride = (std::uint64_t{part.piece_bytes} + kHeaderBytes + 15) / 16 * 16;
  pieces.frame_bytes = part.sizes;
  return pieces;
}

EncodeMemory take_memory(Pieces& pieces, const EncodeCall& call) {
  EncodeMemory memory = {{}, {}, nullptr, nullptr, {}, pieces};
  if (needs_main(call) && !is_auto(call)) memory.main = take_pieces(pieces, call, call.method);
  if (needs_lossless(call)) memory.lossless = take_pieces(pieces, call, call.lossless);
  if (call.from_range) {
    memory.ends = pieces.take<u64>(2 * std::size_t{call.chunks});
    memory.quantizers = pieces.take<Quantizer>(call.chunks);
  }
  if (!is_auto(call)) return memory;
  const std::uint32_t chunks = sampled_chunks(call);
  std::size_t frames_bytes = 0;
  for (std::uint32_t i = 0; i < call.sample_parts; ++i) {
    SamplePart& part = memory.automatic.sample[i] = call.sample[i];
    const EncodeCall sample = sample_call(call, part, nullptr, chunks);
    part.values = pieces.take<u8>(std::size_t{sample.chunks} * part.piece_bytes);
    part.sizes = pieces.take<u64>(sample.chunks);
    if (call.from_range) part.of_pieces = pieces.take<Quantizer>(sample.chunks);
    frames_bytes = std::max(frames_bytes, std::size_t{sample.chunks} * sample.frame_stride);
  }
  memory.automatic.frames = pieces.take<u8>(frames_bytes);
  memory.automatic.least = pieces.take<u64>(call.chunks);
  memory.automatic.picked = pieces.take<u32>(call.chunks);
  memory.automatic.chosen = pieces.take<Quantizer>(call.chunks);
  memory.scratch = pieces;
  const auto take_scratch = [&](const EncodeCall& of_call, const Method& method) {
    Pieces scratch = memory.scratch;
    take_pieces(scratch, of_call, method);
    pieces.pass(scratch);
  };
  for (const Candidate& candidate : call.candidates) {
    take_scratch(call, candidate.of_chunk);
    for (std::uint32_t i = 0; i < call.sample_parts; ++i) {
      take_scratch(sample_call(call, call.sample[i], nullptr, chunks), candidate.of_parts[i]);
    }
  }
  return memory;
}

bool make_quantizers(Launcher& launcher, const EncodeCall& call, const EncodeMemory& memory) {
  RangePlan plan = {};
  plan.raw = call.raw;
  plan.raw_stride = call.raw_stride;
  plan.chunks = call.chunks;
  plan.count = call.method.shape.count;
  plan.value_bytes = call.value_bytes;
  plan.skip_zeros = call.skip_zeros ? 1 : 0;
  plan.has_fill = call.range_has_fill ? 1 : 0;
  plan.fill_bits = call.range_fill_bits;
  plan.bound = call.bound;
  plan.quantizer = call.quantizer;
  plan.ends = memory.ends;
  plan.quantizers = memory.quantizers;
  // Enough loads in flight for the whole device, and a few values at least for each thread.
  const std::uint32_t most = std::max(1u, 4096 / call.chunks);
  const std::uint32_t blocks = std::clamp(plan.count / (16 * kThreads), 1u, most);
  return launcher.clear(memory.ends, 16 * std::size_t{call.chunks}) &&
         launcher.launch("measure_ranges", blocks, call.chunks, &plan, sizeof plan, false) &&
         launcher.launch("make_quantizers", (call.chunks + kThreads - 1) / kThreads, 1, &plan, sizeof plan, false);
}

bool encode_with(Launcher& launcher, const EncodeCall& call, const Method& method, const EncodePieces& pieces,
                 const Quantizer* quantizers, bool is_lossless) {
  EncodePlan plan = {};
  plan.raw = call.raw;
  plan.raw_stride = call.raw_stride;
  plan.frames = call.frames;
  plan.frame_stride = call.frame_stride;
  plan.quantizers = quantizers;
  plan.quantizer = call.quantizer;
  plan.chunks = call.chunks;
  plan.mode = method.mode;
  plan.header_bytes = method.header_bytes;
  plan.items_per_chunk = items_per_chunk(method);
  plan.with_checksum = call.with_checksum ? 1 : 0;
  plan.shape = method.shape;
  plan.sizes = pieces.sizes;
  plan.group_sums = pieces.group_sums;
  plan.groups_per_chunk = pieces.groups_per_chunk;
  plan.parts = pieces.parts;
  plan.table_sums = pieces.table_sums;
  plan.sums = pieces.sums;
  plan.totals = pieces.totals;
  FinishPlan finish = {};
  finish.bound = call.bound;
  finish.requested_kind = call.requested_kind;
  finish.codec = method.number;
  finish.value_bytes = call.value_bytes;
  finish.big_endian = call.big_endian ? 1 : 0;
  finish.done = pieces.done;
  finish.frame_bytes = call.frame_bytes;

  char kernel[kMaxName];
  const BoundKind kind = is_lossless       ? BoundKind::lossless
                         : call.from_range ? BoundKind::range_relative
                                           : call.quantizer.kind;
  name_kernel(kernel, method, "encode", call.value_bytes, kind);
  const std::uint32_t resident = launcher.resident_blocks(kernel);
  const std::uint64_t items = std::uint64_t{call.chunks} * plan.items_per_chunk;
  if (resident < (method.is_split ? kLeastBlocks : 1) || items > 0x7FFFFFFF) return false;
  const auto blocks = static_cast<std::uint32_t>(std::min<std::uint64_t>(resident, items));
  plan.chunk_step = blocks / plan.items_per_chunk;
  plan.index_step = blocks % plan.items_per_chunk;
  finish.encode = plan;
  // Where all chunks are stored, all thread blocks are of use.
  const std::uint32_t columns = std::clamp(plan.shape.raw_bytes / (64 * 1024), 1u, std::max(1u, 1024 / call.chunks));
  return launcher.clear(pieces.sums, pieces.cleared) && launcher.launch(kernel, blocks, 1, &plan, sizeof plan, true) &&
         launcher.launch(is_lossless ? "finish_lossless_frames" : "finish_frames", columns, call.chunks, &finish,
                         sizeof finish, false);
}

// Finds out which candidate each chunk gets.
bool pick(Launcher& launcher, const EncodeCall& call, const EncodeMemory& memory, AutoPlan plan) {
  const std::uint32_t most = sampled_chunks(call);
  for (std::uint32_t first = 0; first < call.chunks; first += most) {
    AutoPlan some = plan;
    some.chunks = std::min(most, call.chunks - first);
    some.raw += first * call.raw_stride;
    some.least += first;
    some.picked += first;
    if (some.quantizers != nullptr) some.quantizers += first;
    for (some.part = 0; some.part < some.part_count; ++some.part) {
      const SamplePart& part = some.parts[some.part];
      const std::uint32_t blocks = std::clamp(part.piece_bytes / (16 * 4 * kThreads), 1u, 64u);
      const std::uint32_t rows = some.chunks * part.sampled;
      if (!launcher.launch("take_samples", blocks, rows, &some, sizeof some, false)) return false;
    }
    for (const Candidate& candidate : call.candidates) {
      for (std::uint32_t i = 0; i < some.part_count; ++i) {
        const Method& method = candidate.of_parts[i];
        const EncodeCall sample = sample_call(call, some.parts[i], memory.automatic.frames, some.chunks);
        Pieces scratch = memory.scratch;
        const EncodePieces own = take_pieces(scratch, sample, method);
        if (!encode_with(launcher, sample, method, own, some.parts[i].of_pieces, false)) return false;
      }
      if (!launcher.launch("compare_candidates", 1, some.chunks, &some, sizeof some, false)) return false;
      ++some.candidate;
    }
  }
  return true;
}

bool encode_with_candidates(Launcher& launcher, const EncodeCall& call, const EncodeMemory& memory) {
  AutoPlan plan = {};
  plan.raw = call.raw;
  plan.raw_stride = call.raw_stride;
  plan.chunks = call.chunks;
  std::copy_n(memory.automatic.sample, kSampleParts, plan.parts);
  plan.part_count = call.sample_parts;
  plan.quantizers = memory.quantizers;
  plan.quantizer = call.quantizer;
  plan.least = memory.automatic.least;
  plan.picked = memory.automatic.picked;
  plan.chosen = memory.automatic.chosen;
  if (!pick(launcher, call, memory, plan)) return false;
  for (const Candidate& candidate : call.candidates) {
    Pieces scratch = memory.scratch;
    const EncodePieces own = take_pieces(scratch, call, candidate.of_chunk);
    const std::uint32_t blocks = (call.chunks + kThreads - 1) / kThreads;
    if (!launcher.launch("list_picked", blocks, 1, &plan, sizeof plan, false) ||
        !encode_with(launcher, call, candidate.of_chunk, own, plan.chosen, false)) {
      return false;
    }
    ++plan.candidate;
  }
  return true;
}

}  // namespace

std::size_t encode_workspace_bytes(const EncodeCall& call) {
  Pieces pieces(nullptr);
  take_memory(pieces, call);
  return pieces.bytes();
}

bool encode(Launcher& launcher, const EncodeCall& call, std::uint8_t* workspace) {
  if (call.chunks == 0) return true;
  if (call.chunks > kMaxRows) return false;
  Pieces pieces(workspace);
  const EncodeMemory memory = take_memory(pieces, call);
  if (call.from_range && !make_quantizers(launcher, call, memory)) return false;
  const bool has_main = !needs_main(call) || (is_auto(call) ? encode_with_candidates(launcher, call, memory)
                                                            : encode_with(launcher, call, call.method, memory.main,
                                                                          memory.quantizers, false));
  if (!has_main) return false;
  return !needs_lossless(call) || encode_with(launcher, call, call.lossless, memory.lossless, memory.quantizers, true);
}

namespace {

// Warps that work on a tile which is split, each of them on an iteration layer.
std::uint32_t warps_of_tile(const Method& method) { return method.tile_values / kPartValues * (kThreads / 32); }

struct DecodePieces {
  DecodeJob* jobs;
  DecodeSums* sums;
  u64* told;
  std::uint32_t items, slots, told_words;  // of a frame
};

DecodePieces take_pieces(Pieces& pieces, const DecodeCall& call) {
  DecodePieces taken = {};
  taken.jobs = pieces.take<DecodeJob>(call.frames);
  taken.items = call.tiles * (call.method.is_split ? call.method.tile_values / kPartValues : 1);
  taken.slots = std::bit_floor(std::clamp(call.tiles / 32, 1u, kMostSlots));
  taken.sums = pieces.take<DecodeSums>(std::size_t{call.frames} * taken.slots);
  if (call.method.is_split) {
    taken.told_words = call.tiles * warps_of_tile(call.method) * (call.value_bytes / 4);
    taken.told = pieces.take<u64>(std::size_t{call.frames} * taken.told_words);
  }
  return taken;
}

}  // namespace

std::size_t decode_workspace_bytes(const DecodeCall& call) {
  Pieces pieces(nullptr);
  take_pieces(pieces, call);
  return pieces.bytes();
}

bool decode(Launcher& launcher, const DecodeCall& call, std::uint8_t* workspace) {
  if (call.frames == 0) return true;
  if (call.frames > kMaxRows) return false;
  Pieces memory(workspace);
  const DecodePieces pieces = take_pieces(memory, call);
  const Method& method = call.method;
  DecodePlan plan = {};
  plan.frames = call.frame;
  plan.frame_stride = call.frame_stride;
  plan.raw = call.raw;
  plan.raw_stride = call.raw_stride;
  plan.first = call.first;
  plan.wanted = call.wanted;
  plan.jobs = pieces.jobs;
  plan.mode = method.mode;
  plan.form = FrameForm::main;
  plan.header_bytes = method.header_bytes;
  plan.first_tile = call.first_tile;
  plan.tiles = call.tiles;
  plan.shape = method.shape;
  plan.sums = pieces.sums;
  plan.slots = pieces.slots;
  plan.statuses = call.statuses;
  plan.told = pieces.told;
  const std::uint32_t lossless_tiles = (method.shape.count + call.pfpl_tile_values - 1) / call.pfpl_tile_values;
  OpenPlan open = {};
  open.decode = plan;
  open.frame_bytes = call.frame_bytes;
  open.codec = method.number;
  open.kind = call.kind;
  open.value_bytes = call.value_bytes;
  open.big_endian = call.big_endian ? 1 : 0;
  open.lossless_tiles = lossless_tiles;
  open.told_words = pieces.told_words;
  open.jobs = pieces.jobs;
  // One thread block opens a frame; more of them clear what it takes.
  const std::uint32_t clearing = std::clamp(pieces.told_words / (16 * kThreads), 1u, 128u);
  if (!launcher.launch("open_frames", clearing, call.frames, &open, sizeof open, false)) return false;
  if (call.wanted == 0) return true;

  // A thread block for each item: they differ in what they wait for, and many of them hide it.
  char kernel[kMaxName];
  const bool is_lossless = call.kind == static_cast<std::uint32_t>(BoundKind::lossless);
  if (method.number != 0 && !is_lossless) {
    name_kernel(kernel, method, "decode", call.value_bytes, static_cast<BoundKind>(call.kind));
    if (!launcher.launch(kernel, pieces.items, call.frames, &plan, sizeof plan, false)) return false;
  }
  // Frames of another form, which are few, or all; and the verdict on the checksums.
  Method pfpl;
  pfpl.codec = "pfpl";
  name_kernel(kernel, pfpl, "decode", call.value_bytes, BoundKind::lossless);
  plan.form = FrameForm::lossless;
  plan.header_bytes = kHeaderBytes;
  plan.shape.tiles = lossless_tiles;
  plan.first_tile = static_cast<std::uint32_t>(call.first / call.pfpl_tile_values);
  plan.tiles = static_cast<std::uint32_t>((call.first + call.wanted - 1) / call.pfpl_tile_values) + 1 - plan.first_tile;
  const std::uint32_t blocks = is_lossless ? plan.tiles : std::clamp(plan.tiles, 1u, std::max(1u, 528 / call.frames));
  return launcher.launch(kernel, blocks, call.frames, &plan, sizeof plan, false);
}

bool swap(Launcher& launcher, std::uint8_t* values, std::uint64_t count, std::uint32_t value_bytes) {
  const SwapPlan plan = {values, count, value_bytes};
  const auto blocks = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(count / (8 * kThreads), 1, 2048));
  return launcher.launch("swap_values", blocks, 1, &plan, sizeof plan, false);
}

bool pack(Launcher& launcher, const PackPlan& plan, std::uint32_t frames, std::uint64_t raw_bytes) {
  // A frame is some times smaller than what it holds.
  const auto blocks = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(raw_bytes / (256 * kThreads), 1, 256));
  return frames <= kMaxRows && launcher.launch("pack_frames", blocks, frames, &plan, sizeof plan, false);
}

namespace {

bool copy_chunks(Launcher& launcher, const char* kernel, const ChunkPlan& plan) {
  std::uint64_t values = 1;
  for (std::uint32_t i = 0; i < plan.rank; ++i) values *= plan.chunk[i];
  if (plan.chunks == 0) return true;
  const auto blocks = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(values / (4 * kThreads), 1, 1024));
  return plan.chunks <= kMaxRows && launcher.launch(kernel, blocks, plan.chunks, &plan, sizeof plan, false);
}

}  // namespace

bool gather(Launcher& launcher, const ChunkPlan& plan) { return copy_chunks(launcher, "gather_chunks", plan); }
bool scatter(Launcher& launcher, const ChunkPlan& plan) { return copy_chunks(launcher, "scatter_chunks", plan); }

}  // namespace h5lossy::gpu
