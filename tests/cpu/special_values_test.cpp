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
inline constexpr test::OnTokens<Linear> strips{64, {.out = 32, .bias = true}};  // which a matrix unit takes
inline constexpr test::OnTokens<MlpOf<Relu>> mlp{32, {.hidden = 64, .bias = true}};
inline constexpr test::OnTokens<MlpOf<Gelu>> odd_mlp{7, {.hidden = 9}};
inline constexpr test::OnTokens<RmsNorm> rms{37};
inline constexpr test::OnTokens<LayerNorm> layer_normed{32};
inline constexpr test::OnTokens<Softmax> soft{21};
inline constexpr test::OnTokens<MultiHeadAttention> attention{32, {.heads = 2}};
inline constexpr test::OnTokens<ShapedAttention> shaped{32, ShapedAttention{.heads = 2}.at(1)};

const std::vector<Index> lengths{3, 17, 5};
constexpr Index tokens = 25, broken = 12;  // in the second sequence

template <class S>
struct Passed {
  std::vector<S> y, dx;
};

/// Results and gradients of x with one row replaced by a value, if there is one.
template <class S>
Passed<S> pass(detail::EvaluationMemory<S>& memory, const detail::Subject<S>& run, const double* value) {
  test::fill_inputs(memory);
  const auto x = memory.input("x");
  const std::size_t width = x.size() / tokens;
  for (std::size_t c = 0; value && c < width; ++c) x[broken * width + c] = static_cast<S>(*value);
  run.forward();
  for (std::size_t i = 0; i < memory.output_gradient().size(); ++i) memory.output_gradient()[i] = static_cast<S>(normal(11, i));
  run.backward();
  const auto output = memory.output(), gradient = memory.input_gradient("x");
  return {{output.begin(), output.end()}, {gradient.begin(), gradient.end()}};
}

/// Rows [begin, end) may differ; all others have the same bits whatever the broken row holds.
template <class S>
void check_isolation(detail::EvaluationMemory<S>& memory, const detail::Subject<S>& run, Index begin, Index end) {
  const Passed<S> whole = pass(memory, run, nullptr);
  for (const double value : {std::nan(""), double{INFINITY}, -double{INFINITY}}) {
    CAPTURE(value);
    const Passed<S> one = pass(memory, run, &value);
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
}
template <auto const& model, class Backend>
void check_isolation_on(Index begin, Index end) {
  Evaluation<model, Backend> run(Rows{.tokens = tokens, .batch = 3}, 3, lengths);
  check_isolation<typename Backend::Scalar>(run, detail::subject_of(run), begin, end);
}
template <auto const& model>
void check_isolation(Index begin, Index end) {
  check_isolation_on<model, Cpu<float>>(begin, end);
  check_isolation_on<model, Cpu<double>>(begin, end);
  check_isolation_on<model, Cpu<float, Path::reference>>(begin, end);
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
  Evaluation<model, Cpu<S>> run(Rows{.tokens = tokens, .batch = 3}, 3, lengths);
  const auto x = run.input("x"), y = run.output(), w = run.parameter("weight");
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<S>(tiny * static_cast<double>(1 + i % 97) * (i % 3 ? 1 : -1));
  }
  for (const TensorInfo& tensor : run.tensors().parameters) {
    const auto values = run.parameter(tensor.name);
    const bool bias = tensor.name.ends_with("bias");
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<S>(bias ? 0 : i % 5 + 1);
  }
  run.forward();
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
  check_row<strips>();
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
  check_subnormal<strips, float>();
  check_subnormal<odd_linear, float>();
}
