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
      # The checks themselves mislead these two warnings; the other builds keep them.
      add_compile_options(-Wno-array-bounds -Wno-stringop-overflow)
    endif()
  endif()
  if(FORKLIFT_SANITIZE MATCHES thread AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    add_compile_options(-Wno-tsan)  # "atomic_thread_fence is not supported" is a note about the tool
  endif()
endif()

# Warnings, position independent code, hidden symbols. A shared build exports everything: the headers
# carry no export macros, and the static library is the product.
function(forklift_own_target target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wconversion $<$<BOOL:${FORKLIFT_WERROR}>:-Werror>)
  set_target_properties(${target} PROPERTIES
    CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF POSITION_INDEPENDENT_CODE ON)
  get_target_property(type ${target} TYPE)
  if(NOT type STREQUAL SHARED_LIBRARY)
    set_target_properties(${target} PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  else()
    set_target_properties(${target} PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
  endif()
endfunction()
