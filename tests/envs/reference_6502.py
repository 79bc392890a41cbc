"""A MOS 6502 from its documentation, one instruction at a time: the reference of `test_atari_opcodes.py`.

Documented opcodes follow MOS's programming manual (1976); undocumented ones "NMOS 6510 Unintended Opcodes" by Groepaz
of Solution, whose names are used; decimal mode Bruce Clark's "Decimal Mode in NMOS 6500 Series" (6502.org). The table
of opcodes, how long they take, and what they compute share nothing with `native/atari/machine/`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

N, V, D, I, Z, C = 0x80, 0x40, 0x08, 0x04, 0x02, 0x01  # noqa: E741 - the flags' own names
ALWAYS = 0x30
"""bits of the pushed status that are always set"""

# what each does and how it finds its operand, sixteen opcodes a line
TABLE = """
BRK imp  ORA izx  JAM imp  SLO izx  NOP zp   ORA zp   ASL zp   SLO zp   PHP imp  ORA imm  ASL acc  ANC imm  NOP abs  ORA abs  ASL abs  SLO abs
BPL rel  ORA izy  JAM imp  SLO izy  NOP zpx  ORA zpx  ASL zpx  SLO zpx  CLC imp  ORA aby  NOP imp  SLO aby  NOP abx  ORA abx  ASL abx  SLO abx
JSR abs  AND izx  JAM imp  RLA izx  BIT zp   AND zp   ROL zp   RLA zp   PLP imp  AND imm  ROL acc  ANC imm  BIT abs  AND abs  ROL abs  RLA abs
BMI rel  AND izy  JAM imp  RLA izy  NOP zpx  AND zpx  ROL zpx  RLA zpx  SEC imp  AND aby  NOP imp  RLA aby  NOP abx  AND abx  ROL abx  RLA abx
RTI imp  EOR izx  JAM imp  SRE izx  NOP zp   EOR zp   LSR zp   SRE zp   PHA imp  EOR imm  LSR acc  ALR imm  JMP abs  EOR abs  LSR abs  SRE abs
BVC rel  EOR izy  JAM imp  SRE izy  NOP zpx  EOR zpx  LSR zpx  SRE zpx  CLI imp  EOR aby  NOP imp  SRE aby  NOP abx  EOR abx  LSR abx  SRE abx
RTS imp  ADC izx  JAM imp  RRA izx  NOP zp   ADC zp   ROR zp   RRA zp   PLA imp  ADC imm  ROR acc  ARR imm  JMP ind  ADC abs  ROR abs  RRA abs
BVS rel  ADC izy  JAM imp  RRA izy  NOP zpx  ADC zpx  ROR zpx  RRA zpx  SEI imp  ADC aby  NOP imp  RRA aby  NOP abx  ADC abx  ROR abx  RRA abx
NOP imm  STA izx  NOP imm  SAX izx  STY zp   STA zp   STX zp   SAX zp   DEY imp  NOP imm  TXA imp  ANE imm  STY abs  STA abs  STX abs  SAX abs
BCC rel  STA izy  JAM imp  SHA izy  STY zpx  STA zpx  STX zpy  SAX zpy  TYA imp  STA aby  TXS imp  TAS aby  SHY abx  STA abx  SHX aby  SHA aby
LDY imm  LDA izx  LDX imm  LAX izx  LDY zp   LDA zp   LDX zp   LAX zp   TAY imp  LDA imm  TAX imp  LXA imm  LDY abs  LDA abs  LDX abs  LAX abs
BCS rel  LDA izy  JAM imp  LAX izy  LDY zpx  LDA zpx  LDX zpy  LAX zpy  CLV imp  LDA aby  TSX imp  LAS aby  LDY abx  LDA abx  LDX aby  LAX aby
CPY imm  CMP izx  NOP imm  DCP izx  CPY zp   CMP zp   DEC zp   DCP zp   INY imp  CMP imm  DEX imp  SBX imm  CPY abs  CMP abs  DEC abs  DCP abs
BNE rel  CMP izy  JAM imp  DCP izy  NOP zpx  CMP zpx  DEC zpx  DCP zpx  CLD imp  CMP aby  NOP imp  DCP aby  NOP abx  CMP abx  DEC abx  DCP abx
CPX imm  SBC izx  NOP imm  ISC izx  CPX zp   SBC zp   INC zp   ISC zp   INX imp  SBC imm  NOP imp  SBC imm  CPX abs  SBC abs  INC abs  ISC abs
BEQ rel  SBC izy  JAM imp  ISC izy  NOP zpx  SBC zpx  INC zpx  ISC zpx  SED imp  SBC aby  NOP imp  ISC aby  NOP abx  SBC abx  INC abx  ISC abx
"""  # noqa: E501 - one row of the usual square a line
_WORDS = TABLE.split()
OPCODES = list(zip(_WORDS[::2], _WORDS[1::2], strict=True))
"""mnemonic and addressing mode of each of the 256"""

LENGTHS = {"imp": 1, "acc": 1, "abs": 3, "abx": 3, "aby": 3, "ind": 3}
"""bytes of an instruction by mode; two for all others"""
STORES = {"STA", "STX", "STY", "SAX", "SHA", "SHX", "SHY", "TAS"}
UNSTABLE = {"SHA", "SHX", "SHY", "TAS"}
"""stores whose value depends on the address's upper byte"""
CYCLES = {"imm": 2, "imp": 2, "acc": 2, "zp": 3, "zpx": 4, "zpy": 4, "abs": 4, "abx": 4, "aby": 4, "izx": 6, "izy": 5}
OTHER_CYCLES = {
    "BRK": 7, "JSR": 6, "RTI": 6, "RTS": 6, "PHA": 3, "PHP": 3, "PLA": 4, "PLP": 4, "JMP abs": 3, "JMP ind": 5
}  # fmt: skip
BRANCHES = {
    "BPL": (N, False), "BMI": (N, True), "BVC": (V, False), "BVS": (V, True),
    "BCC": (C, False), "BCS": (C, True), "BNE": (Z, False), "BEQ": (Z, True),
}  # fmt: skip


