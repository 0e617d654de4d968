// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The number of threads that this process may use.
#pragma once

#include <cstdint>

#include "frame/message.h"
#include "h5lossy.h"

namespace h5lossy {

// Larger requests are reduced to this number.
inline constexpr std::uint32_t kMaxThreads = 1024;

// `requested` if it is not 0; else H5LOSSY_NUM_THREADS; else one thread for each CPU that the affinity mask and the
// cgroup quota allow. The environment is read at each call.
[[nodiscard]] h5l_status choose_threads(std::uint32_t requested, std::uint32_t& threads, const Message& why);

// The number of threads for the tiles of one chunk in a filter call: H5LOSSY_NUM_THREADS, or 1 if it is not set (the
// process may be one of many on the machine, as under MPI) or invalid (an error would make HDF5 lose the chunk). Read
// once: programs may change their environment while HDF5 works.
std::uint32_t filter_threads() noexcept;

// The CPU quota of the process's cgroups, rounded up to whole CPUs; 0 if there is no limit. `membership` is the file
// /proc/self/cgroup, `mount` the folder /sys/fs/cgroup.
std::uint32_t cgroup_cpus(const char* membership, const char* mount);

}  // namespace h5lossy
