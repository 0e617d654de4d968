// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "gpu/sequences.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <string_view>

#include "frame/header.h"
#include "gpu/arena.h"

namespace h5lossy::gpu {
namespace {

constexpr std::size_t kMaxName = 64;
constexpr std::uint32_t kMaxRows = 65535;  // of a grid

std::uint32_t items_per_chunk(const CodecVariant& variant) {
  return variant.layout.is_split ? (variant.shape.count + kPartValues - 1) / kPartValues : variant.shape.tiles;
}

// Bytes of the words of integers in codecs with stages: their kernels are for words of 32 and of 64 bits, which hold
// those of all types.
std::uint32_t staged_word_bytes(std::uint32_t value_bytes) { return value_bytes <= 2 ? 4 : 8; }

// The kernel's name, as in kernels.def. Codecs without stages have kernels for each size.
void name_integer_kernel(char (&name)[kMaxName], const CodecVariant& variant, const char* direction,
                         std::uint32_t value_bytes) {
  const std::uint32_t bytes = variant.layout.stage_bytes == 0 ? value_bytes : staged_word_bytes(value_bytes);
  std::snprintf(name, kMaxName, "%s_%s_w%u", variant.codec, direction, 8 * bytes);
}
void name_kernel(char (&name)[kMaxName], const CodecVariant& variant, const char* direction, std::uint32_t value_bytes,
                 BoundKind kind) {
  const char* const quantizer = kind == BoundKind::pointwise_relative ? "pointwise"
                                : kind == BoundKind::lossless         ? "lossless"
                                                                      : "absolute";
  std::snprintf(name, kMaxName, "%s_%s_%s_%s%s", variant.codec, direction, value_bytes == 4 ? "f32" : "f64", quantizer,
                variant.layout.kernel_suffix);
}

// The plan of one variant's encoder.
struct EncodeWork {
  FinishPlan plan;
  std::size_t cleared;  // bytes, from plan.encode.sums on
  StagedPlan staged;    // if the encoder has several kernels
};

EncodeWork plan_encoder(Arena& arena, const EncodeCall& call, const CodecVariant& variant) {
  EncodeWork work = {call.plan, 0, {}};
  work.plan.codec = variant.number;
  EncodePlan& plan = work.plan.encode;
  plan.mode = variant.mode;
  plan.header_bytes = variant.header_bytes;
  work.plan.header_dims = variant.header_dims;
  plan.items_per_chunk = items_per_chunk(variant);
  plan.shape = variant.shape;
  const std::size_t chunks = plan.chunks, items = chunks * plan.items_per_chunk;
  const std::size_t begin = arena.bytes();
  plan.sums = arena.take<u32>(chunks);
  plan.table_sums = arena.take<u32>(chunks);
  work.plan.done = arena.take<u32>(2 * chunks);
  plan.totals = arena.take<u32>(chunks);
  if (variant.layout.encode_stage_bytes != 0) {
    StagedPlan& staged = work.staged;
    if (call.has_integers) staged.are_left = arena.take<u32>(chunks);
    work.cleared = arena.bytes() - begin;
    const std::size_t tiles = chunks * variant.most_tiles;
    staged.finish = work.plan;
    staged.most_tiles = variant.most_tiles;
    staged.tile_values = variant.tile_values;
    staged.stage_bytes = variant.layout.encode_stage_bytes;
    staged.quantizers = arena.take<Quantizer>(chunks);
    staged.forms = arena.take<ChunkForm>(chunks);
    staged.sizes = arena.take<u32>(tiles);
    staged.stages = arena.take<u8>(tiles * staged.stage_bytes);
    if (call.has_integers) {
      staged.words_stride = std::uint64_t{variant.shape.count} * staged_word_bytes(call.plan.value_bytes);
      staged.words = arena.take<u8>(chunks * staged.words_stride);
    }
    return work;
  }
  plan.groups_per_chunk =
      variant.layout.is_split ? variant.shape.tiles : (variant.shape.tiles + kGroupTiles - 1) / kGroupTiles;
  plan.group_sums = arena.take<u32>(chunks * plan.groups_per_chunk);
  if (variant.layout.is_split) {
    work.cleared = arena.bytes() - begin + 8 * items;
    plan.parts = arena.take<u64>(4 * items);  // records need not be cleared
  } else {
    plan.sizes = arena.take<u32>(items);
    work.cleared = arena.bytes() - begin;
  }
  return work;
}

// Memory of codec auto.
struct AutoMemory {
  SamplePart sample[kSampleParts];
  u8* frames;  // of one sample part at a time
  u64* least;
  u32* picked;
  Quantizer* chosen;
};

struct EncodeMemory {
  EncodeWork main, lossless;
  u64* ends;
  u64* strides;  // of integers
  Quantizer* quantizers;
  WordLattice* lattices;
  AutoMemory automatic;
  Arena scratch;  // reused by one candidate after another
};

// Whether chunks of integers are measured before they are encoded, to find their range or stride.
bool measures_integers(const EncodeCall& call) {
  return call.from_range || call.plan.encode.quantizer.kind == BoundKind::lossless;
}
std::uint32_t measuring_blocks(const EncodeCall& call) {
  const EncodePlan& plan = call.plan.encode;
  return std::clamp(call.variant.shape.count / (32 * kThreads), 1u, std::max(1u, 2048 / std::max(plan.chunks, 1u)));
}

bool needs_main(const EncodeCall& call) {
  return call.from_range || call.plan.encode.quantizer.kind != BoundKind::lossless;
}
bool needs_lossless(const EncodeCall& call) {
  return call.from_range || call.plan.encode.quantizer.kind == BoundKind::lossless;
}

bool is_auto(const EncodeCall& call) { return !call.candidates.empty() && needs_main(call); }

// The number of chunks that are sampled at once.
std::uint32_t sampled_chunks(const EncodeCall& call) {
  constexpr std::uint64_t most_bytes = std::uint64_t{64} << 20;
  std::uint64_t rows = 1, bytes = 0;
  for (std::uint32_t i = 0; i < call.sample_parts; ++i) {
    const SamplePart& part = call.sample[i];
    rows = std::max<std::uint64_t>(rows, part.sampled);
    bytes += std::uint64_t{part.sampled} * part.piece_bytes;
  }
  const std::uint64_t most = std::min(kMaxRows / rows, most_bytes / std::max<std::uint64_t>(bytes, 1));
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(most, 1, call.plan.encode.chunks));
}

// A call that encodes the sampled pieces of some chunks as chunks of their own.
EncodeCall sample_call(const EncodeCall& call, const SamplePart& part, u8* frames, std::uint32_t chunks) {
  EncodeCall pieces = call;
  pieces.candidates.clear();
  pieces.plan.frame_bytes = part.sizes;
  EncodePlan& plan = pieces.plan.encode;
  plan.with_checksum = 0;
  plan.chunks = chunks * part.sampled;
  plan.raw = part.values;
  plan.raw_stride = part.piece_bytes;
  plan.frames = frames;
  plan.frame_stride = (std::uint64_t{part.piece_bytes} + kHeaderBytes + 15) / 16 * 16;
  return pieces;
}

EncodeMemory take_memory(Arena& arena, const EncodeCall& call) {
  EncodeMemory memory = {{}, {}, nullptr, nullptr, nullptr, nullptr, {}, arena};
  if (call.has_integers) {
    const std::size_t chunks = call.plan.encode.chunks;
    memory.main = plan_encoder(arena, call, call.variant);
    memory.ends = arena.take<u64>(chunks * (2 + measuring_blocks(call)));
    memory.strides = memory.ends + 2 * chunks;
    memory.quantizers = arena.take<Quantizer>(chunks);
    memory.lattices = arena.take<WordLattice>(chunks);
    return memory;
  }
  if (needs_main(call) && !is_auto(call)) memory.main = plan_encoder(arena, call, call.variant);
  if (needs_lossless(call)) memory.lossless = plan_encoder(arena, call, call.lossless);
  if (call.from_range) {
    memory.ends = arena.take<u64>(2 * std::size_t{call.plan.encode.chunks});
    memory.quantizers = arena.take<Quantizer>(call.plan.encode.chunks);
  }
  if (!is_auto(call)) return memory;
  const std::uint32_t chunks = sampled_chunks(call);
  std::size_t frames_bytes = 0;
  for (std::uint32_t i = 0; i < call.sample_parts; ++i) {
    SamplePart& part = memory.automatic.sample[i] = call.sample[i];
    const EncodeCall sample = sample_call(call, part, nullptr, chunks);
    part.values = arena.take<u8>(std::size_t{sample.plan.encode.chunks} * part.piece_bytes);
    part.sizes = arena.take<u64>(sample.plan.encode.chunks);
    if (call.from_range) part.of_pieces = arena.take<Quantizer>(sample.plan.encode.chunks);
    const EncodePlan& plan = sample.plan.encode;
    frames_bytes = std::max(frames_bytes, static_cast<std::size_t>(plan.chunks * plan.frame_stride));
  }
  memory.automatic.frames = arena.take<u8>(frames_bytes);
  memory.automatic.least = arena.take<u64>(call.plan.encode.chunks);
  memory.automatic.picked = arena.take<u32>(call.plan.encode.chunks);
  memory.automatic.chosen = arena.take<Quantizer>(call.plan.encode.chunks);
  memory.scratch = arena;
  const auto take_scratch = [&](const EncodeCall& of_call, const CodecVariant& variant) {
    Arena scratch = memory.scratch;
    plan_encoder(scratch, of_call, variant);
    arena.pass(scratch);
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
  plan.raw = call.plan.encode.raw;
  plan.raw_stride = call.plan.encode.raw_stride;
  plan.chunks = call.plan.encode.chunks;
  plan.count = call.variant.shape.count;
  plan.value_bytes = call.plan.value_bytes;
  plan.skip_zeros = call.skip_zeros ? 1 : 0;
  plan.has_fill = call.range_has_fill ? 1 : 0;
  plan.fill_bits = call.range_fill_bits;
  plan.bound = call.plan.bound;
  plan.step_rule = call.step_rule;
  plan.quantizer = call.plan.encode.quantizer;
  plan.ends = memory.ends;
  plan.quantizers = memory.quantizers;
  // Enough loads in flight for the whole device, but at least 16 values for each thread.
  const std::uint32_t most = std::max(1u, 2048 / plan.chunks);
  const std::uint32_t blocks = std::clamp(plan.count / (16 * kThreads), 1u, most);
  return launcher.clear(memory.ends, 16 * std::size_t{plan.chunks}) &&
         launcher.launch("measure_ranges", blocks, plan.chunks, &plan, sizeof plan, false) &&
         launcher.launch("make_quantizers", (plan.chunks + kThreads - 1) / kThreads, 1, &plan, sizeof plan, false);
}

// Enough thread blocks to use the whole device if all chunks are stored.
std::uint32_t finishing_columns(const EncodePlan& plan) {
  return std::clamp(plan.shape.raw_bytes / (64 * 1024), 1u, std::max(1u, 1024 / plan.chunks));
}

// Chooses modes, finds the forms of tiles, codes them, and places the payloads in the frames.
bool encode_in_stages(Launcher& launcher, const EncodeCall& call, const CodecVariant& variant, EncodeWork work,
                      const Quantizer* quantizers) {
  StagedPlan& staged = work.staged;
  EncodePlan& plan = staged.finish.encode;
  plan.quantizers = quantizers;
  const std::uint32_t value_bytes = work.plan.value_bytes;
  const BoundKind kind = call.from_range ? BoundKind::range_relative : plan.quantizer.kind;
  const std::uint64_t tiles = std::uint64_t{plan.chunks} * staged.most_tiles;
  if (tiles > 0x7FFFFFFF || !launcher.clear(plan.sums, work.cleared)) return false;
  const auto blocks = static_cast<std::uint32_t>(tiles);
  const bool has_words = call.has_integers;
  const bool has_drafts = has_words || kind != BoundKind::pointwise_relative;
  const char* const type = value_bytes == 4 ? "f32" : "f64";
  std::vector<std::string> kernels;
  for (const std::string_view step :
       {"choose", "words", "draft", "redraft", "encode", "mask", "pack", "code", "place"}) {
    if (step == (has_words ? "redraft" : "words") || (!has_drafts && step.ends_with("draft"))) continue;
    char kernel[kMaxName];
    if (has_words) {
      name_integer_kernel(kernel, variant, step.data(), value_bytes);
    } else if (step == "mask" || step == "code" || step == "place") {
      std::snprintf(kernel, kMaxName, "%s_%s_%s", variant.codec, step.data(), type);
    } else {
      name_kernel(kernel, variant, step.data(), value_bytes, kind);
    }
    kernels.emplace_back(kernel);
  }
  kernels.push_back(std::string(variant.codec) + (has_words ? "_finish_words" : "_finish"));
  const std::size_t placing = kernels.size() - 2;
  for (std::size_t i = 0; i < placing; ++i) {
    const char* const kernel = kernels[i].c_str();
    // Small GPUs lack the shared memory for the integers of a tile: leave their chunks to the host.
    if (launcher.resident_blocks(kernel) == 0) return launcher.clear(staged.finish.frame_bytes, 8 * plan.chunks);
    if (!launcher.launch(kernel, i == 0 ? plan.chunks : blocks, 1, &staged, sizeof staged, false)) return false;
  }
  return launcher.launch(kernels[placing].c_str(), std::min(staged.most_tiles, kMaxRows), plan.chunks, &staged,
                         sizeof staged, false) &&
         launcher.launch(kernels.back().c_str(), finishing_columns(plan), plan.chunks, &staged, sizeof staged, false);
}

bool encode_with(Launcher& launcher, const EncodeCall& call, const CodecVariant& variant, EncodeWork work,
                 const Quantizer* quantizers, bool is_lossless) {
  if (variant.layout.encode_stage_bytes != 0) return encode_in_stages(launcher, call, variant, work, quantizers);
  EncodePlan& plan = work.plan.encode;
  plan.quantizers = quantizers;
  char kernel[kMaxName];
  const BoundKind kind = is_lossless       ? BoundKind::lossless
                         : call.from_range ? BoundKind::range_relative
                                           : plan.quantizer.kind;
  name_kernel(kernel, variant, "encode", work.plan.value_bytes, kind);
  const std::uint32_t resident = launcher.resident_blocks(kernel);
  const std::uint64_t items = std::uint64_t{plan.chunks} * plan.items_per_chunk;
  if (resident < (variant.layout.is_split ? kLeastBlocks : 1) || items > 0x7FFFFFFF) return false;
  const auto blocks = static_cast<std::uint32_t>(std::min<std::uint64_t>(resident, items));
  plan.chunk_step = blocks / plan.items_per_chunk;
  plan.index_step = blocks % plan.items_per_chunk;
  return launcher.clear(plan.sums, work.cleared) && launcher.launch(kernel, blocks, 1, &plan, sizeof plan, true) &&
         launcher.launch(is_lossless ? "finish_lossless_frames" : "finish_frames", finishing_columns(plan), plan.chunks,
                         &work.plan, sizeof work.plan, false);
}

// One kernel encodes all chunks of integers, lossless or not.
bool encode_integers(Launcher& launcher, const EncodeCall& call, const EncodeMemory& memory) {
  EncodeWork work = memory.main;
  EncodePlan& plan = work.plan.encode;
  IntegerPlan making = {};
  making.raw = plan.raw;
  making.raw_stride = plan.raw_stride;
  making.chunks = plan.chunks;
  making.count = plan.shape.count;
  making.value_class = call.plan.value_class;
  making.value_bytes = call.plan.value_bytes;
  making.from_range = call.from_range ? 1 : 0;
  // A fill value other than 0 is one of the exact values.
  making.skip_zeros = call.skip_zeros || (call.range_has_fill && call.range_fill_bits == 0) ? 1 : 0;
  making.bound = call.plan.bound;
  making.quantizer = plan.quantizer;
  making.ends = memory.ends;
  making.strides = memory.strides;
  making.quantizers = memory.quantizers;
  making.lattices = memory.lattices;
  if (measures_integers(call)) {
    making.blocks = measuring_blocks(call);
    if (!launcher.clear(memory.ends, 8 * std::size_t{plan.chunks} * (2 + making.blocks))) return false;
    if (!launcher.launch("measure_integers", making.blocks, plan.chunks, &making, sizeof making, false)) return false;
  }
  if (!launcher.launch("make_lattices", 1, plan.chunks, &making, sizeof making, false)) return false;
  if (call.variant.layout.encode_stage_bytes != 0) {
    work.staged.finish.encode.lattices = memory.lattices;
    return encode_in_stages(launcher, call, call.variant, work, memory.quantizers);
  }
  char kernel[kMaxName];
  name_integer_kernel(kernel, call.variant, "encode", call.plan.value_bytes);
  plan.lattices = memory.lattices;
  const std::uint32_t resident = launcher.resident_blocks(kernel);
  const std::uint64_t items = std::uint64_t{plan.chunks} * plan.items_per_chunk;
  if (resident == 0 || items > 0x7FFFFFFF) return false;
  const auto blocks = static_cast<std::uint32_t>(std::min<std::uint64_t>(resident, items));
  plan.chunk_step = blocks / plan.items_per_chunk;
  plan.index_step = blocks % plan.items_per_chunk;
  FinishPlan finish = work.plan;
  finish.encode.quantizers = memory.quantizers;
  return launcher.clear(plan.sums, work.cleared) && launcher.launch(kernel, blocks, 1, &plan, sizeof plan, true) &&
         launcher.launch("finish_integer_frames", finishing_columns(plan), plan.chunks, &finish, sizeof finish, false);
}

// Picks a candidate for each chunk.
bool pick(Launcher& launcher, const EncodeCall& call, const EncodeMemory& memory, AutoPlan plan) {
  const std::uint32_t most = sampled_chunks(call);
  for (std::uint32_t first = 0; first < plan.chunks; first += most) {
    AutoPlan some = plan;
    some.chunks = std::min(most, plan.chunks - first);
    some.raw += first * plan.raw_stride;
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
        const CodecVariant& variant = candidate.of_parts[i];
        const EncodeCall sample = sample_call(call, some.parts[i], memory.automatic.frames, some.chunks);
        Arena scratch = memory.scratch;
        const EncodeWork own = plan_encoder(scratch, sample, variant);
        if (!encode_with(launcher, sample, variant, own, some.parts[i].of_pieces, false)) return false;
      }
      if (!launcher.launch("compare_candidates", 1, some.chunks, &some, sizeof some, false)) return false;
      ++some.candidate;
    }
  }
  return true;
}

