# SPDX-License-Identifier: MIT
# An overlay port: it packages the source tree that contains it. In a registry, vcpkg_from_github gives SOURCE_PATH.
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

set(VCPKG_BUILD_TYPE release)  # headers alone
vcpkg_cmake_configure(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS -DSIMPLX_TESTS=OFF -DSIMPLX_EXAMPLES=OFF -DSIMPLX_NATIVE=OFF -DSIMPLX_INSTALL=ON)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH share/cmake/simplx)
vcpkg_fixup_pkgconfig()

vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
