// SPDX-License-Identifier: MIT
#pragma once

// All experiments on one page: the paper's words and numbers beside what was seen.

#include "results.hpp"

namespace paper {

std::string page_of(const Results& results, long steps);

}  // namespace paper
