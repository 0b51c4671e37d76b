// SPDX-License-Identifier: MIT
#pragma once

#include <simplx/core/walk.hpp>

namespace test {

/// Builds at run time what a model builds in constant evaluation, and frees it.
struct Built {
  simplx::Expr root;
  ~Built() { simplx::detail::release(root.node); }
};

}  // namespace test
