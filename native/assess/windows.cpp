// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Structural similarity in sliding windows (pattern III). Sums over a window are built axis by axis: rows, then columns,
// then planes from a ring, each as the same tree of `window` terms, so that no sum drifts and none depends on where a
// piece begins. The work for a window does not grow with its side squared or cubed.

#include <stdlib.h>

#include <utility>

#include "assess/kernels.h"
#include "assess/lanes.h"

namespace h5lossy::H5L_TARGET {
namespace {

using assess::Column;
using assess::FieldPlan;
using assess::Rules;
using assess::View;
using assess::WindowCell;

constexpr u32 kMaxWindow = H5L_ASSESS_MAX_WINDOW;
enum Axis : u32 { kW, kZ, kY, kX };

// What is summed, of s = x + y - 2 pivot and d = y - x: s, d, their squares, and the number of valid points.
constexpr u32 kQuantities = 5;

constexpr u32 lower_power(u32 n) {
  u32 power = 1;
  while (2 * power < n) power *= 2;
  return power;
}

// Sums of kTerms neighbours, for kOutputs places next to each other: each as a tree, the larger power of two first. What
// neighbouring trees have in common is added once.
template <u32 kTerms, u32 kOutputs>
struct Sums {
  using V = Vector<double>;
  static constexpr u32 kInputs = kTerms + kOutputs - 1;
  V one[kInputs], two[kInputs], four[kInputs], eight[kInputs];

  template <class Load>
  [[gnu::always_inline]] explicit Sums(const Load& load) {
#pragma GCC unroll 32
    for (u32 k = 0; k < kInputs; ++k) one[k] = load(k);
#pragma GCC unroll 32
    for (u32 k = 0; k + 1 < kInputs; ++k) two[k] = one[k] + one[k + 1];
#pragma GCC unroll 32
    for (u32 k = 0; k + 3 < kInputs; ++k) four[k] = two[k] + two[k + 2];
#pragma GCC unroll 32
    for (u32 k = 0; k + 7 < kInputs; ++k) eight[k] = four[k] + four[k + 4];
  }

