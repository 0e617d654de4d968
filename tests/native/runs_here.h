// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// For tests that are compiled once for each backend.
#pragma once

#include <string_view>

#include "runtime/registry.h"

namespace h5lossy::test {

inline bool runs_here(std::string_view name) {
  for (const Backend& backend : backends()) {
    if (backend.name == name) return backend.runs_here();
  }
  return false;
}

}  // namespace h5lossy::test
