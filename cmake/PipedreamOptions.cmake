option(PIPEDREAM_BUILD_TESTS "Build the tests" ON)
set(PIPEDREAM_SANITIZE "" CACHE STRING "Value of -fsanitize=, empty for none")
set(PIPEDREAM_OPTIMIZE "" CACHE STRING "Optimisation flags that replace the build type's")

# The code of the tests themselves needs no optimiser; without it they compile in half the time.
set(PIPEDREAM_TEST_OPTIONS "-O1" CACHE STRING "Compile options of the tests only")

# Two ways to a short clean build, which the presets turn on: headers that most files need are compiled
# once, and so are the instances of templates that the files of a batch share.
option(PIPEDREAM_PCH "Use precompiled headers" OFF)
option(PIPEDREAM_UNITY "Compile the files of a target in batches" OFF)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
# CHECKs guard against bugs in every build; NDEBUG is not used to remove them.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
if(PIPEDREAM_OPTIMIZE)
  set(CMAKE_CXX_FLAGS_DEBUG "-g1 ${PIPEDREAM_OPTIMIZE}")
endif()

# Precompiled headers are shared by all targets, so all agree on the options that define macros. Nobody
# reads errno after a mathematical function, and loops are vectorised only where it need not be set.
add_compile_options(-pthread -fopenmp -fno-math-errno)
if(PIPEDREAM_PCH)
  add_compile_options(-fpch-preprocess)  # what ccache wants
endif()
add_compile_options(-Wall -Wextra -Werror -fno-omit-frame-pointer)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 sees uninitialised values in moved-from StatusOr, and overflows in std::string, that are
  # not there.
  add_compile_options(-Wno-maybe-uninitialized -Wno-array-bounds -Wno-restrict)
endif()
if(PIPEDREAM_SANITIZE)
  add_compile_options(-fsanitize=${PIPEDREAM_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${PIPEDREAM_SANITIZE})
  add_compile_definitions(PIPEDREAM_SANITIZED=1)
endif()

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CCACHE}")
  if(PIPEDREAM_PCH)  # without these ccache does not cache files that use precompiled headers
    set(CMAKE_CXX_COMPILER_LAUNCHER
        ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros "${CCACHE}")
  endif()
endif()
