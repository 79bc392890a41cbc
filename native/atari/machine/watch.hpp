// Accesses over the bus to the picture chip and from it, for tests: a `Watcher` sees every access, and may suppress a
// write.
//
// Either machine can be watched, the emulator's own and ours, and both say the same of the same program. A machine
// that is not watched pays nothing for it: ours then runs on its way around plain memory, see Processor::run.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

namespace ale::stella {
class Device;
class System;
}  // namespace ale::stella

namespace headrace::atari {

struct Access {
  bool write = false;
  std::uint8_t address = 0, value = 0;   // the register's address; the value that was written, or answered to a read
  int line = 0;                          // the picture's line, negative above it
  int clock = 0;                         // the line's clock: 0 to 227, its pixels begin at 68
  std::uint16_t collisions = 0;          // before a write, after a read
  std::array<std::uint8_t, 128> memory{};

  // "GRP0 = 3c, line 57, clock 98"
  std::string text() const;
};

class Watcher {
 public:
  virtual ~Watcher() = default;

  // Returns false if the write is to be lost.
  virtual bool see(const Access& access) = 0;
};

// A system's chip is watched while this lives.
class Watch {
 public:
  Watch(ale::stella::System& system, Watcher& watcher);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  ale::stella::System& system_;
  std::unique_ptr<ale::stella::Device> spy_;   // it comes before the emulator's own chip; ours needs none
};

// Returns an access of this moment, without its collisions.
Access access(ale::stella::System& system, bool write, std::uint32_t address, std::uint8_t value, std::uint32_t cycles);

}  // namespace headrace::atari
