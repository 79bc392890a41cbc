#include "together.hpp"

#include <ucontext.h>

#include <array>
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "iterations.hpp"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace headrace::box2d {
namespace {

constexpr std::size_t kStack = 256 << 10;

struct Fiber {
  ucontext_t context;
  std::unique_ptr<char[]> stack = std::make_unique_for_overwrite<char[]>(kStack);
  Iterations* waiting = nullptr;
  bool solved = false;
};

// The works of one thread.
class Fibers {
 public:
  static Fibers& of_this_thread() {
    thread_local Fibers fibers;
    return fibers;
  }

  void run(int count, const std::function<void(int)>& work) {
    work_ = &work;
    while (fibers_.size() < static_cast<std::size_t>(count)) fibers_.push_back(std::make_unique<Fiber>());
    for (int i = 0; i < count; ++i) {
      Fiber& fiber = *fibers_[i];
      getcontext(&fiber.context);
      fiber.context.uc_stack.ss_sp = fiber.stack.get();
      fiber.context.uc_stack.ss_size = kStack;
      fiber.context.uc_link = &caller_;
      makecontext(&fiber.context, &Fibers::begin, 0);
      resume(i);
    }
    while (iterate(count))
      for (int i = 0; i < count; ++i)
        if (std::exchange(fibers_[i]->waiting, nullptr)) resume(i);
    work_ = nullptr;
  }

  bool wait(Iterations& iterations) {
    if (!work_) return false;
    Fiber& fiber = *fibers_[current_];
    fiber.waiting = &iterations, fiber.solved = false;
    leave(fiber);
    return fiber.solved;
  }

 private:
  static void begin() {
    Fibers& fibers = of_this_thread();
    fibers.entered(nullptr);
    (*fibers.work_)(fibers.current_);
    fibers.left();
  }

  // Makes the iterations of the worlds that wait; returns false if none waits.
  bool iterate(int count) {
    bool any = false;
    for (int i = 0; i < count; ++i) {
      Fiber& first = *fibers_[i];
      if (!first.waiting || first.solved) continue;
      any = true;
      islands_.clear();
      for (int j = i; j < count && islands_.size() < kLanes; ++j) {
        Fiber& other = *fibers_[j];
        if (!other.waiting || other.solved || !fit(*first.waiting, *other.waiting)) continue;
        other.solved = true;
        islands_.push_back(other.waiting);
      }
      if (islands_.size() > 1) box2d::iterate(islands_);
      else first.solved = false;
    }
    return any;
  }

  void resume(int i) {
    current_ = i;
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(&fake_, fibers_[i]->stack.get(), kStack);
#endif
    swapcontext(&caller_, &fibers_[i]->context);
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(fake_, nullptr, nullptr);
#endif
  }

  void leave(Fiber& fiber) {
    void* fake = nullptr;
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(&fake, bottom_, size_);
#endif
    swapcontext(&fiber.context, &caller_);
    entered(fake);
  }

  // Tells a sanitizer of a change of stacks.
  void entered([[maybe_unused]] void* fake) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(fake, &bottom_, &size_);
#endif
  }

  void left() {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(nullptr, bottom_, size_);
#endif
  }

  const std::function<void(int)>* work_ = nullptr;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Iterations*> islands_;   // islands that fit each other
  ucontext_t caller_;
  int current_ = 0;
#if defined(__SANITIZE_ADDRESS__)
  void* fake_ = nullptr;
  const void* bottom_ = nullptr;
  std::size_t size_ = 0;
#endif
};

}  // namespace

void together(int count, const std::function<void(int)>& work) { Fibers::of_this_thread().run(count, work); }

bool done_together(Iterations& iterations) { return Fibers::of_this_thread().wait(iterations); }

}  // namespace headrace::box2d
