// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The first kernel of Interp's encoder: a thread block per chunk finds out whether the chunk's values have a step of
// their own, and chooses the axes along which interpolation works. The definitions are in codecs/interp/own_step.h and
// choice.h.
#pragma once

#include "codecs/interp/own_step.h"
#include "kernels/codecs/interp_survey.cuh"
#include "kernels/codecs/interp_words.cuh"

namespace h5lossy::H5L_TARGET {
namespace interp {

inline constexpr u32 kChooseThreads = 512, kChooseWarps = kChooseThreads / kWarpThreads;
static_assert(kChooseThreads == kNumbersAtOnce);

struct ChooseShared {
  union {
    SurveyMemory<kChunkGroups> survey;
    u64 fitted[kFitPlaces];  // bits of the values to which a lattice is fitted
  };
  double samples[2 * OwnSamples::kPlaces];
  u32 are_ordinary[2 * OwnSamples::kPlaces / kWarpThreads];
  OwnSamples own;
  double step, packed;
  OwnLattice lattice;
  Products<float> products_of_float;
  Products<double> products_of_double;
  u32 sums[2 * kChooseWarps];
  u32 shares[kAxisSets];
  u64 costs[kAxisSets];
};

}  // namespace interp

template <>
inline constexpr u32 kThreadsWith<interp::ChooseShared> = interp::kChooseThreads;

namespace interp {

template <class T, class Q>
class Chooser {
  using W = Word<T>;

 public:
  H5L_DEVICE Chooser(const StagedPlan& plan, u32 chunk, ChooseShared& shared)
      : plan_(plan),
        shared_(shared),
        dims_(plan.finish.encode.shape.dims),
        values_(values_of(plan, chunk)),
        count_(plan.finish.encode.shape.count) {
    u32 stride = 1;
    H5L_UNROLL for (u32 a = kAxes; a-- > 0;) {
      strides_[a] = stride;
      stride *= dims_[a];
    }
  }

  // Called by the whole thread block; may change the quantizer's step.
  H5L_DEVICE ChunkForm choose(Quantizer& quantizer) {
    u32 mode = plan_.finish.encode.mode;
    if constexpr (kIsLattice<Q>) {
      if (take_own_step(quantizer)) mode |= kExact;
    }
    if ((mode & kAxesMask) == 0) mode |= choose_axes(quantizer, (mode & (kRewritable | kExact)) != 0);
    ChunkForm form = {mode, 1, {}};
    u32 extents[kAxes];
    cut(dims_, mode & kAxesMask, extents);
    H5L_UNROLL for (u32 a = 0; a < kAxes; ++a) {
      form.boxes[a] = (dims_[a] + extents[a] - 1) / extents[a];
      form.tiles *= form.boxes[a];
    }
    return form;
  }

 private:
  using Values = ValuesOf<T, Q>;
  H5L_DEVICE static Values values_of(const StagedPlan& plan, u32 chunk) {
    if constexpr (kHasWords<Q>) {
      return Values(plan, chunk);
    } else {
      return reinterpret_cast<const W*>(raw_of(plan.finish.encode, chunk));
    }
  }

  // Finds some ordinary values, and the step that they may have.
  H5L_DEVICE void find_samples(const Quantizer& quantizer) {
    constexpr u32 places = OwnSamples::kPlaces;
    if (thread() < 2 * places) {
      const u64 place = sample_place(thread() % places + 1, count_) + thread() / places;
      const W bits = place < count_ ? values_[place] : kNoMask<T>;
      shared_.samples[thread()] = static_cast<double>(bit_cast<T>(bits));
      const u32 are_ordinary = ballot(is_ordinary<T>(quantizer, bits));
      if (lane() == 0) shared_.are_ordinary[warp()] = are_ordinary;
    }
    sync_block();
    if (thread() < 2 * places) {
      const double (&samples)[2 * places] = shared_.samples;
      const auto is_there = [&](u32 i) { return (shared_.are_ordinary[i / 32] >> i % 32 & 1) != 0; };
      double largest = 0;
      for (u32 i = 0; i < places; ++i) {
        if (is_there(i) && magnitude(samples[i]) > magnitude(largest)) largest = samples[i];
      }
      // Differences from the largest value, and between neighbours.
      const auto is_number = [&](u32 i) { return is_there(i) && is_there(i % places); };
      const auto number_of = [&](u32 i) {
        return magnitude(subtract(samples[i], i < places ? largest : samples[i - places]));
      };
      const double own = number_of(thread());
      u32 place = 0, found = 0;
      for (u32 i = 0; i < 2 * places; ++i) {
        if (!is_number(i)) continue;
        ++found;
        const double other = number_of(i);
        place += other < own || (other == own && i < thread()) ? 1 : 0;
      }
      if (is_number(thread())) shared_.own.numbers[place] = own;
      if (thread() == 0) {
        shared_.own.numbers[found] = magnitude(largest);
        shared_.own.count = found + 1;
        shared_.own.largest = largest;
        shared_.own.half_ulp = half_ulp(static_cast<T>(largest));
      }
    }
    sync_block();
    find_step(coarse_step(shared_.own, quantizer.step));
    if (thread() == 0) shared_.packed = packed_step<T>(shared_.own, quantizer.step);
    sync_block();
  }

