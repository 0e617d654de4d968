// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// A field gives the same bits for any division into pieces, number of threads, alignment, byte order, and backend.
// Nothing is read outside the pieces, each of which is in an allocation of exactly its size.

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "assess/backends.h"
#include "check.h"
#include "h5lossy_assess.h"
#include "random.h"

namespace {

using h5lossy::test::Random;

// The condition is the message.
#define REQUIRE(condition) CHECK(condition, "%s", "see above")

using Bytes = std::vector<std::uint8_t>;

struct Field {
  std::vector<std::uint64_t> shape;
  std::uint32_t value_bytes;
  Bytes original, decoded, mask;
  bool has_mask;
};

struct Result {
  h5l_assess_points_result points;
  h5l_assess_field_result field;
};

std::uint64_t count_of(const std::vector<std::uint64_t>& shape) {
  std::uint64_t count = 1;
  for (const std::uint64_t n : shape) count *= n;
  return count;
}

template <class T>
void fill(Field& field, Random& random, bool special) {
  const std::uint64_t count = count_of(field.shape);
  std::vector<T> x(count);
  std::vector<T> y(count);
  T value = 100;
  for (std::uint64_t i = 0; i < count; ++i) {
    value += static_cast<T>(static_cast<double>(random.below(2001)) / 1000.0 - 1.0);
    x[i] = value;
    y[i] = value + static_cast<T>(static_cast<double>(random.below(2001)) / 1e5 - 0.01);
    if (special && random.below(50) == 0) x[i] = static_cast<T>(NAN);
    if (special && random.below(70) == 0) y[i] = static_cast<T>(INFINITY);
  }
  field.original.resize(count * sizeof(T));
  field.decoded.resize(count * sizeof(T));
  std::memcpy(field.original.data(), x.data(), field.original.size());
  std::memcpy(field.decoded.data(), y.data(), field.decoded.size());
  field.mask.assign(count, 0);
  for (std::uint8_t& m : field.mask) m = field.has_mask && random.below(40) == 0 ? 1 : 0;
}

h5l_assess_params params_of(const Field& field, std::uint32_t threads) {
  h5l_assess_params params = {};
  params.value_bytes = field.value_bytes;
  params.bound_kind = H5L_BOUND_ABSOLUTE;
  params.limit[0] = 0.005;
  params.half_limit[0] = 0.0025;
  params.pointwise_threshold = 1e-4;
  params.threads = threads;
  params.lags = 10;
  params.stencils = 1;
  for (std::uint32_t& side : params.window) side = 5;
  params.step = 1;
  params.value_range = 10;
  params.rank = static_cast<std::uint32_t>(field.shape.size());
  for (std::size_t axis = 0; axis < field.shape.size(); ++axis) {
    params.shape[axis] = field.shape[axis];
    params.spacing[axis] = 1;
  }
  return params;
}

// A copy of some bytes in memory of exactly their size, optionally at an odd address or byte-swapped.
struct Copy {
  std::unique_ptr<std::uint8_t[]> memory;
  std::uint8_t* data;

