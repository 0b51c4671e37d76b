// SPDX-License-Identifier: MIT
#pragma once

/// Runs kernels on the CPU: blocks one after another, the threads of a block as fibers.
///
/// Stricter than a GPU. Shared memory is poisoned for each block. A barrier that threads of a block reach at different
/// places, or not at all, a warp operation whose lanes do not all come, and a deadlock of any kind throw a Fault that
/// says which threads wait where. What is copied into shared memory meanwhile is poison until its thread waits for it,
/// and a thread that returns without waiting is a Fault. In which order threads run between meetings is a Schedule:
/// a kernel without races gives the same bits under all of them.

#include "emulation/fiber.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <list>
#include <string>
#include <type_traits>
#include <vector>

namespace emulation {

inline constexpr int warp_size = 32;
inline constexpr unsigned most_threads = 1024;                ///< of a block
inline constexpr std::size_t most_shared = std::size_t(48) << 10;  ///< bytes of static shared memory of a block
inline constexpr std::size_t most_aligned = 1024;                  ///< bytes on which a tile may have to begin
inline constexpr std::size_t most_large_shared = std::size_t(99) << 10;  ///< of all its shared memory from sm_80 on
inline constexpr unsigned group_warps = 4;                    ///< of a warpgroup

/// What a GPU leaves undefined, or what it would wait for in vain.
struct Fault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A place in a kernel where threads meet.
struct Site {
  const char* operation = "";
  const char* file = "";
  int line = 0;

  bool operator==(const Site& other) const {
    const auto same = [](const char* a, const char* b) { return a == b || std::strcmp(a, b) == 0; };
    return line == other.line && same(operation, other.operation) && same(file, other.file);
  }
  std::string text() const {
    const char* name = std::strrchr(file, '/');
    return std::string(operation) + " " + (name ? name + 1 : file) + ":" + std::to_string(line);
  }
};

/// Which thread goes on when several could.
enum class Order {
  forward,  ///< in turns
  reverse,  ///< in turns, from the last; blocks as well
  random,   ///< any; blocks in any order
  greedy,   ///< one warp as long as it can, before all others: it overtakes them by as much as barriers allow
};
struct Schedule {
  Order order = Order::forward;
  std::uint64_t seed = 0;  ///< of random; of greedy: which warp is the fast one
  bool operator==(const Schedule&) const = default;

  std::string text() const {
    constexpr const char* names[] = {"forward", "reverse", "random ", "greedy "};
    const int number = static_cast<int>(order);
    return names[number] + (number < 2 ? std::string() : std::to_string(seed));
  }
};

struct Extent {
  unsigned x = 1, y = 1, z = 1;
  unsigned count() const { return x * y * z; }
  /// The coordinates of number i, x fastest.
  Extent at(unsigned i) const { return {i % x, i / x % y, i / x / y}; }
};

/// What threads leave for one another: one deposit of each lane, of at most lane_bytes.
struct Meeting {
  static constexpr std::size_t lane_bytes = 128;
  Site site;
  unsigned mask = 0, arrived = 0;
  alignas(16) std::byte deposits[warp_size][lane_bytes];
};

/// A kernel with its arguments, which outlive this: one type for all of them.
class Body {
 public:
  template <class Kernel>
  Body(const Kernel& kernel) : kernel_(&kernel), call_([](const void* of) { (*static_cast<const Kernel*>(of))(); }) {}
  void operator()() const { call_(kernel_); }

 private:
  const void* kernel_;
  void (*call_)(const void*);
};

class Block {
 public:
  /// The block whose thread runs.
  static Block*& running() {
    static Block* block = nullptr;
    return block;
  }

  Block(Extent grid, Extent index, Extent size, std::size_t large_shared, const Schedule& schedule, std::uint64_t seed)
      : grid_(grid), index_(index), size_(size), schedule_(schedule), random_(seed), large_shared_(large_shared) {}

