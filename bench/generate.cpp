// SPDX-License-Identifier: MIT
//
// Tokens per second of generation: one token fed to a stream that remembers so many, and the whole sequence evaluated
// again for each token.
//
//     generate
//
// Method: decoders of 6 layers, width 128, 4 heads, 256 tokens, float, one core. The stream holds T tokens; the
// best of 60 rounds of 8 tokens fed one by one, which see T to T + 7 others.

#include <simplx/simplx.hpp>

#include <chrono>
#include <cstdio>

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
    const auto begin = std::chrono::steady_clock::now();
    f();
    least = std::min(least, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return least;
}

template <auto const& model>
void run(const char* name) {
  Inference<logits_of<model>> net(1);
  Stream<logits_of<model>> stream(net);
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
    constexpr Index fed = 8;
    const double each = seconds(60, filled, [&] {
      for (Index i = 0; i < fed; ++i) stream.feed({&tokens[static_cast<std::size_t>(length + i)], 1});
    }) / fed;
    std::printf("%-8s T %5td: %8.0f tokens/s streamed, %7.0f evaluated anew; prompt %8.0f tokens/s; cache %5td KiB\n",
                name, length, 1 / each, 1 / whole, static_cast<double>(length) / prompt,
                cache_bytes<logits_of<model>>(length) / 1024);
  }
}

}  // namespace

int main() {
  run<pre_ln_model>("pre_ln");
  run<sas_model>("sas");
  run<sas_p_model>("sas_p");
}
