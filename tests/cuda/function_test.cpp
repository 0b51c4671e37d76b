// SPDX-License-Identifier: MIT
#include "emulation/cuda.hpp"

#include <simplx/cuda/function.cuh>

#include "cuda/kernels.hpp"
#include "cuda/on_cpu.hpp"

#include <simplx/nn/norm.hpp>
#include <simplx/ops/activation.hpp>
#include <simplx/ops/columns.hpp>
#include <simplx/ops/cross_entropy.hpp>
#include <simplx/ops/dropout.hpp>
#include <simplx/ops/embedding.hpp>
#include <simplx/ops/matmul.hpp>
#include <simplx/ops/reduce.hpp>
#include <simplx/ops/rows.hpp>

#include <algorithm>
#include <memory>
#include <utility>

using namespace simplx;

namespace {

/// Of features, of which gradients are wanted, and a word; a mean of losses and what leads there.
struct Classified {
  Expr loss, hidden;
};
inline constexpr auto classified = [] {
  const Expr x = variable("x", rows_of(Axis::batch, 8));
  const Expr word = embedding(weight("words", 5, 16, normal(1)), indices("word", Axis::batch));
  const Expr hidden = RmsNorm{}(tanh(x * weight("up", 8, 16, normal(1)) + word) * hyper("scale", 1.5));
  return Classified{mean(cross_entropy(hidden * weight("down", 16, 4, normal(1)), indices("label", Axis::batch))),
                    hidden};
};
inline constexpr auto row_losses = [] {
  const Expr x = input("x", rows_of(Axis::batch, 8)) +
                 embedding(weight("words", 5, 8, normal(1)), indices("word", Axis::batch));
  return cross_entropy(dropout("mask", x, 0.5) * weight("down", 8, 4, normal(1)), indices("label", Axis::batch));
};
inline constexpr auto of_sequences = [] {
  const Expr x = input("x", rows_of(Axis::tokens, 2)), bias = input("bias", rows_of(Axis::sequences, 2));
  return first_of_sequence(cumulative_sum(x * vector("gain", 2))) + bias;
};

std::vector<std::int32_t> some_indices(Index rows, unsigned bound, std::uint64_t seed) {
  std::vector<std::int32_t> indices;
  for (Index row = 0; row < rows; ++row) {
    indices.push_back(static_cast<std::int32_t>(bits(seed, static_cast<std::uint64_t>(row)) % bound));
  }
  return indices;
}
void add(std::vector<double>& to, const auto& map) { to.insert(to.end(), map.data(), map.data() + map.size()); }

/// All that an evaluation gives, of so many rows.
template <class F>
void evaluate(F& f, Index rows, std::vector<double>& all) {
  f.template set<"x">(test::numbers<double>(rows * 8, 1))
      .template set<"word">(some_indices(rows, 5u, 2))
      .template set<"label">(some_indices(rows, 4u, 3));
  all.push_back(static_cast<double>(f.value_and_grad()));
  add(all, f.template output<1>());
  add(all, f.template gradient<"x">());
  add(all, f.gradients());
  f.template output_gradient<0>()(0) = 0;  // the other result is pulled back by itself
  std::ranges::copy(test::numbers<double>(rows * 16, 4), f.template output_gradient<1>().data());
  f.backward();
  add(all, f.template gradient<"x">());
  add(all, f.template gradient<"words">());
}
/// Of several numbers of rows, each more than once, and with other constants and parameters.
template <class F>
std::vector<double> evaluations(F f) {
  std::vector<double> all;
  for (const Index rows : {7, 7, 7, 40, 3, 3}) evaluate(f, rows, all);
  f.template set<"scale">(0.7).template parameter<"down">()(2, 1) = 3;
  std::ranges::copy(test::numbers<double>(80, 7), f.template parameter<"words">().data());
  evaluate(f, 3, all);
  return all;
}

void check_close(const std::vector<double>& found, const std::vector<double>& exact, double tolerance) {
  REQUIRE(found.size() == exact.size());
  double worst = 0, largest = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const double difference = std::abs(found[i] - exact[i]);
    worst = std::isfinite(difference) ? std::max(worst, difference) : std::numeric_limits<double>::infinity();
    largest = std::max(largest, std::abs(exact[i]));
  }
  CHECK(worst <= tolerance * largest);
}

}  // namespace

