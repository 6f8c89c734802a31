# A port of the source tree that it lies in:
#
#   vcpkg install forklift --overlay-ports=packaging/vcpkg
cmake_path(SET SOURCE_PATH NORMALIZE "${CMAKE_CURRENT_LIST_DIR}/../../..")

vcpkg_cmake_configure(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS
    -DFORKLIFT_BUILD_TESTS=OFF
    -DFORKLIFT_MPI=OFF
    -DFORKLIFT_CUDA_KERNELS=OFF
    "-DEIGEN3_INCLUDE_DIR=${CURRENT_INSTALLED_DIR}/include/eigen3"
    "-DMSGPACK_INCLUDE_DIR=${CURRENT_INSTALLED_DIR}/include"
    "-DPROTOZERO_INCLUDE_DIR=${CURRENT_INSTALLED_DIR}/include"
)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(PACKAGE_NAME forklift CONFIG_PATH lib/cmake/forklift)
vcpkg_fixup_pkgconfig()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