  /// Runs the kernel once for each thread.
  ///
  /// Errors  throws Fault, and what the kernel throws
  void run(Body kernel, void* launch) {
    for (unsigned i = 0; i < size_.count(); ++i) {
      threads_.emplace_back(size_.at(i), [this, kernel, launch] { enter(kernel, launch); });
    }
    warps_.resize((threads_.size() + warp_size - 1) / warp_size);
    thread_of_.reserve(threads_.size());
    for (Thread& thread : threads_) thread_of_.push_back(&thread);
    Block* const outer = std::exchange(running(), this);
    try {
      while (ended_ < threads_.size()) {
        current_ = next();
        thread_of_[current_]->fiber.resume();
        ended_ += thread_of_[current_]->fiber.ended();
      }
      check_guards();
      check_groups();
    } catch (...) {
      abandon();
      running() = outer;
      throw;
    }
    running() = outer;
  }

  // What a thread can ask for.

  EMULATION_UNCHECKED Extent thread() const { return thread_of_[current_]->index; }
  EMULATION_UNCHECKED Extent block() const { return index_; }
  EMULATION_UNCHECKED Extent block_size() const { return size_; }
  EMULATION_UNCHECKED Extent grid() const { return grid_; }

  /// Waits for all threads of the block.
  void barrier(const Site& site) {
    const Ignored executor;
    const unsigned number = barriers_ % 2;  // a tag of its own: a fast thread is at the next barrier before all left
    release(&barrier_tags_[number]);
    Thread& self = *thread_of_[current_];
    self.wait = Wait::barrier;
    self.site = site;
    if (++at_barrier_ == threads_.size()) open_barrier();
    suspend();
    acquire(&barrier_tags_[number]);
  }

  /// Leaves a value for the lanes of the mask, waits for all of them, and takes what `take(meeting)` reads.
  template <class T, class Take>
  auto meet(unsigned mask, const T& value, const Site& site, bool orders_memory, const Take& take) {
    static_assert(sizeof(T) <= Meeting::lane_bytes && std::is_trivially_copyable_v<T>);
    const Ignored executor;
    const std::shared_ptr<Meeting> meeting = arrive(mask, &value, sizeof(T), site, orders_memory);
    if (orders_memory) acquire(meeting.get());
    return take(*meeting);
  }

  /// The object of this block that a declaration (known by its key) names.
  template <class T>
  T& shared(const void* key, const Site& site) {
    static_assert(std::is_trivially_default_constructible_v<T> && std::is_trivially_destructible_v<T>,
                  "shared memory has no constructors");
    const Ignored executor;
    if (void* const known = shared_of(key)) return *static_cast<T*>(known);
    shared_bytes_ += (sizeof(T) + alignof(T) - 1) / alignof(T) * alignof(T);
    if (shared_bytes_ > most_shared) {
      throw Fault("a block declares more than " + std::to_string(most_shared) + " bytes of shared memory at " +
                  site.text());
    }
    check_all_shared(site);
    return *static_cast<T*>(add_shared(key, sizeof(T), alignof(T), site));
  }
  /// The room that the launch has made, which begins on sixteen bytes and no more.
  ///
  /// Errors  throws Fault if it has not, for less than is wanted, or for more than there is
  void* room(std::size_t wanted, const Site& site) {
    const Ignored executor;
    if (wanted > large_shared_) {
      throw Fault("a block has " + std::to_string(wanted) + " bytes of shared memory at " + site.text() +
                  " where the launch makes room for " + std::to_string(large_shared_));
    }
    constexpr std::size_t off = 16;
    const void* const key = &large_shared_;
    void* known = shared_of(key);
    if (!known) {
      check_all_shared(site);
      known = add_shared(key, off + large_shared_, most_aligned, site);
    }
    return static_cast<std::byte*>(known) + off;
  }

