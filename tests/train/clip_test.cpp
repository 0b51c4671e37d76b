// SPDX-License-Identifier: MIT
#include <simplx/train/clip.hpp>

#include <doctest/doctest.h>

#include <vector>

using namespace simplx;

TEST_SUITE_BEGIN("train/clip");

TEST_CASE("the norm of all chunks together is the norm") {
  const Index count = 2 * norm_chunk + 37;
  std::vector<float> gradient(static_cast<std::size_t>(count));
  double expected = 0;
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    gradient[i] = static_cast<float>(static_cast<int>(i % 23) - 11) * 0.25f;
    expected += static_cast<double>(gradient[i]) * static_cast<double>(gradient[i]);
  }
  REQUIRE(norm_chunks(count) == 3);
  double total = 0;
  for (Index chunk = 0; chunk < 3; ++chunk) total += chunk_squared_norm(gradient.data(), count, chunk);
  CHECK(total == doctest::Approx(expected).epsilon(1e-6));
  CHECK(chunk_squared_norm(gradient.data(), count, 2) < chunk_squared_norm(gradient.data(), count, 1));
}

TEST_CASE("a square that is too large for the number is, in a vector and behind the last one") {
  for (const Index count : {1, 27, 200}) {
    std::vector<float> gradient(static_cast<std::size_t>(count), 0.0f);
    gradient.back() = 1e20f;
    CHECK(std::isinf(gradient_norm(gradient.data(), count)));
  }
}

TEST_CASE("the factor limits the norm, leaves small gradients alone and can be off") {
  CHECK(clip_factor(4, 1) == doctest::Approx(0.25));
  CHECK(clip_factor(0.5, 1) == 1);
  CHECK(clip_factor(1000, 0) == 1);
}

TEST_CASE("what is not finite is named: a tensor, the loss, or the norm of finite numbers") {
  std::vector<TensorInfo> tensors(2);
  for (TensorInfo& tensor : tensors) tensor.shape = fixed_shape(1, 2);
  tensors[0].name = "first";
  tensors[1].name = "second", tensors[1].offset = 2;
  std::vector<float> gradient{1, 1e30f, 1, 1};
  CHECK(first_broken(tensors, gradient.data(), 2.0) == "gradient_norm");
  CHECK(first_broken(tensors, gradient.data(), std::nan("")) == "loss");
  gradient[3] = std::numeric_limits<float>::infinity();
  CHECK(first_broken(tensors, gradient.data(), std::nan("")) == "second");
}

TEST_SUITE_END();
