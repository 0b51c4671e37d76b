// SPDX-License-Identifier: MIT
// Reaches the headers of simplx::io and simplx::report: a file written and read again, a table of its size.
#include <simplx/io/safetensors.hpp>
#include <simplx/report/progress.hpp>

#include <cstdio>
#include <span>

int main() {
  const float written[] = {1, 2, 3};
  const simplx::Tensor tensor{"three", simplx::Dtype::f32, {3}, std::as_bytes(std::span(written))};
  simplx::write_safetensors("three.safetensors", {&tensor, 1});
  const auto file = simplx::SafetensorsFile::read("three.safetensors");
  const simplx::Tensor* three = file.find("three");
  std::printf("%s", simplx::table({{"tensor", three ? three->name : "none"}}).c_str());
  return three && three->shape == std::vector<simplx::Index>{3} ? 0 : 1;
}
