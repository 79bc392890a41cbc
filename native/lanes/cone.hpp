// The cost of a constraint's rows by their distance from the accelerations that they ask for, and its derivatives
// (mj_constraintUpdate): limits that push, friction that holds up to a force, pyramids and elliptic cones of contacts.
#pragma once

#include "constraint.hpp"

namespace headrace::lanes {
namespace {

constexpr int kMostDim = 6;

// Returns the place of element (i, j ≤ i) in a packed triangle.
constexpr int at(int i, int j) { return i * (i + 1) / 2 + j; }

// -force is the gradient; the Hessian is a packed lower triangle.
template <class V, int dim>
struct Curvature {
  V force[dim];
  V hessian[dim * (dim + 1) / 2];
  bool full;  // else the Hessian is an arrow: the first row, and the diagonal

  bool has(int r, int s) const { return full || r == s || r == 0 || s == 0; }
};

template <class V>
void curve_scalar(const Block& b, const Grip<V>& grip, V D, const V* jar, Curvature<V, 1>& c) {
  c.full = false;
  if (is_friction(b)) {
    const V most = grip.loss, force = -(D * jar[0]);
    c.force[0] = min(max(force, -most), most);
    c.hessian[0] = select(abs(force) < most, D, V(0));
    return;
  }
  const V on = is_equality(b) ? D : select(jar[0] < V(0), D, V(0));
  c.force[0] = -(on * jar[0]);
  c.hessian[0] = on;
}

// The edges J₀ ± μₖ Jₖ, each of which can only push.
template <class V, int dim>
void curve_pyramid(const Grip<V>& grip, V D, const V* jar, Curvature<V, dim>& c) {
  c.full = false;
  c.force[0] = c.hessian[0] = V(0);
  for (int k = 1; k < dim; ++k) {
    const V mu = grip.friction[k - 1], plus = fma(mu, jar[k], jar[0]), minus = fnma(mu, jar[k], jar[0]);
    const V on_plus = select(plus < V(0), D, V(0)), on_minus = select(minus < V(0), D, V(0));
    const V push_plus = -(on_plus * plus), push_minus = -(on_minus * minus);
    c.force[0] = c.force[0] + (push_plus + push_minus);
    c.force[k] = mu * (push_plus - push_minus);
    c.hessian[0] = c.hessian[0] + (on_plus + on_minus);
    c.hessian[at(k, 0)] = mu * (on_plus - on_minus);
    c.hessian[at(k, k)] = (mu * mu) * (on_plus + on_minus);
  }
}

// Joined bodies: each row pulls and pushes.
template <class V, int dim>
void curve_joined(const Grip<V>& grip, V D, const V* jar, Curvature<V, dim>& c) {
  c.full = false;
  for (int k = 0; k < dim; ++k) {
    const V stiff = grip.ratio[k] * D;
    c.force[k] = -(stiff * jar[k]);
    c.hessian[at(k, 0)] = V(0), c.hessian[at(k, k)] = stiff;
  }
}

// The state of a contact with an elliptic cone: apart, sticking or, between these, sliding.
template <class V>
struct Cone {
  V U[kMostDim], T;
  typename V::M apart, sticks;

  Cone(const Block& b, const Grip<V>& grip, const V* jar) {
    const V mu = grip.mu, none(0);
    U[0] = mu * jar[0];
    V sum(0);
    for (int k = 1; k < b.dim; ++k) U[k] = grip.friction[k - 1] * jar[k], sum = fma(U[k], U[k], sum);
    T = sqrt(sum);
    const auto still = T <= none;
    apart = (U[0] >= mu * T) | (still & (U[0] >= none));
    sticks = ~apart & ((fma(mu, U[0], T) <= none) | (still & (U[0] < none)));
  }
};

template <class V, int dim>
void curve_cone(const Block& b, const Grip<V>& grip, V D, const V* jar, Curvature<V, dim>& c) {
  const Cone<V> cone(b, grip, jar);
  c.full = true;
  const V mu = grip.mu, none(0), T = select(cone.T <= none, V(1), cone.T), N = cone.U[0];
  const V Dm = D / (mu * mu * (V(1) + mu * mu)), sliding = -(Dm * fnma(mu, cone.T, N) * mu);
  const auto scale = [&](int k) { return k == 0 ? mu : grip.friction[k - 1]; };
  for (int k = 0; k < dim; ++k) {
    const V stuck_D = grip.ratio[k] * D;
    const V slid = k == 0 ? sliding : -(sliding / T * cone.U[k] * scale(k));
    c.force[k] = select(cone.apart, none, select(cone.sticks, -(stuck_D * jar[k]), slid));
    for (int j = 0; j <= k; ++j) {
      V h = k == 0 ? V(1) : j == 0 ? -(mu / T * cone.U[k]) : mu * N / (T * T * T) * cone.U[j] * cone.U[k];
      if (k == j && k > 0) h = h + (mu * mu - mu * N / T);
      h = h * (Dm * scale(k) * scale(j));
      c.hessian[at(k, j)] = select(cone.apart, none, select(cone.sticks, k == j ? stuck_D : none, h));
    }
  }
}

template <class V, int dim>
Curvature<V, dim> curve(const Block& b, const Grip<V>& grip, V D, const V* jar) {
  Curvature<V, dim> c;
  if constexpr (dim == 1) curve_scalar(b, grip, D, jar, c);
  else if (joins_bodies(b)) curve_joined(grip, D, jar, c);
  else if (b.kind == Block::kPyramid) curve_pyramid(grip, D, jar, c);
  else curve_cone(b, grip, D, jar, c);
  return c;
}

// Returns whether the cost has the same quadratic form on both ends of a step; where D is zero it has.
template <class V>
typename V::M same_form(const Block& b, const Grip<V>& grip, V D, const V* jar, const V* Jv) {
  const V none(0);
  auto same = D == none;
  const auto kept = [&](V from, V to) { return ~((from < none) ^ (to < none)); };
  if (b.kind == Block::kPyramid) {
    auto all = V(0) == V(0);
    for (int k = 1; k < b.dim; ++k) {
      const V mu = grip.friction[k - 1], to0 = jar[0] + Jv[0], to = jar[k] + Jv[k];
      all = all & kept(fma(mu, jar[k], jar[0]), fma(mu, to, to0)) & kept(fnma(mu, jar[k], jar[0]), fnma(mu, to, to0));
    }
    return same | all;
  }
  if (b.kind == Block::kCone) {
    V to[kMostDim];
    for (int k = 0; k < b.dim; ++k) to[k] = jar[k] + Jv[k];
    const Cone<V> first(b, grip, jar), last(b, grip, to);
    return same | (first.apart & last.apart) | (first.sticks & last.sticks);
  }
  if (is_equality(b)) return V(0) == V(0);
  if (!is_friction(b)) return same | kept(jar[0], jar[0] + Jv[0]);
  const V most = grip.loss, first = D * jar[0], last = D * (jar[0] + Jv[0]);
  return kept(first - most, last - most) & kept(first + most, last + most);
}

}  // namespace
}  // namespace headrace::lanes
