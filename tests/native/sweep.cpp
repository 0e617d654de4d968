// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// All float32 values (2^32 bit patterns) through h5l_encode and h5l_decode: the promise holds for each, in exact
// arithmetic, and encoding the decoded values gives the same payload. tests/test_exhaustive.py runs it for several
// codecs, and several bounds of each kind.
//
// usage: sweep KIND BOUND [FILL_BITS] [--codec CODEC] [--mode MODE] [--first HEX] [--last HEX] [-j THREADS]
//   KIND       absolute, pointwise-relative, range-relative, or lossless (with 0 as BOUND)
//   FILL_BITS  the fill value's bits, in hexadecimal
//   --codec  by name or number, "auto" too (default: pfpl)
//   --mode   the codec's, in any base that C reads (default: 0)
//   --first, --last  patterns to begin and end with, both included
//
// A chunk has 2^20 consecutive patterns, in three dimensions. A range-relative bound is checked against the range of
// the chunk's own values.

#include <algorithm>
#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "check.h"
#include "codecs/bounds.h"
#include "methods.h"
#include "promise.h"

namespace h5lossy::test {
namespace {

constexpr std::uint32_t kSlices = 64, kRows = 128, kColumns = 128;
constexpr std::uint64_t kChunkValues = kSlices * kRows * kColumns;
constexpr const char* kKinds[] = {"absolute", "pointwise-relative", "range-relative", "lossless"};

struct Options {
  h5l_params params = {};
  std::uint64_t first = 0;
  std::uint64_t last = 0xFFFFFFFF;
  unsigned threads = 1;
  std::string name;  // the request, in words
};

struct Totals {
  std::uint64_t values = 0;
  std::uint64_t exceptions = 0;  // values within the reach of the bins that have none
  double worst = 0;              // largest error as a share of the bound
};

// Whether the errors of a chunk are within bounds, for nearly all of its values in a loop that compilers turn into
// vector code. Those on which it does not decide, because they are special or close to the limit, are left to broken().
class BoundChecker {
 public:
  BoundChecker(const Promise& promise, const std::vector<std::uint32_t>& values,
               const std::vector<std::uint32_t>& decoded)
      : promise_(promise), values_(values), decoded_(decoded) {}

  // Returns the largest error as a share of the bound.
  double run() {
    constexpr std::size_t step = 64;
    for (std::size_t begin = 0; begin < values_.size(); begin += step) {
      const std::size_t end = std::min(begin + step, values_.size());
      const bool decided =
          promise_.kind == H5L_BOUND_POINTWISE_RELATIVE ? decide<true>(begin, end) : decide<false>(begin, end);
      if (decided) continue;
      for (std::size_t i = begin; i < end; ++i) look_closely(i);
    }
    return worst_;
  }

 private:
  // What an error has to be below to need no closer look: the products here round.
  [[nodiscard]] double limit() const {
    constexpr double margin = 1 - 0x1p-50;
    switch (promise_.kind) {
      case H5L_BOUND_ABSOLUTE:
        return promise_.bound;
      case H5L_BOUND_POINTWISE_RELATIVE:
        return promise_.bound * margin;
      case H5L_BOUND_RANGE_RELATIVE:
        return promise_.bound * (promise_.max - promise_.min) * margin;
      default:
        return 0;
    }
  }

  template <bool relative>
  bool decide(std::size_t begin, std::size_t end) {
    const double limit = limit_, smallest = static_cast<double>(std::numeric_limits<float>::min());
    const auto fill = static_cast<std::uint32_t>(promise_.fill_bits);
    const bool has_fill = promise_.has_fill;
    double worst = worst_;
    int doubtful = 0;
    for (std::size_t i = begin; i < end; ++i) {
      const double x = static_cast<double>(std::bit_cast<float>(values_[i]));
      const double y = static_cast<double>(std::bit_cast<float>(decoded_[i]));
      const double error = std::abs(x - y);
      const double smaller = std::abs(x) < std::abs(y) ? std::abs(x) : std::abs(y);
      const double unit = relative ? smaller : 1.0;
      const bool same = values_[i] == decoded_[i];
      const bool turned = has_fill & (decoded_[i] == fill || values_[i] == fill);
      const bool close = (error < limit * unit) & (!relative | (smaller >= smallest)) & !turned;  // false for NaN
      doubtful |= static_cast<int>(!(same | close));
      const double share = same ? 0 : error / (limit * unit);
      worst = share > worst ? share : worst;
    }
    if (doubtful == 0) worst_ = worst;
    return doubtful == 0;
  }

