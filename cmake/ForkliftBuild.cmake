# What every target of ours is built with. Included once, by the top CMakeLists.txt.
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)

get_property(forklift_multi_config GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
if(PROJECT_IS_TOP_LEVEL AND NOT forklift_multi_config AND NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(FORKLIFT_CCACHE ccache)
  mark_as_advanced(FORKLIFT_CCACHE)
  if(FORKLIFT_CCACHE)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${FORKLIFT_CCACHE})
  endif()
endif()

# A sanitizer must see every object of the program, so it is no property of one target.
if(FORKLIFT_SANITIZE)
  add_compile_options(-fsanitize=${FORKLIFT_SANITIZE} -fno-omit-frame-pointer -g)
  add_link_options(-fsanitize=${FORKLIFT_SANITIZE})
  if(FORKLIFT_SANITIZE MATCHES undefined)
    add_compile_options(-fno-sanitize-recover=undefined)
    if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
      # The checks themselves mislead these three warnings; the other builds keep them.
      add_compile_options(-Wno-array-bounds -Wno-maybe-uninitialized -Wno-stringop-overflow)
    endif()
  endif()
  if(FORKLIFT_SANITIZE MATCHES thread AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    # GCC 12 takes what the instrumentation separates from its check (an optional's value) for uninitialised.
    add_compile_options(-Wno-maybe-uninitialized)
    add_compile_options(-Wno-tsan)  # "atomic_thread_fence is not supported" is a note about the tool
  endif()
endif()

# Warnings, position independent code, hidden symbols. What a shared library exports is what the public headers
# declare: its sources see them first, as visible, and everything else as hidden, so that no header carries
# export macros.
function(forklift_own_target target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wconversion $<$<BOOL:${FORKLIFT_WERROR}>:-Werror>)
  set_target_properties(${target} PROPERTIES
    CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF POSITION_INDEPENDENT_CODE ON
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL SHARED_LIBRARY)
    file(GLOB headers RELATIVE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/include/forklift/*.h)
    list(TRANSFORM headers REPLACE "(.+)" "#include \"\\1\"")
    list(JOIN headers "\n" headers)
    set(exported ${PROJECT_BINARY_DIR}/${target}_exported.h)
    file(CONFIGURE OUTPUT ${exported} @ONLY CONTENT
      "#pragma GCC visibility push(default)\n@headers@\n#pragma GCC visibility pop\n")
    # Precompiled, or each source would pay for all of them.
    target_precompile_headers(${target} PRIVATE ${exported})
    if(CMAKE_DISABLE_PRECOMPILE_HEADERS)
      target_compile_options(${target} PRIVATE -include ${exported})
    endif()
    set(map ${PROJECT_BINARY_DIR}/${target}.map)
    configure_file(${PROJECT_SOURCE_DIR}/cmake/forklift.map.in ${map} @ONLY)
    target_link_options(${target} PRIVATE LINKER:--version-script=${map} LINKER:--no-undefined)
    # Before 1.0 each minor version is an interface of its own.
    set_target_properties(${target} PROPERTIES LINK_DEPENDS ${map} VERSION ${PROJECT_VERSION}
      SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  endif()
endfunction()
