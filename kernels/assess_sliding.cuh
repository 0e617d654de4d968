// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Structural similarity in windows of seven points along each of two or three axes, where all points count: what most
// fields take. A thread block goes from plane to plane (in a field of two axes: from row of cells to row of cells), with
// one cell of each. Some warps, the makers, add up seven rows for every column that windows of the cell reach, one half of
// them in even planes, one in odd ones; the others, the judges, add up columns and planes, and judge. Between them is a ring
// of planes, so that nobody waits for all others.
// A judge's lane adds up one of the four quantities for four windows side by side: what their columns share is added once,
// and read from shared memory once. All sums are those of native/assess/windows.cpp, addition for addition.
#pragma once

#include "assess_windows.cuh"

namespace h5lossy::H5L_TARGET {

inline constexpr u32 kSlidingSide = 7;
inline constexpr u32 kSlidingReach = kSlidingSide - 1;
inline constexpr u32 kSlidingSums = kQuantities - 1;
inline constexpr u32 kStrip = 4;                                 // windows of a lane
inline constexpr u32 kWarpStrips = kWarpThreads / kSlidingSums;  // of a warp of judges
inline constexpr u32 kRowStrips = assess::kWindowColumns / kStrip;
inline constexpr u32 kCellStrips = assess::kWindowRows * kRowStrips;
static_assert(assess::kWindowRows == kSlidingSide && assess::kWindowColumns % kStrip == 0);

// Planes, or rows of cells, of a climb: windows of planes come in blocks of seven.
inline constexpr u32 kClimb = 9 * kSlidingSide;

// A thread block: warps of makers, one half for even planes, and of judges.
struct Sliding {
  static constexpr u32 kReadRows = kSlidingSide + kSlidingReach;
  static constexpr u32 kReadColumns = assess::kWindowColumns + kSlidingReach;
  static constexpr u32 kMakers =
      (kReadColumns + kWarpThreads - 1) / kWarpThreads;  // of a plane: a thread for each column
  static constexpr u32 kJudges = (kCellStrips + kWarpStrips - 1) / kWarpStrips;
  static constexpr u32 kBlockWarps = 2 * kMakers + kJudges;
  // Planes between makers and judges. With seven, those of a block have their places.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
  static constexpr u32 kRing = 4;  // there is less shared memory
#else
  static constexpr u32 kRing = kSlidingSide;
#endif
  // Rows stand so that strips follow each other without bank conflicts: see column_place.
  static constexpr u32 kPitch = assess::kWindowColumns + 16;
  static_assert(kPitch >= kReadColumns);
};

template <class T>
struct SlidingShared {
  T values[2][Sliding::kReadRows][2][2 * Sliding::kMakers * kWarpThreads];  // of the makers' next planes: x and y
  alignas(16) double columns[Sliding::kRing][kSlidingSums][kSlidingSide][Sliding::kPitch];
  alignas(16) double windows[Sliding::kJudges][kSlidingSums][kWarpThreads];
  double lost[2][kSlidingSide][Sliding::kJudges * kWarpThreads];  // of two blocks of planes in turn
  WorstOfWarp worst[Sliding::kBlockWarps];
  u64 made[Sliding::kRing], read[Sliding::kRing];  // rounds of each plane of the ring
};

template <class T>
inline constexpr u32 kThreadsWith<SlidingShared<T>> = Sliding::kBlockWarps * kWarpThreads;

struct alignas(16) PairOfDoubles {
  double first, second;
};

// Where column `x` of a row stands: eight lanes that load or store 16 bytes each, of strips that follow each other, meet no
// bank conflict.
H5L_DEVICE u32 column_place(u32 row, u32 x) { return x ^ ((row * assess::kWindowColumns + x) >> 3 & 2); }

// Where a climb goes: planes of what is judged, and a cell of each.
struct Climb {
  u64 from, to;
  u64 cell;  // number of the first plane's
  u64 y, x;  // corner
  u32 columns;
};

// Planes are read in whole blocks of seven, so that a window finds the sums of the last planes of a block.
template <bool kDeep>
struct Planes {
  static constexpr u32 kPhases = kDeep ? kSlidingSide : 1;  // of a block
  static constexpr u32 kAhead = kPhases - 1;                // planes that windows reach behind their first one

