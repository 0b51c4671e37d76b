// SPDX-License-Identifier: MIT
#include "emulation/cuda.hpp"

#include <simplx/cuda/trainer.cuh>

#include "cuda/on_device.hpp"

#include <simplx/blocks/tokens.hpp>
#include <simplx/models/classifier.hpp>
#include <simplx/models/decoder.hpp>

using namespace simplx;
using namespace simplx::gpu;

namespace {

constexpr Encoder around(const BlockConfig& block, bool masked_head, bool tiled_loss) {
  return {.block = block, .vocab = 13, .width = 8, .heads = 2, .hidden = 16, .layers = 2, .context = 24,
          .masked_head = masked_head, .tiled_loss = tiled_loss};
}
constexpr Encoder masked = around(bert_pre_ln, true, false), tied = around(bert_sas_p, false, false),
                  tiled = around(bert_sas_p, true, true), without_norm = around(post_ln, false, true);
constexpr Decoder decoder{.block = pre_ln, .vocab = 13, .width = 8, .heads = 2, .layers = 2, .context = 24};
constexpr Classifier classifier{masked};

/// In bfloat16 rows of logits begin on 16 bytes.
constexpr Encoder wide(bool tiled_loss) {
  Encoder encoder = around(bert_pre_ln, true, tiled_loss);
  encoder.vocab = 24, encoder.width = 16, encoder.hidden = 32;
  return encoder;
}
constexpr Encoder wide_held = wide(false), wide_tiled = wide(true);

/// A head that needs its x twice, and may have what does not go row by row, or look labels up.
struct Head {
  bool dropout = false, mixes = false, labels_twice = false, frozen_end = false;

  constexpr Expr operator()(Expr x, Expr table) const {
    const Expr h = gelu(x * weight("head.weight", width(x), width(x)));
    x = x + (dropout ? named("head.dropout", Dropout{0.5})(h) : h);
    x = mixes ? cumulative_sum(x) : x;
    const Expr labels = indices("labels", Axis::tokens);
    if (frozen_end) x = frozen([](Expr y) { return y * weight("end.weight", width(y), width(y)); })(x);
    if (labels_twice) x = x + embedding(table, labels);
    return cross_entropy(x * transpose(table), labels);
  }
};
struct WithHead {
  Head head;
  constexpr Expr operator()() const { return masked.ending_with(head); }
};
constexpr WithHead twice{}, dropping{{.dropout = true}}, matrix{{.mixes = true}}, looking_up{{.labels_twice = true}},
    ending_frozen{{.frozen_end = true}};

struct Results {
  Expr loss, hidden;
};
constexpr auto hidden_too = [] {
  Expr hidden;
  const Expr loss = masked.ending_with([&](Expr x, Expr table) {
    hidden = x;
    return cross_entropy(x * transpose(table), indices("labels", Axis::tokens));
  });
  return Results{loss, hidden};
};

/// The ops of the rows with labels, in their order.
template <auto const& of>
std::string ops_of_head() {
  using G = Graph<TrainedRoot<of>>;
  std::string words;
  for (int i = 0; i < G::count; ++i) {
    if (G::table.info[i].shape.axis != Axis::labelled || G::table.info[i].kind == Kind::indices) continue;
    words += (words.empty() ? "" : " ") + std::string(G::flat.label[i].op.view());
  }
  return words;
}

/// 48 tokens of three sequences, so many of them labelled, here and there.
TokenBatch some_batch(Index labelled, Index vocab = 13) {
  TokenBatch batch;
  batch.offsets = {0, 24, 31, 48};
  for (std::uint64_t i = 0; i < 48; ++i) {
    batch.tokens.push_back(static_cast<std::int32_t>(bits(1, i) % static_cast<std::uint64_t>(vocab)));
    const bool has_label = static_cast<Index>(i * 29 % 48) < labelled;
    batch.labels.push_back(has_label ? (batch.tokens.back() * 5 + 3) % static_cast<std::int32_t>(vocab)
                                     : ignored_label);
  }
  return batch;
}

/// Values of a training that has gone some way: small weights hide errors.
template <class T>
void stir(T& trainer) {
  const TensorList tensors = trainer.tensors();
  for (const TensorInfo& tensor : tensors.parameters) {
    std::uint64_t number = 0;
    for (auto& p : trainer.parameter(tensor.name)) {
      p += static_cast<std::remove_reference_t<decltype(p)>>(0.3 * normal(key_of(9, tensor.name), number++));
    }
  }
}

template <class S>
double farthest(std::span<const S> a, std::span<const S> b) {
  REQUIRE(a.size() == b.size());
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    worst = std::isnan(difference) ? std::numeric_limits<double>::infinity() : std::max(worst, difference);
  }
  return worst;
}

const TrainerOptions options{.batch = 3, .seed = 3};
const AdamW adamw{.learning_rate = 1e-2};

/// None, few, as many as there is room for, one more, nearly all, all; of sizes that were recorded, and that were not.
constexpr Index labels[] = {9, 9, 9, 0, 1, 16, 17, 47, 48, 9, 15, 0, 48, 9};

