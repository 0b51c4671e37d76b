// SPDX-License-Identifier: MIT
//
// Writes text with a model that train_lm has trained, token after token.
//
//     generate --run runs/first --prompt "def " --tokens 400 --temperature 0.8 --top-k 40 --top-p 0.95 --seed 1
//     generate --run runs/first --device cuda --precision bfloat16

#include "generate/writer.hpp"
#include "sampling_flags.hpp"
#include "token_text.hpp"

#include <simplx/io/checkpoint.hpp>
#include <simplx/io/json.hpp>
#include <simplx/io/tokenizer_file.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>

namespace {

using namespace generate_text;
using simplx::Error, simplx::Tokenizer;
namespace fs = std::filesystem;

struct Block {
  const char* name;
  std::unique_ptr<Writer> (*make)(Device device, std::uint64_t seed);
};
constexpr Block blocks[] = {
    {"pre_ln", make_writer<simplx::pre_ln>},
    {"parallel", make_writer<simplx::parallel>},
    {"v_skip_init_shaped", make_writer<simplx::v_skip_init_shaped>},
    {"sas", make_writer<simplx::sas>},
    {"sas_p", make_writer<simplx::sas_p>},
    {"sas_p_norm_free", make_writer<simplx::sas_p_norm_free>},
};

struct Options {
  fs::path run = "runs/train_lm", checkpoint;
  std::string prompt = "def ";
  long tokens = 400, samples = 1;
  simplx::Sampling sampling{.temperature = 0.8, .seed = 1};
  bool no_cache = false;
  Device device = Device::cpu;
};

nlohmann::json read_record(const fs::path& path) {
  std::ifstream file(path);
  if (!file) throw Error("cannot read " + path.string(), "name the directory of a run by --run; train_lm makes them");
  nlohmann::json record = simplx::parse_json(std::string(std::istreambuf_iterator<char>(file), {}));
  if (!record.is_object()) throw Error(path.string() + " is no JSON object", "was it written completely, by train_lm?");
  return record;
}

/// The model of a run; refuses one that this program was not compiled for, with all that differs.
std::unique_ptr<Writer> model_of(const nlohmann::json& record, const fs::path& path, Device device) {
  const auto shown = [&](const char* key) {
    return record.contains(key) ? record[key].dump() : std::string("missing");
  };
  const auto is_seed = [](const nlohmann::json& value) { return value.is_number_unsigned(); };
  const std::string name =
      record.contains("block") && record["block"].is_string() ? record["block"].get<std::string>() : "";
  const auto block = std::ranges::find_if(blocks, [&](const Block& b) { return b.name == name; });
  std::string faults;
  if (block == std::end(blocks)) {
    faults += "\n  block is " + shown("block") + "; this program has";
    for (const Block& b : blocks) faults += std::string(" ") + b.name;
  }
  if (!record.contains("seed") || !is_seed(record["seed"]))
    faults += "\n  seed is " + shown("seed") + ", it must be a whole number from 0";
  const bool known = block != std::end(blocks);
  auto writer = (known ? *block : blocks[0])
                    .make(device, record.contains("seed") && is_seed(record["seed"]) ? record["seed"].get<std::uint64_t>() : 0);
  const Sizes sizes = writer->sizes();  // the same for every block
  const auto compare = [&](const char* key, const nlohmann::json& mine) {
    if (!record.contains(key) || record[key] != mine)
      faults += fmt::format("\n  {} is {}, this program has {}", key, shown(key), mine.dump());
  };
  compare("vocab", sizes.vocab), compare("width", sizes.width), compare("heads", sizes.heads);
  compare("layers", sizes.layers), compare("context", sizes.context), compare("positions", sizes.positions);
  if (!faults.empty()) {
    const bool other_vocab = record.contains("vocab") && record["vocab"] != sizes.vocab;
    throw Error("the run of " + path.string() + " cannot be continued:" + faults,
                other_vocab ? "build generate by CMake with -DSIMPLX_VOCAB=" + shown("vocab")
                            : "was it made by another version? the sizes of the models are in "
                              "examples/generate/writer_of.hpp");
  }
  return writer;
}

/// What the tokens of a run are; bytes, where a version before tokenizers made it.
Tokenizer tokenizer_of(const nlohmann::json& record, const fs::path& run, const Sizes& model) {
  const nlohmann::json name = record.value("tokenizer", nlohmann::json("bytes"));
  if (name == "bytes") return {};
  if (name != "tokenizer.json") {
    throw Error("what the tokens of the run say is not known: the tokenizer in " + (run / "run.json").string() + " is " +
                    name.dump(),
                "train on text, or on what tools/prepare makes of it");
  }
  Tokenizer tokenizer = simplx::load_tokenizer(run / "tokenizer.json");
  if (tokenizer.size() <= model.vocab) return tokenizer;
  throw Error(fmt::format("{} has {} tokens, and the model knows {}", (run / "tokenizer.json").string(),
                          tokenizer.size(), model.vocab),
              "take the one that the run was trained with");
}

/// Hyper-parameters that the run was made with.
void set_constants(Writer& writer, const nlohmann::json& record) {
  if (!record.contains("hyper") || !record["hyper"].is_object()) return;
  for (const simplx::TensorInfo& constant : writer.tensors().constants) {
    const auto found = record["hyper"].find(constant.name);
    if (constant.rank == 0 && found != record["hyper"].end() && found->is_number()) {
      writer.constants()[static_cast<std::size_t>(constant.offset)] = found->get<float>();
    }
  }
}

fs::path weights_of(const Options& options) {
  const fs::path path = options.checkpoint.empty() ? options.run : options.checkpoint;
  const fs::path file = fs::is_directory(path) ? path / "model.safetensors" : path;
  if (!fs::exists(file)) {
    throw Error("there is no " + file.string(),
                "if the run is not finished, name one of its checkpoints: --checkpoint " +
                    (options.run / "checkpoints/step-...").string());
  }
  return file;
}

void generate(const Options& options) {
  const nlohmann::json record = read_record(options.run / "run.json");
  const auto writer = model_of(record, options.run / "run.json", options.device);
  simplx::load_checkpoint(weights_of(options), *writer);
  set_constants(*writer, record);

  if (options.prompt.empty()) throw Error("--prompt is empty", "begin with at least one byte, such as a newline");
  const Tokenizer tokenizer = tokenizer_of(record, options.run, writer->sizes());
  const std::vector<std::int32_t> prompt = tokenizer.encode(options.prompt);
  std::vector<simplx::Sampler> draws = flags::samplers(options.sampling, options.samples);
  token_text::Texts texts(tokenizer, draws.size());
  texts.begin(prompt);
  long written = 0;
  const auto begin = std::chrono::steady_clock::now();
  const auto emit = [&](simplx::Index text, std::int32_t token) {
    ++written;
    return !texts.ends(token) && texts.put(static_cast<std::size_t>(text), token);
  };
  const simplx::Index cache = writer->write(prompt, options.tokens, draws, !options.no_cache, emit);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  texts.end();
  fmt::print(stderr, "{} tokens in {:.3f} s: {:.0f} tokens/s on {}, {}\n", written, seconds,
             static_cast<double>(written) / seconds, devices::name_of(options.device),
             options.no_cache ? std::string("everything evaluated again for each")
                              : fmt::format("with a cache of {} KiB", cache / 1024));
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"Writes text with a model that train_lm has trained."};
  app.add_option("--run", options.run, "Directory of the run")->type_name("DIR")->capture_default_str();
  app.add_option("--checkpoint", options.checkpoint, "Weights, or the directory they are in [the run's final ones]")
      ->type_name("FILE");
  app.add_option("--prompt", options.prompt, "What the text begins with")->capture_default_str();
  app.add_option("--tokens", options.tokens,
                 "How many tokens are added, or fewer where the text ends; they are bytes unless the run has a tokenizer")
      ->check(flags::from_to(0L, 1000000000L))
      ->capture_default_str();
  flags::add_samples(app, options.samples);
  flags::add_sampling(app, options.sampling);
  app.add_flag("--no-cache", options.no_cache, "Evaluate the whole text again for each token");
  flags::DeviceFlags device(app, "Where to evaluate");
  return flags::run(app, argc, argv, [&] {
    options.device = device.device();
    generate(options);
    return 0;
  });
}
