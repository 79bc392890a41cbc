// A console whose cartridge is a test's program, on either machine, one instruction at a time.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <span>

#include "ale/ale_interface.hpp"

namespace ale::stella {
class Cartridge;
class System;
}  // namespace ale::stella

namespace headrace::atari {

class Workbench {
 public:
  static constexpr std::size_t kMemory = 128;

  struct Registers {
    std::uint8_t a, x, y, sp;
    std::uint8_t last;     // the opcode of the last instruction
    std::uint8_t status;   // NV..DIZC, as the processor pushes it
    std::uint16_t pc;
    bool jammed;           // an opcode stopped the processor for good
  };

  // A game lends its kind of cartridge, and the cartridge's ways to memory. Throws std::runtime_error if our machine
  // does not take that kind, or there is none.
  Workbench(const std::filesystem::path& rom, bool original);

  std::size_t size() const { return image_.size(); }   // returns the cartridge's size

  // Resets the console with `program` at the cartridge's beginning, and with `memory`. Throws std::invalid_argument if
  // the program is longer than the cartridge.
  void start(std::span<const std::uint8_t> program, std::span<const std::uint8_t, kMemory> memory);

  void instructions(unsigned n);
  Registers registers();
  std::uint32_t cycles();
  std::array<std::uint8_t, kMemory> memory();

 protected:
  ale::stella::System& system();
  ale::ALEInterface ale_;

 private:
  ale::stella::Cartridge* cartridge_ = nullptr;
  std::span<std::uint8_t> image_;
};

}  // namespace headrace::atari