  // Finds the step of the samples; it is left in shared memory.
  H5L_DEVICE void find_step(double least) {
    sync_block();
    if (thread() == 0) shared_.step = own_step_of(shared_.own, least, false);
    sync_block();
  }

  // Thread 0 calls find(), which returns the lattice.
  template <class F>
  H5L_DEVICE bool take_lattice(Quantizer& quantizer, W fill, F find) {
    sync_block();
    if (thread() == 0) shared_.lattice = find();
    sync_block();
    return take_found(quantizer, fill);
  }

  H5L_DEVICE bool take_found(Quantizer& quantizer, W fill) {
    const OwnLattice own = shared_.lattice;
    if (!are_points(quantizer, own, fill)) return false;
    interp::take_lattice<T>(own, quantizer);
    quantizer.is_exact = true;
    return true;
  }

  H5L_DEVICE bool take_packed(Quantizer& quantizer, W fill) {
    if (shared_.packed == 0) return false;
    sync_block();
    for (u32 n = thread(); n < kFitPlaces; n += kChooseThreads) {
      shared_.fitted[n] = values_[sample_place(n + 1, count_)];
    }
    u32 n = 0;  // places are asked for in order
    const auto bits_at = [&](u64) { return static_cast<W>(shared_.fitted[n++]); };
    const auto fit = [&] { return fitted_lattice<T>(quantizer, shared_.own, shared_.packed, count_, bits_at); };
    if (take_lattice(quantizer, fill, fit)) return true;
    n = 0;
    sync_block();
    if (thread() == 0) {
      shared_.lattice = {};
      shared_products() = products<T>(quantizer, shared_.own, shared_.packed, count_, bits_at);
    }
    sync_block();
    find_products(quantizer);
    return take_found(quantizer, fill);
  }

  // Finds the first step that has an offset for all samples, and the least number for which it has one: a thread per
  // number.
  H5L_DEVICE void find_products(const Quantizer& quantizer) {
    const auto bits_at = [&](u64 place) { return values_[place]; };
    const Products<T> found = shared_products();
    if (!found.exist()) return;
    u64 looks = 0;
    H5L_NO_UNROLL for (u32 i = 0; i < kProductSteps; ++i) {
      const T step = found.step(i);
      if (step == 0) continue;
      H5L_NO_UNROLL for (double first = found.first; first <= found.last; first += kChooseThreads) {
        const double own = first + thread();
        OffsetRange range = offset_range(found.line.origin, step, own);
        bool is_left = own <= found.last;
        u32 places = 0;
        if (is_left) {
          visit_packed<T>(
              quantizer, found.line, count_, bits_at,
              [&](double x, double half, double number) { narrow(range, x, half, step, own + number); },
              [&] {
                places += kChecked;
                return is_left = has_offset<T>(range);
              });
        }
        looks += sum_over_block<kChooseWarps>(places, shared_.sums);
        if (!any_in_block(is_left)) {
          if (looks > kMostLooks) return;
          continue;
        }
        const u32 are_left = ballot(is_left);
        if (lane() == 0) shared_.sums[warp()] = are_left;
        sync_block();
        u32 place = 0;
        while (shared_.sums[place] == 0) ++place;
        if (warp() == place && is_left && (are_left & lanes_below()) == 0) {
          shared_.lattice = {-static_cast<double>(step), static_cast<double>(offset_of<T>(range))};
        }
        sync_block();
        return;
      }
    }
  }

