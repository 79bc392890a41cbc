// Steps several worlds on one thread, each on a stack of its own, so that their iterations can be made side by side: a
// world's step pauses when Box2D begins to iterate, and goes on when all worlds are there.
#pragma once

#include <functional>

namespace headrace::box2d {

struct Iterations;

// Does a number of works, each on its own stack.
void together(int count, const std::function<void(int)>& work);

// b2Island::Solve calls it; returns whether the iterations have been made, together with those of other worlds.
bool done_together(Iterations& iterations);

}  // namespace headrace::box2d
