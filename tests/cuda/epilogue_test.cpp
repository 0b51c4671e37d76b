// SPDX-License-Identifier: MIT
#include "emulation/cuda.hpp"

#include <simplx/cuda/epilogue.cuh>

#include "cuda/kernels.hpp"

#include <algorithm>

using namespace simplx;
using namespace simplx::gpu;

namespace {

constexpr Epilogue all_epilogues[] = {
    Epilogue::none,      Epilogue::bias,     Epilogue::relu,          Epilogue::relu_bias, Epilogue::gelu,
    Epilogue::gelu_bias, Epilogue::gelu_aux, Epilogue::gelu_aux_bias, Epilogue::drelu,     Epilogue::drelu_sums,
    Epilogue::dgelu,     Epilogue::dgelu_sums, Epilogue::sums_of_b,   Epilogue::sums_of_a};

double gelu(double x) { return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))); }
double gelu_slope(double x) { return (gelu(x + 1e-5) - gelu(x - 1e-5)) / 2e-5; }

/// Of (rows, cols), the rows `ld` apart; NaN between them.
template <class T>
std::vector<T> matrix(Index rows, Index cols, Index ld, std::uint64_t seed) {
  const auto values = test::numbers<float>(rows * ld, seed);
  std::vector<T> all(values.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool between = static_cast<Index>(i) % ld >= cols;
    all[i] = static_cast<T>(between ? std::numeric_limits<float>::quiet_NaN() : values[i]);
  }
  return all;
}

/// The largest error of y, aux and sums over what it may be; infinite where what stays was written.
template <class Y>
struct Errors {
  double worst = 0;

  void add(Y value, double exact, double scale = 1) {
    const double rounding = std::is_same_v<Y, float> ? 2e-6 : 1.0 / 256;
    const double difference = std::abs(static_cast<double>(static_cast<float>(value)) - exact);
    const double error = difference == 0 ? 0 : difference / (rounding * std::max(scale, std::abs(exact)));
    worst = std::max(worst, std::isnan(error) ? std::numeric_limits<double>::infinity() : error);
  }
  void stays(Y value, Y before) {
    if (std::memcmp(&value, &before, sizeof value) != 0) worst = std::numeric_limits<double>::infinity();
  }
};