  H5L_DEVICE Products<T>& shared_products() {
    if constexpr (sizeof(T) == 4) {
      return shared_.products_of_float;
    } else {
      return shared_.products_of_double;
    }
  }

  H5L_DEVICE bool are_points(const Quantizer& quantizer, const OwnLattice& own, W fill) {
    if (!own.exists() || !is_own_step<T>(own.step(), quantizer.step)) return false;
    constexpr u32 at_once = 8;
    constexpr u32 step = at_once * kChooseThreads;
    PointCounts counts;
    H5L_NO_UNROLL for (u32 first = 0; first < count_; first += step) {
      u32 sums[2] = {};  // ordinary values, and those that are no lattice points
      H5L_NO_UNROLL for (u32 k = 0; k < at_once; ++k) {
        const u32 i = first + k * kChooseThreads + thread();
        if (i >= count_ || !is_ordinary<T>(quantizer, values_[i])) continue;
        ++sums[0];
        sums[1] += number_of<T>(own, fill, values_[i]) == kNoMask<T> ? 1 : 0;
      }
      sum_over_block<kChooseWarps>(sums, shared_.sums);
      counts = {count_ - first < step ? count_ : first + step, counts.ordinary + sums[0], counts.others + sums[1]};
      if (!counts.template may_be_worth_it<T>(own, quantizer.step, count_)) return false;
    }
    return true;
  }

  H5L_DEVICE bool take_step(Quantizer& quantizer, W fill) {
    H5L_NO_UNROLL for (u32 i = 0; i < kStepCandidates && is_own_step<T>(shared_.step, quantizer.step); ++i) {
      const T step = step_candidate<T>(shared_.step, i), inverse = T{1} / step;
      if (static_cast<double>(step) < quantizer.step || !are_bins(fill, step, inverse)) continue;
      quantizer.step = static_cast<double>(step);
      quantizer.inverse_step = static_cast<double>(inverse);
      quantizer.is_exact = true;
      return true;
    }
    return false;
  }

  H5L_DEVICE bool take_own_step(Quantizer& quantizer) {
    const double least = quantizer.step;
    find_samples(quantizer);
    const W fill = quantizer.has_fill ? static_cast<W>(quantizer.fill_bits) : ~W{0};
    const bool is_packed_first = is_larger(shared_.packed, shared_.step);
    if (is_packed_first && take_packed(quantizer, fill)) return true;
    if (take_step(quantizer, fill)) return true;
    if (take_lattice(quantizer, fill, [&] { return decimal_lattice(shared_.step, least); })) return true;
    const auto bits_at = [&](u64 place) { return static_cast<W>(values_[place]); };
    const auto decimals = [&] { return sampled_decimals<T>(quantizer, shared_.own.half_ulp, count_, bits_at); };
    if (take_lattice(quantizer, fill, decimals)) return true;
    if (!is_packed_first && take_packed(quantizer, fill)) return true;
    if (coarse_step(shared_.own, least) <= least) return false;
    find_step(least);
    return take_step(quantizer, fill);
  }

  H5L_DEVICE bool are_bins(W fill, T step, T inverse) const {
    constexpr u32 at_once = 8;
    H5L_NO_UNROLL for (u32 first = 0; first < count_; first += at_once * kChooseThreads) {
      bool are_fine = true;
      H5L_UNROLL for (u32 k = 0; k < at_once; ++k) {
        const u32 i = first + k * kChooseThreads + thread();
        if (i < count_) are_fine = are_fine && is_own_bin<T>(fill, step, inverse, values_[i]);
      }
      if (any_in_block(!are_fine)) return false;
    }
    return true;
  }

