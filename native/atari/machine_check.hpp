// Checks whether this console could have saved a given console.
//
// The emulator believes everything that it reads: the number of a bank, a position on the screen, the length of a list.
// If those are wrong it writes past its memory, throws text, or prints. So the bytes are checked before it reads them:
// they must be laid out as the console's own, and a number that becomes an index must be one. All other numbers
// (memory, registers, scores) decide a game's future and nothing else.
#pragma once

#include <string_view>

namespace headrace::atari {

// given, own: texts of ALEState::serialize, `own` from just now and with random streams; partial: the console is in the
// middle of a frame; pixels: the number of the frame buffer's pixels behind it. Throws std::runtime_error.
void check_machine(std::string_view given, std::string_view own, bool partial, long pixels);

}  // namespace headrace::atari
