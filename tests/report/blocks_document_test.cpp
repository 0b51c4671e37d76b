// SPDX-License-Identifier: MIT
//
// docs/blocks.md and docs/blocks/*.svg: the main blocks, each as its equation and as it is drawn from its expression.
// SIMPLX_WRITE_DOCS=1 writes them anew.
#include <simplx/report/picture.hpp>

#include <simplx/blocks/tokens.hpp>
#include <simplx/core/counts.hpp>
#include <simplx/models/decoder.hpp>
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

/// What the page says of a block.
struct Shown {
  const char* name;
  const char* title;
  const char* says;
  const char* equation;
  Index parameters;
  const Decoder& model;
};

const Shown shown[] = {
    {"pre_ln", "Pre-LN", "Eq. (1) with all four gains one: two norms, two skips.",
     "X_out = X' + MLP(Norm2(X')),   X' = X + MHA(Norm1(X))", parameters<decoder<pre_ln>>, decoder<pre_ln>},
    {"parallel", "Parallel", "Eq. (7): one norm and one skip for both branches.",
     "X_out = X + MHA(N) + MLP(N),   N = Norm(X)", parameters<decoder<parallel>>, decoder<parallel>},
    {"v_skip_init_shaped", "V-SkipInit, shaped",
     "Without the attention skip; the matrix of Eq. (5) is the identity at first, and V and P are orthogonal.",
     "X_out = alpha_FF X' + beta_FF MLP(Norm2(X')),   X' = beta_SA ShapedAttention(Norm1(X))",
     parameters<decoder<v_skip_init_shaped>>, decoder<v_skip_init_shaped>},
    {"sas", "SAS", "Fig. 10: without values (but for the first layer's) and projections as well.",
     "X_out = alpha_FF X' + beta_FF MLP(Norm2(X')),   X' = beta_SA ShapedAttention(Norm1(X))",
     parameters<decoder<sas>>, decoder<sas>},
    {"sas_p", "SAS-P", "Fig. 11: both branches in parallel, no skip at all.",
     "X_out = beta_SA ShapedAttention(N) + beta_FF MLP(N),   N = Norm(X)", parameters<decoder<sas_p>>, decoder<sas_p>},
    {"sas_p_norm_free", "SAS-P without norms", "What remains.",
     "X_out = beta_SA ShapedAttention(X) + beta_FF MLP(X)", parameters<decoder<sas_p_norm_free>>,
     decoder<sas_p_norm_free>},
};

std::string page() {
  std::string text =
      "# Blocks, as they are drawn from their expressions\n\n"
      "Written by `SIMPLX_WRITE_DOCS=1 simplx_tests -ts=report/blocks_document`; do not edit. Equations and figures "
      "are "
      "those of\n\"Simplifying Transformer Blocks\" (He & Hofmann 2024). Each picture shows a later layer of a byte "
      "decoder of width 128, 4\nheads, 6 layers; nothing in it comes from the block's name: `examples/draw` and "
      "`picture_of_layer(model, layer)` draw\nblocks of your own as well. All tokens: "
      "[tokens.hpp](../include/simplx/blocks/tokens.hpp).\n";
  for (const Shown& block : shown) {
    text += "\n## " + std::string(block.title) + "\n\n`" + block.name + "`, " + grouped(block.parameters) +
            " parameters in all. " + block.says + "\n\n    " + block.equation + "\n\n![" + block.title + "](blocks/" +
            block.name + ".svg)\n";
  }
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
  for (const Shown& block : shown) {
    const std::string picture = picture_of_layer(block.model, 1, block.title);
    CHECK(document(docs / "blocks" / (std::string(block.name) + ".svg"), picture) == picture);
  }
}

TEST_SUITE_END();
