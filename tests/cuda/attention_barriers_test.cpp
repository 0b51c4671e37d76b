// SPDX-License-Identifier: MIT
/// Each barrier of attention is needed: left out, it is noticed.
#include "emulation/cuda.hpp"

#include <simplx/cuda/bfloat16_values.cuh>
#include <simplx/cuda/reduce.cuh>

#include <set>

namespace {

/// Barriers by the line they stand on: those that were reached, and the one that is left out, if any.
std::set<int> reached;
int left_out = 0;

void barrier_at(int line) {
  reached.insert(line);
  if (line != left_out) emulation::Block::running()->barrier({"__syncthreads", "tile.cuh", line});
}

}  // namespace

#define __syncthreads() barrier_at(__LINE__)
#include <simplx/cuda/attention_backward.cuh>
#include <simplx/cuda/warpgroups.cuh>
#undef __syncthreads

#include "cuda/attention_problem.hpp"

using namespace simplx;
using namespace simplx::gpu;

namespace {

// Of this file alone, as then are kernels with them.
struct SomeTensorCores : TensorCores<> {};
struct SomeWideCores : TensorCores<32> {
  using Wide = SomeWideCores;
};
struct SomeWarpgroups : Warpgroups {};
struct SomeCudaCores : CudaCores<float> {};

/// Both passes over a sequence of several tiles, from operands of type T.
template <class Cores, class T, int width>
std::vector<float> results() {
  constexpr AttentionSize size{1, width, width, AttentionMatrix::shaped, Mask::causal};
  test::Attention<float> found(size, {150});
  const auto stored = [](const std::vector<float>& numbers) { return std::vector<T>(numbers.begin(), numbers.end()); };
  const std::vector<T> query = stored(found.query), key = stored(found.key), value = stored(found.value);
  const std::vector<T> dout = stored(found.dout);
  const AttentionOperands<float> own = found.operands();
  const MixedOperands<T, T, T, float> in{query.data(), key.data(),  value.data(), own.alpha,
                                         own.beta,     own.gamma,   own.slopes};
  auto scratch = test::unwritten<float>(attention_backward_scratch<size, Cores>(found.tokens, 1, found.longest));
  attention<size, Cores>(nullptr, found.offsets.data(), 1, found.longest, in, found.out.data(),
                         found.log_sum_exp.data());
  attention_backward<size, Cores, Write::store, Write::store, Write::store>(
      nullptr, found.offsets.data(), 1, found.longest, in, found.log_sum_exp.data(), found.out.data(), dout.data(),
      found.gradients(), scratch.data());
  return found.results();
}

template <class Cores, class T, int width = 8>
void check_barriers(std::size_t count) {
  reached.clear();
  left_out = 0;
  const std::vector<float> right = results<Cores, T, width>();
  const std::set<int> barriers = reached;
  CHECK(barriers.size() == count);
  for (const int barrier : barriers) {
    CAPTURE(barrier);
    left_out = barrier;
    bool noticed = false;
    emulation::each_schedule([&] {
      if (noticed) return;
      try {
        noticed = results<Cores, T, width>() != right;
      } catch (const emulation::Fault&) {  // the executor has noticed
        noticed = true;
      }
    });
    CHECK(noticed);
  }
  left_out = 0;
}

}  // namespace

TEST_SUITE_BEGIN("cuda/attention_barriers");

TEST_CASE("a barrier that attention goes without shows under some schedule" *
          doctest::skip(emulation::thread_sanitized)) {
  check_barriers<SomeTensorCores, __nv_bfloat16>(4);  // two of tiles, two of the sums of values
  check_barriers<SomeWideCores, __nv_bfloat16, 48>(4);
  check_barriers<SomeWarpgroups, __nv_bfloat16, 64>(4);
  check_barriers<SomeCudaCores, float>(2);
}

TEST_SUITE_END();
