# The loops of src/kernels/isa, once for each set of instructions; kernels::loops() chooses when the program runs.
# These objects see no precompiled header and are never joined with others: what they were compiled for would spread.
find_path(EIGEN3_INCLUDE_DIR NAMES Eigen/Core PATH_SUFFIXES eigen3 DOC "Folder with Eigen/Core (Debian: libeigen3-dev)")
if(NOT EIGEN3_INCLUDE_DIR)
  message(FATAL_ERROR "Eigen is missing: install libeigen3-dev, or set EIGEN3_INCLUDE_DIR")
endif()
mark_as_advanced(EIGEN3_INCLUDE_DIR)

function(forklift_add_kernels target)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/kernels/isa/*.cpp)
  set(base_flags "")
  set(variants base)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    list(APPEND variants avx2 avx512)
    set(avx2_flags -mavx2 -mfma -mf16c -mbmi2)
    set(avx512_flags -march=x86-64-v4 -mprefer-vector-width=512)
  endif()
  set(FORKLIFT_KERNEL_VARIANTS ${variants} PARENT_SCOPE)
  foreach(variant IN LISTS variants)
    set(objects ${target}_kernels_${variant})
    add_library(${objects} OBJECT ${sources})
    forklift_own_target(${objects})
    target_include_directories(${objects} PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
    target_include_directories(${objects} SYSTEM PRIVATE ${EIGEN3_INCLUDE_DIR})
    target_compile_definitions(${objects} PRIVATE FORKLIFT_ISA=${variant} FORKLIFT_ISA_NAME="${variant}")
    # Products and sums are rounded one by one, as NumPy's are; nobody looks at errno or at floating-point flags. A Debug
    # build is quick to compile: without -O3 some of these files take a tenth of the time.
    target_compile_options(${objects} PRIVATE $<$<NOT:$<CONFIG:Debug>>:-O3> -fopenmp-simd -ffp-contract=off
      -fno-math-errno -fno-trapping-math ${${variant}_flags})
    if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
      # A loop that calls fmod has no vectors: no reason to warn of it.
      target_compile_options(${objects} PRIVATE -Wno-pass-failed)
    endif()
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${objects}>)
  endforeach()
  target_link_libraries(${target} PRIVATE ${CMAKE_DL_LIBS})
endfunction()
