# The tests of forklift::mpi: jobs that mpirun starts, on this machine. Included by tests/cpp/CMakeLists.txt.
if(NOT TARGET forklift_mpi)
  message(STATUS "forklift::mpi is not built: its tests are left out")
  return()
endif()
if(FORKLIFT_SANITIZE)
  message(STATUS "The tests of forklift::mpi are left out: what sanitizers find in the MPI library would fail them")
  return()
endif()
foreach(program IN ITEMS collectives faults pool)
  add_executable(forklift_mpi_${program} ${CMAKE_CURRENT_LIST_DIR}/${program}.cpp)
  forklift_own_target(forklift_mpi_${program})
  target_link_libraries(forklift_mpi_${program} PRIVATE forklift::mpi)
endforeach()
target_link_libraries(forklift_mpi_collectives PRIVATE GTest::gtest)
target_link_libraries(forklift_mpi_pool PRIVATE GTest::gtest)

# forklift_mpi_test(NAME RANKS PROGRAM [-D of run.cmake ...])
function(forklift_mpi_test name ranks program)
  list(TRANSFORM ARGN PREPEND "-D")
  add_test(NAME mpi.${name} COMMAND ${CMAKE_COMMAND} -D mpirun=${MPIEXEC_EXECUTABLE} -D ranks=${ranks}
    -D program=$<TARGET_FILE:forklift_mpi_${program}> ${ARGN} -P ${PROJECT_SOURCE_DIR}/tests/cpp/mpi/run.cmake)
  # The ranks of several jobs at once would take the processors from each other.
  set_tests_properties(mpi.${name} PROPERTIES LABELS mpi TIMEOUT 200 RUN_SERIAL TRUE)
endfunction()

set(collectives "words=PASSED")
forklift_mpi_test(collectives.one_node 3 collectives ${collectives} "environment=FORKLIFT_TEST_MPI_NODES=1")
forklift_mpi_test(collectives.two_nodes 4 collectives ${collectives}
  "environment=FORKLIFT_MPI_NODE_RANKS=2 FORKLIFT_TEST_MPI_NODES=2")
forklift_mpi_test(collectives.unequal_nodes 5 collectives ${collectives}
  "environment=FORKLIFT_MPI_NODE_RANKS=3 FORKLIFT_TEST_MPI_NODES=2")
forklift_mpi_test(collectives.lone_ranks 3 collectives ${collectives}
  "environment=FORKLIFT_MPI_NODE_RANKS=1 FORKLIFT_TEST_MPI_NODES=3")
forklift_mpi_test(collectives.one_rank 1 collectives ${collectives})
set(two_nodes FORKLIFT_MPI_NODE_RANKS=2)
forklift_mpi_test(faults.killed 4 faults arguments=killed fails=TRUE "environment=${two_nodes}" "words=signal 9|rank 3")
forklift_mpi_test(faults.stopped 4 faults arguments=stopped fails=TRUE
  "environment=${two_nodes} FORKLIFT_MPI_SILENCE=5"
  "words=forklift.mpi: rank 3 .process [0-9]+ on .*has not been heard of for 5 s")
forklift_mpi_test(faults.throws 4 faults arguments=throws fails=TRUE "environment=${two_nodes}"
  "words=caught: this rank has had enough.*forklift.mpi: rank 3 .process [0-9]+ on [^\n]* was left by an exception")
forklift_mpi_test(faults.exits 4 faults arguments=exits fails=TRUE "environment=${two_nodes}"
  "words=forklift.mpi: rank 3 .* exits with status 3 before its forklift::mpi::Job was gone")
forklift_mpi_test(faults.layout 2 faults arguments=late fails=TRUE "environment=FORKLIFT_MPI_NODE_RANKS=none"
  "words=FORKLIFT_MPI_NODE_RANKS must be the number of ranks of a node, 1 or more, not .none.")
forklift_mpi_test(faults.late 4 faults arguments=late fails=TRUE "environment=${two_nodes}"
  "words=given up: .*and stays so")
forklift_mpi_test(pool.two_nodes 4 pool ${collectives} "environment=${two_nodes}")
forklift_mpi_test(pool.one_node 3 pool ${collectives})
forklift_mpi_test(pool.one_rank 1 pool ${collectives})
forklift_mpi_test(pool.lone_ranks 3 pool ${collectives} "environment=FORKLIFT_MPI_NODE_RANKS=1")
foreach(whom IN ITEMS agent driver)
  forklift_mpi_test(faults.${whom} 4 pool fails=TRUE "environment=${two_nodes} FORKLIFT_TEST_KILL=${whom}"
    "words=signal 9|rank [0-9]+")
endforeach()
