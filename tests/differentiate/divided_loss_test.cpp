// SPDX-License-Identifier: MIT
#include <simplx/differentiate/divided_loss.hpp>

#include <simplx/differentiate/learner.hpp>
#include <simplx/ops/attention.hpp>
#include <simplx/ops/activation.hpp>
#include <simplx/ops/cross_entropy.hpp>
#include <simplx/ops/custom.hpp>
#include <simplx/ops/dropout.hpp>
#include <simplx/ops/functions.hpp>
#include <simplx/ops/matmul.hpp>
#include <simplx/ops/reduce.hpp>
#include <simplx/ops/rows.hpp>
#include <simplx/ops/sequences.hpp>
#include <simplx/ops/stack.hpp>
#include <simplx/ops/transpose.hpp>

#include "allocations.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

using namespace simplx;

// A kernel of a user's own that moves rows, and says nothing about them.
template <>
struct simplx::op<"upside_down"> : simplx::kernel_op {
  static constexpr Checked shape(const Attributes&, Shape x) { return x; }
  template <class S, Path path, class F>
  static void forward(Cpu<S, path>, const F& frame) {
    std::reverse_copy(frame.template in<0>(), frame.template in<0>() + frame.rows() * F::out_shape.cols, frame.out());
  }
  template <class S, Path path, class F>
  static void backward(Cpu<S, path>, const F&) {}
};

