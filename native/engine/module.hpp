// Binds the engine to Python. A simulator's module needs, beside its Environment:
//
//   NB_MODULE(_mine, m) {
//     headrace::bind_engine(m);
//     m.def("simulator", [](options…) -> headrace::Simulator { … });
//   }
//
// and `ThreadsExecutor` runs what `simulator` returns. Build it with an NB_DOMAIN of its own.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <exception>

#include "engine.hpp"
#include "together.hpp"

namespace headrace {

namespace nb = nanobind;

using Bytes = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;
using Ints = nb::ndarray<const std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Seeds = nb::ndarray<const std::uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Output = nb::ndarray<nb::c_contig, nb::device::cpu>;

// The pool was closed, perhaps by another thread during this call.
struct Closed : std::runtime_error {
  Closed() : std::runtime_error("the pool was closed") {}
};

// An engine for Python: it releases the interpreter's lock, honours signals, and never joins threads that a fork left
// behind.
class BoundEngine {
 public:
  BoundEngine(const Simulator& simulator, Settings settings) : owner_(getpid()) {
    nb::gil_scoped_release unlocked;
    engine_ = std::make_shared<Engine>(simulator, std::move(settings));
  }

  ~BoundEngine() { close(); }

  // Whoever is inside a call keeps the engine until the call has noticed.
  void close() {
    auto engine = std::move(engine_);
    if (getpid() != owner_) new std::shared_ptr<Engine>(std::move(engine));  // leaked on purpose
    nb::gil_scoped_release unlocked;
    engine.reset();
  }

  Slot bind(const std::vector<Output>& arrays) {
    std::vector<std::span<std::byte>> bytes;
    for (const auto& array : arrays) bytes.emplace_back(static_cast<std::byte*>(array.data()), array.nbytes());
    const bool has_rows = !arrays.empty() && arrays.front().ndim() > 0;
    return engine()->bind(bytes, has_rows ? arrays.front().shape(0) : 0);
  }

  void step(const Bytes& actions, std::optional<Ints> env_ids, const Slot& slot) {
    auto e = engine();
    e->start_step(data(actions), env_ids ? env_ids->data() : nullptr, slot);
    complete(*e);
  }

  void reset(std::optional<Ints> env_ids, std::optional<Seeds> seeds, const Slot& slot) {
    auto e = engine();
    e->start_reset(env_ids ? env_ids->data() : nullptr, seeds ? seeds->data() : nullptr, slot);
    complete(*e);
  }

  void start_step(const Bytes& actions, const Ints& env_ids, const Slot& slot) {
    engine()->start_step(data(actions), env_ids.data(), slot, Engine::Who::helpers);
  }

  void start_reset(const Ints& env_ids, std::optional<Seeds> seeds, const Slot& slot) {
    engine()->start_reset(env_ids.data(), seeds ? seeds->data() : nullptr, slot, Engine::Who::helpers);
  }

  // Returns false when time is up. That is known only while helpers work; a caller without helpers works to the end.
  bool finish(std::optional<double> timeout) {
    auto e = engine();
    if (!timeout || !e->has_helpers()) {
      nb::gil_scoped_release unlocked;
      e->take_part();
    }
    if (!wait(timeout, [&](auto patience) { return e->wait_done(patience); })) return false;
    e->check();
    return true;
  }

  void set_slots(const std::vector<Slot>& slots) { engine()->set_slots(slots); }

  void send_step(const Bytes& actions, const Ints& env_ids) {
    engine()->send_step(data(actions), env_ids.data(), static_cast<int>(env_ids.size()));
  }

  void send_reset(const Ints& env_ids, std::optional<Seeds> seeds) {
    engine()->send_reset(env_ids.data(), seeds ? seeds->data() : nullptr, static_cast<int>(env_ids.size()));
  }

  // Returns the position of the slot that became full, or -1 when time is up; `fresh` takes its place.
  int recv(std::optional<double> timeout, const Slot& fresh) {
    auto e = engine();
    if (!wait(timeout, [&](auto patience) { return e->wait_ready(patience); })) return -1;
    e->check_ready();
    return e->replace_ready(fresh);
  }

