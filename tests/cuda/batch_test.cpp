// SPDX-License-Identifier: MIT
#include "emulation/cuda.hpp"

#include <simplx/cuda/batch.cuh>

#include "cuda/kernels.hpp"

using namespace simplx;
using namespace simplx::gpu;

namespace {

/// What lies on the device; emulated, so that it can be read.
template <class T>
std::vector<T> on_device(const T* place, Index count) {
  return {place, place + count};
}

}  // namespace

TEST_SUITE_BEGIN("cuda/batch");

TEST_CASE("a part of a batch begins at 0 on the device, with the labels of its tokens or sequences") {
  const GpuStream stream;
  TokenBatch batch;
  batch.tokens = {1, 2, 3, 4, 5, 6};
  batch.labels = {11, 12, 13, 14, 15, 16};
  batch.offsets = {1, 2, 5};  // the first token is no part of it
  BatchUpload by_token({.tokens = 8, .sequences = 3}, Axis::tokens);
  by_token.lay_out(batch);
  CHECK(by_token.rows().tokens == 4);
  CHECK(by_token.rows().sequences == 2);
  CHECK(by_token.rows().longest_sequence == 3);
  CHECK(std::ranges::equal(by_token.host_tokens(), std::vector<std::int32_t>{2, 3, 4, 5}));
  by_token.send(stream);
  stream.synchronize();
  CHECK(on_device(by_token.tokens(), 4) == std::vector<std::int32_t>{2, 3, 4, 5});
  CHECK(on_device(by_token.labels(), 4) == std::vector<std::int32_t>{12, 13, 14, 15});
  CHECK(on_device(by_token.sequences().offsets, 3) == std::vector<Index>{0, 1, 4});
  CHECK(by_token.sequences().count == 2);

  batch.labels = {21, 22};
  BatchUpload by_sequence({.tokens = 8, .sequences = 3}, Axis::sequences);
  by_sequence.lay_out(batch);
  by_sequence.send(stream);
  stream.synchronize();
  CHECK(on_device(by_sequence.labels(), 2) == std::vector<std::int32_t>{21, 22});
}

TEST_CASE("labelled tokens are gathered in their order, and others after them as far as there is room") {
  const GpuStream stream;
  TokenBatch batch;
  batch.tokens = std::vector<std::int32_t>(22, 5);
  batch.labels = std::vector<std::int32_t>(22, ignored_label);
  batch.offsets = {2, 9, 22};  // 20 tokens
  BatchUpload upload({.tokens = 22, .sequences = 2}, Axis::tokens, true);
  const auto gathered = [&](bool all = false) {
    upload.lay_out(batch, all);
    upload.send(stream);
    stream.synchronize();
    const Index count = upload.rows().labelled;
    CHECK(std::ranges::equal(upload.host_gathered(), on_device(upload.gathered(), count)));
    return on_device(upload.gathered(), count);
  };
  const auto labels = [&] { return on_device(upload.labels(), upload.rows().labelled); };
  constexpr std::int32_t none = ignored_label;
  CHECK(gathered() == std::vector<std::int32_t>{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(labels() == std::vector<std::int32_t>(8, none));
  batch.labels[0] = 9;  // of no token of these sequences
  batch.labels[2 + 1] = 10, batch.labels[2 + 12] = 11, batch.labels[2 + 19] = 12;
  CHECK(gathered() == std::vector<std::int32_t>{1, 12, 19, 0, 2, 3, 4, 5});
  CHECK(labels() == std::vector<std::int32_t>{10, 11, 12, none, none, none, none, none});
  for (std::size_t i = 2; i < 10; ++i) batch.labels[i] = 7;
  CHECK(gathered().size() == 16);  // 10 labels
  CHECK(gathered()[9] == 19);
  CHECK(labels()[9] == 12);
  batch.labels = std::vector<std::int32_t>(22, 3);
  CHECK(gathered().size() == 20);
  CHECK(labels() == std::vector<std::int32_t>(20, 3));
  batch.labels = std::vector<std::int32_t>(22, ignored_label);
  CHECK(gathered(true).size() == 20);
  CHECK(gathered(true)[19] == 19);
  upload.lay_out({{1}, {2}, {0, 1}});
  CHECK(upload.rows().labelled == 1);
}

TEST_SUITE_END();