namespace {

constexpr Expr x(Axis axis = Axis::batch) { return input("x", rows_of(axis, 4)); }
constexpr Expr w() { return weight("w", 4, 4, normal(1)); }
constexpr Expr error(Axis axis = Axis::batch) { return square(tanh(x(axis) * w())); }

// What is divided,
inline constexpr auto of_means = [] {
  const Expr rows = x(), matrix = w(), y = rows * matrix, penalty = 0.01 * sum(square(matrix));
  return (mean(square(y)) - 0.25 * mean(tanh(y))) / 2.0 + mean(sum(square(y - rows), Over::columns)) + penalty;
};
inline constexpr auto of_sums = [] {
  const Expr y = x() * w();
  return 2.0 * sum(square(y)) + sum(tanh(y));
};
inline constexpr auto by_columns = [] {
  const Expr y = x() * w();
  return -sum(mean(square(y), Over::rows)) + mean(max(y, Over::columns));
};
inline constexpr auto of_column_means = [] { return sum(mean(error(), Over::rows)); };
inline constexpr auto of_own_gradients = [] {
  const auto clipped =
      with_pull_back([](Expr c) { return c; }, [](Expr dy, Expr, Expr) { return clamp(dy, -1e-3, 1e-3); });
  return mean(square(clipped(x() * w())));
};
inline constexpr auto of_tokens = [] { return mean(shift(error(Axis::tokens), 1)) + sum(square(vector("v", 3))); };
inline constexpr auto of_sequences = [] {
  const Expr matrix = w(), h = dropout("mask", tanh(x(Axis::tokens) * matrix), hyper("rate", 0.3));
  const Expr attended = softmax_attention(h * matrix, h, h, {.count = 2, .mask = Mask::full});
  return mean(cross_entropy(mean_of_sequence(attended), indices("label", Axis::sequences)));
};
inline constexpr auto in_layers = [] {
  const auto block = [](Expr c) { return c + tanh(c * weight("w", 4, 4, normal(0.5))); };
  const Expr matrix = w(), h = stack("blocks", 2, block, x());
  return mean(cross_entropy(h * matrix * matrix, indices("label", Axis::batch)));  // used twice: two sums
};

// and what is not.
inline constexpr auto root_of_mean = [] { return sqrt(mean(error())); };
inline constexpr auto product_of_means = [] {
  const Expr e = error();
  return mean(e) * mean(tanh(e));
};
inline constexpr auto ratio = [] {
  const Expr e = error();
  return mean(e) / mean(tanh(e));
};
inline constexpr auto sum_and_penalty = [] { return sum(error()) + sum(square(vector("v", 3))); };
inline constexpr auto sum_and_mean = [] {
  const Expr e = error();
  return sum(e) + mean(e);
};
inline constexpr auto means_of_two_axes = [] {
  const Expr e = error(Axis::tokens);
  return mean(e) + mean(first_of_sequence(e));
};
inline constexpr auto rows_of_two_axes = [] {
  return mean(error(Axis::tokens)) + mean(input("z", rows_of(Axis::batch, 1)));
};
inline constexpr auto of_statistics = [] {
  const Expr e = error();
  return mean(square(e - mean(e, Over::rows)));
};
inline constexpr auto of_shifted_rows = [] { return mean(shift(error(), 1)); };
inline constexpr auto of_gathered_rows = [] { return mean(gather(error(), indices("of", Axis::batch))); };
inline constexpr auto of_pairs = [] {
  const Expr e = error();
  return sum(square(transpose(e) * e));
};
inline constexpr auto of_the_largest = [] { return max(error()); };
inline constexpr auto of_own_kernel = [] { return mean(apply<"upside_down">({}, error())); };
inline constexpr auto of_own_kernel_of_tokens = [] { return mean(apply<"upside_down">({}, error(Axis::tokens))); };
inline constexpr auto of_what_changes = [] { return mean(square(variable("x", rows_of(Axis::batch, 4)) * w())); };
inline constexpr auto of_one_mask = [] { return mean(square(x() * dropout("mask", w(), hyper("rate", 0.5)))); };
inline constexpr auto of_own_gradient = [] {  // which parts of the rows would clip one by one
  const auto clipped =
      with_pull_back([](Expr c) { return c; }, [](Expr dy, Expr, Expr) { return clamp(dy, -0.01, 0.01); });
  return mean(square(x() * clipped(w())));
};
inline constexpr auto of_own_gradient_within = [] {
  const auto clipped =
      with_pull_back([](Expr c) { return c; }, [](Expr dy, Expr, Expr) { return clamp(dy, -0.01, 0.01); });
  return mean(stack("blocks", 2, [=](Expr c) { return c * clipped(w()); }, x()));
};
inline constexpr auto of_statistics_within = [] {
  const auto block = [](Expr c) { return c - mean(c, Over::rows); };
  return mean(square(stack("blocks", 2, block, x() * w())));
};
inline constexpr auto of_no_rows = [] { return sum(square(w())); };
struct Two {
  Expr loss, more;
};
inline constexpr auto of_two_results = [] {
  const Expr e = error();
  return Two{mean(e), e};
};

template <auto const& f>
constexpr bool divides = Learner<f>::divides;

static_assert(divides<of_means> && divides<of_sums> && divides<by_columns> && divides<of_tokens>);
static_assert(divides<of_sequences> && divides<in_layers> && divides<of_column_means> && divides<of_own_gradients>);
static_assert(!divides<root_of_mean> && !divides<product_of_means> && !divides<ratio> && !divides<sum_and_penalty>);
static_assert(!divides<sum_and_mean> && !divides<means_of_two_axes> && !divides<rows_of_two_axes>);
static_assert(!divides<of_statistics> && !divides<of_shifted_rows> && !divides<of_gathered_rows> && !divides<of_pairs>);
static_assert(!divides<of_the_largest> && !divides<of_own_kernel> && !divides<of_own_kernel_of_tokens>);
static_assert(!divides<of_what_changes>);
static_assert(!divides<of_one_mask> && !divides<of_statistics_within> && !divides<of_no_rows>);
static_assert(!divides<of_two_results> && !divides<of_own_gradient> && !divides<of_own_gradient_within>);

/// Numbers for every input of a function.
template <class F>
void give(F& f, Index rows, const std::vector<Index>& lengths = {}) {
  f.template set<"x">(Eigen::MatrixXd(Eigen::MatrixXd::Random(rows, 4)));
  if (!lengths.empty()) f.set_sequences(lengths);
  if constexpr (F::G::input_number("label") >= 0) {
    std::vector<int> labels;
    const Index count = lengths.empty() ? rows : std::ssize(lengths);
    for (Index row = 0; row < count; ++row) labels.push_back(static_cast<int>(row * 7 % 4));
    f.template set<"label">(labels);
  }
}

/// What a step without an update says and leaves of the gradient: the update of plain gradient descent by -1.
template <auto const& f>
std::vector<double> step_of(int threads, Index rows, const std::vector<Index>& lengths) {
  Learner<f, Cpu<double>> learner{{.seed = 3, .threads = threads, .clip = 0}};
  std::srand(1);
  give(learner, rows, lengths);
  std::vector<double> all{learner.loss()};
  const std::vector<double> first(learner.parameters().begin(), learner.parameters().end());
  const StepResult result = learner.step(Sgd{.learning_rate = 1, .momentum = 0, .weight_decay = 0});
  all.push_back(result.loss);
  for (std::size_t i = 0; i < first.size(); ++i) all.push_back(first[i] - learner.parameters()[i]);
  CHECK(learner.loss() != all[0]);
  return all;
}
/// The same by Function, which evaluates all rows at once.
template <auto const& f>
std::vector<double> whole(Index rows, const std::vector<Index>& lengths) {
  Function<f> function(3);
  std::srand(1);
  give(function, rows, lengths);
  std::vector<double> all{function.value()};
  function.random() = {.training = true, .key = bits(key_of(3, "dropout"), 0)};
  all.push_back(function.value_and_grad());
  all.insert(all.end(), function.gradients().begin(), function.gradients().end());
  return all;
}
template <auto const& f>
void check_parts(Index rows, const std::vector<Index>& lengths = {}) {
  CAPTURE(rows);
  const std::vector<double> exact = whole<f>(rows, lengths), one = step_of<f>(1, rows, lengths);
  REQUIRE(exact.size() == one.size());
  for (std::size_t i = 0; i < exact.size(); ++i) {
    CAPTURE(i);
    CHECK(std::abs(one[i] - exact[i]) <= 1e-12 * (1 + std::abs(exact[i])));
  }
  CHECK(step_of<f>(2, rows, lengths) == one);
  CHECK(step_of<f>(3, rows, lengths) == one);
}

}  // namespace

