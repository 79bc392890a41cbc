#include "processor.hpp"

#include "ale/emucore/Deserializer.hxx"
#include "ale/emucore/Serializer.hxx"
#include "opcodes.hpp"

// Macros put instructions together, as instructions share local variables and labels: opcodes.inc gives for each opcode
// a way to find the operand, and its use. Flags stay as the values from which they follow: `zero` is 0 if Z is set, and
// bit 7 of `sign` is N. `pc` counts from the window's `origin`, which begins a page of the 6502, so that one comparison
// tells whether it is still inside. `left` is -1 at the last instruction, and below that nothing follows.
//
// The last byte on the data bus is known wherever it is read: it is the last byte of the instruction or pointer before.
// Only a program that itself lies in the picture chip's registers, as a crashed game's may, needs the byte that an
// earlier instruction has left there. Jumps note it, as they may lead there; all other instructions note it if they are
// fetched one by one.

#define BYTE1 code[pc + 1]
#define WORD1 (code[pc + 1] | code[pc + 2] << 8)

#define ADDRESS(pc) ((pc) + origin)

// ---- the byte that stays on the data bus: after a jump, and after any other instruction
#define JUMP_BUS(value) bus_ = static_cast<std::uint8_t>(value)
#define BUS(value) \
  if (!kPlain) JUMP_BUS(value)

// ---- going on: the next instruction
#define NEXT                        \
  do {                              \
    if (--left < 0) goto last;      \
    if (pc >= reach) goto refill;   \
    goto* kLabels[code[pc]];        \
  } while (0)

// ---- memory. Wherever a device answers, the data bus still holds the byte before, and a cartridge may
// change the layout of pages.
#define PEEK(to, address, bus) PEEK_AFTER(static_cast<void>(0), to, address, bus)
#define PEEK_AFTER(before_device, to, address, bus)                     \
  do {                                                                  \
    const std::uint32_t p_ = (address);                                 \
    const Page& page_ = pages[(p_ & 0x1fff) >> 6];                      \
    if (page_.directPeekBase) {                                         \
      to = page_.directPeekBase[p_ & 0x3f];                             \
    } else if (in_chip(p_)) {                                           \
      to = chip_.read(p_, cycles, static_cast<std::uint8_t>(bus));      \
      if (!kPlain && watcher_) watched(false, p_, to, cycles);          \
    } else {                                                            \
      before_device;                                                    \
      to = peek_device(p_, cycles);                                     \
      if (p_ & switching_) reach = 0;                                   \
    }                                                                   \
  } while (0)

// A program that reads the timer may do nothing else until it has run down: all rounds but the last are skipped.
#define PEEK_WAITING(to, address, bus) PEEK_AFTER(SKIP_ROUNDS(address), to, address, bus)
#define SKIP_ROUNDS(address)                                                                                 \
  if (pc < reach) {                                                                                          \
    const Rounds skipped = waiting(opcode, address, code + pc, static_cast<std::uint32_t>(ADDRESS(pc)), cycles, left); \
    cycles += skipped.cycles, left -= skipped.instructions;                                                  \
  }

#define POKE_CHIP(address, value, after_read)                                 \
  do {                                                                        \
    if (!kPlain && watcher_ && !watched(true, address, value, cycles)) break; \
    if (((address) & 0x3f) == Chip::kWait)                                    \
      cycles = chip_.wait(cycles, after_read);                                \
    else                                                                      \
      chip_.write(address, static_cast<std::uint8_t>(value), cycles);         \
    if (chip_.finished()) IR = opcode, left = -1;                             \
  } while (0)

#define POKE(address, value)                                          \
  do {                                                                \
    const Page& page_ = pages[((address) & 0x1fff) >> 6];             \
    if (page_.directPokeBase) {                                       \
      page_.directPokeBase[(address) & 0x3f] = (value);               \
    } else if (in_chip(address)) {                                    \
      POKE_CHIP(address, value, true);                                \
    } else {                                                          \
      poke_device(address, static_cast<std::uint8_t>(value), cycles); \
      if ((address) & switching_) reach = 0;                          \
    }                                                                 \
  } while (0)