  template <u32 kOf = kTerms>
  [[gnu::always_inline]] V at(u32 k) const {
    if constexpr (kOf == 1) {
      return one[k];
    } else if constexpr (kOf == 2) {
      return two[k];
    } else if constexpr (kOf == 4) {
      return four[k];
    } else if constexpr (kOf == 8) {
      return eight[k];
    } else {
      constexpr u32 kFirst = lower_power(kOf);
      return at<kFirst>(k) + at<kOf - kFirst>(k + kFirst);
    }
  }
};

// Places whose sums are made together.
constexpr u32 kBatch = 4;

// Sums of kTerms rows for kOutputs places, from kTerms + kOutputs - 1 rows. `count` is rounded up to whole vectors, and
// so many are read behind the rows.
template <u32 kTerms, u32 kOutputs>
void add_rows(const double* const* rows, u32 count, double* const* to) {
  struct {
    const double* row[kTerms + kOutputs - 1];
    double* to[kOutputs];
  } own;  // in registers: a store may not change these
#pragma GCC unroll 32
  for (u32 k = 0; k < kTerms + kOutputs - 1; ++k) own.row[k] = rows[k];
#pragma GCC unroll 8
  for (u32 k = 0; k < kOutputs; ++k) own.to[k] = to[k];
  for (u32 i = 0; i < count; i += kDoubles) {
    const Sums<kTerms, kOutputs> sums([&](u32 k) { return load_doubles(own.row[k] + i); });
#pragma GCC unroll 8
    for (u32 k = 0; k < kOutputs; ++k) store_doubles(own.to[k] + i, sums.at(k));
  }
}

// Values from place kPlaces on, of vectors that stand one behind the other.
template <u32 kPlaces, int... kAt>
[[gnu::always_inline]] inline Vector<double> shifted(const Vector<double>* from,
                                                     std::integer_sequence<int, kAt...> /*places*/) {
  constexpr int kShift = kPlaces % kDoubles;
  if constexpr (kShift == 0) {
    return from[kPlaces / kDoubles];
  } else {
    return __builtin_shufflevector(from[kPlaces / kDoubles], from[kPlaces / kDoubles + 1], (kAt + kShift)...);
  }
}

template <u32 kPlaces>
[[gnu::always_inline]] inline Vector<double> shifted(const Vector<double>* from) {
  return shifted<kPlaces>(from, std::make_integer_sequence<int, kDoubles>());
}

// What add_along reads behind the last value that it needs, rounded up.
constexpr u32 kReadAhead = 8;

// Vectors that a sum of kTerms neighbours reaches.
template <u32 kTerms>
constexpr u32 kReached = (kTerms - 1 + kDoubles - 1) / kDoubles + 1;

// The tree, from sums of one and of two.
template <u32 kTerms, u32 kFrom>
[[gnu::always_inline]] inline Vector<double> tree_along(const Vector<double>* ones, const Vector<double>* twos) {
  if constexpr (kTerms == 1) {
    return shifted<kFrom>(ones);
  } else if constexpr (kTerms == 2) {
    return shifted<kFrom>(twos);
  } else {
    constexpr u32 kFirst = lower_power(kTerms);
    return tree_along<kFirst, kFrom>(ones, twos) + tree_along<kTerms - kFirst, kFrom + kFirst>(ones, twos);
  }
}

// Sums of kTerms neighbours in one row.
template <u32 kTerms>
void add_along(const double* row, u32 count, double* to) {
  constexpr u32 kAhead = kReached<kTerms>;
  Vector<double> ones[kAhead + 1];
  Vector<double> twos[kAhead];
#pragma GCC unroll 32
  for (u32 k = 0; k < kAhead; ++k) ones[k + 1] = load_doubles(row + k * kDoubles);
#pragma GCC unroll 32
  for (u32 k = 0; k + 1 < kAhead; ++k) twos[k + 1] = ones[k + 1] + shifted<1>(ones + k + 1);
  for (u32 i = 0; i < count; i += kDoubles) {
#pragma GCC unroll 32
    for (u32 k = 0; k < kAhead; ++k) ones[k] = ones[k + 1];
    ones[kAhead] = load_doubles(row + i + kAhead * kDoubles);
#pragma GCC unroll 32
    for (u32 k = 0; k + 1 < kAhead; ++k) twos[k] = twos[k + 1];
    twos[kAhead - 1] = ones[kAhead - 1] + shifted<1>(ones + kAhead - 1);
    store_doubles(to + i, tree_along<kTerms, 0>(ones, twos));
  }
}

using AddRows = void (*)(const double* const*, u32, double* const*);
using AddAlong = void (*)(const double*, u32, double*);
struct Adders {
  AddRows one, batch;
  AddAlong along;
};

template <u32... kTerms>
constexpr auto adders(std::integer_sequence<u32, kTerms...> /*terms*/) {
  struct {
    Adders of[sizeof...(kTerms) + 1];
  } table = {{{}, {add_rows<kTerms + 1, 1>, add_rows<kTerms + 1, kBatch>, add_along<kTerms + 1>}...}};
  return table;
}

constexpr auto kAdders = adders(std::make_integer_sequence<u32, kMaxWindow>());

template <class T>
class Climber {
 public:
  Climber(const View& view, const Rules& rules, const FieldPlan& plan, const Column& column, double* memory)
      : view_(view),
        rules_(rules),
        plan_(plan),
        column_(column),
        columns_(own(column, kX)),
        rows_(own(column, kY)),
        stride_(padded(columns_)),
        plane_(plane_doubles(rules, column)),
        volumes_(own(column, kZ)) {
    const u32 wide = wide_stride(plan, column);
    const auto take = [&memory](u64 count) {
      double* const taken = memory;
      memory += count;
      return taken;
    };
    ring_ = take(ring_planes(plan) * plane_);
    outer_ = plan.window[kW] == 1 ? nullptr : take(plan.window[kW] * volumes_ * plane_);
    row_sums_ = take(u64{kQuantities} * (rows_ + plan.window[kY] - 1) * stride_);
    for (double*& row : wide_) row = take(wide);
    for (auto& of_place : sums_) {
      for (double*& row : of_place) row = take(stride_);
    }
    lost_ = take(stride_);
    valid_ = take(wide);
    quantities_ = quantities_of(rules);
  }

