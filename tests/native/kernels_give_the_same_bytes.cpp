// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The GPU kernels, emulated on the CPU (emulated_gpu.h), give the same frames and values as the CPU code, for hostile values,
// fill values and all kinds of sizes. They report broken frames, and access only their buffers.

#include <algorithm>
#include <array>
#include <bit>
#include <cinttypes>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "check.h"
#include "chunk/choice.h"
#include "chunk/decode.h"
#include "chunk/integers.h"
#include "chunk/open_frame.h"
#include "chunk/params.h"
#include "emulated_codecs.h"
#include "frame/frame.h"
#include "frames.h"
#include "gpu/sequences.h"
#include "methods.h"
#include "offload/gpu_requests.h"
#include "runtime/registry.h"
#include "values.h"

namespace h5lossy::test {
namespace {

using namespace gpu;

#if defined(H5L_SANITIZE_THREADS)
constexpr bool kIsSlow = true;  // so chunks are smaller: enough for several tiles of each thread block
#else
constexpr bool kIsSlow = false;
#endif

// Whether a kernel that takes such a plan has a name that begins so.
template <class Plan>
bool is_listed(const std::string& start) {
  const auto& all = kernels<Plan>();
  return std::any_of(all.begin(), all.end(), [&](const auto& kernel) { return kernel.first.starts_with(start); });
}

// As the codec says, which is checked.
template <class... Plans>
bool has_kernels(const Method& method, Direction direction) {
  const auto is_said = [&] {
    return h5lossy::has_kernels(direction, method.codec, method.mode, H5L_CLASS_FLOAT, H5L_BOUND_ABSOLUTE);
  };
  if (method.codec == H5L_CODEC_AUTO) return is_said();
  const char* const name = direction == Direction::encode ? "_encode_" : "_decode_";
  const std::string start = codec_name(method.codec) + std::string(name);
  const bool has_any = (is_listed<Plans>(start) || ...);
  CHECK(is_said() == has_any, "%s", method.name.c_str());
  return has_any;
}
bool can_encode(const Method& method) { return has_kernels<EncodePlan, StagedPlan>(method, Direction::encode); }
bool can_decode(const Method& method) { return has_kernels<DecodePlan>(method, Direction::decode); }

DraftedTiles drafted_tiles;  // counted behind each of the kernels for usual tiles

class EmulatedLauncher : public Launcher {
 public:
  explicit EmulatedLauncher(std::uint32_t resident) : resident_(resident) {}
  bool launch(const char* kernel, std::uint32_t blocks, std::uint32_t rows, const void* plan, std::size_t plan_bytes,
              bool together) override {
    const bool found = with_codec_kernel(kernel, [&](const auto& listed) {
      CHECK(plan_bytes == listed.kPlanBytes, "%s", kernel);
      launch_codec_kernel(kernel, blocks, rows, plan, together);
    });
    CHECK(found, "no kernel %s", kernel);
    if (std::strstr(kernel, "draft") != nullptr) {
      const auto [drafted, all] = count_drafts(*static_cast<const StagedPlan*>(plan));
      drafted_tiles.drafted += drafted;
      drafted_tiles.all += all;
    }
    return true;
  }
  bool clear(void* memory, std::size_t bytes) override {
    std::memset(memory, 0, bytes);
    return true;
  }
  std::uint32_t resident_blocks(const char*) override { return resident_; }

