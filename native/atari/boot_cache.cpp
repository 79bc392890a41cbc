#include "boot_cache.hpp"

namespace headrace::atari {
namespace {

// The meanings of the RIOT chip's addresses; see its data sheet (MOS 6532).
bool is_riot(std::uint16_t address) { return (address & 0x1080) == 0x0080; }
bool is_memory(std::uint16_t address) { return !(address & 0x0200); }
bool reads_timer(std::uint16_t address) { return address & 0x0004; }
bool sets_timer(std::uint16_t address) { return (address & 0x0014) == 0x0014; }

}  // namespace

BootWatch::BootWatch(ale::stella::System& system) : system_(system) {
  for (int address = 0; address < 0x2000; address += 0x40) {
    if (!is_riot(static_cast<std::uint16_t>(address))) continue;
    const auto at = static_cast<std::uint16_t>(address >> 6);
    pages_[at] = system_.getPageAccess(at);
    system_.setPageAccess(at, {nullptr, nullptr, this});
  }
}

BootWatch::~BootWatch() {
  for (std::uint16_t at = 0; at < pages_.size(); ++at)
    if (pages_[at].device) system_.setPageAccess(at, pages_[at]);
}

std::uint8_t BootWatch::peek(std::uint16_t address) {
  const Access& before = page(address);
  if (is_memory(address)) {
    read_stale_ |= !written_[address & 0x7f];
    return before.directPeekBase[address & 0x3f];
  }
  read_timer_ |= reads_timer(address) && !set_timer_;
  return before.device->peek(address);
}

void BootWatch::poke(std::uint16_t address, std::uint8_t value) {
  const Access& before = page(address);
  if (is_memory(address)) {
    written_.set(address & 0x7f);
    before.directPokeBase[address & 0x3f] = value;
    return;
  }
  set_timer_ |= sets_timer(address);
  before.device->poke(address, value);
}

}  // namespace headrace::atari