  static u64 memory_doubles(const Rules& rules, const FieldPlan& plan, const Column& column) {
    const u64 stride = padded(own(column, kX));
    const u64 rows = own(column, kY);
    const u64 plane = plane_doubles(rules, column);
    const u64 outer = plan.window[kW] == 1 ? 0 : plan.window[kW] * own(column, kZ) * plane;
    return ring_planes(plan) * plane + outer + kQuantities * (rows + plan.window[kY] - 1) * stride +
           (kBatch * kQuantities + 1) * stride + (kQuantities + 1) * wide_stride(plan, column);
  }

  void climb(WindowCell* cells) {
    const u32 deep = plan_.window[kZ];
    const u32 outer = plan_.window[kW];
    const u32 batch = plan_.step == 1 ? kBatch : 1;  // else most of a batch would be for nothing
    for (u64 w = column_.first[kW]; w < column_.end[kW] + outer - 1; ++w) {
      u64 added = column_.first[kZ];
      u64 z = column_.first[kZ];
      while (z < column_.end[kZ]) {
        const u64 left = column_.end[kZ] - z;
        const u32 places = left < batch ? 1 : batch;
        for (; added < z + places + deep - 1; ++added) add_plane(w, added);
        if (outer != 1) keep_volumes(w, z, places);
        if (w + 1 >= column_.first[kW] + outer) {
          const u64 corner_w = w + 1 - outer;
          judge(corner_w, z, places, cells + (corner_w - column_.first[kW]) * volumes_ + (z - column_.first[kZ]));
        }
        z += places;
      }
    }
  }

 private:
  // Without points to leave out nothing has to be counted.
  static u32 quantities_of(const Rules& rules) { return rules.all_valid ? kQuantities - 1 : kQuantities; }
  static u32 own(const Column& column, u32 axis) { return static_cast<u32>(column.end[axis] - column.first[axis]); }
  static u32 wide_stride(const FieldPlan& plan, const Column& column) {
    return padded(padded(own(column, kX)) + plan.window[kX] - 1) + kReadAhead;
  }

  // And a little more: planes whole pages apart would compete for the same places of the cache.
  static u64 plane_doubles(const Rules& rules, const Column& column) {
    return u64{quantities_of(rules)} * own(column, kY) * padded(own(column, kX)) + 72;
  }

  static u32 ring_planes(const FieldPlan& plan) { return plan.window[kZ] + kBatch - 1; }

  double* plane_row(double* plane, u32 quantity, u32 row) const {
    return plane + (u64{quantity} * rows_ + row) * stride_;
  }
  [[nodiscard]] double* ring_plane(u64 z) const { return ring_ + (z % ring_planes(plan_)) * plane_; }
  [[nodiscard]] double* volume(u64 w, u64 z) const {
    return outer_ + ((w % plan_.window[kW]) * volumes_ + (z - column_.first[kZ])) * plane_;
  }

  // Sums over y and x of the plane (w, z) go to the ring.
  void add_plane(u64 w, u64 z) {
    const u32 high = plan_.window[kY];
    const u32 wide = plan_.window[kX];
    const u32 read_rows = rows_ + high - 1;
    const u32 read_columns = columns_ + wide - 1;
    const auto row_sum = [&](u32 q, u32 y) { return row_sums_ + (u64{q} * read_rows + y) * stride_; };
    for (u32 y = 0; y < read_rows; ++y) {
      const u64 at[4] = {w, z, column_.first[kY] + y, column_.first[kX]};
      read_quantities(at, read_columns);
      for (u32 q = 0; q < quantities_; ++q) kAdders.of[wide].along(wide_[q], columns_, row_sum(q, y));
    }
    double* const plane = ring_plane(z);
    for (u32 q = 0; q < quantities_; ++q) {
      for (u32 y = 0; y < rows_;) {
        const u32 places = rows_ - y < kBatch ? 1 : kBatch;
        add_up(
            high, places, [&](u32 k) { return row_sum(q, y + k); },
            [&](u32 place) { return plane_row(plane, q, y + place); });
        y += places;
      }
    }
  }

  void read_quantities(const u64* at, u32 count) {
    if (rules_.all_valid && !rules_.original_big_endian && !rules_.decoded_big_endian) {
      read_plain(at, count);
      return;
    }
    double* const s = wide_[0];
    double* const d = wide_[1];
    read_points<T>(view_, rules_, at, count, {s, d, valid_});
    const double pivot = 2 * rules_.pivot_x;
    const u32 n = padded(count);  // whole vectors; what is behind the row is used by no window
    if (rules_.all_valid) {
      for (u32 i = 0; i < n; ++i) s[i] = s[i] + s[i] + d[i] - pivot;
    } else {
      for (u32 i = 0; i < n; ++i) s[i] = (s[i] + s[i] + d[i] - pivot) * valid_[i];
      memcpy(wide_[4], valid_, n * sizeof(double));
    }
    for (u32 i = 0; i < n; ++i) {
      wide_[2][i] = s[i] * s[i];
      wide_[3][i] = d[i] * d[i];
    }
  }