  H5L_DEVICE u32 choose_axes(const Quantizer& quantizer, bool is_rewritable) {
    const AxisCandidates candidates = candidates_of(dims_);
    if (candidates.count == 0) return axis_bit(kAxes - 1);
    if (candidates.count == 1) return candidates.axes[0];
    u32 allowed = ~0u;
    if constexpr (kHasWords<Q>) {
      survey(AbsolutePositions<T>(lattice_of_numbers<T>(quantizer), false));
    } else if constexpr (kIsLattice<Q>) {
      const Lattice<T> lattice = lattice_of<T>(quantizer);
      if (!is_rewritable) allowed = recognise_axes(lattice, candidates);
      survey(AbsolutePositions<T>(lattice, !is_rewritable));
    } else {
      survey(PointwisePositions<T>(blocks::folded_quantizer<T>(quantizer)));
    }
    if (warp() < candidates.count) {
      const Survey& found = shared_.survey.survey;
      u32 extents[kAxes], unused;
      cut(dims_, candidates.axes[warp()], extents);
      const u64 interpolation = interpolation_cost_by_warp(found, extents, candidates.axes[warp()]);
      const u64 lorenzo = lorenzo_cost_by_warp(found, extents, unused);
      if (lane() == 0) shared_.costs[warp()] = cost_of_value(found, extents, interpolation, lorenzo);
    }
    sync_block();
    u64 least = ~u64{0};
    u32 best = 0;
    for (u32 c = 0; c < candidates.count; ++c) {
      if ((allowed >> candidates.axes[c] & 1) == 0 || shared_.costs[c] >= least) continue;
      least = shared_.costs[c];
      best = candidates.axes[c];
    }
    return best;
  }

  template <class Positions>
  H5L_DEVICE void survey(const Positions& positions) {
    WarpSurveyor<T, Positions, kChooseWarps, Values> surveyor(values_, dims_, strides_, positions, kAxesMask);
    surveyor.run(kChunkGroups, shared_.survey);
  }

  H5L_DEVICE bool fine_point(const Lattice<T>& lattice, u64 place, i32& fine) const {
    return fine_point_at(lattice, bit_cast<T>(values_[place]), fine);
  }

  // A warp per set of axes, a thread per place.
  H5L_DEVICE u32 recognise_axes(const Lattice<T>& lattice, const AxisCandidates& candidates) {
    if (thread() < kAxisSets) shared_.shares[thread()] = 0;
    sync_block();
    H5L_NO_UNROLL for (u32 c = warp(); c < candidates.count; c += kChooseWarps) {
      const AxisSampler sampler(dims_, candidates.axes[c]);
      u32 samples = 0, matches = 0;
      H5L_NO_UNROLL for (u32 first = 0; first < kAxisPlaces && samples < kAxisSamples; first += kWarpThreads) {
        const AxisSample sample = sampler.template sample<T>(
            first + lane(), [&](u64 at, i32& fine) { return fine_point(lattice, at, fine); });
        const u32 are_samples = ballot(sample != AxisSample::none);
        const bool counts = samples + ones(are_samples & lanes_below()) < kAxisSamples;
        matches += ones(ballot(counts && sample == AxisSample::match));
        samples += ones(are_samples);
      }
      samples = samples < kAxisSamples ? samples : kAxisSamples;
      if (lane() == 0) shared_.shares[candidates.axes[c]] = axis_share(matches, samples);
    }
    sync_block();
    return axes_of_shares(shared_.shares);
  }

  const StagedPlan& plan_;
  ChooseShared& shared_;
  const u32 (&dims_)[kAxes];
  u32 strides_[kAxes];
  const Values values_;
  const u32 count_;
};

template <class T, class Q>
H5L_DEVICE void choose(const StagedPlan& plan) {
  auto& shared = *reinterpret_cast<ChooseShared*>(shared_memory());
  H5L_NO_UNROLL for (u32 chunk = block_number(); chunk < plan.finish.encode.chunks; chunk += grid_blocks()) {
    Quantizer quantizer = quantizer_of(plan.finish.encode, chunk);
    ChunkForm form = {};
    if (!is_skipped<kHasWords<Q>>(quantizer)) form = Chooser<T, Q>(plan, chunk, shared).choose(quantizer);
    sync_block();
    if (thread() != 0) continue;
    plan.quantizers[chunk] = quantizer;
    plan.forms[chunk] = form;
  }
}

}  // namespace interp
}  // namespace h5lossy::H5L_TARGET