 private:
  std::uint32_t resident_;
};

// Memory that begins at a multiple of 16, as the device's does, `offset` bytes behind it.
class Aligned {
 public:
  explicit Aligned(std::size_t size, std::size_t offset = 0) : memory_(size / 16 + 3), offset_(offset) {
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
  std::size_t offset_;
};

// Whether the host has to encode a chunk, since another codec may make a smaller frame than the requested one.
bool is_left_to_host(const h5l_params& params, const Bytes& expected, std::size_t raw_bytes) {
  Frame frame;
  CHECK(open_frame(expected, frame, Message(nullptr)) == H5L_OK, "%zu bytes", expected.size());
  return params.codec == H5L_CODEC_INTERP && has_floats(params.value_class) &&
         (frame.header.codec != params.codec || saves_little(expected.size(), raw_bytes));
}

// Encodes chunks of one size as the GPU does, and those of floats that it leaves to the host as the host does.
std::vector<Bytes> encode_with_kernels(const h5l_params& params, const std::vector<Bytes>& chunks, std::uint32_t blocks,
                                       std::size_t offset) {
  const std::size_t raw_bytes = chunks.front().size();
  const std::size_t stride_unit = raw_bytes % 4 == 0 ? 16 : params.value_bytes;  // or chunks of any alignment
  const std::size_t raw_stride = (raw_bytes + stride_unit - 1) / stride_unit * stride_unit + stride_unit,
                    frame_stride = (raw_bytes + 40 + 3) / 4 * 4 + 4;
  Aligned raw(chunks.size() * raw_stride, offset), frames(chunks.size() * frame_stride);
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    std::copy(chunks[i].begin(), chunks[i].end(), raw.data() + i * raw_stride);
  }
  std::vector<u64> frame_bytes(chunks.size());
  EncodeCall call = make_encode_call(params, raw_bytes, static_cast<std::uint32_t>(chunks.size()));
  call.plan.encode.raw = raw.data();
  call.plan.encode.raw_stride = raw_stride;
  call.plan.encode.frames = frames.data();
  call.plan.encode.frame_stride = frame_stride;
  call.plan.frame_bytes = frame_bytes.data();
  Aligned workspace(encode_workspace_bytes(call));
  EmulatedLauncher launcher(call.variant.layout.is_split || !call.candidates.empty() ? std::max(blocks, kLeastBlocks)
                                                                                     : blocks);
  CHECK(gpu::encode(launcher, call, workspace.data()), "codec %u", params.codec);
  std::vector<Bytes> result;
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    const std::uint8_t* const frame = frames.data() + i * frame_stride;
    CHECK(frame_bytes[i] <= raw_bytes + 40, "%llu bytes", frame_bytes[i]);
    result.emplace_back(frame, frame + frame_bytes[i]);
    if (frame_bytes[i] == 0) {
      Bytes of_host = encode(params, chunks[i]);
      if (is_left_to_host(params, of_host, raw_bytes)) result.back() = std::move(of_host);
    }
    for (std::size_t b = raw_bytes + 40; b < frame_stride; ++b) CHECK(frame[b] == 0xCD, "byte %zu", b);
  }
  return result;
}

// Decodes values of a frame that is like `header`. False: broken.
bool decode_with_kernels(const FrameHeader& header, const Bytes& bytes, std::uint64_t first, std::uint64_t wanted,
                         Bytes& values, std::size_t offset) {
  Aligned frame(bytes, 4 * (offset % 4));
  Aligned raw(values.size() + 64, header.value_bytes * (offset % 2));
  const u64 frame_bytes = bytes.size();
  u32 status = 77;
  DecodeCall call = make_decode_call(header, first, wanted, 1);
  call.frame = frame.data();
  call.frame_bytes = &frame_bytes;
  call.raw = raw.data();
  call.statuses = &status;
  Aligned workspace(decode_workspace_bytes(call));
  EmulatedLauncher launcher(kLeastBlocks);
  CHECK(gpu::decode(launcher, call, workspace.data()), "codec %u", header.codec);
  for (std::size_t i = values.size(); i < values.size() + 64; ++i) CHECK(raw.data()[i] == 0xCD, "byte %zu", i);
  values = raw.bytes(values.size());
  return status == 0;
}

// Whether a frame is of another codec than its batch, or has tiles with some of these values that kernels leave to the
// host: those of labels, and payloads at odd addresses, which are behind stored tiles of odd sizes.
bool is_left_to_host(std::uint32_t codec, const Frame& frame, std::uint64_t first, std::uint64_t wanted) {
  const FrameHeader& header = frame.header;
  if (header.codec == H5L_CODEC_STORED) return false;
  if (has_floats(header.value_class)) return header.codec != codec && header.bound_kind != H5L_BOUND_LOSSLESS;
  if (header.codec == H5L_CODEC_PFPL) return false;
  Choice choice;
  CHECK(open_choice(frame, choice, Message(nullptr)) == H5L_OK, "codec %u", header.codec);
  std::uint32_t begin = 0, end = 0;
  choice.geometry.range(first, wanted, begin, end);
  for (std::uint32_t tile = begin; tile < end; ++tile) {
    const auto payload = frame.tile_payload(tile);
    const std::size_t bytes = payload.size(), lane_bytes = header.value_bytes <= 2 ? 4 : 8;
    if (bytes == 0 || bytes == std::size_t{choice.geometry.count_values(tile)} * header.value_bytes) continue;
    if ((payload.data() - frame.bytes.data()) % 2 != 0 || (bytes != lane_bytes && payload[2] >> 7 != 0)) return true;
  }
  return false;
}

// Values of all frames of chunks of one size in one call, and what each is decoded to.
void check_batch(const Method& method, const std::vector<Bytes>& frames, std::size_t raw_bytes, std::size_t first,
                 std::size_t wanted) {
  std::size_t stride = 0;
  FrameHeader header;
  for (const Bytes& bytes : frames) {
    stride = std::max(stride, (bytes.size() + 3) / 4 * 4);
    Frame frame;
    CHECK(open_frame(bytes, frame, Message(nullptr)) == H5L_OK, "%zu bytes", bytes.size());
    // What is not lossless or stored, if there is any, says what all are.
    const bool is_lossless = frame.header.bound_kind == H5L_BOUND_LOSSLESS && has_floats(frame.header.value_class);
    const bool is_ordinary = frame.header.codec == method.codec && !is_lossless;
    if (&bytes == &frames.front() || is_ordinary) header = frame.header;
  }
  const std::size_t raw_stride = wanted * header.value_bytes;
  Aligned all(frames.size() * stride), raw(frames.size() * raw_stride);
  std::vector<u64> sizes;
  for (std::size_t i = 0; i < frames.size(); ++i) {
    std::copy(frames[i].begin(), frames[i].end(), all.data() + i * stride);
    sizes.push_back(frames[i].size());
  }
  std::vector<u32> statuses(frames.size(), 77);
  CHECK(header.raw_bytes == raw_bytes, "%zu bytes", raw_bytes);
  DecodeCall call = make_decode_call(header, first, wanted, static_cast<std::uint32_t>(frames.size()));
  call.frame = all.data();
  call.frame_stride = stride;
  call.frame_bytes = sizes.data();
  call.raw = raw.data();
  call.raw_stride = raw_stride;
  call.statuses = statuses.data();
  Aligned workspace(decode_workspace_bytes(call));
  EmulatedLauncher launcher(kLeastBlocks);
  CHECK(gpu::decode(launcher, call, workspace.data()), "codec %u", header.codec);
  for (std::size_t i = 0; i < frames.size(); ++i) {
    const Bytes decoded = decode(frames[i]);
    Frame frame;
    CHECK(open_frame(frames[i], frame, Message(nullptr)) == H5L_OK, "%zu bytes", frames[i].size());
    const bool is_left = is_left_to_host(header.codec, frame, first, wanted);
    const u32 expected = static_cast<u32>(is_left ? DecodeStatus::other : DecodeStatus::ok);
    CHECK(statuses[i] == expected, "%s: frame %zu of %zu, status %u", method.name.c_str(), i, frames.size(),
          statuses[i]);
    if (is_left) continue;
    const std::uint8_t* const begin = decoded.data() + first * header.value_bytes;
    CHECK(std::equal(begin, begin + raw_stride, raw.data() + i * raw_stride), "%s: frame %zu of %zu",
          method.name.c_str(), i, frames.size());
  }
}

std::vector<std::uint32_t> some_extents(Random& random, const Method& method, std::size_t most) {
  // Of codec auto, chunks with an edge in the sample: of one to three slices, or some rows.
  if (method.codec == H5L_CODEC_AUTO && random.one_in(3)) {
    const auto more = static_cast<std::uint32_t>(random.below(12));
    if (random.one_in(2)) return {9 + more, 1024};
    return {5 + more, 24, 90};
  }
  if (!method.has_boxes && (method.codec != H5L_CODEC_AUTO || random.one_in(2))) return {};
  std::vector<std::uint32_t> extents(2 + random.below(3));
  std::size_t left = most;
  for (std::uint32_t& extent : extents) {
    extent = static_cast<std::uint32_t>(1 + random.below(std::min<std::size_t>(left, 40)));
    left = std::max<std::size_t>(1, left / extent);
  }
  return extents;
}

// Whether kernels choose the modes of chunks by their values.
bool codec_can_choose(const Method& method) {
  return method.codec != H5L_CODEC_AUTO && codec_entry(method.codec)->codec->possible_modes != nullptr;
}

// Moves most values to a lattice that is coarser than the bound: multiples, decimals, or packed values.
template <class T>
void put_on_lattice(std::vector<Bits<T>>& values, double bound, Random& random) {
  const double wanted = 0.4 / (bound * static_cast<double>(1 + random.below(3)));
  const double per_unit = wanted > 1 && random.one_in(2) ? std::floor(wanted)
                          : random.one_in(2)             ? std::pow(10, std::floor(std::log10(wanted)))
                                                         : wanted;
  const double offset = random.one_in(2) ? 0 : 273.15 * bound;
  const std::uint64_t beside_one_in = random.one_in(2) ? 0 : 2000;
  const bool is_rounded_twice = random.one_in(2);
  for (Bits<T>& bits : values) {
    const double number = std::rint((static_cast<double>(std::bit_cast<T>(bits)) - offset) * per_unit);
    if (!(std::fabs(number) < 1e6) || (beside_one_in != 0 && random.one_in(beside_one_in))) continue;
    const volatile T product = static_cast<T>(number) * static_cast<T>(1 / per_unit);  // no fused addition
    bits = std::bit_cast<Bits<T>>(is_rounded_twice ? product + static_cast<T>(offset)
                                                   : static_cast<T>(number / per_unit + offset));
  }
}

// A field as measured or simulated: waves along all axes, with noise or a walk, of which some values may be missing.
template <class T>
std::vector<Bits<T>> some_field(const h5l_params& params, std::size_t count, double bound, Random& random) {
  const std::vector<std::uint32_t> extents(params.shape, params.shape + params.rank);
  const Bits<T> fill = static_cast<Bits<T>>(params.fill_bits);
  const double bins = std::ldexp(1.0, static_cast<int>(random.below(14)));  // of many, some have no fine points
  const double noise = std::ldexp(0.1, random.one_in(2) ? 0 : static_cast<int>(random.below(10)));
  const bool walks = random.one_in(2);
  double walk = 0;
  const double level = random.one_in(2) ? 0 : random.one_in(2) ? 3 * bins : 100 * bins;
  double phases[4], lengths[4];
  for (int a = 0; a < 4; ++a) {
    phases[a] = 7 * random.fraction();
    lengths[a] = std::ldexp(1 + random.fraction(), static_cast<int>(2 + random.below(6)));
  }
  const std::uint64_t missing = random.below(4);  // none, one in many, and regions of one value, or of many
  std::vector<Bits<T>> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    double wave = 0;
    std::size_t rest = i;
    for (std::size_t a = extents.size(); a-- > 0; rest /= extents[a]) {
      wave += std::sin(phases[a] + static_cast<double>(rest % extents[a]) / lengths[a]);
    }
    walk = (walks ? walk : 0) + noise * (random.fraction() - 0.5);
    const double number = level + bins * wave + walk;
    values[i] = std::bit_cast<Bits<T>>(static_cast<T>(2 * bound * number));
    if (missing == 1 && random.one_in(700)) values[i] = random.one_in(3) ? fill : kInf<T> | 1;
    if (missing > 1 && wave > 1) values[i] = missing == 2 ? fill : kInf<T> | static_cast<Bits<T>>(1 + random.below(9));
  }
  return values;
}

