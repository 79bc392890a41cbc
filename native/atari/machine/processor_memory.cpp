// The processor's way to devices behind memory, and its saved state.
#include <algorithm>
#include <string_view>

#include "../expose.hpp"
#include "ale/emucore/Cart.hxx"
#include "ale/emucore/Deserializer.hxx"
#include "ale/emucore/Device.hxx"
#include "ale/emucore/M6532.hxx"
#include "ale/emucore/Serializer.hxx"
#include "ale/emucore/TIA.hxx"
#include "opcodes.hpp"
#include "processor.hpp"

namespace headrace::atari {
namespace {

using ale::stella::Deserializer;
using ale::stella::Serializer;
using ale::stella::System;

using ale::stella::M6532;

constexpr int kPageSize = 64, kPages = 128;
constexpr std::uint32_t kBank = 0x1000, kTimerAt = 0x0284;

HEADRACE_EXPOSE(Timer, M6532::myTimer);
HEADRACE_EXPOSE(Shift, M6532::myIntervalShift);
HEADRACE_EXPOSE(SetAt, M6532::myCyclesWhenTimerSet);
HEADRACE_EXPOSE(Bus, System::myDataBusState);

}  // namespace

Processor::Processor(System& system) : M6502(1), pages_(&system.getPageAccess(0)) {
  Serializer out;
  system.m6502().save(out);
  Deserializer in(out.get_str());
  mySystem = &system;
  myLastAccessWasRead = true;
  Processor::load(in);
  timer_ = dynamic_cast<const M6532*>(pages_[kTimerAt / kPageSize].device);
  // In a cartridge of the kind FE an address's own bits choose the bank, so that no access changes anything.
  auto* cartridge = dynamic_cast<ale::stella::Cartridge*>(pages_[kBank / kPageSize].device);
  if (cartridge && std::string_view(cartridge->name()) == "CartridgeFE") {
    int size = 0;
    banks_ = cartridge->getImage(size);
    switching_ = 0;
  }
}

// As many pages around the program counter as lie side by side in the host's memory, less three bytes, so that whole
// instructions are inside, and none ends where the chip's registers begin anew. The first of the host's pages must be
// the first quarter of one of the 6502's.
Processor::Window Processor::window(std::uint32_t pc) const {
  constexpr std::uint32_t margin = 3;
  if (banks_ && (pc & kBank)) {
    const std::uint32_t origin = pc & ~(kBank - 1);
    if (pc - origin < kBank - margin) return {banks_ + (pc & 2 * kBank ? 0 : kBank), origin, kBank - margin};
  }
  const int page = static_cast<int>((pc & 0x1fff) / kPageSize);
  if (!pages_[page].directPeekBase) return {};
  auto adjacent = [this](int before) {
    const std::uint8_t* const base = pages_[before].directPeekBase;
    return base && base + kPageSize == pages_[before + 1].directPeekBase;
  };
  int first = page, last = page;
  while (first > 0 && adjacent(first - 1)) --first;
  while (last < kPages - 1 && adjacent(last)) ++last;
  const std::uint32_t origin = (pc & ~0x1fffu) + static_cast<std::uint32_t>(first) * kPageSize;
  const std::uint32_t reach = static_cast<std::uint32_t>(last - first + 1) * kPageSize - margin;
  if (origin % kOpcodePage || pc - origin >= reach) return {};
  return {pages_[first].directPeekBase, origin, reach};
}

// Fetches one instruction from anywhere; its operand is read when the time that it takes has been counted.
Processor::Window Processor::instruction(std::uint32_t pc, std::uint32_t cycles) {
  const std::uint32_t origin = pc & ~(kOpcodePage - 1);
  std::uint8_t* const bytes = &fetched_[pc - origin];
  const std::uint8_t opcode = bytes[0] = fetched(pc, cycles);
  cycles += myInstructionSystemCycleTable[opcode];
  for (std::uint32_t i = 1; i < kLengths[opcode]; ++i) bytes[i] = fetched(pc + i, cycles);
  return {fetched_.data(), origin, 0};
}

std::uint8_t Processor::fetched(std::uint32_t address, std::uint32_t cycles) {
  address &= 0xffff;
  if (const std::uint8_t* memory = pages_[(address & 0x1fff) / kPageSize].directPeekBase) {
    bus_ = memory[address % kPageSize];
  } else if (in_chip(address)) {
    bus_ = chip_.read(address, cycles, bus_);
    if (watcher_) watched(false, address, bus_, cycles);
  } else {
    bus_ = peek_device(address, cycles);
  }
  return bus_;
}

void Processor::take_bus() { bus_ = mySystem->getDataBusState(); }
void Processor::give_bus() const { mySystem->*member(Bus{}) = bus_; }

// For a load of the timer or of its flag before a branch back to it: skips the rounds in which the branch is sure to be
// taken, as the timer runs down and has not yet run out. Then every round takes the same time and leaves nothing
// behind.
Processor::Rounds Processor::waiting(std::uint8_t opcode, std::uint32_t address, const std::uint8_t* branch,
                                     std::uint32_t pc, std::uint32_t cycles, std::int32_t left) const {
  constexpr std::uint8_t back = 0xfb, bpl = 0x10, bmi = 0x30, bne = 0xd0, beq = 0xf0;
  constexpr std::uint8_t bit = 0x2c, lda = 0xad, ldx = 0xae, ldy = 0xac;
  const bool loads = opcode == lda || opcode == ldx || opcode == ldy;
  if (branch[1] != back || !timer_ || (address & kTimerAt) != kTimerAt || !(loads || opcode == bit)) return {};
  const bool flag = address & 0x01;   // it is set when the timer has run out
  int lowest = 0, highest = 0xff;
  if (branch[0] == bpl) highest = flag ? 0xff : 0x7f;
  else if (branch[0] == bmi && !flag) lowest = 0x80;
  else if (branch[0] == bne && !flag && loads) lowest = 1;
  else if (!(branch[0] == beq && flag && loads)) return {};
  const int timer = static_cast<int>(timer_->*member(Timer{})), shift = static_cast<int>(timer_->*member(Shift{}));
  const auto since = static_cast<int>(cycles - 1 - static_cast<std::uint32_t>(timer_->*member(SetAt{})));
  const int value = timer - (since >> shift) - 1;
  if (since < 0 || value < lowest || value > highest) return {};
  const std::uint32_t next = pc + 2, crossed = ((next ^ (pc - 3)) & 0xff00) ? 1 : 0;
  const int round = 7 + static_cast<int>(crossed);
  const int rounds = std::min((((timer - lowest) << shift) - since + round - 1) / round, (left - 2) / 2);
  return rounds > 0 ? Rounds{static_cast<std::uint32_t>(rounds * round), 2 * rounds} : Rounds{};
}

std::uint8_t Processor::peek_device(std::uint32_t address, std::uint32_t cycles) {
  set_cycles(cycles);
  return pages_[(address & 0x1fff) / kPageSize].device->peek(static_cast<std::uint16_t>(address));
}

void Processor::poke_device(std::uint32_t address, std::uint8_t value, std::uint32_t cycles) {
  set_cycles(cycles);
  pages_[(address & 0x1fff) / kPageSize].device->poke(static_cast<std::uint16_t>(address), value);
}

bool Processor::watched(bool write, std::uint32_t address, std::uint32_t value, std::uint32_t cycles) {
  Access found = access(*mySystem, write, address, static_cast<std::uint8_t>(value), cycles);
  found.collisions = chip_.collisions();
  return watcher_->see(found);
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
  for (int page = 0; page < kPages; ++page)   // a few rare kinds of cartridges own the chip's pages
    if (in_chip(static_cast<std::uint32_t>(page * kPageSize)) && system.getPageAccess(page).device != &system.tia())
      return false;
  auto* before = &system.m6502();
  auto* processor = new Processor(system);
  system.attach(processor);   // the system owns it from now on
  delete before;
  return true;
}

}  // namespace headrace::atari