  void look_closely(std::size_t i) {
    const char* const rule = broken<float>(promise_, values_[i], decoded_[i]);
    CHECK(rule == nullptr, "%s: 0x%08x came back as 0x%08x (range %.9g to %.9g)", rule, values_[i], decoded_[i],
          promise_.min, promise_.max);
    if (values_[i] == decoded_[i] || is_zero<float>(values_[i])) return;
    const double x = static_cast<double>(std::bit_cast<float>(values_[i]));
    const double y = static_cast<double>(std::bit_cast<float>(decoded_[i]));
    const double unit = promise_.kind == H5L_BOUND_POINTWISE_RELATIVE ? std::min(std::abs(x), std::abs(y)) : 1;
    worst_ = std::max(worst_, std::abs(x - y) / (limit_ * unit));
  }

  Promise promise_;
  const std::vector<std::uint32_t>& values_;
  const std::vector<std::uint32_t>& decoded_;
  double limit_ = limit();
  double worst_ = 0;
};

// Values within the reach of the bins that have none, by the very functions that the encoder uses: a number to report,
// not a check.
class Exceptions {
 public:
  Exceptions(const h5l_params& params, const Promise& promise) {
    Quantizer quantizer;
    quantizer.has_fill = promise.has_fill;
    quantizer.fill_bits = promise.fill_bits;
    quantizer.kind = static_cast<BoundKind>(params.bound_kind);
    if (params.bound_kind == H5L_BOUND_POINTWISE_RELATIVE) {
      quantizer = scalar::make_pointwise<float>(quantizer, params.bound);
      pointwise_ = scalar::pointwise_quantizer<float>(quantizer);
    } else if (params.bound_kind != H5L_BOUND_LOSSLESS) {
      const bool is_range = params.bound_kind == H5L_BOUND_RANGE_RELATIVE;
      quantizer = scalar::make_absolute<float>(
          quantizer, is_range ? h5l_absolute_bound(params.bound, promise.min, promise.max) : params.bound,
          params.codec == H5L_CODEC_AUTO ? StepRule{} : codec_entry(params.codec)->codec->step_rule);
      absolute_ = scalar::absolute_quantizer<float>(quantizer);
      reach_ = std::fmin(reach_, scalar::kBinLimit<float> * absolute_.step);
    }
    kind_ = quantizer.kind;
  }

  // Values that came back otherwise have a bin.
  [[nodiscard]] std::uint64_t count(const std::vector<std::uint32_t>& values,
                                    const std::vector<std::uint32_t>& decoded) const {
    std::uint64_t found = 0;
    if (kind_ == BoundKind::lossless) return found;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (values[i] != decoded[i] || !(std::abs(std::bit_cast<float>(values[i])) < reach_)) continue;
      found += has_bin(values[i]) ? 0 : 1;
    }
    return found;
  }

 private:
  [[nodiscard]] bool has_bin(std::uint32_t bits) const {
    u32 bin;
    if (kind_ != BoundKind::pointwise_relative) return scalar::quantize(absolute_, bits, bin);
    return bits == 0 || scalar::quantize(pointwise_, bits, bin);
  }

  BoundKind kind_;
  float reach_ = std::numeric_limits<float>::infinity();
  scalar::AbsoluteQuantizer<float> absolute_ = {};
  scalar::PointwiseQuantizer<float> pointwise_ = {};
};

class Worker {
 public:
  explicit Worker(const Options& options) : options_(options) {}

