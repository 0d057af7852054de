# CPack: wconv_*.deb and libwconv-dev_*.deb with Debian's shared libraries; a .tar.gz of the tool with WCONV_STATIC.
set(WCONV_MAINTAINER "wconv maintainers <maintainers@wconv.invalid>" CACHE STRING
    "Maintainer that the Debian packages name")
set(CPACK_PACKAGE_NAME wconv)
set(CPACK_PACKAGE_VENDOR "wconv")
set(CPACK_PACKAGE_CONTACT ${WCONV_MAINTAINER})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY ${PROJECT_DESCRIPTION})
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGE_CHECKSUM SHA256)
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
if(WCONV_STATIC)
  set(CPACK_GENERATOR TGZ)
  set(CPACK_PACKAGE_FILE_NAME wconv-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})
else()
  set(CPACK_GENERATOR DEB)
  set(CPACK_COMPONENTS_ALL tool dev)
  set(CPACK_DEB_COMPONENT_INSTALL ON)
  set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
  set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
  set(CPACK_DEBIAN_TOOL_PACKAGE_NAME wconv)
  set(CPACK_DEBIAN_TOOL_PACKAGE_SECTION science)
  set(CPACK_DEBIAN_TOOL_PACKAGE_SHLIBDEPS ON)
  set(CPACK_COMPONENT_TOOL_DESCRIPTION "Shows what is in PyTorch checkpoints, safetensors, GGUF and ONNX files\n\
without running anything in them, converts between these formats, and\n\
compares models value by value.")
  set(CPACK_DEBIAN_DEV_PACKAGE_NAME libwconv-dev)
  set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
  set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "libdeflate-dev, libfmt-dev, libhwy-dev, libpcre2-dev, libssl-dev, libxxhash-dev, \
libzstd-dev, pkgconf | pkg-config, zlib1g-dev")
  set(CPACK_COMPONENT_DEV_DESCRIPTION "Headers and static libraries, to read, convert and compare models in\n\
C++20 programs. CMake finds them as wconv::wconv.")
endif()
include(CPack)
