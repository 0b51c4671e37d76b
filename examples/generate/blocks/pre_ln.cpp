// SPDX-License-Identifier: MIT
#include "../writer_of.hpp"

template std::unique_ptr<generate_text::Writer> generate_text::make_writer<simplx::pre_ln>(Device, std::uint64_t);
