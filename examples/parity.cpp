// SPDX-License-Identifier: MIT
//
// Evaluates one model in double, forward and backward, so that anyone can hold it against another framework.
//
//     parity --list                                              names of the blocks
//     parity --block sas_p --keys                                tensors that the weights must hold, with shapes
//     parity --block sas_p --weights in.safetensors --out out.safetensors
//
// in    all weights under their keys (F64), tokens and targets (I32, (B, T)); a target of -100 carries no loss
// out   logits (B, T, V), loss (), grad.<key> for every parameter

#include "flags.hpp"
#include "parity/models.hpp"

#include <simplx/blocks/tokens.hpp>
#include <simplx/io/checkpoint.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

using namespace simplx;
namespace fs = std::filesystem;

namespace {


parity::Model find_model(const std::string& name) {
  return []<int... part>(std::string_view wanted, std::integer_sequence<int, part...>) {
    parity::Model found;
    const auto look = [&](const std::vector<parity::Model>& models) {
      for (const parity::Model& model : models) {
        if (all_blocks[model.number].name == wanted) found = model;
      }
    };
    (look(parity::models_of_part<part>()), ...);
    return found;
  }(name, std::make_integer_sequence<int, PARITY_PARTS>{});
}

std::string spelt(const std::vector<Index>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

std::vector<std::int32_t> integers(const Tensor& tensor) {
  std::vector<std::int32_t> values(static_cast<std::size_t>(tensor.elements()));
  read_values(tensor.dtype, tensor.bytes, std::span(values));
  return values;
}

/// What is wrong with the tokens and targets, one complaint a line.
std::vector<std::string> faults_of_text(const SafetensorsFile& file) {
  std::vector<std::string> faults;
  const Tensor *tokens = file.find("tokens"), *targets = file.find("targets");
  const auto usable = [&](const char* name, const Tensor* tensor) {
    if (!tensor) {
      faults.push_back(fmt::format("missing: {} I32 [B, T]", name));
    } else if (tensor->dtype != Dtype::i32) {
      faults.push_back(fmt::format("mis-typed: {} is {}, not I32", name, name_of(tensor->dtype)));
    } else if (tensor->shape.size() != 2 || tensor->elements() == 0 || tensor->shape[1] > PARITY_CONTEXT) {
      faults.push_back(fmt::format("mis-shaped: {} is {}, not [B, T] with T from 1 to {}", name, spelt(tensor->shape),
                                   PARITY_CONTEXT));
    } else {
      return true;
    }
    return false;
  };
  const bool has_tokens = usable("tokens", tokens), has_targets = usable("targets", targets);
  if (has_tokens && has_targets && tokens->shape != targets->shape) {
    faults.push_back(
        fmt::format("mis-shaped: targets is {}, but tokens is {}", spelt(targets->shape), spelt(tokens->shape)));
  }
  const auto outside = [&](const char* name, const std::vector<std::int32_t>& values, std::int32_t besides) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      if ((values[i] >= 0 && values[i] < PARITY_VOCAB) || values[i] == besides) continue;
      faults.push_back(fmt::format("out of range: {} holds {} at place {}, not one of 0 to {}{}", name, values[i], i,
                                   PARITY_VOCAB - 1, besides < 0 ? fmt::format(" or {}", besides) : ""));
      return;  // one tells enough
    }
  };
  if (has_tokens) outside("tokens", integers(*tokens), 0);
  if (has_targets) outside("targets", integers(*targets), ignored_label);
  if (has_targets && std::ranges::count(integers(*targets), ignored_label) == targets->elements()) {
    faults.push_back(fmt::format("no label: every one of targets is {}, so that there is no loss", ignored_label));
  }
  return faults;
}

