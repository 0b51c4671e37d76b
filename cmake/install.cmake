# SPDX-License-Identifier: MIT
# Headers, and below share/ the CMake package and the pkg-config module: nothing here depends on a machine. Those of the
# build folder serve the source tree uninstalled: -Dsimplx_DIR=build for CMake, PKG_CONFIG_PATH=build for pkg-config.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_DATADIR}/cmake/simplx)

install(TARGETS simplx EXPORT simplx-targets FILE_SET HEADERS)
install(EXPORT simplx-targets NAMESPACE simplx:: DESTINATION ${package_dir})
export(EXPORT simplx-targets NAMESPACE simplx::)
foreach(helper simplx-variants simplx-cuda)
  configure_file(cmake/${helper}.cmake ${helper}.cmake COPYONLY)
endforeach()
configure_package_config_file(cmake/simplx-config.cmake.in simplx-config.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(simplx-config-version.cmake COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES ${PROJECT_BINARY_DIR}/simplx-config.cmake ${PROJECT_BINARY_DIR}/simplx-config-version.cmake
        cmake/simplx-variants.cmake cmake/simplx-cuda.cmake DESTINATION ${package_dir})

# Where the headers lie as seen from the module, so that an installation can be moved.
file(RELATIVE_PATH include_dir ${CMAKE_INSTALL_FULL_DATADIR}/pkgconfig ${CMAKE_INSTALL_FULL_INCLUDEDIR})
set(include_dir "\${pcfiledir}/${include_dir}")
configure_file(cmake/simplx.pc.in simplx.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/simplx.pc DESTINATION ${CMAKE_INSTALL_DATADIR}/pkgconfig)
set(include_dir ${PROJECT_SOURCE_DIR}/include)
configure_file(cmake/simplx.pc.in simplx-uninstalled.pc @ONLY)
