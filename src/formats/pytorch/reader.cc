#include <cstring>

#include "formats/pytorch/containers.h"
#include "formats/pytorch/pytorch.h"

namespace wconv {
namespace {

using Open = Model (*)(std::shared_ptr<const File>, const ReadOptions&);

// The container, from the first bytes; null: none of them.
Open container_of(std::span<const std::byte> head) {
  const std::string_view text(reinterpret_cast<const char*>(head.data()), head.size());
  if (text.starts_with("PK\x03\x04") || text.starts_with("PK\x05\x06")) return pytorch::read_zip;
  if (text.size() > 262 && text.substr(257, 5) == "ustar") return pytorch::read_tar;
  if (pytorch::looks_like_pickle(text)) return pytorch::read_stream;
  return nullptr;
}

class Reader final : public FormatReader {
 public:
  std::string_view name() const override { return "pytorch"; }
  bool probe(std::span<const std::byte> head) const override { return container_of(head) != nullptr; }

  Model open(std::shared_ptr<const File> file, const ReadOptions& options) const override {
    std::vector<std::byte> head(std::min<std::uint64_t>(file->size(), 512));
    file->read(0, head);
    const Open container = container_of(head);
    // Without a mark of its own, the file can at best be a zip whose beginning is lost: that reader says what is
    // missing.
    Model model = (container ? container : pytorch::read_zip)(file, options);
    model.format = name();
    model.path = file->path();
    model.files.push_back({file->path(), file->size(), file});
    return model;
  }
};

}  // namespace

const FormatReader& pytorch_reader() {
  static const Reader reader;
  return reader;
}

}  // namespace wconv
