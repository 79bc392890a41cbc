// In place of the emulator's phosphor_blend.cpp, which this build leaves out: for an option that
// we never set, it spends 60 ms and half a megabyte on tables whenever a game is loaded.
#include <stdexcept>

#include "ale/environment/phosphor_blend.hpp"

namespace ale {

PhosphorBlend::PhosphorBlend(stella::OSystem*) {}

void PhosphorBlend::process(ALEScreen&) { throw std::logic_error("colour averaging is not built in"); }

}  // namespace ale