class Outside(Exception):
    """The instruction goes where only devices answer, which have tests of their own."""


@dataclass
class State:
    """Registers, memory behind 0x80 to 0xff and its mirrors, the cartridge of 4 KB, and cycles so far."""

    a: int
    x: int
    y: int
    sp: int
    p: int
    pc: int
    memory: bytearray
    cartridge: bytes | bytearray
    cycles: int = 0
    jammed: bool = False

    def copy(self) -> State:
        return replace(self, memory=bytearray(self.memory))

    def read(self, address: int) -> int:
        if address & 0x1000:
            return self.cartridge[address & 0x0FFF]
        if address & 0x0280 == 0x0080:
            return self.memory[address & 0x7F]
        raise Outside

    def write(self, address: int, value: int) -> None:
        if address & 0x1000:
            return  # a cartridge is read alone
        if address & 0x0280 != 0x0080:
            raise Outside
        self.memory[address & 0x7F] = value

    def word(self, address: int) -> int:
        """Both bytes from one page, as the 6502 reads pointers."""
        return self.read(address) | self.read(address & 0xFF00 | (address + 1) & 0xFF) << 8

    def push(self, value: int) -> None:
        self.write(0x100 | self.sp, value)
        self.sp = self.sp - 1 & 0xFF

    def pull(self) -> int:
        self.sp = self.sp + 1 & 0xFF
        return self.read(0x100 | self.sp)

    def set(self, flag: int, on: object) -> None:
        self.p = self.p | flag if on else self.p & ~flag

    def result(self, value: int) -> int:
        """Sets N and Z by it."""
        value &= 0xFF
        self.set(N, value & 0x80)
        self.set(Z, value == 0)
        return value


@dataclass
class Operand:
    """Where an instruction's operand lies."""

    address: int
    base: int
    """before an index was added"""

    @property
    def crossed(self) -> bool:
        return bool((self.address ^ self.base) & 0xFF00)


