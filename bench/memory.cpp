// SPDX-License-Identifier: MIT
//
// What training takes in memory, by part, and what a step asks the system for. A program for each configuration and
// block, since the model is a constant of the program:
//
//     memory-small-sas_p [--threads 2] [--json]
//
// Method: three steps, then ten that are counted: calls of operator new by any thread, and page faults of the process.
// "resident_mb" is the most that the process has had in RAM, libraries and the batch included; "least_mb" is what no
// trainer goes without: parameters, a gradient and two moments; "of_least" is its share of what was resident. A packed
// copy of a weight is what kernels read; the gradient has a second sum of what is used twice; an arena is a thread's.

#include "model.hpp"

#include <atomic>
#include <new>

namespace {
std::atomic<long> allocations{0};
void* counted(std::size_t size, std::size_t alignment) {
  ++allocations;
  if (void* memory = std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment)) return memory;
  throw std::bad_alloc();
}
}  // namespace
void* operator new(std::size_t size) { return counted(size, alignof(std::max_align_t)); }
void* operator new(std::size_t size, std::align_val_t to) { return counted(size, static_cast<std::size_t>(to)); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

int main(int count, char** arguments) {
  return bench::guarded([&] {
    using namespace simplx;
    using Trainer = simplx::Trainer<bench::model, bench::Backend>;
    const bench::Flags flags(count, arguments, {{"--threads", "2"}});
    const Index sequences = bench::config.batch;
    const double before = bench::peak_resident_bytes();
    const int threads = static_cast<int>(flags.number("--threads"));
    Trainer trainer{{.batch = sequences, .seed = 1, .threads = threads}};
    const TokenBatch batch = bench::random_batch(sequences, bench::context, bench::config.vocab);
    for (int i = 0; i < 3; ++i) trainer.step(batch, {});
    constexpr int counted_steps = 10;
    const long calls = allocations, faults = bench::page_faults();
    for (int i = 0; i < counted_steps; ++i) trainer.step(batch, {});
    const double calls_per_step = static_cast<double>(allocations - calls) / counted_steps;
    const double faults_per_step = static_cast<double>(bench::page_faults() - faults) / counted_steps;

    const auto megabytes = [](Index elements) { return 1e-6 * static_cast<double>(elements) * sizeof(float); };
    constexpr auto& layout = Trainer::G::layout;
    const double parameters = megabytes(layout.parameters);
    const double gradient = parameters + megabytes(layout.further_elements);
    const double packed = megabytes(layout.packed_elements), constants = megabytes(layout.constants);
    const double total = 1e-6 * static_cast<double>(trainer.bytes()), resident = 1e-6 * bench::peak_resident_bytes();
    bench::Rows(flags).add({{"config", bench::config_name},
                            {"block", bench::block_name},
                            {"threads", static_cast<double>(threads)},
                            {"resident_mb", resident},
                            {"before_mb", 1e-6 * before},
                            {"trainer_mb", total},
                            {"parameters_mb", parameters},
                            {"moments_mb", 2 * parameters},
                            {"gradient_mb", gradient},
                            {"packed_mb", packed},
                            {"constants_mb", constants},
                            {"arenas_mb", total - 3 * parameters - gradient - packed - constants},
                            {"least_mb", 4 * parameters},
                            {"of_least", 4 * parameters / resident},
                            {"allocations_per_step", calls_per_step},
                            {"page_faults_per_step", faults_per_step}});
  });
}