  void discard() {
    auto e = engine();
    wait(std::nullopt, [&](auto patience) { return e->wait_idle(patience); });
    e->forget();
  }

  nb::bytes save(int env_id) {
    std::vector<std::byte> out;
    engine()->save(env_id, out);
    return nb::bytes(out.data(), out.size());
  }

  void load(const Ints& env_ids, const std::vector<nb::bytes>& blobs) {
    std::vector<Engine::Bytes> states;
    for (const auto& blob : blobs) states.emplace_back(static_cast<const std::byte*>(blob.data()), blob.size());
    engine()->load({env_ids.data(), env_ids.size()}, states);
  }

  void render(int env_id, nb::ndarray<std::uint8_t, nb::ndim<3>, nb::c_contig, nb::device::cpu> frame) {
    auto e = engine();
    nb::gil_scoped_release unlocked;
    e->render(env_id, frame.data());
  }

  int num_slots() { return engine()->num_slots(); }

 private:
  // Works on the loop to its end, through signals and closing, because the loop reads and writes the caller's memory.
  // An exception that a signal's handler raised is raised afterwards; results and failures are then dropped.
  void complete(Engine& e) {
    {
      nb::gil_scoped_release unlocked;
      e.take_part();
    }
    std::exception_ptr interrupt;
    for (bool done = false; !done;) {
      try {
        done = wait(std::nullopt, [&](auto patience) { return e.wait_done(patience); });
      } catch (...) {
        if (!interrupt) interrupt = std::current_exception();
      }
    }
    if (!interrupt) return e.check();
    try {
      e.check();
    } catch (const Failure&) {
    }
    std::rethrow_exception(interrupt);
  }

  static const std::byte* data(const Bytes& actions) { return static_cast<const std::byte*>(actions.data()); }

  std::shared_ptr<Engine> engine() {
    if (!engine_) throw Closed();
    return engine_;
  }

  // Waits without the interpreter's lock, in slices short enough for Ctrl-C.
  template <class Wait>
  bool wait(std::optional<double> timeout, Wait wait_for) {
    using Clock = std::chrono::steady_clock;
    constexpr auto slice = std::chrono::milliseconds(50);
    auto start = Clock::now();
    while (true) {
      auto patience = slice;
      if (timeout) {
        auto left = std::chrono::duration<double>(*timeout) - (Clock::now() - start);
        patience = std::clamp(std::chrono::duration_cast<std::chrono::milliseconds>(left), {}, slice);
      }
      bool done;
      {
        nb::gil_scoped_release unlocked;
        done = wait_for(patience);
      }
      if (done) return true;
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      if (!engine_) throw Closed();
      if (timeout && Clock::now() - start >= std::chrono::duration<double>(*timeout)) return false;
    }
  }

