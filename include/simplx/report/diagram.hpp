// SPDX-License-Identifier: MIT
#pragma once

/// \file simplx/report/diagram.hpp
/// The items of a model (report/items.hpp) and the scopes around them: scopes with several items become frames, the
/// parts of the model that `named` names; x + y + z becomes one circle.
///
/// What reads a parameter belongs to its scope; so does what reads two results of a scope, and what lies between two
/// items of it. A scope that does not hold together, because a path leaves it and comes back, is not drawn;
/// of two that read each other, one is.

#include <simplx/report/items.hpp>

namespace simplx::inline SIMPLX_TARGET::drawing {

/// A scope around items and other frames.
struct Frame {
  std::string scope;
  Label title;
  Role role = Role::plain;
  int parent = -1;
};

/// What is drawn of a model: its items, and the frames around those of one scope.
struct Diagram {
  std::vector<Item> items;  ///< inputs first
  std::vector<Frame> frames;
};

/// Gives the items their scopes, then draws frames around those.
class DiagramMaker {
 public:
  explicit DiagramMaker(const OpTable& table) : diagram_{items_of(table), {}} {
    find_scopes();
    join_sums();
    make_frames();
  }
  Diagram take() { return std::move(diagram_); }

 private:
  /// Items without a name join a scope that they close, reading two results of it (not one twice), or that they lie
  /// within.
  void find_scopes() {
    std::vector<Item>& items = diagram_.items;
    const int count = static_cast<int>(items.size());
    const auto adopt = [](Item& item, const std::string& a, const std::string& b) {
      const std::string scope = common(a, b);
      if (scope.size() > item.scope.size()) item.scope = scope;
    };
    const auto free = [](const Item& item) { return !item.named && item.form != Item::Form::end; };
    const auto source = [&](int i) -> const Item& {  // past gains that are plain numbers
      while (free(items[i]) && items[i].scope.empty() && items[i].inputs.size() == 1) i = items[i].inputs[0];
      return items[i];
    };
    for (Item& item : items) {
      for (std::size_t b = 0; free(item) && b < item.inputs.size(); ++b) {
        for (std::size_t a = 0; a < b; ++a) {
          const Item &one = source(item.inputs[a]), &other = source(item.inputs[b]);
          if (&one != &other) adopt(item, one.scope, other.scope);  // x * rsqrt(x) reads one result twice
        }
      }
    }
    const std::vector<std::vector<char>> reaches = reachable();
    std::vector<std::string> scope;
    for (const Item& item : items) scope.push_back(item.scope);
    for (int i = 0; i < count; ++i) {
      if (!free(items[i]) || !scope[i].empty()) continue;
      for (int below = 0; below < i; ++below) {
        for (int above = i + 1; reaches[below][i] && above < count; ++above) {
          if (reaches[i][above]) adopt(items[i], scope[below], scope[above]);
        }
      }
    }
  }

  /// [i][j]: j reads i, or something that does.
  std::vector<std::vector<char>> reachable() const {
    const int count = static_cast<int>(diagram_.items.size());
    std::vector<std::vector<char>> reaches(count, std::vector<char>(count));
    for (int j = 0; j < count; ++j) {
      for (const int input : diagram_.items[j].inputs) {
        for (int i = 0; i < j; ++i) reaches[i][j] |= i == input || reaches[i][input];
      }
    }
    return reaches;
  }