  static H5L_DEVICE u64 first(const Climb& climb) { return climb.from / kPhases * kPhases; }
  static H5L_DEVICE u64 end(const Climb& climb) { return ((climb.to + kAhead - 1) / kPhases + 1) * kPhases; }
};

// A thread that makes sums over seven rows, at its column, for every other plane. The values of the next of its planes are
// copied to shared memory meanwhile, where nobody else reads them.
template <class T, bool kDeep>
class Maker {
 public:
  H5L_DEVICE Maker(const CellsPlan& plan, const Climb& climb, SlidingShared<T>& shared)
      : plan_(plan), climb_(climb), shared_(shared), number_(thread() % (Sliding::kMakers * kWarpThreads)) {
    const u64 corner[4] = {plan.first[kW], plan.first[kZ], plan.first[kY], inside(climb.x + number_, kX)};
    original_ = address(plan.view.original, plan.view.original_strides, plan.view.origin, corner);
    decoded_ = address(plan.view.decoded, plan.view.decoded_strides, plan.view.origin, corner);
  }

  // `number`: of planes before.
  H5L_DEVICE void run(u32 number) {
    const u64 first = Planes<kDeep>::first(climb_), end = Planes<kDeep>::end(climb_);
    const u32 turn = (warp() / Sliding::kMakers + number) % 2;
    u32 side = 0;
    start(first + turn, side);
    H5L_NO_UNROLL for (u64 plane = first + turn; plane < end; plane += 2) {
      const u32 i = number + static_cast<u32>(plane - first), place = i % Sliding::kRing, round = i / Sliding::kRing;
      wait_for_copies();
      start(plane + 2, side ^ 1);
      add_lower_rows(side);
      if (round != 0) wait_for_round(shared_.read + place, round - 1);
      add_upper_rows(side, shared_.columns[place]);
      tell(shared_.made + place);
      side ^= 1;
    }
    wait_for_copies();
  }

 private:
  static constexpr u32 kReadRows = Sliding::kReadRows;

  // What no window reaches may be anything that is there.
  H5L_DEVICE u64 inside(u64 at, u32 axis) const {
    const u64 last = plan_.end[axis] + kSlidingReach - 1;
    return at < plan_.first[axis] ? plan_.first[axis] : at < last ? at : last;
  }

  // Copies the rows that windows of a plane reach.
  H5L_DEVICE void start(u64 plane, u32 side) {
    const u64 corner = kDeep ? climb_.y : plane * kSlidingSide, first = inside(corner, kY);
    const assess::View& view = plan_.view;
    const u64 z = kDeep ? inside(plane, kZ) - plan_.first[kZ] : 0, y = first - plan_.first[kY];
    const auto place = [z, y](const u8* base, const i64(&strides)[4]) {
      return unforeseen(base + static_cast<i64>(z) * strides[kZ] + static_cast<i64>(y) * strides[kY]);
    };
    const u8* const original = place(original_, view.original_strides);
    const u8* const decoded = place(decoded_, view.decoded_strides);
    // There are no registers to keep the places of all rows in from plane to plane.
    const i32 skipped = unforeseen(static_cast<i32>(first - corner));
    const i32 last = unforeseen(static_cast<i32>(inside(first + kReadRows, kY) - first));
    H5L_UNROLL for (u32 row = 0; row < kReadRows; ++row) {
      i32 at = static_cast<i32>(row) - skipped;
      at = at < 0 ? 0 : at;
      at = at < last ? at : last;
      T* const to = &shared_.values[side][row][0][thread()];
      const u64 from = static_cast<u32>(at);
      copy_async<sizeof(T)>(reinterpret_cast<u8*>(to), original + from * static_cast<u32>(view.original_strides[kY]));
      copy_async<sizeof(T)>(reinterpret_cast<u8*>(to + 2 * Sliding::kMakers * kWarpThreads),
                            decoded + from * static_cast<u32>(view.decoded_strides[kY]));
    }
  }

  H5L_DEVICE void take(u32 side, u32 row, double (&terms)[kSlidingSums]) const {
    const double x = static_cast<double>(shared_.values[side][row][0][thread()]);
    quantities_of<T>(plan_, x, static_cast<double>(shared_.values[side][row][1][thread()]) - x, terms);
  }