  void sweep(std::uint64_t first, std::uint64_t count) {
    values_.resize(count);
    for (std::uint64_t i = 0; i < count; ++i) values_[i] = static_cast<std::uint32_t>(first + i);
    decoded_.resize(count);
    const std::size_t raw_bytes = count * sizeof(float);
    const std::size_t frame_bytes = encode_into(options_.params, values_, frame_);
    h5l_message message;
    const h5l_status status = h5l_decode(frame_.data(), frame_bytes, decoded_.data(), raw_bytes, &message);
    CHECK(status == H5L_OK, "from 0x%08" PRIx64 ": %s", first, message.text);

    Promise promise;
    promise.kind = options_.params.bound_kind;
    promise.bound = options_.params.bound;
    promise.has_fill = options_.params.has_fill != 0;
    promise.fill_bits = options_.params.fill_bits;
    if (promise.kind == H5L_BOUND_RANGE_RELATIVE) measure_range<float>(values_, false, promise);
    bound_of_range_ = h5l_absolute_bound(promise.bound, promise.min, promise.max);
    totals_.worst = std::max(totals_.worst, BoundChecker(promise, values_, decoded_).run());
    totals_.exceptions += Exceptions(options_.params, promise).count(values_, decoded_);
    totals_.values += count;
    check_again(first, frame_bytes);
  }

  [[nodiscard]] const Totals& totals() const { return totals_; }

 private:
  std::size_t encode_into(const h5l_params& params, const std::vector<std::uint32_t>& values, Bytes& frame) {
    const std::size_t raw_bytes = values.size() * sizeof(float);
    frame.resize(raw_bytes + 40);
    std::size_t frame_bytes = 0;
    h5l_message message;
    const h5l_status status =
        h5l_encode(&params, values.data(), raw_bytes, frame.data(), frame.size(), &frame_bytes, &message);
    CHECK(status == H5L_OK, "%s", message.text);
    return frame_bytes;
  }

  // The range of decoded values differs, so the bound that was used is requested as an absolute one.
  void check_again(std::uint64_t first, std::size_t frame_bytes) {
    h5l_params params = options_.params;
    h5l_frame_info info;
    CHECK(h5l_inspect(frame_.data(), frame_bytes, &info, nullptr) == H5L_OK, "from 0x%08" PRIx64, first);
    const bool is_resolved = params.bound_kind == H5L_BOUND_RANGE_RELATIVE;
    if (is_resolved) {
      if (info.codec == H5L_CODEC_STORED || info.bound_kind == H5L_BOUND_LOSSLESS) return;
      params.bound_kind = H5L_BOUND_ABSOLUTE;
      params.bound = bound_of_range_;
    }
    const std::size_t again_bytes = encode_into(params, decoded_, again_);
    if (!repeats_its_frames(params.codec, params.mode)) {
      decoded_again_.resize(decoded_.size());
      CHECK(
          h5l_decode(again_.data(), again_bytes, decoded_again_.data(), 4 * decoded_again_.size(), nullptr) == H5L_OK &&
              decoded_again_ == decoded_,
          "from 0x%08" PRIx64 ": other values where they are encoded again", first);
      return;
    }
    const std::size_t begin = is_resolved ? info.header_bytes : 0;
    CHECK(again_bytes == frame_bytes &&
              std::memcmp(again_.data() + begin, frame_.data() + begin, frame_bytes - begin) == 0,
          "from 0x%08" PRIx64 ": %zu bytes, encoded again %zu", first, frame_bytes, again_bytes);
  }

