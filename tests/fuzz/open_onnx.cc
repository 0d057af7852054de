// Bytes through the onnx reader.
#include "check_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  wconv::fuzz::check_format("onnx", std::as_bytes(std::span(data, size)));
  return 0;
}
