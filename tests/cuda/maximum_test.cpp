// SPDX-License-Identifier: MIT
#include "emulation/cuda.hpp"

#include <simplx/cuda/maximum.cuh>

#include "cuda/on_device.hpp"

#include <simplx/ops/custom.hpp>

using namespace simplx;

namespace {

/// Rounded, so that there are equal elements, of which the first must get the gradient; it passes gradients on.
constexpr auto rounded = with_pull_back([](Expr x) { return select(x > 0.5, 1.0, select(x > -0.5, 0.0, -1.0)); },
                                        [](Expr dy, Expr, Expr) { return dy; });

struct Maxima {
  Expr rows, columns, all;
};
template <Index cols>
struct Model {
  constexpr auto operator()() const {
    const Expr x = variable("x", rows_of(Axis::tokens, cols)), y = rounded(x) + sin(x);
    return Maxima{max(rounded(x), Over::rows) + max(x, Over::rows),
                  max(rounded(x), Over::columns) * max(y, Over::columns), max(rounded(x)) * max(x)};
  }
};
constexpr Model<1> single;
constexpr Model<5> narrow;
constexpr Model<301> wide;
constexpr auto of_weights = [] {
  const Expr w = weight("w", 7, 9, normal(1));
  return Maxima{max(w, Over::rows), max(w, Over::columns), max(sin(w))};
};

template <class S>
std::vector<S> largest(const std::vector<S>& x, const gpu::MatrixLines& lines) {
  return test::same_bits([&] {
    auto y = test::unwritten<S>(lines.count), parts = test::unwritten<S>(lines.count * lines.parts());
    maximum(nullptr, x.data(), lines, y.data(), parts.data());
    return y;
  });
}

}  // namespace

TEST_SUITE_BEGIN("cuda/maximum");

TEST_CASE("over rows, columns and everything; the first of equal elements gets the gradient") {
  test::same_on_device<single>(40);
  test::same_on_device<narrow>(70);
  test::same_on_device<wide>(9);
  test::same_on_device<of_weights>(0);
  test::float_on_device<narrow>(70);
}

TEST_CASE("long lines have parts, and the first of equal elements may be in any") {
  constexpr Index rows = 3 * 8192 + 5, cols = 2;
  for (const Index first : {Index(0), Index(8192), rows - 1}) {
    CAPTURE(first);
    auto x = test::numbers<float>(rows * cols, 1);
    for (Index row = first; row < rows; row += 4999) {  // two near each other, the others in other parts
      for (const Index near : {row, std::min(row + 3, rows - 1)}) x[static_cast<std::size_t>(near * cols + 1)] = 7;
    }
    for (const Over over : {Over::rows, Over::all}) {
      const gpu::MatrixLines lines = gpu::MatrixLines::of(over, rows, cols);
      REQUIRE(lines.parts() > 1);
      const auto y = largest(x, lines);
      CHECK(y.back() == 7);
      std::vector<float> dx(x.size()), parts(static_cast<std::size_t>(lines.count * lines.parts()));
      const std::vector<float> dy(y.size(), 0.5F);
      gpu::maximum_backward(nullptr, x.data(), lines, y.data(), dy.data(), dx.data(), parts.data());
      CHECK(dx[static_cast<std::size_t>(first * cols + 1)] == 0.5F);
      CHECK(std::ranges::count(dx, 0.5F) == lines.count);
    }
  }
}

TEST_CASE("NaN is the largest of all, and nothing is as large as minus infinity") {
  std::vector<double> x(300, 1.0);
  x[40] = std::numeric_limits<double>::quiet_NaN();
  CHECK(std::isnan(largest(x, gpu::MatrixLines::of(Over::all, 300, 1))[0]));
  CHECK(largest(x, gpu::MatrixLines::of(Over::all, 0, 1))[0] == -std::numeric_limits<double>::infinity());
}

TEST_SUITE_END();
