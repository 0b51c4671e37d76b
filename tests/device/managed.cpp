// SPDX-License-Identifier: MIT
/// Tests of kernels give them what lies in vectors: so on a GPU all memory of the host is where both sides reach it.
/// They look at results at once, too, for which there is CUDA_LAUNCH_BLOCKING=1.
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <memory_resource>
#include <mutex>
#include <new>

// As in cuda_runtime_api.h, which g++ does not find.
extern "C" int cudaMallocManaged(void** place, std::size_t size, unsigned flags);
extern "C" const char* cudaGetErrorString(int error);

namespace {

struct Managed {
  static constexpr std::size_t size = std::size_t(4) << 30;  // of addresses; pages are taken as they are touched
  static constexpr unsigned for_all_streams = 1;

  static void* begin() {
    void* place = nullptr;
    const int error = cudaMallocManaged(&place, size, for_all_streams);
    if (error) {
      std::fprintf(stderr, "error: no memory of a GPU: %s\n", cudaGetErrorString(error));
      std::_Exit(1);
    }
    return place;
  }
  std::pmr::monotonic_buffer_resource all{begin(), size, std::pmr::null_memory_resource()};
};

/// Never destroyed: others that live as long may still free. What CUDA asks for on the way is its own.
void* allocate(std::size_t bytes) {
  constexpr std::size_t alignment = 256;  // that of cudaMalloc
  alignas(Managed) static std::byte place[sizeof(Managed)];
  static Managed* managed = nullptr;
  static bool begins = false;
  static std::recursive_mutex mutex;
  const std::scoped_lock lock(mutex);
  if (begins) return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (!managed) {
    begins = true;
    managed = new (place) Managed;
    begins = false;
  }
  return managed->all.allocate(bytes, alignment);
}

}  // namespace

// Vectors are short, and a test is soon over: nothing is given back.
void* operator new(std::size_t size) { return allocate(size); }
void* operator new[](std::size_t size) { return allocate(size); }
void* operator new(std::size_t size, std::align_val_t) { return allocate(size); }
void* operator new[](std::size_t size, std::align_val_t) { return allocate(size); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return allocate(size); }
void operator delete(void*) noexcept {}
void operator delete[](void*) noexcept {}
void operator delete(void*, std::size_t) noexcept {}
void operator delete[](void*, std::size_t) noexcept {}
void operator delete(void*, std::align_val_t) noexcept {}
void operator delete[](void*, std::align_val_t) noexcept {}
void operator delete(void*, std::size_t, std::align_val_t) noexcept {}
void operator delete[](void*, std::size_t, std::align_val_t) noexcept {}