/// Every epilogue over products of one shape, with a residual and without.
template <class S, class Y>
void check(ProductShape shape, Index apart) {
  const Index rows = shape.rows, cols = shape.cols, inner = shape.inner;
  const auto rows_of = [](Index rows_, Index cols_, bool transposed) { return transposed ? cols_ : rows_; };
  shape.ld_a = (shape.transpose_a ? rows : inner) + apart, shape.ld_b = (shape.transpose_b ? inner : cols) + apart;
  shape.ld_y = cols + apart;
  const Index rows_a = rows_of(rows, inner, shape.transpose_a), rows_b = rows_of(inner, cols, shape.transpose_b);
  const Index ld_aux = cols + 2 * apart, most = std::max(rows, cols);
  const auto a = matrix<S>(rows_a, shape.ld_a - apart, shape.ld_a, 1);
  const auto b = matrix<S>(rows_b, shape.ld_b - apart, shape.ld_b, 2);
  const auto y = matrix<Y>(rows, cols, shape.ld_y, 3), added = matrix<Y>(rows, cols, shape.ld_y, 4);
  const auto relu = matrix<Y>(rows, cols, shape.ld_y, 5), aux = matrix<Y>(rows, cols, ld_aux, 6);
  const auto bias = matrix<Y>(1, cols, cols, 7), unwritten = matrix<Y>(1, 0, most, 8);
  const auto wide = [](auto value) { return static_cast<double>(static_cast<float>(value)); };
  for (const Epilogue function : all_epilogues) {
    for (const bool residual : {false, true}) {
      const int number = static_cast<int>(function);
      CAPTURE(number);
      CAPTURE(residual);
      const auto found = test::same_bits([&] {
        auto own_y = y, own_aux = aux, sums = unwritten;
        finish_product(nullptr, shape, a.data(), b.data(), own_y.data(),
                       ProductEpilogue<Y>{function, bias.data(), own_aux.data(), ld_aux, sums.data(),
                                          residual ? added.data() : nullptr, relu.data()});
        return test::joined({own_y, own_aux, sums});
      });
      const auto is = [&](auto... these) { return ((function == these) || ...); };
      const Y *y_found = found.data(), *aux_found = y_found + y.size(), *sums = aux_found + aux.size();
      const bool saves = is(Epilogue::gelu_aux, Epilogue::gelu_aux_bias);
      Errors<Y> errors;
      std::vector<double> exact(static_cast<std::size_t>(most)), size(exact.size());
      for (Index i = 0; i < rows; ++i) {
        for (Index j = 0; j < shape.ld_y; ++j) {
          const auto at = static_cast<std::size_t>(i * shape.ld_y + j), col = static_cast<std::size_t>(j),
                     of_aux = static_cast<std::size_t>(i * ld_aux + j);
          if (j >= cols) {
            errors.stays(y_found[at], y[at]);
            continue;
          }
          double p = wide(y[at]) + (residual ? wide(added[at]) : 0);
          if (info_of(function).bias) p += wide(bias[col]);
          if (saves) errors.add(aux_found[of_aux], p);
          if (saves || is(Epilogue::gelu, Epilogue::gelu_bias)) p = gelu(p);
          if (is(Epilogue::relu, Epilogue::relu_bias)) p = std::max(p, 0.0);
          if (is(Epilogue::drelu, Epilogue::drelu_sums)) p = wide(relu[at]) > 0 ? p : 0;
          if (is(Epilogue::dgelu, Epilogue::dgelu_sums)) p *= gelu_slope(wide(aux[of_aux]));
          errors.add(y_found[at], p);
          if (is(Epilogue::drelu_sums, Epilogue::dgelu_sums)) {
            exact[col] += wide(y_found[at]), size[col] += std::abs(wide(y_found[at]));
          }
        }
      }
      for (std::size_t i = 0; i < aux.size() && !saves; ++i) errors.stays(aux_found[i], aux[i]);
      const auto sum = [&](const S& value, Index i) {
        exact[static_cast<std::size_t>(i)] += wide(value), size[static_cast<std::size_t>(i)] += std::abs(wide(value));
      };
      for (Index k = 0; k < inner; ++k) {
        for (Index i = 0; i < rows && is(Epilogue::sums_of_a); ++i) {
          sum(a[static_cast<std::size_t>(shape.transpose_a ? k * shape.ld_a + i : i * shape.ld_a + k)], i);
        }
        for (Index j = 0; j < cols && is(Epilogue::sums_of_b); ++j) {
          sum(b[static_cast<std::size_t>(shape.transpose_b ? j * shape.ld_b + k : k * shape.ld_b + j)], j);
        }
      }
      const Index count = !info_of(function).sums ? 0 : is(Epilogue::sums_of_a) ? rows : cols;
      for (Index i = 0; i < most; ++i) {
        const auto at = static_cast<std::size_t>(i);
        if (i < count) {
          errors.add(sums[i], exact[at], std::is_same_v<Y, float> ? size[at] : std::abs(exact[at]) + 1e-4 * size[at]);
        } else {
          errors.stays(sums[i], unwritten[at]);
        }
      }
      CHECK(errors.worst < 1);
    }
  }
}

}  // namespace

TEST_SUITE_BEGIN("cuda/epilogue");

TEST_CASE("each epilogue after a product is what cuBLASLt would make of it, and leaves the rest as it is") {
  for (const Index apart : emulation::thread_sanitized ? std::vector<Index>{3} : std::vector<Index>{0, 3}) {
    for (const bool transposed : {false, true}) {
      CAPTURE(apart);
      CAPTURE(transposed);
      const auto of = [&](Index rows, Index cols, Index inner) {
        return ProductShape{rows, cols, inner, transposed, !transposed};
      };
      check<float, float>(of(5, 7, 9), apart);
      check<float, float>(of(1, 33, 70), apart);
      check<__nv_bfloat16, __nv_bfloat16>(of(19, 40, 1), apart);
      check<__nv_bfloat16, float>(of(33, 1, 600), apart);
    }
  }
}

TEST_CASE("what is not finite stays so, which a training looks for") {
  std::vector<float> y{std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()};
  const ProductShape shape{.rows = 1, .cols = 2, .inner = 1, .ld_y = 2};
  for (const Epilogue function : {Epilogue::relu, Epilogue::gelu}) {
    finish_product(nullptr, shape, y.data(), y.data(), y.data(), ProductEpilogue<float>{.function = function});
    CHECK(std::isnan(y[0]));
    CHECK(y[1] == std::numeric_limits<float>::infinity());
  }
}

TEST_SUITE_END();