def find(s: State, mode: str) -> Operand:
    """The operand of the instruction at the program counter."""
    one = s.read(s.pc + 1 & 0xFFFF)
    if mode == "imm":
        return Operand(s.pc + 1, s.pc + 1)
    if mode in ("zp", "zpx", "zpy"):
        at = one + {"zp": 0, "zpx": s.x, "zpy": s.y}[mode] & 0xFF
        return Operand(at, at)
    if mode == "izx":
        at = s.word(one + s.x & 0xFF)
        return Operand(at, at)
    if mode == "izy":
        base = s.word(one)
        return Operand(base + s.y & 0xFFFF, base)
    base = one | s.read(s.pc + 2 & 0xFFFF) << 8
    return Operand(base + {"abs": 0, "ind": 0, "abx": s.x, "aby": s.y}[mode] & 0xFFFF, base)


def add(s: State, value: int) -> None:
    """ADC."""
    carry, binary = s.p & C, s.a + value + (s.p & C)
    s.set(Z, not binary & 0xFF)
    total = binary
    if s.p & D:
        low = (s.a & 0x0F) + (value & 0x0F) + carry
        if low >= 0x0A:
            low = (low + 0x06 & 0x0F) + 0x10
        total = (s.a & 0xF0) + (value & 0xF0) + low
    s.set(N, total & 0x80)
    s.set(V, ~(s.a ^ value) & (s.a ^ total) & 0x80)
    if s.p & D and total >= 0xA0:
        total += 0x60
    s.set(C, total >= 0x100)
    s.a = total & 0xFF


def subtract(s: State, value: int) -> None:
    """SBC: its flags are those of the binary difference in either mode."""
    a, borrow, decimal = s.a, 1 - (s.p & C), s.p & D
    s.p &= ~D
    add(s, value ^ 0xFF)
    s.p |= decimal
    if decimal:
        low = (a & 0x0F) - (value & 0x0F) - borrow
        if low < 0:
            low = (low - 0x06 & 0x0F) - 0x10
        total = (a & 0xF0) - (value & 0xF0) + low
        s.a = (total - 0x60 if total < 0 else total) & 0xFF


def rotate_and(s: State, value: int) -> None:
    """ARR."""
    both = s.a & value
    s.a = s.result(both >> 1 | (s.p & C) << 7)
    s.set(V, (s.a ^ both) & 0x40)
    if not s.p & D:
        s.set(C, both & 0x80)
        s.set(V, (both >> 7 ^ both >> 6) & 1)
        return
    rotated = s.a
    if (both & 0x0F) + (both & 0x01) > 0x05:
        rotated = rotated & 0xF0 | rotated + 0x06 & 0x0F
    s.set(C, (both & 0xF0) + (both & 0x10) > 0x50)
    s.a = rotated + 0x60 & 0xFF if s.p & C else rotated


def compare(s: State, register: int, value: int) -> None:
    s.result(register - value)
    s.set(C, register >= value)


def unstable_store(s: State, value: int, at: Operand) -> None:
    """SHA and its like, which lose the address's upper byte to the value where a page is crossed."""
    value &= (at.base >> 8) + 1
    s.write(value << 8 | at.address & 0xFF if at.crossed else at.address, value)


@dataclass(frozen=True)
class Rules:
    """The rules in which the chip and an emulator of it may differ; the defaults are those of the chip."""

    add: Callable[[State, int], None] = add
    subtract: Callable[[State, int], None] = subtract
    unstable_store: Callable[[State, int, Operand], None] = unstable_store
    lax_zero_page: int = 3
    """cycles"""


CHIP = Rules()


def store(s: State, name: str, at: Operand, rules: Rules) -> None:
    if name not in UNSTABLE:
        s.write(at.address, {"STA": s.a, "STX": s.x, "STY": s.y, "SAX": s.a & s.x}[name])
        return
    if name == "TAS":
        s.sp = s.a & s.x
    rules.unstable_store(s, {"SHX": s.x, "SHY": s.y}.get(name, s.a & s.x), at)


