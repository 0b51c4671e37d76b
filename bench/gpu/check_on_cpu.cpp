// SPDX-License-Identifier: MIT
#include "check.hpp"

namespace bench {

template <auto const& model>
std::vector<double> exact_on_cpu() {
  return all_of(Evaluation<model, Cpu<double, Path::reference>>(rows<model>, 1, lengths<model>()));
}
template <auto const& model>
std::vector<double> losses_on_cpu() {
  return losses_of(Trainer<model>(options));
}

#define CHECKED(model)                               \
  template std::vector<double> exact_on_cpu<model>(); \
  template std::vector<double> losses_on_cpu<model>();
CHECKED(pre_ln_model)
CHECKED(parallel_model)
CHECKED(sas_model)
CHECKED(sas_p_model)
CHECKED(norm_free_model)
CHECKED(skip_init_model)
CHECKED(masked_pre_ln_model)
CHECKED(masked_sas_p_model)
CHECKED(wide_pre_ln_model)
CHECKED(wide_sas_p_model)
CHECKED(wide_tiled_model)

}  // namespace bench