  H5L_DEVICE void add_lower_rows(u32 side) {
    H5L_UNROLL for (u32 row = kSlidingSide; row-- != 0;) {
      take(side, row, lower_[row]);
      if (row == kSlidingReach) continue;
      H5L_UNROLL for (u32 q = 0; q < kSlidingSums; ++q) lower_[row][q] += lower_[row + 1][q];
    }
  }

  template <class Columns>
  H5L_DEVICE void add_upper_rows(u32 side, Columns& to) {
    double sums[kSlidingSums];
    H5L_UNROLL for (u32 row = 0; row < kSlidingSide; ++row) {
      double terms[kSlidingSums];
      if (row != 0) take(side, row + kSlidingReach, terms);
      H5L_UNROLL for (u32 q = 0; q < kSlidingSums; ++q) {
        if (row != 0) sums[q] = row == 1 ? terms[q] : sums[q] + terms[q];
        const double sum = row == 0 ? lower_[0][q] : lower_[row][q] + sums[q];
        if (number_ < Sliding::kReadColumns) to[q][row][column_place(row, number_)] = sum;
      }
    }
  }

  const CellsPlan& plan_;
  const Climb& climb_;
  SlidingShared<T>& shared_;
  u32 number_;
  const u8 *original_, *decoded_;  // at the thread's column, in the plan's first row
  double lower_[kSlidingSide][kSlidingSums];
};

// A thread that adds up columns and planes, and judges a window.
template <class T, bool kDeep>
class Judge {
 public:
  H5L_DEVICE Judge(const CellsPlan& plan, const Climb& climb, SlidingShared<T>& shared)
      : plan_(plan), climb_(climb), shared_(shared), number_(warp() - 2 * Sliding::kMakers) {
    const auto strip_of = [this](u32 place) {
      const u32 strip = number_ * kWarpStrips + place;
      return strip < kCellStrips ? strip : kCellStrips - 1;  // the last warp's last lanes have none
    };
    const u32 read = strip_of(lane() % kWarpStrips), own = strip_of(lane() / kStrip);
    read_row_ = read / kRowStrips;
    read_column_ = read % kRowStrips * kStrip;
    has_one_ = number_ * kWarpStrips + lane() / kStrip < kCellStrips;
    row_ = own / kRowStrips;
    column_ = own % kRowStrips * kStrip + lane() % kStrip;
    windows_to_ = unforeseen(lane() / kWarpStrips * kWarpThreads + column_place(0, lane() % kWarpStrips * kStrip));
    windows_from_ = unforeseen(column_place(0, lane()));
    lost_to_ = unforeseen(number_ * kWarpThreads + lane());
    has_windows_ = is_counted(climb.y);
    const u32 step = plan.field.step;
    if (step != 1 && kDeep) planes_left_ = (step - static_cast<u32>(climb.from % step)) % step;
  }

  H5L_DEVICE void run(u32 number) {
    const u64 first = Planes<kDeep>::first(climb_), end = Planes<kDeep>::end(climb_);
    const auto planes = static_cast<u32>(climb_.to - climb_.from);
    H5L_NO_UNROLL for (u64 block = first; block < end; block += kPhases) {
      const u32 turn = number / kPhases;  // of blocks
      H5L_UNROLL for (u32 phase = 0; phase < kPhases; ++phase) {
        const u32 place = kDeep && Sliding::kRing == kPhases ? phase : number % Sliding::kRing;
        double sums[kStrip], windows[kStrip];
        wait_for_round(shared_.made + place, number / Sliding::kRing);
        add_columns(shared_.columns[place], sums);
        tell(shared_.read + place);
        ++number;
        add_planes(phase, sums, windows);
        const u32 plane = static_cast<u32>(block - climb_.from) + phase - kAhead;
        if (plane < planes) judge(plane, windows, shared_.lost[turn % 2][phase]);
      }
      // Two blocks later what is added up here is written over; until then all have met again.
      sync_warps(1, Sliding::kJudges);
      add_lost(block, turn);
    }
    sync_warps(1, Sliding::kJudges);
  }

