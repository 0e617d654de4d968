// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Caches the bins of the last few rules for all threads.

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>

#include "chunk/word_tables.h"

namespace h5lossy {

const MadeBins* bins_of(const BinRule& rule, KeptBins& kept) {
  struct Entry {
    BinRule rule;
    KeptBins made;
  };
  static std::mutex mutex;
  static std::array<Entry, 8> entries;  // the latest first
  {
    const std::lock_guard lock(mutex);
    const auto found = std::find_if(entries.begin(), entries.end(),
                                    [&](const Entry& one) { return one.made != nullptr && one.rule == rule; });
    if (found != entries.end()) {
      std::rotate(entries.begin(), found, found + 1);
      kept = entries.front().made;
      return kept.get();
    }
  }
  const auto made = std::make_shared<MadeBins>();
  if (!make_bins(rule, *made)) return nullptr;
  kept = made;
  const std::lock_guard lock(mutex);
  std::rotate(entries.begin(), entries.end() - 1, entries.end());
  entries.front() = {rule, kept};
  return kept.get();
}

}  // namespace h5lossy
