// Steps several worlds on one thread, each on a stack of its own, so that their iterations can be made side by side: a
// world's step pauses where Box2D begins to iterate, and goes on when all have come so far.
#pragma once

#include <functional>

namespace headrace::box2d {

struct Iterations;

// do a number of works, each on its own stack
void together(int count, const std::function<void(int)>& work);

// called by b2Island::Solve: whether the iterations have been made, together with others'
bool done_together(Iterations& iterations);

}  // namespace headrace::box2d
