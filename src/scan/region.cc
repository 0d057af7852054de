#include "scan/region.h"

#include <array>
#include <string_view>

#include "formats/pytorch/pickle.h"
#include "scan/zip_records.h"
#include "wconv/error.h"

namespace wconv::scan {
namespace {

using namespace std::string_view_literals;

std::string head_of(const Region& region) {
  std::string head(std::min<std::uint64_t>(512, region.size()), '\0');
  region.file->read(region.begin, std::as_writable_bytes(std::span(head)));
  return head;
}

// Containers that may hold pickles and that nothing here unpacks.
std::string_view sealed_container(std::string_view head) {
  struct Magic {
    std::string_view bytes, name;
  };
  static constexpr auto kMagics = std::to_array<Magic>({{"\x1f\x8b"sv, "gzip"sv},
                                                        {"\xfd"
                                                         "7zXZ"sv,
                                                         "xz"sv},
                                                        {"BZh"sv, "bzip2"sv},
                                                        {"7z\xbc\xaf\x27\x1c"sv, "7-Zip"sv},
                                                        {"Rar!\x1a\x07"sv, "RAR"sv},
                                                        {"\x28\xb5\x2f\xfd"sv, "zstd"sv},
                                                        {"\x89HDF\r\n"sv, "HDF5 (Keras keeps Python code in it)"sv}});
  for (const Magic& magic : kMagics) {
    if (head.starts_with(magic.bytes)) return magic.name;
  }
  return {};
}

bool is_tar(std::string_view head) { return head.size() > 262 && head.substr(257, 5) == "ustar"; }

}  // namespace

bool may_begin_pickle(std::string_view head) {
  // Floats, strings, bytes, truth values, long integers, sets and frames.
  static constexpr std::string_view kOthers = "GTBC\x88\x89\x8a\x8b\x8c\x8d\x8e\x8f\x95\x96";
  return pytorch::looks_like_pickle(head) || (!head.empty() && kOthers.find(head[0]) != std::string_view::npos);
}

bool scan_region(const Region& region, Sink& sink) {
  if (region.size() < 2) return false;
  if (sink.is_spent()) return true;
  if (region.depth > kMaxDepth) {
    sink.add(Verdict::kUnknown, "too-deep", "", fmt::format("archives lie in each other more than {} deep", kMaxDepth),
             region.part, 0);
    return true;
  }
  const std::string head = head_of(region);
  if (const std::string_view name = sealed_container(head); !name.empty() && region.claim) {
    sink.add(Verdict::kUnknown, "sealed", std::string(name),
             fmt::format("is compressed or packed as {}; it was not looked into", name), region.part, 0);
    return true;
  }
  const bool zip = head.starts_with("PK\x03\x04") || head.starts_with("PK\x05\x06") || has_end_record(region);
  if (zip) scan_zip(region, sink);
  if (head.starts_with("PK")) return true;
  if (head.starts_with("\x93NUMPY")) {
    scan_numpy(region, sink);
    return true;
  }
  if (is_tar(head)) {
    scan_tar(region, sink);
    return true;
  }
  Region body = region;
  body.claim = region.claim && pytorch::looks_like_pickle(head);  // no pickle that a library writes begins otherwise
  return (may_begin_pickle(head) && scan_pickles(body, sink)) || zip;
}

}  // namespace wconv::scan
