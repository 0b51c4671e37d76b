// SPDX-License-Identifier: MIT
//
// Two ops from outside of the library: an elementwise one in ten lines and a kernel in forty, each held against
// differences by gradcheck<model>(). They fuse, plan and differentiate like those of the library.

#include <simplx/differentiate/gradcheck.hpp>
#include <simplx/ops/functions.hpp>
#include <simplx/ops/matmul.hpp>

#include <cstdio>

// y = x tanh(softplus(x)), "mish". The rules are written once, for numbers, vectors, dual numbers and formulas.
template <>
struct simplx::op<"mish"> : simplx::elementwise {
  static constexpr bool needs_inputs = true;  // the pull-back reads x
  SIMPLX_HD static constexpr auto f(auto x) { return x * tanh(log1p(exp(x))); }  // SIMPLX_HD: on a GPU as well
  template <int i>
  SIMPLX_HD static constexpr auto d(auto g, auto, auto x) {
    const auto t = tanh(log1p(exp(x)));
    return g * (t + x * sigmoid(x) * (1.0 - t * t));
  }
};
constexpr simplx::Expr mish(simplx::At x) { return simplx::apply<"mish">({}, x); }

// y = x / |x|, row by row:   dx = (dy - y <y, dy>) / |x|.
template <>
struct simplx::op<"unit_rows"> : simplx::kernel_op {
  static constexpr bool needs_output = true;                                   // the pull-back reads y
  static constexpr bool rows_apart(Axis) { return true; }                      // a row of y reads that row of x alone
  static constexpr Checked shape(const Attributes&, Shape x) { return x; }     // or {"my rule", left, right}
  static constexpr Index saved(const Attributes&, auto...) { return 1; }       // and |x|, one number for each row

  template <class S, Path path, class F>
  static void forward(Cpu<S, path>, const F& frame) {
    constexpr Index cols = F::out_shape.cols;
    const S* x = frame.template in<0>();
    S *y = frame.out(), *length = frame.saved();
    for (Index row = 0; row < frame.rows(); ++row, x += cols, y += cols) {
      S squares = S(0);
      for (Index c = 0; c < cols; ++c) squares += x[c] * x[c];
      length[row] = sqrt(squares);
      for (Index c = 0; c < cols; ++c) y[c] = x[c] / length[row];
    }
  }

  template <class S, Path path, class F>
  static void backward(Cpu<S, path>, const F& frame) {
    constexpr Index cols = F::out_shape.cols;
    const S *y = frame.out(), *dy = frame.out_grad(), *length = frame.saved();
    S* dx = frame.template grad<0>();
    for (Index row = 0; row < frame.rows(); ++row, y += cols, dy += cols, dx += cols) {
      S along = S(0);
      for (Index c = 0; c < cols; ++c) along += y[c] * dy[c];
      for (Index c = 0; c < cols; ++c) {  // the first to write to dx, or a later one
        put<F::template write<0>, S>(dx + c, (dy[c] - y[c] * along) / length[row]);
      }
    }
  }
};
constexpr simplx::Expr unit_rows(simplx::At x) { return simplx::apply<"unit_rows">({}, x); }

using namespace simplx;

inline constexpr auto model = [] {
  auto x = variable("x", rows_of(Axis::tokens, 6));
  auto h = mish(x * weight("w", 6, 9, normal(1)));  // mish is the product's epilogue
  return unit_rows(h) * vector("gain", 9) + h;
};

int main() {
  const GradientReport report = gradcheck<model>();
  std::printf("gradient %.1e, adjoint %.1e, forward mode %.1e, second order %.1e (%s)\n", report.worst, report.adjoint,
              report.jvp, report.hvp, report.worst_name.c_str());
  return report.holds() ? 0 : 1;
}
