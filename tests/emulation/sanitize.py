#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""sanitize.py faults|kernels COMPILER: the executor with the sanitizers, which take its fibers for threads.

  faults    each fault of faults.hpp is found by what must find it, and a kernel without a fault is left alone
  kernels   the tests of kernels in tests/cuda under ThreadSanitizer (no thread reads what another writes without a
            barrier between) and under AddressSanitizer (every access is within bounds). Not those that have no kernel
            of their own, or break another test's on purpose; with SIMPLX_EVERY_CHECK alone those that run whole graphs,
            which take minutes to compile, and under AddressSanitizer those of many blocks, half of its time.

Exit code 77: the compiler or its sanitizers are missing.
"""
import concurrent.futures
import glob
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.dirname(HERE)
sys.path.insert(0, TESTS)
from batches import batches  # noqa: E402

FLAGS = ["-std=c++20", "-O0", "-g1", "-Wall", "-Wextra", "-Werror",
         "-Wno-unused-command-line-argument", "-isystem", "/usr/include/eigen3",
         "-I", os.path.join(os.path.dirname(TESTS), "include"), "-I", TESTS]
SANITIZERS = {"thread": ["-fsanitize=thread"],
              "address": ["-fsanitize=address,undefined", "-fno-sanitize-recover=all",
                          "-fsanitize-address-outline-instrumentation"]}  # by calls: quick to compile

RACE, RIGHT = "ThreadSanitizer: data race", "error "
# fault: what the program must say under each sanitizer; where only another one can know, nothing is asked.
EXPECTED = {
    "nothing": {"thread": RIGHT, "address": RIGHT},
    "no_barrier_before_reading": {"thread": RACE},
    "no_barrier_after_reading": {"thread": RACE},
    "no_atomics": {"thread": RACE},
    "shared_index": {"address": "index 3 out of bounds for type 'float[3]'"},
    "global_index": {"address": "heap-buffer-overflow"},
    "early_return": {"thread": "thread 40: returned", "address": "thread 40: returned"},
    "early_return_of_a_warp": {"thread": "without reaching", "address": "without reaching"},
    "divergent_barriers": {"thread": "different barriers", "address": "different barriers"},
    "mask_without_the_caller": {"thread": "leaves out the lane", "address": "leaves out the lane"},
    "mask_of_half_a_warp": {"thread": "at different places", "address": "at different places"},
}
WITHOUT_KERNELS = {"attention_barriers", "cuda", "evaluation", "finished_product", "gpu", "graph_on", "inference",
                   "labelled_rows", "memory", "mirrored", "models", "ops", "products", "recorded", "stream", "streamed",
                   "trainer"}
WHOLE_GRAPHS = {"between_products", "bfloat16", "bfloat16_values", "columns", "dropout", "function", "learner", "map",
                "matrices", "maximum", "rows", "sequences", "sliced_products", "softmax"}
REPORTS = ("WARNING: ", "ERROR: ", "runtime error: ")


def build(compiler, sanitizer, sources, program, *flags):
    command = [compiler, *FLAGS, *SANITIZERS[sanitizer], *sources, *flags, "-o", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                          env={**os.environ, "TSAN_OPTIONS": "halt_on_error=0", "ASAN_OPTIONS": "detect_leaks=1"})
    return done.returncode, done.stdout


def faults(compiler, folder):
    good = True
    for sanitizer in SANITIZERS:
        program = os.path.join(folder, sanitizer)
        build(compiler, sanitizer, [os.path.join(HERE, "faults.cpp")], program)
        for fault, expected in EXPECTED.items():
            if sanitizer not in expected:
                continue
            status, output = run(program, fault)
            holds = expected[sanitizer] in output and (status == 0) == (fault == "nothing")
            if expected[sanitizer] != RACE:
                holds = holds and RACE not in output  # unwinding what has failed is no race
            if fault == "nothing":
                holds = holds and not any(report in output for report in REPORTS)
            good = good and holds
            print(f"{'ok    ' if holds else 'FAILED'} {sanitizer}: {fault}: {expected[sanitizer]}")
            if not holds:
                print(output)
    return good


def kernels(compiler, folder):
    main_file = os.path.join(folder, "main.cpp")
    with open(main_file, "w", encoding="utf-8") as file:  # that of the tests has a new of its own, as the sanitizer has
        file.write("#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN\n#include <doctest/doctest.h>\n#include <allocations.hpp>\n"
                   "std::atomic<bool> test::counting_allocations{false};\n"
                   "std::atomic<long> test::allocations{0};  // which stay uncounted here\n")
    left_out = WITHOUT_KERNELS | (set() if os.environ.get("SIMPLX_EVERY_CHECK") else WHOLE_GRAPHS)
    tests = sorted(test for test in glob.glob(os.path.join(TESTS, "cuda", "*_test.cpp"))
                   if os.path.basename(test)[:-len("_test.cpp")] not in left_out)
    sources = [main_file, *batches(folder, 4, tests)]
    jobs = [(sanitizer, source, os.path.join(folder, f"{sanitizer}-{os.path.basename(source)}.o"))
            for sanitizer in SANITIZERS for source in sources]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda job: build(compiler, job[0], [job[1]], job[2], "-c"), jobs))
    good = True
    for sanitizer in SANITIZERS:
        program = os.path.join(folder, sanitizer)
        build(compiler, sanitizer, [output for which, _, output in jobs if which == sanitizer], program)
        # Each thread of a block is one to ThreadSanitizer: too many, of 65535 blocks seven minutes.
        few = sanitizer == "thread" or not os.environ.get("SIMPLX_EVERY_CHECK")
        status, output = run(program, *["--test-case-exclude=many *"] * few)
        print(output)
        good = good and status == 0 and not any(report in output for report in REPORTS)
    return good


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in ("faults", "kernels"):
        sys.exit(__doc__)
    job, compiler = {"faults": faults, "kernels": kernels}[sys.argv[1]], sys.argv[2]
    with tempfile.TemporaryDirectory() as folder:
        for flags in SANITIZERS.values():
            trial = [compiler, *flags, "-x", "c++", "-", "-o", os.path.join(folder, "trial")]
            if not shutil.which(compiler) or subprocess.run(trial, input="int main() {}", text=True, check=False,
                                                            capture_output=True).returncode:
                print(f"skipped: {compiler} or its sanitizers are missing\n"
                      "  hint: apt-get install clang libclang-rt-dev")
                sys.exit(77)
        sys.exit(0 if job(compiler, folder) else 1)


if __name__ == "__main__":
    main()
