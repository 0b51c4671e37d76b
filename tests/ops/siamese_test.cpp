// SPDX-License-Identifier: MIT
#include <simplx/ops/siamese.hpp>

#include "core/built.hpp"
#include "support.hpp"

#include <simplx/differentiate/learner.hpp>
#include <simplx/nn/dropout.hpp>
#include <simplx/ops/stack.hpp>

#include <set>
#include <string>

using namespace simplx;

namespace {

struct Pair {
  Expr one, other;
};
struct Triple {
  Expr a, b, c;
};
constexpr Shape rows = rows_of(Axis::batch, 4);

/// A leaf that is used twice by one node, a constant, and one that is used by two.
struct Encoder {
  constexpr Expr operator()(Expr x) const {
    const Expr gain = vector("gain", width(x), normal(1)), w = weight("w", width(x), 3, normal(1));
    return tanh(x * (gain * gain) * w + fixed("shift", 1, 3, normal(1))) + sum(w);
  }
};
inline constexpr auto twins = [] {
  const auto [one, other] = siamese(named("encoder", Encoder{}), variable("a", rows), variable("b", rows));
  return Pair{one, other};
};
inline constexpr auto by_hand = [] {
  const Expr gain = vector("encoder.gain", 4), w = weight("encoder.w", 4, 3);
  const Expr shift = fixed("encoder.shift", 1, 3, ones);
  const auto encode = [&](Expr x) { return tanh(x * (gain * gain) * w + shift) + sum(w); };
  return Pair{encode(variable("a", rows)), encode(variable("b", rows))};
};
inline constexpr auto triplets = [] {
  const Expr outside = vector("outside", 3, normal(1));
  const auto encode = [&](Expr x) { return named("encoder", Encoder{})(x) * outside; };
  const auto [a, b, c] = siamese(encode, variable("a", rows), variable("b", rows), variable("c", rows));
  return Triple{a, b, c};
};
/// Of rows of ones: what is dropped and probed is of each use.
struct Dropped {
  constexpr Expr operator()(Expr x) const { return probe("seen", named("dropout", Dropout{0.5})(x)); }
};
inline constexpr auto dropped = [] {
  const Expr x = variable("x", rows);
  const auto [one, other] = siamese(named("net", Dropped{}), x, x);
  return Pair{one, other};
};
inline constexpr auto nested = [] {
  const auto twice = [](Expr x) {
    const auto [one, other] = siamese(named("inner", Encoder{}), x, 2 * x);
    return one * other;
  };
  const auto [one, other] = siamese(named("outer", twice), variable("a", rows), variable("b", rows));
  return Pair{one, other};
};
/// A leaf as the result.
inline constexpr auto offsets = [] {
  const Expr x = variable("x", rows);
  const auto [one, other] = siamese([](Expr of) { return vector("offset", width(of)); }, x, x);
  return x * one + other;
};
/// Logistic regression of which of two inputs is better.
inline constexpr auto preference = [] {
  const auto score = [](Expr x) { return tanh(x * weight("w", 4, 3, normal(1))) * weight("out", 3, 1, normal(1)); };
  const auto [better, worse] = siamese(named("score", score), input("better", rows), input("worse", rows));
  return mean(softplus(worse - better));
};

}  // namespace

TEST_SUITE_BEGIN("ops/siamese");

TEST_CASE("two uses of a module are the same expression as by hand: one set of parameters and constants") {
  static_assert(same_graph<twins, by_hand>());
  static_assert(parameters<twins> == 4 + 12);
  static_assert(parameters<triplets> == 4 + 12 + 3);
  static_assert(parameters<nested> == 4 + 12);
  static_assert(parameters<offsets> == 4);
  CHECK(tensors_of<twins>().constants.size() == 1);
  CHECK(tensors_of<nested>().parameters[0].name.starts_with("outer.inner."));
}

