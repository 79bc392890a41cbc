// Newton's method for the acceleration under constraints: the minimum of
//
//   ½ (a - a_smooth)ᵀ M (a - a_smooth) + s(J a - aref),
//
// which is convex and has one (MuJoCo's documentation, "Computation", "Constraint model"). A step that changes no
// row's zone ends it, as the cost is quadratic there: the result is then exact but for rounding. A lane that has
// converged stands still, so that its numbers do not depend on how long others take.
#pragma once

#include "constraint.hpp"

namespace headrace::lanes {
namespace {

constexpr int kMostDim = 6;

// the derivatives of a block's cost by its rows: -force, and the Hessian as a packed lower triangle
template <class V>
struct Curvature {
  V force[kMostDim];
  V hessian[kMostDim * (kMostDim + 1) / 2];
};

template <class V>
void curve_scalar(const Block& b, V D, const V* jar, Curvature<V>& c) {
  if (is_friction(b)) {
    const V most(b.loss), force = -(D * jar[0]);
    c.force[0] = min(max(force, -most), most);
    c.hessian[0] = select(abs(force) < most, D, V(0));
    return;
  }
  const V on = select(jar[0] < V(0), D, V(0));
  c.force[0] = -(on * jar[0]);
  c.hessian[0] = on;
}

// edges J₀ ± μₖ Jₖ, each of which can only push
template <class V>
void curve_pyramid(const Block& b, V D, const V* jar, Curvature<V>& c) {
  c.force[0] = V(0);
  for (int i = 0; i < b.dim * (b.dim + 1) / 2; ++i) c.hessian[i] = V(0);
  for (int k = 1; k < b.dim; ++k) {
    const V mu(b.friction[k - 1]), plus = fma(mu, jar[k], jar[0]), minus = fnma(mu, jar[k], jar[0]);
    const V on_plus = select(plus < V(0), D, V(0)), on_minus = select(minus < V(0), D, V(0));
    const V push_plus = -(on_plus * plus), push_minus = -(on_minus * minus);
    c.force[0] = c.force[0] + (push_plus + push_minus);
    c.force[k] = mu * (push_plus - push_minus);
    c.hessian[0] = c.hessian[0] + (on_plus + on_minus);
    c.hessian[at(k, 0)] = mu * (on_plus - on_minus);
    c.hessian[at(k, k)] = (mu * mu) * (on_plus + on_minus);
  }
}

// where a contact with an elliptic cone is: it slides, it sticks, or it is apart
template <class V>
struct Cone {
  V U[kMostDim], T;
  typename V::M apart, sticks;