  /// Begins a copy of so many bytes, and zeros after them, to sixteen of shared memory. It can land at any time until
  /// the thread waits: what was there is lost at once, and what comes is not there before.
  ///
  /// Errors  throws Fault for places where a GPU copies nothing so
  void begin_copy(void* to, const void* from, std::size_t size, std::size_t bytes, const Site& site) {
    {
      const Ignored executor;
      const auto address = [](const void* place) { return reinterpret_cast<std::uintptr_t>(place); };
      if (bytes > size || address(to) % size || address(from) % size) {
        throw Fault("a copy is not of " + std::to_string(size) + " bytes, or not on as many, at " + site.text());
      }
      if (!in_shared_memory(to, size)) throw Fault("a copy to what is not shared memory, at " + site.text());
      thread_of_[current_]->copies.push_back({to, from, size, bytes, site});
    }
    std::memset(to, static_cast<int>(SharedObject::poison), size);
  }
  /// Waits for all copies that the thread has begun.
  void await_copies() {
    std::vector<Copy> landed;
    {
      const Ignored executor;
      landed.swap(thread_of_[current_]->copies);
    }
    for (const Copy& copy : landed) {
      hide_write(copy.to);
      std::memset(copy.to, 0, copy.size);
      std::memcpy(copy.to, copy.from, copy.bytes);
    }
  }

  /// Lets instructions of warpgroups see what the thread has written to shared memory.
  void show_writes() { thread_of_[current_]->hidden.clear(); }
  /// They do not yet see what it writes to this place.
  void hide_write(const void* place) {
    const Ignored executor;
    std::vector<std::uintptr_t>& hidden = thread_of_[current_]->hidden;
    if (hidden.empty() || hidden.back() != part_of(place)) hidden.push_back(part_of(place));
  }
  /// Notes that the thread's warp takes part in an instruction of its warpgroup, which reads what begins at these
  /// places, most_aligned bytes each.
  ///
  /// Errors  throws Fault if there is no whole group, or what a thread has written there or copied is not shown
  void join_group(const std::vector<const void*>& places, const Site& site) {
    const Ignored executor;
    if ((warp() / group_warps + 1) * group_warps * warp_size > threads_.size()) {
      throw Fault("a warpgroup has fewer than four warps at " + site.text());
    }
    if (lane() != 0) return;
    warps_[warp()].joined.push_back(site);
    for (const Thread& thread : threads_) {
      const auto is_hidden = [&](const void* place) {
        return std::find(thread.hidden.begin(), thread.hidden.end(), part_of(place)) != thread.hidden.end();
      };
      if (!thread.hidden.empty() && std::any_of(places.begin(), places.end(), is_hidden)) {
        throw Fault("a warpgroup reads what was written or copied, and not fenced, at " + site.text());
      }
    }
  }
  /// Whether so many bytes lie in one object of shared memory.
  bool in_shared_memory(const void* place, std::size_t size) const {
    const auto holds = [&](const SharedObject& object) {
      const auto offset = reinterpret_cast<std::uintptr_t>(place) -
                          reinterpret_cast<std::uintptr_t>(object.bytes.get());
      return offset < object.size && offset + size <= object.size;
    };
    return std::any_of(shared_.begin(), shared_.end(), holds);
  }
  /// Products of warpgroups that the thread has begun, by the first of their sums.
  auto& products() { return thread_of_[current_]->products; }
  /// Whether it has fenced its registers before them.
  bool& fenced() { return thread_of_[current_]->fenced; }

  /// The number of the current thread's warp, and its lane there.
  unsigned warp() const { return current_ / warp_size; }
  unsigned lane() const { return current_ % warp_size; }

 private:
  enum class Wait { no, barrier, warp };
  struct Copy {
    void* to;
    const void* from;
    std::size_t size, bytes;  ///< bytes that come, and zeros up to the size
    Site site;
  };
  struct Thread {
    Extent index;
    Fiber fiber;
    Wait wait = Wait::no;
    Site site{};
    unsigned mask = 0;
    std::vector<Copy> copies{};  ///< on their way
    std::vector<std::pair<float*, std::function<void()>>> products{};  ///< of its warpgroup, on their way
    bool fenced = false;
    std::vector<std::uintptr_t> hidden{};  ///< parts of shared memory with writes that are not shown

