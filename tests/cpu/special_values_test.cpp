// SPDX-License-Identifier: MIT
// What is no number, infinite or tiny: a broken row breaks its own results alone, tiny numbers are not lost.
#include <simplx/nn/attention.hpp>
#include <simplx/nn/mlp.hpp>
#include <simplx/ops/softmax.hpp>

#include "support.hpp"

#include <limits>

using namespace simplx;

namespace {
struct Softmax {
  constexpr Expr operator()(Expr x) const { return softmax(x); }
};
inline constexpr test::OnTokens<Linear> linear{32, {.out = 48, .bias = true}}, odd_linear{7, {.out = 5}};
inline constexpr test::OnTokens<MlpOf<Relu>> mlp{32, {.hidden = 64, .bias = true}};
inline constexpr test::OnTokens<MlpOf<Gelu>> odd_mlp{7, {.hidden = 9}};
inline constexpr test::OnTokens<RmsNorm> rms{37};
inline constexpr test::OnTokens<LayerNorm> layer_normed{32};
inline constexpr test::OnTokens<Softmax> soft{21};
inline constexpr test::OnTokens<MultiHeadAttention> attention{32, {.heads = 2}};
inline constexpr test::OnTokens<ShapedAttention> shaped{32, {.heads = 2}};

const std::vector<Index> lengths{3, 17, 5};
constexpr Index tokens = 25, broken = 12;  // in the second sequence

/// Results and gradients of x with one row replaced by a value.
template <auto const& model, class Backend>
struct Passed {
  std::vector<typename Backend::Scalar> y, dx;
  explicit Passed(double value, bool replace) {
    using S = typename Backend::Scalar;
    Evaluation<model, Backend> run(Rows{.tokens = tokens, .batch = 3}, 3, lengths);
    test::fill_inputs(run);
    const auto x = run.input("x");
    const std::size_t width = x.size() / tokens;
    for (std::size_t c = 0; replace && c < width; ++c) x[broken * width + c] = static_cast<S>(value);
    run.forward();
    for (std::size_t i = 0; i < run.seed().size(); ++i) run.seed()[i] = static_cast<S>(normal(11, i));
    run.backward();
    const auto output = run.output(), gradient = run.input_gradient("x");
    y.assign(output.begin(), output.end()), dx.assign(gradient.begin(), gradient.end());
  }
};

/// Rows [begin, end) may differ; all others have the same bits whatever the broken row holds.
template <auto const& model>
void check_isolation(Index begin, Index end) {
  const auto check = [&](auto backend) {
    using Backend = decltype(backend);
    using S = typename Backend::Scalar;
    const Passed<model, Backend> whole(0, false);
    for (const double value : {std::nan(""), double{INFINITY}, -double{INFINITY}}) {
      CAPTURE(value);
      const Passed<model, Backend> one(value, true);
      bool finite = true;
      const auto compare = [&](const std::vector<S>& a, const std::vector<S>& b) {
        const Index width = static_cast<Index>(a.size()) / tokens;
        for (Index i = 0; i < tokens * width; ++i) {
          const auto k = static_cast<std::size_t>(i);
          if (i / width < begin || i / width >= end) {
            CHECK(a[k] == b[k]);
          } else if (i / width == broken) {
            finite = finite && std::isfinite(b[k]);
          }
        }
      };
      compare(whole.y, one.y);
      if (std::isnan(value)) CHECK_FALSE(finite);
      compare(whole.dx, one.dx);
    }
  };
  check(Cpu<float>{});
  check(Cpu<double>{});
  check(Cpu<float, Path::reference>{});
}

template <auto const& model>
void check_row() {
  check_isolation<model>(broken, broken + 1);
}
template <auto const& model>
void check_sequence() {
  check_isolation<model>(3, 20);
}

/// Products of subnormal numbers: nothing is flushed to zero.
template <auto const& model, class S>
void check_subnormal() {
  constexpr double tiny = std::numeric_limits<S>::denorm_min();
  const auto fill = [&](auto& run) {
    const auto x = run.input("x");
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = static_cast<S>(tiny * static_cast<double>(1 + i % 97) * (i % 3 ? 1 : -1));
    }
    for (const TensorInfo& tensor : run.tensors().parameters) {
      const auto values = run.parameter(tensor.name);
      const bool bias = tensor.name.ends_with("bias");
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<S>(bias ? 0 : i % 5 + 1);
    }
    run.forward();
  };
  Evaluation<model, Cpu<S>> run(Rows{.tokens = tokens, .batch = 3}, 3, lengths);
  fill(run);
  const auto x = run.input("x"), y = run.output(), w = run.parameter("weight");
  const std::size_t inner = x.size() / tokens, outer = y.size() / tokens;
  bool some = false;
  for (std::size_t row = 0; row < tokens; ++row) {
    for (std::size_t c = 0; c < outer; ++c) {
      double sum = 0;  // whole multiples of the smallest number, exact
      for (std::size_t k = 0; k < inner; ++k) sum += static_cast<double>(x[row * inner + k] / tiny) * w[k * outer + c];
      CHECK(static_cast<double>(y[row * outer + c] / tiny) == sum);
      some |= sum != 0;
    }
  }
  CHECK(some);
}
}  // namespace

TEST_CASE("cpu/special_values: what is no number stays in its row") {
  check_row<linear>();
  check_row<odd_linear>();
  check_row<mlp>();
  check_row<odd_mlp>();
  check_row<rms>();
  check_row<layer_normed>();
  check_row<soft>();
}

TEST_CASE("cpu/special_values: in attention, in its sequence") {
  check_sequence<attention>();
  check_sequence<shaped>();
}

TEST_CASE("cpu/special_values: subnormal numbers are multiplied like others") {
  check_subnormal<linear, float>();
  check_subnormal<linear, double>();
  check_subnormal<odd_linear, float>();
}
