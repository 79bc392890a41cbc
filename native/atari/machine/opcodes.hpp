// The 6507's instructions: their length, and the fewest cycles that they take.
//
// From the MOS 6502's data sheet and, for the undocumented opcodes, from published tables of what the
// chip does with them. Where such tables disagree (ANE, LXA, the SH… family), the Arcade Learning
// Environment's choice is taken, as games must run on either core alike.
#pragma once

#include <array>
#include <cstdint>

namespace headrace::atari {

// Returns the number of bytes, operand included, that are read before anything else. JSR reads its third byte after it
// has written to the stack. The twelve opcodes that stop the chip have no operand.
constexpr std::uint8_t length_of(unsigned opcode) {
  const unsigned column = opcode & 0x1f;
  if (opcode == 0x40 || opcode == 0x60) return 1;          // RTI, RTS
  if ((opcode & 0x0f) == 0x02 && opcode != 0x82 && opcode != 0xa2 && opcode != 0xc2 && opcode != 0xe2) return 1;
  switch (column & 0x0f) {
    case 0x08:
    case 0x0a: return 1;                        // implied
    case 0x09:
    case 0x0b: return column & 0x10 ? 3 : 2;    // …,Y or immediate
    case 0x0c:
    case 0x0d:
    case 0x0e:
    case 0x0f: return 3;  // absolute
    default: return 2;                                     // zero page, indirect, branches, immediate
  }
}

constexpr std::array<std::uint8_t, 256> kLengths = [] {
  std::array<std::uint8_t, 256> lengths{};
  for (unsigned opcode = 0; opcode < 256; ++opcode) lengths[opcode] = length_of(opcode);
  return lengths;
}();

// The way in which an instruction finds its operand.
enum class Mode { implied, immediate, zero, zero_x, zero_y, absolute, absolute_x, absolute_y, indirect_x, indirect_y };

// The use of the operand. A read that crosses a page takes one cycle more, which is added then.
enum class Use { read, write, modify };

constexpr unsigned cycles_of(Mode mode, Use use) {
  const unsigned modify = use == Use::modify ? 2 : 0;   // it reads, changes, and writes back
  const unsigned fix = use == Use::read ? 0 : 1;        // writes always take the page's carry into account
  switch (mode) {
    case Mode::implied:
    case Mode::immediate: return 2;
    case Mode::zero: return 3 + modify;
    case Mode::zero_x:
    case Mode::zero_y:
    case Mode::absolute: return 4 + modify;
    case Mode::absolute_x:
    case Mode::absolute_y: return 4 + fix + modify;
    case Mode::indirect_x: return 6 + modify;
    case Mode::indirect_y: return 5 + fix + modify;
  }
  return 0;
}

// Numbers that consist of two decimal digits, as the decimal mode's arithmetic reads them; digits above nine count on,
// as in the chip.
constexpr int decimal(std::uint8_t packed) { return (packed >> 4) * 10 + (packed & 0x0f); }
constexpr std::uint8_t packed(int number) { return static_cast<std::uint8_t>((number % 100 / 10) << 4 | number % 10); }

}  // namespace headrace::atari
