// SPDX-License-Identifier: MIT
//
// A model of one's own from its block to its text, as in docs/training.md. The toy task: sums of two digits,
// "7+8=15", which the model reads as bytes until it knows them all. It ends with 0 if what it claims has held.
//
//     g++ -std=c++20 -O2 -march=native -I include -I /usr/include/eigen3 examples/own_model.cpp -pthread && ./a.out

#include <simplx/simplx.hpp>
#include <simplx/io/training.hpp>  // files: needs nlohmann-json

#include <cstdio>
#include <cstring>

using namespace simplx;

struct MyBlock {
  MultiHeadAttention attention{.heads = 4};
  Mlp mlp;
  Dropout dropout{0.1};

  constexpr Expr operator()(Expr x) const {
    auto n = named("norm", RmsNorm{})(x);
    return x + named("dropout", dropout)(named("attention", attention)(n) + named("mlp", mlp)(n));
  }
};

inline constexpr auto body = [] {
  auto x = embedding(weight("embedding.weight", 256, 64), indices("tokens", Axis::tokens));
  x = stack("blocks", 2, MyBlock{}, x + positions(weight("position.weight", 32, 64)));
  return named("final_norm", RmsNorm{})(x);
};
inline constexpr auto logits = [] { return named("head", Linear{.out = 256})(body()); };
inline constexpr auto model = [] { return cross_entropy(logits(), indices("labels", Axis::tokens)); };

/// The same body with another head: does a sum reach ten?
inline constexpr auto verdicts = [] {
  return cross_entropy(named("verdict", Linear{.out = 2, .bias = true})(body()), indices("labels", Axis::tokens));
};

std::string line_of(int a, int b) {
  return std::to_string(a) + '+' + std::to_string(b) + '=' + std::to_string(a + b) + '\n';
}

/// Every sum as a sequence of its own. label(text, i) is that of token i.
TokenBatch every_sum(auto label) {
  TokenBatch batch{.tokens = {}, .labels = {}, .offsets = {0}};
  for (int i = 0; i < 100; ++i) {
    const std::string text = line_of(i / 10, i % 10);  // "7+8=15\n"
    for (std::size_t t = 0; t + 1 < text.size(); ++t) {
      batch.tokens.push_back(text[t]);
      batch.labels.push_back(label(text, t));  // ignored_label: no loss here
    }
    batch.offsets.push_back(std::ssize(batch.tokens));
  }
  return batch;
}