  Copy(const std::uint8_t* from, std::size_t size, std::size_t offset, std::uint32_t swap)
      : memory(new std::uint8_t[size + offset]), data(memory.get() + offset) {
    std::copy(from, from + size, data);
    if (swap == 0) return;
    for (std::size_t at = 0; at < size; at += swap) std::reverse(data + at, data + at + swap);
  }
};

Result assess(const Field& field, h5l_assess_params params, Random& random, bool in_pieces, std::size_t offset,
              bool big_endian, void* state) {
  params.original_big_endian = params.decoded_big_endian = big_endian ? 1 : 0;
  const std::uint32_t swap = big_endian ? field.value_bytes : 0;
  const std::uint64_t count = count_of(field.shape);
  REQUIRE(h5l_assess_begin(state, nullptr) == H5L_OK);
  for (std::uint64_t at = 0; at < count;) {
    const std::uint64_t n = in_pieces ? std::min<std::uint64_t>(count - at, 1 + random.below(9000)) : count;
    const Copy x(field.original.data() + at * field.value_bytes, n * field.value_bytes, offset, swap);
    const Copy y(field.decoded.data() + at * field.value_bytes, n * field.value_bytes, offset, swap);
    const Copy mask(field.mask.data() + at, n, 0, 0);
    REQUIRE(h5l_assess_points(&params, state, at, n, x.data, y.data, field.has_mask ? mask.data : nullptr, nullptr) ==
            H5L_OK);
    at += n;
  }
  const std::uint64_t rows = field.shape[0];
  const std::uint64_t row = count / rows;
  const std::uint64_t cut = params.rank == 1 ? 4096 : params.rank == 2 ? 112 : 1;
  for (std::uint64_t at = 0; at < rows;) {
    const std::uint64_t n = in_pieces ? std::min(rows - at, cut * (1 + random.below(3))) : rows;
    const std::uint64_t end = std::min<std::uint64_t>(rows, at + n + 10);
    const Copy x(field.original.data() + at * row * field.value_bytes, (end - at) * row * field.value_bytes, offset,
                 swap);
    const Copy y(field.decoded.data() + at * row * field.value_bytes, (end - at) * row * field.value_bytes, offset,
                 swap);
    const Copy mask(field.mask.data() + at * row, (end - at) * row, 0, 0);
    h5l_assess_piece piece = {};
    piece.original = x.data;
    piece.decoded = y.data;
    piece.mask = field.has_mask ? mask.data : nullptr;
    std::int64_t stride = 1;
    for (std::uint32_t axis = params.rank; axis-- > 0;) {
      piece.mask_strides[axis] = stride;
      piece.original_strides[axis] = piece.decoded_strides[axis] = stride * field.value_bytes;
      piece.extent[axis] = piece.own_extent[axis] = field.shape[axis];
      stride *= static_cast<std::int64_t>(field.shape[axis]);
    }
    piece.origin[0] = piece.own_origin[0] = at;
    piece.extent[0] = end - at;
    piece.own_extent[0] = n;
    REQUIRE(h5l_assess_field(&params, state, &piece, nullptr) == H5L_OK);
    at += n;
  }
  Result result;
  std::memset(static_cast<void*>(&result), 0, sizeof result);
  REQUIRE(h5l_assess_result(&params, state, &result.points, &result.field, nullptr) == H5L_OK);
  return result;
}

Result assess(const Field& field, Random& random, bool in_pieces, std::uint32_t threads, std::size_t offset,
              bool big_endian) {
  std::vector<std::uint64_t> state((h5l_assess_state_bytes() + 7) / 8);
  return assess(field, params_of(field, threads), random, in_pieces, offset, big_endian, state.data());
}

bool same(const Result& a, const Result& b) { return std::memcmp(&a, &b, sizeof a) == 0; }

// Calls check(field) for fields of all kinds.
template <class Check>
void for_fields(Random& random, Check check) {
  // The pieces of one have so many cells that threads add up groups of them, beginning within a group.
  const std::vector<std::uint64_t> shapes[] = {{1},           {7},         {20000},      {5, 3},
                                               {70, 333},     {33, 17},    {190, 640},   {9, 10, 11},
                                               {30, 19, 300}, {1, 40, 50}, {6, 7, 8, 9}, {12, 5, 3, 40}};
  for (const auto& shape : shapes) {
    for (const std::uint32_t value_bytes : {4u, 8u}) {
      for (const bool special : {false, true}) {
        Field field{shape, value_bytes, {}, {}, {}, special};
        value_bytes == 4 ? fill<float>(field, random, special) : fill<double>(field, random, special);
        check(field);
      }
    }
  }
}

void pieces_do_not_matter(Random& random) {
  for_fields(random, [&](const Field& field) {
    const Result whole = assess(field, random, false, 1, 0, false);
    REQUIRE(same(whole, assess(field, random, true, 1, 0, false)));
    REQUIRE(same(whole, assess(field, random, false, 4, 1, false)));
    REQUIRE(same(whole, assess(field, random, true, 3, 3, true)));
  });
}

// The results of a backend for all fields. Each backend runs in its own process, since a process uses only one.
std::vector<Result> results_of(const h5lossy::assess::BackendKernels& backend) {
  std::vector<Result> results;
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    setenv("H5LOSSY_BACKEND", backend.name, 1);
    Random random(20);
    for_fields(random, [&](const Field& field) {
      const Result result = assess(field, random, false, 1, 0, false);
      REQUIRE(write(ends[1], &result, sizeof result) == static_cast<ssize_t>(sizeof result));
    });
    REQUIRE(std::strcmp(h5l_backend_name(), backend.name) == 0);
    _exit(0);
  }
  close(ends[1]);
  Result result;
  std::size_t have = 0;
  while (true) {
    const ssize_t got = read(ends[0], reinterpret_cast<char*>(&result) + have, sizeof result - have);
    if (got <= 0) break;
    have += static_cast<std::size_t>(got);
    if (have < sizeof result) continue;
    results.push_back(result);
    have = 0;
  }
  close(ends[0]);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0, "%s: status %d", backend.name, status);
  return results;
}

