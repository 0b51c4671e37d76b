// SPDX-License-Identifier: MIT
//
// The picture of a block, drawn from its expression.
//
//     draw --block sas_p --out sas_p.svg      one block
//     draw --all docs/blocks                  every block of the library, a file each
//
// A first layer may be another than those that follow it; --layer chooses.

#include "flags.hpp"

#include <simplx/blocks/tokens.hpp>
#include <simplx/io/file.hpp>
#include <simplx/models/model_of.hpp>
#include <simplx/report/picture.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace {

using namespace simplx;
namespace fs = std::filesystem;

std::string picture_of(const NamedBlock& block, int layer) {
  return with_model_of(block, [&](const auto& model) {
    if (layer >= model.layers) {
      throw Error(fmt::format("--layer {} of a model with {} layers", layer, model.layers), "count them from 0");
    }
    return picture_of_layer(model, layer, block.name);
  });
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> names;
  for (const NamedBlock& block : all_blocks) names.push_back(block.name);
  std::string name = "sas_p";
  fs::path out, folder;
  int layer = 1;
  CLI::App app{"Draws a block from its expression, as an SVG."};
  auto* block = app.add_option("--block", name, "The block")->check(CLI::IsMember(names))->capture_default_str();
  app.add_option("--layer", layer, "Which layer, from 0")->check(flags::from_to(0, 999))->capture_default_str();
  auto* file = app.add_option("--out", out, "The file [NAME.svg]")->type_name("FILE");
  app.add_option("--all", folder, "Every block of the library, in this directory")
      ->type_name("DIR")->excludes(block)->excludes(file);
  return flags::run(app, argc, argv, [&] {
    if (!folder.empty()) {
      std::error_code error;
      fs::create_directories(folder, error);
      if (error)
        throw Error("cannot create the directory " + folder.string() + ": " + error.message(), "choose another");
    }
    for (const NamedBlock& block : all_blocks) {
      if (folder.empty() && name != block.name) continue;
      const std::string file = std::string(block.name) + ".svg";
      const fs::path path = !folder.empty() ? folder / file : out.empty() ? fs::path(file) : out;
      write_file(path, picture_of(block, layer));
      fmt::print("{}\n", path.string());
    }
    return 0;
  });
}