    Thread(Extent where, std::function<void()> body) : index(where), fiber(std::move(body)) {}
    bool can_run() const { return wait == Wait::no && !fiber.ended(); }
  };
  /// Unwinds the threads of a block that has failed.
  struct Abandoned {};

  /// Under AddressSanitizer nothing lies after an object; else a guard that must keep its bytes.
  struct SharedObject {
    static constexpr std::size_t guard_bytes = address_sanitized ? 0 : 128;
    static constexpr std::byte poison{0xff};  // a NaN, and an index out of all bounds
    struct Free {
      std::align_val_t alignment;
      void operator()(std::byte* bytes) const { ::operator delete(bytes, alignment); }
    };
    using Bytes = std::unique_ptr<std::byte, Free>;

    const void* key;
    std::size_t size;
    Site site;
    Bytes bytes;

    static Bytes allocate(std::size_t size, std::size_t object_alignment) {
      const std::align_val_t alignment{std::max<std::size_t>(object_alignment, 16)};
      Bytes bytes(static_cast<std::byte*>(::operator new(size + guard_bytes, alignment)), Free{alignment});
      std::fill_n(bytes.get(), size + guard_bytes, poison);
      return bytes;
    }
  };

  /// What is declared and what the launch has made room for, which asks for more than most_shared only if it needs it.
  void check_all_shared(const Site& site) const {
    const std::size_t most = large_shared_ > most_shared ? most_large_shared : most_shared;
    if (large_shared_ + shared_bytes_ <= most) return;
    throw Fault("a block has " + std::to_string(large_shared_) + " + " + std::to_string(shared_bytes_) +
                " bytes of shared memory at " + site.text() + ", at most " + std::to_string(most) + " are given");
  }
  static std::uintptr_t part_of(const void* place) { return reinterpret_cast<std::uintptr_t>(place) / most_aligned; }
  void* shared_of(const void* key) {
    for (const SharedObject& object : shared_) {
      if (object.key == key) return object.bytes.get();
    }
    return nullptr;
  }
  void* add_shared(const void* key, std::size_t size, std::size_t alignment, const Site& site) {
    shared_.push_back({key, size, site, SharedObject::allocate(size, alignment)});
    return shared_.back().bytes.get();
  }

  void enter(Body kernel, void* launch) {
    try {
      kernel();
      const std::vector<Copy>& copies = thread_of_[current_]->copies;
      if (!copies.empty()) {
        throw Fault("thread " + std::to_string(current_) + " returned before a copy landed that it began at " +
                    copies.front().site.text());
      }
      if (!thread_of_[current_]->products.empty()) {
        throw Fault("thread " + std::to_string(current_) + " returned before products of its warpgroup were there");
      }
      release(launch);  // seen by the host after the launch, not by other blocks
    } catch (const Abandoned&) {
    }
  }

  void suspend() {
    Fiber::suspend();
    if (abandoned_) throw Abandoned{};
  }

  std::shared_ptr<Meeting> arrive(unsigned mask, const void* value, std::size_t bytes, const Site& site,
                                  bool orders_memory) {
    Thread& self = *thread_of_[current_];
    const unsigned first = current_ - lane(), own = 1u << lane();
    const auto lanes = std::min<std::size_t>(warp_size, threads_.size() - first);
    if (!(mask & own)) {
      throw Fault("the mask " + hex(mask) + " leaves out the lane that names it, thread " + std::to_string(current_) +
                  " at " + site.text());
    }
    if (lanes < warp_size && mask >> lanes) {
      throw Fault("the mask " + hex(mask) + " names lanes of which the block has no threads, at " + site.text());
    }
    auto& open = warps_[current_ / warp_size].open;
    auto place = std::find_if(open.begin(), open.end(), [&](const auto& m) { return m->mask == mask; });
    if (place == open.end()) {
      place = open.insert(open.end(), std::make_shared<Meeting>());
      (*place)->site = site;
      (*place)->mask = mask;
    }
    const std::shared_ptr<Meeting> meeting = *place;
    if (!(meeting->site == site)) {
      throw Fault("lanes of one mask meet at different places: " + meeting->site.text() + " and " + site.text());
    }
    if (bytes) std::memcpy(meeting->deposits[lane()], value, bytes);
    meeting->arrived |= own;
    if (orders_memory) release(meeting.get());
    self.wait = Wait::warp;
    self.site = site;
    self.mask = mask;
    if (meeting->arrived == mask) {
      open.erase(place);
      for (unsigned i = 0; i < warp_size; ++i) {
        if (mask >> i & 1) thread_of_[first + i]->wait = Wait::no;
      }
    }
    suspend();
    return meeting;
  }