// Enough values for a tile or two.
std::vector<std::uint32_t> extents_of_field(Random& random, std::uint64_t most_axes) {
  std::vector<std::uint32_t> extents(2 + random.below(most_axes - 1));
  std::size_t left = 40000;
  for (std::uint32_t& extent : extents) {
    extent = static_cast<std::uint32_t>(2 + random.below(std::min<std::size_t>(left, 70)));
    left = std::max<std::size_t>(1, left / extent);
  }
  return extents;
}

// Codecs that have kernels for usual tiles, and others for what these leave, have to meet both.
template <class T>
void check_fields(const Method& method, Random& random) {
  for (int i = 0; i < (kIsSlow ? 2 : 4); ++i) {
    const double bound = std::pow(10, static_cast<double>(random.between(-6, 3)));
    h5l_params params = make_params(method, H5L_BOUND_ABSOLUTE, bound, sizeof(T));
    std::vector<std::uint32_t> extents = {static_cast<std::uint32_t>(25000 + random.below(15000))};
    if (i % 3 != 0) extents = extents_of_field(random, 4);
    set_shape(params, extents);
    params.has_fill = random.one_in(2);
    params.fill_bits = params.has_fill != 0 ? std::bit_cast<Bits<T>>(static_cast<T>(1e20)) : 0;
    const Bytes chunk = to_bytes<T>(some_field<T>(params, product(extents), bound, random), false);
    CHECK(encode_with_kernels(params, {chunk}, 2, 0).front() == encode(params, chunk),
          "%s: a field of %zu values, float%zu, bound %.17g", method.name.c_str(), product(extents), 8 * sizeof(T),
          bound);
  }
}

// How many closed tiles of Interp have each grade; if `random` is given, they get another one, or other
// units, which a decoder accepts.
using Grades = std::array<std::size_t, 4>;
void look_at_grades(Bytes& bytes, Grades& grades, Random* random = nullptr) {
  Frame frame;
  CHECK(open_frame(bytes, frame, Message(nullptr)) == H5L_OK, "%zu bytes", bytes.size());
  if (frame.header.codec != H5L_CODEC_INTERP) return;
  const std::size_t value_bytes = frame.header.value_bytes;
  Choice choice;
  CHECK(open_choice(frame, choice, Message(nullptr)) == H5L_OK, "%zu bytes", bytes.size());
  for (std::uint32_t tile = 0; tile < frame.tiles; ++tile) {
    const auto payload = frame.tile_payload(tile);
    const bool has_codes =
        payload.size() > value_bytes && payload.size() != std::size_t{choice.geometry.count_values(tile)} * value_bytes;
    if (!has_codes || (payload[0] & 8) == 0) continue;
    ++grades[payload[2] >> 6];
    if (random == nullptr) continue;
    std::uint8_t* const head = bytes.data() + (payload.data() - bytes.data());
    head[2] = static_cast<std::uint8_t>(head[2] ^ (1 + random->below(15)) << 4);  // or other units
    if (random->one_in(3)) head[0] = static_cast<std::uint8_t>(head[0] & 0x7F);   // not narrow
  }
}

// The kernels give the CPU's frame of a chunk, and decode it; they also decode one whose tiles have other grades.
void check_grades_of(const h5l_params& params, const Bytes& chunk, Random& random, Grades& grades, const char* what) {
  Bytes frame = encode(params, chunk);
  const Bytes made = encode_with_kernels(params, {chunk}, 2, params.value_bytes * random.below(2)).front();
  CHECK(made == frame, "%s: frames of %zu and %zu bytes, mode %u, extents %u, %u, %u", what, frame.size(), made.size(),
        params.mode, params.shape[0], params.shape[1], params.shape[2]);
  const FrameHeader header = [&] {
    Frame opened;
    CHECK(open_frame(frame, opened, Message(nullptr)) == H5L_OK, "%s", what);
    return opened.header;
  }();
  for (const bool is_changed : {false, true}) {
    Grades ignored = {};
    look_at_grades(frame, is_changed ? ignored : grades, is_changed ? &random : nullptr);
    Frame opened;
    CHECK(open_frame(frame, opened, Message(nullptr)) == H5L_OK, "%s", what);
    Bytes expected(chunk.size()), values(chunk.size());
    const bool is_fine = decode_chunk(opened, expected, Message(nullptr)) == H5L_OK;
    const std::size_t count = chunk.size() / header.value_bytes;
    CHECK(decode_with_kernels(header, frame, 0, count, values, random.below(4)) == is_fine, "%s: is fine: %d", what,
          is_fine ? 1 : 0);
    const auto wrong = std::mismatch(expected.begin(), expected.end(), values.begin()).first;
    CHECK(!is_fine || values == expected, "%s: byte %td of %zu, grades changed: %d", what, wrong - expected.begin(),
          expected.size(), is_changed ? 1 : 0);
  }
}

// Fields so far from zero that fine points there are multiples of two to the power `grade`. Some values may be fine
// points nearer to zero, with odd numbers.
template <class T>
void check_graded_field(std::uint32_t mode, std::uint32_t grade, std::uint32_t kind, Random& random, Grades& grades) {
  enum { kPlain, kFilled, kMasked, kSparse, kKept, kOutlying };
  static const char* const names[] = {"plain",         "fill values", "a mask value",
                                      "NaN in places", "kept values", "a few far values"};
  const double bound = std::pow(10, static_cast<double>(random.between(-6, 3)));
  h5l_params params = make_params(H5L_BOUND_ABSOLUTE, bound, sizeof(T));
  params.codec = H5L_CODEC_INTERP;
  params.mode = mode;
  params.no_checksum = 1;  // heads are changed
  params.has_fill = kind == kFilled ? 1 : 0;
  const T fill = static_cast<T>(-99 * bound), masked = static_cast<T>(-12345 * bound);
  params.fill_bits = kind == kFilled ? std::bit_cast<Bits<T>>(fill) : 0;
  const std::vector<std::uint32_t> extents = {3 + static_cast<std::uint32_t>(random.below(4)),
                                              25 + static_cast<std::uint32_t>(random.below(8)),
                                              4 * (6 + static_cast<std::uint32_t>(random.below(3)))};
  set_shape(params, extents);
  const double level = std::ldexp(0.55 + 0.4 * random.fraction(), static_cast<int>(15 + grade));
  const double sizes[] = {60, 0.04 * level, 0.9 * level, 1.2 * level};
  const double size = sizes[random.below(4)], noise = random.one_in(2) ? 3 : 40;
  const double sign = random.one_in(2) ? 1 : -1;
  const auto make_field = [&](double fine, bool has_kept) {
    std::vector<Bits<T>> values(product(extents));
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double x = static_cast<double>(i % extents[2]), y = static_cast<double>(i / extents[2] % extents[1]);
      const double z = static_cast<double>(i / extents[2] / extents[1]);
      const double wave = std::sin(x / 17) * std::cos(y / 13 + z / 5);
      T value = static_cast<T>(sign * (level + size * wave + noise * random.fraction()) * fine);
      if (has_kept && (i % (extents[1] * extents[2]) == 0 || random.one_in(9))) {
        // Of the first values of slices every other one is of the tile's grade.
        const double odd = static_cast<double>(2 * random.below(1 << 13) + 1);
        value = static_cast<T>(random.one_in(2) ? odd : 8 * odd) * static_cast<T>(fine);
      }
      if (kind == kOutlying && random.one_in(2000)) value *= static_cast<T>(1 + random.below(7));
      if ((kind == kFilled || kind == kMasked) && wave > 0.4) value = kind == kFilled ? fill : masked;
      values[i] = kind == kSparse && random.one_in(300) ? kInf<T> | 1 : std::bit_cast<Bits<T>>(value);
    }
    return to_bytes<T>(values, false);
  };
  const Bytes chunk = make_field(bound / 8, false);
  check_grades_of(params, chunk, random, grades, names[kind]);
  const Bytes frame = encode(params, chunk);
  Frame opened;
  CHECK(open_frame(frame, opened, Message(nullptr)) == H5L_OK, "%s", names[kind]);
  if (opened.header.codec != H5L_CODEC_INTERP) return;
  // What was decoded before: all values, and those of a part, in the place of others.
  Bytes decoded = decode(frame);
  if (kind == kKept) {
    decoded = make_field(std::bit_cast<double>(opened.header.step_bits) / 16, true);
  } else if (random.one_in(2)) {
    std::rotate(decoded.begin(), decoded.begin() + static_cast<std::ptrdiff_t>(7 * sizeof(T)), decoded.end());
    std::copy_n(chunk.begin(), chunk.size() / 8, decoded.begin());
  }
  check_grades_of(params, decoded, random, grades, names[kind]);
}

