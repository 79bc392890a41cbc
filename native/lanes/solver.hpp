// Newton's method for the acceleration under constraints: the minimum of
//
//   ½ (a - a_smooth)ᵀ M (a - a_smooth) + s(J a - aref),
//
// The function is convex and has one minimum (MuJoCo's documentation, "Computation", "Constraint model"). A step that
// changes no row's zone ends the iteration, as the cost is quadratic there: the result is then exact but for rounding.
// A lane that has converged stands still, so that its numbers do not depend on the other lanes' iterations.
#pragma once

#include <algorithm>
#include <utility>

#include "cone.hpp"
#include "constraint.hpp"

namespace headrace::lanes {
namespace {

template <class V>
class Newton {
 public:
  using M = typename V::M;

  Newton(const Plan& plan, Work<V>& w) : plan_(plan), w_(w), nv_(plan.mass.size) {}

  // Computes qacc and, with `forces`, the constraints' forces.
  void run(bool forces) {
    start();
    M done = ~w_.constrained | w_.bad;
    for (int iteration = 0; iteration < kMostIterations && any(~done); ++iteration) {
      keep_pending(done);
      find_pattern();
      copy_matrix(plan_.mass, w_.mass, *pattern_, w_.hessian);
      add_up<true>(done);
      direction();
      const V slope = slope_of_start();
      const M same = all_same_form();
      V alpha(1);
      if (any(~same & ~done)) alpha = select(same, alpha, search(slope, same | done, iteration));
      move(select(done, V(0), alpha));
      done = done | same | ~(V(kTolerance) < V(-plan_.scale) * slope);  // NaN counts as done
    }
    if constexpr (!is_single<V>) w_.bad = w_.bad | ~done;  // the iteration goes in circles
    for (int i = 0; i < nv_; ++i) w_.qacc[i] = select(w_.constrained, w_.qacc[i], w_.qacc_smooth[i]);
    if (!forces) return;
    all_pending();
    add_up<false>(V(0) < V(0));
  }

 private:
  static constexpr double kTolerance =
      by_kind<V>(1e-20, 1e-10);  // a part of the gain of one more step, in MuJoCo's measure
  // Doubles converge in 15 steps at most, and floats in 25, as rounding may hide from them that they have converged.
  static constexpr int kMostIterations = is_single<V> ? 30 : 100, kMostSearches = 20;
  // A coarse search serves as well as an exact one; if it goes in circles, exactness ends that.
  static constexpr double kCoarse = 0.5, kExact = by_kind<V>(1e-6, 1e-3);
  static constexpr int kCoarseIterations = 10;

  const Block& block(int a) const { return plan_.blocks[w_.pending[a]]; }
  const Grip<V>& grip(int a) const { return w_.grip[w_.pending[a]]; }
  V D(int a) const { return w_.D[w_.pending[a]]; }

  void all_pending() {
    w_.pendings = w_.actives;
    std::copy_n(w_.active, w_.actives, w_.pending);
  }

  // A constraint adds zeros in the lanes in which its D is zero.
  void keep_pending(M done) {
    const auto last =
        std::remove_if(w_.pending, w_.pending + w_.pendings, [&](int i) { return !any((V(0) < w_.D[i]) & ~done); });
    w_.pendings = static_cast<int>(last - w_.pending);
  }

  void start() {
    all_pending();
    for (int i = 0; i < nv_; ++i) w_.qacc[i] = w_.qacc_warmstart[i];
    multiply(plan_.mass, w_.mass, w_.qacc, w_.Ma);
    for (int a = 0; a < w_.pendings; ++a) {
      const Block& b = block(a);
      times_jacobian(plan_, b, w_, w_.qacc, w_.jar + b.row);
      for (int r = b.row; r < b.row + b.dim; ++r) w_.jar[r] = w_.jar[r] - w_.aref[r];
    }
  }

  // The Hessian's pattern: the tree's, with the branches coupled that contacts join.
  void find_pattern() {
    bool couples = false;
    for (int a = 0; a < w_.pendings; ++a) couples |= block(a).couples;
    if (!couples) return void(pattern_ = &plan_.mass);
    Pattern& p = w_.coupled;
    if (std::exchange(pattern_, &p) == &p) return;  // it was so before some lanes were done
    p.size = nv_;
    for (int i = 0; i < nv_; ++i) p.columns[i] = plan_.mass.columns[i];
    for (int a = 0; a < w_.pendings; ++a) {
      const Column* columns = &plan_.columns[block(a).dofs];
      std::uint64_t so_far = 0;
      for (int i = 0; i < block(a).n; ++i) {
        so_far |= std::uint64_t{1} << columns[i].dof;
        p.columns[columns[i].dof] |= so_far;
      }
    }
    p.complete();
  }

  // Computes the gradient, the forces and the Hessian in the lanes that are not idle.
  template <bool hessian>
  void add_up(M idle) {
    for (int i = 0; i < nv_; ++i) w_.qfrc_constraint[i] = V(0);
    for (int a = 0; a < w_.pendings; ++a)
      with_dim(block(a), [&](auto dim) { add<dim, hessian>(block(a), grip(a), select(idle, V(0), D(a))); });
    for (int i = 0; i < nv_; ++i) w_.grad[i] = (w_.Ma[i] - w_.qfrc_smooth[i]) - w_.qfrc_constraint[i];
  }

