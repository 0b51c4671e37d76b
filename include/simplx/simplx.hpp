// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/simplx.hpp
/// The whole library; it needs Eigen and C++20. The optional headers (io, report, cuda, and models/gpt2.hpp, which is
/// there for files) are included one by one.

#define SIMPLX_VERSION_MAJOR 0
#define SIMPLX_VERSION_MINOR 1
#define SIMPLX_VERSION_PATCH 0

#include <simplx/blocks/block.hpp>
#include <simplx/blocks/crammed_bert.hpp>
#include <simplx/blocks/norm_former.hpp>
#include <simplx/blocks/parallel.hpp>
#include <simplx/blocks/post_ln.hpp>
#include <simplx/blocks/pre_ln.hpp>
#include <simplx/blocks/sas.hpp>
#include <simplx/blocks/sas_p.hpp>
#include <simplx/blocks/shaped_reparam.hpp>
#include <simplx/blocks/tokens.hpp>
#include <simplx/blocks/v_skip_init.hpp>
#include <simplx/core/describe.hpp>
#include <simplx/core/named.hpp>
#include <simplx/core/parameters.hpp>
#include <simplx/differentiate/directional.hpp>
#include <simplx/differentiate/function.hpp>
#include <simplx/differentiate/gradcheck.hpp>
#include <simplx/differentiate/learner.hpp>
#include <simplx/differentiate/value_and_grad.hpp>
#include <simplx/differentiate/with_respect_to.hpp>
#include <simplx/generate/generate.hpp>
#include <simplx/generate/stream.hpp>
#include <simplx/generate/utf8.hpp>
#include <simplx/models/classifier.hpp>
#include <simplx/models/code_parrot.hpp>
#include <simplx/models/crammed_bert.hpp>
#include <simplx/models/decoder.hpp>
#include <simplx/models/encoder.hpp>
#include <simplx/models/gpt3.hpp>
#include <simplx/models/languini.hpp>
#include <simplx/models/model_of.hpp>
#include <simplx/models/norm_former.hpp>
#include <simplx/models/published.hpp>
#include <simplx/models/within.hpp>
#include <simplx/ops/activation.hpp>
#include <simplx/ops/batched_matmul.hpp>
#include <simplx/ops/custom.hpp>
#include <simplx/ops/dropout.hpp>
#include <simplx/ops/grad.hpp>
#include <simplx/ops/recompute.hpp>
#include <simplx/ops/repeat.hpp>
#include <simplx/ops/rotary.hpp>
#include <simplx/ops/rows.hpp>
#include <simplx/ops/sequences.hpp>
#include <simplx/ops/siamese.hpp>
#include <simplx/ops/softmax.hpp>
#include <simplx/ops/stop_gradient.hpp>
#include <simplx/train/average.hpp>
#include <simplx/train/batches.hpp>
#include <simplx/train/copy_parameters.hpp>
#include <simplx/train/evaluation.hpp>
#include <simplx/train/fairseq.hpp>
#include <simplx/train/hyper.hpp>
#include <simplx/train/masking.hpp>
#include <simplx/train/recipes.hpp>
#include <simplx/train/sample.hpp>
#include <simplx/train/sampler.hpp>
#include <simplx/train/schedule.hpp>
#include <simplx/train/sentences.hpp>
#include <simplx/train/sgd.hpp>
#include <simplx/train/ties.hpp>
#include <simplx/train/trainer.hpp>
