// SPDX-License-Identifier: MIT
/// \file examples/gpt2.cpp
/// Writes text with GPT-2, from the files that Hugging Face has of it: config.json, model.safetensors, and
/// tokenizer.json or vocab.json and merges.txt. Nothing of them is converted: the model has their names and shapes.
///
///     gpt2 --model DIR --prompt "The transformer" --tokens 60
///
/// It was compiled for the sizes in `models` below; another one is a line there.

#include "sampling_flags.hpp"
#include "token_text.hpp"

#include <simplx/generate/generate.hpp>
#include <simplx/generate/stream.hpp>
#include <simplx/io/checkpoint.hpp>
#include <simplx/io/tokenizer_file.hpp>
#include <simplx/models/gpt2.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <thread>

using namespace simplx;
namespace fs = std::filesystem;

namespace {

struct Options {
  fs::path model;
  std::string prompt = "The transformer";
  long tokens = 60, samples = 1;
  Sampling sampling{.temperature = 0.8, .top_k = 40, .seed = 1};
  int threads = static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1u, 8u));  // more wait for memory
  bool bfloat16 = false, int8 = false;
};

inline constexpr Gpt2 distil{.layers = 6}, tiny{.width = 8, .heads = 2, .layers = 2};  // tiny: of programs' tests

template <auto const& model, Path path>
void write(const Options& options) {
  const fs::path json = options.model / "tokenizer.json", weights = options.model / "model.safetensors";
  if (!fs::exists(weights)) {
    throw Error("there is no " + weights.string(),
                "of other forms Hugging Face's transformers makes it: from_pretrained(DIR).save_pretrained(DIR)");
  }
  const Tokenizer tokenizer = fs::exists(json)
                                  ? load_tokenizer(json)
                                  : load_tokenizer(options.model / "vocab.json", options.model / "merges.txt");
  if (tokenizer.size() < model.vocab) {
    throw Error(fmt::format("the tokenizer in {} has {} tokens, and the model {}", options.model.string(),
                            tokenizer.size(), model.vocab),
                "take that of the model");
  }
  Inference<logits_of<model>, Cpu<float, path>> net({.initial_values = false});
  const bool has_prefix = SafetensorsFile::read(weights).find("transformer.wte.weight");
  // Masks, which are no parameters, and the head, which is the embedding.
  load_body(weights, net, {.unexpected = {"*.attn.bias", "*.attn.masked_bias", "lm_head.weight"},
                           .prefix = has_prefix ? "transformer." : ""});

  const std::vector<std::int32_t> prompt = tokenizer.encode(options.prompt);
  const Index longest = std::clamp<Index>(std::ssize(prompt) + options.tokens, 1, model.context);
  Stream stream(net, {.context = longest, .threads = options.threads, .sequences = options.samples});
  std::vector<Sampler> draws = flags::samplers(options.sampling, options.samples);
  token_text::Texts texts(tokenizer, draws.size());
  texts.begin(prompt);
  long written = 0;
  const auto begin = std::chrono::steady_clock::now();
  generate(stream, copies_of(prompt, options.samples), options.tokens, draws, [&](Index text, std::int32_t token) {
    ++written;
    return !texts.ends(token) && texts.put(static_cast<std::size_t>(text), token);
  });
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  texts.end();
  fmt::print(stderr, "{} tokens in {:.3f} s: {:.1f} tokens/s\n", written, seconds,
             static_cast<double>(written) / seconds);
}

struct Size {
  const char* name;
  const Gpt2& model;
  void (*write)(const Options&);
  void (*write_bfloat16)(const Options&);
  void (*write_int8)(const Options&);
};
template <auto const& model>
constexpr Size size_of(const char* name) {
  return {name, model, write<model, Path::fast>, write<model, Path::bfloat16>, write<model, Path::int8>};
}
constexpr Size models[] = {size_of<tiny>("tiny"), size_of<distil>("distilgpt2"), size_of<presets::gpt2>("gpt2")};

/// Refuses a config.json that has the sizes of GPT-2 and says another function; what it does not say is as in GPT-2.
void check_function(const nlohmann::json& config, const fs::path& path) {
  using Values = std::vector<nlohmann::json>;
  const std::pair<const char*, Values> function[] = {{"model_type", {"gpt2"}},
                                                     {"activation_function", {"gelu_new", "gelu_pytorch_tanh"}},
                                                     {"layer_norm_epsilon", {1e-5}},
                                                     {"scale_attn_weights", {true}},
                                                     {"scale_attn_by_inverse_layer_idx", {false}},
                                                     {"add_cross_attention", {false}},
                                                     {"tie_word_embeddings", {true}}};
  for (const auto& [key, values] : function) {
    if (!config.contains(key) || std::ranges::count(values, config[key])) continue;
    throw Error(fmt::format("{} is of another model: its {} is {}", path.string(), key,
                            config[key].dump(-1, ' ', true).substr(0, 100)),
                fmt::format("this program computes GPT-2, whose {} is {}", key, values[0].dump()));
  }
}

/// The model of config.json.
const Size& model_of(const fs::path& path) {
  const nlohmann::json config = parse_json(MappedFile(path).text());
  if (!config.is_object()) throw Error(path.string() + " is no JSON object", "was it loaded completely?");
  check_function(config, path);
  std::string shown, known;
  const auto number = [&](const char* key) -> Index {
    const bool there = config.contains(key) && config[key].is_number_integer();
    shown += fmt::format(" {} {}", key, there ? config[key].dump() : "missing");
    return there ? config[key].get<Index>() : -1;
  };
  const Index vocab = number("vocab_size"), width = number("n_embd"), heads = number("n_head"),
              layers = number("n_layer"), context = number("n_positions");
  for (const Size& size : models) {
    const Gpt2& m = size.model;
    known += fmt::format(" {}", size.name);
    if (vocab == m.vocab && width == m.width && heads == m.heads && layers == m.layers && context == m.context) {
      return size;
    }
  }
  throw Error(path.string() + " is of another model:" + shown,
              "this program was compiled for" + known + "; add a line to `models` in examples/gpt2.cpp");
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"Writes text with GPT-2, from Hugging Face's files of it."};
  app.add_option("--model", options.model, "Directory of config.json, model.safetensors and the tokenizer")
      ->type_name("DIR")->required();
  app.add_option("--prompt", options.prompt, "What the text begins with")->capture_default_str();
  app.add_option("--tokens", options.tokens, "How many tokens are added; fewer where the text ends")
      ->check(flags::from_to(0L, 1000000000L))
      ->capture_default_str();
  flags::add_samples(app, options.samples);
  flags::add_sampling(app, options.sampling);
  app.add_option("--threads", options.threads, "The text does not depend on them")
      ->check(flags::from_to(1, 1024))
      ->capture_default_str();
  CLI::Option* bfloat16 = app.add_flag("--bfloat16", options.bfloat16,
                                       "Round the operands of products: faster where the CPU multiplies such");
  app.add_flag("--int8", options.int8, "Round the weights of products to bytes: a third of the time of a token")
      ->excludes(bfloat16);
  return flags::run(app, argc, argv, [&] {
    const Size& size = model_of(options.model / "config.json");
    (options.int8 ? size.write_int8 : options.bfloat16 ? size.write_bfloat16 : size.write)(options);
    return 0;
  });
}