  // The same, where every point counts as it stands in memory.
  void read_plain(const u64* at, u32 count) {
    const u8* const original = address(view_.original, view_.original_strides, at, view_.origin);
    const u8* const decoded = address(view_.decoded, view_.decoded_strides, at, view_.origin);
    prefetch_rows<T>(view_, original, decoded, count);
    const double pivot = 2 * rules_.pivot_x;
    double* const to[4] = {wide_[0], wide_[1], wide_[2], wide_[3]};
    const auto take = [&](const u8* from_x, const u8* from_y, u32 i) {
      const Vector<double> x = load_as_doubles<T>(from_x);
      const Vector<double> d = load_as_doubles<T>(from_y) - x;
      const Vector<double> s = x + x + d - pivot;
      store_doubles(to[0] + i, s);
      store_doubles(to[1] + i, d);
      store_doubles(to[2] + i, s * s);
      store_doubles(to[3] + i, d * d);
    };
    const u32 whole = count / kDoubles * kDoubles;
    for (u32 i = 0; i < whole; i += kDoubles) take(original + i * sizeof(T), decoded + i * sizeof(T), i);
    if (whole == count) return;
    u8 rest[2][kDoubles * sizeof(T)] = {};
    memcpy(rest[0], original + whole * sizeof(T), (count - whole) * sizeof(T));
    memcpy(rest[1], decoded + whole * sizeof(T), (count - whole) * sizeof(T));
    take(rest[0], rest[1], whole);
  }

  // Sums of `terms` rows for 1 or kBatch places.
  template <class Row, class To>
  void add_up(u32 terms, u32 places, const Row& row, const To& to) const {
    const double* rows[kMaxWindow + kBatch - 1];
    double* sums[kBatch];
    for (u32 k = 0; k < terms + places - 1; ++k) rows[k] = row(k);
    for (u32 place = 0; place < places; ++place) sums[place] = to(place);
    (places == 1 ? kAdders.of[terms].one : kAdders.of[terms].batch)(rows, columns_, sums);
  }

  // The planes of the ring from z on, for so many places.
  struct Planes {
    double* plane[kMaxWindow + kBatch - 1];
  };
  Planes planes_from(u64 z, u32 places) const {
    Planes planes = {};
    for (u32 k = 0; k < plan_.window[kZ] + places - 1; ++k) planes.plane[k] = ring_plane(z + k);
    return planes;
  }

  // Rows of sums over whole boxes in z, y and x, for places next to each other along z.
  template <class To>
  void add_up_ring(const Planes& planes, u32 places, u32 q, u32 y, const To& to) const {
    const u64 row = (u64{q} * rows_ + y) * stride_;
    add_up(plan_.window[kZ], places, [&](u32 k) { return planes.plane[k] + row; }, to);
  }

  void keep_volumes(u64 w, u64 z, u32 places) const {
    const Planes planes = planes_from(z, places);
    for (u32 q = 0; q < quantities_; ++q) {
      for (u32 y = 0; y < rows_; ++y) {
        add_up_ring(planes, places, q, y, [&](u32 place) { return plane_row(volume(w, z + place), q, y); });
      }
    }
  }