TEST_CASE("gradients are the sum over the uses") {
  CHECK(gradcheck<twins>().worst < 1e-7);
  CHECK(gradcheck<triplets>().worst < 1e-7);
  CHECK(gradcheck<nested>().worst < 1e-7);
}

TEST_CASE("each use has masks and probes of its own, by its number") {
  Evaluation<dropped> run(Rows{.batch = 200});
  CHECK(run.constant("net.dropout.rate")[0] == 0.5);
  std::ranges::fill(run.input("x"), 1.0);
  run.random() = {.training = true, .key = 3};
  run.forward();
  std::vector<double> one, other;
  run.each_probe([&](const std::string& name, const Shape&, const double* value, const double*) {
    CHECK((name == "net.seen" || name == "1.net.seen"));
    (name == "net.seen" ? one : other).assign(value, value + 800);
  });
  REQUIRE((one.size() == 800 && other.size() == 800));
  int agree = 0;
  for (std::size_t i = 0; i < one.size(); ++i) agree += one[i] == other[i];
  CHECK(std::abs(agree - 400) < 71);  // 5 deviations
}

TEST_CASE("masks and probes of a siamese within a siamese have one name each, with a scope between them or none") {
  const auto names_of = [](auto outer) {
    const auto within = [&](Expr x) {
      const auto [one, other, third] = siamese(Dropped{}, x, 2 * x, 3 * x);
      return one * other * third;
    };
    const auto [one, other, third] =
        siamese(outer(within), input("a", rows), input("b", rows), input("c", rows));
    const test::Built model{one + other + third};
    CHECK(detail::summarise(model.root.node).rule == Tag());
    std::set<std::string> names;
    detail::each_node(model.root.node, [&](const Node* node) {
      if (node->argument_count > 0 && !node->name.empty()) names.emplace(node->name.view());
    });
    return names;
  };
  const auto direct = names_of([](auto module) { return module; });
  CHECK(direct.size() == 2 * 9);
  for (const char* name : {"seen", "2.seen", "2.1.dropout.mask"}) CHECK(direct.contains(name));
  const auto scoped = names_of([](auto module) { return named("outer", module); });
  CHECK(scoped.size() == 2 * 9);
  for (const char* name : {"outer.seen", "outer.2.seen", "2.outer.2.seen"}) CHECK(scoped.contains(name));
}

TEST_CASE("stacks, whose parameters belong to one input, are refused, as are tensors of two shapes; errors pass") {
  const auto rule_of = [](auto module, Index other_width) {
    const test::Built model{[&] {
      const auto [one, other] = siamese(module, input("a", rows), input("b", rows_of(Axis::batch, other_width)));
      return one + other;
    }()};
    const Summary summary = detail::summarise(model.root.node);
    return summary.rule;
  };
  const auto stacked = [](Expr x) { return stack("blocks", 2, Encoder{}, x); };
  CHECK(rule_of(Encoder{}, 4) == Tag());
  CHECK(rule_of(stacked, 4) == Tag("siamese stack"));
  CHECK(rule_of([](Expr x) { return x * weight("w", width(x), 4); }, 5) == Tag("one name"));
  CHECK(rule_of([](Expr x) { return x * weight("w", 5, 4); }, 4) == Tag("inner widths"));
  CHECK(rule_of([](Expr x) { return x; }, 4) == Tag());
}

TEST_CASE("a preference is learned, with the same bits on two threads") {
  std::vector<double> losses[2];
  const Eigen::MatrixXf worse = Eigen::MatrixXf::Random(64, 4), better = worse.array() + 1;
  for (int threads : {1, 2}) {
    Learner<preference> learner({.seed = 1, .threads = threads});
    learner.set<"better">(better).set<"worse">(worse);
    for (int step = 0; step < 40; ++step) {
      losses[threads - 1].push_back(learner.step(Sgd{.learning_rate = 0.5}).loss);
    }
  }
  CHECK(losses[0].back() < 0.6 * losses[0].front());
  CHECK(losses[0] == losses[1]);
}

TEST_SUITE_END();
