// SPDX-License-Identifier: MIT
//
// docs/blocks.md and docs/blocks/*.svg: the main blocks, each as its equation and as it is drawn from its expression.
// SIMPLX_WRITE_DOCS=1 writes them anew.
#include <simplx/report/picture.hpp>

#include <simplx/blocks/tokens.hpp>
#include <simplx/core/counts.hpp>
#include <simplx/models/decoder.hpp>
#include <simplx/models/encoder.hpp>
#include <simplx/report/progress.hpp>

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

using namespace simplx;

TEST_SUITE_BEGIN("report/blocks_document");

namespace {

template <auto const& block>
inline constexpr Decoder decoder{.block = block};
template <auto const& block>
inline constexpr Encoder encoder{.block = block};

template <auto const& model>
std::string picture(const char* title) {
  return picture_of_layer(model, 1, title);
}

/// What the page says of a block.
struct Shown {
  const char* name;
  const char* title;
  const char* says;
  const char* equation;
  Index parameters;
  std::string (*picture)(const char* title);
};
template <auto const& model>
constexpr Shown shown(const char* name, const char* title, const char* says, const char* equation) {
  return {name, title, says, equation, parameters<model>, picture<model>};
}

const Shown first_paper[] = {
    shown<decoder<pre_ln>>("pre_ln", "Pre-LN", "Eq. (1) with all four gains one: two norms, two skips.",
                           "X_out = X' + MLP(Norm2(X')),   X' = X + MHA(Norm1(X))"),
    shown<decoder<parallel>>("parallel", "Parallel", "Eq. (7): one norm and one skip for both branches.",
                             "X_out = X + MHA(N) + MLP(N),   N = Norm(X)"),
    shown<decoder<v_skip_init_shaped>>(
        "v_skip_init_shaped", "V-SkipInit, shaped",
        "Without the attention skip; the matrix of Eq. (5) is the identity at first, and V and P are orthogonal.",
        "X_out = alpha_FF X' + beta_FF MLP(Norm2(X')),   X' = beta_SA ShapedAttention(Norm1(X))"),
    shown<decoder<sas>>("sas", "SAS",
                        "Fig. 10: without values (but for the first layer's) and projections as well.",
                        "X_out = alpha_FF X' + beta_FF MLP(Norm2(X')),   X' = beta_SA ShapedAttention(Norm1(X))"),
    shown<decoder<sas_p>>("sas_p", "SAS-P", "Fig. 11: both branches in parallel, no skip at all.",
                          "X_out = beta_SA ShapedAttention(N) + beta_FF MLP(N),   N = Norm(X)"),
    shown<decoder<sas_p_norm_free>>("sas_p_norm_free", "SAS-P without norms", "What remains.",
                                    "X_out = beta_SA ShapedAttention(X) + beta_FF MLP(X)"),
    shown<encoder<bert_sas_p>>(
        "bert_sas_p", "SAS-P in an encoder",
        "App. D.2: LayerNorm, a gated MLP with GELU, and attention over the whole sequence.",
        "X_out = beta_SA ShapedAttention(N) + beta_FF MLP(N),   N = Norm(X),   MLP(x) = (v o gelu(g)) W2,   [v g] = x W1"),
};
const Shown second_paper[] = {
    shown<decoder<post_ln>>("post_ln", "Post-LN", "A norm after each sum; no further norm follows the last block.",
                            "X_out = Norm2(X' + MLP(X')),   X' = Norm1(X + MHA(X))"),
    shown<decoder<norm_former>>(
        "norm_former", "NormFormer",
        "Sec. 2.1: eta scales each head, and both branches have a norm inside; `pre_ln_biased` is what it adds to.",
        "X_out = X' + Norm(gelu(Norm2(X') W1 + b1)) W2 + b2,   X' = X + Norm(HeadScaleMHA(Norm1(X)))"),
    shown<decoder<norm_former_resscale>>(
        "norm_former_resscale", "NormFormer with ResScale", "Sec. 2.2: and lambda scales the columns of the MLP's skip.",
        "X_out = lambda o X' + Norm(gelu(Norm2(X') W1 + b1)) W2 + b2,   X' = X + Norm(HeadScaleMHA(Norm1(X)))"),
};

template <class F>
void each_shown(F f) {
  for (const Shown& block : first_paper) f(block);
  for (const Shown& block : second_paper) f(block);
}

std::string section(const Shown& block) {
  return "\n### " + std::string(block.title) + "\n\n`" + block.name + "`, " + grouped(block.parameters) +
         " parameters in all. " + block.says + "\n\n    " + block.equation + "\n\n![" + block.title + "](blocks/" +
         block.name + ".svg)\n";
}

std::string page() {
  std::string text =
      "# Blocks, as they are drawn from their expressions\n\n"
      "Written by `SIMPLX_WRITE_DOCS=1 simplx_tests -ts=report/blocks_document`; do not edit. Each picture shows a "
      "later layer\nof a byte model of width 128, 4 heads, 6 layers; nothing in it comes from the block's name: "
      "`examples/draw` and\n`picture_of_layer(model, layer)` draw blocks of your own as well. All tokens: "
      "[tokens.hpp](../include/simplx/blocks/tokens.hpp).\n";
  text += "\n## Simplifying Transformer Blocks (He & Hofmann 2024)\n";
  for (const Shown& block : first_paper) text += section(block);
  text += "\n## NormFormer (Shleifer et al. 2021)\n";
  for (const Shown& block : second_paper) text += section(block);
  return text;
}

const std::filesystem::path docs = std::filesystem::path(SIMPLX_GOLDEN_DIR).parent_path().parent_path() / "docs";

/// Writes a document if it is asked for, and returns what is there.
std::string document(const std::filesystem::path& path, const std::string& text) {
  if (std::getenv("SIMPLX_WRITE_DOCS")) std::ofstream(path, std::ios::binary) << text;
  std::ostringstream there;
  there << std::ifstream(path, std::ios::binary).rdbuf();
  return there.str();
}

}  // namespace

TEST_CASE("docs/blocks.md says what the library counts and draws") {
  CHECK(document(docs / "blocks.md", page()) == page());
  each_shown([](const Shown& block) {
    const std::string picture = block.picture(block.title);
    CHECK(document(docs / "blocks" / (std::string(block.name) + ".svg"), picture) == picture);
  });
}

TEST_SUITE_END();
