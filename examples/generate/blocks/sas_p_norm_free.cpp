// SPDX-License-Identifier: MIT
#include "../writer_of.hpp"

template std::unique_ptr<generate_text::Writer> generate_text::make_writer<simplx::sas_p_norm_free>(Device, std::uint64_t);
