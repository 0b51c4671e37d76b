// SPDX-License-Identifier: MIT
#include <simplx/train/trained_model.hpp>

#include <simplx/models/classifier.hpp>
#include <simplx/models/decoder.hpp>
#include <simplx/ops/custom.hpp>
#include <simplx/train/trainer.hpp>

#include <doctest/doctest.h>

using namespace simplx;

/// A kernel of a user's that says nothing of its rows.
template <>
struct simplx::op<"of_other_rows"> : kernel_op {
  static constexpr Checked shape(const Attributes&, Shape x) { return x; }
};

namespace {
inline constexpr Decoder decoder{.block = sas_p, .vocab = 31, .width = 16, .heads = 2, .layers = 1, .context = 12};
inline constexpr Classifier classifier{
    {.block = bert_sas_p, .vocab = 31, .width = 16, .heads = 2, .layers = 1, .context = 12, .position_rows = 14},
    {.classes = 3}};
struct Placed {
  constexpr Expr operator()(Expr x) const { return x + positions(weight("places", 7, 8)); }
};
inline constexpr auto two_tables = [] {
  auto i = indices("tokens", Axis::tokens);
  auto x = embedding(weight("large", 100, 8), i) + embedding(weight("small", 10, 8), i);
  return cross_entropy(stack("blocks", 2, Placed{}, x), indices("labels", Axis::tokens));
};
/// The head knows the label, as a denoiser may.
inline constexpr auto looking_up = [] {
  auto labels = indices("labels", Axis::tokens), tokens = indices("tokens", Axis::tokens);
  auto table = weight("table", 8, 8);
  return cross_entropy((embedding(table, tokens) + embedding(table, labels)) * transpose(table), labels);
};
template <auto const& model>
using Of = detail::TrainedModel<GraphOf<model>>;
static_assert(Of<decoder>::labelled_axis() == Axis::tokens && Of<classifier>::labelled_axis() == Axis::sequences);
static_assert(Of<decoder>::classes() == 31 && Of<classifier>::classes() == 3);
static_assert(Of<decoder>::tokens_known() == 31 && Of<classifier>::tokens_known() == 31);
static_assert(Of<two_tables>::tokens_known() == 10 && Of<two_tables>::labels_known() == 8);
static_assert(Of<two_tables>::longest_sequence() == 7);
static_assert(Of<decoder>::ignores_labels() && Of<decoder>::no_label() == -100);
static_assert(!Of<looking_up>::ignores_labels() && Of<looking_up>::no_label() == 0);
static_assert(Of<decoder>::logits_left() == Of<decoder>::logits_node());
static_assert(Of<decoder>::longest_sequence() == 12 && Of<classifier>::longest_sequence() == 14);

/// f of the embedding, with its loss.
template <class F>
struct LossOf {
  constexpr Expr operator()() const {
    const Expr x = embedding(weight("embedding", 5, 4), indices("tokens", Axis::tokens));
    return cross_entropy(F{}(x) * weight("head", 4, 5), indices("labels", Axis::tokens));
  }
};
constexpr auto mean_of_rows = [](Expr x) { return x + mean(x, Over::rows); };
constexpr auto mean_in_a_stack = [](Expr x) { return stack("layers", 2, mean_of_rows, x); };
constexpr auto mean_recomputed = [](Expr x) { return recompute(mean_of_rows)(x); };
constexpr auto contracted = [](Expr x) { return x * (transpose(x) * x); };
constexpr auto mixed_back = [](Expr x) {
  return with_pull_back([](Expr y) { return y; }, [](Expr dy, Expr, Expr) { return dy / sum(square(dy)); })(x);
};
struct Both {
  Expr x, w;
};
constexpr auto product_back = [](Expr x) {  // the gradient of a parameter is a sum over rows, which no row reads
  return with_pull_back([](Expr y, Expr w) { return y * w; },
                        [](Expr dy, Expr, Expr y, Expr w) {
                          return Both{dy * transpose(w), transpose(y) * dy};
                        })(x, weight("w", 4, 4));
};
constexpr auto sums_of_columns = [](Expr x) { return x * sum(x, Over::columns) + sum(weight("w", 3, 4), Over::rows); };
template <class F>
inline constexpr LossOf<F> loss_of{};
/// f of a row for each sequence, with its loss.
template <class F>
struct SequenceLossOf {
  constexpr Expr operator()() const {
    const Expr x = embedding(weight("embedding", 5, 4), indices("tokens", Axis::tokens));
    const Expr y = F{}(first_of_sequence(x));
    return cross_entropy(y * weight("head", 4, 5), indices("labels", Axis::sequences));
  }
};
template <class F>
inline constexpr SequenceLossOf<F> sequence_loss_of{};
constexpr auto as_it_is = [](Expr x) { return x; };
constexpr auto moved = [](Expr x) { return shift(x, 1); };
constexpr auto by_own_kernel = [](Expr x) { return apply<"of_other_rows">({}, x); };
inline constexpr auto picked = [] {
  const Expr labels = indices("labels", Axis::tokens);
  const Expr x = embedding(weight("embedding", 5, 4), indices("tokens", Axis::tokens));
  return cross_entropy(embedding(x, labels) * weight("head", 4, 5), labels);
};
template <class F>
constexpr bool apart = detail::keeps_sequences_apart<GraphOf<loss_of<F>>>();
static_assert(apart<decltype(sums_of_columns)> && detail::keeps_sequences_apart<GraphOf<decoder>>());
static_assert(!apart<decltype(mean_of_rows)> && !apart<decltype(mean_in_a_stack)> && !apart<decltype(contracted)>);
template <class F>
constexpr bool sequences_apart = detail::keeps_sequences_apart<GraphOf<sequence_loss_of<F>>>();
static_assert(sequences_apart<decltype(as_it_is)> && !sequences_apart<decltype(moved)>);
static_assert(!sequences_apart<decltype(by_own_kernel)> && !apart<decltype(by_own_kernel)>);
static_assert(apart<decltype(moved)> && !detail::keeps_sequences_apart<GraphOf<picked>>());
static_assert(!apart<decltype(mean_recomputed)> && !apart<decltype(mixed_back)> && apart<decltype(product_back)>);
}  // namespace

TEST_CASE("train/trained_model: the loss is what the logits lead to") {
  using G = GraphOf<classifier>;
  CHECK(G::flat.label[Of<classifier>::loss_node()].op == Tag("cross_entropy"));
  CHECK(G::table.info[Of<classifier>::loss_node()].arguments[0] == Of<classifier>::logits_node());
}

TEST_CASE("train/trained_model: labels that are looked up are rows of their table") {
  Trainer<looking_up, Cpu<double>> trainer({.batch = 2, .context = 4});
  CHECK_THROWS_WITH_AS(trainer.loss({{1, 2, 3}, {1, -100, 3}, {0, 3}}), doctest::Contains("has the label -100"), Error);
  const std::vector<std::int32_t> tokens{1, 2, 3};
  const auto logits = trainer.logits(tokens);  // as if each had the label 0
  const std::vector<double> given(logits.begin(), logits.end());
  trainer.loss({tokens, {0, 0, 0}, {0, 3}});
  CHECK(std::ranges::equal(trainer.logits(tokens), given));
}
