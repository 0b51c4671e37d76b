// SPDX-License-Identifier: MIT
//
// Tokens per second of generation: one token fed to a stream that remembers so many, and the whole sequence evaluated
// again for each token; and of eight sequences at once.
//
//     stream [--json]
//
// Method: decoders of 6 layers, width 128, 4 heads, 256 tokens, float, one core. The stream holds so many tokens; the
// best of 60 rounds of 8 tokens fed one by one, which see those and up to 7 others. Each token reads every weight and
// the cache once: "of_bandwidth" is the share of the bandwidth of as much memory, measured in the same run.
// "eight_per_s" are the tokens of eight sequences together, which read the weights once for a token of each.

#include "measure.hpp"

#include <simplx/simplx.hpp>

#include <numeric>

using namespace simplx;

namespace {

constexpr Index longest = 1088;
constexpr Decoder decoder(const BlockConfig& block) { return {.block = block, .context = longest}; }
inline constexpr Decoder pre_ln_model = decoder(pre_ln), sas_model = decoder(sas), sas_p_model = decoder(sas_p);

/// The shortest of several rounds, in seconds; `before` is not counted.
template <class Before, class F>
double seconds(int rounds, Before before, F f) {
  double least = 1e30;
  for (int round = 0; round < rounds; ++round) {
    before();
    least = std::min(least, 1e-3 * bench::wall_milliseconds(f));
  }
  return least;
}

template <auto const& model>
void run(bench::Rows& rows, const char* name) {
  Inference<logits_of<model>> net({.seed = 1});
  constexpr Index sequences = 8, fed = 8;
  Stream<logits_of<model>> stream(net), eight(net, {.sequences = sequences});
  std::vector<std::int32_t> tokens;
  for (Index i = 0; i < longest; ++i) {
    tokens.push_back(static_cast<std::int32_t>(bits(1, static_cast<std::uint64_t>(i)) % 256));
  }
  for (const Index length : {128, 1024}) {
    const auto past = std::span<const std::int32_t>(tokens).first(static_cast<std::size_t>(length));
    const auto anew = [&] { stream.reset(); };
    const auto filled = [&] { stream.reset(), stream.feed(past); };
    const double prompt = seconds(9, anew, [&] { stream.feed(past); });
    const double whole = seconds(5, [] {}, [&] { net.logits(past); });
    const double each = seconds(60, filled, [&] {
      for (Index i = 0; i < fed; ++i) stream.feed({&tokens[static_cast<std::size_t>(length + i)], 1});
    }) / fed;
    TokenBatch begin{.tokens = {past.begin(), past.end()}, .labels = {}, .offsets = {0}}, next = begin;
    begin.offsets.resize(sequences + 1, length);
    next.offsets.resize(sequences + 1);
    std::iota(next.offsets.begin(), next.offsets.end(), 0);
    const auto all_filled = [&] {
      eight.reset(), eight.feed(begin);
      for (Index s = 1; s < sequences; ++s) eight.copy(0, s);
    };
    const double of_eight = seconds(15, all_filled, [&] {
      for (Index i = 0; i < fed; ++i) eight.feed(next);
    }) / fed;
    const double cache = static_cast<double>(cache_bytes<logits_of<model>>(length));
    const double read = cache + static_cast<double>(parameters<model>) * sizeof(float);
    rows.add({{"block", name}, {"tokens", static_cast<double>(length)}, {"streamed_per_s", 1 / each},
              {"eight_per_s", sequences / of_eight}, {"anew_per_s", 1 / whole},
              {"prompt_per_s", static_cast<double>(length) / prompt}, {"cache_bytes", cache},
              {"of_bandwidth", read / each * 1e-9 / bench::measured_bandwidth(read)}});
  }
}

}  // namespace

int main(int count, char** arguments) {
  return bench::guarded([&] {
    bench::Rows rows{bench::Flags(count, arguments, {})};
    run<pre_ln_model>(rows, "pre_ln");
    run<sas_model>(rows, "sas");
    run<sas_p_model>(rows, "sas_p");
  });
}
