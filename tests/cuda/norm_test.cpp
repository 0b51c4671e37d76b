// SPDX-License-Identifier: MIT
#include "emulation/cuda.hpp"

#include <simplx/cuda/norm.cuh>

#include "cuda/kernels.hpp"

using namespace simplx;
using namespace simplx::gpu;

namespace {

/// Values and gradients of a norm, in the order y, saved, dx, dgain, dbias.
template <class S>
struct Norm {
  std::vector<S> y, saved, dx, dgain, dbias;
  std::vector<S> all() const { return test::joined<S>({y, saved, dx, dgain, dbias}); }
};

template <class S>
struct NormOperands {
  std::vector<S> x, gain, bias, dy, dx, dgain, dbias;
  std::vector<S> epsilon{S(0.3)};
  NormOperands(Index rows, int cols)
      : x(test::numbers<S>(rows * cols, 1)), gain(test::numbers<S>(cols, 2)), bias(test::numbers<S>(cols, 3)),
        dy(test::numbers<S>(rows * cols, 4)), dx(test::numbers<S>(rows * cols, 5)), dgain(test::numbers<S>(cols, 6)),
        dbias(test::numbers<S>(cols, 7)) {
    for (S& value : x) value += S(0.5);  // so that the mean matters
    if (rows > 2) std::fill_n(x.begin() + cols, cols, S(0));  // r is 0: nothing may be divided by it
  }
};

/// The equations of ops/norm.hpp, in double.
Norm<double> exact_rms(const NormOperands<double>& in, Index rows, int cols, bool inside, bool accumulate) {
  Norm<double> out{in.x, std::vector<double>(static_cast<std::size_t>(rows)), in.dx, in.dgain, in.dbias};
  for (Index row = 0; row < rows; ++row) {
    const double *x = &in.x[static_cast<std::size_t>(row * cols)], *dy = &in.dy[static_cast<std::size_t>(row * cols)];
    double square = 0, along = 0;
    for (int c = 0; c < cols; ++c) square += x[c] * x[c] / cols;
    const double r = inside ? std::sqrt(square + in.epsilon[0]) : std::sqrt(square);
    const double q = 1 / (inside ? r : r + in.epsilon[0]);
    for (int c = 0; c < cols; ++c) along += in.gain[static_cast<std::size_t>(c)] * dy[c] * x[c];
    out.saved[static_cast<std::size_t>(row)] = r;
    for (int c = 0; c < cols; ++c) {
      const auto i = static_cast<std::size_t>(row * cols + c), k = static_cast<std::size_t>(c);
      out.y[i] = in.gain[k] * x[c] * q;
      const double second = r > 0 ? x[c] * q * q * along / (cols * r) : 0;
      out.dx[i] = (accumulate ? in.dx[i] : 0) + in.gain[k] * dy[c] * q - second;
      out.dgain[k] += dy[c] * x[c] * q;
    }
  }
  return out;
}

Norm<double> exact_layer(const NormOperands<double>& in, Index rows, int cols, bool accumulate) {
  Norm<double> out{in.x, std::vector<double>(static_cast<std::size_t>(2 * rows)), in.dx, in.dgain, in.dbias};
  for (Index row = 0; row < rows; ++row) {
    const double *x = &in.x[static_cast<std::size_t>(row * cols)], *dy = &in.dy[static_cast<std::size_t>(row * cols)];
    double mean = 0, variance = 0, mean_u = 0, along = 0;
    for (int c = 0; c < cols; ++c) mean += x[c] / cols;
    for (int c = 0; c < cols; ++c) variance += (x[c] - mean) * (x[c] - mean) / cols;
    const double s = 1 / std::sqrt(variance + in.epsilon[0]);
    for (int c = 0; c < cols; ++c) {
      const double u = in.gain[static_cast<std::size_t>(c)] * dy[c];
      mean_u += u / cols;
      along += u * (x[c] - mean) * s / cols;
    }
    out.saved[static_cast<std::size_t>(2 * row)] = mean;
    out.saved[static_cast<std::size_t>(2 * row + 1)] = s;
    for (int c = 0; c < cols; ++c) {
      const auto i = static_cast<std::size_t>(row * cols + c), k = static_cast<std::size_t>(c);
      const double normalised = (x[c] - mean) * s;
      out.y[i] = in.gain[k] * normalised + in.bias[k];
      out.dx[i] = (accumulate ? in.dx[i] : 0) + s * (in.gain[k] * dy[c] - mean_u - normalised * along);
      out.dgain[k] += dy[c] * normalised;
      out.dbias[k] += dy[c];
    }
  }
  return out;
}

template <class S, int cols, bool inside, Write mode>
Norm<S> run_rms(const NormOperands<S>& in, Index rows, bool trained) {
  Norm<S> out{test::unwritten<S>(rows * cols), test::unwritten<S>(rows), in.dx, in.dgain, in.dbias};
  std::vector<S> parts = test::unwritten<S>(norm_parts<cols>(rows) * cols);
  if (mode == Write::store) out.dx = test::unwritten<S>(rows * cols);
  rms_norm<S, cols, inside>(nullptr, in.x.data(), in.gain.data(), in.epsilon.data(), out.y.data(), out.saved.data(),
                            rows);
  rms_norm_backward<S, cols, inside, mode>(nullptr, in.x.data(), in.gain.data(), in.epsilon.data(), out.saved.data(),
                                           in.dy.data(), out.dx.data(), trained ? out.dgain.data() : nullptr,
                                           parts.data(), rows);
  return out;
}

template <class S, int cols, Write mode>
Norm<S> run_layer(const NormOperands<S>& in, Index rows, bool gain_trained, bool bias_trained) {
  Norm<S> out{test::unwritten<S>(rows * cols), test::unwritten<S>(2 * rows), in.dx, in.dgain, in.dbias};
  std::vector<S> parts = test::unwritten<S>(2 * norm_parts<cols>(rows) * cols);
  if (mode == Write::store) out.dx = test::unwritten<S>(rows * cols);
  layer_norm<S, cols>(nullptr, in.x.data(), in.gain.data(), in.bias.data(), in.epsilon.data(), out.y.data(),
                      out.saved.data(), rows);
  layer_norm_backward<S, cols, mode>(nullptr, in.x.data(), in.gain.data(), out.saved.data(), in.dy.data(),
                                     out.dx.data(), gain_trained ? out.dgain.data() : nullptr,
                                     bias_trained ? out.dbias.data() : nullptr, parts.data(), rows);
  return out;
}
template <class S, int cols, Write mode>
Norm<S> run_layer(const NormOperands<S>& in, Index rows, bool trained) {
  return run_layer<S, cols, mode>(in, rows, trained, trained);
}

template <class S>
void compare(const Norm<S>& found, const Norm<double>& exact, double terms_of_dx = 0) {
  CHECK(test::distance(found.y, exact.y) < 8);
  CHECK(test::distance(found.saved, exact.saved) < 8);
  CHECK(test::distance(found.dx, exact.dx, terms_of_dx) < 16);
  CHECK(test::distance(found.dgain, exact.dgain) < 16);
  CHECK(test::distance(found.dbias, exact.dbias) < 16);
}

/// The operands of S in double, so that only arithmetic differs.
template <class S>
NormOperands<double> widened(const NormOperands<S>& in, Index rows, int cols) {
  NormOperands<double> out(rows, cols);
  const auto widen = [](const std::vector<S>& from, std::vector<double>& to) { to.assign(from.begin(), from.end()); };
  widen(in.x, out.x), widen(in.gain, out.gain), widen(in.bias, out.bias), widen(in.dy, out.dy), widen(in.dx, out.dx);
  widen(in.dgain, out.dgain), widen(in.dbias, out.dbias);
  out.epsilon[0] = in.epsilon[0];
  return out;
}

template <class S, int cols>
void check_norms(Index rows) {
  CAPTURE(cols);
  CAPTURE(rows);
  const NormOperands<S> in(rows, cols);
  const NormOperands<double> wide = widened(in, rows, cols);
  const auto check = [&](const auto& run, const Norm<double>& exact, double terms_of_dx = 0) {
    if (!emulation::thread_sanitized) test::same_bits([&] { return run().all(); });
    compare(run(), exact, terms_of_dx);
  };
  check([&] { return run_rms<S, cols, false, Write::store>(in, rows, true); },
        exact_rms(wide, rows, cols, false, false));
  check([&] { return run_rms<S, cols, true, Write::accumulate>(in, rows, true); },
        exact_rms(wide, rows, cols, true, true));
  // A row of one is its own mean: dx is 0, and what rounding leaves of u / sqrt(epsilon), where u = gain dy.
  double terms = 0;
  for (const double dy : wide.dy) terms = std::max(terms, std::abs(dy * wide.gain[0]) / std::sqrt(wide.epsilon[0]));
  check([&] { return run_layer<S, cols, Write::store>(in, rows, true); }, exact_layer(wide, rows, cols, false),
        cols == 1 ? terms : 0);
  check([&] { return run_layer<S, cols, Write::accumulate>(in, rows, true); }, exact_layer(wide, rows, cols, true));
}

/// What is stored in bfloat16 is, number by number, the nearest to that in double; what is saved stays float.
template <int cols, class F>
void check_bfloat16(Index rows, const Norm<double>& exact, Index saved_count, const F& norm) {
  CAPTURE(cols);
  const auto none = test::unwritten<float>(rows * cols);
  std::vector<float> saved;
  const auto y = test::same_bits([&] {
    std::vector<__nv_bfloat16> to(none.begin(), none.end());
    saved = test::unwritten<float>(saved_count);
    norm(to.data(), saved.data());
    return to;
  });
  const std::vector<float> found(y.begin(), y.end());
  double largest = 0;
  for (const double number : exact.y) largest = std::max(largest, std::abs(number));
  bool nearest = true;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double half_a_digit = std::ldexp(std::abs(exact.y[i]), -8), of_float = 8 * test::rounding<float> * largest;
    nearest = nearest && std::abs(double(found[i]) - exact.y[i]) <= half_a_digit + of_float;  // never of NaN
  }
  CHECK(nearest);
  CHECK(test::distance(found, exact.y) > 1000);  // it was rounded
  CHECK(test::distance(saved, exact.saved) < 8);
}