  template <int dim, bool hessian>
  void add(const Block& b, const Grip<V>& grip, V D) {
    const auto c = curve<V, dim>(b, grip, D, w_.jar + b.row);
    for (int r = 0; r < dim; ++r) w_.force[b.row + r] = c.force[r];
    if (!is_friction(b) && !any(V(0) < c.hessian[0])) return;  // it does not push in any lane
    const V* J = w_.J + b.jac;
    const Column* columns = &plan_.columns[b.dofs];
    for (int i = 0; i < b.n; ++i) {
      V sum = w_.qfrc_constraint[columns[i].dof];
      for (int r = 0; r < dim; ++r) sum = fma(J[i * dim + r], c.force[r], sum);
      w_.qfrc_constraint[columns[i].dof] = sum;
    }
    if constexpr (!hessian) return;
    for (int i = 0; i < b.n; ++i) {
      V column[dim];  // the Hessian by the rows, times column i of J
      for (int r = 0; r < dim; ++r) {
        V sum = c.hessian[at(r, 0)] * J[i * dim];
        for (int s = 1; s < dim; ++s)
          if (c.has(r, s)) sum = fma(c.hessian[s <= r ? at(r, s) : at(s, r)], J[i * dim + s], sum);
        column[r] = sum;
      }
      V* row = w_.hessian + pattern_->begin[columns[i].dof];
      for (int j = 0; j <= i; ++j) {
        V& element = row[pattern_->place[columns[j].dof]];
        V sum = element;
        for (int r = 0; r < dim; ++r) sum = fma(J[j * dim + r], column[r], sum);
        element = sum;
      }
    }
  }

  // search = -H⁻¹ grad, and the change of the rows along it.
  void direction() {
    factorize(*pattern_, w_.hessian, w_.hessian_inverse);
    for (int i = 0; i < nv_; ++i) w_.search[i] = -w_.grad[i];
    solve(*pattern_, w_.hessian, w_.hessian_inverse, w_.search);
    multiply(plan_.mass, w_.mass, w_.search, w_.Mv);
    for (int a = 0; a < w_.pendings; ++a) times_jacobian(plan_, block(a), w_, w_.search, w_.Jv + block(a).row);
  }

  V slope_of_start() const {
    V sum(0);
    for (int i = 0; i < nv_; ++i) sum = fma(w_.grad[i], w_.search[i], sum);
    return sum;
  }

  M all_same_form() const {
    M same = V(0) == V(0);
    for (int a = 0; a < w_.pendings; ++a)
      same = same & same_form(block(a), grip(a), D(a), w_.jar + block(a).row, w_.Jv + block(a).row);
    return same;
  }

  // The constraints' part of the cost's first and second derivative along the search direction.
  void slope(V alpha, V* first, V* second) const {
    for (int a = 0; a < w_.pendings; ++a)
      with_dim(block(a), [&](auto dim) {
        const V *jar = w_.jar + block(a).row, *Jv = w_.Jv + block(a).row;
        V there[dim];
        for (int r = 0; r < dim; ++r) there[r] = fma(alpha, Jv[r], jar[r]);
        const auto c = curve<V, dim>(block(a), grip(a), D(a), there);
        for (int r = 0; r < dim; ++r) {
          *first = fnma(c.force[r], Jv[r], *first);
          for (int s = 0; s <= r; ++s)
            if (c.has(r, s)) *second = fma((s == r ? V(1) : V(2)) * c.hessian[at(r, s)], Jv[r] * Jv[s], *second);
        }
      });
  }

  // Finds the minimum of the cost along the direction, by Newton's method in a bracket.
  V search(V start, M idle, int iteration) const {
    V gauss(0), curvature(0);
    for (int i = 0; i < nv_; ++i) {
      gauss = fma(w_.search[i], w_.Ma[i] - w_.qfrc_smooth[i], gauss);
      curvature = fma(w_.search[i], w_.Mv[i], curvature);
    }
    const V enough = abs(V(iteration < kCoarseIterations ? kCoarse : kExact) * start), most(by_kind<V>(1e300, 1e38));
    V low(0), high = most, alpha(1);
    M done = idle;
    for (int i = 0; i < kMostSearches; ++i) {
      V first = fma(alpha, curvature, gauss), second = curvature;
      slope(alpha, &first, &second);
      done = done | (abs(first) <= enough);
      if (!any(~done)) break;
      const M before = first < V(0);
      low = select(before, alpha, low), high = select(before, high, alpha);
      V next = alpha - first / second;
      const M outside = (next <= low) | (next >= high);
      next = select(outside, select(high < most, V(0.5) * (low + high), V(2) * alpha), next);
      alpha = select(done, alpha, next);
    }
    return alpha;
  }

  void move(V alpha) {
    for (int i = 0; i < nv_; ++i) {
      w_.qacc[i] = fma(alpha, w_.search[i], w_.qacc[i]);
      w_.Ma[i] = fma(alpha, w_.Mv[i], w_.Ma[i]);
    }
    for (int a = 0; a < w_.pendings; ++a)
      for (int r = block(a).row; r < block(a).row + block(a).dim; ++r) w_.jar[r] = fma(alpha, w_.Jv[r], w_.jar[r]);
  }

  const Plan& plan_;
  Work<V>& w_;
  const Pattern* pattern_ = nullptr;  // the Hessian's pattern
  int nv_;
};

// Computes qacc; with `forces`, qfrc_constraint and the rows' forces as well.
template <class V>
void constrain(const Plan& plan, Work<V>& w, bool forces) {
  if (w.actives > 0) return Newton<V>(plan, w).run(forces);
  for (int i = 0; i < plan.mass.size; ++i) w.qacc[i] = w.qacc_smooth[i], w.qfrc_constraint[i] = V(0);
}

}  // namespace
}  // namespace headrace::lanes
