# What `cmake --install` copies: the component "tool" and the component "dev" (headers, static libraries, package file).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
install(TARGETS wconv_tool RUNTIME COMPONENT tool)
install(FILES README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT tool)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT tool RENAME copyright)
# Debian's zsh looks into share/zsh/vendor-completions instead; the preset deb says so.
set(WCONV_ZSH_FOLDER ${CMAKE_INSTALL_DATADIR}/zsh/site-functions CACHE STRING "Where the completion of zsh is installed")
set(MANUAL ${PROJECT_BINARY_DIR}/manual)
install(FILES ${MANUAL}/wconv.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT tool)
install(FILES ${MANUAL}/wconv DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT tool)
install(FILES ${MANUAL}/_wconv DESTINATION ${WCONV_ZSH_FOLDER} COMPONENT tool)
install(FILES ${MANUAL}/wconv.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT tool)

if(WCONV_STATIC)  # the licences of the libraries in the program
  foreach(PACKAGE libcli11-dev libdeflate-dev libfmt-dev libhwy-dev libpcre2-dev libprotozero-dev libspdlog-dev libssl-dev
                  libxxhash-dev libzstd-dev nlohmann-json3-dev zlib1g-dev libstdc++-12-dev)
    if(EXISTS /usr/share/doc/${PACKAGE}/copyright)
      install(FILES /usr/share/doc/${PACKAGE}/copyright DESTINATION ${CMAKE_INSTALL_DOCDIR}/libraries COMPONENT tool
              RENAME ${PACKAGE}.copyright)
    else()
      message(WARNING "The licence of ${PACKAGE} is not in /usr/share/doc and will be missing from the package")
    endif()
  endforeach()
  return()
endif()

get_property(MODULES GLOBAL PROPERTY WCONV_MODULES)
target_include_directories(wconv INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
install(TARGETS wconv ${MODULES} EXPORT wconvTargets ARCHIVE COMPONENT dev)
install(DIRECTORY include/wconv DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/libwconv-dev COMPONENT dev RENAME copyright)
install(DIRECTORY docs/examples DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/libwconv-dev COMPONENT dev)
set(CONFIG_FOLDER ${CMAKE_INSTALL_LIBDIR}/cmake/wconv)
install(EXPORT wconvTargets NAMESPACE wconv:: DESTINATION ${CONFIG_FOLDER} COMPONENT dev)
configure_package_config_file(cmake/wconvConfig.cmake.in wconvConfig.cmake INSTALL_DESTINATION ${CONFIG_FOLDER})
write_basic_package_version_file(wconvConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/wconvConfig.cmake ${PROJECT_BINARY_DIR}/wconvConfigVersion.cmake
        DESTINATION ${CONFIG_FOLDER} COMPONENT dev)