// Page zero: memory above, the picture chip below.
#define PEEK_ZERO(to, address, bus)                             \
  do {                                                          \
    if (kPlain && ((address) & 0x80))                           \
      to = ram[(address) & 0x7f];                               \
    else                                                        \
      PEEK(to, address, bus);                                   \
  } while (0)

#define POKE_ZERO(address, value)            \
  do {                                       \
    if (in_chip(address))                    \
      POKE_CHIP(address, value, true);       \
    else if (kPlain)                         \
      ram[(address) & 0x7f] = (value);       \
    else                                     \
      POKE(address, value);                  \
  } while (0)

// The stack is memory too, unless its pointer strays into the picture chip.
#define PUSH(value, after_read)                                     \
  do {                                                              \
    const std::uint32_t s_ = 0x100u + sp--;                         \
    BUS(value);                                                     \
    if (in_chip(s_))                                                \
      POKE_CHIP(s_, value, after_read);                             \
    else                                                            \
      POKE_ZERO(s_, static_cast<std::uint8_t>(value));              \
  } while (0)

// ---- operands: `at` is their address, `bus` the byte that was read last before them
#define AT_zero         const std::uint32_t at = BYTE1, bus = at; pc += 2
#define AT_zero_x       const std::uint32_t bus = BYTE1, at = (bus + x) & 0xff; pc += 2
#define AT_zero_y       const std::uint32_t bus = BYTE1, at = (bus + y) & 0xff; pc += 2
#define AT_absolute     const std::uint32_t at = WORD1, bus = at >> 8; pc += 3
#define AT_absolute_x   AT_INDEXED(x)
#define AT_absolute_y   AT_INDEXED(y)
#define AT_INDEXED(by)                                                      \
  const std::uint32_t low = BYTE1 + by, bus = code[pc + 2];                 \
  const std::uint32_t at = (low + (bus << 8)) & 0xffff; pc += 3
#define AT_POINTER(pointer, by)                                             \
  std::uint32_t low, bus; PEEK_ZERO(low, pointer, BYTE1);                   \
  if (kPlain && ((pointer) & 0x80) && (pointer) != 0xff)                    \
    bus = ram[((pointer) + 1) & 0x7f];                                      \
  else                                                                      \
    PEEK(bus, (pointer) + 1, low);                                          \
  low += by;                                                                \
  const std::uint32_t at = (low + (bus << 8)) & 0xffff; pc += 2
#define AT_indirect_x   const std::uint32_t pointer = (BYTE1 + x) & 0xff; AT_POINTER(pointer, 0)
#define AT_indirect_y   const std::uint32_t pointer = BYTE1; AT_POINTER(pointer, y)

#define COST(mode, use) cycles += cycles_of(Mode::mode, Use::use)
#define CROSSED cycles += low >> 8   // a read across a page takes one cycle more

#define IMPLIED(...)         { COST(implied, read); pc += 1; __VA_ARGS__; } NEXT;
#define READ_immediate(...)  { COST(immediate, read); const std::uint8_t value = BYTE1; pc += 2; __VA_ARGS__; } NEXT;
#define READ_zero(...)       READS(zero, AT_zero, , PEEK_ZERO, __VA_ARGS__)
#define READ_zero_slow(...)  READS(zero, AT_zero, ++cycles, PEEK_ZERO, __VA_ARGS__)
#define READ_zero_x(...)     READS(zero_x, AT_zero_x, , PEEK_ZERO, __VA_ARGS__)
#define READ_zero_y(...)     READS(zero_y, AT_zero_y, , PEEK_ZERO, __VA_ARGS__)
#define READ_absolute(...)   READS(absolute, AT_absolute, , PEEK_WAITING, __VA_ARGS__)
#define READ_absolute_x(...) READS(absolute_x, AT_absolute_x, CROSSED, PEEK, __VA_ARGS__)
#define READ_absolute_y(...) READS(absolute_y, AT_absolute_y, CROSSED, PEEK, __VA_ARGS__)
#define READ_indirect_x(...) READS(indirect_x, AT_indirect_x, , PEEK, __VA_ARGS__)
#define READ_indirect_y(...) READS(indirect_y, AT_indirect_y, CROSSED, PEEK, __VA_ARGS__)
#define READS(mode, find, more, peek_, ...) \
  { COST(mode, read); find; more; std::uint8_t value; peek_(value, at, bus); BUS(value); __VA_ARGS__; } NEXT;