  const Options& options_;
  std::vector<std::uint32_t> values_, decoded_, decoded_again_;
  Bytes frame_, again_;
  double bound_of_range_ = 0;
  Totals totals_;
};

Totals sweep(const Options& options) {
  Totals totals;
  std::mutex mutex;
  std::atomic<std::uint64_t> next{options.first};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < options.threads; ++t) {
    threads.emplace_back([&] {
      Worker worker(options);
      for (std::uint64_t first = next.fetch_add(kChunkValues); first <= options.last;
           first = next.fetch_add(kChunkValues)) {
        worker.sweep(first, std::min(kChunkValues, options.last - first + 1));
        if (first % (kChunkValues << 8) == 0) {
          const double done =
              static_cast<double>(first - options.first) / static_cast<double>(options.last - options.first + 1);
          std::fprintf(stderr, "\r%s: %3.0f %%", options.name.c_str(), 100 * done);
        }
      }
      const std::lock_guard lock(mutex);
      totals.values += worker.totals().values;
      totals.exceptions += worker.totals().exceptions;
      totals.worst = std::max(totals.worst, worker.totals().worst);
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::fprintf(stderr, "\r%*s\r", static_cast<int>(options.name.size()) + 8, "");
  return totals;
}

[[noreturn]] void usage() {
  std::fprintf(stderr,
               "usage: sweep absolute|pointwise-relative|range-relative|lossless BOUND [FILL_BITS] [--codec CODEC] "
               "[--mode MODE] [--first HEX] [--last HEX] [-j THREADS]\n");
  std::exit(2);
}

std::uint32_t parse_codec(const std::string& text) {
  if (text == "auto") return H5L_CODEC_AUTO;
  for (const CodecEntry& entry : backends().front().codecs) {
    if (text == entry.name || text == std::to_string(entry.number)) return entry.number;
  }
  usage();
}

std::string codec_name_of(std::uint32_t codec, std::uint32_t mode) {
  const std::string name = codec == H5L_CODEC_AUTO ? "auto" : codec_name(codec);
  return mode == 0 ? name : name + " in mode " + std::to_string(mode);
}

Options parse(const std::vector<std::string>& arguments) {
  const std::string_view names[] = {"--codec", "--mode", "--first", "--last", "-j"};
  Options options;
  std::vector<std::string> words;
  std::uint32_t codec = H5L_CODEC_PFPL, mode = 0;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (std::find(std::begin(names), std::end(names), arguments[i]) == std::end(names)) {
      words.push_back(arguments[i]);
      continue;
    }
    if (i + 1 == arguments.size()) usage();
    const char* const value = arguments[i + 1].c_str();
    if (arguments[i] == "--codec") codec = parse_codec(value);
    if (arguments[i] == "--mode") mode = static_cast<std::uint32_t>(std::strtoul(value, nullptr, 0));
    if (arguments[i] == "--first") options.first = std::strtoull(value, nullptr, 16);
    if (arguments[i] == "--last") options.last = std::strtoull(value, nullptr, 16);
    if (arguments[i] == "-j") options.threads = static_cast<unsigned>(std::strtoul(value, nullptr, 10));
    ++i;
  }
  if (words.size() < 2 || words.size() > 3 || options.threads == 0) usage();
  if (options.first > options.last || options.last > 0xFFFFFFFF) usage();
  const auto* const kind = std::find(std::begin(kKinds), std::end(kKinds), words[0]);
  if (kind == std::end(kKinds)) usage();
  options.params = make_params(static_cast<std::uint32_t>(kind - std::begin(kKinds)),
                               std::strtod(words[1].c_str(), nullptr), sizeof(float));
  options.params.no_checksum = 1;  // takes time, and other tests see to it
  options.params.codec = codec;
  options.params.mode = mode;
  set_shape(options.params, {kSlices, kRows, kColumns});  // a shorter chunk has one dimension
  options.name = words[0] + " " + words[1];
  if (options.params.codec != H5L_CODEC_PFPL) options.name = codec_name_of(codec, mode) + ", " + options.name;
  if (words.size() == 3) {
    options.params.has_fill = 1;
    options.params.fill_bits = std::strtoull(words[2].c_str(), nullptr, 16);
    options.name += ", fill value " + words[2];
  }
  return options;
}

}  // namespace
}  // namespace h5lossy::test

int main(int count, char** arguments) {
  using namespace h5lossy::test;
  const Options options = parse({arguments + 1, arguments + count});
  const Totals totals = sweep(options);
  std::printf("%s: %" PRIu64 " values, worst error %.9f of the bound, %" PRIu64 " exceptions\n", options.name.c_str(),
              totals.values, totals.worst, totals.exceptions);
}