int run(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  std::string lines;
  for (std::uint64_t i = 0; i < 4000; ++i) {
    const std::uint64_t drawn = bits(/*key*/ 1, i);
    lines += line_of(static_cast<int>(drawn % 10), static_cast<int>(drawn / 10 % 10));
  }
  write_file(folder / "sums.txt", lines);

  Trainer<model> trainer{{.batch = 100,  // sequences of one call at most
                          .seed = 1,     // of the initial values and of dropout
                          .threads = 2,  // changes no bits
                          .clip = 1,     // of the gradient's norm; 0 is off
                          .groups = {{.name = "embedding.*", .weight_decay = 0},
                                     {.name = "position.*", .learning_rate_factor = 0.5}}}};

  const std::vector<std::filesystem::path> paths{folder / "sums.txt"};  // files, or directories of them
  const Corpus corpus = read_text(paths, {.held_out_one_in = 20});
  Batches batches(corpus, corpus.training, {.context = trainer.options().context, .sequences = 16, .seed = 1});

  constexpr long steps = 600;
  constexpr CosineSchedule schedule{.peak = 5e-3, .warmup = steps / 10, .total = steps, .floor = 5e-4};
  const auto learn = [&](Trainer<model>& trainer, Batches& batches, long until) {
    TokenBatch first = make_batch(16, 32), second = make_batch(16, 32);
    while (trainer.steps() < until) {
      batches.next(first), batches.next(second);
      const Index labelled = labelled_tokens(first) + labelled_tokens(second);
      trainer.accumulate(first, labelled);
      trainer.accumulate(second, labelled);
      const AdamW optimiser{.learning_rate = schedule.at(trainer.steps()), .weight_decay = 0.05};
      const StepResult result = trainer.update(optimiser);
      if (!result.finite) throw Error("the gradient of " + result.culprit + " is not finite", "lower the rate");
      if (trainer.steps() % 100 == 0) std::printf("step %3ld  loss %.3f\n", trainer.steps(), result.loss);
    }
  };
  learn(trainer, batches, 500);

  const Batches unseen(corpus, corpus.validation, {.context = 32, .sequences = 100, .seed = 1});
  TokenBatch held_out = make_batch(100, 32);
  unseen.at(/*window*/ 0, held_out);  // in the order of the text
  std::printf("held out: %.3f nats per byte\n", trainer.loss(held_out));

  const TokenBatch answers = every_sum([](const std::string& text, std::size_t t) {
    return t < text.find('=') ? ignored_label : text[t + 1];
  });
  std::printf("answers: %.4f nats per byte\n", trainer.loss(answers));

  save_training(folder, trainer, {{"block", "mine"}}, {{"position", std::to_string(batches.position())}});
  set_hyper(trainer, "*dropout.rate", 0);
  learn(trainer, batches, steps);
  std::printf("answers: %.4f nats per byte\n", trainer.loss(answers));

  TrainerOptions options = trainer.options();
  options.threads = 1;
  Trainer<model> again(options);
  Batches rest(corpus, corpus.training, {.context = again.options().context, .sequences = 16, .seed = 1});
  const Metadata position = load_training(folder, again);
  rest.seek(std::stol(position.at("position")));
  set_hyper(again, "*dropout.rate", 0);
  learn(again, rest, steps);
  const bool same_bits = std::ranges::equal(again.parameters(), trainer.parameters());
  std::printf("resumed on one thread: %s bits\n", same_bits ? "the same" : "other");

  save_checkpoint(folder / "final.safetensors", trainer, {{"block", "mine"}});

  Inference<logits> net;
  load_checkpoint(folder / "final.safetensors", net);
  Stream<logits> stream(net);
  Sampler draw({.temperature = 0.7, .top_k = 5, .top_p = 0.95, .seed = 1});
  const std::vector<std::int32_t> prompt{'7', '+', '8', '='};
  std::printf("7+8=");
  generate(stream, prompt, /*tokens at most*/ 20, draw, [](std::int32_t token) {
    std::putchar(token);
    return token != '\n';  // false ends it; a lambda may return nothing
  });

  Stream<logits> several(net, {.sequences = 3});
  std::vector<Sampler> draws{Sampler({.seed = 1}), Sampler({.seed = 2}), Sampler({.seed = 3})};
  std::string sums[3];
  generate(several, copies_of(prompt, 3), /*tokens at most*/ 20, draws, [&](Index text, std::int32_t token) {
    sums[text] += static_cast<char>(token);
    return token != '\n';
  });
  for (const std::string& sum : sums) std::printf("again: 7+8=%s", sum.c_str());

  Trainer<verdicts> tuned{{.batch = 100, .groups = {{.name = "*", .learning_rate_factor = 0},
                                                    {.name = "verdict.*", .learning_rate_factor = 1}}}};
  load_body(folder / "final.safetensors", tuned, {.missing = {"verdict.*"}, .unexpected = {"head.*"}});
  const TokenBatch questions = every_sum([](const std::string& text, std::size_t t) {
    return text[t] == '=' ? text.size() == std::strlen("7+8=15\n") : ignored_label;
  });
  for (int step = 0; step < 200; ++step) tuned.step(questions, AdamW{.learning_rate = 1e-2});
  std::printf("verdicts: %.4f nats per sum\n", tuned.loss(questions));

  try {
    load_checkpoint(folder / "final.safetensors", tuned);
  } catch (const Error& error) {
    std::printf("%s\n", error.what());
  }
  return same_bits && trainer.loss(answers) < 0.3 && tuned.loss(questions) < 0.3 ? 0 : 1;
}

int main(int argc, char** argv) {
  if (argc > 2 || (argc == 2 && argv[1][0] == '-')) {
    std::fprintf(stderr, "usage: %s [DIRECTORY]\n", argv[0]);
    return 2;
  }
  try {
    return run(argc > 1 ? argv[1] : "runs/own_model");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 2;
  }
}