#define WRITE_zero(...)       WRITES(zero, AT_zero, POKE_ZERO, __VA_ARGS__)
#define WRITE_zero_x(...)     WRITES(zero_x, AT_zero_x, POKE_ZERO, __VA_ARGS__)
#define WRITE_zero_y(...)     WRITES(zero_y, AT_zero_y, POKE_ZERO, __VA_ARGS__)
#define WRITE_absolute(...)   WRITES(absolute, AT_absolute, POKE, __VA_ARGS__)
#define WRITE_absolute_x(...) WRITES(absolute_x, AT_absolute_x, POKE, __VA_ARGS__)
#define WRITE_absolute_y(...) WRITES(absolute_y, AT_absolute_y, POKE, __VA_ARGS__)
#define WRITE_indirect_x(...) WRITES(indirect_x, AT_indirect_x, POKE, __VA_ARGS__)
#define WRITE_indirect_y(...) WRITES(indirect_y, AT_indirect_y, POKE, __VA_ARGS__)
#define WRITES(mode, find, poke_, ...)                              \
  {                                                                       \
    COST(mode, write); find; static_cast<void>(bus);                      \
    std::uint8_t value; __VA_ARGS__; BUS(value); poke_(at, value);        \
  } NEXT;

#define MODIFY_zero(...)       MODIFIES(zero, AT_zero, PEEK_ZERO, POKE_ZERO, __VA_ARGS__)
#define MODIFY_zero_x(...)     MODIFIES(zero_x, AT_zero_x, PEEK_ZERO, POKE_ZERO, __VA_ARGS__)
#define MODIFY_absolute(...)   MODIFIES(absolute, AT_absolute, PEEK, POKE, __VA_ARGS__)
#define MODIFY_absolute_x(...) MODIFIES(absolute_x, AT_absolute_x, PEEK, POKE, __VA_ARGS__)
#define MODIFY_absolute_y(...) MODIFIES(absolute_y, AT_absolute_y, PEEK, POKE, __VA_ARGS__)
#define MODIFY_indirect_x(...) MODIFIES(indirect_x, AT_indirect_x, PEEK, POKE, __VA_ARGS__)
#define MODIFY_indirect_y(...) MODIFIES(indirect_y, AT_indirect_y, PEEK, POKE, __VA_ARGS__)
#define MODIFIES(mode, find, peek_, poke_, ...)                     \
  {                                                                       \
    COST(mode, modify); find;                                             \
    std::uint8_t value; peek_(value, at, bus); __VA_ARGS__; BUS(value); poke_(at, value); \
  } NEXT;

#define BRANCH(...)                                                                  \
  {                                                                                        \
    cycles += 2;                                                                           \
    const std::uint64_t next = pc + 2;                                                     \
    pc = next;                                                                             \
    if (__VA_ARGS__) {                                                                     \
      JUMP_BUS(code[next - 1]);                                                            \
      pc = next + static_cast<std::uint64_t>(static_cast<std::int8_t>(code[next - 1]));    \
      cycles += ((next ^ pc) & 0xff00) ? 2 : 1;                                            \
    }                                                                                      \
  } NEXT;
#define WHOLE(...) { __VA_ARGS__ } NEXT;

