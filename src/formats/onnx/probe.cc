#include "formats/onnx/probe.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "formats/onnx/schema.h"
#include "formats/onnx/wire.h"
#include "wconv/error.h"

namespace wconv::onnx {
namespace {

using namespace model_proto;

enum class Kind { kNumber, kText, kLine, kMessage };
struct Known {
  std::uint32_t number;
  Kind kind;
};
constexpr auto kKnown = std::to_array<Known>({{kIrVersion, Kind::kNumber},
                                              {kProducerName, Kind::kLine},
                                              {kProducerVersion, Kind::kLine},
                                              {kDomain, Kind::kLine},
                                              {kModelVersion, Kind::kNumber},
                                              {kDocString, Kind::kText},
                                              {kGraph, Kind::kMessage},
                                              {kOpsetImport, Kind::kMessage},
                                              {kMetadataProps, Kind::kMessage},
                                              {kTrainingInfo, Kind::kMessage},
                                              {kFunctions, Kind::kMessage},
                                              {kConfiguration, Kind::kMessage}});
constexpr std::uint64_t kMaxIrVersion = 1000;

// Names of producers and domains have no control characters, unlike other formats' messages at the same place.
bool is_line(std::string_view text) {
  return std::none_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; });
}

// The tag of a field of GraphProto, all of which are texts or messages; an empty graph is one too.
bool begins_graph(std::string_view text) {
  if (text.empty()) return true;
  const auto tag = static_cast<unsigned char>(text[0]);
  return (tag & 7) == 2 && ((tag >> 3) <= graph_proto::kNode + 1 || (tag >> 3) == graph_proto::kInitializer ||
                            (tag >> 3) >= graph_proto::kDocString);
}

}  // namespace

bool looks_like_model(std::span<const std::byte> head) {
  const std::string_view text(reinterpret_cast<const char*>(head.data()), head.size());
  ByteReader reader(head);
  bool version = false, more = false;
  for (std::uint64_t position = 0; position < head.size();) {
    std::uint64_t tag = 0, value = 0;
    try {
      tag = read_varint(reader, position, head.size(), "a tag", "ModelProto");
      value = read_varint(reader, position, head.size(), "a value", "ModelProto");
    } catch (const Error&) {
      return version && more && head.size() - position < 10;  // cut by the end of the head
    }
    const auto known = std::find_if(kKnown.begin(), kKnown.end(), [&](const Known& k) { return k.number == tag >> 3; });
    if (known == kKnown.end() && version && (tag & 7) == 2) {  // of a later version
      position += std::min(value, head.size() - position);
      continue;
    }
    if (known == kKnown.end() || (tag & 7) != (known->kind == Kind::kNumber ? 0u : 2u)) return false;
    if (known->number == kIrVersion && (value == 0 || value > kMaxIrVersion)) return false;
    if (known->kind == Kind::kNumber) {
      version = version || known->number == kIrVersion;
      continue;
    }
    const std::string_view body = text.substr(position, value);
    if (known->kind == Kind::kLine && !is_line(body)) return false;
    if (known->number == kGraph) return begins_graph(body);
    more = true;
    if (body.size() < value) return version;
    position += value;
  }
  return false;
}

}  // namespace wconv::onnx
