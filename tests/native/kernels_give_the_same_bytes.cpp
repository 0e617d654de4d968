// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The GPU's kernels, run on the CPU (emulated_gpu.h), give the library's frames and values, for hostile values, fill values
// and sizes of all kinds; and call a broken frame broken, without touching anything but their buffers.

#include <algorithm>
#include <cinttypes>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "check.h"
#include "dispatch/choice.h"
#include "dispatch/params.h"
#include "dispatch/registry.h"
#include "dispatch/tiles.h"
#include "format/frame.h"
#include "frames.h"
#include "methods.h"
#include "values.h"

#include "aatrox_decode.cuh"
#include "aatrox_encode.cuh"
#include "cuszp2_decode.cuh"
#include "cuszp2_encode.cuh"
#include "finishing.cuh"
#include "pfpl_decode.cuh"
#include "pfpl_encode.cuh"

namespace h5lossy::test {
namespace {

using namespace gpu;

template <class Plan>
struct Kernel {
  std::size_t shared_bytes;
  std::function<void(const Plan&)> run;
};

template <class Plan>
std::map<std::string, Kernel<Plan>>& kernels() {
  static std::map<std::string, Kernel<Plan>> all;
  return all;
}

void list_kernels() {
  using namespace H5L_TARGET;
#define H5L_KERNEL(name, Plan, Shared, blocks, function) \
  kernels<gpu::Plan>()[#name] = {sizeof(Shared), [](const gpu::Plan& plan) { function(plan); }};
#include "kernels.def"
#undef H5L_KERNEL
}

template <class Plan>
void launch(const std::string& name, std::uint32_t blocks, std::uint32_t rows, const Plan& plan) {
  const auto found = kernels<Plan>().find(name);
  CHECK(found != kernels<Plan>().end(), "no kernel %s", name.c_str());
  emulation::launch(blocks, rows, found->second.shared_bytes, [&] { found->second.run(plan); });
}

std::string kernel_name(std::uint32_t codec, std::uint32_t mode, const char* direction, std::uint32_t value_bytes,
                        BoundKind kind) {
  std::string name = std::string(codec_name(codec)) + "_" + direction + (value_bytes == 4 ? "_f32" : "_f64");
  name += kind == BoundKind::pointwise_relative ? "_pointwise" : kind == BoundKind::lossless ? "_lossless" : "_absolute";
  if (codec == H5L_CODEC_CUSZP2) name += "_" + std::to_string(mode >> 4) + "d";
  return name;
}

Shape shape_of(const Choice& choice, std::uint32_t value_bytes, std::size_t raw_bytes) {
  Shape shape = {};
  shape.count = static_cast<u32>(raw_bytes / value_bytes);
  shape.raw_bytes = static_cast<u32>(raw_bytes);
  shape.tiles = choice.geometry.tiles();
  Blocking blocking;
  choice.codec->blocking(choice.mode, value_bytes, blocking);
  for (int i = 0; i < 3; ++i) {
    shape.dims[i] = choice.dims[i];
    if (blocking.extents[2] != 0) shape.boxes[i] = (choice.dims[i] + blocking.extents[i] - 1) / blocking.extents[i];
  }
  return shape;
}

Quantizer reader_of(const FrameHeader& header) {
  Quantizer quantizer;
  quantizer.kind = static_cast<BoundKind>(header.bound_kind);
  quantizer.step = header.step;
  quantizer.scale = header.scale;
  return quantizer;
}

// Memory that begins at a multiple of 16, as the device's does, `offset` bytes behind it.
class Aligned {
 public:
  explicit Aligned(std::size_t size, std::size_t offset = 0) : memory_(size / 16 + 3), offset_(offset), size_(size) {
    std::fill_n(data(), size, std::uint8_t{0xCD});
  }
  Aligned(const Bytes& bytes, std::size_t offset) : Aligned(bytes.size(), offset) {
    std::copy(bytes.begin(), bytes.end(), data());
  }
  std::uint8_t* data() { return reinterpret_cast<std::uint8_t*>(memory_.data()) + offset_; }
  Bytes bytes(std::size_t size) { return Bytes(data(), data() + size); }

 private:
  struct alignas(16) Piece {
    std::uint8_t bytes[16];
  };
  std::vector<Piece> memory_;
  std::size_t offset_, size_;
};

// Encodes chunks of one size as the GPU does.
std::vector<Bytes> encode_with_kernels(const h5l_params& params, const std::vector<Bytes>& chunks, std::uint32_t blocks,
                                       std::size_t offset) {
  const std::size_t raw_bytes = chunks.front().size();
  std::vector<Quantizer> quantizers;
  std::vector<Aligned> raw, frames;
  for (const Bytes& chunk : chunks) {
    quantizers.push_back(make_quantizer(params, chunk));
    raw.emplace_back(chunk, offset);
    frames.emplace_back(raw_bytes + 40);
  }
  std::vector<const u8*> raw_at;
  std::vector<u8*> frames_at;
  for (Aligned& chunk : raw) raw_at.push_back(chunk.data());
  for (Aligned& frame : frames) frames_at.push_back(frame.data());
  std::vector<u64> frame_bytes(chunks.size());
  for (const bool is_lossless : {false, true}) {
    const auto is_mine = [&](const Quantizer& q) { return (q.kind == BoundKind::lossless) == is_lossless; };
    const auto mine = std::find_if(quantizers.begin(), quantizers.end(), is_mine);
    if (mine == quantizers.end()) continue;
    const bool needs_pfpl = is_lossless && params.codec != H5L_CODEC_PFPL;
    const std::uint32_t codec = needs_pfpl ? H5L_CODEC_PFPL : params.codec;
    const Choice choice = make_choice(*codec_entry(codec), needs_pfpl ? 0 : params.mode, params,
                                      raw_bytes / params.value_bytes);
    EncodePlan plan = {};
    plan.raw = raw_at.data();
    plan.frames = frames_at.data();
    plan.quantizers = quantizers.data();
    plan.quantizer_stride = 1;
    plan.chunks = static_cast<u32>(chunks.size());
    plan.mode = choice.mode;
    plan.header_bytes = static_cast<u32>(choice.header_bytes());
    plan.with_checksum = params.no_checksum == 0;
    plan.shape = shape_of(choice, params.value_bytes, raw_bytes);
    plan.items_per_chunk = codec == H5L_CODEC_AATROX ? (plan.shape.count + kPartValues - 1) / kPartValues : plan.shape.tiles;
    const std::size_t items = std::size_t{plan.chunks} * plan.items_per_chunk;
    std::vector<u64> sizes(4 * items);  // room for AATROX's records too
    std::vector<u32> sums(chunks.size()), totals(chunks.size()), done(2 * chunks.size());
    plan.sizes = sizes.data();
    plan.sums = sums.data();
    plan.totals = totals.data();
    launch(kernel_name(codec, choice.mode, "encode", params.value_bytes, mine->kind),
           std::min(std::max(blocks, kLeastBlocks), static_cast<std::uint32_t>(items)), 1, plan);
    FinishPlan finish = {};
    finish.encode = plan;
    finish.bound = params.bound;
    finish.requested_kind = params.bound_kind;
    finish.codec = codec;
    finish.value_bytes = params.value_bytes;
    finish.done = done.data();
    finish.frame_bytes = frame_bytes.data();
    launch(is_lossless ? "finish_lossless_frames" : "finish_frames", 3, plan.chunks, finish);
  }
  std::vector<Bytes> result;
  for (std::size_t i = 0; i < frames.size(); ++i) result.push_back(frames[i].bytes(frame_bytes[i]));
  return result;
}

// Decodes values of a frame that has been opened. False: broken.
bool decode_with_kernels(const Frame& frame, const Bytes& bytes, std::uint64_t first, std::uint64_t wanted, Bytes& values,
                         std::size_t offset) {
  const FrameHeader& header = frame.header;
  Choice choice;
  CHECK(open_choice(frame, choice, Message(nullptr)) == H5L_OK, "codec %u", header.codec);
  std::copy_n(header.dims, 3, choice.dims);
  std::vector<std::uint8_t> exact(bytes);  // of just its size, so that sanitizers see a byte too many
  Aligned device(bytes, 4 * (offset % 4));
  DecodeJob job = {};
  const std::size_t payload_at = header.header_bytes + std::size_t{4} * frame.tiles;
  job.payload = device.data() + payload_at;
  job.ends = reinterpret_cast<const u32*>(device.data() + header.header_bytes);
  Aligned raw(values.size() + 64, header.value_bytes * (offset % 2));
  job.raw = raw.data();
  job.first = first;
  job.wanted = wanted;
  job.payload_bytes = static_cast<u32>(frame.payload.size());
  std::uint32_t begin = 0, end = 0;
  choice.geometry.range(first, wanted, begin, end);
  job.first_tile = begin;
  job.tiles = end - begin;
  job.check_sum = header.has_checksum && values.size() == header.raw_bytes;
  job.payload_sum = frame.payload_sum;
  job.quantizer = reader_of(header);
  job.shape = shape_of(choice, header.value_bytes, header.raw_bytes);
  u32 sum = 0, status = 0;
  const DecodePlan plan = {&job, 1, choice.mode, &sum, &status};
  launch(kernel_name(header.codec, choice.mode, "decode", header.value_bytes, job.quantizer.kind), 2, 1, plan);
  launch("check_sums", 1, 1, plan);
  values = raw.bytes(values.size());
  for (std::size_t i = values.size(); i < values.size() + 64; ++i) CHECK(raw.data()[i] == 0xCD, "byte %zu", i);
  return status == 0;
}

u32 scalar_read(const Bytes& bytes, std::size_t at) {
  u32 word = 0;
  if (at + 4 <= bytes.size()) std::memcpy(&word, bytes.data() + at, 4);
  return word;
}

std::vector<std::uint32_t> some_extents(Random& random, const Method& method, std::size_t most) {
  if (!method.has_boxes) return {};
  std::vector<std::uint32_t> extents(2 + random.below(2));
  std::size_t left = most;
  for (std::uint32_t& extent : extents) {
    extent = static_cast<std::uint32_t>(1 + random.below(std::min<std::size_t>(left, 40)));
    left = std::max<std::size_t>(1, left / extent);
  }
  return extents;
}

template <class T>
void check(const Method& method, const Setting& setting, Random& random, std::uint64_t hostile_one_in) {
  h5l_params params = make_params(method, setting.kind, setting.bound, sizeof(T));
  const std::size_t tile = method.tile_values(sizeof(T));
  const std::size_t most = std::min<std::size_t>(3 * tile, 70000);
  std::size_t count = random.one_in(3) ? tile * (1 + random.below(most / tile)) : 1 + random.below(most);
  if (random.one_in(8)) count = 1 + random.below(70);
  if (const auto extents = some_extents(random, method, most); !extents.empty()) {
    set_shape(params, extents);
    count = 1;
    for (const std::uint32_t extent : extents) count *= extent;
  }
  Values<T> source(random, setting, hostile_one_in);
  const Bits<T> fills[] = {kSign<T>, std::bit_cast<Bits<T>>(T{-999}), 12345, source.hostile()};
  params.has_fill = random.one_in(2);
  params.fill_bits = params.has_fill != 0 ? fills[random.below(std::size(fills))] : 0;
  params.maybe_padded = random.one_in(2);
  params.no_checksum = random.one_in(4);
  std::vector<Bytes> chunks(1 + random.below(3));
  for (Bytes& chunk : chunks) {
    std::vector<Bits<T>> values = source.make(count);
    // Long runs of one value too: of the fill value, of zeros, of others.
    for (std::uint64_t runs = random.below(4); runs > 0; --runs) {
      const std::size_t begin = random.below(count), end = begin + random.below(count - begin + 1);
      const Bits<T> value = random.one_in(2) ? fills[random.below(4)] : random.one_in(2) ? 0 : source.hostile();
      std::fill(values.begin() + static_cast<std::ptrdiff_t>(begin), values.begin() + static_cast<std::ptrdiff_t>(end), value);
    }
    chunk = to_bytes<T>(values, false);
  }
  const std::size_t offset = sizeof(T) * random.below(2);
  const auto frames = encode_with_kernels(params, chunks, 2 + static_cast<std::uint32_t>(random.below(3)), offset);
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    const Bytes expected = encode(params, chunks[i]);
    const auto differs = std::mismatch(expected.begin(), expected.end(), frames[i].begin(), frames[i].end()).first;
    if (std::getenv("H5L_DUMP") != nullptr && expected != frames[i]) {
      const h5l_frame_info info = inspect(expected);
      for (std::size_t t = 0; t < info.tiles && t < 12; ++t) {
        const std::size_t at = info.header_bytes + 4 * t;
        if (t == 0) {
          for (std::size_t b = 0; b < info.header_bytes; b += 4) {
            std::fprintf(stderr, "word %zu %08x %08x\n", b / 4, scalar_read(expected, b), scalar_read(frames[i], b));
          }
          for (std::size_t b = payload_begin(expected), n = 0; b < expected.size() && b < frames[i].size() && n < 10; ++b) {
            if (expected[b] != frames[i][b]) std::fprintf(stderr, "byte %zu %02x %02x\n", b, expected[b], frames[i][b]), ++n;
          }
        }
        std::fprintf(stderr, "tile %zu ends at %u, here %u\n", t, scalar_read(expected, at), scalar_read(frames[i], at));
      }
    }
    CHECK(expected == frames[i],
          "%s: frames of %zu and %zu bytes differ at %td, payload at %zu: chunk %zu of %zu, %zu values, float%zu, kind %u, bound %.17g, fill %u 0x%" PRIx64,
          method.name.c_str(), expected.size(), frames[i].size(), differs - expected.begin(), payload_begin(expected), i, chunks.size(), count,
          8 * sizeof(T), setting.kind, setting.bound, params.has_fill, std::uint64_t{params.fill_bits});
    Frame frame;
    CHECK(open_frame(expected, frame, Message(nullptr)) == H5L_OK, "%zu bytes", expected.size());
    if (frame.header.codec == H5L_CODEC_STORED) continue;
    Bytes values(chunks[i].size());
    CHECK(decode_with_kernels(frame, expected, 0, count, values, random.below(4)), "%s", method.name.c_str());
    const Bytes decoded = decode(expected);
    const auto wrong = std::mismatch(decoded.begin(), decoded.end(), values.begin()).first;
    CHECK(values == decoded, "%s: %zu values, float%zu, kind %u, bound %.17g: byte %td of %zu", method.name.c_str(), count,
          8 * sizeof(T), setting.kind, setting.bound, wrong - decoded.begin(), decoded.size());
    const std::size_t first = random.below(count), wanted = 1 + random.below(count - first);
    Bytes part(wanted * sizeof(T));
    CHECK(decode_with_kernels(frame, expected, first, wanted, part, random.below(4)), "%s", method.name.c_str());
    CHECK(std::equal(part.begin(), part.end(), decoded.begin() + static_cast<std::ptrdiff_t>(first * sizeof(T))),
          "%s: values %zu to %zu of %zu", method.name.c_str(), first, first + wanted, count);

    // Damage: broken for both, or the same values from both.
    Bytes broken = expected;
    const std::size_t payload_at = payload_begin(expected);
    if (payload_at == broken.size()) continue;
    for (std::uint64_t hits = 1 + random.below(3); hits > 0; --hits) {
      std::uint8_t& byte = broken[payload_at + random.below(broken.size() - payload_at)];
      byte = random.one_in(2) ? static_cast<std::uint8_t>(random.next()) : static_cast<std::uint8_t>(byte ^ 1u << random.below(8));
    }
    CHECK(open_frame(broken, frame, Message(nullptr)) == H5L_OK, "%zu bytes", broken.size());
    frame.header.has_checksum = false;
    Bytes expected_values(chunks[i].size()), actual_values(chunks[i].size());
    const bool is_fine = decode_values(frame, 0, expected_values, Message(nullptr)) == H5L_OK;
    CHECK(decode_with_kernels(frame, broken, 0, count, actual_values, random.below(4)) == is_fine,
          "%s: damage, %d expected: %zu values, float%zu, kind %u", method.name.c_str(), is_fine ? 1 : 0, count, 8 * sizeof(T), setting.kind);
    CHECK(!is_fine || expected_values == actual_values, "%s: damage, %zu values", method.name.c_str(), count);
  }
}

template <class T>
void check_all(const Method& method, int rounds) {
  Random random(21);
  for (const Setting& setting : settings<T>()) {
    for (const std::uint64_t hostile_one_in : {0u, 1000u, 30u, 2u}) {
      for (int i = 0; i < rounds; ++i) check<T>(method, setting, random, hostile_one_in);
    }
  }
}

}  // namespace
}  // namespace h5lossy::test

// Arguments: how often, and which codec alone.
int main(int count, char** arguments) {
  const int rounds = count > 1 ? std::atoi(arguments[1]) : 1;
  const int only = count > 2 ? std::atoi(arguments[2]) : 0;
  const int only_mode = count > 3 ? std::atoi(arguments[3]) : -1;
  h5lossy::test::list_kernels();
  for (const h5lossy::test::Method& method : h5lossy::test::methods()) {
    if (only != 0 && static_cast<int>(method.codec) != only) continue;
    if (only_mode >= 0 && static_cast<int>(method.mode) != only_mode) continue;
    std::fprintf(stderr, "%s\n", method.name.c_str());
    h5lossy::test::check_all<float>(method, rounds);
    h5lossy::test::check_all<double>(method, rounds);
  }
}
