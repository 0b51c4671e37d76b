// SPDX-License-Identifier: MIT
// chapter: Functions, training and checks
// doc: What takes the tokens of a text returns a number, of which 0 would not end it.
// expect: error: .*simplx: emit\(token\) returns a bool, false to end the text, or nothing
#include <simplx/generate/generate.hpp>

#include <cstdio>

using namespace simplx;

struct Source {
  void reset();
  std::span<const float> feed(std::span<const std::int32_t> tokens);
  Index size() const;
  Index capacity() const;
};

void write(Source& source, Sampler& draw, std::span<const std::int32_t> prompt) {
#ifdef FIXED
  generate(source, prompt, 20, draw, [](std::int32_t token) { return std::putchar(token) != '\n'; });
#else
  generate(source, prompt, 20, draw, [](std::int32_t token) { return std::putchar(token); });
#endif
}
