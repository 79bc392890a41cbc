// The inertia matrix of the degrees of freedom and its factor: mj_crb, mj_factorM.
#pragma once

#include "linear.hpp"

namespace headrace::lanes {
namespace {

template <class V>
void composite_inertias(const Plan& plan, Work<V>& w) {
  for (const Body& b : plan.bodies)
    for (int i = 0; i < 10; ++i) w.crb[10 * b.id + i] = w.cinert[10 * b.id + i];
  for (auto b = plan.bodies.rbegin(); b != plan.bodies.rend(); ++b)
    if (b->parent != 0)
      for (int i = 0; i < 10; ++i) w.crb[10 * b->parent + i] = w.crb[10 * b->parent + i] + w.crb[10 * b->id + i];
}

template <class V>
void inertia_matrix(const Plan& plan, Work<V>& w) {
  composite_inertias(plan, w);
  for (const Body& b : plan.bodies)
    for (int i = b.first_dof; i < b.first_dof + b.dofs; ++i) {
      const auto momentum = inertia_times(w.crb + 10 * b.id, load6(w.cdof + 6 * i));
      each_below(plan.mass, i, w.mass, [&](int j, V& element) { element = dot(load6(w.cdof + 6 * j), momentum); });
      w.mass[plan.mass.at(i, i)] = dot(load6(w.cdof + 6 * i), momentum) + number(w, kDofArmature, i, plan.armature[i]);
    }
}

// Factors a matrix of inertia, perhaps with damping. MuJoCo warns if it is singular (mj_factorI); if rounding consumes
// a pivot, only MuJoCo's own rounding can tell whether it is.
template <class V>
void factorize_inertia(const Plan& plan, Work<V>& w) {
  constexpr double kLost = by_kind<V>(1e-12, 1e-6);
  factorize(plan.mass, w.factor, w.inverse_diagonal);
  for (int i = 0; i < plan.mass.size; ++i) {
    const int at = plan.mass.at(i, i);
    w.bad = w.bad | ~(max(V(kLost) * w.mass[at], V(kMinValue)) < w.factor[at]);
  }
}

}  // namespace
}  // namespace headrace::lanes