// Smooth tiles of a grade: usual ones; with a few values beyond it; with a first value from which no integers can be
// counted; and along two axes, so that pass 0 has more values, of which some are patched.
void check_graded_tiles(std::uint32_t grade, Random& random) {
  enum { kUsual, kBeyond, kNoBase, kSlices, kAll };
  static const char* const names[] = {"usual tiles", "values beyond the grade", "no base", "slices"};
  double fine = 0;
  for (std::uint32_t which = 0; which < kAll; ++which) {
    h5l_params params = make_params(H5L_BOUND_ABSOLUTE, 0.5, 4);
    params.codec = H5L_CODEC_INTERP;
    params.mode = which == kSlices ? 3 : 7;
    params.no_checksum = 1;  // heads are changed
    const std::vector<std::uint32_t> extents = {which == kUsual ? 64u : 16u, 32, 32};
    set_shape(params, extents);
    std::vector<Bits<float>> values(product(extents));
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double x = static_cast<double>(i % 32), y = static_cast<double>(i / 32 % 32);
      const double wave = std::sin(x / 9) * std::cos(y / 8 + static_cast<double>(i / 1024) / 7);
      double value = std::ldexp(0.6, 11 + static_cast<int>(grade)) + 40 * wave + random.fraction();
      const bool is_far = which == kBeyond && i % 2039 == 7;
      const bool is_kept = (which == kNoBase && i == 0) || (which == kSlices && i % 2048 == 1024);
      if (is_far) value *= 1.75;
      if (is_kept) value = static_cast<double>(32113 + 2 * (i / 1024)) * fine;  // of grade 0
      values[i] = std::bit_cast<Bits<float>>(static_cast<float>(value));
    }
    const Bytes chunk = to_bytes<float>(values, false);
    Grades grades = {};
    drafted_tiles = {};
    check_grades_of(params, chunk, random, grades, names[which]);
    const bool may_be_open = which == kSlices && grade == 3;  // kept values are far from the others then
    CHECK(may_be_open || grades[grade] == (which == kUsual ? 2 : 1), "%s: %zu tiles of grade %u", names[which],
          grades[grade], grade);
    if (which == kUsual) {
      CHECK(drafted_tiles.all > 1 && drafted_tiles.drafted == drafted_tiles.all, "grade %u: %zu of %zu tiles", grade,
            drafted_tiles.drafted, drafted_tiles.all);
      const Bytes frame = encode(params, chunk);
      Frame opened;
      CHECK(open_frame(frame, opened, Message(nullptr)) == H5L_OK, "grade %u", grade);
      fine = std::bit_cast<double>(opened.header.step_bits) / 16;
    }
    check_grades_of(params, decode(encode(params, chunk)), random, grades, names[which]);
  }
}

// Of each grade there are tiles that the kernels for usual tiles code, and others.
void check_grades(int rounds) {
  Random random(25);
  for (std::uint32_t grade = 0; grade < 4; ++grade) check_graded_tiles(grade, random);
  Grades singles = {}, doubles = {};
  drafted_tiles = {};
  for (std::uint32_t i = 0; i < (kIsSlow ? 6 : 24 * static_cast<std::uint32_t>(std::max(rounds, 1))); ++i) {
    const std::uint32_t modes[] = {0, 3, 1, 7};
    check_graded_field<float>(modes[random.below(4)], i % 4, (i + i / 4) % 6, random, singles);
    if (i % 4 == 0) check_graded_field<double>(modes[random.below(4)], i / 4 % 4, i / 4 % 6, random, doubles);
  }
  for (std::size_t grade = 0; grade < 4 && !kIsSlow; ++grade) CHECK(singles[grade] > 1, "grade %zu", grade);
  CHECK(doubles[1] + doubles[2] + doubles[3] == 0, "%zu closed tiles", doubles[0]);
  CHECK(drafted_tiles.drafted < drafted_tiles.all, "%zu tiles", drafted_tiles.all);
  std::fprintf(stderr, "closed tiles by grade: %zu, %zu, %zu, %zu; %zu of %zu tiles drafted\n", singles[0], singles[1],
               singles[2], singles[3], drafted_tiles.drafted, drafted_tiles.all);
}

// Damage: broken for both, or the same values from both.
void check_damage(const Frame& whole, const Bytes& expected, std::size_t first, Random& random, const char* what) {
  Bytes broken = expected;
  const FrameHeader header = whole.header;
  const std::size_t count = header.raw_bytes / header.value_bytes, payload_at = payload_begin(expected);
  const std::size_t begin = random.one_in(4) ? 0 : payload_at;
  if (begin == broken.size()) return;
  const bool shifts = random.one_in(4);
  for (std::uint64_t hits = shifts ? 0 : 1 + random.below(3); hits > 0; --hits) {
    std::uint8_t& byte = broken[begin + random.below(broken.size() - begin)];
    byte = random.one_in(2) ? static_cast<std::uint8_t>(random.next())
                            : static_cast<std::uint8_t>(byte ^ 1u << random.below(8));
  }
  if (random.one_in(10)) broken.resize(random.below(broken.size()));
  // All tiles behind the first one begin at odd addresses.
  const std::size_t table_at = payload_at - std::size_t{kTileEntryBytes} * whole.tiles;
  for (std::size_t at = table_at; shifts && at + kTileEntryBytes < payload_at; at += kTileEntryBytes) ++broken[at];
  Frame frame;
  Bytes expected_values(header.raw_bytes), actual_values(header.raw_bytes);
  const bool is_fine = open_frame(broken, frame, Message(nullptr)) == H5L_OK &&
                       frame.header.raw_bytes == header.raw_bytes &&
                       decode_chunk(frame, expected_values, Message(nullptr)) == H5L_OK;
  CHECK(decode_with_kernels(header, broken, 0, count, actual_values, random.below(4)) == is_fine || is_fine,
        "%s: damage, %d expected: %zu values of %u bytes, kind %u", what, is_fine ? 1 : 0, count, header.value_bytes,
        header.bound_kind);
  // With no values, header and tile table are still checked.
  Bytes nothing;
  CHECK(decode_with_kernels(header, expected, first, 0, nothing, 0), "%s: no values", what);
  CHECK(!decode_with_kernels(header, broken, first, 0, nothing, 0) ||
            open_frame(broken, frame, Message(nullptr)) == H5L_OK,
        "%s: no values of a damaged header", what);
}

