// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Slices of a field, each assessed as a field of its own.

#include "assess/slices.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <new>
#include <vector>

#include "assess/fields.h"
#include "assess/points.h"
#include "runtime/pool.h"

namespace h5lossy::assess {
namespace {

// The sums of this many slices per thread are kept until they are added to the state.
constexpr std::uint64_t kSlicesOfThread = 16;

// What a thread needs to assess one slice after the other.
struct Work {
  explicit Work(std::uint32_t threads) : counters(threads) {}

  State state;
  ThreadCounters counters;
  h5l_assess_points_result points;
  h5l_assess_field_result field;
};

// The range of the original's valid values; NaN if there is none.
double range_of(const PointsCall& call, std::uint64_t count, const h5l_assess_points_result& points) {
  // A point does not count if its decoded value is lost, though its original value is valid.
  if (points.special[H5L_SPECIAL_NAN_INTRODUCED] + points.special[H5L_SPECIAL_INF_INTRODUCED] == 0) {
    return points.valid == 0 ? NAN : points.original_max - points.original_min;
  }
  const auto state = std::make_unique<State>();
  restart(*state);
  h5l_assess_params params = call.params;
  params.decoded_big_endian = params.original_big_endian;
  add_points({params, call.kernels, call.x, call.x, call.mask, call.threads, nullptr, call.counters}, 0, count, *state);
  flush_pending(params, call.kernels, call.counters.of(0), *state);
  const h5l_assess_points_result& found = state->points;
  return found.valid == 0 ? NAN : found.original_max - found.original_min;
}

void assess_slice(const PointsCall& call, std::uint64_t count, Placed placed, Work& work,
                  h5l_assess_slice_result& result, FieldTotal& total) {
  State& state = work.state;
  restart(state);
  add_points(call, 0, count, state);
  flush_pending(call.params, call.kernels, call.counters.of(0), state);
  finalize_points(state, work.points);
  h5l_assess_params params = call.params;
  if (params.window[0] != 0) {
    if (std::isnan(result.value_range)) result.value_range = range_of(call, count, work.points);
    params.value_range = result.value_range;
  }
  placed.view.original = static_cast<const u8*>(call.x);
  placed.view.decoded = static_cast<const u8*>(call.y);
  placed.view.mask = call.mask;
  add_field(params, call.kernels, call.threads, placed, make_rules(params, &state), nullptr, state);
  finalize_field(params, state, work.field);
  take_field_total(state, total);
  const h5l_assess_points_result& points = work.points;
  const h5l_assess_field_result& field = work.field;
  result = {result.value_range,
            points.valid,
            points.original_min,
            points.original_max,
            points.decoded_min,
            points.decoded_max,
            points.error_min,
            points.error_max,
            points.mean_error,
            points.squares_original,
            points.squares_error,
            points.products,
            field.interior,
            field.gradient_error_max,
            field.gradient_error_squares,
            field.laplacian_error_max,
            field.laplacian_error_squares,
            field.windows,
            field.window_sum,
            field.window_worst,
            {}};
  std::copy(field.window_at, field.window_at + H5L_ASSESS_MAX_RANK, result.window_at);
}

}  // namespace

void add_slices(const PointsCall& call, const Placed& placed, std::uint64_t points, h5l_assess_slice_result* slices,
                std::uint64_t count, State& state) {
  // Threads share the slices or, if there are few slices, the work on each of them.
  const std::uint32_t workers = count < call.threads ? 1 : call.threads;
  const std::uint32_t threads = workers == 1 ? call.threads : 1;
  const std::uint64_t at_once = std::min<std::uint64_t>(count, workers * kSlicesOfThread);
  const std::uint64_t bytes = points * call.params.value_bytes;
  std::vector<std::unique_ptr<Work>> works(workers);
  for (auto& work : works) work = std::make_unique<Work>(threads);
  std::vector<FieldTotal> totals(at_once);
  for (std::uint64_t done = 0; done < count; done += at_once) {
    const std::uint64_t now = std::min(at_once, count - done);
    std::atomic<bool> failed = false;
    run_batch(now, workers, [&](std::size_t i, std::uint32_t worker) {
      const std::uint64_t slice = done + i;
      const PointsCall own = {call.params,
                              call.kernels,
                              static_cast<const u8*>(call.x) + slice * bytes,
                              static_cast<const u8*>(call.y) + slice * bytes,
                              call.mask == nullptr ? nullptr : call.mask + slice * points,
                              threads,
                              nullptr,
                              works[worker]->counters};
      try {
        assess_slice(own, points, placed, *works[worker], slices[slice], totals[i]);
      } catch (const std::bad_alloc&) {
        failed = true;
      }
    });
    if (failed) throw std::bad_alloc();
    for (std::uint64_t i = 0; i < now; ++i) add_field_total(state, totals[i]);
  }
}

}  // namespace h5lossy::assess
