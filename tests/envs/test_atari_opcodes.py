"""Every opcode of the Atari machine's processor beside documentation: Headrace's core and the emulator's own.

Programs set registers, flags and memory and then run one instruction; the state after it, and its cycles, must be
those of `reference_6502.py`. `DEVIATIONS` lists where the emulator itself is known to differ from the chip, and
Headrace's core does as the emulator does, as games must run on either alike.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from reference_6502 import (
    CHANGES,
    CHIP,
    LENGTHS,
    OPCODES,
    STORES,
    UNSTABLE,
    C,
    D,
    Operand,
    Outside,
    Rules,
    State,
    V,
    step,
)

from headrace.native_modules import ATARI

pytest.importorskip("ale_py")
from ale_py import roms

EDGES = (0x00, 0x01, 0x05, 0x09, 0x0A, 0x0F, 0x10, 0x49, 0x50, 0x7F, 0x80, 0x90, 0x99, 0x9A, 0xF0, 0xFE, 0xFF)
PRELUDE = 13
"""bytes of the instructions before the one that is tested: LDX TXS LDA PHA LDA LDX LDY PLP"""
BEFORE = 8
"""instructions in them"""
EACH = 20
"""cases of each opcode in the ordinary tests"""
MIRRORS = (0x1000, 0x5000, 0xB000, 0xF000)
MEMORY = (0x0080, 0x0180, 0x0480, 0x0D80, 0x4080, 0xE180)
"""some mirrors of memory: of an address, only A12, A9, A7 and the lowest seven bits are decoded"""


# ---- the emulator's differences from the chip
def digits(packed: int) -> int:
    return (packed >> 4) * 10 + (packed & 0x0F)


def packed(number: int) -> int:
    return number % 100 // 10 << 4 | number % 10


def emulated_add(s: State, value: int) -> None:
    if not s.p & D:
        CHIP.add(s, value)
        return
    a, total = s.a, digits(s.a) + digits(value) + (s.p & C)
    s.set(C, total > 99)
    s.a = s.result(packed(total & 0xFF))
    s.set(V, (a ^ s.a) & (s.a ^ value) & 0x80)


def emulated_subtract(s: State, value: int) -> None:
    if not s.p & D:
        CHIP.subtract(s, value)
        return
    a, borrow = s.a, 1 - (s.p & C)
    total = digits(a) - digits(value) - borrow
    total += 100 if total < 0 else 0
    s.a = s.result(packed(total) if total >= 0 else digits(total & 0xFF))
    s.set(C, a >= value + borrow)
    s.set(V, (a ^ s.a) & (s.a ^ value) & 0x80)


def emulated_store(s: State, value: int, at: Operand) -> None:
    s.write(at.address, value & (at.address >> 8) + 1)


EMULATOR = Rules(emulated_add, emulated_subtract, emulated_store, lax_zero_page=4)
DEVIATIONS = {
    "decimal sums and differences: flags follow from the result, and digits above nine count on": "ADC RRA SBC ISC",
    "unstable stores across a page: the upper byte is the effective address's, which stays as it is": "SHA SHX SHY TAS",
    "LAX from page zero takes four cycles": "LAX",
}
"""how the emulator differs from the chip → the mnemonics that do, and no others do"""


# ---- programs
@dataclass
class Case:
    """An instruction with all that it finds: the state just before it."""

    opcode: int
    state: State
    start: bytes
    """memory before the prelude"""

    def __str__(self) -> str:
        name, mode = OPCODES[self.opcode]
        s = self.state
        operand = bytes(s.cartridge[(s.pc & 0xFFF) + 1 : (s.pc & 0xFFF) + 3]).hex(" ")
        registers = f"A={s.a:02x} X={s.x:02x} Y={s.y:02x} SP={s.sp:02x} P={s.p:02x}"
        return f"{self.opcode:02x} {name} {mode} at {s.pc:04x}, then {operand}; {registers}"


class Cases:
    """Draws cases, the same ones for the same seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.bytes = [*EDGES] * 16 + list(range(256))
        self.bank = bytes(self.random.choices(range(256), k=0x1000))

    def of(self, opcode: int) -> Case:
        """A case whose instruction stays in memory and the cartridge."""
        while True:
            case = self.draw(opcode)
            try:
                for rules in (CHIP, EMULATOR):
                    step(case.state.copy(), rules)
            except Outside:
                continue
            return case

    def draw(self, opcode: int) -> Case:
        name, mode = OPCODES[opcode]
        pc = self.random.choice(MIRRORS) | self.random.randrange(PRELUDE, 0xFF7)
        a, x, y, flags, *memory = self.random.choices(self.bytes, k=4 + 128)
        sp = self.random.choice((0x80, 0x81, 0xC0, 0xFE, 0xFF))
        s = State(a, x, y, sp, flags | 0x30, pc, bytearray(memory), b"")
        operand = self.operand(name, mode, s)
        start = bytes(s.memory)
        s.memory[s.sp & 0x7F] = s.p  # as the prelude leaves it
        s.cartridge = self.program(s, opcode, operand)
        return Case(opcode, s, start)

    def program(self, s: State, opcode: int, operand: bytes) -> bytes:
        prelude = bytes([0xA2, s.sp, 0x9A, 0xA9, s.p, 0x48, 0xA9, s.a, 0xA2, s.x, 0xA0, s.y, 0x28])
        entry = s.pc - PRELUDE
        bank = bytearray(self.bank)
        bank[entry & 0xFFF : (entry & 0xFFF) + PRELUDE + 1 + len(operand)] = prelude + bytes([opcode]) + operand
        bank[0xFFC:0xFFE] = entry.to_bytes(2, "little")
        return bytes(bank)

    def operand(self, name: str, mode: str, s: State) -> bytes:
        """The bytes after the opcode, so that the effective address is in memory or in the cartridge."""
        if LENGTHS.get(mode, 2) == 1:
            return b""
        if mode in ("imm", "rel"):
            return bytes([self.random.choice(self.bytes)])
        if mode in ("zp", "zpx", "zpy"):
            at = self.random.randrange(0x80, 0x100)
            return bytes([at - {"zp": 0, "zpx": s.x, "zpy": s.y}[mode] & 0xFF])
        at = self.address(name in STORES or name in CHANGES)
        if mode in ("izx", "izy"):
            pointer = self.random.randrange(0x80, 0xFF)
            to = at - (s.y if mode == "izy" else 0) & 0xFFFF
            s.memory[pointer & 0x7F], s.memory[(pointer & 0x7F) + 1] = to & 0xFF, to >> 8
            return bytes([pointer - (s.x if mode == "izx" else 0) & 0xFF])
        return (at - {"abx": s.x, "aby": s.y}.get(mode, 0) & 0xFFFF).to_bytes(2, "little")

    def address(self, written: bool) -> int:
        if self.random.random() < (0.1 if written else 0.4):
            low = self.random.choice((self.random.randrange(0x1000), self.random.randrange(16) << 8 | 0xFF))
            return self.random.choice(MIRRORS) | low
        return self.random.choice(MEMORY) + self.random.randrange(128)