// ---- what instructions do
#define SET(target, result) sign = zero = target = static_cast<std::uint8_t>(result)
#define FLAGS(result) sign = zero = static_cast<std::uint8_t>(result)
#define COMPARE(with, operand) { FLAGS(with - (operand)); carry = with >= (operand); }
#define LDA SET(a, value)
#define LDX SET(x, value)
#define LDY SET(y, value)
#define LAX SET(a, value); x = a
#define ORA SET(a, a | value)
#define AND SET(a, a & value)
#define EOR SET(a, a ^ value)
#define BIT { zero = a & value; sign = value; overflow = value & 0x40; }
#define CMP COMPARE(a, value)
#define CPX COMPARE(x, value)
#define CPY COMPARE(y, value)
#define NOP static_cast<void>(value)
#define IDLE
#define ADC if (decimal_mode) ADD_DECIMAL(value) else ADD(value)
#define SBC if (decimal_mode) SUBTRACT_DECIMAL(value) else ADD(static_cast<std::uint8_t>(~value))
#define ADD(operand)                                         \
  {                                                          \
    const std::uint8_t b_ = (operand);                       \
    const unsigned sum = a + b_ + carry;                     \
    overflow = (~(a ^ b_) & (a ^ sum)) & 0x80;               \
    carry = sum >> 8;                                        \
    SET(a, sum);                                             \
  }
#define ADD_DECIMAL(operand)                                          \
  {                                                                   \
    const int sum = decimal(a) + decimal(operand) + static_cast<int>(carry); \
    const std::uint8_t before = a;                                    \
    carry = sum > 99;                                                 \
    SET(a, packed(sum & 0xff));                                       \
    overflow = (before ^ a) & (a ^ (operand)) & 0x80;                 \
  }
// Digits above nine may lead below zero even so; the result is then the emulator's, not the chip's.
#define SUBTRACT_DECIMAL(operand)                                                                   \
  {                                                                                                 \
    int difference = decimal(a) - decimal(operand) - static_cast<int>(1 - carry);                   \
    if (difference < 0) difference += 100;                                                          \
    const std::uint8_t before = a;                                                                  \
    SET(a, difference < 0 ? decimal(static_cast<std::uint8_t>(difference)) : packed(difference));   \
    carry = before >= (operand) + (1 - carry);                                                      \
    overflow = (before ^ a) & (a ^ (operand)) & 0x80;                                               \
  }
#define ASL  { carry = value >> 7; FLAGS(value << 1); value = zero; }
#define LSR  { carry = value & 1; FLAGS(value >> 1); value = zero; }
#define ROL  { const unsigned in = carry; carry = value >> 7; FLAGS(value << 1 | in); value = zero; }
#define ROR  { const unsigned in = carry << 7; carry = value & 1; FLAGS(value >> 1 | in); value = zero; }
#define INC  { FLAGS(value + 1); value = zero; }
#define DEC  { FLAGS(value - 1); value = zero; }
#define ASLA { carry = a >> 7; SET(a, a << 1); }
#define LSRA { carry = a & 1; SET(a, a >> 1); }
#define ROLA { const unsigned in = carry; carry = a >> 7; SET(a, a << 1 | in); }
#define RORA { const unsigned in = carry << 7; carry = a & 1; SET(a, a >> 1 | in); }
#define SLO  { ASL SET(a, a | value); }
#define RLA  { ROL SET(a, a & value); }
#define SRE  { LSR SET(a, a ^ value); }
#define RRA  { ROR if (decimal_mode) ADD_DECIMAL(value) else ADD(value) }
#define DCP  { DEC COMPARE(a, value) }
#define ISB  { INC if (decimal_mode) SUBTRACT_DECIMAL(value) else ADD(static_cast<std::uint8_t>(~value)) }
#define STA value = a
#define STX value = x
#define STY value = y
#define SAX value = a & x
#define HIGH static_cast<std::uint8_t>((at >> 8) + 1)
#define SHA value = a & x & HIGH
#define SHX value = x & HIGH
#define SHY value = y & HIGH
#define SHS { sp = a & x; value = sp & HIGH; }
#define LAS { sp &= value; SET(a, sp); x = a; }
#define ANC { SET(a, a & value); carry = a >> 7; }
#define ASR { a &= value; LSRA }
#define ANE SET(a, (a | 0xee) & x & value)
#define LXA SET(a, (a | 0xee) & value); x = a
#define SBX { const unsigned left_ = a & x; carry = left_ >= value; SET(x, left_ - value); }
#define ARR                                                                 \
  {                                                                         \
    const std::uint8_t both = a & value;                                    \
    SET(a, both >> 1 | carry << 7);                                         \
    if (!decimal_mode) {                                                    \
      carry = a >> 6 & 1;                                                   \
      overflow = (a ^ a << 1) & 0x40;                                       \
    } else {                                                                \
      overflow = (both ^ a) & 0x40;                                         \
      if ((both & 0x0f) + (both & 0x01) > 0x05) a = (a & 0xf0) | ((a + 0x06) & 0x0f); \
      carry = (both & 0xf0) + (both & 0x10) > 0x50;                         \
      if (carry) a += 0x60;                                                 \
    }                                                                       \
  }
