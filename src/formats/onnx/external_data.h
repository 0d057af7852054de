// Weights in files beside the model: TensorProto.external_data.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "formats/onnx/wire.h"
#include "wconv/file.h"
#include "wconv/tensor.h"

namespace wconv::onnx {

struct ExternalData {
  std::uint64_t at = 0;  // byte offset of its first entry in the model
  bool present = false;
  std::optional<std::string> location, checksum;
  std::optional<std::uint64_t> offset, length;
};

// The external files of one model, each opened once.
class ExternalFiles {
 public:
  explicit ExternalFiles(std::shared_ptr<const File> model) : model_(std::move(model)) {}

  // Adds one entry of external_data. Throws Error(kCorrupt) for a key that stands twice and numbers that are none.
  void add_entry(ByteReader& reader, const Field& entry, ExternalData& data);

  struct Place {
    std::shared_ptr<const File> file;
    std::uint64_t offset = 0;
  };
  // Where `bytes` bytes of a tensor lie. Throws Error(kMissing) where there is no such file, Error(kCorrupt) for a
  // location that leaves the model's folder and for ranges outside the file or of another size than the tensor's.
  Place find(const ExternalData& data, std::uint64_t bytes);

  std::vector<std::shared_ptr<const File>> files() const;  // by location
  const std::set<std::string>& unknown_keys() const { return unknown_keys_; }
  bool has_checksum() const { return has_checksum_; }

 private:
  std::shared_ptr<const File> model_;
  std::map<std::string, std::shared_ptr<const File>> files_;
  std::set<std::string> unknown_keys_;
  bool has_checksum_ = false;
};

}  // namespace wconv::onnx
