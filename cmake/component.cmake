# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
#
# component(NAME [USES component...] [PRIVATE library...] [PUBLIC library...] [FOLDERS sub-folder...])
#   One static library tenplex_NAME (alias tenplex::NAME) of every .cc in the folder and the listed sub-folders, a test
#   program NAME_test of every *_test.cc, and a benchmark NAME_bench of every *_bench.cc. Tests run in the root of the
#   source tree.

add_library(tenplex_options INTERFACE)
target_compile_options(tenplex_options INTERFACE -Wall -Wextra -Wpedantic -Wconversion -Wshadow)
if(TENPLEX_WARNINGS_AS_ERRORS)
  target_compile_options(tenplex_options INTERFACE -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # False alarms on std::string and std::variant: GCC bugs 105651, 105562 and 104475.
  target_compile_options(tenplex_options INTERFACE -Wno-restrict -Wno-maybe-uninitialized -Wno-free-nonheap-object)
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  target_compile_options(tenplex_options INTERFACE -Wthread-safety)
endif()
if(TENPLEX_SANITIZE)
  add_compile_options(-fsanitize=${TENPLEX_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${TENPLEX_SANITIZE})
endif()
if(TENPLEX_BUILD_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

function(component NAME)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "" "USES;PRIVATE;PUBLIC;FOLDERS")
  set(sources)
  set(headers)
  foreach(folder IN ITEMS . LISTS ARG_FOLDERS)
    file(GLOB found CONFIGURE_DEPENDS ${folder}/*.cc)
    file(GLOB found_headers CONFIGURE_DEPENDS ${folder}/*.h)
    list(APPEND sources ${found})
    list(APPEND headers ${found_headers})
  endforeach()
  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  set(benches ${sources})
  list(FILTER benches INCLUDE REGEX "_bench\\.cc$")
  list(FILTER sources EXCLUDE REGEX "_(test|bench|main)\\.cc$")

  set(library tenplex_${NAME})
  add_library(${library} STATIC ${sources})
  add_library(tenplex::${NAME} ALIAS ${library})
  target_sources(${library} PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR}/src FILES ${headers})
  target_include_directories(${library} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>)
  target_compile_features(${library} PUBLIC cxx_std_20)
  list(TRANSFORM ARG_USES PREPEND tenplex::)
  target_link_libraries(${library} PUBLIC ${ARG_USES} ${ARG_PUBLIC} PRIVATE ${ARG_PRIVATE} $<BUILD_INTERFACE:tenplex_options>)
  set_property(GLOBAL APPEND PROPERTY TENPLEX_COMPONENTS ${NAME})

  if(TENPLEX_BUILD_TESTS AND tests)
    add_executable(${NAME}_test ${tests})
    target_link_libraries(${NAME}_test PRIVATE ${library} ${ARG_PRIVATE} tenplex_options GTest::gmock GTest::gtest_main)
    target_compile_options(${NAME}_test PRIVATE $<$<CONFIG:Release>:-O0>)  # faster to build; the library stays optimised
    gtest_discover_tests(${NAME}_test TEST_PREFIX ${NAME}. WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
      PROPERTIES TIMEOUT 300 DISCOVERY_TIMEOUT 60)
  endif()
  if(TENPLEX_BUILD_BENCH AND benches)
    add_executable(${NAME}_bench ${benches})
    target_link_libraries(${NAME}_bench PRIVATE ${library} ${ARG_PRIVATE} tenplex_options benchmark::benchmark_main)
  endif()
endfunction()
