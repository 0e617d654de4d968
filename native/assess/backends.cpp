// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "assess/backends.h"

#include "runtime/backend_choice.h"

namespace h5lossy {

#define H5L_BACKEND(name, runs_here)           \
  namespace name {                             \
  extern const assess::Kernels assess_kernels; \
  }
#include "runtime/backends.def"

namespace assess {
namespace {

constexpr BackendKernels kBackends[] = {
#define H5L_BACKEND(name, runs_here) {#name, runs_here, name::assess_kernels},
#include "runtime/backends.def"
};

struct Choice {
  const BackendKernels* backend = nullptr;
  h5l_status status = H5L_OK;
  h5l_message message = {};
};

Choice make_choice() {
  Choice choice;
  const auto passes = [](const BackendKernels&, const Message&) { return H5L_OK; };
  choice.status = choose_among(kBackends, passes, choice.backend, Message(&choice.message));
  return choice;
}

}  // namespace

std::span<const BackendKernels> all_kernels() { return kBackends; }

h5l_status choose_kernels(const Kernels*& kernels, const Message& why) {
  static const Choice choice = make_choice();
  if (choice.status != H5L_OK) return why.fail(choice.status, "%s", choice.message.text);
  kernels = &choice.backend->kernels;
  return H5L_OK;
}

}  // namespace assess
}  // namespace h5lossy
