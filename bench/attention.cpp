// SPDX-License-Identifier: MIT
//
// How fast attention is, forward and backward, and how its memory grows with the context.
//
//     attention [--only WORD] [--rounds 9] [--json]     WORD: part of a row's "case", such as shaped or 64x12x128
//
// Method: float, one core, causal, one sequence; the op alone, as a model runs it; processor time, medians of rounds in
// which forward and backward take turns. "case" is kind, head width x heads x tokens, and a window if there is one.
// FLOPs are those of the products that the mask leaves: two in the forward, five in the backward, which computes the
// weights again and so never keeps them. "of_peak" is the share of the peak of multiply-adds measured just before the
// row: exponentials are in the time and not in the FLOPs. "bytes_per_token" is all that an evaluation takes beside its
// inputs and their gradients: where it does not rise with the context, memory is linear (a block of queries' scratch
// makes short contexts dearer).

#include "measure.hpp"

#include <simplx/simplx.hpp>

using namespace simplx;

namespace {

template <int head_width, int heads, bool shaped, int window>
struct AttentionAlone {
  static constexpr Heads all{.count = heads, .window = window};

  constexpr Expr operator()() const {
    const Shape rows = rows_of(Axis::tokens, heads * head_width);
    const auto q = variable("query", rows), k = variable("key", rows), v = variable("value", rows);
    if constexpr (shaped) {
      const auto gain = [](const char* name) { return variable(name, fixed_shape(1, heads)); };
      return shaped_attention(q, k, v, gain("alpha"), gain("beta"), gain("gamma"), all);
    } else {
      return softmax_attention(q, k, v, all);
    }
  }
};
template <int head_width, int heads, bool shaped, int window>
inline constexpr AttentionAlone<head_width, heads, shaped, window> attention_of{};

struct Run {
  bench::Rows rows;
  std::string only;
  int rounds;
};

template <int head_width, int heads, bool shaped, int window>
void run(Run& run, Index context) {
  constexpr auto& model = attention_of<head_width, heads, shaped, window>;
  const std::string name = std::string(shaped ? "shaped " : "softmax ") + std::to_string(head_width) + "x" +
                           std::to_string(heads) + "x" + std::to_string(context) +
                           (window == 0 ? "" : " window " + std::to_string(window));
  if (name.find(run.only) == name.npos) return;
  Evaluation<model, Cpu<float>> evaluation(tokens{context});
  std::uint64_t place = 0;
  const auto fill = [&](std::span<float> values) {
    for (float& value : values) value = static_cast<float>(normal(1, place++));
  };
  for (const char* operand : {"query", "key", "value"}) fill(evaluation.input(operand));
  if constexpr (shaped) {
    for (const char* gain : {"alpha", "beta", "gamma"}) fill(evaluation.input(gain));
  }
  fill(evaluation.output_gradient());

  const double peak = cpu::measured_peak_gflops();
  const auto times =
      bench::take_turns({run.rounds, 10000}, [&] { evaluation.forward(); }, [&] { evaluation.backward(); });
  const double flops = causal_flops<model>(tokens{context}), forward = flops / times[0] * 1e-3,
               backward = 2.5 * flops / times[1] * 1e-3, both = 3.5 * flops / (times[0] + times[1]) * 1e-3;
  const double bytes = static_cast<double>(arena_bytes<model>(tokens{context}));
  run.rows.add({{"case", name}, {"tokens", static_cast<double>(context)}, {"forward_us", times[0]},
                {"backward_us", times[1]}, {"forward_gflops", forward}, {"backward_gflops", backward},
                {"of_peak", both / peak}, {"bytes_per_token", bytes / static_cast<double>(context)}});
}

template <int head_width, int heads, int window = 0>
void run_both(Run& to, std::initializer_list<Index> contexts) {
  for (const Index context : contexts) {
    run<head_width, heads, false, window>(to, context);
    run<head_width, heads, true, window>(to, context);
  }
}

}  // namespace

int main(int count, char** arguments) {
  return bench::guarded([&] {
    const bench::Flags flags(count, arguments, {{"--only", ""}, {"--rounds", "9"}});
    Run all{bench::Rows(flags), flags.text("--only"), static_cast<int>(flags.number("--rounds"))};
    run_both<32, 4>(all, {128, 256, 512, 1024, 2048, 4096, 8192});
#ifndef SIMPLX_SMOKE  // of the tests, which have no time for all sizes
    run_both<32, 8>(all, {64, 128});
    run_both<64, 12>(all, {128, 512});
    run_both<32, 4, 256>(all, {1024, 8192});
#endif
  });
}
