// SPDX-License-Identifier: MIT
#include <simplx/core/frame.hpp>

#include "support.hpp"

using namespace simplx;

namespace {
struct Net {
  constexpr Expr operator()() const {
    return rms_norm(variable("x", rows_of(Axis::tokens, 4)), vector("g", 4), hyper("e", 0.1)) + 1.0;
  }
};
inline constexpr Net net{};
using G = GraphOf<net>;
constexpr int norm = [] {
  for (int i = 0; i < G::count; ++i) {
    if (G::flat.label[i].op == Tag("rms_norm")) return i;
  }
  return -1;
}();
using F = Frame<G, norm, double>;
static_assert(F::shape<0> == rows_of(Axis::tokens, 4) && F::shape<1> == fixed_shape(1, 4));
static_assert(F::write<0> == Write::store && F::write<1> == Write::accumulate && F::write<2> == Write::skip);
}  // namespace

TEST_CASE("core/frame: an op finds its operands and gradients") {
  double x[8], dx[8], parameters[16], gradients[16], constants[16], arena[512];
  Context<double> context;
  set_rows(context, {.tokens = 2});
  context.inputs[0] = x, context.input_gradients[0] = dx;
  context.parameters = parameters, context.gradients = gradients, context.constants = constants;
  for (int i = 0; i < axis_count; ++i) context.kept[i] = context.temporary[i] = arena;
  const F frame{context};
  CHECK(frame.in<0>() == x);
  CHECK(frame.in<1>() == parameters);
  CHECK(frame.in<2>() == constants);
  CHECK(frame.grad<0>() == dx);
  CHECK(frame.grad<1>() == gradients);
  CHECK(frame.grad<2>() == nullptr);
  CHECK(frame.rows() == 2);
  CHECK(frame.rows_in<1>() == 1);
}
