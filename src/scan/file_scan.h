// One file of a model: its content says what looks into it, its name only what its text is for.
#pragma once

#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "scan/sink.h"
#include "wconv/file.h"
#include "wconv/format.h"

namespace wconv::scan {

// Remembers the parts of split models, which open only by their first one. Not thread-safe.
class FileScan {
 public:
  explicit FileScan(Sink& sink) : sink_(sink) {}

  // `in_folder`: beside weights, where text is usual. Returns the files that it names as an index, relative to its
  // folder. Throws as File::open.
  std::vector<std::string> scan(const std::string& path, bool in_folder);

 private:
  void scan_model_data(const FormatReader& reader, const std::shared_ptr<const File>& file);
  void scan_metadata(const Model& model);
  void scan_later_part(const FormatReader& reader, const std::string& path);
  void add_unknown_format(const File& file, std::span<const std::byte> head);
  void scan_template_file(const File& file);

  Sink& sink_;
  std::set<std::string> parts_;  // files of models that were opened
};

}  // namespace wconv::scan
