# SPDX-License-Identifier: MIT
# What a target gets from simplx::cuda: CUDA's runtime and cuBLASLt, and the flags of its .cu files.
function(simplx_link_cuda target)
  target_link_libraries(${target} INTERFACE CUDA::cudart_static CUDA::cublasLt)
  target_compile_definitions(${target} INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:EIGEN_NO_CUDA>)
  if("${CMAKE_CUDA_ARCHITECTURES}" MATCHES "^90a(-real|-virtual)?$")
    target_compile_definitions(${target} INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:SIMPLX_WARPGROUPS>)
  endif()
  if("cuda_std_20" IN_LIST CMAKE_CUDA_COMPILE_FEATURES)
    target_compile_features(${target} INTERFACE cuda_std_20)
  else()  # CMake 3.25 does not know that nvcc has it
    target_compile_options(${target} INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20>)
  endif()
endfunction()
