// SPDX-License-Identifier: MIT
/// On a machine with a GPU: makes every product of the library, compares it with double, and prints the table
/// tests/emulation/proven_products.inc with what has been seen here; `bench/gpu/run products` puts it there. Proven is
/// what cuBLASLt did whole; where it refuses an epilogue, the library's kernels must finish the product rightly.
///
///     nvcc -std=c++20 -O2 -I include -I tests tests/cuda/prove_products.cu -lcublasLt -o prove && ./prove
#include "cuda/products.hpp"

#include <cstdio>
#include <exception>

namespace {

int prove() {
  int wrong = 0;
  std::puts(
      "// Has it run on hardware: types, op of cuBLASLt's A and B (our b and a), epilogue, and whether D or another C is added.");
  const simplx::gpu::ProductShape small{.rows = 40, .cols = 56, .inner = 72};
  test::each_product(small, [&]<class S, class Y>(const simplx::gpu::ProductShape& shape,
                                                  simplx::gpu::Epilogue function) {
    const std::string name = test::name_of<S, Y>(shape, function);
    simplx::gpu::ProductShape odd = shape;  // a vocabulary, and so many tokens, are multiples of nothing
    odd.rows = 37, odd.cols = 57, odd.inner = 41;
    try {
      simplx::gpu::Products products;  // which knows nothing of what was refused before
      const double error =
          std::max(test::error_of<S, Y>(products, shape, function), test::error_of<S, Y>(products, odd, function));
      const bool right = error < 1, fused = products.not_fused().empty();
      std::printf("{\"%s\", %s},\n", name.c_str(), right && fused ? "proven" : "not_yet");
      std::fflush(stdout);  // whatever the next one does
      for (const std::string& line : products.not_fused()) {
        std::fprintf(stderr, "%s: finished by kernels: %s\n", name.c_str(), line.c_str());
      }
      if (right) return;
      std::fprintf(stderr, "%s: %g times the error it may have\n", name.c_str(), error);
    } catch (const simplx::Error& error) {
      std::printf("{\"%s\", not_yet},\n", name.c_str());
      std::fprintf(stderr, "%s: %s\n", name.c_str(), error.what());
    }
    ++wrong;
  });
  return wrong;
}

}  // namespace

int main() {
  try {
    return prove() == 0 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;  // 1: some products are wrong
  }
}
