// SPDX-License-Identifier: MIT
/// A transformer that sees images: SAS-P over patches, trained on data that are no tokens.
#include <simplx/simplx.hpp>

#include <cstdio>
#include <cstdlib>
#include <vector>

using namespace simplx;

namespace {

constexpr int side = 12, patch = 3;                                 // pixels
constexpr int patches = (side / patch) * (side / patch), classes = 4;

/// Logits of each image, (sequences, classes): its patches are a sequence, in which each sees all.
constexpr auto logits = [] {
  auto x = named("embedding", Linear{.out = 32})(input("patches", rows_of(Axis::tokens, patch * patch)));
  x = x + positions(weight("position.weight", patches, 32, normal(0.1)));
  x = stack("blocks", 2, ConfiguredBlock{.config = sas_p, .heads = 4, .mask = Mask::full}, x);
  return named("head", Linear{.out = classes})(mean_of_sequence(named("norm", RmsNorm{})(x)));
};
constexpr auto loss = [] { return mean(cross_entropy(logits(), indices("shape", Axis::sequences))); };

/// Bars in one of four directions, anywhere, in noise: rows are patches, one image after the other.
struct Images {
  Eigen::Matrix<float, Eigen::Dynamic, patch * patch, Eigen::RowMajor> pixels;
  std::vector<int> shapes;
  std::vector<Index> lengths;

  Images(int count, std::uint64_t seed)
      : pixels(count * patches, patch * patch), lengths(static_cast<std::size_t>(count), patches) {
    std::uint64_t number = 0;
    const auto below = [&](int end) { return static_cast<int>(bits(seed, number++) % static_cast<unsigned>(end)); };
    for (int image = 0; image < count; ++image) {
      const int shape = below(classes), x0 = 3 + below(side - 6), y0 = 3 + below(side - 6);
      for (int y = 0; y < side; ++y) {
        for (int x = 0; x < side; ++x) {
          const int dx = x - x0, dy = y - y0;
          const int off[classes]{dy, dx, dx - dy, dx + dy};  // 0 on the bar
          const bool bar = off[shape] == 0 && dx * dx + dy * dy < 20;
          const int row = image * patches + y / patch * (side / patch) + x / patch;
          pixels(row, y % patch * patch + x % patch) = static_cast<float>(bar + 0.3 * normal(seed, number++));
        }
      }
      shapes.push_back(shape);
    }
  }
};

}  // namespace

int main() {
  Learner<loss> learner{{.seed = 1}};
  for (int step = 0; step <= 600; ++step) {
    const Images batch(64, static_cast<std::uint64_t>(step));
    learner.set<"patches">(batch.pixels).set<"shape">(batch.shapes).set_sequences(batch.lengths);
    const StepResult result = learner.step(AdamW{.learning_rate = 3e-3});
    if (step % 100 == 0) std::printf("step %3d  loss %.3f\n", step, result.loss);
  }

  const Images unseen(500, 1u << 20);
  Function<logits, Cpu<float>> classify;
  copy_parameters(learner, classify);
  classify.set<"patches">(unseen.pixels).set_sequences(unseen.lengths).forward();
  int right = 0;
  for (Index i = 0; i < 500; ++i) {
    Index best = 0;
    classify.output().row(i).maxCoeff(&best);
    right += best == unseen.shapes[static_cast<std::size_t>(i)];
  }
  std::printf("%d of 500 unseen images are recognised\n", right);
  return right > 450 ? EXIT_SUCCESS : EXIT_FAILURE;
}
