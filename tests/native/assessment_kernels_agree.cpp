// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The assessment's GPU kernels, emulated on the CPU (emulated_gpu.h), give the CPU's results bit for bit: for fields of
// every rank, values of every kind, masks and fill values, bounds that hold and that are violated, in one piece and in
// several.

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "assess/take.h"
#include "check.h"
#include "emulated_kernels.h"
#include "random.h"

#include "kernels/assess/lags.cuh"
#include "kernels/assess/points.cuh"
#include "kernels/assess/sliding.cuh"
#include "kernels/assess/stencils.cuh"
#include "kernels/assess/windows.cuh"

namespace h5lossy::test {
namespace {

using namespace gpu;

#define REQUIRE(condition) CHECK(condition, "%s", "see above")

void list_kernels() {
  using namespace H5L_TARGET;
#define H5L_KERNEL(name, Plan, Shared, blocks, function) \
  kernels<gpu::Plan>()[#name] = {sizeof(Shared), kThreadsWith<Shared>, [](const gpu::Plan& plan) { function(plan); }};
#include "kernels/assess/kernels.def"
#undef H5L_KERNEL
}

class EmulatedDevice : public AssessDevice, public Launcher {
 public:
  explicit EmulatedDevice(std::uint32_t resident) : resident_(resident) {}
  Launcher& launcher() override { return *this; }
  // Overwrites the old contents, so that code that still uses them fails.
  std::uint8_t* reserve(std::size_t bytes) override {
    memory_.assign(bytes / 64 + 1, Piece{});
    std::memset(static_cast<void*>(memory_.data()), kUnwritten, memory_.size() * sizeof(Piece));
    return memory_.data()->bytes;
  }
  bool download(void* to, const void* from, std::size_t bytes) override {
    const auto* const begin = static_cast<const std::uint8_t*>(from);
    std::uint32_t unwritten = 0;
    std::memset(&unwritten, kUnwritten, sizeof unwritten);
    for (std::size_t i = 0; i + sizeof unwritten <= bytes; i += sizeof unwritten) {
      CHECK(std::memcmp(begin + i, &unwritten, sizeof unwritten) != 0, "nobody wrote byte %zu of %zu", i, bytes);
    }
    pending_.push_back({to, {begin, begin + bytes}});
    return true;
  }
  void then(std::function<void()> function) override { after_copies_.push_back(std::move(function)); }
  bool wait() override {
    for (const Copy& copy : pending_)
      std::copy(copy.bytes.begin(), copy.bytes.end(), static_cast<std::uint8_t*>(copy.to));
    pending_.clear();
    for (const auto& function : after_copies_) function();
    after_copies_.clear();
    return true;
  }
  std::string error() const override { return "emulated"; }
  bool launch(const char* kernel, std::uint32_t blocks, std::uint32_t rows, const void* plan, std::size_t plan_bytes,
              bool) override {
    CHECK(rows == 1, "%s", kernel);
    const bool found = test::launch<PointsPlan>(kernel, blocks, 1, plan, plan_bytes) ||
                       test::launch<GroupPlan>(kernel, blocks, 1, plan, plan_bytes) ||
                       test::launch<CellsPlan>(kernel, blocks, 1, plan, plan_bytes);
    CHECK(found, "no kernel %s", kernel);
    return true;
  }
  bool clear(void* memory, std::size_t bytes) override {
    std::memset(memory, 0, bytes);
    return true;
  }
  // Every other device has no room for kernels that need much shared memory.
  std::uint32_t resident_blocks(const char* kernel) override {
    const auto found = kernels<CellsPlan>().find(kernel);
    const bool fits = found == kernels<CellsPlan>().end() || found->second.shared_bytes < 100'000 || resident_ != 2;
    return fits ? resident_ : 0;
  }

 private:
  static constexpr int kUnwritten = 0xCD;

  struct alignas(64) Piece {
    std::uint8_t bytes[64];
  };
  struct Copy {
    void* to;
    std::vector<std::uint8_t> bytes;
  };
  std::uint32_t resident_;
  std::vector<Piece> memory_;
  std::vector<Copy> pending_;
  std::vector<std::function<void()>> after_copies_;
};

template <class T>
struct Field {
  std::vector<std::uint64_t> shape;
  std::vector<T> original, decoded;
  std::vector<std::uint8_t> mask;
};

template <class T>
T hostile(Random& random) {
  const T limits[] = {static_cast<T>(NAN),
                      -static_cast<T>(NAN),
                      static_cast<T>(INFINITY),
                      -static_cast<T>(INFINITY),
                      T{0},
                      -T{0},
                      std::numeric_limits<T>::denorm_min(),
                      std::numeric_limits<T>::max() / 4,
                      static_cast<T>(-999),
                      static_cast<T>(1e-20)};
  return limits[random.below(std::size(limits))];
}

// `kind`: 0 smooth, 1 some hostile values, 2 mostly hostile ones and long runs, 3 all equal.
template <class T>
Field<T> make(std::vector<std::uint64_t> shape, Random& random, unsigned kind, double error) {
  Field<T> field;
  std::uint64_t count = 1;
  for (const std::uint64_t n : shape) count *= n;
  field.shape = std::move(shape);
  double value = 3;
  bool hostile_run = false;
  for (std::uint64_t i = 0; i < count; ++i) {
    value += static_cast<double>(random.below(2001)) / 1000.0 - 1.0;
    T x = static_cast<T>(value),
      y = static_cast<T>(value + error * (static_cast<double>(random.below(2001)) / 1000 - 1));
    if (kind == 3) x = 5, y = 5;
    if (kind == 1 && random.below(60) == 0) x = hostile<T>(random);
    if (kind == 1 && random.below(80) == 0) y = random.below(2) == 0 ? x : hostile<T>(random);
    if (random.below(200) == 0) hostile_run = !hostile_run;
    if (kind == 2 && hostile_run) {
      x = hostile<T>(random);
      y = random.below(4) == 0 ? hostile<T>(random) : x;
    }
    if (kind != 3 && random.below(5000) == 0) y = static_cast<T>(static_cast<double>(y) * 1.5);
    field.original.push_back(x);
    field.decoded.push_back(y);
    field.mask.push_back(random.below(kind == 2 ? 3 : 50) == 0 ? 1 : 0);
  }
  return field;
}

struct Result {
  h5l_assess_points_result points;
  h5l_assess_field_result field;
};

// All numbers of a result; all NaNs count as equal, whatever their bits.
template <class Struct>
bool same_bits(const Struct& a, const Struct& b, const char* what) {
  const auto* const x = reinterpret_cast<const std::uint64_t*>(&a);
  const auto* const y = reinterpret_cast<const std::uint64_t*>(&b);
  for (std::size_t i = 0; i < sizeof(Struct) / 8; ++i) {
    double of_x, of_y;
    std::memcpy(&of_x, x + i, 8);
    std::memcpy(&of_y, y + i, 8);
    if (x[i] == y[i] || (std::isnan(of_x) && std::isnan(of_y))) continue;
    std::fprintf(stderr, "%s, word %zu: %.17g and %.17g, 0x%016llx and 0x%016llx\n", what, i, of_x, of_y,
                 static_cast<unsigned long long>(x[i]), static_cast<unsigned long long>(y[i]));
    return false;
  }
  return true;
}

template <class T>
std::vector<T> swapped(std::vector<T> values) {
  for (T& value : values) {
    auto* const bytes = reinterpret_cast<std::uint8_t*>(&value);
    std::reverse(bytes, bytes + sizeof value);
  }
  return values;
}

// In pieces of this many values, and of this many planes.
template <class T>
Result assess(const h5l_assess_params& params, const Field<T>& field, bool has_mask, AssessDevice* device,
              std::uint64_t at_once, std::uint64_t planes) {
  const bool swaps = params.original_big_endian != 0;
  const std::vector<T> original = swaps ? swapped(field.original) : field.original;
  const std::vector<T> decoded = swaps ? swapped(field.decoded) : field.decoded;
  std::vector<std::uint64_t> state((h5l_assess_state_bytes() + 7) / 8);
  REQUIRE(h5l_assess_begin(state.data(), nullptr) == H5L_OK);
  const std::uint64_t count = original.size();
  const Message why(nullptr);
  for (std::uint64_t at = 0; at < count; at += at_once) {
    REQUIRE(assess::take_points(&params, state.data(), at, std::min(at_once, count - at), original.data() + at,
                                decoded.data() + at, has_mask ? field.mask.data() + at : nullptr, device,
                                why) == H5L_OK);
  }
  h5l_assess_piece piece = {};
  piece.original = original.data();
  piece.decoded = decoded.data();
  piece.mask = has_mask ? field.mask.data() : nullptr;
  std::int64_t stride = sizeof(T);
  for (std::size_t axis = field.shape.size(); axis-- != 0;) {
    piece.original_strides[axis] = piece.decoded_strides[axis] = stride;
    piece.mask_strides[axis] = stride / static_cast<std::int64_t>(sizeof(T));
    piece.extent[axis] = piece.own_extent[axis] = field.shape[axis];
    stride *= static_cast<std::int64_t>(field.shape[axis]);
  }
  for (std::uint64_t at = 0; at < field.shape[0]; at += planes) {
    piece.own_origin[0] = at;
    piece.own_extent[0] = std::min(planes, field.shape[0] - at);
    REQUIRE(assess::take_field(&params, state.data(), &piece, device, why) == H5L_OK);
  }
  Result result;
  REQUIRE(h5l_assess_result(&params, state.data(), &result.points, &result.field, nullptr) == H5L_OK);
  return result;
}

template <class T>
void check(std::vector<std::uint64_t> shape, Random& random) {
  const unsigned kind = static_cast<unsigned>(random.below(4));
  const double error = random.below(3) == 0 ? 1e-9 : 0.01;
  const Field<T> field = make<T>(std::move(shape), random, kind, error);
  h5l_assess_params params = {};
  params.value_bytes = sizeof(T);
  params.original_big_endian = params.decoded_big_endian = random.below(4) == 0 ? 1 : 0;
  const std::uint32_t kinds[] = {H5L_BOUND_ABSOLUTE, H5L_BOUND_ABSOLUTE, H5L_BOUND_POINTWISE_RELATIVE,
                                 H5L_BOUND_LOSSLESS, H5L_BOUND_NONE};
  params.bound_kind = kinds[random.below(5)];
  params.limit[0] = random.below(2) == 0 ? error : error * 0.99;
  params.half_limit[0] = params.limit[0] / 2;
  params.histogram_limit = params.bound_kind == H5L_BOUND_ABSOLUTE && random.below(3) != 0 ? params.limit[0] : 0;
  params.pointwise_threshold = random.below(2) == 0 ? 1e-4 : 0;
  if (random.below(2) == 0) {
    params.has_fill = 1;
    const T fills[] = {T{0}, static_cast<T>(-999), static_cast<T>(NAN)};
    const T fill = fills[random.below(3)];
    std::memcpy(&params.fill_bits, &fill, sizeof fill);
  }
  if (random.below(3) == 0) {
    params.threshold_count = 2;
    params.thresholds[0] = 3;
    params.thresholds[1] = 5;
  }
  params.threads = 1;
  params.lags = static_cast<std::uint32_t>(random.below(2) == 0 ? 4 : random.below(17));
  params.stencils = random.below(4) != 0 ? 1 : 0;
  const bool is_usual = random.below(2) == 0;
  for (std::uint32_t& side : params.window) side = is_usual ? 7 : static_cast<std::uint32_t>(2 + random.below(15));
  params.step = static_cast<std::uint32_t>(random.below(3) == 0 ? 3 : 1);
  params.value_range = 10;
  params.rank = static_cast<std::uint32_t>(field.shape.size());
  for (std::size_t axis = 0; axis < field.shape.size(); ++axis) {
    params.shape[axis] = field.shape[axis];
    const double steps[] = {1, 1, 1, 1, 0.3, 0.3, 0.3, 1e-20};
    params.spacing[axis] = steps[random.below(8)];
  }
  const bool has_mask = random.below(3) == 0;
  const std::uint64_t all = field.original.size();
  const Result expected = assess(params, field, has_mask, nullptr, all, field.shape[0]);
  EmulatedDevice device(static_cast<std::uint32_t>(1 + random.below(3)));
  const std::uint64_t cut = params.rank == 1 ? 4096 : params.rank == 2 ? 112 : 1;
  const Result found = random.below(2) == 0 ? assess(params, field, has_mask, &device, all, field.shape[0])
                                            : assess(params, field, has_mask, &device, 1 + random.below(all),
                                                     cut * (1 + random.below(3)));
  const bool same =
      same_bits(expected.points, found.points, "points") && same_bits(expected.field, found.field, "field");
  CHECK(same,
        "kind %u, float%zu, rank %u of %llu x ... = %llu, bound %u %g, limit %g, fill %u, mask %d, lags %u, stencils "
        "%u, windows of %u ... %u, "
        "step %u",
        kind, 8 * sizeof(T), params.rank, static_cast<unsigned long long>(params.shape[0]),
        static_cast<unsigned long long>(all), params.bound_kind, params.limit[0], params.histogram_limit,
        params.has_fill, has_mask ? 1 : 0, params.lags, params.stencils, params.window[0],
        params.window[params.rank - 1], params.step);
}

}  // namespace
}  // namespace h5lossy::test

// Argument: how often.
int main(int count, char** arguments) {
  using namespace h5lossy::test;
  const int rounds = count > 1 ? std::atoi(arguments[1]) : 1;
  list_kernels();
  h5lossy::test::Random random(4);
  const std::vector<std::uint64_t> shapes[] = {{1},           {7},          {4096},        {70001},      {5, 3},
                                               {70, 333},     {33, 17},     {9, 10, 11},   {150, 9, 10}, {12, 19, 516},
                                               {1, 40, 50},   {6, 7, 8, 9}, {9, 5, 3, 40}, {45, 512},    {14, 27, 256},
                                               {14, 27, 270}, {600000},     {70, 70, 2, 3}};
  for (int i = 0; i < rounds; ++i) {
    for (const auto& shape : shapes) {
      if (shape[0] == 600000 && i > 0) continue;
      check<float>(shape, random);
      check<double>(shape, random);
    }
  }
  return 0;
}