  std::shared_ptr<Engine> engine_;
  int owner_;
};

inline Settings make_settings(int num_envs, int batch_size, int num_threads, std::vector<std::uint64_t> seeds,
                              const std::string& autoreset, int max_episode_steps, int pin_from) {
  Settings settings{num_envs,
                    batch_size,
                    num_threads,
                    std::move(seeds),
                    Autoreset::next_step,
                    max_episode_steps,
                    pin_from,
                    Topology::of_this_machine()};
  if (autoreset == "same_step") settings.autoreset = Autoreset::same_step;
  if (autoreset == "disabled") settings.autoreset = Autoreset::disabled;
  return settings;
}

// Raises `headrace.errors.<name>`.
inline void raise(const char* name, const std::string& message) {
  PyErr_SetString(nb::module_::import_("headrace.errors").attr(name).ptr(), message.c_str());
}

inline void bind_engine(nb::module_& m) {
  using namespace nb::literals;
  nb::set_leak_warnings(false);  // a daemon thread that the end of a program cuts off keeps its objects
  nb::register_exception_translator([](const std::exception_ptr& p, void*) {
    try {
      std::rethrow_exception(p);
    } catch (const Failure& e) {
      raise("EnvironmentFailure", "environment " + std::to_string(e.env_id) + ": " + e.what());
    } catch (const Closed& e) {
      raise("ClosedError", e.what());
    } catch (const Busy& e) {
      raise("SequenceError", std::string(e.what()) + ": recv their results first");
    } catch (const TooFewThreads& e) {
      raise("OptionError", std::string("num_threads: ") + e.what() +
                               "; ask for fewer, or raise the limit on threads (ulimit -u) or memory (ulimit -v)");
    } catch (const BadThreads& e) {
      raise("OptionError", e.what());
    } catch (const BadSpec& e) {
      raise("SimulatorError", e.what());
    } catch (const BadBatch& e) {
      raise("SimulatorError", e.what());
    } catch (const BadState& e) {
      raise("StateError", "the state for environment " + std::to_string(e.env_id) + " does not fit: " + e.what());
    }
  });

  nb::class_<Declared>(m, "Declared", "One row of an array, as a simulator declares it.")
      .def_ro("name", &Declared::name)
      .def_ro("dtype", &Declared::dtype)
      .def_ro("shape", &Declared::shape);
  nb::class_<Simulator>(m, "Simulator", "A kind of environment: what its rows hold, and how to make one.")
      .def_prop_ro(
          "fields", [](const Simulator& s) { return s.spec.fields(); }, "What environments write, in order.")
      .def_prop_ro(
          "action", [](const Simulator& s) { return s.spec.actions(); }, "One row of actions; None: it takes none.")
      .def_prop_ro("frame_shape", [](const Simulator& s) { return nb::make_tuple(s.frame_height, s.frame_width, 3); });
  nb::class_<Slot>(m, "Slot", "The arrays of one batch, as the engine writes to them.")
      .def(
          "over", [](const Slot& slot, const std::vector<std::uintptr_t>& addresses) { return slot.over(addresses); },
          "addresses"_a, "The same over the arrays of another batch of as many rows.");
  nb::class_<BoundEngine>(m, "Engine",
                          "Runs environments on threads; used through ThreadsExecutor, which checks arguments.")
      .def(
          "__init__",
          [](BoundEngine* self, const Simulator& simulator, int num_envs, int batch_size, int num_threads,
             std::vector<std::uint64_t> seeds, const std::string& autoreset, int max_episode_steps, int pin_from) {
            new (self) BoundEngine(simulator, make_settings(num_envs, batch_size, num_threads, std::move(seeds),
                                                            autoreset, max_episode_steps, pin_from));
          },
          "simulator"_a, "num_envs"_a, "batch_size"_a, "num_threads"_a, "seeds"_a, "autoreset"_a, "max_episode_steps"_a,
          "pin_from"_a)
      .def_prop_ro("num_slots", &BoundEngine::num_slots)
      .def("bind", &BoundEngine::bind, "arrays"_a)
      .def("step", &BoundEngine::step, "actions"_a, "env_ids"_a.none(), "slot"_a)
      .def("reset", &BoundEngine::reset, "env_ids"_a.none(), "seeds"_a.none(), "slot"_a)
      .def("start_step", &BoundEngine::start_step, "actions"_a, "env_ids"_a, "slot"_a)
      .def("start_reset", &BoundEngine::start_reset, "env_ids"_a, "seeds"_a.none(), "slot"_a)
      .def("finish", &BoundEngine::finish, "timeout"_a.none())
      .def("set_slots", &BoundEngine::set_slots, "slots"_a)
      .def("send_step", &BoundEngine::send_step, "actions"_a, "env_ids"_a)
      .def("send_reset", &BoundEngine::send_reset, "env_ids"_a, "seeds"_a.none())
      .def("recv", &BoundEngine::recv, "timeout"_a.none(), "fresh"_a)
      .def("discard", &BoundEngine::discard)
      .def("save", &BoundEngine::save, "env_id"_a)
      .def("load", &BoundEngine::load, "env_ids"_a, "blobs"_a)
      .def("render", &BoundEngine::render, "env_id"_a, "frame"_a)
      .def("close", &BoundEngine::close);
}

}  // namespace headrace
