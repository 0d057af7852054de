// Plans a zip archive of stored records without knowing the tensors' CRC-32 yet.
//
// Each record's data begins at a multiple of 64 bytes, as torch.save has it since 1.6: mmap and direct reads want that.
// A tensor's CRC-32 stands behind its data (a data descriptor) and in the directory, so the file is written in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "wconv/layout.h"

namespace wconv::pytorch {

class ZipPlan {
 public:
  void add(const std::string& name, std::vector<std::byte> bytes);
  void add_tensor(const std::string& name, std::size_t tensor, std::uint64_t bytes);
  // Ends the archive; nothing can be added after it.
  OutputFile finish(std::string file_name);

 private:
  struct Entry {
    std::string name;
    std::uint64_t header_offset = 0, size = 0;
    std::uint32_t crc32 = 0;
    std::size_t piece = 0;  // of the tensor
    bool tensor = false;
  };
  void begin_record(const Entry& entry);
  void add_literal(std::vector<std::byte> bytes);
  void add_crc32(std::size_t piece);
  void directory_entry(const Entry& entry);
  void end_records(std::uint64_t directory);

  OutputFile file_;
  std::vector<Entry> entries_;
};

}  // namespace wconv::pytorch