TEST_SUITE_BEGIN("differentiate/divided_loss");

TEST_CASE("parts of a batch add up to the loss and gradient of all rows, with the same bits for any number of threads") {
  for (const Index rows : {1, 63, 64, 65, 200, 257}) {
    check_parts<of_means>(rows);
    check_parts<of_sums>(rows);
    check_parts<by_columns>(rows);
    check_parts<in_layers>(rows);
    check_parts<of_own_gradients>(rows);
  }
}

TEST_CASE("parts are whole sequences, of any lengths") {
  for (const std::vector<Index>& lengths : {std::vector<Index>{5}, {64, 1}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12},
                                            {100, 3, 3, 3, 90, 2, 70}, {0, 40, 0, 0, 80, 0}}) {
    Index rows = 0;
    for (const Index length : lengths) rows += length;
    check_parts<of_tokens>(rows, lengths);
    check_parts<of_sequences>(rows, lengths);
  }
  std::vector<Index> mostly_empty(300, 0);
  std::fill_n(mostly_empty.begin() + 17, 100, 1);
  check_parts<of_sequences>(100, mostly_empty);
}

TEST_CASE("what was made for some rows serves fewer and gives way to more") {
  Learner<in_layers, Cpu<double>> learner{{.seed = 3, .threads = 2, .clip = 0}};
  Function<in_layers> all_rows;
  for (const Index rows : {3, 70, 2, 20000}) {
    std::ranges::copy(learner.parameters(), all_rows.parameters().begin());
    std::srand(2);
    give(learner, rows);
    learner.step(Sgd{.learning_rate = 0.1});
    std::srand(2);
    give(all_rows, rows);
    all_rows.value_and_grad();
    for (std::size_t i = 0; i < all_rows.parameters().size(); ++i) {
      CHECK(std::abs(all_rows.parameters()[i] - 0.1 * all_rows.gradients()[i] - learner.parameters()[i]) < 1e-12);
    }
  }
}

TEST_CASE("where memory is short for a batch, smaller ones are evaluated as before") {
  Learner<of_tokens, Cpu<double>> learner({.seed = 1, .threads = 2});
  const Eigen::MatrixXd few = Eigen::MatrixXd::Random(5, 4), many = Eigen::MatrixXd::Random(3000, 4);
  const std::vector<Index> two{2, 3}, three{1000, 1500, 500};
  const double before = learner.set<"x">(few).set_sequences(two).loss();
  learner.set<"x">(many).set_sequences(three);
  CHECK(test::without_memory([&] { learner.loss(); }, [&] {
    CHECK(learner.set<"x">(few).set_sequences(two).loss() == before);
    learner.set<"x">(many).set_sequences(three);
  }) > 3);
}

TEST_CASE("no rows have no mean, and nothing is updated") {
  Learner<of_means> mean_of_none;
  mean_of_none.set<"x">(Eigen::MatrixXd(0, 4));
  CHECK(!mean_of_none.step(AdamW{}).finite);
  Learner<of_sums> sum_of_none;
  sum_of_none.set<"x">(Eigen::MatrixXd(0, 4));
  CHECK(sum_of_none.loss() == 0);
  Learner<of_column_means> means_of_none;
  means_of_none.set<"x">(Eigen::MatrixXd(0, 4));
  CHECK(means_of_none.loss() == 0);  // as mean(x, Over::rows) says
  for (const std::vector<Index>& lengths : {std::vector<Index>{}, {0}, {0, 0}}) {
    Learner<of_tokens> none({.threads = 2});
    none.set<"x">(Eigen::MatrixXd(0, 4)).set_sequences(lengths);
    CHECK(std::isnan(none.loss()));
    CHECK(!none.step(AdamW{}).finite);
    CHECK(none.steps() == 0);
  }
}

TEST_SUITE_END();