  void open_barrier() {
    const Site& site = threads_.front().site;
    for (const Thread& thread : threads_) {
      if (!(thread.site == site)) throw Fault(situation("threads of a block meet at different barriers"));
    }
    for (Thread& thread : threads_) thread.wait = Wait::no;
    at_barrier_ = 0;
    ++barriers_;
  }

  /// The thread that goes on.
  unsigned next() {
    const unsigned count = size_.count();
    const auto first_from = [&](unsigned begin, unsigned end, unsigned start, unsigned step) {  // in turns
      const unsigned length = end - begin;
      for (unsigned k = 0, i = start; k < length; ++k) {
        if (thread_of_[i]->can_run()) return i;
        i += step;
        if (i >= end) i -= length;
      }
      return count;
    };
    const auto in_warp = [&](unsigned warp) {
      const unsigned begin = warp * warp_size;
      return first_from(begin, std::min(begin + warp_size, count), begin, 1);
    };
    unsigned found = count;
    switch (schedule_.order) {
      case Order::forward: found = first_from(0, count, (current_ + 1) % count, 1); break;
      case Order::reverse: found = first_from(0, count, (current_ + count - 1) % count, count - 1); break;
      case Order::random: found = first_from(0, count, static_cast<unsigned>(draw() % count), 1); break;
      case Order::greedy:
        found = in_warp(static_cast<unsigned>(schedule_.seed % warps_.size()));
        if (found == count) found = in_warp(current_ / warp_size);
        if (found == count) found = first_from(0, count, current_, 1);
        break;
    }
    if (found == count) throw Fault(deadlock());
    return found;
  }
  std::uint64_t draw() {  // splitmix64
    std::uint64_t z = random_ += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
  }

  std::string deadlock() const {
    if (at_barrier_ == 0 || at_barrier_ + ended_ < threads_.size()) return situation("deadlock");
    return situation("a barrier that threads have returned without reaching");
  }

  /// What each thread waits for, neighbours together.
  std::string situation(const std::string& what) const {
    std::string text = what + ", block (" + std::to_string(index_.x) + ", " + std::to_string(index_.y) + ", " +
                       std::to_string(index_.z) + ")";
    const auto state = [](const Thread& thread) -> std::string {
      if (thread.fiber.ended()) return "returned";
      if (thread.wait == Wait::no) return "can run";
      return "at " + thread.site.text() + (thread.wait == Wait::warp ? ", mask " + hex(thread.mask) : "");
    };
    for (std::size_t begin = 0, end = 0; begin < threads_.size(); begin = end) {
      const std::string common = state(*thread_of_[begin]);
      while (end < threads_.size() && state(*thread_of_[end]) == common) ++end;
      text += "\n  " + (end - begin == 1 ? "thread " + std::to_string(begin)
                                         : "threads " + std::to_string(begin) + " to " + std::to_string(end - 1)) +
              ": " + common;
    }
    return text;
  }
  static std::string hex(unsigned mask) {
    std::string digits = "0x";
    for (int shift = 28; shift >= 0; shift -= 4) digits += "0123456789abcdef"[mask >> shift & 15];
    return digits;
  }

  void check_guards() const {
    for (const SharedObject& object : shared_) {
      const std::byte* guard = object.bytes.get() + object.size;
      const auto untouched = [](std::byte b) { return b == SharedObject::poison; };
      if (std::all_of(guard, guard + SharedObject::guard_bytes, untouched)) continue;
      throw Fault("something was written behind the shared object of " + object.site.text());
    }
  }

