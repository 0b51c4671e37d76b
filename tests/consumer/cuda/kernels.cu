// SPDX-License-Identifier: MIT
// The one source that nvcc compiles: a sum on the GPU.
#include <simplx/cuda/products.cuh>
#include <simplx/cuda/reduce.cuh>

#include <vector>

double sum_on_gpu(const std::vector<float>& numbers) {
  const simplx::GpuStream stream;
  const simplx::Products products;  // none is asked for, but cuBLASLt must start
  simplx::DeviceBuffer<float> values(static_cast<simplx::Index>(numbers.size()));
  simplx::DeviceBuffer<double> total(1);
  std::vector<double> sum(1);
  values.copy_from(numbers, stream);
  simplx::sum(stream, values.data(), values.size(), total.data());
  total.copy_to(sum, stream);
  stream.synchronize();
  return sum[0];
}
