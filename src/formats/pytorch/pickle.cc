// What a parsed pickle answers.
#include "formats/pytorch/pickle.h"

#include <bit>

#include "wconv/error.h"

namespace wconv::pytorch {

double Pickle::real(NodeId id) const { return std::bit_cast<double>(nodes_[id].value); }

std::string Pickle::text(NodeId id) const {
  constexpr std::uint64_t kMaxText = 64 * 1024 * 1024;
  const Blob& source = blob(id);
  if (!source.in_file) return source.owned;
  if (source.size > kMaxText) fail_at(source.offset, ErrorCode::kCorrupt, "pickle: a text of {} bytes", source.size);
  std::string text(source.size, '\0');
  file_->read(source.offset, std::as_writable_bytes(std::span(text)));
  return text;
}

std::string Pickle::global_name(NodeId id) const {
  const Name& name = names_[nodes_[id].value];
  return name.module + "." + name.attribute;
}

bool looks_like_pickle(std::string_view head) {
  if (head.size() >= 2 && head[0] == '\x80') return head[1] >= 0 && head[1] <= 15;
  // Protocols 0 and 1 have no mark of their own: an opcode that a pickle begins with, and text that ends in a line.
  static constexpr std::string_view kFirst = "(c]}lNIFSVLKMJXUPi)";
  return !head.empty() && kFirst.find(head[0]) != std::string_view::npos;
}

}  // namespace wconv::pytorch