LOADS = {"LDA": "a", "LDX": "x", "LDY": "y"}
COMPARES = {"CMP": "a", "CPX": "x", "CPY": "y"}
OF_A: dict[str, Callable[[State, int], int]] = {
    "ORA": lambda s, value: s.a | value,
    "AND": lambda s, value: s.a & value,
    "EOR": lambda s, value: s.a ^ value,
    "ANC": lambda s, value: s.a & value,
    "ALR": lambda s, value: (s.a & value) >> 1,
    "LAX": lambda s, value: value,
    "LAS": lambda s, value: s.sp & value,
    "LXA": lambda s, value: (s.a | 0xEE) & value,  # 0xEE: of most chips
    "ANE": lambda s, value: (s.a | 0xEE) & s.x & value,
}
"""what becomes the accumulator, and sets N and Z"""


def read_only(s: State, name: str, value: int, rules: Rules) -> None:
    """Instructions that take a value and leave memory as it is."""
    if name in LOADS:
        setattr(s, LOADS[name], s.result(value))
    elif name in COMPARES:
        compare(s, getattr(s, COMPARES[name]), value)
    elif name == "ADC":
        rules.add(s, value)
    elif name == "SBC":
        rules.subtract(s, value)
    elif name == "ARR":
        rotate_and(s, value)
    elif name == "BIT":
        for flag, on in ((N, value & 0x80), (V, value & 0x40), (Z, not s.a & value)):
            s.set(flag, on)
    elif name == "SBX":
        both = s.a & s.x
        compare(s, both, value)
        s.x = both - value & 0xFF
    elif name != "NOP":
        before = s.a
        s.a = s.result(OF_A[name](s, value))
        if name in ("LAX", "LAS", "LXA"):
            s.x = s.a
        if name == "LAS":
            s.sp = s.a
        if name == "ANC":
            s.set(C, s.a & 0x80)
        if name == "ALR":
            s.set(C, before & value & 1)


SHIFTS: dict[str, Callable[[int, int], tuple[int, int]]] = {
    "ASL": lambda value, carry: (value << 1, value >> 7),
    "ROL": lambda value, carry: (value << 1 | carry, value >> 7),
    "LSR": lambda value, carry: (value >> 1, value & 1),
    "ROR": lambda value, carry: (value >> 1 | carry << 7, value & 1),
    "INC": lambda value, carry: (value + 1, carry),
    "DEC": lambda value, carry: (value - 1, carry),
}
"""value and carry before → and after"""
TWO_AT_ONCE = {
    "SLO": ("ASL", "ORA"), "RLA": ("ROL", "AND"), "SRE": ("LSR", "EOR"), "RRA": ("ROR", "ADC"),
    "DCP": ("DEC", "CMP"), "ISC": ("INC", "SBC"),
}  # fmt: skip
"""undocumented: what is done to memory, and then with its new value"""


CHANGES = SHIFTS.keys() | TWO_AT_ONCE.keys()


def changed(s: State, name: str, value: int, rules: Rules) -> int:
    """Executes an instruction that changes a value in its place; returns the value that is written back."""
    first, second = TWO_AT_ONCE.get(name, (name, "NOP"))
    new, carry = SHIFTS[first](value, s.p & C)
    s.set(C, carry)
    new = s.result(new)
    read_only(s, second, new, rules)
    return new


FLAGS = {"CLC": (C, 0), "SEC": (C, 1), "CLI": (I, 0), "SEI": (I, 1), "CLD": (D, 0), "SED": (D, 1), "CLV": (V, 0)}
MOVES = {
    "TAX": ("a", "x", 0), "TAY": ("a", "y", 0), "TXA": ("x", "a", 0), "TYA": ("y", "a", 0), "TSX": ("sp", "x", 0),
    "INX": ("x", "x", 1), "INY": ("y", "y", 1), "DEX": ("x", "x", -1), "DEY": ("y", "y", -1),
}  # fmt: skip
"""from which register to which, and what is added"""


def transfer(s: State, name: str) -> None:
    """Instructions of one byte that touch registers alone."""
    if name in FLAGS:
        s.set(*FLAGS[name])
    elif name in MOVES:
        source, target, more = MOVES[name]
        setattr(s, target, s.result(getattr(s, source) + more))
    elif name == "TXS":
        s.sp = s.x
    else:
        assert name == "NOP"