  // The thread's worst window, below 0 where it has none, and its number in C order.
  double worst = -1;
  H5L_DEVICE u64 place_of_worst(const Extents& own) const {
    const u64 plane = climb_.from + worst_plane_, z = kDeep ? plane - plan_.first[kZ] : 0;
    const u64 y = (kDeep ? climb_.y : plane * kSlidingSide) + row_ - plan_.first[kY];
    return own.join(0, z, y, climb_.x + column_ - plan_.first[kX]);
  }

 private:
  static constexpr u32 kPhases = Planes<kDeep>::kPhases, kAhead = Planes<kDeep>::kAhead;

  // The lane's quantity in four windows: trees of seven columns.
  template <class Columns>
  H5L_DEVICE void add_columns(const Columns& columns, double (&sums)[kStrip]) const {
    constexpr u32 kRead = kStrip + kSlidingReach;
    const double* const from = columns[lane() / kWarpStrips][read_row_];
    double one[kRead], two[kRead - 1];
    H5L_UNROLL for (u32 k = 0; k < kRead; k += 2) {
      const auto pair = *reinterpret_cast<const PairOfDoubles*>(from + column_place(read_row_, read_column_ + k));
      one[k] = pair.first;
      one[k + 1] = pair.second;
    }
    H5L_UNROLL for (u32 k = 0; k < kRead - 1; ++k) two[k] = one[k] + one[k + 1];
    H5L_UNROLL for (u32 k = 0; k < kStrip; ++k) sums[k] = (two[k] + two[k + 2]) + (two[k + 4] + one[k + 6]);
  }

  // The windows that a plane ends: what the block before has of them, and what this one has. In the place of each sum that
  // is needed no more the plane itself is kept; the last one of the block makes sums of these.
  H5L_DEVICE void add_planes(u32 phase, const double (&sums)[kStrip], double (&windows)[kStrip]) {
    H5L_UNROLL for (u32 k = 0; k < kStrip; ++k) {
      if (!kDeep) {
        windows[k] = sums[k];
      } else if (phase != kSlidingReach) {
        upper_[k] = phase == 0 ? sums[k] : upper_[k] + sums[k];
        windows[k] = lower_[k][phase] + upper_[k];
        lower_[k][phase] = sums[k];
      } else {
        windows[k] = sums[k];
        H5L_UNROLL for (u32 i = kSlidingReach; i-- != 0;) {
          const double next = lower_[k][i] + windows[k];
          lower_[k][i] = windows[k];
          windows[k] = next;
        }
      }
    }
  }

  template <class Lost>
  H5L_DEVICE void judge(u32 plane, const double (&windows)[kStrip], Lost& to) {
    // From one quantity in four windows to four quantities in one.
    auto& of_warp = shared_.windows[number_];
    H5L_UNROLL for (u32 k = 0; k < kStrip; k += 2) {
      *reinterpret_cast<PairOfDoubles*>(of_warp[0] + (windows_to_ ^ k)) = {windows[k], windows[k + 1]};
    }
    sync_warp();
    double sums[kSlidingSums];
    H5L_UNROLL for (u32 q = 0; q < kSlidingSums; ++q) sums[q] = of_warp[q][windows_from_];
    const bool is_there = kDeep ? has_windows_ && planes_left_ == 0 : is_counted((climb_.from + plane) * kSlidingSide);
    const double found = lost_in(plan_, sums), lost = is_there ? found : -1.0;
    if (lost > worst) {
      worst = lost;
      worst_plane_ = plane;
    }
    if (kDeep) planes_left_ = planes_left_ == 0 ? plan_.field.step - 1 : planes_left_ - 1;
    to[lost_to_] = lost;
  }

  // Whether the thread's window counts where the climb is at row `y`, and at a multiple of the step along z.
  H5L_DEVICE bool is_counted(u64 y) const {
    const u32 step = plan_.field.step;
    y += row_;
    if (!has_one_ || y < plan_.first[kY] || y >= plan_.end[kY] || column_ >= climb_.columns) return false;
    return step == 1 || (y % step == 0 && (climb_.x + column_) % step == 0);
  }

