# SPDX-License-Identifier: MIT
# simplx_add_variants(PROGRAM SOURCE [LIBRARY...]) compiles a source for each instruction set of x86-64 that the library
# has kernels for, and links them into a program that chooses by simplx::for_this_cpu (core/for_this_cpu.hpp).
function(simplx_add_variants program source)
  set(avx512 -mavx2 -mfma -mavx512f -mavx512bw -mavx512dq -mavx512vl)
  set(flags_of_sse2 "")
  set(flags_of_avx2_fma -mavx2 -mfma)
  set(flags_of_avx512 ${avx512})
  set(flags_of_avx512_bf16 ${avx512} -mavx512bf16)
  set(flags_of_amx_bf16 ${flags_of_avx512_bf16} -mamx-tile -mamx-bf16)
  # Eigen allocates by its alignment, which follows the flags; units that share a program must agree on it.
  target_compile_definitions(${program} PRIVATE EIGEN_MAX_ALIGN_BYTES=64)
  # The plainest is linked first: of functions that are not of simplx (std, Eigen) the linker keeps the first.
  foreach(set IN ITEMS sse2 avx2_fma avx512 avx512_bf16 amx_bf16)
    set(unit ${program}_${set})
    add_library(${unit} OBJECT ${source})
    target_link_libraries(${unit} PRIVATE simplx::simplx ${ARGN})
    target_compile_definitions(${unit} PRIVATE EIGEN_MAX_ALIGN_BYTES=64)
    target_compile_options(${unit} PRIVATE ${flags_of_${set}})
    target_sources(${program} PRIVATE $<TARGET_OBJECTS:${unit}>)
  endforeach()
endfunction()
