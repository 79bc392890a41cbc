// States of consoles that have booted, so that a console need not boot again.
//
// Resetting a game runs the console for some seventy frames. That always ends in the same state
// unless the program looks at something left over from before: memory that it has not yet
// written, or the timer, which a reset sets to one of 75 random values. A `BootWatch` sits
// between the processor and memory during a real boot and sees exactly that. A boot that read
// nothing left over, and wrote every byte, may be replaced by its outcome; if it read the timer,
// then only for the same draw.
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "ale/emucore/Device.hxx"
#include "ale/emucore/System.hxx"

namespace headrace::atari {

using SavedBoot = std::shared_ptr<const std::vector<std::byte>>;

// All consoles of one pool share it.
class BootCache {
 public:
  static constexpr int kAnyTimer = -1;

  SavedBoot find(int timer) const {
    const std::lock_guard lock(mutex_);
    auto at = boots_.find(kAnyTimer);
    if (at == boots_.end()) at = boots_.find(timer);
    return at == boots_.end() ? nullptr : at->second;
  }

  void add(int timer, SavedBoot boot) {
    const std::lock_guard lock(mutex_);
    boots_.emplace(timer, std::move(boot));
  }

 private:
  mutable std::mutex mutex_;
  std::map<int, SavedBoot> boots_;
};

// It watches memory and timer from its construction to its destruction.
class BootWatch final : public ale::stella::Device {
 public:
  explicit BootWatch(ale::stella::System& system);
  ~BootWatch() override;
  BootWatch(const BootWatch&) = delete;
  BootWatch& operator=(const BootWatch&) = delete;

  bool depends_on_memory() const { return read_stale_ || !written_.all(); }
  bool depends_on_timer() const { return read_timer_ || !set_timer_; }

  std::uint8_t peek(std::uint16_t address) override;
  void poke(std::uint16_t address, std::uint8_t value) override;

  const char* name() const override { return "BootWatch"; }
  void reset() override {}
  void install(ale::stella::System&) override {}
  bool save(ale::stella::Serializer&) override { return true; }
  bool load(ale::stella::Deserializer&) override { return true; }

 private:
  using Access = ale::stella::System::PageAccess;

  Access& page(std::uint16_t address) { return pages_[(address & 0x1fff) >> 6]; }

  ale::stella::System& system_;
  std::array<Access, 128> pages_{};   // the system's ways to them before
  std::bitset<128> written_;
  bool read_stale_ = false;
  bool set_timer_ = false;
  bool read_timer_ = false;
};

}  // namespace headrace::atari
