include(GoogleTest)

# Headers are precompiled once for all targets: `pch_common` for most, `pch_rpc` for those that speak gRPC,
# which the daemons and the client do, `pch_test` for tests. Generated headers stay out: a compiler cache
# does not see that they changed.
function(pipedream_precompiled name)
  cmake_parse_arguments(ARG "" "" "HEADERS;DEPS" ${ARGN})
  file(WRITE "${CMAKE_BINARY_DIR}/pch/${name}.cc" "")
  add_library(${name} OBJECT "${CMAKE_BINARY_DIR}/pch/${name}.cc")
  target_link_libraries(${name} PRIVATE absl::statusor fmt::fmt ${ARG_DEPS})
  target_precompile_headers(${name} PRIVATE <absl/status/statusor.h> <fmt/format.h> <fmt/ranges.h>
    <algorithm> <functional> <map> <memory> <optional> <set> <string> <unordered_map> <vector> ${ARG_HEADERS})
endfunction()
if(PIPEDREAM_PCH)
  pipedream_precompiled(pch_common)
  pipedream_precompiled(pch_rpc HEADERS <CLI/CLI.hpp> <grpcpp/grpcpp.h> DEPS CLI11::CLI11 gRPC::grpc++)
  if(PIPEDREAM_BUILD_TESTS)
    pipedream_precompiled(pch_test HEADERS <gmock/gmock.h> <grpcpp/grpcpp.h> <gtest/gtest.h>
      DEPS GTest::gtest GTest::gmock gRPC::grpc++)
    target_compile_options(pch_test PRIVATE ${PIPEDREAM_TEST_OPTIONS})
  endif()
endif()

# How the sources of a target are compiled: with which of the precompiled headers, in batches of how many.
function(pipedream_compile name pch batch)
  if(PIPEDREAM_PCH)
    target_precompile_headers(${name} REUSE_FROM ${pch})
  endif()
  if(PIPEDREAM_UNITY AND batch GREATER 1)
    set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${batch})
  endif()
endfunction()

# pipedream_library(NAME [RPC] [DEPS ...]): one static library from every *.cc below the current
# folder that no nested CMakeLists.txt claims. Adding a file needs no edit here.
function(pipedream_library name)
  cmake_parse_arguments(ARG "RPC" "" "DEPS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.cc")
  list(FILTER sources EXCLUDE REGEX "_main\\.cc$")
  if(NOT sources)  # headers only
    add_library(${name} INTERFACE)
    target_include_directories(${name} INTERFACE "${CMAKE_SOURCE_DIR}")
    target_link_libraries(${name} INTERFACE ${ARG_DEPS})
    return()
  endif()
  add_library(${name} STATIC ${sources})
  target_include_directories(${name} PUBLIC "${CMAKE_SOURCE_DIR}")
  target_link_libraries(${name} PUBLIC ${ARG_DEPS})
  if(ARG_RPC)
    pipedream_compile(${name} pch_rpc 8)
  else()
    pipedream_compile(${name} pch_common 8)
  endif()
endfunction()

# pipedream_program(NAME [RPC] SOURCES ... [DEPS ...])
function(pipedream_program name)
  cmake_parse_arguments(ARG "RPC" "" "SOURCES;DEPS" ${ARGN})
  list(GET ARG_SOURCES 0 main)
  if(NOT EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/${main}")
    return()
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE "${CMAKE_SOURCE_DIR}")
  target_link_libraries(${name} PRIVATE ${ARG_DEPS})
  if(ARG_RPC)
    pipedream_compile(${name} pch_rpc 8)
  else()
    pipedream_compile(${name} pch_common 8)
  endif()
endfunction()

# How the code of tests is compiled.
function(pipedream_compile_test name)
  target_compile_options(${name} PRIVATE ${PIPEDREAM_TEST_OPTIONS})
  pipedream_compile(${name} pch_test 6)
endfunction()

# pipedream_test(FOLDER [LABEL unit] [DEPS ...]): one test program from tests/FOLDER/*_test.cc;
# every TEST becomes a ctest case with that label.
function(pipedream_test folder)
  cmake_parse_arguments(ARG "RECURSE" "LABEL;TIMEOUT" "DEPS" ${ARGN})
  if(ARG_RECURSE)
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*_test.cc")
  else()
    file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*_test.cc")
  endif()
  if(NOT sources)
    return()
  endif()
  if(NOT ARG_LABEL)
    set(ARG_LABEL unit)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 60)
  endif()
  string(REPLACE "/" "_" name "${folder}_test")
  add_executable(${name} ${sources})
  target_include_directories(${name} PRIVATE "${CMAKE_SOURCE_DIR}")
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} tests_support GTest::gtest GTest::gmock GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE
    PIPEDREAM_SOURCE_DIR="${CMAKE_SOURCE_DIR}" PIPEDREAM_BIN_DIR="${CMAKE_RUNTIME_OUTPUT_DIRECTORY}")
  pipedream_compile_test(${name})
  gtest_discover_tests(${name}
    TEST_PREFIX "${folder}: " DISCOVERY_TIMEOUT 60
    PROPERTIES LABELS "${ARG_LABEL}" TIMEOUT ${ARG_TIMEOUT})
endfunction()
