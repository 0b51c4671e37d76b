// SPDX-License-Identifier: MIT
#include "emulation/cublas_lt.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <vector>

using emulation::device;

namespace {

constexpr cublasStatus_t good = CUBLAS_STATUS_SUCCESS, invalid = CUBLAS_STATUS_INVALID_VALUE,
                         unsupported = CUBLAS_STATUS_NOT_SUPPORTED;

/// D (m, n) = A (m, k) B (k, n), and what can be wrong with it.
struct Problem {
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cudaDataType_t scale = CUDA_R_32F;
  cublasLtMatrixLayoutOpaque_t a{CUDA_R_32F, 8, 4, 8}, b{CUDA_R_32F, 4, 16, 8}, c{CUDA_R_32F, 8, 16, 8},
      d{CUDA_R_32F, 8, 16, 8};
  cublasOperation_t op_a = CUBLAS_OP_N, op_b = CUBLAS_OP_N;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void *bias = nullptr, *aux = nullptr;
  std::int64_t ld_aux = 0;
  std::uint32_t alignment_a = 256;
  std::uint64_t workspace = 1 << 20;

  Problem& of(cublasComputeType_t computed, cudaDataType_t scaled, cudaDataType_t in, cudaDataType_t out) {
    compute = computed, scale = scaled;
    a.type = b.type = in;
    c.type = d.type = out;
    return *this;
  }
};

/// Memory and objects for one problem at a time.
struct Bench {
  std::byte *memory = nullptr, *workspace = nullptr;
  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDesc_t desc = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr, d = nullptr;
  cublasLtMatmulHeuristicResult_t result{};
  int found = 0;

  Bench() {
    cudaMalloc(&memory, 1 << 16);
    cudaMalloc(&workspace, 1 << 20);
    cudaMemsetAsync(memory, 0, 1 << 16);
    REQUIRE(cublasLtCreate(&handle) == good);
  }
  Bench(const Bench&) = delete;
  ~Bench() {
    clear();
    cublasLtDestroy(handle);
    cudaFree(memory);
    cudaFree(workspace);
    CHECK(emulation::live_blas_objects() == 0);
  }
  void clear() {
    if (!desc) return;
    cublasLtMatmulDescDestroy(desc);
    for (const cublasLtMatrixLayout_t layout : {a, b, c, d}) cublasLtMatrixLayoutDestroy(layout);
    desc = nullptr;
  }

  /// What the heuristic says; it has an algorithm if that is good.
  cublasStatus_t plan(const Problem& problem) {
    const cublasStatus_t status = ask(problem);
    CHECK(found == (status == good));
    return status;
  }
  cublasStatus_t ask(const Problem& problem) {
    clear();
    cublasLtMatmulDescCreate(&desc, problem.compute, problem.scale);
    const auto set = [&](cublasLtMatmulDescAttributes_t attribute, auto value) {
      CHECK(cublasLtMatmulDescSetAttribute(desc, attribute, &value, sizeof value) == good);
    };
    set(CUBLASLT_MATMUL_DESC_TRANSA, problem.op_a);
    set(CUBLASLT_MATMUL_DESC_TRANSB, problem.op_b);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, problem.epilogue);
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, problem.bias);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, problem.aux);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, problem.ld_aux);
    const auto create = [](cublasLtMatrixLayout_t& layout, const cublasLtMatrixLayoutOpaque_t& like) {
      cublasLtMatrixLayoutCreate(&layout, like.type, like.rows, like.cols, like.ld);
    };
    create(a, problem.a), create(b, problem.b), create(c, problem.c), create(d, problem.d);
    cublasLtMatmulPreference_t preference = nullptr;
    cublasLtMatmulPreferenceCreate(&preference);
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
      CHECK(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value) == good);
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, problem.workspace);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, problem.alignment_a);
    const cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(handle, desc, a, b, c, d, preference, 1, &result, &found);
    cublasLtMatmulPreferenceDestroy(preference);
    return status;
  }
  /// Multiplies what lies so far from the beginning of memory.
  cublasStatus_t multiply(std::size_t at_a = 0, std::size_t at_b = 4096, std::size_t at_d = 8192,
                          std::size_t bytes = 1 << 20) const {
    const float one = 1, none = 0;
    return cublasLtMatmul(handle, desc, &one, memory + at_a, a, memory + at_b, b, &none, memory + at_d, c,
                          memory + at_d, d, &result.algo, workspace, bytes, nullptr);
  }
};

}  // namespace