template <auto const& of>
void is_that_of_the_cpu() {
  Trainer<of, Cuda<Precision::float64>> device(options);
  Trainer<of, Cpu<double>> cpu(options);
  stir(device), stir(cpu);
  std::vector<double> mine(device.parameters().size()), its(mine);
  for (const Index labelled : labels) {
    CAPTURE(labelled);
    const TokenBatch batch = some_batch(labelled);
    CHECK(std::abs(device.loss(batch) - cpu.loss(batch)) < 1e-12);
    const StepResult a = device.loss_and_gradient(batch, mine), b = cpu.loss_and_gradient(batch, its);
    CHECK(a.labelled == labelled);
    CHECK(std::abs(a.loss - b.loss) < 1e-12);
    CHECK(farthest<double>(mine, its) < 1e-12);
    CHECK((labelled == 0) == std::ranges::all_of(its, [](double g) { return g == 0; }));
    CHECK(std::abs(device.step(batch, adamw).loss - cpu.step(batch, adamw).loss) < 1e-12);
    CHECK(farthest<double>(device.parameters(), cpu.parameters()) < 1e-9);
  }
  CHECK(device.not_recorded().empty());
}

/// The gradient of all rows on a device, from the graph as it is written.
template <auto const& of, Precision precision>
auto in_full(std::span<const float> parameters, const TokenBatch& batch) {
  const auto rows = std::ssize(batch.tokens);
  Evaluation<of, Cuda<precision>> full(Rows{.tokens = rows}, 0, {24, 7, 17});
  std::ranges::copy(parameters, full.parameters().begin());
  std::ranges::copy(batch.tokens, full.indices("tokens").begin());
  std::ranges::copy(batch.labels, full.indices("labels").begin());
  full.forward();
  std::ranges::fill(full.output_gradient(), 1 / static_cast<float>(std::max<Index>(labelled_tokens(batch), 1)));
  full.backward();
  return std::vector<float>(full.gradients().begin(), full.gradients().end());
}

template <auto const& of, Precision precision>
void is_that_of_all_rows() {
  Trainer<of, Cuda<precision>> trainer(options);
  stir(trainer);
  std::vector<float> gathered(trainer.parameters().size());
  for (const Index labelled : {0, 9, 16, 48}) {
    CAPTURE(labelled);
    const TokenBatch batch = some_batch(labelled, of.vocab);
    trainer.loss_and_gradient(batch, gathered);
    CHECK(farthest<float>(gathered, in_full<of, precision>(trainer.parameters(), batch)) < 1e-5);
  }
}

}  // namespace

TEST_SUITE_BEGIN("cuda/labelled_rows");