  // The sums of the cells whose windows the planes of a block ended, each by one warp.
  H5L_DEVICE void add_lost(u64 block, u32 turn) const {
    H5L_NO_UNROLL for (u32 phase = number_; phase < kPhases; phase += Sliding::kJudges) {
      const u64 ending = block + phase, plane = ending - kAhead;
      if (ending < climb_.from + kAhead || plane >= climb_.to) continue;
      double sum = 0;
      u32 windows = 0;
      H5L_UNROLL for (u32 y = 0; y < kSlidingSide; ++y) {
        H5L_UNROLL for (u32 x = 0; x < assess::kWindowColumns; x += kWarpThreads) {
          if (x + lane() >= assess::kWindowColumns) continue;
          const double lost = shared_.lost[turn % 2][phase][y * assess::kWindowColumns + x + lane()];
          windows += lost == -1.0 ? 0 : 1;
          sum += lost < 0 ? 0 : lost;
        }
      }
      sum = sum_of_warp(sum);
      windows = sum_of_warp(windows);
      const u64 above =
          kDeep ? (plane - plan_.first[kZ]) * plan_.rows_of_cells : plane - plan_.first[kY] / kSlidingSide;
      const u64 cell = climb_.cell + above * plan_.columns_of_cells;
      if (lane() == 0) reinterpret_cast<WindowSums*>(plan_.results)[cell] = {static_cast<double>(windows), sum};
    }
  }

  const CellsPlan& plan_;
  const Climb& climb_;
  SlidingShared<T>& shared_;
  const u32 number_;
  u32 read_row_, read_column_;               // of the strip
  bool has_one_;                             // a window
  u32 row_, column_;                         // of it
  u32 windows_to_, windows_from_, lost_to_;  // where the lane's numbers stand in shared memory
  bool has_windows_;                         // in planes that count
  u32 planes_left_ = 0;                      // until one counts
  u32 worst_plane_ = 0;
  // Sums over the last planes of a block, of one to six, or these planes; and sums over the first ones of the next block.
  double lower_[kStrip][kSlidingReach] = {}, upper_[kStrip] = {};
};

template <class T, bool kDeep>
H5L_DEVICE void slide_windows(const CellsPlan& plan) {
  SlidingShared<T>& shared = *reinterpret_cast<SlidingShared<T>*>(shared_memory());
  constexpr u32 kAlong = kDeep ? kZ : kY, kUnit = kDeep ? 1 : kSlidingSide;
  const u64 first = plan.first[kAlong] / kUnit, end = (plan.end[kAlong] - 1) / kUnit + 1;
  const u64 first_climb = first / kClimb, climbs = (end - 1) / kClimb + 1 - first_climb;
  const u64 across = plan.columns_of_cells, down = kDeep ? plan.rows_of_cells : 1;
  const Extents own = extents_of(plan, 0);
  if (thread() < Sliding::kRing) {
    begin_rounds(shared.made + thread(), Sliding::kMakers);
    begin_rounds(shared.read + thread(), Sliding::kJudges);
  }
  sync_block();
  u32 planes = 0;
  double worst = -1;
  u64 worst_at = ~u64{0};
  for (u64 i = block_number(); i < across * down * climbs; i += grid_blocks()) {
    const u64 number = first_climb + i / across / down;
    Climb climb = {};
    climb.from = number * kClimb < first ? first : number * kClimb;
    climb.to = (number + 1) * kClimb < end ? (number + 1) * kClimb : end;
    climb.cell = i % (across * down);
    climb.y = (plan.first[kY] / kSlidingSide + i / across % down) * kSlidingSide;
    const CellPlace place = place_of(plan, climb.cell);
    climb.x = place.first_column;
    climb.columns = static_cast<u32>(place.end_column - place.first_column);
    const auto climb_planes = static_cast<u32>(Planes<kDeep>::end(climb) - Planes<kDeep>::first(climb));
    if (warp() < 2 * Sliding::kMakers) {
      Maker<T, kDeep>(plan, climb, shared).run(planes);
      planes += climb_planes;
      continue;
    }
    Judge<T, kDeep> judge(plan, climb, shared);
    judge.run(planes);
    planes += climb_planes;
    if (judge.worst < worst || judge.worst < 0) continue;
    const u64 at = judge.place_of_worst(own);
    if (judge.worst == worst && worst_at < at) continue;
    worst = judge.worst;
    worst_at = at;
  }
  give_worst<Sliding::kBlockWarps>(plan, own, shared.worst, worst, worst_at);
}

}  // namespace h5lossy::H5L_TARGET