TEST_SUITE_BEGIN("cuda/function");

TEST_CASE("a function has the values and gradients that it has on the CPU, evaluated again and with other rows") {
  const std::vector<double> exact = test::on_cpu(
      [](auto number) { return evaluations(Function<classified, Cpu<decltype(number)>>(1)); }, 0.0);
  check_close(test::same_bits([] { return evaluations(Function<classified, Cuda<Precision::float64>>(1)); }), exact,
              1e-12);
  check_close(evaluations(Function<classified, Cuda<>>(1)), exact, 1e-5);
  check_close(evaluations(Function<classified, Cuda<Precision::bfloat16>>(1)), exact, 0.05);
}

TEST_CASE("masks are of the scope that is given, recorded or not; what was moved from says so") {
  const auto masks = [](auto f) {
    std::vector<double> all;
    f.template set<"x">(test::numbers<double>(6 * 8, 1))
        .template set<"word">(some_indices(6, 5u, 2))
        .template set<"label">(some_indices(6, 4u, 3));
    for (const std::uint64_t scope : {0, 0, 0, 5, 6}) {
      f.random() = {.training = true, .key = 5, .scope = scope};
      f.forward();
      add(all, f.output());
    }
    return all;
  };
  const std::vector<double> exact = test::on_cpu(
      [&](auto number) { return masks(Function<row_losses, Cpu<decltype(number)>>(1)); }, 0.0);
  check_close(masks(Function<row_losses, Cuda<Precision::float64>>(1)), exact, 1e-12);
  Function<row_losses, Cuda<>> f;
  const auto moved = std::move(f);
  CHECK_THROWS_WITH_AS(f.not_recorded(), doctest::Contains("was moved from"), Error);
  CHECK(moved.not_recorded().empty());
}

TEST_CASE("each row has the gradient, and the mask of dropout, that it has on the CPU; then all rows are as before") {
  const auto rows_of = [](auto f) {
    f.template set<"x">(test::numbers<double>(6 * 8, 1))
        .template set<"word">(some_indices(6, 5u, 2))
        .template set<"label">(some_indices(6, 4u, 3));
    f.random() = {.training = true, .key = 5, .first_sequence = 2};
    std::vector<double> all;
    for (int i = 0; i < 2; ++i) {
      add(all, f.template row_gradients<"words">());
      add(all, f.output());
      f.output_gradient().setOnes();
      f.backward();
      add(all, f.gradients());
    }
    return all;
  };
  const std::vector<double> exact = test::on_cpu(
      [&](auto number) { return rows_of(Function<row_losses, Cpu<decltype(number)>>(1)); }, 0.0);
  check_close(rows_of(Function<row_losses, Cuda<Precision::float64>>(1)), exact, 1e-12);
}

TEST_CASE("sequences of given lengths") {
  Function<of_sequences, Cuda<>> f;
  const Eigen::MatrixXd x = Eigen::MatrixXd::Random(6, 2);
  const Eigen::MatrixXf narrow = x.cast<float>();
  f.set<"x">(x).set<"bias">(Eigen::MatrixXd::Zero(1, 2)).forward();
  CHECK(f.output() == narrow.row(0));
  const std::vector<Index> lengths{1, 0, 5};
  f.set_sequences(lengths).set<"bias">(Eigen::MatrixXd::Zero(3, 2)).forward();
  CHECK(f.output().row(0) == narrow.row(0));
  CHECK(f.output().row(1).norm() == 0);
  CHECK(f.output().row(2) == narrow.row(1));
}

