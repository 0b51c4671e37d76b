// SPDX-License-Identifier: MIT
//
// Nanoseconds per element of the elementary functions, and of Eigen's, on arrays of 64 KiB.
//
//     math [--json]
//
// Method: both take turns over the same arguments; a time is the least of 200 passes. "scalar" marks what Eigen
// leaves to the standard library, element by element; "difference" is relative to 1 + the value.

#include "measure.hpp"

#include <simplx/cpu/math.hpp>

#include <Eigen/Core>
#include <unsupported/Eigen/SpecialFunctions>

using namespace simplx;

namespace {

template <class S>
using Array = Eigen::Map<Eigen::Array<S, Eigen::Dynamic, 1>, Eigen::AlignedMax>;

template <class S>
constexpr Index size = 65536 / sizeof(S);

template <class Pass>
double least_nanoseconds(Pass pass, double least, Index elements) {
  return std::min(least, 1e6 * bench::wall_milliseconds(pass) / static_cast<double>(elements));
}

/// Compares f, of vectors, with an expression of Eigen on arguments of [low, high].
template <class S, class F, class Rival>
void compare(bench::Rows& rows, const char* name, double low, double high, bool vectorised, F f, Rival rival) {
  constexpr Index n = size<S>;
  cpu::Buffer<S> x(n), y(n), z(n);
  for (Index i = 0; i < n; ++i) x[i] = static_cast<S>(low + (high - low) * static_cast<double>(i * 7919 % n) / n);
  const Array<S> from(x.data(), n);
  Array<S> to(z.data(), n);
  double ours = 1e9, theirs = 1e9;
  for (int round = 0; round < 200; ++round) {
    ours = least_nanoseconds(
        [&] {
          for (Index i = 0; i < n; i += lanes<S>) store(y.data() + i, f(load<Vec<S>>(x.data() + i)));
        },
        ours, n);
    theirs = least_nanoseconds([&] { to = rival(from); }, theirs, n);
  }
  double difference = 0;
  for (Index i = 0; i < n; ++i) {
    const double a = static_cast<double>(y[i]), b = static_cast<double>(z[i]);
    difference = std::max(difference, std::abs(a - b) / (1 + std::abs(b)));
  }
  rows.add({{"function", name}, {"scalar", sizeof(S) == 4 ? "float" : "double"}, {"simplx_ns", ours},
            {"eigen_ns", theirs}, {"ratio", theirs / ours}, {"eigen_is", vectorised ? "vectorised" : "scalar"},
            {"difference", difference}});
}

template <class S>
void compare_all(bench::Rows& rows) {
  constexpr bool single = sizeof(S) == 4;  // what Eigen has vectors of floats for only
  compare<S>(rows, "exp", -20, 20, true, [](auto x) { return simplx::exp(x); }, [](auto& x) { return x.exp(); });
  compare<S>(rows, "log", 0.01, 100, true, [](auto x) { return simplx::log(x); }, [](auto& x) { return x.log(); });
  compare<S>(rows, "log1p", -0.9, 10, single, [](auto x) { return simplx::log1p(x); },
             [](auto& x) { return x.log1p(); });
  compare<S>(rows, "sigmoid", -10, 10, true, [](auto x) { return simplx::sigmoid(x); },
             [](auto& x) { return x.logistic(); });
  compare<S>(rows, "tanh", -5, 5, single, [](auto x) { return simplx::tanh(x); }, [](auto& x) { return x.tanh(); });
  compare<S>(rows, "erf", -4, 4, single, [](auto x) { return simplx::erf(x); }, [](auto& x) { return x.erf(); });
  compare<S>(rows, "sin", -100, 100, single, [](auto x) { return simplx::sin(x); }, [](auto& x) { return x.sin(); });
  compare<S>(rows, "cos", -100, 100, single, [](auto x) { return simplx::cos(x); }, [](auto& x) { return x.cos(); });
  compare<S>(rows, "rsqrt", 0.01, 100, true, [](auto x) { return simplx::rsqrt(x); },
             [](auto& x) { return x.rsqrt(); });
  compare<S>(rows, "pow", 0.01, 100, false, [](auto x) { return simplx::pow(x, S(1.7)); },
             [](auto& x) { return x.pow(S(1.7)); });
}

}  // namespace

int main(int count, char** arguments) {
  return bench::guarded([&] {
    bench::Rows rows{bench::Flags(count, arguments, {})};
    compare_all<float>(rows);
    compare_all<double>(rows);
  });
}
