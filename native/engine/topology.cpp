#include "topology.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#ifdef __linux__
#include <sched.h>
#endif

namespace headrace {
namespace {

// "0-3,8" → 0 1 2 3 8
std::vector<int> parse_list(const std::string& text) {
  std::vector<int> out;
  std::stringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    if (part.empty() || part == "\n") continue;
    auto dash = part.find('-');
    int first = std::stoi(part);
    int last = dash == std::string::npos ? first : std::stoi(part.substr(dash + 1));
    for (int i = first; i <= last; ++i) out.push_back(i);
  }
  return out;
}

}  // namespace

#ifdef __linux__

Topology Topology::of_this_machine() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  sched_getaffinity(0, sizeof allowed, &allowed);

  Topology found;
  auto may_use = [&](int core) { return core < CPU_SETSIZE && CPU_ISSET(static_cast<std::size_t>(core), &allowed); };
  for (int node = 0;; ++node) {
    std::ifstream file("/sys/devices/system/node/node" + std::to_string(node) + "/cpulist");
    std::string line;
    if (!std::getline(file, line)) break;
    std::vector<int> cores;
    for (int core : parse_list(line))
      if (may_use(core)) cores.push_back(core);
    if (!cores.empty()) found.nodes.push_back(cores);
  }
  if (found.nodes.empty()) {
    found.nodes.emplace_back();
    for (int core = 0; core < CPU_SETSIZE; ++core)
      if (may_use(core)) found.nodes[0].push_back(core);
  }
  return found;
}

void pin_this_thread(const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int core : cores) CPU_SET(static_cast<std::size_t>(core), &set);
  sched_setaffinity(0, sizeof set, &set);
}

#else

Topology Topology::of_this_machine() { return {{{0}}}; }
void pin_this_thread(const std::vector<int>&) {}

#endif

}  // namespace headrace
