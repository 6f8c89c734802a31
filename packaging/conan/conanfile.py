"""Forklift for Conan 2: `conan create packaging/conan --build=missing`."""

from pathlib import Path

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy

required_conan_version = ">=2.0"


class ForkliftConan(ConanFile):
    name = "forklift"
    version = "0.1.0"
    license = "Apache-2.0"
    description = "Shared-memory tensor transport between C++ and Python processes"
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "fPIC": [True, False]}  # noqa: RUF012
    default_options = {"shared": False, "fPIC": True}  # noqa: RUF012
    # Headers that the library itself is built with; who uses it needs none of them.
    build_only = ("eigen/[>=3.3 <6]", "msgpack-cxx/[>=3.3]", "protozero/[>=1.7]")

    def export_sources(self) -> None:
        root = Path(self.recipe_folder).parent.parent
        for part in ("CMakeLists.txt", "LICENSE", "cmake/*", "include/*", "src/*"):
            copy(self, part, root, self.export_sources_folder)

    def layout(self) -> None:
        cmake_layout(self)

    def configure(self) -> None:
        if self.options.shared:
            self.options.rm_safe("fPIC")

    def validate(self) -> None:
        check_min_cppstd(self, 20)
        if self.settings.os != "Linux" or self.settings.arch not in ("x86_64", "armv8"):
            raise ConanInvalidConfiguration("Forklift runs on Linux on x86-64 and AArch64")

    def requirements(self) -> None:
        for package in self.build_only:
            self.requires(package, libs=False, visible=False)

    def _headers_of(self, package: str, *inside: str) -> str:
        folder = Path(self.dependencies[package].cpp_info.includedirs[0])
        return str(next((folder / part for part in inside if (folder / part).is_dir()), folder))

    def generate(self) -> None:
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["FORKLIFT_BUILD_TESTS"] = False
        toolchain.cache_variables["FORKLIFT_MPI"] = "OFF"
        toolchain.cache_variables["FORKLIFT_CUDA_KERNELS"] = False
        toolchain.cache_variables["BUILD_SHARED_LIBS"] = bool(self.options.shared)
        toolchain.cache_variables["EIGEN3_INCLUDE_DIR"] = self._headers_of("eigen", "eigen3")
        toolchain.cache_variables["MSGPACK_INCLUDE_DIR"] = self._headers_of("msgpack-cxx")
        toolchain.cache_variables["PROTOZERO_INCLUDE_DIR"] = self._headers_of("protozero")
        toolchain.generate()

    def build(self) -> None:
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self) -> None:
        CMake(self).install()

    def package_info(self) -> None:
        # The library's own CMake package, as everywhere else.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = ["lib/cmake/forklift"]
        self.cpp_info.libs = ["forklift"]
        self.cpp_info.system_libs = ["pthread", "dl"]
