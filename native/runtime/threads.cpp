// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "runtime/threads.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

#include "platform/platform.h"

namespace h5lossy {
namespace {

constexpr char kThreadsVariable[] = "H5LOSSY_NUM_THREADS";

// The first bytes of a file in /proc or /sys; empty if it cannot be read.
std::string read_file(const std::string& path) {
  const platform::File file = platform::open_to_read(path.c_str());
  if (file == nullptr) return {};
  std::string text(4096, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  return text;
}

// quota / period, rounded up to whole CPUs; 0 if there is no limit ("max", -1, or empty).
std::uint32_t cpus_of(std::string_view quota, std::string_view period) {
  const auto number = [](std::string_view text) {
    std::uint64_t value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
  };
  const std::uint64_t share = number(quota), whole = number(period);
  if (share == 0 || whole == 0) return 0;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>((share - 1) / whole + 1, kMaxThreads));
}

// The limit of one cgroup folder, v2 or v1.
std::uint32_t own_cpus(const std::string& folder, bool v2) {
  if (!v2) return cpus_of(read_file(folder + "/cpu.cfs_quota_us"), read_file(folder + "/cpu.cfs_period_us"));
  const std::string text = read_file(folder + "/cpu.max");
  const std::size_t space = text.find(' ');
  if (space == std::string::npos) return 0;
  return cpus_of(std::string_view(text).substr(0, space), std::string_view(text).substr(space + 1));
}

std::uint32_t tighter(std::uint32_t a, std::uint32_t b) { return a == 0 || b == 0 ? std::max(a, b) : std::min(a, b); }

// The tightest limit of a cgroup and its ancestors. Missing folders are skipped: in a container, the path may be the
// host's, of which only the root is mounted.
std::uint32_t cpus_up_to_root(const std::string& root, std::string_view path, bool v2) {
  std::uint32_t cpus = own_cpus(root, v2);
  while (path.size() > 1) {
    cpus = tighter(cpus, own_cpus(root + std::string(path), v2));
    path = path.substr(0, path.rfind('/'));
  }
  return cpus;
}

bool lists(std::string_view controllers, std::string_view wanted) {
  while (!controllers.empty()) {
    const std::size_t comma = std::min(controllers.find(','), controllers.size());
    if (controllers.substr(0, comma) == wanted) return true;
    controllers.remove_prefix(std::min(comma + 1, controllers.size()));
  }
  return false;
}

enum class Variable { none, number, wrong };

// Parses H5LOSSY_NUM_THREADS.
Variable read_variable(std::uint32_t& threads) noexcept {
  threads = 0;
  const platform::Variable variable(kThreadsVariable);
  const char* const text = variable.text();
  if (text == nullptr) return Variable::none;
  const char* const end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, threads);
  // A number that overflows is valid, and clamped.
  if (error == std::errc::result_out_of_range && stop == end) threads = kMaxThreads;
  if (stop != end || threads == 0) return Variable::wrong;
  threads = std::min(threads, kMaxThreads);
  return Variable::number;
}

}  // namespace

std::uint32_t cgroup_cpus(const char* membership, const char* mount) {
  // Lines of "number:controllers:path"; v2's line has no controllers.
  const std::string text = read_file(membership);
  std::uint32_t cpus = 0;
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const std::size_t first = line.find(':');
    const std::size_t second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    if (controllers.empty()) {
      cpus = tighter(cpus, cpus_up_to_root(mount, path, true));
    } else if (lists(controllers, "cpu")) {
      // v1 is mounted under the controller's name (often a link) or under all the names on the line.
      cpus = tighter(cpus, cpus_up_to_root(std::string(mount).append("/cpu"), path, false));
      cpus = tighter(cpus, cpus_up_to_root(std::string(mount).append("/").append(controllers), path, false));
    }
  }
  return cpus;
}

std::uint32_t filter_threads() noexcept {
  static std::atomic<std::uint32_t> cached = 0;
  std::uint32_t threads = cached.load(std::memory_order_relaxed);
  if (threads != 0) return threads;
  if (read_variable(threads) != Variable::number) threads = 1;
  cached.store(threads, std::memory_order_relaxed);
  return threads;
}

h5l_status choose_threads(std::uint32_t requested, std::uint32_t& threads, const Message& why) {
  threads = std::min(requested, kMaxThreads);
  if (threads != 0) return H5L_OK;
  switch (read_variable(threads)) {
    case Variable::number:
      return H5L_OK;
    case Variable::wrong:
      return why.fail(H5L_INVALID_ARGUMENT, "%s is \"%.80s\"; it must be a number from 1 up, or not set",
                      kThreadsVariable, platform::Variable(kThreadsVariable).text());
    case Variable::none:
      break;
  }
  threads =
      std::clamp(tighter(platform::usable_cpus(), cgroup_cpus("/proc/self/cgroup", "/sys/fs/cgroup")), 1u, kMaxThreads);
  return H5L_OK;
}

}  // namespace h5lossy
