// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Chooses the backend that a process uses.
#pragma once

#include <cstring>

#include "frame/message.h"
#include "h5lossy.h"
#include "platform/platform.h"

namespace h5lossy {

#if defined(__x86_64__)
// The instruction sets that native/CMakeLists.txt enables for each backend. __builtin_cpu_supports also checks that the
// operating system saves the registers.
bool has_avx2();
bool has_avx512();
#endif
inline bool runs_everywhere() { return true; }

// Chooses the backend that H5LOSSY_BACKEND names, or the first one that runs here and passes its test. A backend has a
// name and runs_here(); test(backend, why) returns a status.
template <class Backend, std::size_t kCount, class Test>
h5l_status choose_among(const Backend (&backends)[kCount], Test test, const Backend*& chosen, const Message& why) {
  constexpr char variable[] = "H5LOSSY_BACKEND";
  const platform::Variable set(variable);
  const char* const requested = set.text();
  const bool any = requested == nullptr;
  h5l_status status = H5L_OK;
  for (const Backend& backend : backends) {
    if (!any && std::strcmp(requested, backend.name) != 0) continue;
    if (!backend.runs_here()) {
      if (any) continue;
      return why.fail(H5L_INVALID_ARGUMENT, "%s is \"%s\", which this machine cannot run; unset it", variable,
                      requested);
    }
    status = test(backend, why);
    if (status == H5L_OK) chosen = &backend;
    if (status == H5L_OK || !any) return status;
  }
  if (status != H5L_OK) return status;
  return why.fail(H5L_INVALID_ARGUMENT,
                  "%s is \"%.80s\", which is not a backend of this build; \"h5lossy doctor\" lists them", variable,
                  requested);
}

}  // namespace h5lossy
