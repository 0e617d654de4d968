// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Without a payload checksum, or with one that an attacker has recomputed, a damaged frame gives an error or other
// values, without accesses outside the buffers, allocations beyond the workspace, or a crash. Buffers end at guard
// pages. The library that only decodes gives the same errors and values.

#include <algorithm>

#include "check.h"
#include "frames.h"
#include "guarded_memory.h"
#include "h5lossy_decode.h"
#include "random.h"
#include "samples.h"
#include "seal.h"

namespace h5lossy::test {
namespace {

constexpr std::size_t kMostBytes = 1 << 20;

class Damage {
 public:
  // Decodes all values, and some of them, as many as the frame claims to hold.
  void decode(const Bytes& damaged) {
    const std::span<std::uint8_t> frame = frame_memory_.at_end(damaged.size());
    std::copy(damaged.begin(), damaged.end(), frame.begin());
    h5l_frame_info info;
    h5l_message message;
    const h5l_status opened = h5l_inspect(frame.data(), frame.size(), &info, &message);
    h5ld_info own;
    check_equal(opened, h5ld_inspect(frame.data(), frame.size(), &own));
    if (!expected(opened)) return;
    if (info.raw_bytes > kMostBytes) return;
    const std::span<std::uint8_t> raw = raw_memory_.at_end(info.raw_bytes);
    const h5l_status status = h5l_decode(frame.data(), frame.size(), raw.data(), raw.size(), &message);
    const std::span<std::uint8_t> same = own_memory_.at_end(info.raw_bytes);
    check_equal(status, h5ld_decode(frame.data(), frame.size(), H5LD_AS_STORED, same.data(), same.size()));
    if (expected(status)) CHECK(std::equal(raw.begin(), raw.end(), same.begin()), "the decoder has other values");

    const std::uint64_t values = info.raw_bytes / info.value_bytes;
    const std::uint64_t first = random_.below(values + 1), count = random_.below(values - first + 1);
    const std::span<std::uint8_t> part = raw_memory_.at_end(count * info.value_bytes);
    expected(h5l_decode_range(frame.data(), frame.size(), first, count, part.data(), part.size(), &message));
  }

  // Flips each bit by itself, or every fifth bit.
  void flip_bits(const Sample& sample) {
    Bytes frame = sample.frame;
    for (std::size_t bit = 0; bit < 8 * frame.size(); bit += kCaseStep) {
      frame[bit / 8] ^= static_cast<std::uint8_t>(1u << bit % 8);
      decode(frame);
      frame[bit / 8] ^= static_cast<std::uint8_t>(1u << bit % 8);
    }
  }

  // Changes a few bytes anywhere, sometimes truncates or extends the frame, and sets both checksums right.
  void change_and_seal(const Sample& sample, int times) {
    for (; times > 0; --times) {
      Bytes frame = sample.frame;
      if (random_.one_in(8)) frame.resize(random_.below(frame.size() + 64));
      for (std::uint64_t changes = 1 + random_.below(4); changes > 0 && !frame.empty(); --changes) {
        const std::size_t reach = random_.one_in(2) ? std::min<std::size_t>(64, frame.size()) : frame.size();
        const std::size_t at = random_.one_in(3) ? frame.size() - 1 - random_.below(reach) : random_.below(reach);
        frame[at] = static_cast<std::uint8_t>(random_.next());
      }
      seal(frame);
      decode(frame);
    }
  }

  [[nodiscard]] int decoded() const { return decoded_; }
  [[nodiscard]] int refused() const { return refused_; }

 private:
  static void check_equal(h5l_status status, h5ld_status own) {
    CHECK(int{status} == int{own}, "%s, and of the decoder: %s", h5l_status_name(status), h5ld_status_text(own));
  }

  bool expected(h5l_status status) {
    const bool ok = status == H5L_OK;
    CHECK(ok || status == H5L_CORRUPT || status == H5L_TRUNCATED || status == H5L_UNSUPPORTED, "%s",
          h5l_status_name(status));
    ++(ok ? decoded_ : refused_);
    return ok;
  }

  Random random_{8};
  GuardedMemory frame_memory_{1 << 16};
  GuardedMemory raw_memory_{kMostBytes};
  GuardedMemory own_memory_{kMostBytes};
  int decoded_ = 0;
  int refused_ = 0;
};

}  // namespace
}  // namespace h5lossy::test

int main() {
  using namespace h5lossy::test;
  for (const bool checksum : {false, true}) {
    for (const Sample& sample : make_all_samples(600, checksum)) {
      Damage damage;
      if (!checksum) damage.flip_bits(sample);  // else the checksum sees it, as every_damage_is_seen shows
      damage.change_and_seal(sample, cases(1500));
      CHECK(damage.refused() > cases(500) && (checksum || damage.decoded() > cases(500)), "%s: %d decoded, %d refused",
            sample.name.c_str(), damage.decoded(), damage.refused());
    }
    Damage damage;
    for (const Sample& sample : make_all_samples(4096, checksum)) damage.change_and_seal(sample, cases(300));
  }
}