TEST_CASE("what is bound is read anew each time: memory of the host, and of the device") {
  Function<of_sequences, Cuda<>> f;
  std::vector<float> x{1, 2, 3, 4}, bias{0, 0};
  f.bind<"x">(x).bind<"bias">(bias).forward();
  CHECK(f.output()(0) == 1);
  x[0] = 5, bias[0] = 1;
  f.forward();
  CHECK(f.output()(0) == 6);
  const GpuStream stream;
  DeviceBuffer<float> there(4), elsewhere(4);
  const auto fill = [&](DeviceBuffer<float>& buffer, float first) {
    const std::vector<float> values{first, 0, 0, 0};
    buffer.copy_from(values, stream);
    stream.synchronize();
  };
  fill(there, 10), fill(elsewhere, 20);
  f.bind<"x">(there);
  for (const float first : {10.0f, 11.0f, 12.0f}) {  // also once it is recorded
    fill(there, first);
    f.forward();
    CHECK(f.output()(0) == first + 1);
  }
  CHECK(f.bind<"x">(elsewhere).not_recorded().empty());
  f.forward();
  CHECK(f.output()(0) == 21);
  f.set<"x">(std::vector<float>{7, 0, 0, 0}).forward();
  CHECK(f.output()(0) == 8);
}

TEST_CASE("a function may move, and keeps what it was given and what it found") {
  auto first = std::make_unique<Function<of_sequences, Cuda<>>>();
  first->set<"x">(std::vector<float>{1, 2}).set<"bias">(std::vector<float>{3, 4}).forward();
  first->forward();
  Function f = std::move(*first);
  first.reset();
  CHECK(f.output()(1) == 6);
  f.forward();
  CHECK(f.output()(0) == 4);
  f.output_gradient().setOnes();
  auto second = std::make_unique<Function<of_sequences, Cuda<>>>(std::move(f));
  Function g = std::move(*second);
  second.reset();
  g.backward();  // of what was evaluated elsewhere
  CHECK(g.gradient<"gain">()(1) == 2);
}

TEST_CASE("as many rows in other sequences are the same recorded work, others are not") {
  Function<of_sequences, Cuda<Precision::float64>> f;
  Function<of_sequences, Cuda<Precision::float64>> alone;
  const std::vector<std::vector<Index>> all{{1, 5}, {5, 1}, {2, 4}, {3}, {6, 0}, {1, 5}};
  for (const auto& lengths : all) {
    Index tokens = 0;
    for (const Index length : lengths) tokens += length;
    for (auto* net : {&f, &alone}) {
      if (net == &alone) alone = Function<of_sequences, Cuda<Precision::float64>>();
      net->set<"x">(test::numbers<double>(2 * tokens, 3)).set_sequences(lengths);
      net->set<"bias">(test::numbers<double>(2 * std::ssize(lengths), 4)).forward();
      net->output_gradient().setOnes();
      net->backward();
    }
    CHECK(f.output() == alone.output());
    CHECK(f.gradient<"gain">() == alone.gradient<"gain">());
  }
}

TEST_CASE("what does not fit is refused, and a function goes on") {
  Function<row_losses, Cuda<>> f;
  CHECK_THROWS_WITH_AS(f.output(), doctest::Contains("output() without a forward()"), Error);
  CHECK_THROWS_WITH_AS(f.forward(), doctest::Contains("'x' was never set"), Error);
  f.set<"x">(std::vector<float>(16)).set<"word">(std::vector<int>{0, 5}).set<"label">(std::vector<int>{1, 2});
  CHECK_THROWS_WITH_AS(f.forward(), doctest::Contains("'word' names 5 in row 1"), Error);
  CHECK_THROWS_WITH_AS(f.backward(), doctest::Contains("backward() without a forward()"), Error);
  f.set<"word">(std::vector<int>{0, 4}).forward();
  CHECK_THROWS_WITH_AS(f.gradient<"words">(), doctest::Contains("gradient() without a backward()"), Error);
  CHECK(std::isfinite(f.output()(1)));
}

TEST_SUITE_END();
