// The 6507 of the console: our own core in place of the emulator's, which drives the picture chip.
//
// It runs a frame at a time with its registers in local variables and jumps from one instruction straight to the next.
// Program and memory are read through pointers; an access to a device costs a call. Between frames everything lies
// where the emulator keeps it: whoever looks at a console, saves or loads it, finds the state that the emulator's own
// parts would have left.
#pragma once

#include <array>
#include <cstdint>

#include "ale/emucore/M6502.hxx"
#include "ale/emucore/M6532.hxx"
#include "ale/emucore/System.hxx"
#include "chip.hpp"
#include "watch.hpp"

namespace headrace::atari {

class Processor final : public ale::stella::M6502 {
 public:
  // Takes over the registers of the processor that runs the system.
  explicit Processor(ale::stella::System& system);

  // Runs so many instructions, or until the picture is complete. Returns false if the program ran into an opcode that
  // stops the processor for good.
  bool execute(std::uint32_t number) override;

  // The core saves under the name and in the format of the emulator's own core.
  bool save(ale::stella::Serializer& out) override;
  bool load(ale::stella::Deserializer& in) override;
  const char* name() const override { return "M6502Low"; }

  void watch(Watcher* watcher) { watcher_ = watcher; }   // see watch.hpp

 private:
  using Page = ale::stella::System::PageAccess;
  static constexpr std::uint32_t kOpcodePage = 0x100;   // an access across such pages takes the 6507 a cycle more

  // The program's place in the host's memory: code[pc - origin] for origin <= pc < origin + reach.
  struct Window {
    const std::uint8_t* code;
    std::uint32_t origin, reach;
  };

  // Skips rounds of a loop that waits for the timer.
  struct Rounds {
    std::uint32_t cycles = 0;
    std::int32_t instructions = 0;
  };

  // Runs so many instructions, and returns how many are left to the other kind. `Plain`: program and memory are the
  // host's, and nobody watches. The other kind also fetches instructions one by one, and keeps up the data bus.
  template <bool kPlain>
  std::uint32_t run(std::uint32_t number);

  Window window(std::uint32_t pc) const;   // without reach, the instruction must be fetched
  Window instruction(std::uint32_t pc, std::uint32_t cycles);
  std::uint8_t fetched(std::uint32_t address, std::uint32_t cycles);
  Rounds waiting(std::uint8_t opcode, std::uint32_t address, const std::uint8_t* branch, std::uint32_t pc,
                 std::uint32_t cycles, std::int32_t left) const;
  std::uint8_t peek_device(std::uint32_t address, std::uint32_t cycles);
  void poke_device(std::uint32_t address, std::uint8_t value, std::uint32_t cycles);
  bool watched(bool write, std::uint32_t address, std::uint32_t value, std::uint32_t cycles);
  void take_bus();   // from the emulator's system, and back
  void give_bus() const;
  void set_cycles(std::uint32_t cycles) { mySystem->incrementCycles(cycles - mySystem->cycles()); }

  const Page* pages_;
  const ale::stella::M6532* timer_ = nullptr;
  const std::uint8_t* banks_ = nullptr;   // the banks of a cartridge that reads addresses alone, see window()
  std::uint32_t switching_ = 0x1000;      // an access here may change the layout of pages
  Chip chip_;
  Watcher* watcher_ = nullptr;
  bool plain_ = false;   // some code may run plain
  std::uint8_t bus_ = 0;
  std::array<std::uint8_t, kOpcodePage + 2> fetched_{};  // an instruction read through a device, at its place in a page
};

// Replaces the emulator's processor and picture chip in this system. Returns false if its cartridge is of a kind on
// which they have not been compared; the system then keeps the emulator's.
bool install(ale::stella::System& system);

}  // namespace headrace::atari