template <class T>
void check(const Method& method, const Setting& setting, Random& random, std::uint64_t hostile_one_in) {
  h5l_params params = make_params(method, setting.kind, setting.bound, sizeof(T));
  const std::size_t tile = method.tile_values(sizeof(T));
  // Sometimes more tiles than there are in a group.
  const std::size_t most = kIsSlow            ? std::min<std::size_t>(24 * tile, 50000)
                           : random.one_in(6) ? std::min<std::size_t>(70 * tile, 290000)
                                              : std::min<std::size_t>(3 * tile, 70000);
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
  std::vector<Bytes> chunks(1 + random.below(kIsSlow ? 2 : 3));
  for (Bytes& chunk : chunks) {
    std::vector<Bits<T>> values = source.make(count);
    // Long runs of one value too: of the fill value, of zeros, of others. Now and then they begin and end where parts of
    // tiles do, as rows of a mask may.
    for (std::uint64_t runs = random.below(4); runs > 0; --runs) {
      std::size_t begin = random.below(count), end = begin + random.below(count - begin + 1);
      if (random.one_in(3)) {
        begin = begin / gpu::kPartValues * gpu::kPartValues;
        end = std::max(begin, end / gpu::kPartValues * gpu::kPartValues);
      }
      const Bits<T> value = random.one_in(2) ? fills[random.below(4)] : random.one_in(2) ? 0 : source.hostile();
      std::fill(values.begin() + static_cast<std::ptrdiff_t>(begin), values.begin() + static_cast<std::ptrdiff_t>(end),
                value);
    }
    if (codec_can_choose(method) && setting.kind == H5L_BOUND_ABSOLUTE && random.one_in(2)) {
      put_on_lattice<T>(values, setting.bound, random);
    }
    chunk = to_bytes<T>(values, false);
    // Some codecs recognise what they have decoded.
    if (codec_can_choose(method) && random.one_in(2)) chunk = decode(encode(params, chunk));
  }
  const std::size_t offset = sizeof(T) * random.below(2);
  std::vector<Bytes> frames;
  if (can_encode(method)) {
    frames = encode_with_kernels(params, chunks, 2 + static_cast<std::uint32_t>(random.below(3)), offset);
  } else {
    for (const Bytes& chunk : chunks) frames.push_back(encode(params, chunk));
  }
  if (method.codec != H5L_CODEC_AUTO && can_decode(method)) {
    const std::size_t first = random.below(count), wanted = 1 + random.below(count - first);
    std::vector<Bytes> all = frames;
    // Of some codecs, a batch may have frames of all modes.
    for (std::size_t i = 0; i < frames.size() && codec_entry(method.codec)->codec->layout_bits != 0; ++i) {
      h5l_params other = params;
      do {
        other.mode = static_cast<std::uint32_t>(random.below(256));
      } while (!codec_entry(method.codec)->codec->has_mode(other.mode));
      all.push_back(encode(other, chunks[i]));
    }
    check_batch(method, all, chunks.front().size(), 0, count);
    check_batch(method, all, chunks.front().size(), first, wanted);
  }
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    const Bytes expected = encode(params, chunks[i]);
    const auto differs = std::mismatch(expected.begin(), expected.end(), frames[i].begin(), frames[i].end()).first;
    CHECK(expected == frames[i],
          "%s: frames of %zu and %zu bytes differ at %td, payload at %zu: chunk %zu of %zu, %zu values, float%zu, kind "
          "%u, bound %.17g, fill %u 0x%" PRIx64,
          method.name.c_str(), expected.size(), frames[i].size(), differs - expected.begin(), payload_begin(expected),
          i, chunks.size(), count, 8 * sizeof(T), setting.kind, setting.bound, params.has_fill,
          std::uint64_t{params.fill_bits});
    Frame frame;
    CHECK(open_frame(expected, frame, Message(nullptr)) == H5L_OK, "%zu bytes", expected.size());
    Bytes values(chunks[i].size());
    CHECK(decode_with_kernels(frame.header, expected, 0, count, values, random.below(4)), "%s", method.name.c_str());
    const Bytes decoded = decode(expected);
    const auto wrong = std::mismatch(decoded.begin(), decoded.end(), values.begin()).first;
    CHECK(values == decoded, "%s: %zu values, float%zu, kind %u, bound %.17g: byte %td of %zu", method.name.c_str(),
          count, 8 * sizeof(T), setting.kind, setting.bound, wrong - decoded.begin(), decoded.size());
    const std::size_t first = random.below(count), wanted = 1 + random.below(count - first);
    Bytes part(wanted * sizeof(T));
    CHECK(decode_with_kernels(frame.header, expected, first, wanted, part, random.below(4)), "%s", method.name.c_str());
    CHECK(std::equal(part.begin(), part.end(), decoded.begin() + static_cast<std::ptrdiff_t>(first * sizeof(T))),
          "%s: values %zu to %zu of %zu", method.name.c_str(), first, first + wanted, count);

    // A frame that says it is lossless, of a codec that has no such: no values are said to be there.
    if (frame.header.codec != H5L_CODEC_STORED && !codec_entry(frame.header.codec)->codec->has_lossless) {
      Bytes claims = expected;
      FrameHeader lossless = frame.header;
      lossless.bound_kind = H5L_BOUND_LOSSLESS;
      lossless.step_bits = 0;
      write_header(lossless, frame.payload_sum, frame.tiles, claims);
      CHECK(!decode_with_kernels(lossless, claims, first, wanted, part, 0), "%s", method.name.c_str());
    }

    check_damage(frame, expected, first, random, method.name.c_str());
  }
}

// Integers that a tile may hold: walks, noise, one value, few, or multiples of a number; in places exact values, and
// values beside them.
Bytes some_integers(Random& random, std::size_t count, const h5l_params& params) {
  const std::uint64_t largest = ~std::uint64_t{0} >> (64 - 8 * params.value_bytes);
  const std::uint64_t kind = random.below(6), reach = 1 + (random.next() >> (64 - 1 - random.below(24)));
  const std::uint64_t stride = kind == 4 ? 1 + random.below(std::min<std::uint64_t>(largest, 300)) : 1;
  const std::uint64_t base = random.below(stride);
  const ExactValues exact = exact_values(params);
  std::uint64_t value = random.one_in(2) ? random.next() : largest / 2;
  Bytes raw;
  for (std::size_t i = 0; i < count; ++i) {
    value = kind == 0   ? value
            : kind == 1 ? random.next()
            : kind == 2 ? random.below(3)
                        : value + random.below(reach) - reach / 2;
    std::uint64_t bits = kind == 4 ? (value & largest / 2) / stride * stride + base : value;
    if (kind == 5 && random.one_in(3000)) bits = random.next();
    if (exact.count != 0 && kind != 4 && random.one_in(50)) {
      bits = exact.bits[random.below(exact.count)] + random.below(3) - 1;
    }
    for (std::uint32_t b = 0; b < params.value_bytes; ++b) raw.push_back(static_cast<std::uint8_t>(bits >> (8 * b)));
  }
  return raw;
}

std::vector<std::uint32_t> extents_of_integers(Random& random, std::uint32_t value_bytes) {
  const auto some = [&](std::uint64_t most) { return static_cast<std::uint32_t>(1 + random.below(most)); };
  const std::uint32_t tile = 16384 / value_bytes;
  switch (random.below(kIsSlow ? 5 : 7)) {
    case 0:
      return {some(2 * tile)};
    case 1:
      return {some(60), some(random.one_in(2) ? 40 : 300)};
    case 2:
      return {some(5), some(30), some(30)};
    case 3:
      return {some(3), some(2), some(60), 16 * some(6)};
    case 4:
      return {some(3 * tile / 12), some(12)};
    case 5:
      return {some(200), 32 * some(8)};
    default:
      return {128, 3 * tile / 128 + some(64)};
  }
}

// Integers as measured: waves along all axes, with or without noise. In many or few places, or in regions, they may be
// a number that stands for something else, or one of several, exact ones among them.
Bytes some_counts(Random& random, std::size_t count, const h5l_params& params) {
  const std::uint64_t largest = ~std::uint64_t{0} >> (64 - 8 * params.value_bytes);
  // Of large ones, as often as not too large for 16 bits, but not for 22.
  const std::uint64_t bits =
      params.value_bytes >= 4 && random.one_in(2) ? 15 + random.below(6) : random.below(8 * params.value_bytes - 2);
  const double size = std::ldexp(1.0, static_cast<int>(bits));
  const std::uint64_t noise = random.one_in(3) ? 1 : 1 + (random.next() >> (63 - random.below(bits + 1)));
  const std::uint64_t levels[] = {0, largest / 4, largest / 2, random.next()}, level = levels[random.below(4)];
  std::vector<std::uint64_t> others = {0, level + (std::uint64_t{3} << bits), largest, largest / 2 + 1, random.next()};
  const ExactValues exact = exact_values(params);
  for (std::uint32_t i = 0; i < exact.count; ++i) others.insert(others.end(), 3, exact.bits[i]);
  const std::uint64_t one = others[random.below(others.size())];
  enum { kNowhere, kInFewPlaces, kInManyPlaces, kInRegions };
  const std::uint64_t where = random.below(4), is_other_in = random.one_in(3) ? 1 : random.one_in(2) ? 5 : 200;
  const double edge = 1.2 * random.fraction() - 0.6;
  double phases[H5L_MAX_RANK], lengths[H5L_MAX_RANK];
  for (std::size_t a = 0; a < params.rank; ++a) {
    phases[a] = 7 * random.fraction();
    lengths[a] = std::ldexp(1 + random.fraction(), static_cast<int>(1 + random.below(7)));
  }
  Bytes raw;
  for (std::size_t i = 0; i < count; ++i) {
    double wave = 0;
    std::size_t rest = i;
    for (std::size_t a = params.rank; a-- > 0; rest /= params.shape[a]) {
      wave += std::sin(phases[a] + static_cast<double>(rest % params.shape[a]) / lengths[a]) / params.rank;
    }
    std::uint64_t value = level + static_cast<std::uint64_t>(std::llrint(size * wave)) + random.below(noise);
    const bool is_inside = where == kInFewPlaces    ? random.one_in(400)
                           : where == kInManyPlaces ? random.one_in(20)
                                                    : where == kInRegions && wave > edge;
    if (is_inside) value = random.one_in(is_other_in) ? others[random.below(others.size())] : one;
    for (std::uint32_t b = 0; b < params.value_bytes; ++b) raw.push_back(static_cast<std::uint8_t>(value >> (8 * b)));
  }
  return raw;
}

