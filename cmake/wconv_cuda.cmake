# wconv has no CUDA sources yet: this build is the plain one, and says so.
include(CheckLanguage)
check_language(CUDA)
if(CMAKE_CUDA_COMPILER)
  enable_language(CUDA)
  message(STATUS "CUDA compiler: ${CMAKE_CUDA_COMPILER} (unused: wconv has no CUDA sources yet)")
else()
  message(STATUS "No CUDA compiler (wconv has no CUDA sources yet, so nothing is missing)")
endif()