TEST_CASE("a head has rows for all labels, and seldom others") {
  static_assert(head_rows(0, 64) == 8 && head_rows(8, 64) == 8 && head_rows(9, 64) == 16 && head_rows(64, 64) == 64);
  static_assert(head_rows(1, 1) == 1 && head_rows(11, 12) == 12);
  static_assert(head_rows(4096, 16'384) == 4096 && head_rows(4097, 16'384) == 4608);
  static_assert(head_rows(2458, 16'384) == 2560);  // 15 %
  for (Index tokens = 1; tokens < 300; ++tokens) {
    for (Index labelled = 0; labelled <= tokens; ++labelled) {
      CHECK(head_rows(labelled, tokens) >= labelled);
      CHECK(head_rows(labelled, tokens) <= tokens);
    }
  }
}

TEST_CASE("the head of a model whose tokens see ahead begins where its rows were last mixed") {
  CHECK(ops_of_head<masked>() == "embedding layer_norm matmul add gelu layer_norm matmul add cross_entropy output");
  CHECK(ops_of_head<tied>() == "embedding layer_norm matmul cross_entropy output");
  CHECK(ops_of_head<tiled>() == "embedding layer_norm matmul add gelu layer_norm linear_cross_entropy output");
  CHECK(ops_of_head<without_norm>() == "embedding linear_cross_entropy output");
  CHECK(ops_of_head<twice>() == "embedding layer_norm matmul gelu add matmul cross_entropy output");
  CHECK(ops_of_head<ending_frozen>() == "embedding layer_norm matmul gelu add matmul matmul cross_entropy output");
  CHECK(ops_of_head<hidden_too>() == "embedding matmul cross_entropy output");
  CHECK(ops_of_head<dropping>() == "embedding matmul cross_entropy output");
  CHECK(ops_of_head<matrix>() == "embedding matmul cross_entropy output");
  CHECK(ops_of_head<decoder>().empty());
  CHECK(ops_of_head<classifier>().empty());
  CHECK(ops_of_head<looking_up>().empty());
  static_assert(std::is_same_v<TrainedRoot<decoder>, Root<decoder>>);
  using G = Graph<TrainedRoot<hidden_too>>;  // its other result has all rows
  const int hidden = G::table.info[view_of<G>.result_node(1)].arguments[0];
  CHECK(G::flat.label[hidden].op == Tag("layer_norm"));
  CHECK(G::table.info[hidden].shape.axis == Axis::tokens);
}

TEST_CASE("parameters and the rest of the graph stay where they are") {
  using Is = Graph<TrainedRoot<masked>>;
  using Was = GraphOf<masked>;
  CHECK(Is::layout.parameters == Was::layout.parameters);
  CHECK(Is::layout.constants == Was::layout.constants);
  CHECK(Is::count == Was::count + 2);
  const TensorList mine = tensors_in<Is>(), its = tensors_of<masked>();
  REQUIRE(mine.parameters.size() == its.parameters.size());
  for (std::size_t i = 0; i < its.parameters.size(); ++i) {
    CHECK(mine.parameters[i].name == its.parameters[i].name);
    CHECK(mine.parameters[i].offset == its.parameters[i].offset);
  }
}

TEST_CASE("losses, gradients and steps are those of the CPU, however many tokens have labels") {
  is_that_of_the_cpu<masked>();
  is_that_of_the_cpu<tiled>();
  is_that_of_the_cpu<twice>();
  is_that_of_the_cpu<ending_frozen>();
}

TEST_CASE("labels that a table is asked for train it") {
  Trainer<looking_up, Cuda<Precision::float64>> device(options);
  Trainer<looking_up, Cpu<double>> cpu(options);
  stir(device), stir(cpu);
  const TokenBatch batch = some_batch(48);
  for (int step = 0; step < 2; ++step) {
    CHECK(std::abs(device.step(batch, adamw).loss - cpu.step(batch, adamw).loss) < 1e-12);
    CHECK(farthest<double>(device.parameters(), cpu.parameters()) < 1e-9);
  }
  CHECK_THROWS_WITH_AS(device.loss(some_batch(9)), doctest::Contains("has the label -100"), Error);
  const std::span tokens = std::span(batch.tokens).first(20);
  CHECK(farthest<double>(device.logits(tokens), cpu.logits(tokens)) < 1e-9);
}

TEST_CASE("rounded or not, they are those of all rows to the rounding of float") {
  is_that_of_all_rows<wide_held, Precision::float32>();
  is_that_of_all_rows<wide_held, Precision::tf32>();
  is_that_of_all_rows<wide_held, Precision::bfloat16>();
  is_that_of_all_rows<wide_tiled, Precision::bfloat16>();
}

TEST_CASE("a training has the same bits each time, under every schedule") {
  test::same_bits([] {
    Trainer<wide_held, Cuda<Precision::bfloat16>> trainer(options);
    stir(trainer);
    for (const Index labelled : {9, 9, 17, 9, 48, 0, 17}) trainer.step(some_batch(labelled, 24), adamw);
    return std::vector<float>(trainer.parameters().begin(), trainer.parameters().end());
  });
}

TEST_CASE("parts of a step may have different numbers of labels") {
  Trainer<masked, Cuda<Precision::float64>> device({.batch = 3, .seed = 3, .sequences_per_step = 9});
  Trainer<masked, Cpu<double>> cpu({.batch = 3, .seed = 3, .sequences_per_step = 9});
  for (int step = 0; step < 3; ++step) {
    for (const Index labelled : {3, 0, 30}) {
      device.accumulate(some_batch(labelled), 33);
      cpu.accumulate(some_batch(labelled), 33);
    }
    CHECK(std::abs(device.update(adamw).loss - cpu.update(adamw).loss) < 1e-12);
    CHECK(farthest<double>(device.parameters(), cpu.parameters()) < 1e-9);
  }
}

TEST_CASE("the head multiplies for the labelled rows alone") {
  Trainer<masked, Cuda<Precision::float64>> trainer(options);
  const auto multiply_adds = [&](Index labelled) {
    const long before = emulation::multiply_adds();
    trainer.step(some_batch(labelled), adamw);
    return emulation::multiply_adds() - before;
  };
  constexpr long row = 3 * (8 * 8 + 8 * 13);  // forward, and twice that backward
  const long all = multiply_adds(48);
  CHECK(all - multiply_adds(0) == 40 * row);
  CHECK(all - multiply_adds(9) == 32 * row);
  CHECK(all - multiply_adds(16) == 32 * row);
  CHECK(all - multiply_adds(17) == 24 * row);
  CHECK(all - multiply_adds(41) == 0);
}

TEST_CASE("logits are those of every token") {
  Trainer<masked, Cuda<Precision::float64>> device(options);
  Trainer<masked, Cpu<double>> cpu(options);
  stir(device), stir(cpu);
  device.step(some_batch(9), adamw), cpu.step(some_batch(9), adamw);
  const std::vector<std::int32_t> tokens{1, 5, 3, 0, 12, 7, 7, 2, 4, 11};
  CHECK(device.logits(tokens).size() == 130);
  CHECK(farthest<double>(device.logits(tokens), cpu.logits(tokens)) < 1e-9);
}

TEST_SUITE_END();
