// SPDX-License-Identifier: MIT
#include <simplx/report/style.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>

namespace {
using Colour = std::array<double, 3>;  // linear light of red, green, blue
using Palette = std::map<std::string, Colour>;

/// The custom properties of the n-th :root.
Palette palette(int n) {
  std::string_view css = simplx::report_style;
  for (int i = 0; i <= n; ++i) css.remove_prefix(css.find(":root {") + 1);
  css = css.substr(0, css.find('}'));
  Palette colours;
  for (std::size_t at = css.find("--"); at != css.npos; at = css.find("--", at + 2)) {
    const std::size_t colon = css.find(':', at);
    REQUIRE(css[colon + 2] == '#');
    Colour& colour = colours[std::string(css.substr(at + 2, colon - at - 2))];
    for (std::size_t i = 0; i < 3; ++i) {
      const double value = std::stoi(std::string(css.substr(colon + 3 + 2 * i, 2)), nullptr, 16) / 255.0;
      colour[i] = value <= 0.04045 ? value / 12.92 : std::pow((value + 0.055) / 1.055, 2.4);
    }
  }
  return colours;
}
/// WCAG 2: (L1 + 0.05) / (L2 + 0.05), L1 the lighter of the two.
double contrast(const Colour& a, const Colour& b) {
  const auto light = [](const Colour& c) { return 0.2126 * c[0] + 0.7152 * c[1] + 0.0722 * c[2] + 0.05; };
  return std::max(light(a), light(b)) / std::min(light(a), light(b));
}
/// Ottosson, A perceptual color space for image processing, 2020.
Colour oklab(const Colour& c) {
  const double l = std::cbrt(0.4122214708 * c[0] + 0.5363325363 * c[1] + 0.0514459929 * c[2]);
  const double m = std::cbrt(0.2119034982 * c[0] + 0.6806995451 * c[1] + 0.1073969566 * c[2]);
  const double s = std::cbrt(0.0883024619 * c[0] + 0.2817188376 * c[1] + 0.6299787005 * c[2]);
  return {0.2104542553 * l + 0.7936177850 * m - 0.0040720468 * s,
          1.9779984951 * l - 2.4285922050 * m + 0.4505937099 * s,
          0.0259040371 * l + 0.7827717662 * m - 0.8086757660 * s};
}
Colour from_oklab(const Colour& lab) {
  const double l = std::pow(lab[0] + 0.3963377774 * lab[1] + 0.2158037573 * lab[2], 3);
  const double m = std::pow(lab[0] - 0.1055613458 * lab[1] - 0.0638541728 * lab[2], 3);
  const double s = std::pow(lab[0] - 0.0894841775 * lab[1] - 1.2914855480 * lab[2], 3);
  return {4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
          -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
          -0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s};
}
/// What eyes without cones for red, green or blue see [Machado, Oliveira and Fernandes 2009, severity 1].
constexpr double without_cones[3][3][3] = {
    {{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}},
    {{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}},
    {{1.255528, -0.076749, -0.178779}, {-0.078411, 0.930809, 0.147602}, {0.004733, 0.691367, 0.303900}}};
Colour seen(const Colour& c, const double (&eye)[3][3]) {
  Colour out;
  for (std::size_t i = 0; i < 3; ++i) {
    out[i] = std::clamp(eye[i][0] * c[0] + eye[i][1] * c[1] + eye[i][2] * c[2], 0.0, 1.0);
  }
  return out;
}
double distance(const Colour& a, const Colour& b) {
  const Colour one = oklab(a), other = oklab(b);
  return std::hypot(one[0] - other[0], one[1] - other[1], one[2] - other[2]);
}
constexpr double least = 4.5;  // WCAG 2 level AA, text of ordinary size
}  // namespace

TEST_SUITE_BEGIN("report/style");

TEST_CASE("text and data stand out from the paper, in light and in dark") {
  for (const int scheme : {0, 1}) {
    Palette colours = palette(scheme);
    REQUIRE(colours.size() == 15);
    CHECK((contrast(colours["paper"], {0, 0, 0}) > 10) == (scheme == 0));
    for (const auto& entry : colours) {
      const std::string& name = entry.first;
      if (name == "paper" || name == "raised" || name == "grid" || name == "edge") continue;  // surfaces and hairlines
      CAPTURE(scheme);
      CAPTURE(name);
      CHECK(contrast(entry.second, colours["paper"]) >= least);
    }
    CHECK(contrast(colours["ink"], colours["raised"]) >= least);
    // Hairlines are quieter than any text, but there.
    CHECK(contrast(colours["grid"], colours["paper"]) > 1.15);
    CHECK(contrast(colours["edge"], colours["paper"]) > contrast(colours["grid"], colours["paper"]));
  }
}

TEST_CASE("every layer's colour between the first and the last stands out too") {
  for (const int scheme : {0, 1}) {
    Palette colours = palette(scheme);
    const Colour first = oklab(colours["first-layer"]), last = oklab(colours["last-layer"]);
    for (int percent = 0; percent <= 100; ++percent) {
      Colour mix;
      for (std::size_t i = 0; i < 3; ++i) mix[i] = first[i] + (last[i] - first[i]) * percent / 100;
      mix = from_oklab(mix);
      for (double& part : mix) part = std::clamp(part, 0.0, 1.0);
      CAPTURE(percent);
      CHECK(contrast(mix, colours["paper"]) >= least);
    }
  }
}

TEST_CASE("the colours of any two lines are apart as the header says") {
  for (const int scheme : {0, 1}) {
    Palette colours = palette(scheme);
    for (int a = 1; a <= 6; ++a) {
      for (int b = 1; b < a; ++b) {
        const Colour one = colours["series-" + std::to_string(a)], other = colours["series-" + std::to_string(b)];
        CAPTURE(a);
        CAPTURE(b);
        CHECK(distance(one, other) >= (scheme ? 0.14 : 0.18));
        for (const auto& eye : without_cones) {
          CHECK(distance(seen(one, eye), seen(other, eye)) >= (scheme ? 0.09 : 0.11));
        }
      }
      const Colour lab = oklab(colours["series-" + std::to_string(a)]);
      CAPTURE(a);
      CHECK(lab[0] >= 0.4);  // no black
      CHECK(std::hypot(lab[1], lab[2]) >= 0.05);
    }
  }
}

TEST_CASE("every colour that is used has a name, nothing is fetched") {
  const std::string_view css = simplx::report_style;
  const Palette colours = palette(0);
  for (std::size_t at = css.find("var(--"); at != css.npos; at = css.find("var(--", at + 1)) {
    const std::string name(css.substr(at + 6, css.find(')', at) - at - 6));
    CAPTURE(name);
    CHECK(colours.contains(name));
  }
  for (const char* part : {"url(", "@import", "http", "<"}) CHECK(css.find(part) == css.npos);
}

TEST_SUITE_END();
