# Headers, library, CMake package and pkg-config file.
include(CMakePackageConfigHelpers)
set(forklift_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/forklift)

install(TARGETS forklift EXPORT forkliftTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/forklift DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.h")
install(EXPORT forkliftTargets NAMESPACE forklift:: DESTINATION ${forklift_cmake_dir})

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/forkliftConfig.cmake.in
  ${PROJECT_BINARY_DIR}/forkliftConfig.cmake INSTALL_DESTINATION ${forklift_cmake_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/forkliftConfigVersion.cmake
  VERSION ${PROJECT_VERSION} COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/forkliftConfig.cmake ${PROJECT_BINARY_DIR}/forkliftConfigVersion.cmake
  DESTINATION ${forklift_cmake_dir})

# Relative, so that the installed tree can be moved and `cmake --install --prefix` needs no second configure.
file(RELATIVE_PATH forklift_pc_to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(${PROJECT_SOURCE_DIR}/cmake/forklift.pc.in ${PROJECT_BINARY_DIR}/forklift.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/forklift.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
