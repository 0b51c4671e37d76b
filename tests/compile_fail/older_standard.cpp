// SPDX-License-Identifier: MIT
// chapter: Compiler flags
// doc: A compiler that is told no standard, or an older one: g++ takes C++17 by itself.
// flags: -std=c++17
// expect: error: (#error )?"simplx: the library needs C\+\+20; compile with -std=c\+\+20"
#include <simplx/simplx.hpp>