/// Refuses a file unless it holds exactly what the model needs; names everything that is wrong.
void check(const fs::path& path, const SafetensorsFile& file, const std::string& block,
           const std::vector<TensorInfo>& weights) {
  std::vector<std::string> faults;
  std::set<std::string> known{"tokens", "targets"};
  for (const TensorInfo& weight : weights) {
    known.insert(weight.name);
    const std::vector<Index> shape = checkpoint_shape(weight);
    const Tensor* found = file.find(weight.name);
    if (!found) {
      faults.push_back(fmt::format("missing: {} F64 {}", weight.name, spelt(shape)));
      continue;
    }
    if (found->dtype != Dtype::f64) {
      faults.push_back(fmt::format("mis-typed: {} is {}, not F64", weight.name, name_of(found->dtype)));
    }
    if (found->shape != shape) {
      faults.push_back(fmt::format("mis-shaped: {} is {}, not {}", weight.name, spelt(found->shape), spelt(shape)));
    }
  }
  for (const Tensor& tensor : file.tensors()) {
    if (known.contains(tensor.name)) continue;
    faults.push_back(fmt::format("extra: {}, which the model does not have", tensor.name));
  }
  std::ranges::move(faults_of_text(file), std::back_inserter(faults));
  if (faults.empty()) return;
  throw Error(fmt::format("{} does not fit {}:\n  {}", path.string(), block, fmt::join(faults, "\n  ")),
              fmt::format("parity --block {} --keys prints what it must hold beside tokens and targets", block));
}

void write(const fs::path& path, const parity::Results& results, const std::vector<Index>& tokens) {
  const auto tensor = [](const std::string& name, const std::vector<Index>& shape, std::span<const double> values) {
    return Tensor{name, Dtype::f64, shape, std::as_bytes(values)};
  };
  std::vector<Tensor> tensors{tensor("logits", {tokens[0], tokens[1], PARITY_VOCAB}, results.logits),
                              tensor("loss", {}, {&results.loss, 1})};
  for (const parity::Gradient& gradient : results.gradients) {
    tensors.push_back(tensor("grad." + gradient.parameter.name, checkpoint_shape(gradient.parameter), gradient.values));
  }
  write_safetensors(path, tensors);
}

}  // namespace

int main(int argc, char** argv) {
  std::string block;
  fs::path weights, out;
  bool list = false, keys = false;
  std::vector<std::string> names;
  for (const NamedBlock& known : all_blocks) names.push_back(known.name);

  CLI::App app{"Evaluates a small language model in double: logits, loss and all gradients, from weights in a file."};
  auto* listing = app.add_flag("--list", list, "Print the names of the blocks");
  auto* block_given = app.add_option("--block", block, "The transformer block")->check(CLI::IsMember(names));
  auto* showing = app.add_flag("--keys", keys, "Print names and shapes of the tensors that the weights must hold");
  auto* in = app.add_option("--weights", weights, "safetensors file of the weights, tokens and targets")
                 ->type_name("IN");
  auto* to = app.add_option("--out", out, "safetensors file to write: logits, loss, gradients")->type_name("OUT");
  listing->excludes(block_given)->excludes(showing)->excludes(in)->excludes(to);
  showing->excludes(in)->excludes(to);
  return flags::run(app, argc, argv, [&] {
    if (list) {
      fmt::print("{}\n", fmt::join(names, "\n"));
      return 0;
    }
    if (block.empty()) throw CLI::RequiredError("--block");
    const parity::Model model = find_model(block);
    const std::vector<TensorInfo> tensors = model.weights();
    if (keys) {
      for (const TensorInfo& tensor : tensors) fmt::print("{} {}\n", tensor.name, spelt(checkpoint_shape(tensor)));
      return 0;
    }
    if (weights.empty()) throw CLI::RequiredError("--weights");
    if (out.empty()) throw CLI::RequiredError("--out");
    const SafetensorsFile file = SafetensorsFile::read(weights);
    check(weights, file, block, tensors);
    write(out, model.evaluate(file), file.find("tokens")->shape);
    return 0;
  });
}
