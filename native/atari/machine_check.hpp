// Is a saved console one that this console could have saved?
//
// The emulator believes whatever it reads: a number of a bank, a position on the screen, how long a
// list is. Where those are wrong it writes past its memory, throws text, or prints. So the bytes are
// looked at before it sees them: they must be laid out as the console's own, and what becomes an index
// must be one. What stays free (memory, registers, scores) decides a game's future and nothing else.
#pragma once

#include <string_view>

namespace headrace::atari {

// given, own: what ALEState::serialize wrote, own just now and with random streams; partial: the console is in the
// middle of a frame; pixels: how many the frame buffer has behind it. Throws std::runtime_error.
void check_machine(std::string_view given, std::string_view own, bool partial, long pixels);

}  // namespace headrace::atari