// How many chunks kernels have left to the host, which they may do of some codecs.
struct LeftChunks {
  std::size_t left = 0, all = 0;
};

// Frames of integers that no encoder writes: tiles have any predictor, and other bytes where theirs are not zero. Without
// a checksum they are as good as others, and come back as on the CPU.
void check_other_predictors(const Bytes& whole, Random& random, const std::string& what) {
  Bytes changed = whole;
  Frame frame;
  CHECK(open_frame(changed, frame, Message(nullptr)) == H5L_OK, "%s", what.c_str());
  const FrameHeader header = frame.header;
  if (header.codec == H5L_CODEC_STORED) return;
  const bool changes_bytes = random.one_in(2);
  Choice choice;
  CHECK(open_choice(frame, choice, Message(nullptr)) == H5L_OK, "%s", what.c_str());
  for (std::uint32_t tile = 0; tile < frame.tiles; ++tile) {
    const auto payload = frame.tile_payload(tile);
    const std::size_t raw_bytes = std::size_t{choice.geometry.count_values(tile)} * header.value_bytes;
    if (payload.empty() || payload.size() == raw_bytes) continue;
    const std::size_t begin = static_cast<std::size_t>(payload.data() - changed.data());
    changed[begin + payload.size() - 1] = static_cast<std::uint8_t>(random.below(5));
    if (!changes_bytes || payload.size() < 32) continue;
    // The first bytes of a payload are those of planes, unless it has few.
    for (std::size_t i = 0; i < payload.size() / 4; ++i) {
      changed[begin + i] = static_cast<std::uint8_t>(1 + random.below(255));
    }
  }
  CHECK(open_frame(changed, frame, Message(nullptr)) == H5L_OK, "%s", what.c_str());
  Bytes expected(header.raw_bytes), values(header.raw_bytes);
  const bool is_fine = decode_chunk(frame, expected, Message(nullptr)) == H5L_OK;
  const std::size_t count = header.raw_bytes / header.value_bytes;
  CHECK(decode_with_kernels(header, changed, 0, count, values, random.below(4)) == is_fine, "%s", what.c_str());
  const auto wrong = std::mismatch(expected.begin(), expected.end(), values.begin()).first;
  CHECK(!is_fine || values == expected, "%s with any predictors: byte %td of %zu", what.c_str(),
        wrong - expected.begin(), expected.size());
}

// Integers and halves, whose tiles are boxes.
void check_integers(const CodecEntry& codec, std::uint32_t value_class, std::uint32_t value_bytes, Random& random,
                    LeftChunks& leaving) {
  const bool is_half = h5lossy::is_half(value_class), is_pfpl = codec.number == H5L_CODEC_PFPL;
  h5l_params params = {};
  params.codec = codec.number;
  if (!is_pfpl && random.one_in(3)) {
    do {
      params.mode = static_cast<std::uint32_t>(random.below(256));
    } while (!codec.codec->for_integers->has_mode(params.mode));
  }
  params.value_class = value_class;
  params.value_bytes = value_bytes;
  params.bound_kind = is_half || random.one_in(3) ? H5L_BOUND_LOSSLESS
                      : random.one_in(3)          ? H5L_BOUND_RANGE_RELATIVE
                                                  : H5L_BOUND_ABSOLUTE;
  const std::uint64_t most_bits = is_pfpl || random.one_in(3) ? 8 * value_bytes : 3;
  const double absolute = 0.5 + static_cast<double>(random.next() >> (64 - 1 - random.below(most_bits)));
  const double shares[] = {1e-4, 0.01, 0.3, 2};
  params.bound = params.bound_kind == H5L_BOUND_LOSSLESS   ? 0
                 : params.bound_kind == H5L_BOUND_ABSOLUTE ? absolute
                                                           : shares[random.below(4)];
  const std::uint64_t largest = ~std::uint64_t{0} >> (64 - 8 * value_bytes);
  const std::uint64_t fills[] = {largest, largest / 2, largest / 2 + 1, 0, random.next() & largest};
  params.has_fill = random.one_in(2);
  params.fill_bits = params.has_fill != 0 ? fills[random.below(std::size(fills))] : 0;
  // Up to two exact values, 0 and neighbours among them.
  const std::uint32_t most_exact = params.bound_kind == H5L_BOUND_LOSSLESS ? 0 : value_bytes == 8 ? 1 : H5L_MAX_EXACT;
  for (std::uint64_t wanted = random.below(most_exact + 1); wanted > 0; --wanted) {
    const std::uint64_t before = exact_values(params).bits[0];
    const std::uint64_t bits = random.one_in(3) ? (before + 1) & largest : fills[random.below(std::size(fills))];
    if (exact_values(params).count == most_exact) break;
    CHECK(find_number(params, bits, params.exact[params.exact_count++]), "0x%" PRIx64, bits);
  }
  params.maybe_padded = random.one_in(2);
  params.no_checksum = random.one_in(4);
  const std::string what = std::string(codec.name) + ", class " + std::to_string(value_class) + " of " +
                           std::to_string(value_bytes) + " bytes";
  const Method method = {codec.number, params.mode, true, true, what};
  std::vector<std::uint32_t> extents = extents_of_integers(random, value_bytes);
  if (!is_pfpl && !random.one_in(3)) extents = extents_of_field(random, random.one_in(3) ? 4 : 3);
  // So few that nothing is smaller than the values.
  if (random.one_in(8)) extents = {static_cast<std::uint32_t>(1 + random.below(9))};
  // A tile of an odd number of values that is stored, between others.
  const bool has_stored = !is_pfpl && random.one_in(value_bytes == 1 ? 4 : 8);
  if (has_stored) {
    extents = {3, 147, 147};
    params.mode = 3;
  }
  set_shape(params, extents);
  const std::size_t count = product(extents);
  std::vector<Bytes> chunks(1 + random.below(kIsSlow ? 2 : 3));
  for (Bytes& chunk : chunks) {
    const bool has_waves = is_pfpl ? random.one_in(3) : !random.one_in(6);
    chunk = has_waves ? some_counts(random, count, params) : some_integers(random, count, params);
    const auto third = static_cast<std::ptrdiff_t>(has_stored ? chunk.size() / 3 : 0);
    std::generate_n(chunk.begin() + third, third, [&] { return static_cast<std::uint8_t>(random.next()); });
  }
  std::vector<Bytes> frames;
  for (const Bytes& chunk : chunks) frames.push_back(encode(params, chunk));
  if (h5lossy::has_kernels(Direction::encode, params.codec, params.mode, value_class, params.bound_kind)) {
    const std::vector<Bytes> made = encode_with_kernels(params, chunks, 2 + static_cast<std::uint32_t>(random.below(3)),
                                                        value_bytes * random.below(2));
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      const Bytes& expected = frames[i];
      ++leaving.all;
      if (made[i].empty() && !is_pfpl) {
        ++leaving.left;
        continue;
      }
      const auto differs = std::mismatch(expected.begin(), expected.end(), made[i].begin(), made[i].end()).first;
      CHECK(expected == made[i],
            "%s: frames of %zu and %zu bytes differ at %td, payload at %zu: chunk %zu of %zu, %zu "
            "values in rows of %u, kind %u, bound %.17g, fill %u 0x%" PRIx64 ", %u exact values",
            what.c_str(), expected.size(), made[i].size(), differs - expected.begin(), payload_begin(expected), i,
            chunks.size(), count, extents.back(), params.bound_kind, params.bound, params.has_fill,
            std::uint64_t{params.fill_bits}, params.exact_count);
    }
  }
  check_batch(method, frames, chunks.front().size(), 0, count);
  for (const Bytes& expected : frames) {
    Frame frame;
    CHECK(open_frame(expected, frame, Message(nullptr)) == H5L_OK, "%zu bytes", expected.size());
    const Bytes decoded = decode(expected);
    const std::size_t first = random.below(count), wanted = 1 + random.below(count - first);
    Bytes part(wanted * value_bytes);
    const bool is_left = is_left_to_host(frame.header.codec, frame, first, wanted);
    CHECK(decode_with_kernels(frame.header, expected, first, wanted, part, random.below(4)) != is_left, "%s",
          what.c_str());
    CHECK(is_left ||
              std::equal(part.begin(), part.end(), decoded.begin() + static_cast<std::ptrdiff_t>(first * value_bytes)),
          "%s: values %zu to %zu of %zu", what.c_str(), first, first + wanted, count);
    if (is_pfpl && frame.header.codec == H5L_CODEC_PFPL && params.no_checksum != 0) {
      check_other_predictors(expected, random, what);
    }
    check_damage(frame, expected, first, random, what.c_str());
  }
}