TEST_CASE("emulation/cublas_lt: layouts that do not fit each other are invalid") {
  Bench bench;
  CHECK(bench.plan({}) == good);
  Problem problem;
  const auto wrong = [&](auto& place, auto value) {
    const auto before = std::exchange(place, value);
    const cublasStatus_t status = bench.plan(problem);
    place = before;
    return status;
  };
  CHECK(wrong(problem.a.rows, 7) == invalid);
  CHECK(wrong(problem.a.cols, 5) == invalid);
  CHECK(wrong(problem.b.rows, 5) == invalid);
  CHECK(wrong(problem.b.cols, 15) == invalid);
  CHECK(wrong(problem.c.rows, 7) == invalid);
  CHECK(wrong(problem.d.cols, 0) == invalid);
  CHECK(wrong(problem.a.ld, 7) == invalid);
  CHECK(wrong(problem.b.ld, 3) == invalid);
  CHECK(wrong(problem.c.ld, 7) == invalid);
  CHECK(wrong(problem.d.ld, 7) == invalid);
  CHECK(wrong(problem.op_a, CUBLAS_OP_T) == invalid);
  CHECK(wrong(problem.op_b, CUBLAS_OP_T) == invalid);
  CHECK(wrong(problem.epilogue, 3u) == invalid);
}

TEST_CASE("emulation/cublas_lt: types that the documentation does not list are not supported") {
  Bench bench;
  const auto status = [&](cublasComputeType_t compute, cudaDataType_t scale, cudaDataType_t in, cudaDataType_t out) {
    return bench.plan(Problem{}.of(compute, scale, in, out));
  };
  const auto f32 = CUDA_R_32F, f64 = CUDA_R_64F, bf16 = CUDA_R_16BF;
  CHECK(status(CUBLAS_COMPUTE_32F, f32, f32, f32) == good);
  CHECK(status(CUBLAS_COMPUTE_32F, f32, bf16, bf16) == good);
  CHECK(status(CUBLAS_COMPUTE_32F, f32, bf16, f32) == good);
  CHECK(status(CUBLAS_COMPUTE_32F_FAST_TF32, f32, f32, f32) == good);
  CHECK(status(CUBLAS_COMPUTE_64F, f64, f64, f64) == good);
  CHECK(status(CUBLAS_COMPUTE_32F, f32, f32, bf16) == unsupported);
  CHECK(status(CUBLAS_COMPUTE_32F, f32, f64, f64) == unsupported);
  CHECK(status(CUBLAS_COMPUTE_32F, f64, f32, f32) == unsupported);
  CHECK(status(CUBLAS_COMPUTE_64F, f32, f64, f64) == unsupported);
  CHECK(status(CUBLAS_COMPUTE_64F, f64, f32, f32) == unsupported);
  CHECK(status(CUBLAS_COMPUTE_64F, f64, f64, f32) == unsupported);
  CHECK(status(CUBLAS_COMPUTE_32F_FAST_TF32, f32, bf16, bf16) == unsupported);
  Problem mixed;
  mixed.b.type = bf16;
  CHECK(bench.plan(mixed) == unsupported);
  mixed = {};
  mixed.c.type = bf16;
  CHECK(bench.plan(mixed) == unsupported);
}

