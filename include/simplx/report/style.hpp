// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/report/style.hpp
/// How a report looks: on a desk, on a phone, on paper; light and dark as the reader's system is set.
///
/// Every colour is named once for each scheme; those of text and of data stand out from their background by a contrast
/// of 4.5 and more.
/// The six series colours were searched for the largest least distance in OKLab between any two: 0.18 light and 0.14
/// dark to ordinary eyes, 0.11 and 0.09 to those without red, green or blue cones [Machado et al. 2009]. None is so
/// dark that it reads as black in a thin line. The layers' ramp from orange to blue holds for all eyes.

#include <simplx/core/target.hpp>

#include <string_view>

namespace simplx::inline SIMPLX_TARGET {

inline constexpr std::string_view report_style = R"css(
:root {
  color-scheme: light dark;
  --paper: #fdfdfb; --raised: #f3f3ef; --ink: #1b1f24; --quiet: #5b636e; --grid: #e3e4e0; --edge: #b9bcbf;
  --series-1: #2f6ae5; --series-2: #996514; --series-3: #69208b;
  --series-4: #006462; --series-5: #d025a3; --series-6: #90000c;
  --raw: #6b7480; --first-layer: #b35900; --last-layer: #14306e;
}
@media screen and (prefers-color-scheme: dark) {
  :root {
    --paper: #15181c; --raised: #1f2429; --ink: #e6e9ed; --quiet: #9aa4b0; --grid: #2a3037; --edge: #566069;
    --series-1: #99b2df; --series-2: #dc9302; --series-3: #b37cea;
    --series-4: #55988f; --series-5: #f8ca78; --series-6: #bee6fc;
    --raw: #87919d; --first-layer: #ffc46b; --last-layer: #6d8bff;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
body {
  margin: 0 auto; padding: 2rem 1rem 4rem; max-width: 66rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
  font-variant-numeric: tabular-nums; overflow-wrap: break-word;
}
h1 {
  margin: 0; font-size: 1.9rem; line-height: 1.2; font-weight: 650; letter-spacing: -0.01em; overflow-wrap: anywhere;
}
h2 { margin: 3rem 0 0.25rem; font-size: 1.25rem; line-height: 1.3; font-weight: 650; }
p { margin: 0.25rem 0 1rem; max-width: 42rem; color: var(--quiet); }
header p { margin: 0.5rem 0 0; font-size: 1.05rem; }
.facts {
  display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: 1rem 1.5rem; margin: 1.75rem 0 0;
}
.facts div { border-top: 2px solid var(--ink); padding-top: 0.4rem; }
.facts dt { color: var(--quiet); font-size: 0.875rem; }
.facts dd { margin: 0; font-size: 1.5rem; line-height: 1.25; font-weight: 600; }
.facts small { display: block; font-size: 0.875rem; font-weight: 400; color: var(--quiet); }
.charts {
  display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 24rem), 1fr)); gap: 1.5rem 2.5rem;
  margin-top: 1rem;
}
.small { grid-template-columns: repeat(auto-fill, minmax(9.75rem, 1fr)); gap: 1rem 1.25rem; }
figure { margin: 0; min-width: 0; display: flex; flex-direction: column; break-inside: avoid; }
figcaption { margin-bottom: 0.25rem; line-height: 1.35; }
figcaption b { font-weight: 600; overflow-wrap: anywhere; }
figcaption span { color: var(--quiet); font-size: 0.875rem; }
.small figcaption { font-size: 0.875rem; }
svg.chart { display: block; width: 100%; max-width: 34rem; height: auto; margin-top: auto; }
svg.chart text { font-family: inherit; fill: var(--quiet); }
svg.chart .label { fill: var(--ink); }
.grid { stroke: var(--grid); stroke-width: 1; fill: none; }
.axis { stroke: var(--edge); stroke-width: 1; fill: none; }
.line { fill: none; stroke-linejoin: round; stroke-linecap: round; }
.line[style*="dasharray"] { stroke-linecap: butt; }
circle { stroke: var(--paper); stroke-width: 1; }
.legend {
  display: flex; flex-wrap: wrap; gap: 0 1.1rem; margin: 0 0 0.25rem; padding: 0; list-style: none;
  font-size: 0.875rem; color: var(--quiet);
}
.legend li { overflow-wrap: anywhere; min-width: 0; }
.legend b { color: var(--ink); font-weight: 600; }
.key { width: 1.75rem; height: 0.5rem; margin-right: 0.4rem; vertical-align: 0.1em; }
.ramp { display: flex; align-items: center; gap: 0.5rem; font-size: 0.875rem; }
.ramp i {
  width: 7rem; height: 4px; border-radius: 2px;
  background: linear-gradient(to right, var(--first-layer), var(--last-layer));
  background: linear-gradient(in oklab to right, var(--first-layer), var(--last-layer));
}
.scroll { overflow-x: auto; margin-top: 1rem; }
table { border-collapse: collapse; font-size: 0.9375rem; line-height: 1.35; }
th, td {
  padding: 0.4rem 1.25rem 0.4rem 0; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--grid);
  vertical-align: bottom;
}
th { font-weight: 600; }
thead th { color: var(--quiet); font-weight: 400; white-space: normal; border-bottom-color: var(--edge); }
th:first-child, .words th, .words td { text-align: left; }
tbody th, .words td { white-space: normal; overflow-wrap: break-word; min-width: 10rem; max-width: 20rem; }
.words td { max-width: 26rem; }
.best { font-weight: 700; }
summary { cursor: pointer; color: var(--quiet); margin-top: 1rem; }
.options {
  display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 19rem), 1fr)); gap: 0 2.5rem;
  margin: 1rem 0 0; font-size: 0.9375rem;
}
.options div {
  display: flex; justify-content: space-between; gap: 1rem; padding: 0.3rem 0; border-bottom: 1px solid var(--grid);
  break-inside: avoid;
}
.options dt { color: var(--quiet); flex: none; max-width: 60%; overflow-wrap: anywhere; }
.options dd { margin: 0; text-align: right; min-width: 0; overflow-wrap: anywhere; }
pre {
  margin: 0.75rem 0 0; padding: 1rem; overflow-x: auto; background: var(--raised); border-radius: 6px;
  font: 0.8125rem/1.5 ui-monospace, "SF Mono", Menlo, Consolas, monospace;
}
img { display: block; max-width: 100%; height: auto; margin: 1rem auto 0; }
footer {
  margin-top: 4rem; padding-top: 0.75rem; border-top: 1px solid var(--grid); color: var(--quiet); font-size: 0.875rem;
}
@media print {
  body { max-width: none; padding: 0; font-size: 10pt; }
  h2 { break-after: avoid; }
  pre { white-space: pre-wrap; overflow-wrap: anywhere; }
  .scroll { overflow: visible; }
}
)css";

}  // namespace simplx