void backends_do_not_matter() {
  const auto backends = h5lossy::assess::all_kernels();
  const std::vector<Result> expected = results_of(backends.back());
  REQUIRE(!expected.empty());
  for (const h5lossy::assess::BackendKernels& backend : backends) {
    if (!backend.runs_here() || &backend == &backends.back()) continue;
    CHECK(&backend.kernels != &backends.back().kernels, "%s has no kernels of its own", backend.name);
    const std::vector<Result> results = results_of(backend);
    CHECK(results.size() == expected.size(), "%s: %zu results", backend.name, results.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      CHECK(same(results[i], expected[i]), "%s: field %zu", backend.name, i);
    }
  }
}

// Each slice gives the same numbers as a field of its own, and the sums over all slices are those of their merged
// states.
void slices_are_fields(Random& random) {
  for_fields(random, [&](const Field& field) {
    if (field.shape.size() == 1) return;
    Field one = field;
    one.shape.erase(one.shape.begin());
    const std::size_t count = field.shape[0];
    const std::uint64_t points = count_of(one.shape);
    const std::uint64_t bytes = points * field.value_bytes;
    h5l_assess_params params = params_of(one, 1);
    std::vector<h5l_assess_slice_result> slices(count);
    for (std::size_t i = 0; i < count; ++i) slices[i].value_range = i % 3 == 0 ? NAN : 3.5;
    std::vector<std::uint64_t> state((h5l_assess_state_bytes() + 7) / 8);
    std::vector<std::uint64_t> merged(state.size()), own(state.size());
    for (const auto& each : {state.data(), merged.data()}) REQUIRE(h5l_assess_begin(each, nullptr) == H5L_OK);
    const auto run = [&](void* to) {
      const std::uint8_t* const mask = field.has_mask ? field.mask.data() : nullptr;
      REQUIRE(h5l_assess_slices(&params, to, field.original.data(), field.decoded.data(), mask, slices.data(), count,
                                nullptr) == H5L_OK);
    };
    run(state.data());
    for (std::size_t i = 0; i < count; ++i) {
      const auto part = [i](const Bytes& from, std::uint64_t size) {
        return Bytes(from.begin() + static_cast<std::ptrdiff_t>(i * size),
                     from.begin() + static_cast<std::ptrdiff_t>((i + 1) * size));
      };
      one.original = part(field.original, bytes);
      one.decoded = part(field.decoded, bytes);
      one.mask = part(field.mask, points);
      const h5l_assess_slice_result& slice = slices[i];
      h5l_assess_params alone = params;
      alone.value_range = slice.value_range;
      REQUIRE(i % 3 == 0 || slice.value_range == 3.5);
      const Result found = assess(one, alone, random, false, 0, false, own.data());
      if (i % 3 == 0 && found.points.special[H5L_SPECIAL_INF_INTRODUCED] == 0 && found.points.valid != 0) {
        REQUIRE(slice.value_range == found.points.original_max - found.points.original_min);
      }
      const double numbers[] = {found.points.original_min, found.points.original_max,     found.points.decoded_min,
                                found.points.decoded_max,  found.points.error_min,        found.points.error_max,
                                found.points.mean_error,   found.points.squares_original, found.points.squares_error,
                                found.points.products};
      REQUIRE(std::memcmp(numbers, &slice.original_min, sizeof numbers) == 0);
      REQUIRE(slice.valid == found.points.valid && slice.interior == found.field.interior);
      REQUIRE(slice.gradient_error_max == found.field.gradient_error_max);
      REQUIRE(slice.gradient_error_squares == found.field.gradient_error_squares);
      REQUIRE(slice.laplacian_error_max == found.field.laplacian_error_max);
      REQUIRE(slice.laplacian_error_squares == found.field.laplacian_error_squares);
      REQUIRE(slice.windows == found.field.windows && slice.window_sum == found.field.window_sum);
      REQUIRE(slice.window_worst == found.field.window_worst);
      REQUIRE(std::equal(slice.window_at, slice.window_at + 4, found.field.window_at));
      REQUIRE(h5l_assess_merge(&alone, merged.data(), own.data(), nullptr) == H5L_OK);
    }
    h5l_assess_field_result all, wanted;
    std::memset(static_cast<void*>(&all), 0, sizeof all);
    std::memset(static_cast<void*>(&wanted), 0, sizeof wanted);
    REQUIRE(h5l_assess_result(&params, state.data(), nullptr, &all, nullptr) == H5L_OK);
    REQUIRE(h5l_assess_result(&params, merged.data(), nullptr, &wanted, nullptr) == H5L_OK);
    REQUIRE(std::memcmp(&all, &wanted, sizeof all) == 0);
    // The same on several threads, which share the slices or the work on each slice.
    const std::vector<h5l_assess_slice_result> before = slices;
    for (const std::uint32_t threads : {2u, 7u, 80u}) {
      params.threads = threads;
      REQUIRE(h5l_assess_begin(own.data(), nullptr) == H5L_OK);
      run(own.data());
      REQUIRE(std::memcmp(slices.data(), before.data(), count * sizeof slices[0]) == 0);
      std::memset(static_cast<void*>(&wanted), 0, sizeof wanted);
      REQUIRE(h5l_assess_result(&params, own.data(), nullptr, &wanted, nullptr) == H5L_OK);
      REQUIRE(std::memcmp(&all, &wanted, sizeof all) == 0);
    }
  });
}

