// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The tables of twins.h for the backends that this machine can run.
#pragma once

#include <string_view>
#include <vector>

#include "runtime/registry.h"
#include "twins.h"

namespace h5lossy {
namespace scalar {
extern const test::Twins twins;
}
#ifdef H5L_HAS_AVX2
namespace avx2 {
extern const test::Twins twins;
}
#endif
#ifdef H5L_HAS_NEON
namespace neon {
extern const test::Twins twins;
}
#endif
#ifdef H5L_HAS_AVX512
namespace avx512 {
extern const test::Twins twins;
}
#endif
}  // namespace h5lossy

namespace h5lossy::test {

inline std::vector<Twins> all_twins() {
  std::vector<Twins> found;
  for (const Backend& backend : backends()) {
    if (!backend.runs_here()) continue;
    const Twins known[] = {
        scalar::twins,
#ifdef H5L_HAS_AVX2
        avx2::twins,
#endif
#ifdef H5L_HAS_NEON
        neon::twins,
#endif
#ifdef H5L_HAS_AVX512
        avx512::twins,
#endif
    };
    for (const Twins& twins : known) {
      if (std::string_view(twins.backend) == backend.name) found.push_back(twins);
    }
  }
  return found;
}

}  // namespace h5lossy::test