#define TAX SET(x, a)
#define TAY SET(y, a)
#define TXA SET(a, x)
#define TYA SET(a, y)
#define TSX SET(x, sp)
#define TXS sp = x
#define INX SET(x, x + 1)
#define INY SET(y, y + 1)
#define DEX SET(x, x - 1)
#define DEY SET(y, y - 1)
#define CLC carry = 0
#define SEC carry = 1
#define CLI I = false
#define SEI I = true
#define CLD decimal_mode = false
#define SED decimal_mode = true
#define CLV overflow = 0
#define BPL !(sign & 0x80)
#define BMI sign & 0x80
#define BVC !overflow
#define BVS overflow
#define BCC !carry
#define BCS carry
#define BNE zero
#define BEQ !zero

#define STATUS \
  (0x30 | (sign & 0x80) | (overflow ? 0x40 : 0) | (decimal_mode ? 8 : 0) | (I ? 4 : 0) | (zero ? 0 : 2) | carry)
#define SET_STATUS(from)                    \
  {                                         \
    const std::uint8_t flags = (from);      \
    sign = flags, zero = ~flags & 0x02;     \
    overflow = flags & 0x40;                \
    decimal_mode = flags & 0x08;            \
    I = flags & 0x04, B = true;             \
    carry = flags & 0x01;                   \
  }
// The first byte that is pulled is not used.
#define PULL(to) { std::uint32_t s_ = 0x100u + sp++; PEEK(to, s_, bus); bus = to; BUS(to); }
#define TOP(to) { std::uint32_t s_ = 0x100u + sp; PEEK(to, s_, bus); bus = to; BUS(to); }
#define PHA cycles += 3; pc += 1; PUSH(a, true);
#define PHP cycles += 3; pc += 1; PUSH(STATUS, true);
#define PLA cycles += 4; pc += 1; std::uint8_t bus = opcode, value; PULL(value) TOP(value) SET(a, value);
#define PLP cycles += 4; pc += 1; std::uint8_t bus = opcode, value; PULL(value) TOP(value) SET_STATUS(value)
#define GO(address) pc = static_cast<std::uint64_t>(address) - origin
#define JUMP(low, high) JUMP_BUS(high), GO((low) | (high) << 8)   // the address's high byte comes last
#define JMP cycles += 3; JUMP(BYTE1, code[pc + 2]);
#define JMP_INDIRECT   /* the pointer's second byte lies in the same page */ \
  cycles += 5; const std::uint32_t at = WORD1; std::uint32_t low, high;      \
  PEEK(low, at, at >> 8); PEEK(high, (at & 0xff00) | ((at + 1) & 0xff), low); JUMP(low, high);
#define JSR                                                                                 \
  cycles += 6; const std::uint64_t back = ADDRESS(pc + 2);                                  \
  std::uint32_t low = BYTE1, high = code[pc + 2];                                           \
  std::uint8_t bus = BYTE1, value; TOP(value) static_cast<void>(value);                     \
  PUSH(back >> 8, true); PUSH(back, false);                                                 \
  if (!kPlain && !reach) high = fetched(static_cast<std::uint32_t>(back), cycles);   /* then */ \
  JUMP(low, high);
