// SPDX-License-Identifier: MIT
#pragma once

// What the programs share: numbers that a flag takes, and how they say what is wrong.

#include "device.hpp"

#include <simplx/train/glob.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <charconv>
#include <concepts>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <limits>
#include <map>
#include <string>
#include <vector>

namespace flags {

/// A number from `least` to `most`. CLI::Range writes 1e30 in 31 digits and 1e-12 as zero, and finds "nan" in every
/// range; without a check CLI11 takes a number that is too large for the largest there is.
template <class Number>
CLI::Validator from_to(Number least, Number most) {
  const std::string range = fmt::format("from {} to {}", least, most);
  const auto fault = [=](const std::string& text) {
    Number number{};
    const char* const end = text.data() + text.size();
    const auto read = std::from_chars(text.data(), end, number);
    if (read.ec == std::errc() && read.ptr == end && number >= least && number <= most) return std::string();
    return fmt::format("{} is not a {} {}", text, std::integral<Number> ? "whole number" : "number", range);
  };
  return {fault, range};
}

inline CLI::Validator seed() { return from_to<std::uint64_t>(0, std::numeric_limits<std::uint64_t>::max()); }

/// --device and --precision of a program that says with them what it does there.
class DeviceFlags {
 public:
  DeviceFlags(CLI::App& app, const std::string& what) {
    app.add_option("--device", device_, what + ": cpu, or cuda in a build with -DSIMPLX_CUDA=ON")
        ->check(CLI::IsMember({"cpu", "cuda"}))
        ->capture_default_str();
    precision_given_ =
        app.add_option("--precision", precision_,
                       "Of products on a GPU: tf32 and bfloat16 run on tensor cores, in bfloat16 attention does, too")
            ->check(CLI::IsMember(gpus_))
            ->capture_default_str();
  }

  /// What they say, once they are read.
  ///
  /// Errors  throws Error for a precision without a GPU
  devices::Device device() const {
    if (device_ == "cuda") return gpus_.at(precision_);
    if (precision_given_->count() == 0) return devices::Device::cpu;
    throw simplx::Error("--precision " + precision_ + " is a GPU's, and --device is cpu",
                        "give --device cuda, or leave --precision out");
  }

 private:
  std::string device_ = "cpu", precision_ = "float32";
  const CLI::Option* precision_given_ = nullptr;
  const std::map<std::string, devices::Device> gpus_{{"float32", devices::Device::cuda_float32},
                                                     {"tf32", devices::Device::cuda_tf32},
                                                     {"bfloat16", devices::Device::cuda_bfloat16}};
};

namespace detail {

inline int failed(const std::string& what, const std::string& hint) {
  fmt::print(stderr, "error: {}\n  hint: {}\n", what, hint);
  return 1;
}

/// The first argument that no flag takes, and the flag that it may have been meant to be.
inline int failed_by_unknown(const CLI::App& app) {
  const std::string given = app.remaining(true).front(), name = given.substr(0, given.find('='));
  std::vector<std::string> names;
  const auto add = [&](const CLI::App& of) {
    for (const CLI::Option* option : of.get_options()) {
      for (const std::string& long_name : option->get_lnames()) names.push_back("--" + long_name);
    }
  };
  add(app);
  for (const CLI::App* command : app.get_subcommands()) add(*command);
  const std::string nearest = simplx::nearest_names(name, names, 1), all = "--help lists them all";
  const bool is_flag = name.starts_with("--");
  return failed("there is no argument " + name, is_flag ? "the nearest flag is " + nearest + "; " + all : all);
}

}  // namespace detail

/// A main program with flags: reads them, then its status is that of `body`, or 1 for what either throws. A file that
/// grows beyond the shell's limit (ulimit -f) fails as on a full disk, and kills nothing.
template <class Body>
int run(CLI::App& app, int argc, char** argv, const Body& body) {
#ifdef SIGXFSZ
  std::signal(SIGXFSZ, SIG_IGN);
#endif
  try {
    app.parse(argc, argv);
    const int status = body();
    if (std::fflush(stdout) != 0 || std::ferror(stdout)) {
      return detail::failed("cannot write all of the output", "is the disk full, or the reader gone?");
    }
    return status;
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    // A flag that is missing may be there, misspelt.
    if (app.remaining_size(true) > 0) return detail::failed_by_unknown(app);
    return detail::failed(error.what(), "--help lists the flags and their values");
  } catch (const std::exception& error) {
    fmt::print(stderr, "\nerror: {}\n", error.what());  // a line of progress may be open
    return 1;
  }
}

}  // namespace flags
