#include "workbench.hpp"

#include <algorithm>
#include <stdexcept>

#include "ale/emucore/Cart.hxx"
#include "ale/emucore/Console.hxx"
#include "ale/emucore/Deserializer.hxx"
#include "ale/emucore/Serializer.hxx"
#include "ale/emucore/System.hxx"
#include "console.hpp"
#include "machine/processor.hpp"

namespace headrace::atari {
namespace {

constexpr int kCartridgePage = 0x1000 >> 6;
constexpr std::uint16_t kMemoryAt = 0x80;

}  // namespace

Workbench::Workbench(const std::filesystem::path& rom, bool original) : ale_(false) {
  const Console checked({rom}, nullptr);   // refuses a bad ROM, with which the emulator alone would end the process
  ale_.setFloat("repeat_action_probability", 0);
  ale_.setInt("random_seed", 1);
  ale_.loadROM(rom);
  if (!original && !install(system())) throw std::runtime_error(rom.string() + " is not a cartridge for our machine");
  cartridge_ = dynamic_cast<ale::stella::Cartridge*>(system().getPageAccess(kCartridgePage).device);
  int size = 0;
  std::uint8_t* image = cartridge_->getImage(size);
  image_ = {image, static_cast<std::size_t>(size)};
}

ale::stella::System& Workbench::system() { return ale_.theOSystem->console().system(); }

void Workbench::start(std::span<const std::uint8_t> program, std::span<const std::uint8_t, kMemory> memory) {
  if (program.size() > image_.size()) throw std::invalid_argument("the program is longer than the cartridge");
  std::ranges::copy(program, image_.begin());
  cartridge_->reset();   // to its first banks
  for (std::size_t i = 0; i < kMemory; ++i) system().poke(static_cast<std::uint16_t>(kMemoryAt + i), memory[i]);
  system().m6502().reset();
}

void Workbench::instructions(unsigned n) { system().m6502().execute(n); }

std::uint32_t Workbench::cycles() { return system().cycles(); }

// The registers as either core saves them.
Workbench::Registers Workbench::registers() {
  ale::stella::Serializer out;
  system().m6502().save(out);
  ale::stella::Deserializer in(out.get_str());
  in.getString();
  auto byte = [&] { return static_cast<std::uint8_t>(in.getInt()); };
  Registers found{};
  found.a = byte(), found.x = byte(), found.y = byte(), found.sp = byte(), found.last = byte();
  found.pc = static_cast<std::uint16_t>(in.getInt());
  auto flag = [&](int bit) { return static_cast<std::uint8_t>(in.getBool() << bit); };
  found.status = 0x30;
  found.status |= flag(7), found.status |= flag(6);
  in.getBool();   // B
  found.status |= flag(3), found.status |= flag(2);
  found.status |= in.getBool() ? 0 : 0x02;
  found.status |= flag(0);
  found.jammed = system().m6502().fatalError();
  return found;
}

std::array<std::uint8_t, Workbench::kMemory> Workbench::memory() {
  std::array<std::uint8_t, kMemory> bytes{};
  for (std::size_t i = 0; i < kMemory; ++i) bytes[i] = system().peek(static_cast<std::uint16_t>(kMemoryAt + i));
  return bytes;
}

}  // namespace headrace::atari
