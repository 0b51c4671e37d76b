// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/report/document.hpp
/// A page of HTML and its parts: sections, tables that scroll within themselves. The page is one file, asks for nothing
/// from outside (its content security policy forbids it), needs no script, and is XML as well as HTML.

#include <functional>
#include <simplx/report/style.hpp>
#include <simplx/report/svg.hpp>
#include <string>
#include <vector>

namespace simplx::inline SIMPLX_TARGET {

/// A heading, a sentence below it that may be empty, and what follows; nothing if nothing follows.
inline std::string section(std::string_view title, std::string_view lead, std::string_view content) {
  if (content.empty()) return {};
  return element("section", {},
                 element("h2", {}, xml_escaped(title)) +
                     (lead.empty() ? std::string() : element("p", {}, xml_escaped(lead))) + "\n" +
                     std::string(content)) +
         "\n";
}

/// A table that scrolls within itself where the page is narrow; `best` says which cells are marked.
inline std::string scrolling_table(const std::vector<std::string>& head,
                                   const std::vector<std::vector<std::string>>& rows, std::string_view what,
                                   std::string_view kind = "",
                                   const std::function<bool(std::size_t, std::size_t)>& best = {}) {
  std::string text, cells;
  for (const std::string& name : head) cells += element("th", {{"scope", "col"}}, xml_escaped(name));
  text += element("thead", {}, element("tr", {}, cells)) + "\n";
  std::string body;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    cells = element("th", {{"scope", "row"}}, xml_escaped(rows[r][0]));
    for (std::size_t c = 1; c < rows[r].size(); ++c) {
      cells += element("td", {{"class", best && best(r, c) ? "best" : ""}}, xml_escaped(rows[r][c]));
    }
    body += element("tr", {}, cells) + "\n";
  }
  return element("div", {{"class", "scroll"}, {"tabindex", "0"}, {"role", "region"}, {"aria-label", what}},
                 element("table", {{"class", kind}}, text + element("tbody", {}, body)));
}

/// The document around what is in <main>, and a line below it.
inline std::string html_page(std::string_view title, std::string_view main, std::string_view footer) {
  const std::string head =
      element("meta", {{"charset", "utf-8"}}) + "\n" +
      element("meta", {{"name", "viewport"}, {"content", "width=device-width, initial-scale=1"}}) + "\n" +
      element("meta", {{"http-equiv", "Content-Security-Policy"},
                       {"content", "default-src 'none'; style-src 'unsafe-inline'; img-src data:"}}) +
      "\n" + element("title", {}, xml_escaped(title)) + "\n" + element("style", {}, report_style);
  const std::string body = element("main", {}, main) + "\n" + element("footer", {}, xml_escaped(footer));
  return "<!DOCTYPE html>\n" +
         element("html", {{"lang", "en"}, {"xmlns", "http://www.w3.org/1999/xhtml"}},
                 element("head", {}, head) + "\n" + element("body", {}, body)) +
         "\n";
}

}  // namespace simplx::inline SIMPLX_TARGET