bool encode_with_candidates(Launcher& launcher, const EncodeCall& call, const EncodeMemory& memory) {
  AutoPlan plan = {};
  plan.raw = call.plan.encode.raw;
  plan.raw_stride = call.plan.encode.raw_stride;
  plan.chunks = call.plan.encode.chunks;
  std::copy_n(memory.automatic.sample, kSampleParts, plan.parts);
  plan.part_count = call.sample_parts;
  plan.quantizers = memory.quantizers;
  plan.quantizer = call.plan.encode.quantizer;
  plan.least = memory.automatic.least;
  plan.picked = memory.automatic.picked;
  plan.chosen = memory.automatic.chosen;
  if (!pick(launcher, call, memory, plan)) return false;
  for (const Candidate& candidate : call.candidates) {
    Arena scratch = memory.scratch;
    const EncodeWork own = plan_encoder(scratch, call, candidate.of_chunk);
    const std::uint32_t blocks = (plan.chunks + kThreads - 1) / kThreads;
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
  Arena arena(nullptr);
  take_memory(arena, call);
  return arena.bytes();
}

bool encode(Launcher& launcher, const EncodeCall& call, std::uint8_t* workspace) {
  if (call.plan.encode.chunks == 0) return true;
  if (call.plan.encode.chunks > kMaxRows) return false;
  Arena arena(workspace);
  const EncodeMemory memory = take_memory(arena, call);
  if (call.has_integers) return encode_integers(launcher, call, memory);
  if (call.from_range && !make_quantizers(launcher, call, memory)) return false;
  const bool has_main = !needs_main(call) || (is_auto(call) ? encode_with_candidates(launcher, call, memory)
                                                            : encode_with(launcher, call, call.variant, memory.main,
                                                                          memory.quantizers, false));
  if (!has_main) return false;
  return !needs_lossless(call) || encode_with(launcher, call, call.lossless, memory.lossless, memory.quantizers, true);
}

namespace {

// Warps that decode a split tile; each decodes one layer.
std::uint32_t warps_of_tile(const CodecVariant& variant) { return variant.tile_values / kPartValues * (kThreads / 32); }

constexpr std::uint32_t kNoCodec = 256;  // matches no frame

struct DecodePieces {
  DecodeJob* jobs;
  WordLattice* lattices;
  DecodeSums* sums;
  u64* published;
  u8* stages;
  std::uint32_t tiles, items, slots, published_words;  // of a frame
};

DecodePieces take_pieces(Arena& arena, const DecodeCall& call) {
  DecodePieces taken = {};
  taken.jobs = arena.take<DecodeJob>(call.frames);
  if (call.has_integers()) taken.lattices = arena.take<WordLattice>(call.frames);
  taken.tiles = call.most_tiles();
  taken.items = taken.tiles * (call.variant.layout.is_split ? call.variant.tile_values / kPartValues : 1);
  taken.slots = std::bit_floor(std::clamp(taken.tiles / 32, 1u, kMostSlots));
  taken.sums = arena.take<DecodeSums>(std::size_t{call.frames} * taken.slots);
  if (call.variant.layout.is_split) {
    taken.published_words = taken.tiles * warps_of_tile(call.variant) * (call.value_bytes / 4);
    taken.published = arena.take<u64>(std::size_t{call.frames} * taken.published_words);
  }
  taken.stages = arena.take<u8>(std::size_t{call.frames} * taken.tiles * call.variant.layout.stage_bytes);
  return taken;
}

}  // namespace

std::size_t decode_workspace_bytes(const DecodeCall& call) {
  Arena arena(nullptr);
  take_pieces(arena, call);
  return arena.bytes();
}

bool decode(Launcher& launcher, const DecodeCall& call, std::uint8_t* workspace) {
  if (call.frames == 0) return true;
  if (call.frames > kMaxRows) return false;
  Arena arena(workspace);
  const DecodePieces pieces = take_pieces(arena, call);
  const CodecVariant& variant = call.variant;
  DecodePlan plan = {};
  plan.frames = call.frame;
  plan.frame_stride = call.frame_stride;
  plan.raw = call.raw;
  plan.raw_stride = call.raw_stride;
  plan.first = call.first;
  plan.wanted = call.wanted;
  plan.jobs = pieces.jobs;
  plan.lattices = pieces.lattices;
  plan.mode = variant.mode;
  plan.form = FrameForm::main;
  plan.header_bytes = variant.header_bytes;
  plan.tiles = pieces.tiles;
  plan.shape = variant.shape;
  plan.sums = pieces.sums;
  plan.slots = pieces.slots;
  plan.statuses = call.statuses;
  plan.published = pieces.published;
  plan.stages = pieces.stages;
  plan.stage_bytes = variant.layout.stage_bytes;
  const CodecVariant& lossless = call.lossless;
  // The same kernels decode lossless and lossy frames of integers: as lossless ones if their codec is that of lossless
  // frames, otherwise as those of the main form.
  const bool has_own_kernels = variant.number != 0 && variant.number != lossless.number;
  const bool is_lossless =
      call.has_integers() ? !has_own_kernels : call.kind == static_cast<std::uint32_t>(BoundKind::lossless);
  bool has_main = variant.number != 0 && !is_lossless;
  const char* const opening = call.has_integers() ? "open_integer_frames" : "open_frames";
  char main_kernel[kMaxName] = "", lossless_kernel[kMaxName], unpacking[kMaxName], short_kernel[kMaxName];
  if (call.has_integers()) {
    name_integer_kernel(lossless_kernel, lossless, "decode", call.value_bytes);
  } else {
    name_kernel(lossless_kernel, lossless, "decode", call.value_bytes, BoundKind::lossless);
  }
  if (has_main) {
    const auto name = [&](char (&kernel)[kMaxName], const char* direction) {
      if (call.has_integers()) return name_integer_kernel(kernel, variant, direction, call.value_bytes);
      name_kernel(kernel, variant, direction, call.value_bytes, static_cast<BoundKind>(call.kind));
    };
    name(main_kernel, "decode");
    if (plan.stage_bytes != 0) {
      if (call.has_integers()) {
        name(unpacking, "unpack");
      } else {  // the same for all kinds
        std::snprintf(unpacking, kMaxName, "%s_unpack_%s", variant.codec, call.value_bytes == 4 ? "f32" : "f64");
      }
      name(short_kernel, "decode_short");
    }
  }
  // A kernel that keeps the integers of a tile in shared memory needs more of it than small GPUs have.
  has_main = has_main && (plan.stage_bytes == 0 || launcher.resident_blocks(main_kernel) != 0);
  OpenPlan open = {};
  open.decode = plan;
  open.frame_bytes = call.frame_bytes;
  open.codec = has_main || is_lossless ? variant.number : kNoCodec;
  open.other_bits = call.other_bits;
  open.layout_bits = call.layout_bits;
  open.header_dims = variant.header_dims;
  std::copy_n(call.layouts, kMostLayouts, open.layouts);
  open.kind = call.kind;
  open.value_class = call.value_class;
  open.value_bytes = call.value_bytes;
  open.big_endian = call.big_endian ? 1 : 0;
  // The headers of integers of two codecs have different dims.
  open.lossless_codec = call.has_integers() && has_own_kernels ? kNoCodec : lossless.number;
  open.lossless_tiles = call.lossless_tiles;
  open.published_words = pieces.published_words;
  open.jobs = pieces.jobs;
  open.lattices = pieces.lattices;
  // One thread block opens a frame; the others only clear `published`.
  const std::uint32_t clearing = std::clamp(pieces.published_words / (16 * kThreads), 1u, 128u);
  if (!launcher.launch(opening, clearing, call.frames, &open, sizeof open, false)) return false;
  if (call.wanted == 0) return true;

  // Use one thread block for each item: many thread blocks, which wait at different times, hide each other's latency.
  if (has_main && plan.stage_bytes != 0) {
    for (const char* const kernel : {unpacking, short_kernel}) {
      if (!launcher.launch(kernel, pieces.items, call.frames, &plan, sizeof plan, false)) return false;
    }
  }
  if (has_main && !launcher.launch(main_kernel, pieces.items, call.frames, &plan, sizeof plan, false)) return false;
  // The lossless frames: either few frames or all of them. This launch also checks the checksums.
  plan.form = FrameForm::lossless;
  plan.header_bytes = lossless.header_bytes;
  const std::uint32_t wanted = call.lossless_tiles.wanted;
  const std::uint32_t blocks = is_lossless ? wanted : std::clamp(wanted, 1u, std::max(1u, 528 / call.frames));
  return launcher.launch(lossless_kernel, blocks, call.frames, &plan, sizeof plan, false);
}

bool swap(Launcher& launcher, std::uint8_t* values, std::uint64_t count, std::uint32_t value_bytes) {
  const SwapPlan plan = {values, count, value_bytes};
  const auto blocks = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(count / (8 * kThreads), 1, 2048));
  return launcher.launch("swap_values", blocks, 1, &plan, sizeof plan, false);
}

bool pack(Launcher& launcher, const PackPlan& plan, std::uint32_t frames, std::uint64_t raw_bytes) {
  // Frames are typically several times smaller than their data.
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