void wrong_requests_are_refused() {
  Field field{{10, 10}, 4, {}, {}, {}, false};
  Random random(1);
  fill<float>(field, random, false);
  const h5l_assess_params good = params_of(field, 1);
  std::vector<std::uint64_t> state((h5l_assess_state_bytes() + 7) / 8);
  h5l_message message;
  REQUIRE(h5l_assess_points(&good, state.data(), 0, 1, field.original.data(), field.decoded.data(), nullptr,
                            &message) == H5L_INVALID_ARGUMENT);  // not begun
  REQUIRE(h5l_assess_begin(nullptr, &message) == H5L_INVALID_ARGUMENT);
  REQUIRE(h5l_assess_begin(state.data(), &message) == H5L_OK);
  h5l_assess_piece piece = {};
  piece.original = field.original.data();
  piece.decoded = field.decoded.data();
  piece.original_strides[0] = piece.decoded_strides[0] = 40;
  piece.original_strides[1] = piece.decoded_strides[1] = 4;
  piece.extent[0] = piece.extent[1] = piece.own_extent[0] = piece.own_extent[1] = 10;
  REQUIRE(h5l_assess_field(&good, state.data(), &piece, &message) == H5L_OK);
  const auto refused = [&](auto change) {
    h5l_assess_params params = good;
    h5l_assess_piece part = piece;
    change(params, part);
    return h5l_assess_field(&params, state.data(), &part, &message) == H5L_INVALID_ARGUMENT && message.text[0] != '\0';
  };
  REQUIRE(refused([](auto& p, auto&) { p.value_bytes = 2; }));
  REQUIRE(refused([](auto& p, auto&) { p.bound_kind = H5L_BOUND_RANGE_RELATIVE; }));
  REQUIRE(refused([](auto& p, auto&) { p.limit[0] = NAN; }));
  REQUIRE(refused([](auto& p, auto&) { p.histogram_limit = -1; }));
  REQUIRE(refused([](auto& p, auto&) { p.threshold_count = 9; }));
  REQUIRE(refused([](auto& p, auto&) { p.rank = 5; }));
  REQUIRE(refused([](auto& p, auto&) { p.rank = 0; }));
  REQUIRE(refused([](auto& p, auto&) { p.lags = 17; }));
  REQUIRE(refused([](auto& p, auto&) { p.window[0] = 17; }));
  REQUIRE(refused([](auto& p, auto&) { p.step = 0; }));
  REQUIRE(refused([](auto& p, auto&) { p.spacing[1] = 0; }));
  REQUIRE(refused([](auto& p, auto&) { p.shape[0] = 9; }));
  REQUIRE(refused([](auto&, auto& part) { part.origin[0] = 1; }));
  REQUIRE(refused([](auto&, auto& part) { part.own_extent[0] = 11; }));
  REQUIRE(
      refused([](auto&, auto& part) { part.extent[0] = 9, part.own_extent[0] = 8; }));  // too short for what it owns
  REQUIRE(refused([](auto&, auto& part) { part.original_strides[1] = 8; }));
  REQUIRE(refused([](auto&, auto& part) { part.decoded = nullptr; }));
  h5l_assess_slice_result slice = {};
  const auto slices = [&](const h5l_assess_params& params, const void* values, auto* found) {
    return h5l_assess_slices(&params, state.data(), values, values, nullptr, found, 1, &message);
  };
  REQUIRE(slices(good, field.original.data(), &slice) == H5L_OK);
  REQUIRE(slices(good, nullptr, &slice) == H5L_INVALID_ARGUMENT);
  REQUIRE(slices(good, field.original.data(), decltype(&slice){}) == H5L_INVALID_ARGUMENT);
  h5l_assess_params other = good;
  other.shape[1] = 0;
  REQUIRE(slices(other, field.original.data(), &slice) == H5L_INVALID_ARGUMENT);
  other = good;
  other.on_device = 1;
  REQUIRE(slices(other, field.original.data(), &slice) == H5L_UNSUPPORTED);
  const std::vector<std::uint64_t> before = state;
  REQUIRE(h5l_assess_points(&good, state.data(), 7, 0, nullptr, nullptr, nullptr, &message) == H5L_OK);
  REQUIRE(state == before);  // no points change nothing
  h5l_assess_field_result result;
  for (const std::uint32_t rank : {5u, ~0u}) {
    other = good;
    other.rank = rank;
    REQUIRE(h5l_assess_result(&other, state.data(), nullptr, &result, &message) == H5L_INVALID_ARGUMENT);
  }
  // The number of boxes does not overflow: neither with boxes larger than any field, nor with a field of 2^64 points.
  h5l_assess_box box = {};
  const auto boxes = [&](const h5l_assess_params& params, std::uint64_t extent, std::size_t count) {
    const std::uint64_t extents[H5L_ASSESS_MAX_RANK] = {extent, extent, extent, extent};
    return h5l_assess_boxes(&params, &piece, extents, &box, count, &message);
  };
  REQUIRE(boxes(good, ~std::uint64_t{0}, 1) == H5L_OK && box.valid == 100);
  REQUIRE(boxes(good, ~std::uint64_t{0}, 0) == H5L_INVALID_ARGUMENT);
  REQUIRE(boxes(good, 0, 1) == H5L_INVALID_ARGUMENT);
  other = good;
  other.shape[0] = other.shape[1] = std::uint64_t{1} << 32;
  REQUIRE(boxes(other, 1, 0) == H5L_INVALID_ARGUMENT);
}

}  // namespace

int main() {
  backends_do_not_matter();  // first: a fork has the backend that this process has chosen
  Random random(20);
  pieces_do_not_matter(random);
  slices_are_fields(random);
  wrong_requests_are_refused();
  return 0;
}
