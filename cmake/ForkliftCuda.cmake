# The kernels of src/kernels/cuda, compiled by nvcc where a CUDA toolkit is installed, and embedded in the library. Without
# one the library is built as well; its operations on a GPU say that it has no kernels. FORKLIFT_CUDA_KERNELS=OFF leaves them
# out, FORKLIFT_NVCC names another compiler.
#
# PTX for the oldest GPUs that the toolkits of today know is what the driver of any newer GPU compiles at the first use
# (and keeps in its cache); FORKLIFT_CUDA_REAL_ARCHITECTURES are those for which that is done here.
option(FORKLIFT_CUDA_KERNELS "Compile the kernels for GPUs where nvcc is found" ON)
set(FORKLIFT_CUDA_REAL_ARCHITECTURES "90" CACHE STRING "Compute capabilities, without the dot, that get code of their own")
find_program(FORKLIFT_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH /usr/local/cuda PATH_SUFFIXES bin
  DOC "NVIDIA's compiler; without it there are no kernels for GPUs")
mark_as_advanced(FORKLIFT_NVCC FORKLIFT_CUDA_REAL_ARCHITECTURES)

function(forklift_add_cuda_kernels target)
  if(NOT FORKLIFT_CUDA_KERNELS OR NOT FORKLIFT_NVCC)
    message(STATUS "No kernels for GPUs: nvcc was not found, or FORKLIFT_CUDA_KERNELS is off")
    return()
  endif()
  set(folder ${PROJECT_SOURCE_DIR}/src/kernels/cuda)
  set(images ${PROJECT_BINARY_DIR}/cuda_images)
  file(MAKE_DIRECTORY ${images})
  set(architectures -gencode arch=compute_75,code=compute_75)
  foreach(number IN LISTS FORKLIFT_CUDA_REAL_ARCHITECTURES)
    list(APPEND architectures -gencode arch=compute_${number},code=sm_${number})
  endforeach()
  # Products and sums are rounded one by one, as on the CPU. Number 186: one template serves integers with and without a
  # sign, so some of its comparisons with zero are pointless.
  set(flags -std=c++20 -O3 -fmad=false --expt-relaxed-constexpr -diag-suppress 186)
  if(FORKLIFT_WERROR)
    list(APPEND flags -Werror all-warnings)
  endif()
  foreach(name IN ITEMS map reduce matmul)
    set(image ${images}/${name}.fatbin)
    add_custom_command(OUTPUT ${image}
      COMMAND ${FORKLIFT_NVCC} ${flags} ${architectures} -I${PROJECT_SOURCE_DIR}/src -I${PROJECT_SOURCE_DIR}/include
        -MD -MF ${image}.d -fatbin -o ${image} ${folder}/${name}.cu
      DEPENDS ${folder}/${name}.cu DEPFILE ${image}.d
      COMMENT "Compiling the GPU's kernels of ${name}.cu" VERBATIM)
    list(APPEND all ${image})
  endforeach()
  # The assembler reads the images, which no compiler's list of dependencies shows.
  set_source_files_properties(${folder}/images.cpp PROPERTIES OBJECT_DEPENDS "${all}"
    COMPILE_DEFINITIONS "FORKLIFT_CUDA_IMAGE_FOLDER=\"${images}\"" SKIP_UNITY_BUILD_INCLUSION ON)
  target_sources(${target} PRIVATE ${all})
endfunction()
