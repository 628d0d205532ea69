# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
#
# Writes OUTPUT, the C++ table of the built-in layouts, from every .yaml in FOLDER:
#   cmake -DFOLDER=... -DOUTPUT=... -P embed_layouts.cmake

file(GLOB files ${FOLDER}/*.yaml)
list(SORT files)
list(LENGTH files count)
set(entries)
foreach(file IN LISTS files)
  get_filename_component(name ${file} NAME_WE)
  file(READ ${file} text)
  string(REGEX MATCH "^# ([^\n]*)\n" first_line "${text}")
  set(description "${CMAKE_MATCH_1}")
  if(NOT description)
    message(FATAL_ERROR "${file}: the first line must be a comment that describes the layout")
  endif()
  string(APPEND entries "    {\"${name}\", R\"layout(${description})layout\",\n     R\"layout(${text})layout\"},\n")
endforeach()
file(WRITE ${OUTPUT} "// Generated from layouts/*.yaml by embed_layouts.cmake.
#include <array>

#include \"tenplex/ptc/builtin_layouts.h\"

namespace tenplex {
namespace {

constexpr std::array<BuiltinLayout, ${count}> kLayouts = {{
${entries}}};

}  // namespace

std::span<const BuiltinLayout> builtin_layouts() { return kLayouts; }

}  // namespace tenplex
")