  static bool plus(const Item& x) {
    return x.form == Item::Form::circle && x.title[0].text == "+" && x.minus < 0;
  }
  /// a + b + c is one circle of up to three lines, where nothing else reads a + b.
  void join_sums() {
    std::vector<Item>& items = diagram_.items;
    std::vector<int> uses(items.size()), place(items.size());
    for (const Item& item : items) {
      for (const int input : item.inputs) ++uses[input];
    }
    std::vector<char> joined(items.size());
    for (Item& outer : items) {
      for (std::size_t a = 0; plus(outer) && outer.inputs.size() < 3 && a < outer.inputs.size(); ++a) {
        const int i = outer.inputs[a];
        const Item& inner = items[i];
        if (!plus(inner) || uses[i] != 1 || inner.inputs.size() > 2 || inner.scope != outer.scope) continue;
        joined[i] = true;
        outer.ops.insert(outer.ops.end(), inner.ops.begin(), inner.ops.end());
        const auto at = outer.inputs.erase(outer.inputs.begin() + static_cast<std::ptrdiff_t>(a));
        outer.inputs.insert(at, inner.inputs.begin(), inner.inputs.end());
      }
    }
    std::vector<Item> kept;
    for (std::size_t i = 0; i < items.size(); ++i) {
      place[i] = static_cast<int>(kept.size());
      if (joined[i]) continue;
      for (int& input : items[i].inputs) input = place[input];
      kept.push_back(std::move(items[i]));
    }
    items = std::move(kept);
  }

  void make_frames() {
    std::vector<Item>& items = diagram_.items;
    std::map<std::string, std::vector<int>> members;
    for (int i = 0; i < static_cast<int>(items.size()); ++i) {
      for (std::string s = items[i].scope; !s.empty(); s = scope_of(s)) members[s].push_back(i);
    }
    for (const auto& member : members) {  // outer scopes come before those within
      const std::string& scope = member.first;
      const std::vector<int>& inside = member.second;
      const auto same_inside = [&](const auto& other) {
        return other.first != scope && within(other.first, scope) && other.second == inside;
      };
      if (inside.size() < 2 || std::ranges::any_of(members, same_inside)) continue;
      Frame frame{scope, {{title_case(last_name(scope))}}, Role::plain, -1};
      for (int f = 0; f < static_cast<int>(diagram_.frames.size()); ++f) {
        if (within(scope, diagram_.frames[f].scope)) frame.parent = f;
      }
      if (!has_order(inside, frame.parent)) continue;
      bool attends = false, acts = false;
      for (const int i : inside) {
        items[i].frame = static_cast<int>(diagram_.frames.size());
        attends |= items[i].role == Role::attention;
        acts |= items[i].role == Role::mlp;
      }
      const Role outer = frame.parent >= 0 ? diagram_.frames[frame.parent].role : Role::plain;
      frame.role = attends ? Role::attention : outer != Role::plain ? outer : acts ? Role::mlp : Role::plain;
      diagram_.frames.push_back(std::move(frame));
    }
    for (Item& item : items) {
      if (item.role == Role::mlp && item.frame >= 0) item.role = diagram_.frames[item.frame].role;
    }
  }
  /// Each reads only what is before it, where a frame around these items, and each beside it, counts as one: so no path
  /// leaves the frame and comes back, and no two frames read each other.
  bool has_order(const std::vector<int>& inside, int parent) const {
    const int count = static_cast<int>(diagram_.items.size());
    std::vector<int> one(count);
    for (int i = 0; i < count; ++i) {
      one[i] = i;
      for (int f = diagram_.items[i].frame; f >= 0; f = diagram_.frames[f].parent) {
        if (diagram_.frames[f].parent == parent) one[i] = count + f;
      }
    }
    for (const int i : inside) one[i] = -1;
    std::set<int> before;
    for (bool more = true; more;) {
      std::set<int> waiting;
      for (int i = 0; i < count; ++i) {
        for (const int input : diagram_.items[i].inputs) {
          if (one[input] != one[i] && !before.contains(one[input])) waiting.insert(one[i]);
        }
      }
      more = false;
      for (const int i : one) more |= !waiting.contains(i) && before.insert(i).second;
    }
    return std::ranges::all_of(one, [&](int i) { return before.contains(i); });
  }

  Diagram diagram_;
};

/// What is drawn of a table of ops.
inline Diagram diagram_of(const OpTable& table) { return DiagramMaker(table).take(); }

}  // namespace simplx::drawing