def left(machine: Any, case: Case) -> State:
    """The state of a machine after the case's instruction."""
    machine.start(case.state.cartridge, case.start)
    machine.instructions(BEFORE)
    cycles = machine.cycles
    machine.instructions(1)
    r, memory = machine.registers, bytearray(machine.memory)
    cycles = machine.cycles - cycles
    return State(r.a, r.x, r.y, r.sp, r.status, r.pc, memory, case.state.cartridge, cycles, r.jammed)


def expected(case: Case, rules: Rules) -> State:
    after = case.state.copy()
    step(after, rules)
    return after


def differences(one: State, other: State) -> list[str]:
    """By name, `one` first. Where the processor stopped, its cycles and where it stands mean nothing."""
    names = ["a", "x", "y", "sp", "p", "jammed"] + ([] if one.jammed and other.jammed else ["pc", "cycles"])
    values = [(name, getattr(one, name), getattr(other, name)) for name in names]
    found = [f"{name} {a:02x}, not {b:02x}" for name, a, b in values if a != b]
    pairs = enumerate(zip(one.memory, other.memory, strict=True))
    return found + [f"memory {i + 0x80:02x} {a:02x}, not {b:02x}" for i, (a, b) in pairs if a != b]


@pytest.fixture(scope="module")
def machines() -> dict[str, Any]:
    module, rom = ATARI.load(), str(roms.get_rom_path("alien"))
    return {"ours": module.Workbench(rom), "original": module.Workbench(rom, original=True)}