template <int cols>
void check_both_in_bfloat16(Index rows) {
  const NormOperands<float> in(rows, cols);
  const NormOperands<double> wide = widened(in, rows, cols);
  check_bfloat16<cols>(rows, exact_layer(wide, rows, cols, false), 2 * rows, [&](__nv_bfloat16* y, float* saved) {
    layer_norm<float, cols>(nullptr, in.x.data(), in.gain.data(), in.bias.data(), in.epsilon.data(), y, saved, rows);
  });
  check_bfloat16<cols>(rows, exact_rms(wide, rows, cols, false, false), rows, [&](__nv_bfloat16* y, float* saved) {
    rms_norm<float, cols>(nullptr, in.x.data(), in.gain.data(), in.epsilon.data(), y, saved, rows);
  });
}

}  // namespace

TEST_SUITE_BEGIN("cuda/norm");

TEST_CASE("values and gradients are those of double, at odd widths") {
  check_norms<double, 1>(5);
  check_norms<double, 33>(7);
  check_norms<float, 32>(1);
  check_norms<float, 77>(6);
  check_norms<float, 512>(5);
}

TEST_CASE("several warps have a long row") {
  check_norms<double, 513>(3);
  check_norms<float, 1100>(2);
}

TEST_CASE("results in bfloat16 are those of double, rounded to nearest") {
  check_both_in_bfloat16<40>(6);
  check_both_in_bfloat16<520>(3);  // several warps have a row
}