  Cone(const Block& b, const V* jar) {
    const V mu(b.mu), none(0);
    U[0] = mu * jar[0];
    V sum(0);
    for (int k = 1; k < b.dim; ++k) U[k] = V(b.friction[k - 1]) * jar[k], sum = fma(U[k], U[k], sum);
    T = sqrt(sum);
    const auto still = T <= none;
    apart = (U[0] >= mu * T) | (still & (U[0] >= none));
    sticks = ~apart & ((fma(mu, U[0], T) <= none) | (still & (U[0] < none)));
  }
};

template <class V>
void curve_cone(const Block& b, V D, const V* jar, Curvature<V>& c) {
  const Cone<V> cone(b, jar);
  const V mu(b.mu), none(0), T = select(cone.T <= none, V(1), cone.T), N = cone.U[0];
  const V Dm = D / (mu * mu * (V(1) + mu * mu)), NmT = fnma(mu, cone.T, N);
  const auto scale = [&](int k) { return k == 0 ? mu : V(b.friction[k - 1]); };
  const V sliding = -(Dm * NmT * mu);
  for (int k = 0; k < b.dim; ++k) {
    const V stuck_D = V(b.ratio[k]) * D;
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

template <class V>
void curve(const Block& b, V D, const V* jar, Curvature<V>& c) {
  if (b.kind == Block::kPyramid) curve_pyramid(b, D, jar, c);
  else if (b.kind == Block::kCone) curve_cone(b, D, jar, c);
  else curve_scalar(b, D, jar, c);
}

// does a row's cost have the same quadratic form on both ends of a step? Where D is zero it has
template <class V>
typename V::M same_form(const Block& b, V D, const V* jar, const V* Jv) {
  const V none(0);
  const auto off = D == none;
  auto same = V(0) == V(0);
  if (b.kind == Block::kPyramid) {
    for (int k = 1; k < b.dim; ++k) {
      const V mu(b.friction[k - 1]), to0 = jar[0] + Jv[0], to = jar[k] + Jv[k];
      same = same & ~((fma(mu, jar[k], jar[0]) < none) ^ (fma(mu, to, to0) < none));
      same = same & ~((fnma(mu, jar[k], jar[0]) < none) ^ (fnma(mu, to, to0) < none));
    }
  } else if (b.kind == Block::kCone) {
    V to[kMostDim];
    for (int k = 0; k < b.dim; ++k) to[k] = jar[k] + Jv[k];
    const Cone<V> first(b, jar), last(b, to);
    same = (first.apart & last.apart) | (first.sticks & last.sticks);
  } else if (is_friction(b)) {
    const V most(b.loss), first = D * jar[0], last = D * (jar[0] + Jv[0]);
    same = ~((first < most) ^ (last < most)) & ~((first > -most) ^ (last > -most));
  } else {
    same = ~((jar[0] < none) ^ (jar[0] + Jv[0] < none));
  }
  return same | off;
}

template <class V>
class Newton {
 public:
  using M = typename V::M;

  Newton(const Plan& plan, Work<V>& w) : plan_(plan), w_(w), nv_(plan.mass.size) {}

  // qacc, and with `forces` what the constraints push
  void run(bool forces) {
    start();
    M done = ~w_.constrained | w_.bad;
    for (int iteration = 0; iteration < plan_.most_iterations && any(~done); ++iteration) {
      gradient(true);
      direction();
      const V decrement = slope_of_start();
      const M same = all_same_form();
      V alpha(1);
      if (any(~same & ~done)) alpha = select(same, alpha, search(decrement, same | done));
      move(select(done, V(0), alpha));
      done = done | same | ~(V(kTolerance) < V(-plan_.scale) * decrement);  // also where it is not a number
    }
    for (int i = 0; i < nv_; ++i) w_.qacc[i] = select(w_.constrained, w_.qacc[i], w_.qacc_smooth[i]);
    if (forces) gradient(false);
  }

 private:
  static constexpr double kTolerance = 1e-20;  // of what one more step would gain, in MuJoCo's measure
  static constexpr int kMostSearches = 20;

  const Block& block(int a) const { return plan_.blocks[w_.active[a]]; }
  V D(int a) const { return w_.D[w_.active[a]]; }

  void start() {
    for (int i = 0; i < nv_; ++i) w_.qacc[i] = w_.qacc_warmstart[i];
    multiply(plan_.mass, w_.mass, w_.qacc, w_.Ma);
    for (int a = 0; a < w_.actives; ++a) {
      const Block& b = block(a);
      times_jacobian(plan_, b, w_.J + b.jac, w_.qacc, w_.jar + b.row);
      for (int r = b.row; r < b.row + b.dim; ++r) w_.jar[r] = w_.jar[r] - w_.aref[r];
    }
  }

  // the cost's gradient and the forces, and the Hessian
  void gradient(bool hessian) {
    couples_ = false;
    for (int i = 0; i < nv_; ++i) w_.qfrc_constraint[i] = V(0);
    for (int i = 0; hessian && i < plan_.tree_size(); ++i) w_.hessian[i] = w_.mass[i];
    for (int a = 0; a < w_.actives; ++a) {
      Curvature<V> c;
      curve(block(a), D(a), w_.jar + block(a).row, c);
      add_forces(block(a), c);
      if (hessian) add_hessian(block(a), c);
    }
    for (int i = 0; i < nv_; ++i) w_.grad[i] = (w_.Ma[i] - w_.qfrc_smooth[i]) - w_.qfrc_constraint[i];
  }

  void add_forces(const Block& b, const Curvature<V>& c) {
    const V* J = w_.J + b.jac;
    const Column* columns = &plan_.columns[b.dofs];
    for (int r = 0; r < b.dim; ++r) w_.force[b.row + r] = c.force[r];
    for (int i = 0; i < b.n; ++i) {
      V sum = w_.qfrc_constraint[columns[i].dof];
      for (int r = 0; r < b.dim; ++r) sum = fma(J[r * b.n + i], c.force[r], sum);
      w_.qfrc_constraint[columns[i].dof] = sum;
    }
  }

  void add_hessian(const Block& b, const Curvature<V>& c) {
    const V* J = w_.J + b.jac;
    const Column* columns = &plan_.columns[b.dofs];
    couples_ |= b.couples;
    for (int i = 0; i < b.n; ++i) {
      V column[kMostDim];  // of the Hessian by the rows, times J
      for (int r = 0; r < b.dim; ++r) {
        V sum = c.hessian[at(r, 0)] * J[i];
        for (int s = 1; s < b.dim; ++s) sum = fma(c.hessian[s <= r ? at(r, s) : at(s, r)], J[s * b.n + i], sum);
        column[r] = sum;
      }
      V* row = w_.hessian + at(columns[i].dof, 0);
      for (int j = 0; j <= i; ++j) {
        V sum = row[columns[j].dof];
        for (int r = 0; r < b.dim; ++r) sum = fma(J[r * b.n + j], column[r], sum);
        row[columns[j].dof] = sum;
      }
    }
  }

  const Pattern& pattern() {
    if (!couples_) return plan_.mass;
    Pattern& p = w_.coupled;
    p.size = nv_;
    for (int i = 0; i < nv_; ++i) p.columns[i] = plan_.mass.columns[i];
    for (int a = 0; a < w_.actives; ++a) {
      const Column* columns = &plan_.columns[block(a).dofs];
      std::uint64_t so_far = 0;
      for (int i = 0; i < block(a).n; ++i) {
        so_far |= std::uint64_t{1} << columns[i].dof;
        p.columns[columns[i].dof] |= so_far;
      }
    }
    p.complete();
    return p;
  }

  // search = -H⁻¹ grad, and how it moves the rows
  void direction() {
    const Pattern& p = pattern();
    factorize(p, w_.hessian, w_.hessian_inverse);
    for (int i = 0; i < nv_; ++i) w_.search[i] = -w_.grad[i];
    solve(p, w_.hessian, w_.hessian_inverse, w_.search);
    multiply(plan_.mass, w_.mass, w_.search, w_.Mv);
    for (int a = 0; a < w_.actives; ++a) times_jacobian(plan_, block(a), w_.J + block(a).jac, w_.search, w_.Jv + block(a).row);
  }

  V slope_of_start() const {
    V sum(0);
    for (int i = 0; i < nv_; ++i) sum = fma(w_.grad[i], w_.search[i], sum);
    return sum;
  }

  M all_same_form() const {
    M same = V(0) == V(0);
    for (int a = 0; a < w_.actives; ++a) same = same & same_form(block(a), D(a), w_.jar + block(a).row, w_.Jv + block(a).row);
    return same;
  }

  // the cost's first and second derivative along the search direction
  void slope(V alpha, V* first, V* second) const {
    V gauss(0), curvature(0);
    for (int i = 0; i < nv_; ++i) {
      gauss = fma(w_.search[i], w_.Ma[i] - w_.qfrc_smooth[i], gauss);
      curvature = fma(w_.search[i], w_.Mv[i], curvature);
    }
    *first = fma(alpha, curvature, gauss), *second = curvature;
    for (int a = 0; a < w_.actives; ++a) {
      const Block& b = block(a);
      const V *jar = w_.jar + b.row, *Jv = w_.Jv + b.row;
      V there[kMostDim];
      for (int r = 0; r < b.dim; ++r) there[r] = fma(alpha, Jv[r], jar[r]);
      Curvature<V> c;
      curve(b, D(a), there, c);
      for (int r = 0; r < b.dim; ++r) {
        *first = fnma(c.force[r], Jv[r], *first);
        for (int s = 0; s <= r; ++s) *second = fma((s == r ? V(1) : V(2)) * c.hessian[at(r, s)], Jv[r] * Jv[s], *second);
      }
    }
  }

  // where the cost along the direction is least, by Newton's method in a bracket
  V search(V start, M idle) const {
    V low(0), high(1e300), alpha(1), first, second;
    M done = idle;
    for (int i = 0; i < kMostSearches; ++i) {
      slope(alpha, &first, &second);
      done = done | (abs(first) <= abs(V(1e-10) * start));
      if (!any(~done)) break;
      low = select(first < V(0), alpha, low), high = select(first < V(0), high, alpha);
      V next = alpha - first / second;
      const M outside = (next <= low) | (next >= high);
      next = select(outside, select(high < V(1e300), V(0.5) * (low + high), V(2) * alpha), next);
      alpha = select(done, alpha, next);
    }
    return alpha;
  }

  void move(V alpha) {
    for (int i = 0; i < nv_; ++i) {
      w_.qacc[i] = fma(alpha, w_.search[i], w_.qacc[i]);
      w_.Ma[i] = fma(alpha, w_.Mv[i], w_.Ma[i]);
    }
    for (int a = 0; a < w_.actives; ++a)
      for (int r = block(a).row; r < block(a).row + block(a).dim; ++r) w_.jar[r] = fma(alpha, w_.Jv[r], w_.jar[r]);
  }

  const Plan& plan_;
  Work<V>& w_;
  int nv_;
  bool couples_ = false;
};

// qacc; with `forces`, qfrc_constraint and the rows' forces as well
template <class V>
void constrain(const Plan& plan, Work<V>& w, bool forces) {
  if (w.actives > 0) return Newton<V>(plan, w).run(forces);
  for (int i = 0; i < plan.mass.size; ++i) w.qacc[i] = w.qacc_smooth[i], w.qfrc_constraint[i] = V(0);
}

}  // namespace
}  // namespace headrace::lanes
