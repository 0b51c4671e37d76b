// SPDX-License-Identifier: MIT
#include <simplx/models/classifier.hpp>
#include <simplx/models/crammed_bert.hpp>
#include <simplx/models/norm_former.hpp>

#include "../blocks/three_layers.hpp"
#include "golden.hpp"

#include <simplx/blocks/crammed_bert.hpp>
#include <simplx/train/hyper.hpp>

#include <numeric>

using namespace simplx;
using test::largest_difference, test::magnitude;

namespace {

constexpr Encoder encoder(const BlockConfig& block) {
  return {.block = block, .vocab = 19, .width = 16, .heads = 2, .hidden = 24, .layers = 2, .context = 8};
}
constexpr Classifier classifier(const BlockConfig& block, double dropout = 0) {
  Encoder body = encoder(block);
  body.dropout = body.attention_dropout = dropout;
  return {body, {.classes = 3, .pooled = 20, .dropout = dropout}};
}
inline constexpr Encoder body = encoder(bert_sas_p);
inline constexpr Classifier plain = classifier(bert_pre_ln), simplified = classifier(bert_sas_p),
                            dropped = classifier(bert_sas_p, 0.3), closed_by_its_block = classifier(post_ln);
inline constexpr ClassifierOf<EncoderOf<BertSasP>> equation{
    {{{.heads = 2, .mask = Mask::full}, {24}, {}, 0.05}, 19, 16, 2, 8}, {.classes = 3, .pooled = 20, .dropout = 0}};
static_assert(same_graph<simplified, equation>());

// The parameters of the encoder, whose own head has none, and two matrices with biases.
static_assert(parameters<simplified> == parameters<body> + (16 + 1) * 20 + (20 + 1) * 3);
static_assert(parameters<dropped> == parameters<simplified>);
static_assert(parameter_shape<simplified>("pooler.weight") == fixed_shape(16, 20) &&
              parameter_shape<simplified>("classifier.bias") == fixed_shape(1, 3));

// A head as wide as the model: its parameters do not share a name with those of the masked one.
inline constexpr Classifier bert = crammed_bert_classifier(bert_sas_p, 3),
                            baseline = crammed_bert_classifier(bert_pre_ln, 2),
                            second = norm_former_classifier(norm_former, 2);
static_assert(parameters<bert> == 101'281'379 + (768 + 1) * 1024 + (1024 + 1) * 3);
static_assert(parameters<baseline> == 119'589'889 + (768 + 1) * 1024 + (1024 + 1) * 2);
static_assert(parameters<second> == parameters<presets::normformer_mlm_normformer> -
                                        (768 * 768 + 768 + 2 * 768 + 51'200) + (768 + 1) * 768 + (768 + 1) * 2);

/// Logits of some sequences, with all parameters away from where they start.
template <auto const& model>
std::vector<double> logits(const std::vector<std::vector<std::int32_t>>& sequences, std::uint64_t seed = 1) {
  std::vector<Index> lengths;
  std::vector<std::int32_t> tokens;
  for (const auto& sequence : sequences) {
    lengths.push_back(std::ssize(sequence));
    tokens.insert(tokens.end(), sequence.begin(), sequence.end());
  }
  Evaluation<logits_of<model>> run(Rows{.tokens = std::ssize(tokens)}, 3, lengths);
  std::ranges::fill(run.memory(), 1e30);
  test::move_parameters(run, 0.2, seed);
  std::ranges::copy(tokens, run.indices("tokens").begin());
  run.forward();
  REQUIRE(run.output().size() == 3 * sequences.size());
  return {run.output().begin(), run.output().end()};
}

/// Against a golden file: sequences of several lengths, of which one carries no loss.
template <auto const& model, class Backend>
void agrees_with(const std::string& name) {
  CAPTURE(name);
  const std::filesystem::path golden(SIMPLX_GOLDEN_DIR);
  const SafetensorsFile file = SafetensorsFile::read(golden / (name + ".safetensors"));
  const auto whole = [&](const char* tensor) {
    std::vector<std::int32_t> values(static_cast<std::size_t>(file.find(tensor)->elements()));
    std::memcpy(values.data(), file.find(tensor)->bytes.data(), file.find(tensor)->bytes.size());
    return values;
  };
  const std::vector<std::int32_t> tokens = whole("tokens"), offsets = whole("offsets"), targets = whole("targets");
  std::vector<Index> lengths;
  for (std::size_t s = 0; s + 1 < offsets.size(); ++s) lengths.push_back(offsets[s + 1] - offsets[s]);
  Evaluation<test::with_logits<model>, Backend> run(Rows{.tokens = std::ssize(tokens)}, 1, lengths);
  std::ranges::copy(tokens, run.indices("tokens").begin());
  std::ranges::copy(targets, run.indices("labels").begin());
  test::agrees_with(run, file);
}

}  // namespace

TEST_SUITE_BEGIN("models/classifier");

TEST_CASE("logits, loss and gradients are those of the equations in PyTorch") {
  agrees_with<plain, Cpu<double>>("classifier_bert_pre_ln_small");
  agrees_with<plain, Cpu<double, Path::reference>>("classifier_bert_pre_ln_small");
  agrees_with<simplified, Cpu<double>>("classifier_bert_sas_p_small");
}

TEST_CASE("derivatives, with dropout as well") {
  test::check_model<simplified>({.gradient = 1e-6}, {3, 1, 5});
  Evaluation<dropped> run(Rows{.tokens = 9}, 3, {3, 1, 5});
  test::fill_inputs(run, 3);
  run.random() = {.training = true, .key = 7};
  const GradientReport report = check_gradients(run, {});
  CHECK(report.worst < 1e-6);
  CHECK(report.adjoint < 1e-11);
}

TEST_CASE("what lies beside a sequence changes none of its logits; a token of its own does") {
  const std::vector<std::int32_t> a{3, 7, 1, 18, 2}, b{3, 0, 0, 9}, c{3};
  const auto holds = [&]<auto const& model>() {
    const std::vector<double> together = logits<model>({a, b, c}), turned = logits<model>({c, b, a, b});
    const auto of = [](const std::vector<double>& all, std::size_t sequence) {
      return std::span(all).subspan(3 * sequence, 3);
    };
    const double rounding = 1e-13 * magnitude(together);  // products of other numbers of rows add in another order
    CHECK(largest_difference(logits<model>({a}), of(together, 0)) < rounding);
    CHECK(largest_difference(logits<model>({b}), of(together, 1)) < rounding);
    CHECK(largest_difference(of(turned, 2), of(together, 0)) < rounding);
    CHECK(largest_difference(of(turned, 3), of(together, 1)) < rounding);
    auto longer = a;
    longer.push_back(4);
    CHECK(largest_difference(logits<model>({longer}), of(together, 0)) > 1e-4);
  };
  holds.template operator()<simplified>();
  holds.template operator()<plain>();
  holds.template operator()<closed_by_its_block>();
}

TEST_CASE("without positions the order of all tokens but the first does not matter") {
  static constexpr Classifier unplaced = [] {
    Classifier model = simplified;
    model.encoder.positions = Positions::none;
    return model;
  }();
  const std::vector<double> one = logits<unplaced>({{3, 7, 1, 18, 2}}), other = logits<unplaced>({{3, 18, 2, 7, 1}});
  CHECK(largest_difference(one, other) < 1e-13 * magnitude(one));
  CHECK(largest_difference(one, logits<unplaced>({{7, 3, 1, 18, 2}})) > 1e-3);
  CHECK(largest_difference(logits<simplified>({{3, 7, 1, 18, 2}}), logits<simplified>({{3, 18, 2, 7, 1}})) > 1e-4);
}

TEST_CASE("dropout: of embedding, branches, weights and head, in training; a sequence's mask is that of its number") {
  const auto run_of = [](std::vector<Index> lengths, Index first) {
    Evaluation<logits_of<dropped>> run(Rows{.tokens = std::accumulate(lengths.begin(), lengths.end(), Index(0))}, 3,
                                       lengths);
    test::move_parameters(run);
    for (std::size_t i = 0; i < run.indices("tokens").size(); ++i) run.indices("tokens")[i] = static_cast<int>(i % 4);
    run.random().key = 11, run.random().first_sequence = first;
    return run;
  };
  auto both = run_of({4, 4}, 0), second = run_of({4}, 1);
  // Products of other numbers of rows add in another order.
  const auto agree = [&](std::size_t sequence) {
    const std::span<const double> all = both.output();
    return largest_difference(all.subspan(3 * sequence, 3), second.output()) < 1e-13 * magnitude(all);
  };
  for (auto* run : {&both, &second}) run->forward();
  CHECK(agree(1));
  CHECK(agree(0));  // the same tokens
  const std::vector<double> calm(both.output().begin(), both.output().end());
  both.random().training = second.random().training = true;
  for (auto* run : {&both, &second}) run->forward();
  CHECK(agree(1));
  CHECK(!agree(0));
  CHECK(both.output()[0] != calm[0]);
  for (const char* rate :
       {"embedding_dropout.rate", "blocks.0.attention_dropout.rate", "blocks.1.attention_dropout.rate",
        "blocks.0.attention.dropout.rate", "blocks.1.attention.dropout.rate", "blocks.0.mlp_dropout.rate",
        "blocks.1.mlp_dropout.rate", "pooler.dropout.rate"}) {
    CAPTURE(rate);
    CHECK(both.constant(rate)[0] == 0.3);
    const std::vector<double> before(both.output().begin(), both.output().end());
    both.constant(rate)[0] = 0;
    both.forward();
    CHECK(largest_difference(both.output(), before) > 1e-6);
  }
  CHECK(largest_difference(both.output(), calm) == 0);  // all rates are zero now
  set_hyper(both, "*dropout.rate", 0.25);
  for (const TensorInfo& tensor : both.tensors().constants) {
    if (tensor.name.ends_with(".rate")) CHECK(both.constant(tensor.name)[0] == 0.25);
  }
  set_hyper(both, "*.attention.dropout.rate", 0.5);  // of weights, not of the branch
  CHECK(both.constant("blocks.0.attention_dropout.rate")[0] == 0.25);
}

TEST_SUITE_END();
