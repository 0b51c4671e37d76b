// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/simplx.hpp
/// The include line of the header tree, answered with the one header: programs compile against either.

#include "../simplx.hpp"
