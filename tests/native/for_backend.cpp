// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The main program of tests that are compiled once for each backend; its argument is the backend's name. It is compiled
// without the backend's instructions, which a compiler uses anywhere in a function that may have them.

#include "for_backend.h"

#include <string_view>

#include "check.h"
#include "runtime/registry.h"

int main(int, char** arguments) {
  using namespace h5lossy;
  for (const Backend& backend : backends()) {
    if (backend.name != std::string_view(arguments[1])) continue;
    if (!backend.runs_here()) return test::kSkipped;
    test::check_backend();
    return 0;
  }
  return 1;
}