TEST_CASE("emulation/cublas_lt: an epilogue has its types, and its vector and matrix") {
  Bench bench;
  Problem problem;
  problem.epilogue = CUBLASLT_EPILOGUE_BIAS;
  CHECK(bench.plan(problem) == invalid);
  problem.bias = bench.memory;
  CHECK(bench.plan(problem) == good);
  CHECK(bench.plan(problem.of(CUBLAS_COMPUTE_64F, CUDA_R_64F, CUDA_R_64F, CUDA_R_64F)) == unsupported);
  for (const std::uint32_t sums : {CUBLASLT_EPILOGUE_BGRADA, CUBLASLT_EPILOGUE_BGRADB}) {
    problem = {};
    problem.epilogue = sums;
    CHECK(bench.plan(problem) == invalid);
  }
  for (const auto& [epilogue, multiple] : {std::pair(CUBLASLT_EPILOGUE_GELU_AUX, 8), {CUBLASLT_EPILOGUE_DGELU, 8},
                                           {CUBLASLT_EPILOGUE_RELU_AUX, 128}, {CUBLASLT_EPILOGUE_DRELU, 128}}) {
    problem = {};
    problem.epilogue = epilogue;
    problem.ld_aux = multiple;
    CHECK(bench.plan(problem) == invalid);
    problem.aux = bench.memory;
    CHECK(bench.plan(problem) == good);
    problem.ld_aux = multiple / 2;
    CHECK(bench.plan(problem) == invalid);
    problem.ld_aux = multiple + multiple / 2;
    CHECK(bench.plan(problem) == invalid);
    problem.ld_aux = multiple;
    problem.a.rows = problem.c.rows = problem.d.rows = 200;
    problem.a.ld = problem.c.ld = problem.d.ld = 200;
    CHECK(bench.plan(problem) == invalid);  // shorter than D
  }
}

TEST_CASE("emulation/cublas_lt: bfloat16 lies on 16 bytes, everything on what was promised") {
  Bench bench;
  Problem problem;
  problem.of(CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_16BF, CUDA_R_32F);
  problem.b.ld = 12;
  CHECK(bench.plan(problem) == unsupported);
  problem.b.ld = 8;
  problem.alignment_a = 8;
  CHECK(bench.plan(problem) == unsupported);
  problem.alignment_a = 16;
  CHECK(bench.plan(problem) == good);
  CHECK(bench.multiply(16) == good);
  CHECK(bench.multiply(8) == invalid);
  CHECK(bench.multiply(16, 4096 + 128) == invalid);
  problem = {};
  problem.alignment_a = 2;
  CHECK(bench.plan(problem) == unsupported);
}

