// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The tables of twins.h for the backends that this machine can run.
#pragma once

#include <string_view>
#include <vector>

#include "runtime/registry.h"
#include "twins.h"

namespace h5lossy {
#define H5L_BACKEND(name, runs_here) \
  namespace name {                   \
  extern const test::Twins twins;    \
  }
#include "runtime/backends.def"
}  // namespace h5lossy

namespace h5lossy::test {

inline std::vector<Twins> all_twins() {
  std::vector<Twins> found;
  for (const Backend& backend : backends()) {
    if (!backend.runs_here()) continue;
    const Twins known[] = {
#define H5L_BACKEND(name, runs_here) name::twins,
#include "runtime/backends.def"
    };
    for (const Twins& twins : known) {
      if (std::string_view(twins.backend) == backend.name) found.push_back(twins);
    }
  }
  return found;
}

}  // namespace h5lossy::test
