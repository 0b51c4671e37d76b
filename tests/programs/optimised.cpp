// SPDX-License-Identifier: MIT
//
// Compiled with -O1, -O2 and -O3, as users do, where the tests have -Og: rows of one vector or a few, beside a number
// for each row, of which g++ took kernels for functions without effects (core/stores.hpp).

#include <simplx/simplx.hpp>

#include <cmath>
#include <cstdio>

using namespace simplx;

namespace {

template <int cols>
constexpr Expr kernel() {
  return stack("blocks", 1, [](Expr x) { return tanh(x); }, variable("x", rows_of(Axis::batch, cols)));
}
constexpr Expr column() { return input("c", rows_of(Axis::batch, 1)); }

/// sum_r c_r sum_i tanh(x_ri), in ways that differ in what a loop reads and writes.
template <int cols>
struct Model {
  static constexpr auto of_sums = [] { return sum(sum(kernel<cols>(), Over::columns) * column()); };
  static constexpr auto of_products = [] { return sum(kernel<cols>() * column()); };
  static constexpr auto of_spread = [] {
    const Expr y = kernel<cols>();
    return sum(probe("spread", spread(column(), y)) * y);
  };
};

template <auto const& f, class S, int cols>
int wrong() {
  using Matrix = Eigen::Matrix<S, Eigen::Dynamic, cols, cols == 1 ? Eigen::ColMajor : Eigen::RowMajor>;
  constexpr Index rows = 7;
  const Matrix x = Matrix::Random(rows, cols);
  const Eigen::Matrix<S, rows, 1> c = Eigen::Matrix<S, rows, 1>::Random();
  Function<f, Cpu<S>> function;
  function.template set<"x">(x).template set<"c">(c);
  const double value = static_cast<double>(function.value_and_grad());
  double exact = 0, off = 0;
  for (Index r = 0; r < rows; ++r) {
    for (Index i = 0; i < cols; ++i) {
      const double y = std::tanh(static_cast<double>(x(r, i))), weight = static_cast<double>(c(r));
      exact += weight * y;
      const auto gradient = static_cast<double>(function.template gradient<"x">()(r, i));
      off = std::max(off, std::abs(gradient - weight * (1 - y * y)));
    }
  }
  if (off < 1e-5 && std::abs(value - exact) < 1e-4) return 0;
  std::printf("%d columns of %zu bytes: the gradient is off by %g, the value by %g\n", cols, sizeof(S), off,
              value - exact);
  return 1;
}

template <class S, int... cols>
int wrong_of() {
  return ((wrong<Model<cols>::of_sums, S, cols>() + wrong<Model<cols>::of_products, S, cols>() +
           wrong<Model<cols>::of_spread, S, cols>()) +
          ...);
}

}  // namespace

int main() { return wrong_of<float, 4, 8, 16>() + wrong_of<double, 2, 4, 8>() ? 1 : 0; }
