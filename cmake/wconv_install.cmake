# What `cmake --install` copies: the component "tool" and the component "dev" (headers, static libraries, package file).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
install(TARGETS wconv_tool RUNTIME COMPONENT tool)
install(FILES LICENSE README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT tool)

get_property(MODULES GLOBAL PROPERTY WCONV_MODULES)
target_include_directories(wconv INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
install(TARGETS wconv ${MODULES} EXPORT wconvTargets ARCHIVE COMPONENT dev)
install(DIRECTORY include/wconv DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev)
set(CONFIG_FOLDER ${CMAKE_INSTALL_LIBDIR}/cmake/wconv)
install(EXPORT wconvTargets NAMESPACE wconv:: DESTINATION ${CONFIG_FOLDER} COMPONENT dev)
configure_package_config_file(cmake/wconvConfig.cmake.in wconvConfig.cmake INSTALL_DESTINATION ${CONFIG_FOLDER})
write_basic_package_version_file(wconvConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/wconvConfig.cmake ${PROJECT_BINARY_DIR}/wconvConfigVersion.cmake
        DESTINATION ${CONFIG_FOLDER} COMPONENT dev)
