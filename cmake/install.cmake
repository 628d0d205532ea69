# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
#
# One installed library, libtenplex.a, of all components but the program's own; found with find_package(tenplex).

get_property(components GLOBAL PROPERTY TENPLEX_COMPONENTS)
list(REMOVE_ITEM components cli)
set(objects)
set(headers)
foreach(component IN LISTS components)
  list(APPEND objects $<TARGET_OBJECTS:tenplex_${component}>)
  get_target_property(component_headers tenplex_${component} HEADER_SET_HEADERS)
  list(APPEND headers ${component_headers})
endforeach()
list(FILTER headers EXCLUDE REGEX "/internal/")

add_library(libtenplex STATIC ${objects})
add_library(tenplex::tenplex ALIAS libtenplex)
set_target_properties(libtenplex PROPERTIES OUTPUT_NAME tenplex EXPORT_NAME tenplex LINKER_LANGUAGE CXX
  VERIFY_INTERFACE_HEADER_SETS OFF)
target_sources(libtenplex PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR}/src FILES ${headers})
target_compile_features(libtenplex PUBLIC cxx_std_20)
target_link_libraries(libtenplex PUBLIC fmt::fmt Threads::Threads
  PRIVATE PkgConfig::xxhash PkgConfig::libdeflate OpenSSL::Crypto $<LINK_ONLY:yaml-cpp>)

install(TARGETS libtenplex EXPORT tenplexTargets FILE_SET HEADERS ARCHIVE)
install(TARGETS tenplex RUNTIME)
install(EXPORT tenplexTargets NAMESPACE tenplex:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tenplex)
configure_package_config_file(cmake/tenplexConfig.cmake.in ${PROJECT_BINARY_DIR}/tenplexConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tenplex)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tenplexConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tenplexConfig.cmake ${PROJECT_BINARY_DIR}/tenplexConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tenplex)
