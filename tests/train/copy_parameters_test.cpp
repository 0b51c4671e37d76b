// SPDX-License-Identifier: MIT
#include <simplx/train/copy_parameters.hpp>

#include "support.hpp"

#include <simplx/differentiate/learner.hpp>
#include <simplx/train/hyper.hpp>

using namespace simplx;

namespace {

/// A matrix, a row, a constant that is drawn and one that is not.
struct Encoder {
  constexpr Expr operator()(Expr x) const {
    return (x + fixed("basis", 1, 4, normal(1))) * weight("w", 4, 3, normal(1)) * hyper("scale", 2) +
           vector("bias", 3, normal(1));
  }
};
constexpr Expr rows() { return input("x", rows_of(Axis::batch, 4)); }
inline constexpr auto online = [] {
  return mean(square(named("encoder", Encoder{})(rows()) * weight("head", 3, 2, normal(1))));
};
inline constexpr auto encoder = [] { return named("encoder", Encoder{})(rows()); };
inline constexpr auto momentum = [] { return named("momentum", Encoder{})(rows()); };
inline constexpr auto wider = [] {
  return named("encoder", Encoder{})(rows()) * weight("head", 3, 5);
};

template <class Net>
std::vector<double> values(Net& net) {
  std::vector<double> all(net.parameters().begin(), net.parameters().end());
  all.insert(all.end(), net.constants().begin(), net.constants().end());
  return all;
}

}  // namespace

TEST_SUITE_BEGIN("train/copy_parameters");

TEST_CASE("what one network has learnt and drawn is another's, by names, in any precision; settings are its own") {
  Learner<online> learner({.seed = 3});
  Function<encoder> copy;
  set_hyper(learner, "encoder.scale", 5);
  copy_parameters(learner, copy);
  const Eigen::MatrixXf x = Eigen::MatrixXf::Random(7, 4);
  const auto tensor = [](auto& net, const char* name) {
    const auto found = std::string(name).ends_with("basis") ? net.constant(name) : net.parameter(name);
    return std::vector<double>(found.begin(), found.end());
  };
  for (const char* name : {"encoder.w", "encoder.bias", "encoder.basis"}) {
    CHECK(tensor(copy, name) == tensor(learner, name));
  }
  CHECK(copy.constant("encoder.scale")[0] == 2);
}

TEST_CASE("names that begin with one text are copied to those that begin with another, and no others") {
  Learner<online> learner({.seed = 3});
  Function<momentum> target;
  copy_parameters(learner, target, {.from = "encoder.", .to = "momentum."});
  CHECK(std::ranges::equal(target.parameter("momentum.w"), learner.parameter("encoder.w")));
  Function<wider> other;
  const std::vector<double> head(other.parameter("head").begin(), other.parameter("head").end());
  copy_parameters(learner, other, {.from = "encoder.", .to = "encoder."});
  CHECK(std::ranges::equal(other.parameter("encoder.w"), learner.parameter("encoder.w")));
  CHECK(std::ranges::equal(other.parameter("head"), head));
}

TEST_CASE("what is not there or of another shape is told, and nothing is copied") {
  Learner<online> learner({.seed = 3});
  Function<momentum> target;
  Function<wider> other;
  const auto before = values(target), before_other = values(other);
  CHECK_THROWS_WITH_AS(copy_parameters(learner, target),
                       "'momentum.w' was to be copied from 'momentum.w', which is not there\n"
                       "  hint: the nearest names are encoder.w, head, encoder.bias",
                       Error);
  CHECK_THROWS_WITH_AS(copy_parameters(learner, other),
                       "'head' is 3 x 5, and 'head', which was to be copied to it, 3 x 2\n"
                       "  hint: leave it out by a prefix of the others: {.from = \"blocks.\", .to = \"blocks.\"}",
                       Error);
  CHECK_THROWS_WITH_AS(copy_parameters(learner, other, {.from = "encoder.", .to = "encodr."}),
                       "no parameter begins with 'encodr.'\n  hint: tensors() lists their names", Error);
  CHECK(values(target) == before);
  CHECK(values(other) == before_other);
}

TEST_SUITE_END();