// Images and fields as instruments and models give them: the kernel for usual tiles codes, or stores, all their tiles.
void check_drafts_of_integers(Random& random) {
  struct Case {
    const char* what;
    std::uint32_t value_class, value_bytes;
    double bound, size, noise;  // of waves, and of what is random; bound 0: lossless
  };
  const Case cases[] = {
      {"noise of a detector", H5L_CLASS_UNSIGNED, 2, 0, 0, 120},
      {"noise of a detector, within 3", H5L_CLASS_UNSIGNED, 2, 3, 0, 120},
      {"an image of a microscope", H5L_CLASS_UNSIGNED, 2, 0, 16000, 40},
      {"an image of 8 bits", H5L_CLASS_UNSIGNED, 1, 0, 90, 9},
      {"a few levels", H5L_CLASS_UNSIGNED, 1, 2, 20, 6},
      {"packed values", H5L_CLASS_SIGNED, 2, 0, 12000, 3},
      {"32 bits", H5L_CLASS_SIGNED, 4, 0, 9000, 50},
      {"64 bits", H5L_CLASS_UNSIGNED, 8, 1, 9000, 50},
      {"nothing but noise", H5L_CLASS_UNSIGNED, 1, 0, 0, 128},
  };
  for (const Case& one : cases) {
    h5l_params params = make_params(one.bound == 0 ? H5L_BOUND_LOSSLESS : H5L_BOUND_ABSOLUTE, one.bound, 4);
    params.codec = H5L_CODEC_INTERP;
    params.value_class = one.value_class;
    params.value_bytes = one.value_bytes;
    set_shape(params, {181 + static_cast<std::uint32_t>(random.below(4)), 220});
    const double middle = one.value_class == H5L_CLASS_SIGNED ? 0 : one.value_bytes == 1 ? 128 : 20000;
    Bytes chunk;
    for (std::size_t i = 0; i < product({params.shape[0], params.shape[1]}); ++i) {
      const double x = static_cast<double>(i % params.shape[1]), y = static_cast<double>(i / params.shape[1]);
      const double value =
          middle + one.size * std::sin(x / 21) * std::cos(y / 17) + one.noise * (2 * random.fraction() - 1);
      const auto bits = static_cast<std::uint64_t>(std::llrint(std::floor(value)));
      for (std::uint32_t b = 0; b < one.value_bytes; ++b) chunk.push_back(static_cast<std::uint8_t>(bits >> (8 * b)));
    }
    drafted_tiles = {};
    CHECK(encode_with_kernels(params, {chunk}, 2, 0).front() == encode(params, chunk), "%s", one.what);
    CHECK(drafted_tiles.all > 1 && drafted_tiles.drafted == drafted_tiles.all, "%s: %zu of %zu tiles", one.what,
          drafted_tiles.drafted, drafted_tiles.all);
  }
}

// Rows of all kinds of lengths, of PFPL, with any predictors.
void check_rows(Random& random) {
  for (const std::uint32_t bytes : {1u, 2u, 4u, 8u}) {
    for (const std::uint32_t length : {1u, 2u, 3u, 5u, 7u, 9u, 63u, 65u, 127u, 129u, 515u, 1030u}) {
      h5l_params params = make_params(H5L_BOUND_LOSSLESS, 0, 4);
      params.codec = H5L_CODEC_PFPL;
      params.value_class = H5L_CLASS_UNSIGNED;
      params.value_bytes = bytes;
      params.no_checksum = 1;
      set_shape(params, {23, length});
      Bytes chunk(std::size_t{23} * length * bytes);
      for (std::size_t i = 0; i < chunk.size(); i += bytes) chunk[i] = static_cast<std::uint8_t>(random.below(12));
      const Bytes frame = encode(params, chunk);
      const std::string what = "rows of " + std::to_string(length) + " values of " + std::to_string(bytes) + " bytes";
      CHECK(encode_with_kernels(params, {chunk, chunk}, 3, bytes).back() == frame, "%s", what.c_str());
      for (int i = 0; i < 8; ++i) check_other_predictors(frame, random, what);
    }
  }
}

// Of complex numbers a frame says no more than that they are.
void check_complex(std::uint32_t value_bytes, Random& random) {
  h5l_params params = make_params(H5L_BOUND_ABSOLUTE, 1e-3, value_bytes);
  params.value_class = H5L_CLASS_COMPLEX;
  const std::size_t count = 2 * (1 + random.below(6000));
  Bytes chunk;
  for (std::size_t i = 0; i < count; ++i) {
    const double number = static_cast<double>(random.below(100000)) * 1e-4;
    const std::uint64_t bits = value_bytes == 4 ? std::bit_cast<std::uint32_t>(static_cast<float>(number))
                                                : std::bit_cast<std::uint64_t>(number);
    for (std::uint32_t b = 0; b < value_bytes; ++b) chunk.push_back(static_cast<std::uint8_t>(bits >> (8 * b)));
  }
  const Bytes expected = encode(params, chunk);
  CHECK(encode_with_kernels(params, {chunk}, 2, 0).front() == expected, "%zu complex numbers", count / 2);
  check_batch({H5L_CODEC_PFPL, 0, true, false, "complex"}, {expected}, chunk.size(), 0, count);
}

void check_other_types(const CodecEntry& codec, int rounds) {
  Random random(23);
  const bool is_pfpl = codec.number == H5L_CODEC_PFPL;
  if (codec.number == H5L_CODEC_INTERP) check_drafts_of_integers(random);
  if (is_pfpl) check_rows(random);
  drafted_tiles = {};
  LeftChunks leaving;
  for (int i = 0; i < 2 * std::max(rounds, 1); ++i) {
    for (const std::uint32_t bytes : {1u, 2u, 4u, 8u}) {
      for (const std::uint32_t value_class : {H5L_CLASS_UNSIGNED, H5L_CLASS_SIGNED}) {
        for (int j = 0; j < 4; ++j) check_integers(codec, value_class, bytes, random, leaving);
      }
    }
    check_integers(codec, H5L_CLASS_HALF, 2, random, leaving);
    check_integers(codec, H5L_CLASS_BFLOAT, 2, random, leaving);
    if (!is_pfpl) continue;
    check_complex(4, random);
    check_complex(8, random);
  }
  CHECK(3 * leaving.left < leaving.all, "%s: %zu of %zu chunks are left to the host", codec.name, leaving.left,
        leaving.all);
  std::fprintf(stderr, "%zu of %zu tiles drafted\n", drafted_tiles.drafted, drafted_tiles.all);
}