def drawn(seed: int, each: int) -> Iterator[Case]:
    """``each`` cases of every opcode, and five times as many of the unstable stores, of which few cross a page."""
    cases = Cases(seed)
    for opcode, (name, _) in enumerate(OPCODES):
        for _ in range(5 * each if name in UNSTABLE else each):
            yield cases.of(opcode)


def check(machines: dict[str, Any], seed: int, each: int) -> None:
    wrong = []
    for case in drawn(seed, each):
        wanted = expected(case, EMULATOR)
        for name, machine in machines.items():
            if found := differences(left(machine, case), wanted):
                wrong.append(f"{name}: {case}: {', '.join(found)}")
    assert not wrong, "\n".join([f"{len(wrong)} differ, among them", *wrong[:: 1 + len(wrong) // 20]])


def test_every_opcode_follows_its_documentation_on_both_machines(machines: dict[str, Any]) -> None:
    check(machines, seed=0, each=EACH)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(1, 9))
def test_every_opcode_follows_its_documentation_in_thousands_of_cases(machines: dict[str, Any], seed: int) -> None:
    check(machines, seed, each=250)


def test_the_emulator_differs_from_the_chip_only_in_the_listed_opcodes() -> None:
    found = set()
    for case in drawn(seed=0, each=EACH):
        name, mode = OPCODES[case.opcode]
        if differences(expected(case, EMULATOR), expected(case, CHIP)):
            found.add(name)
            assert name != "LAX" or mode == "zp"
    assert found == set(" ".join(DEVIATIONS.values()).split())


def test_decimal_sums_and_differences_equal_those_of_the_chip() -> None:
    """All 40,000: of decimal numbers the emulator's accumulator and carry are right, if not its other flags."""
    numbers = [packed(i) for i in range(100)]
    for a, value, carry in itertools.product(numbers, numbers, (0, C)):
        for name in ("add", "subtract"):
            chip, emulator = (State(a, 0, 0, 0, D | carry, 0, bytearray(), b"") for _ in range(2))
            getattr(CHIP, name)(chip, value)
            getattr(EMULATOR, name)(emulator, value)
            assert (chip.a, chip.p & C) == (emulator.a, emulator.p & C), (name, a, value, carry)


@pytest.mark.nightly
@pytest.mark.parametrize("opcode", [0x69, 0xE9, 0x6B])
@pytest.mark.parametrize("decimal", [0, D])
def test_adc_sbc_and_arr_equal_the_reference_for_every_pair_of_bytes(
    machines: dict[str, Any], opcode: int, decimal: int
) -> None:
    """ADC, SBC and ARR of every two bytes, with and without carry."""
    cases = Cases(0)
    for a, value, carry in itertools.product(range(256), range(256), (0, C)):
        s = State(a, 0, 0, 0xFF, 0x30 | decimal | carry, 0xF800, bytearray(128), b"")
        s.memory[0x7F] = s.p
        s.cartridge = cases.program(s, opcode, bytes([value]))
        case = Case(opcode, s, bytes(128))
        for name, machine in machines.items():
            assert not differences(left(machine, case), expected(case, EMULATOR)), f"{name}: {case}"
