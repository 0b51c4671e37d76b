// SPDX-License-Identifier: MIT
#pragma once

/// A reader is fuzzed by one function: it takes any bytes, and either reads them or throws Error with the path in it.
/// libFuzzer calls the function of one program (tests/fuzz/CMakeLists.txt); tests/io/fuzz_corpus_test.cpp calls all of
/// them on the committed corpus.

#include <simplx/core/error.hpp>

#include <cstddef>
#include <cstdlib>
#include <span>
#include <string>

namespace fuzz {

inline constexpr const char* path = "fuzz.bin";

/// Runs a reader; an Error that does not say where and what to do is a crash, as any other exception is.
template <class Reader>
void refuses_with_reason(Reader&& reader) {
  try {
    reader();
  } catch (const simplx::Error& error) {
    const std::string text = error.what();
    if (text.find(path) == text.npos || text.find("\n  hint: ") == text.npos) std::abort();
  }
}

/// Ends the program when what must hold of a file that was read does not.
inline void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace fuzz
