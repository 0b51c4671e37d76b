// SPDX-License-Identifier: MIT
// A program outside of simplx: two steps of a small language model, and the gradient of a function.
#include <simplx/simplx.hpp>

#include <cmath>
#include <cstdio>

using namespace simplx;

inline constexpr Decoder tiny{.block = sas_p, .vocab = 16, .width = 16, .heads = 1, .layers = 2, .context = 8};
inline constexpr auto distance = [] {  // |w - (1, 2, 3)|^2, its gradient 2 (w - (1, 2, 3))
  return sum(square(variable("w", fixed_shape(3, 1)) - input("target", fixed_shape(3, 1))));
};

int main() {
  Trainer<tiny> trainer{{.batch = 1, .seed = 1}};
  TokenBatch batch = make_batch(1, 8);
  for (int i = 0; i < 8; ++i) {
    batch.tokens.push_back(i);
    batch.labels.push_back(i + 1);
  }
  batch.offsets = {0, 8};
  const double before = trainer.step(batch, AdamW{.learning_rate = 1e-2}).loss;
  const double after = trainer.step(batch, AdamW{.learning_rate = 1e-2}).loss;

  Function<distance> f;
  f.set<"target">(Eigen::Vector3d(1, 2, 3)).set<"w">(Eigen::Vector3d(2, 2, 2));
  const double value = f.value_and_grad();
  const Eigen::Vector3d gradient = f.gradient<"w">();

  std::printf("simplx %d.%d.%d  loss %.4f, then %.4f  distance %g\n", SIMPLX_VERSION_MAJOR, SIMPLX_VERSION_MINOR,
              SIMPLX_VERSION_PATCH, before, after, value);
  const bool learns = std::isfinite(after) && after < before;
  return learns && value == 2 && gradient == Eigen::Vector3d(2, 0, -2) ? 0 : 1;
}