def push_word(s: State, word: int) -> None:
    s.push(word >> 8 & 0xFF)
    s.push(word & 0xFF)


def pull_word(s: State) -> int:
    return s.pull() | s.pull() << 8


def status_from(pulled: int) -> int:
    return pulled & ~ALWAYS | ALWAYS


def call(s: State) -> None:
    to = find(s, "abs").address
    push_word(s, s.pc + 2)
    s.pc = to


def interrupt(s: State) -> None:
    push_word(s, s.pc + 2)
    s.push(s.p | ALWAYS)
    s.p |= I
    s.pc = s.read(0xFFFE) | s.read(0xFFFF) << 8


def come_back(s: State) -> None:
    s.p = status_from(s.pull())
    s.pc = pull_word(s)


def jam(s: State) -> None:
    s.jammed = True


def pulled(s: State) -> None:
    s.a = s.result(s.pull())


def pulled_status(s: State) -> None:
    s.p = status_from(s.pull())


def returned(s: State) -> None:
    s.pc = pull_word(s) + 1 & 0xFFFF


def jump(s: State) -> None:
    s.pc = find(s, "abs").address


def jump_indirect(s: State) -> None:
    s.pc = s.word(find(s, "ind").address)


JUMPS: dict[str, Callable[[State], None]] = {
    "JMP abs": jump, "JMP ind": jump_indirect, "JSR abs": call, "RTS imp": returned, "RTI imp": come_back,
    "BRK imp": interrupt, "JAM imp": jam,
}  # fmt: skip
"""instructions that say themselves where the next one is"""
STACK: dict[str, Callable[[State], None]] = {
    "PHA": lambda s: s.push(s.a), "PHP": lambda s: s.push(s.p | ALWAYS), "PLA": pulled, "PLP": pulled_status
}  # fmt: skip


def branch(s: State, name: str) -> None:
    flag, wanted = BRANCHES[name]
    s.pc += 2
    s.cycles += 2
    if bool(s.p & flag) is not wanted:
        return
    offset = s.read(s.pc - 1)
    to = s.pc + offset - (0x100 if offset & 0x80 else 0) & 0xFFFF
    s.cycles += 2 if (to ^ s.pc) & 0xFF00 else 1
    s.pc = to


def step(s: State, rules: Rules = CHIP) -> None:
    """Execute the instruction at the program counter, whose cycles are added.

    Raises:
        Outside: it goes where devices answer.
    """
    name, mode = OPCODES[s.read(s.pc)]
    both = f"{name} {mode}"
    s.cycles += OTHER_CYCLES.get(both, OTHER_CYCLES.get(name, CYCLES.get(mode, 0)))
    if name in BRANCHES:
        branch(s, name)
    elif both in JUMPS:
        JUMPS[both](s)
    else:
        straight_on(s, name, mode, rules)
        s.pc = s.pc + LENGTHS.get(mode, 2) & 0xFFFF


def straight_on(s: State, name: str, mode: str, rules: Rules) -> None:
    """Instructions that the next one in memory follows."""
    if name in STACK:
        STACK[name](s)
    elif mode == "acc":
        s.a = changed(s, name, s.a, rules)
    elif mode == "imp":
        transfer(s, name)
    else:
        with_operand(s, name, mode, rules)


def with_operand(s: State, name: str, mode: str, rules: Rules) -> None:
    """Instructions with an operand in memory: an index that may carry into the upper byte costs a cycle."""
    at, indexed = find(s, mode), mode in ("abx", "aby", "izy")
    if name in STORES:
        s.cycles += indexed
        store(s, name, at, rules)
    elif name in CHANGES:
        s.cycles += 2 + indexed
        s.write(at.address, changed(s, name, s.read(at.address), rules))
    else:
        s.cycles += indexed and at.crossed
        if (name, mode) == ("LAX", "zp"):
            s.cycles += rules.lax_zero_page - CYCLES["zp"]
        read_only(s, name, s.read(at.address), rules)
