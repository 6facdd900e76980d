include(GoogleTest)

# Precompiles headers for a target of at least three sources: the project's common ones and HEADERS.
function(pipedream_precompile name)
  get_target_property(sources ${name} SOURCES)
  list(LENGTH sources count)
  if(PIPEDREAM_PCH AND count GREATER_EQUAL 3)
    target_precompile_headers(${name} PRIVATE
      <absl/status/statusor.h> <fmt/format.h> <map> <memory> <string> <vector> ${ARGN})
  endif()
endfunction()

# pipedream_library(NAME [DEPS ...] [PRECOMPILE header ...]): one static library from every *.cc below the current
# folder that no nested CMakeLists.txt claims. Adding a file needs no edit here.
function(pipedream_library name)
  cmake_parse_arguments(ARG "" "" "DEPS;PRECOMPILE" ${ARGN})
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
  pipedream_precompile(${name} ${ARG_PRECOMPILE})
endfunction()

# pipedream_program(NAME SOURCES ... [DEPS ...])
function(pipedream_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  list(GET ARG_SOURCES 0 main)
  if(NOT EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/${main}")
    return()
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE "${CMAKE_SOURCE_DIR}")
  target_link_libraries(${name} PRIVATE ${ARG_DEPS})
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
  pipedream_precompile(${name} <gmock/gmock.h> <gtest/gtest.h>)
  gtest_discover_tests(${name}
    TEST_PREFIX "${folder}: " DISCOVERY_TIMEOUT 60
    PROPERTIES LABELS "${ARG_LABEL}" TIMEOUT ${ARG_TIMEOUT})
endfunction()
