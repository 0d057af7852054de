#include "formats/gguf/layout.h"

#include <bit>

#include "core/part_name.h"
#include "ir/metadata_limits.h"
#include "wconv/error.h"

namespace wconv::gguf {

std::string part_name(std::string_view stem, std::uint64_t index, std::uint64_t count) {
  return wconv::part_name(stem, index + 1, count, ".gguf");
}

std::uint64_t stated_alignment(const Metadata& metadata) {
  const MetaValue* value = metadata.find(kAlignmentKey);
  if (value == nullptr) return kDefaultAlignment;
  if (value->type != MetaType::kU32)
    fail(ErrorCode::kCorrupt, "{} has the type {}; it must be u32", kAlignmentKey, meta_type_name(value->type));
  const std::uint64_t alignment = std::get<std::uint64_t>(value->value);
  if (alignment > meta_limits(MetaType::kU32).most)  // of a model that no reader made
    fail(ErrorCode::kCorrupt, "{} is {}, which is not {}", kAlignmentKey, alignment, meta_allowed(MetaType::kU32));
  if (!std::has_single_bit(alignment))
    fail(ErrorCode::kCorrupt, "{} is {}; it must be a power of two", kAlignmentKey, alignment);
  return alignment;
}

}  // namespace wconv::gguf
