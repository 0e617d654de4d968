// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The data SSIM of slices along the last two axes, cell by cell.

#include <algorithm>
#include <cmath>
#include <vector>

#include "assess/fields.h"
#include "runtime/pool.h"

namespace h5lossy::assess {
namespace {

// Calls one(slice, y, rows, x, columns) for each cell of points in the owned rows, on several threads, and
// add(slice, cell) with the results in the order of the cells.
template <class One, class Add>
void for_each_cell(const Placed& placed, std::uint64_t end_y, std::uint64_t end_x, std::uint64_t wide,
                   std::uint32_t threads, h5l_assess_slice* slices, One one, Add add) {
  const std::uint64_t first_y = placed.first[kY];
  if (first_y >= end_y || end_x == 0) return;
  const std::uint64_t down = (end_y - first_y - 1) / kDssimRows + 1, across = (end_x - 1) / wide + 1;
  const std::uint64_t deep = placed.end[kZ] - placed.first[kZ];
  const std::uint64_t count = (placed.end[kW] - placed.first[kW]) * deep;
  std::vector<h5l_assess_slice> cells(count * down * across);
  run_batch(cells.size(), threads, [&](std::size_t i) {
    const std::uint64_t slice = i / (down * across), y = first_y + i / across % down * kDssimRows,
                        x = i % across * wide;
    const u64 at[4] = {placed.first[kW] + slice / deep, placed.first[kZ] + slice % deep, y, x};
    cells[i] = slices[slice];
    one(at, std::min<std::uint64_t>(kDssimRows, end_y - y), std::min(wide, end_x - x), cells[i]);
  });
  for (std::size_t i = 0; i < cells.size(); ++i) add(slices[i / (down * across)], cells[i]);
}

}  // namespace

void add_ranges(const h5l_assess_params& params, const Kernels& kernels, std::uint32_t threads, const Placed& placed,
                const Rules& rules, h5l_assess_slice* slices) {
  for_each_cell(
      placed, placed.end[kY], placed.end[kX], placed.end[kX], threads, slices,
      [&](const u64(&first)[4], std::uint64_t rows, std::uint64_t columns, h5l_assess_slice& cell) {
        u64 at[4] = {first[kW], first[kZ], first[kY], first[kX]};
        for (; at[kY] < first[kY] + rows; ++at[kY]) {
          kernels.range(params.value_bytes, placed.view, rules, at, columns, cell);
        }
      },
      [](h5l_assess_slice& slice, const h5l_assess_slice& cell) {
        slice.low = std::min(slice.low, cell.low);
        slice.high = std::max(slice.high, cell.high);
      });
}

void add_dssim(const h5l_assess_params& params, const Kernels& kernels, std::uint32_t threads, const Placed& placed,
               const Rules& rules, h5l_assess_slice* slices) {
  const std::uint64_t rows = params.rank < 2 ? 1 : params.shape[params.rank - 2];
  const std::uint64_t columns = params.shape[params.rank - 1];
  if (rows < kDssimTaps || columns < kDssimTaps) return;
  for_each_cell(
      placed, std::min<std::uint64_t>(placed.end[kY], rows - kDssimTaps + 1), columns - kDssimTaps + 1, kDssimColumns,
      threads, slices,
      [&](const u64(&first)[4], std::uint64_t count, std::uint64_t wide, h5l_assess_slice& cell) {
        cell.sum = 0;
        cell.points = 0;
        if (!(cell.high > cell.low) || !std::isfinite(cell.high - cell.low)) return;
        kernels.dssim(params.value_bytes, placed.view, rules, first, static_cast<u32>(count), static_cast<u32>(wide),
                      cell);
      },
      [](h5l_assess_slice& slice, const h5l_assess_slice& cell) {
        slice.sum += cell.sum;
        slice.points += cell.points;
      });
}

}  // namespace h5lossy::assess
