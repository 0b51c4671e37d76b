// SPDX-License-Identifier: MIT
//
// Lesson 8: a language model.
//
//     x = E[byte] + P[position],   x = SasP(x), L times,   p(next byte) = softmax(Norm(x) E^T),   loss = -log p
//
// The smallest that beats counting: a decoder of three SAS-P blocks reads source text byte by byte and learns to guess
// the next one. The line to fall below is that of a 2-gram, which counts what followed each byte in the same training
// text. Held-out files are in neither. Without an argument the text is this repository's own sources.
//
//     g++ -std=c++20 -O2 -I include -I /usr/include/eigen3 examples/08_language_model.cpp -pthread && ./a.out [text]

#include <simplx/simplx.hpp>

#include <cstdio>

using namespace simplx;

inline constexpr Decoder model{.block = sas_p, .width = 64, .heads = 4, .layers = 3, .context = 64,
                               .positions = Positions::learned};

/// Nats per byte on held-out text of counts of what followed the last `order - 1` bytes, each order filled up by the
/// one below: p(c | ab) = (count(abc) + 2 p(c | b)) / (count(ab) + 2).
double n_gram(const Corpus& corpus, int order) {
  std::vector<std::vector<float>> pairs, totals;
  for (int n = 0; n < order; ++n) {
    pairs.emplace_back(std::size_t(256) << 8 * n), totals.emplace_back(std::size_t(1) << 8 * n);
  }
  const auto each = [&](const std::vector<Document>& documents, auto visit) {
    for (const Document& document : documents) {
      std::uint32_t before = 0;
      for (Index at = document.begin; at < document.end; ++at) {
        const std::uint8_t byte = corpus.bytes[static_cast<std::size_t>(at)];
        visit(before, byte);
        before = before << 8 | byte;
      }
    }
  };
  each(corpus.training, [&](std::uint32_t before, std::uint8_t byte) {
    for (int n = 0; n < order; ++n) {
      const std::size_t row = before & ((1u << 8 * n) - 1);
      ++pairs[n][row << 8 | byte], ++totals[n][row];
    }
  });
  double nats = 0;
  each(corpus.validation, [&](std::uint32_t before, std::uint8_t byte) {
    double p = 1.0 / 256;
    for (int n = 0; n < order; ++n) {
      const std::size_t row = before & ((1u << 8 * n) - 1);
      p = (pairs[n][row << 8 | byte] + 2 * p) / (totals[n][row] + 2);
    }
    nats -= std::log(p);
  });
  return nats / static_cast<double>(Corpus::size_of(corpus.validation));
}

int run(const std::vector<std::filesystem::path>& paths) {
  constexpr Index batch_size = 8, held_out_windows = 64;
  const Corpus corpus = read_text(paths, {.extensions = {".hpp", ".cpp", ".py", ".txt"}});
  // Windows of the text: each part has one, or this throws.
  Batches training(corpus, corpus.training, {.context = 64, .sequences = batch_size, .seed = 1});
  const Batches validation(corpus, corpus.validation, {.context = 64, .sequences = 1, .seed = 1});
  std::printf("%td bytes to learn from, ", Corpus::size_of(corpus.training));
  std::printf("%td held out\n", Corpus::size_of(corpus.validation));
  const double line = n_gram(corpus, 2);
  std::printf("held out, nats per byte: 1-gram %.3f   2-gram %.3f   ", n_gram(corpus, 1), line);
  std::printf("3-gram %.3f\n", n_gram(corpus, 3));
  std::printf("%.2f million FLOPs per byte and step\n\n", 3e-6 * causal_flops<model>(tokens{64}) / 64);
  std::printf("%s\n", describe<model>().c_str());

  constexpr long steps = 2000;
  Trainer<model> trainer{{.batch = held_out_windows, .seed = 1, .threads = 2, .sequences_per_step = batch_size}};
  TokenBatch batch = make_batch(batch_size, 64), window = make_batch(1, 64);
  TokenBatch held_out{.tokens = {}, .labels = {}, .offsets = {0}};
  for (Index i = 0; i < held_out_windows; ++i) {  // spread evenly over the held-out text
    validation.at(i * validation.windows() / held_out_windows, window);
    held_out.tokens.insert(held_out.tokens.end(), window.tokens.begin(), window.tokens.end());
    held_out.labels.insert(held_out.labels.end(), window.labels.begin(), window.labels.end());
    held_out.offsets.push_back(static_cast<Index>(held_out.tokens.size()));
  }
  const LinearSchedule schedule{.peak = 5e-3, .warmup = steps / 20, .total = steps};
  double loss = trainer.loss(held_out);
  std::printf("step %4d  held out %.3f nats per byte; log 256 is %.3f\n", 0, loss, std::log(256.0));
  for (long step = 1; step <= steps; ++step) {
    training.next(batch);
    trainer.step(batch, AdamW{.learning_rate = schedule.at(step - 1)});
    if (step % (steps / 4) != 0) continue;
    loss = trainer.loss(held_out);
    std::printf("step %4ld  held out %.3f nats per byte\n", step, loss);
  }
  std::printf("%s the 2-gram's line\n\n", loss < line ? "below" : "not below");

  for (const std::int32_t byte : sample(trainer, {'c', 'o', 'n', 's', 't'}, 200, {.temperature = 0.7, .seed = 1})) {
    std::putchar(byte == '\n' || (byte >= 32 && byte < 127) ? byte : '?');
  }
  std::putchar('\n');
  return loss < line ? 0 : 1;
}

int main(int argc, char** argv) {
  std::vector<std::filesystem::path> paths(argv + 1, argv + argc);
  if (paths.empty()) paths = {"include", "tests", "examples"};
  try {
    return run(paths);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 2;
  }
}