TEST_CASE("emulation/cublas_lt: an algorithm is that of the heuristic, for this problem, and has its workspace") {
  Bench bench;
  CHECK(bench.plan({}) == good);
  CHECK(bench.multiply() == good);
  CHECK(bench.multiply(0, 4096, 8192, 1023) == invalid);
  const cublasLtMatmulAlgo_t algorithm = bench.result.algo;
  bench.result.algo = {};
  CHECK(bench.multiply() == invalid);
  bench.result.algo = algorithm;
  bench.b->ld = 9;
  CHECK(bench.multiply() == invalid);
  bench.b->ld = 8;
  CHECK(bench.multiply() == good);
  void* const bias = bench.memory;
  const std::uint32_t epilogue = CUBLASLT_EPILOGUE_BIAS;
  cublasLtMatmulDescSetAttribute(bench.desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
  cublasLtMatmulDescSetAttribute(bench.desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
  CHECK(bench.multiply() == invalid);
  CHECK(cublasLtMatmulDescSetAttribute(bench.desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &bias, sizeof bias) == invalid);
  CHECK(cublasLtMatmulDescSetAttribute(bench.desc, CUBLASLT_MATMUL_DESC_EPILOGUE, nullptr, 4) == invalid);
  Problem without;
  without.workspace = 0;
  CHECK(bench.plan(without) == good);
  CHECK(bench.multiply(0, 4096, 8192, 0) == good);
  const cublasLtHandle_t handle = std::exchange(bench.handle, nullptr);
  CHECK(bench.plan({}) == CUBLAS_STATUS_NOT_INITIALIZED);
  CHECK(bench.multiply() == CUBLAS_STATUS_NOT_INITIALIZED);
  bench.handle = handle;
  device().present = false;
  cublasLtHandle_t other = nullptr;
  CHECK(cublasLtCreate(&other) == CUBLAS_STATUS_NOT_INITIALIZED);
  device().present = true;
}

TEST_CASE("emulation/cublas_lt: matrices are whole in device memory, and the result is no operand") {
  Bench bench;
  bench.plan({});
  const char* const outside = " of a product is not in device memory, or goes over its end";
  const auto fault = [&](std::size_t at_a, std::size_t at_b, std::size_t at_d) {
    try {
      bench.multiply(at_a, at_b, at_d);
    } catch (const emulation::Fault& one) {
      return std::string(one.what());
    }
    return std::string();
  };
  constexpr std::size_t end = 1 << 16;
  CHECK(fault(end - 128, 4096, 8192) == "");
  CHECK(fault(end, 4096, 8192) == std::string("A") + outside);
  Problem longer;
  longer.a.ld = 72;
  CHECK(bench.plan(longer) == good);
  CHECK(fault(end - 1024, 4096, 8192) == "");
  CHECK(fault(end - 768, 4096, 8192) == std::string("A") + outside);
  CHECK(fault(0, end - 256, 8192) == std::string("B") + outside);
  CHECK(fault(0, 4096, end - 256) == std::string("D") + outside);
  CHECK(fault(0, 4096, 768) == "a product overwrites its operand");
  CHECK(fault(0, 4096, 4096 + 256) == "a product overwrites its operand");

  Problem with_bias;
  std::vector<float> on_host(64);
  with_bias.epilogue = CUBLASLT_EPILOGUE_BIAS;
  with_bias.bias = on_host.data();
  CHECK(bench.plan(with_bias) == good);
  CHECK(fault(0, 4096, 8192) == std::string("the bias") + outside);
  with_bias.epilogue = CUBLASLT_EPILOGUE_GELU_AUX;
  with_bias.aux = on_host.data();
  with_bias.ld_aux = 8;
  CHECK(bench.plan(with_bias) == good);
  CHECK(fault(0, 4096, 8192) == std::string("the auxiliary matrix") + outside);
}

TEST_CASE("emulation/cublas_lt: a product that is in no table is told") {
  Bench bench;
  Problem problem;
  problem.of(CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_16BF, CUDA_R_16BF);
  problem.epilogue = CUBLASLT_EPILOGUE_GELU;
  problem.op_b = CUBLAS_OP_T;
  problem.b = {CUDA_R_16BF, 16, 4, 16};
  CHECK(bench.plan(problem) == good);
  CHECK_THROWS_WITH(bench.multiply(),
                    "nobody knows whether hardware takes this product; add it to proven_products.inc:\n"
                    "  {\"bf16 to bf16, NT, gelu\", not_yet},");
}

TEST_CASE("emulation/bfloat16: the nearest, and the even one of two") {
  const auto rounded = [](float value) { return static_cast<float>(__nv_bfloat16(value)); };
  CHECK(rounded(1 + 1.0f / 256) == 1);               // a tie, down to even
  CHECK(rounded(1 + 3.0f / 256) == 1 + 4.0f / 256);  // a tie, up to even
  CHECK(rounded(1 + 1.1f / 256) == 1 + 2.0f / 256);
  CHECK(rounded(-1 - 1.1f / 256) == -1 - 2.0f / 256);
  CHECK(rounded(std::numeric_limits<float>::max()) == std::numeric_limits<float>::infinity());
  CHECK(std::isnan(rounded(std::numeric_limits<float>::quiet_NaN())));
  CHECK(std::isnan(rounded(std::bit_cast<float>(0x7f800001u))));
  for (std::uint32_t bits = 0; bits < 0x7f80; ++bits) {  // all finite numbers stay
    const float value = std::bit_cast<float>(bits << 16);
    CHECK(rounded(value) == value);
  }
}

TEST_CASE("emulation/cublas_lt: a test has it refuse more, in each way that a card may") {
  using emulation::Refusing;
  using How = Refusing::How;
  Bench bench;
  const auto all = [](const std::string& name) { return name == "f32 to f32, NN, default"; };
  {
    const Refusing refusing(How::by_status, all);
    CHECK(bench.plan({}) == unsupported);
  }
  CHECK(bench.plan({}) == good);
  {
    const Refusing refusing(How::when_it_runs, all);
    CHECK(bench.plan({}) == good);
    CHECK(bench.multiply() == unsupported);
  }
  CHECK(bench.multiply() == good);
  {
    const Refusing refusing(How::by_status, [](const std::string& name) { return name.ends_with("relu"); });
    CHECK(bench.plan({}) == good);
    Problem problem;
    problem.epilogue = CUBLASLT_EPILOGUE_RELU;
    CHECK(bench.plan(problem) == unsupported);
  }
  const Refusing refusing(How::without_algorithm, all);
  CHECK(bench.ask({}) == good);
  CHECK(bench.found == 0);
}