// No rounds: as much as shows a mistake in a kernel within seconds. Each setting then has one share of hostile values, and
// each share some settings; of a codec with boxes, the modes that are not its default one share the settings, too: what
// values are predicted from, and how they are quantized, is apart.
template <class T>
void check_all(const Method& method, std::size_t number, int rounds) {
  constexpr std::uint64_t shares[] = {0, 1000, 30, 2};  // one value in so many
  Random random(21);
  std::size_t turn = 0;
  for (const Setting& setting : settings<T>()) {
    const bool is_shared = method.has_boxes && !method.is_default;
    if (rounds == 0 && (!is_shared || (number + turn) % 3 == 0)) check<T>(method, setting, random, shares[turn % 4]);
    ++turn;
    for (int i = 0; i < rounds; ++i) {
      for (const std::uint64_t hostile_one_in : shares) check<T>(method, setting, random, hostile_one_in);
    }
  }
}

// What may be requested: methods, and that the values of a chunk choose among them.
std::vector<Method> requests() {
  std::vector<Method> all = methods_and_auto();
  for (const CodecEntry& entry : all_codecs()) {
    if (entry.codec->possible_modes == nullptr) continue;
    all.push_back({entry.number, 0, true, true, std::string(entry.name) + ", modes as chosen"});
  }
  return all;
}

// Chunks are cut from a part of a larger array, and put back into it.
void check_chunks_of_arrays(Random& random) {
  ChunkPlan plan = {};
  plan.rank = 1 + static_cast<std::uint32_t>(random.below(4));
  plan.value_bytes = 1u << random.below(4);
  std::size_t values = 1, chunk_values = 1, chunks = 1;
  std::vector<std::size_t> counts(plan.rank);
  for (std::uint32_t i = 0; i < plan.rank; ++i) {
    plan.extents[i] = 1 + random.below(9);
    plan.chunk[i] = 1 + static_cast<std::uint32_t>(random.below(5));
    plan.start[i] = static_cast<std::uint32_t>(random.below(plan.chunk[i]));
    counts[i] = (plan.start[i] + plan.extents[i] + plan.chunk[i] - 1) / plan.chunk[i];
    values *= plan.extents[i];
    chunk_values *= plan.chunk[i];
    chunks *= counts[i];
  }
  i64 stride = plan.value_bytes;
  for (std::uint32_t i = plan.rank; i-- > 0;) {
    plan.strides[i] = stride;
    stride *= static_cast<i64>(plan.extents[i]);
  }
  const std::size_t size = plan.value_bytes;
  Aligned array(values * size), packed(chunks * chunk_values * size);
  for (std::size_t i = 0; i < values * size; ++i) array.data()[i] = static_cast<std::uint8_t>(random.next());
  const Bytes before = array.bytes(values * size);
  plan.array = array.data();
  plan.chunks = static_cast<std::uint32_t>(chunks);
  plan.chunk_values = packed.data();
  plan.chunk_stride = chunk_values * size;
  plan.padding = random.next();
  EmulatedLauncher launcher(kLeastBlocks);
  CHECK(gpu::gather(launcher, plan), "%zu chunks", chunks);
  // A value at a time, from the chunk's number and its own.
  for (std::size_t i = 0; i < chunks * chunk_values; ++i) {
    std::size_t chunk = i / chunk_values, in_chunk = i % chunk_values, at = 0, step = 1;
    bool is_inside = true;
    for (std::uint32_t axis = plan.rank; axis-- > 0;) {
      const std::size_t place = chunk % counts[axis] * plan.chunk[axis] + in_chunk % plan.chunk[axis];
      is_inside = is_inside && place >= plan.start[axis] && place < plan.start[axis] + plan.extents[axis];
      at += (place - plan.start[axis]) * step;
      step *= static_cast<std::size_t>(plan.extents[axis]);
      chunk /= counts[axis];
      in_chunk /= plan.chunk[axis];
    }
    const void* const expected = is_inside ? static_cast<const void*>(before.data() + at * size) : &plan.padding;
    CHECK(std::memcmp(packed.data() + i * size, expected, size) == 0, "value %zu of %zu", i, chunks * chunk_values);
  }
  std::fill_n(array.data(), values * size, std::uint8_t{0});
  CHECK(gpu::scatter(launcher, plan), "%zu chunks", chunks);
  CHECK(array.bytes(values * size) == before, "rank %u, %zu chunks", plan.rank, chunks);
}

// Frames of any sizes come to lie one behind the other.
void check_packing(Random& random) {
  const std::size_t frames = 1 + random.below(300), stride = 512;
  Aligned from(frames * stride), to(frames * stride);
  for (std::size_t i = 0; i < frames * stride; ++i) from.data()[i] = static_cast<std::uint8_t>(random.next());
  std::vector<u64> sizes(frames);
  for (u64& size : sizes) size = random.below(stride + 1);
  EmulatedLauncher launcher(kLeastBlocks);
  const PackPlan plan = {from.data(), stride, sizes.data(), to.data()};
  CHECK(gpu::pack(launcher, plan, static_cast<std::uint32_t>(frames), stride), "%zu frames", frames);
  std::size_t begin = 0;
  for (std::size_t i = 0; i < frames; ++i) {
    CHECK(std::memcmp(to.data() + begin, from.data() + i * stride, sizes[i]) == 0, "frame %zu of %zu", i, frames);
    begin += (sizes[i] + 15) / 16 * 16;
  }
  for (std::size_t i = begin; i < frames * stride; ++i) CHECK(to.data()[i] == 0xCD, "byte %zu", i);
}

}  // namespace
}  // namespace h5lossy::test

// Arguments: how often (default: a short test), and which codec and mode alone.
int main(int count, char** arguments) {
  const int rounds = count > 1 ? std::atoi(arguments[1]) : 0;
  const int only = count > 2 ? std::atoi(arguments[2]) : -1;
  const int only_mode = count > 3 ? std::atoi(arguments[3]) : -1;
  h5lossy::test::list_codec_kernels();
  h5lossy::test::Random copying(22);
  for (int i = 0; i < (h5lossy::test::kIsSlow ? 3 : 100) * std::max(rounds, 1); ++i) {
    h5lossy::test::check_chunks_of_arrays(copying);
    h5lossy::test::check_packing(copying);
  }
  if (only < 0 || only == H5L_CODEC_INTERP) h5lossy::test::check_grades(rounds);
  for (const h5lossy::CodecEntry& codec : h5lossy::all_codecs()) {
    if (codec.codec->for_integers == nullptr || (only >= 0 && static_cast<int>(codec.number) != only)) continue;
    h5lossy::test::check_other_types(codec, rounds);
  }
  std::size_t number = 0;
  for (const h5lossy::test::Method& method : h5lossy::test::requests()) {
    ++number;
    if (only >= 0 && static_cast<int>(method.codec) != only) continue;
    if (only_mode >= 0 && static_cast<int>(method.mode) != only_mode) continue;
    const bool encodes = h5lossy::test::can_encode(method), decodes = h5lossy::test::can_decode(method);
    const char* const lacks = encodes ? "" : decodes ? ": no kernels for encoding" : ": no kernels";
    std::fprintf(stderr, "%s%s\n", method.name.c_str(), lacks);
    if (!encodes && (!decodes || method.codec == H5L_CODEC_AUTO)) continue;
    for (int i = 0; encodes && h5lossy::test::codec_can_choose(method) && i < std::max(rounds, 1); ++i) {
      h5lossy::test::Random fields(24 + 1000 * number + static_cast<unsigned>(i));
      h5lossy::test::check_fields<float>(method, fields);
      h5lossy::test::check_fields<double>(method, fields);
    }
    h5lossy::test::check_all<float>(method, number, rounds);
    h5lossy::test::check_all<double>(method, number + 1, rounds);
  }
}