#define RTS                                                                                 \
  cycles += 6; std::uint8_t bus = opcode, low, high; PULL(low) PULL(low) TOP(high)          \
  const std::uint32_t back = low | high << 8; PEEK(low, back, bus); JUMP_BUS(low); GO((back + 1) & 0xffff);
#define RTI                                                                                 \
  cycles += 6; std::uint8_t bus = opcode, low, high; PULL(low) PULL(low) SET_STATUS(low)    \
  PULL(low) TOP(high) JUMP(low, high);
#define BRK                                                                                 \
  cycles += 7; B = true; const std::uint64_t back = ADDRESS(pc + 2);                                 \
  PUSH(back >> 8, true); PUSH(back, false); PUSH(STATUS, false); I = true;                          \
  std::uint8_t low, high; PEEK(low, 0xfffe, 0); PEEK(high, 0xffff, 0); JUMP(low, high);
#define JAM cycles += 2; pc += 1; IR = opcode; myExecutionStatus |= FatalErrorBit; left = -1;

namespace headrace::atari {

template <bool kPlain>
std::uint32_t Processor::run(std::uint32_t number) {
  static const void* const kLabels[256] = {
#define X(opcode, mode, operation) &&op_##opcode,
#include "opcodes.inc"
#undef X
  };
  const Page* const pages = pages_;
  std::uint8_t* const ram = pages[0x80 >> 6].directPeekBase;
  std::uint64_t pc = PC, origin = 0, reach = 0;
  std::uint32_t cycles = mySystem->cycles(), carry = C;
  std::uint8_t a = A, x = X, y = Y, sp = SP, sign = N ? 0x80 : 0, zero = notZ, overflow = V;
  bool decimal_mode = D;
  const std::uint8_t* code = nullptr;
  auto left = static_cast<std::int32_t>(number) - 1;
  std::uint32_t rest = 0;

  NEXT;

last:
  if (left < -1) goto done;
refill:
  if (pc >= reach) {
    const auto at = static_cast<std::uint32_t>(ADDRESS(pc) & 0xffff);
    Window found = window(at);
    if (kPlain ? !found.reach : found.reach && plain_) {   // to the other kind
      rest = static_cast<std::uint32_t>(left + 2);
      goto done;
    }
    if (!found.reach) found = instruction(at, cycles);
    code = found.code, origin = found.origin, reach = found.reach;
    pc = at - origin;
  }
  if (left == -1) IR = code[pc];
  goto* kLabels[code[pc]];

#define X(code_, mode, operation)                                \
  op_##code_ : {                                                 \
    [[maybe_unused]] constexpr std::uint8_t opcode = 0x##code_;  \
    mode(operation)                                              \
  }
#include "opcodes.inc"
#undef X

done:
  A = a, X = x, Y = y, SP = sp, PC = static_cast<std::uint16_t>(ADDRESS(pc));
  N = sign & 0x80, V = overflow, D = decimal_mode, notZ = zero, C = carry;
  set_cycles(cycles);
  if (chip_.finished()) myExecutionStatus |= StopExecutionBit;
  return rest;
}

bool Processor::execute(std::uint32_t number) {
  myExecutionStatus &= FatalErrorBit;
  if (myExecutionStatus) return false;
  // A watched boot has the memory behind a device, see boot_cache.hpp.
  plain_ = pages_[0x80 >> 6].directPokeBase != nullptr && !watcher_;
  chip_.take(mySystem->tia());
  take_bus();
  for (bool plain = plain_; number > 0; plain = !plain) number = plain ? run<true>(number) : run<false>(number);
  give_bus();
  chip_.give(mySystem->tia());
  return !(myExecutionStatus & FatalErrorBit);
}

}  // namespace headrace::atari