  // Windows of neighbouring cells along z.
  void judge(u64 w, u64 z, u32 places, WindowCell* cells) {
    const u32 step = plan_.step;
    for (u32 place = 0; place < places; ++place) cells[place] = {{0, 0}, -1, {0, 0, 0, 0}};
    if (w % step != 0 || z % step != 0) return;  // with a step there is one place
    const Planes planes = planes_from(z, places);
    Lanes sum[kBatch];
    u64 counted[kBatch] = {};
    for (u32 y = 0; y < rows_; ++y) {
      if ((column_.first[kY] + y) % step != 0) continue;
      for (u32 q = 0; q < quantities_; ++q) {
        if (outer_ == nullptr) {
          add_up_ring(planes, places, q, y, [&](u32 place) { return sums_[place][q]; });
          continue;
        }
        for (u32 place = 0; place < places; ++place) {
          add_up(
              plan_.window[kW], 1, [&](u32 k) { return plane_row(volume(w + k, z + place), q, y); },
              [&](u32 /*one*/) { return sums_[place][q]; });
        }
      }
      for (u32 place = 0; place < places; ++place) {
        counted[place] += judge_row(sums_[place]);
        find_worst(w, z + place, y, cells[place]);
        add_row(lost_, stride_, sum[place]);
      }
    }
    for (u32 place = 0; place < places; ++place) {
      cells[place].sums = {static_cast<double>(counted[place]), total(sum[place])};
    }
  }

  // 1 - SSIM of each window of a row, from s and d: with l and cs its two factors, 1 - l and 1 - cs come without
  // cancellation. Returns how many windows count.
  u32 judge_row(const double* const* sums) {
    double points = 1;
    for (const u32 side : plan_.window) points *= side;
    const double part = 1.0 / points;
    const double pivot = 2 * rules_.pivot_x;
    const double c1 = plan_.c1;
    const double c2 = plan_.c2;
    for (u32 i = 0; i < columns_; ++i) {
      const double mean_s = sums[0][i] * part;
      const double mean_d = sums[1][i] * part;
      const double spread_s = sums[2][i] * part - mean_s * mean_s;
      const double spread_d = sums[3][i] * part - mean_d * mean_d;
      const double var_s = spread_s > 0 ? spread_s : 0;
      const double var_d = spread_d > 0 ? spread_d : 0;
      const double whole = mean_s + pivot;
      const double a = mean_d * mean_d / ((whole * whole + mean_d * mean_d) * 0.5 + c1);
      const double b = var_d / ((var_s + var_d) * 0.5 + c2);
      lost_[i] = a + b - a * b;
    }
    for (u32 i = columns_; i < stride_; ++i) lost_[i] = -1.0;  // no window
    u32 windows = columns_;
    if (quantities_ == kQuantities || plan_.step != 1) {
      windows = 0;
      for (u32 i = 0; i < columns_; ++i) {
        const bool counts =
            (quantities_ != kQuantities || sums[4][i] == points) && (column_.first[kX] + i) % plan_.step == 0;
        windows += counts ? 1 : 0;
        lost_[i] = counts ? lost_[i] : -1.0;
      }
    }
    return windows;
  }

  void find_worst(u64 w, u64 z, u32 y, WindowCell& cell) {
    const double most = largest(lost_, stride_, cell.worst);
    if (most > cell.worst) {
      u32 i = 0;
      while (lost_[i] != most) ++i;
      cell.worst = most;
      cell.at[kW] = w;
      cell.at[kZ] = z;
      cell.at[kY] = column_.first[kY] + y;
      cell.at[kX] = column_.first[kX] + i;
    }
    for (u32 i = 0; i < stride_; ++i) lost_[i] = lost_[i] < 0 ? 0 : lost_[i];
  }

  const View& view_;
  const Rules& rules_;
  const FieldPlan& plan_;
  const Column& column_;
  u32 columns_, rows_, stride_;
  u64 plane_;
  u64 volumes_;
  u32 quantities_;
  double* ring_;
  double* outer_;
  double* row_sums_;
  double* wide_[kQuantities];
  double* sums_[kBatch][kQuantities];
  double* lost_;
  double* valid_;
};

template <class T>
bool climb(const View& view, const Rules& rules, const FieldPlan& plan, const Column& column, WindowCell* cells) {
  const u64 bytes = Climber<T>::memory_doubles(rules, plan, column) * sizeof(double);
  void* memory = nullptr;
  if (posix_memalign(&memory, 64, bytes) != 0) return false;
  memset(memory, 0, bytes);  // vectors read behind rows
  Climber<T>(view, rules, plan, column, static_cast<double*>(memory)).climb(cells);
  free(memory);
  return true;
}

}  // namespace

bool windows(u32 value_bytes, const View& view, const Rules& rules, const FieldPlan& plan, const Column& column,
             WindowCell* cells) {
  return value_bytes == 4 ? climb<float>(view, rules, plan, column, cells)
                          : climb<double>(view, rules, plan, column, cells);
}

}  // namespace h5lossy::H5L_TARGET