TEST_CASE("many rows: a block takes several, and parts are added up") {
  const Index rows = 4500;
  REQUIRE(norm_parts<3>(rows) < rows / 4);
  const NormOperands<float> in(rows, 3);
  compare(run_layer<float, 3, Write::store>(in, rows, true), exact_layer(widened(in, rows, 3), rows, 3, false));
}

TEST_CASE("no rows, and gradients that are not wanted") {
  check_norms<float, 5>(0);
  const NormOperands<float> in(3, 5);
  const auto rms = run_rms<float, 5, false, Write::skip>(in, 3, true);
  CHECK(rms.dx == in.dx);
  CHECK(rms.dgain == run_rms<float, 5, false, Write::store>(in, 3, true).dgain);
  CHECK(run_rms<float, 5, false, Write::store>(in, 3, false).dgain == in.dgain);
  const auto layer = run_layer<float, 5, Write::skip>(in, 3, true);
  CHECK(layer.dx == in.dx);
  CHECK(layer.dbias == run_layer<float, 5, Write::store>(in, 3, true).dbias);
  CHECK(run_layer<float, 5, Write::store>(in, 3, false).dgain == in.dgain);
  const auto both = run_layer<float, 5, Write::store>(in, 3, true);
  const auto of_gain = run_layer<float, 5, Write::store>(in, 3, true, false);
  const auto of_bias = run_layer<float, 5, Write::store>(in, 3, false, true);
  CHECK(of_gain.dgain == both.dgain);
  CHECK(of_gain.dbias == in.dbias);
  CHECK(of_bias.dgain == in.dgain);
  CHECK(of_bias.dbias == both.dbias);
}

TEST_SUITE_END();
