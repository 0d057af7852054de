// Bytes through the choice of a reader by content, with the recognition of files that are no model.
#include "check_reader.h"
#include "wconv/format.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  wconv::fuzz::check_reader(
      [](std::shared_ptr<const wconv::File> file) { return wconv::open_file(std::move(file), {}); },
      std::as_bytes(std::span(data, size)));
  return 0;
}