  /// An instruction of a warpgroup is one for its four warps.
  void check_groups() const {
    for (std::size_t warp = 0; warp < warps_.size(); ++warp) {
      const std::size_t first = warp / group_warps * group_warps;
      if (warps_[warp].joined == warps_[first].joined) continue;
      throw Fault("warps " + std::to_string(first) + " and " + std::to_string(warp) +
                  " of one warpgroup do not execute the same of its instructions");
    }
  }

  void abandon() {
    abandoned_ = true;
    for (Thread& thread : threads_) {
      if (thread.fiber.begun() && !thread.fiber.ended()) thread.fiber.resume();
    }
  }

  Extent grid_, index_, size_;
  Schedule schedule_;
  std::uint64_t random_;
  std::list<Thread> threads_;         // fibers do not move
  std::vector<Thread*> thread_of_;
  struct Warp {
    std::vector<std::shared_ptr<Meeting>> open{};  ///< meetings
    std::vector<Site> joined{};                    ///< instructions of its warpgroup
  };
  std::vector<Warp> warps_;
  std::vector<SharedObject> shared_;
  std::size_t large_shared_, shared_bytes_ = 0, at_barrier_ = 0, ended_ = 0;
  unsigned current_ = 0, barriers_ = 0;
  bool abandoned_ = false;
  char barrier_tags_[2] = {};
};

/// A GPU reads and writes numbers beside each other only where they begin on as many bytes.
///
/// Errors  throws Fault elsewhere
inline void check_aligned(const void* place, std::size_t bytes, const char* file = __builtin_FILE(),
                          int line = __builtin_LINE()) {
  if (reinterpret_cast<std::uintptr_t>(place) % bytes == 0) return;
  throw Fault("what is not on " + std::to_string(bytes) + " bytes is read or written as a whole at " +
              Site{"neighbours", file, line}.text());
}

/// How launches are scheduled from now on.
inline Schedule& schedule() {
  static Schedule value;
  return value;
}

/// Runs a kernel over a grid.
///
/// Errors  throws Fault, with its place in the kernel, and what the kernel throws
inline void run(Extent grid, Extent block, Body kernel, std::size_t large_shared = 0) {
  const Ignored executor;
  if (grid.count() == 0 || block.count() == 0 || block.count() > most_threads) {
    throw Fault("a launch of " + std::to_string(grid.count()) + " blocks of " + std::to_string(block.count()) +
                " threads");
  }
  if (grid.y > 65535 || grid.z > 65535) {
    throw Fault("a grid of " + std::to_string(grid.y) + " by " + std::to_string(grid.z) + " blocks beside its x");
  }
  const Schedule own = schedule();
  const unsigned count = grid.count();
  std::vector<unsigned> blocks(count);
  for (unsigned i = 0; i < count; ++i) blocks[i] = own.order == Order::reverse ? count - 1 - i : i;
  std::uint64_t random = own.seed + 1;
  if (own.order == Order::random) {
    for (unsigned i = count; i > 1; --i) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      std::swap(blocks[i - 1], blocks[(random >> 33) % i]);
    }
  }
  char launch = 0;
  for (const unsigned i : blocks) Block(grid, grid.at(i), block, large_shared, own, random + i).run(kernel, &launch);
  acquire(&launch);
}

/// Calls f under each of the schedules; ThreadSanitizer finds the same under any, and is slow.
template <class F>
void each_schedule(const F& f) {
  const Schedule before = schedule();
  for (const Schedule& one : {Schedule{Order::forward}, Schedule{Order::reverse}, Schedule{Order::random, 1},
                              Schedule{Order::random, 2}, Schedule{Order::greedy, 0}, Schedule{Order::greedy, 1}}) {
    schedule() = one;
    f();
    if (thread_sanitized) break;
  }
  schedule() = before;
}

}  // namespace emulation
