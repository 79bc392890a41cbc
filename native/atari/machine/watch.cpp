#include "watch.hpp"

#include <algorithm>
#include <cstdio>

#include "../expose.hpp"
#include "ale/emucore/Device.hxx"
#include "ale/emucore/TIA.hxx"
#include "processor.hpp"

namespace headrace::atari {
namespace {

using ale::stella::System;
using ale::stella::TIA;

HEADRACE_EXPOSE(PictureBegin, TIA::myClockStartDisplay);
HEADRACE_EXPOSE(Latches, TIA::myCollision);

constexpr int kClocksPerLine = 228, kPages = 128, kPageSize = 64;

constexpr std::array<const char*, 0x2d> kWritten = {
    "VSYNC",  "VBLANK", "WSYNC",  "RSYNC",  "NUSIZ0", "NUSIZ1", "COLUP0", "COLUP1", "COLUPF",
    "COLUBK", "CTRLPF", "REFP0",  "REFP1",  "PF0",    "PF1",    "PF2",    "RESP0",  "RESP1",
    "RESM0",  "RESM1",  "RESBL",  "AUDC0",  "AUDC1",  "AUDF0",  "AUDF1",  "AUDV0",  "AUDV1",
    "GRP0",   "GRP1",   "ENAM0",  "ENAM1",  "ENABL",  "HMP0",   "HMP1",   "HMM0",   "HMM1",
    "HMBL",   "VDELP0", "VDELP1", "VDELBL", "RESMP0", "RESMP1", "HMOVE",  "HMCLR",  "CXCLR"};
constexpr std::array<const char*, 16> kRead = {"CXM0P",  "CXM1P",  "CXP0FB", "CXP1FB", "CXM0FB", "CXM1FB",
                                               "CXBLPF", "CXPPMM", "INPT0",  "INPT1",  "INPT2",  "INPT3",
                                               "INPT4",  "INPT5",  "0e",     "0f"};

// The spy comes before the emulator's own chip, which has its pages to itself.
class Spy final : public ale::stella::Device {
 public:
  Spy(System& system, Watcher& watcher) : system_(system), watcher_(watcher) {}

  std::uint8_t peek(std::uint16_t address) override {
    const std::uint8_t value = system_.tia().peek(address);
    watcher_.see(now(false, address, value));
    return value;
  }
  void poke(std::uint16_t address, std::uint8_t value) override {
    if (watcher_.see(now(true, address, value))) system_.tia().poke(address, value);
  }

  const char* name() const override { return "Spy"; }
  void reset() override {}
  void install(System&) override {}
  bool save(ale::stella::Serializer&) override { return true; }
  bool load(ale::stella::Deserializer&) override { return true; }

 private:
  Access now(bool write, std::uint16_t address, std::uint8_t value) {
    Access found = access(system_, write, address, value, system_.cycles());
    found.collisions = system_.tia().*member(Latches{});
    return found;
  }

  System& system_;
  Watcher& watcher_;
};

// The spy is on all of the chip's pages.
void answer(System& system, ale::stella::Device& device) {
  for (std::uint16_t page = 0; page < kPages; ++page)
    if (in_chip(page * kPageSize)) system.setPageAccess(page, {nullptr, nullptr, &device});
}

}  // namespace

std::string Access::text() const {
  char text[80];
  const unsigned reg = address;
  if (write && reg < kWritten.size())
    std::snprintf(text, sizeof text, "%s = %02x, line %d, clock %d", kWritten[reg], value, line, clock);
  else if (write) std::snprintf(text, sizeof text, "%02x = %02x, line %d, clock %d", reg, value, line, clock);
  else std::snprintf(text, sizeof text, "read %s: %02x, line %d, clock %d", kRead[reg & 0x0f], value, line, clock);
  return text;
}

Access access(System& system, bool write, std::uint32_t address, std::uint8_t value, std::uint32_t cycles) {
  Access found{write, static_cast<std::uint8_t>(address & (write ? 0x3f : 0x0f)), value};
  const int since = static_cast<int>(cycles * 3) - system.tia().*member(PictureBegin{});
  found.clock = (since % kClocksPerLine + kClocksPerLine) % kClocksPerLine;
  found.line = (since - found.clock) / kClocksPerLine;
  if (const std::uint8_t* memory = system.getPageAccess(0x80 / kPageSize).directPeekBase) {
    std::copy_n(memory, kPageSize, found.memory.begin());
    std::copy_n(system.getPageAccess(0xc0 / kPageSize).directPeekBase, kPageSize, found.memory.begin() + kPageSize);
  }
  return found;
}

Watch::Watch(System& system, Watcher& watcher) : system_(system) {
  if (auto* ours = dynamic_cast<Processor*>(&system.m6502())) {
    ours->watch(&watcher);
  } else {
    spy_ = std::make_unique<Spy>(system, watcher);
    answer(system, *spy_);
  }
}

Watch::~Watch() {
  if (spy_) answer(system_, system_.tia());
  else static_cast<Processor&>(system_.m6502()).watch(nullptr);
}

}  // namespace headrace::atari
