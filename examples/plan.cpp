// SPDX-License-Identifier: MIT
//
// What the models of the papers cost before they exist: parameters, arithmetic, memory, and for devices of your own how
// a model lies on them and the time below which no step falls.
//
//     plan                                                       a table of all presets
//     plan --preset gpt3_175b_pre_ln --devices 1024 --flops 9e14 --bandwidth 3.3e12 --memory 80e9
//     plan --json                                                one object a line
//
// A multiply-add counts 2. flops_per_token is a forward pass with dense scores, flops_per_token_causal one without the
// scores that the mask leaves out; backward takes twice as many.

#include "flags.hpp"
#include "plan/placement.hpp"

#include <simplx/report/progress.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace {

using namespace plan;

std::vector<Preset> all_presets() {
  std::vector<Preset> all;
  for (const auto family : {code_parrot_presets, crammed_bert_presets, languini_presets, norm_former_presets,
                            gpt3_presets}) {
    for (const Preset& preset : family()) all.push_back(preset);
  }
  return all;
}

void print_json(const Preset& preset, const std::optional<Placement>& placement) {
  nlohmann::ordered_json published;  // null
  if (preset.parameters_published) published = *preset.parameters_published;
  nlohmann::ordered_json line{{"name", preset.name},
                              {"parameters", preset.parameters},
                              {"parameters_published", published},
                              {"flops_per_token", preset.flops_per_token},
                              {"flops_per_token_causal", preset.flops_per_token_causal},
                              {"kept_bytes_per_token", preset.kept_bytes_per_token},
                              {"placement", nullptr}};
  if (placement) {
    line["placement"] = {{"data", placement->data},
                         {"tensor", placement->tensor},
                         {"pipeline", placement->pipeline},
                         {"micro_batch", placement->micro_batch},
                         {"tokens_per_step", placement->tokens},
                         {"seconds_per_step", placement->seconds},
                         {"bound", placement->bound_by_memory ? "memory" : "arithmetic"}};
  }
  fmt::print("{}\n", line.dump());
}

void print_row(const Preset& preset, const std::optional<Placement>& placement) {
  const auto published = [&] {
    return preset.parameters_published ? simplx::grouped(*preset.parameters_published) : std::string("-");
  };
  fmt::print("{:<28}{:>16}{:>16}{:>12.2f}{:>12.2f}{:>12}", preset.name, simplx::grouped(preset.parameters), published(),
             preset.flops_per_token * 1e-6, preset.flops_per_token_causal * 1e-6,
             simplx::readable_bytes(preset.kept_bytes_per_token));
  if (!placement) {
    fmt::print("  does not fit\n");
    return;
  }
  fmt::print("  {:>14}  {:>6}  {:>10}  {:>10}\n",  // of any length, with room between
             fmt::format("{} x {} x {}", placement->data, placement->tensor, placement->pipeline),
             placement->micro_batch, simplx::grouped(placement->tokens),
             fmt::format("{:.3g}{}", placement->seconds, placement->bound_by_memory ? " m" : "  "));
}

void print_head(const Devices& devices) {
  fmt::print("{} of {:.3g} FLOP/s, {}/s, {}; data x tensor x pipeline; s/step is a floor, m where memory sets it\n\n",
             devices.count == 1 ? "one device" : fmt::format("{} devices, each", devices.count), devices.flops,
             simplx::readable_bytes(devices.bandwidth), simplx::readable_bytes(devices.memory));
  fmt::print("{:<28}{:>16}{:>16}{:>12}{:>12}{:>12}{:>16}{:>8}{:>12}{:>12}\n", "preset", "parameters", "published",
             "MFLOP/token", "causal", "kept/token", "d x t x p", "micro", "tokens/step", "s/step  ");
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<Preset> presets = all_presets();
  std::vector<std::string> names, chosen;
  for (const Preset& preset : presets) names.push_back(preset.name);
  Devices devices;
  double tokens = 0;
  bool json = false;

  CLI::App app{"What the models of the papers cost before they exist."};
  app.add_option("--preset", chosen, "Only these")->check(CLI::IsMember(names));
  app.add_option("--flops", devices.flops, "Of a device, in a second")
      ->check(flags::from_to(1.0, 1e30))->capture_default_str();
  app.add_option("--bandwidth", devices.bandwidth, "Bytes that its memory delivers in a second")
      ->check(flags::from_to(1.0, 1e30))->capture_default_str();
  app.add_option("--memory", devices.memory, "Bytes of it")->check(flags::from_to(1.0, 1e30))->capture_default_str();
  app.add_option("--devices", devices.count, "How many")->check(flags::from_to(1, 1'000'000))->capture_default_str();
  app.add_option("--node", devices.node, "So many are close enough to share the matrices of a layer")
      ->check(flags::from_to(1, 1'000'000))->capture_default_str();
  app.add_option("--number-bytes", devices.bytes_per_number,
                 "Of an activation; a parameter takes 16 with its gradient and moments")
      ->check(CLI::IsMember({1, 2, 4, 8}))->capture_default_str();
  auto* step = app.add_option("--tokens", tokens, "Of a step [those of the model's recipe]")
                   ->check(flags::from_to(1.0, 1e15));
  app.add_flag("--json", json, "One object a line");
  return flags::run(app, argc, argv, [&] {
    if (!json) print_head(devices);
    for (const Preset& preset : presets) {
      if (!chosen.empty() && std::ranges::find(chosen, preset.name) == chosen.end()) continue;
      const double wanted = step->count() > 0 ? tokens : static_cast<double>(preset.tokens_per_step);
      const std::optional<Placement> placement = place(preset, devices, wanted);
      json ? print_json(preset, placement) : print_row(preset, placement);
    }
    return 0;
  });
}
