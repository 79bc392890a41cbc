// Replaces the emulator's phosphor_blend.cpp, which this build leaves out. With colour averaging switched on, the
// emulator calls this for its copy of the picture after every frame; without, it copies 33 kB itself. We read the
// chip's own picture, and only every fourth, so nothing is done here.
#include "ale/environment/phosphor_blend.hpp"

namespace ale {

PhosphorBlend::PhosphorBlend(stella::OSystem*) {}

void PhosphorBlend::process(ALEScreen&) {}

}  // namespace ale
