# Headers, library, CMake package and pkg-config file: into a prefix, or into the Python package of a wheel.
include(CMakePackageConfigHelpers)
set(forklift_cmake_dir ${forklift_library_dir}/cmake/forklift)
# A wheel installs this component only.
if(SKBUILD)
  set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME python)
else()
  set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME forklift)
endif()

install(TARGETS forklift EXPORT forkliftTargets
  ARCHIVE DESTINATION ${forklift_library_dir}
  LIBRARY DESTINATION ${forklift_library_dir})
if(TARGET forklift_mpi)
  install(TARGETS forklift_mpi EXPORT forkliftMpiTargets ARCHIVE DESTINATION ${forklift_library_dir})
  install(EXPORT forkliftMpiTargets NAMESPACE forklift:: DESTINATION ${forklift_cmake_dir})
endif()
install(TARGETS forklift-shm-manager RUNTIME DESTINATION ${forklift_libexec_dir})
set(forklift_left_out)
if(NOT TARGET forklift_mpi)
  set(forklift_left_out PATTERN mpi EXCLUDE)
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/forklift DESTINATION ${forklift_include_dir}
  FILES_MATCHING PATTERN "*.h" ${forklift_left_out})
install(EXPORT forkliftTargets NAMESPACE forklift:: DESTINATION ${forklift_cmake_dir})

get_target_property(forklift_type forklift TYPE)
string(TOLOWER ${forklift_type} forklift_linkage)
string(REPLACE _library "" forklift_linkage ${forklift_linkage})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/forkliftConfig.cmake.in
  ${PROJECT_BINARY_DIR}/forkliftConfig.cmake INSTALL_DESTINATION ${forklift_cmake_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/forkliftConfigVersion.cmake
  VERSION ${PROJECT_VERSION} COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/forkliftConfig.cmake ${PROJECT_BINARY_DIR}/forkliftConfigVersion.cmake
  DESTINATION ${forklift_cmake_dir})

# Relative, so that the installed tree can be moved and `cmake --install --prefix` needs no second configure.
# The wheel's parts lie side by side: forklift/cpp/{include,lib}.
if(SKBUILD)
  set(forklift_pc_to_prefix ../..)
  set(forklift_pc_include include)
else()
  file(RELATIVE_PATH forklift_pc_to_prefix /${forklift_library_dir}/pkgconfig /)
  set(forklift_pc_include ${forklift_include_dir})
endif()
configure_file(${PROJECT_SOURCE_DIR}/cmake/forklift.pc.in ${PROJECT_BINARY_DIR}/forklift.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/forklift.pc DESTINATION ${forklift_library_dir}/pkgconfig)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${forklift_doc_dir})
