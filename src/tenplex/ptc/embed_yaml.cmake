# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
#
# Writes OUTPUT, the C++ table of the built-in layouts, maps or models, from every .yaml in FOLDER:
#   cmake -DKIND=layout -DFOLDER=... -DOUTPUT=... -P embed_yaml.cmake

file(GLOB files ${FOLDER}/*.yaml)
list(SORT files)
list(LENGTH files count)
set(entries)
foreach(file IN LISTS files)
  get_filename_component(name ${file} NAME_WLE)
  file(READ ${file} text)
  string(REGEX MATCH "^# ([^\n]*)\n" first_line "${text}")
  set(description "${CMAKE_MATCH_1}")
  if(NOT description)
    message(FATAL_ERROR "${file}: the first line must be a comment that describes the ${KIND}")
  endif()
  string(APPEND entries "    {\"${name}\", R\"yaml(${description})yaml\",\n     R\"yaml(${text})yaml\"},\n")
endforeach()
file(WRITE ${OUTPUT} "// Generated from the .yaml files of the folder ${KIND}s/ by embed_yaml.cmake.
#include <array>

#include \"tenplex/ptc/builtin_${KIND}s.h\"

namespace tenplex {
namespace {

constexpr std::array<BuiltinYaml, ${count}> kTable = {{
${entries}}};

}  // namespace

std::span<const BuiltinYaml> builtin_${KIND}s() { return kTable; }

}  // namespace tenplex
")
