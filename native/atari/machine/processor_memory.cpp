// The processor's way to what is not plain memory, and its saved state.
#include "ale/emucore/Deserializer.hxx"
#include "ale/emucore/Serializer.hxx"
#include "ale/emucore/Device.hxx"
#include "ale/emucore/TIA.hxx"
#include "opcodes.hpp"
#include "processor.hpp"

namespace headrace::atari {
namespace {

using ale::stella::Deserializer;
using ale::stella::Serializer;
using ale::stella::System;

constexpr int kPageSize = 64, kPages = 128;

}  // namespace

Processor::Processor(System& system) : M6502(1), pages_(&system.getPageAccess(0)) {
  Serializer out;
  system.m6502().save(out);
  Deserializer in(out.get_str());
  mySystem = &system;
  myLastAccessWasRead = true;
  Processor::load(in);
}

// As many pages around the program counter as lie side by side in the host's memory, less two bytes, so that
// whole instructions are inside; or, where a device answers, the one instruction.
Processor::Window Processor::window(std::uint32_t pc, std::uint32_t cycles) {
  const int page = static_cast<int>((pc & 0x1fff) / kPageSize);
  const std::uint8_t* const here = pages_[page].directPeekBase;
  if (here) {
    int first = page, last = page;
    while (first > 0 && pages_[first - 1].directPeekBase == here - (page - first + 1) * kPageSize) --first;
    while (last < kPages - 1 && pages_[last + 1].directPeekBase == here + (last + 1 - page) * kPageSize) ++last;
    const std::uint32_t begin = (pc & ~0x1fffu) + static_cast<std::uint32_t>(first) * kPageSize;
    const std::uint32_t reach = static_cast<std::uint32_t>(last - first + 1) * kPageSize - 2;
    if (pc - begin < reach) return {here - (pc & ~0x3fu), begin, reach};
  }
  auto fetch = [this](std::uint32_t address, std::uint32_t at) {
    const Page& from = pages_[(address & 0x1fff) / kPageSize];
    if (from.directPeekBase) return from.directPeekBase[address % kPageSize];
    return peek_device(address & 0xffff, at);
  };
  fetched_[0] = fetch(pc, cycles);
  for (std::uint32_t i = 1; i < kLengths[fetched_[0]]; ++i) fetched_[i] = fetch(pc + i, cycles);
  return {fetched_.data() - pc, pc, 0};
}

std::uint8_t Processor::peek_device(std::uint32_t address, std::uint32_t cycles) {
  set_cycles(cycles);
  return pages_[(address & 0x1fff) / kPageSize].device->peek(static_cast<std::uint16_t>(address));
}

void Processor::poke_device(std::uint32_t address, std::uint8_t value, std::uint32_t cycles) {
  set_cycles(cycles);
  pages_[(address & 0x1fff) / kPageSize].device->poke(static_cast<std::uint16_t>(address), value);
}

bool Processor::save(Serializer& out) {
  out.putString(name());
  for (const int value : {int{A}, int{X}, int{Y}, int{SP}, int{IR}, int{PC}}) out.putInt(value);
  for (const bool flag : {N, V, B, D, I, notZ, C}) out.putBool(flag);
  out.putInt(myExecutionStatus);
  return true;
}

bool Processor::load(Deserializer& in) {
  if (in.getString() != name()) return false;
  for (std::uint8_t* value : {&A, &X, &Y, &SP, &IR}) *value = static_cast<std::uint8_t>(in.getInt());
  PC = static_cast<std::uint16_t>(in.getInt());
  for (bool* flag : {&N, &V, &B, &D, &I, &notZ, &C}) *flag = in.getBool();
  myExecutionStatus = static_cast<std::uint8_t>(in.getInt());
  return true;
}

bool install(System& system) {
  for (int page = 0; page < kPages; ++page)   // of a few rare kinds of cartridges the chip's pages are theirs
    if ((page * kPageSize & 0x1080) == 0 && system.getPageAccess(page).device != &system.tia()) return false;
  auto* before = &system.m6502();
  auto* processor = new Processor(system);
  system.attach(processor);   // which owns it
  delete before;
  return true;
}

}  // namespace headrace::atari
