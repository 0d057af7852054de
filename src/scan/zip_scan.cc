// Archives: what their records hold, whatever their headers say.
#include <zlib.h>

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "scan/region.h"
#include "scan/zip_records.h"
#include "wconv/error.h"

namespace wconv::scan {
namespace {

constexpr std::uint64_t kMaxUnpacked = 64 * 1024 * 1024;
constexpr std::uint64_t kRecordWork = 256, kUnpackedPerWork = 64;  // deflate packs at most 1032 to 1

// A record whose name says that a program will unpickle or unpack it.
bool claims_code(std::string_view name) {
  static constexpr auto kEndings =
      std::to_array<std::string_view>({".pkl", ".pickle", ".pt", ".pth", ".bin", ".ckpt", ".npy", ".npz", ".zip", ".7z",
                                       ".gz", ".tar", ".joblib", ".dat"});
  return std::any_of(kEndings.begin(), kEndings.end(), [&](std::string_view ending) { return name.ends_with(ending); });
}

struct Unpacked {
  std::vector<std::byte> bytes;
  bool whole = false, damaged = false;
};

// Raw deflate data, as much of it as can be had.
Unpacked inflate_record(const Region& region, const ZipView& view) {
  Unpacked out;
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) fail(ErrorCode::kIo, "out of memory for zlib");
  std::array<std::byte, 65536> in{}, part{};
  std::uint64_t taken = 0;
  int status = Z_OK;
  while (status == Z_OK && out.bytes.size() < kMaxUnpacked) {
    if (stream.avail_in == 0) {
      const auto chunk = std::span(in).first(std::min<std::uint64_t>(in.size(), view.stored_bytes - taken));
      if (chunk.empty()) break;
      region.file->read(view.data + taken, chunk);
      taken += chunk.size();
      stream.next_in = reinterpret_cast<Bytef*>(chunk.data());
      stream.avail_in = static_cast<uInt>(chunk.size());
    }
    stream.next_out = reinterpret_cast<Bytef*>(part.data());
    stream.avail_out = static_cast<uInt>(part.size());
    status = ::inflate(&stream, Z_NO_FLUSH);
    if (status == Z_BUF_ERROR) status = Z_OK;
    out.bytes.insert(out.bytes.end(), part.begin(), part.end() - stream.avail_out);
  }
  inflateEnd(&stream);
  out.whole = status == Z_STREAM_END;
  out.damaged = !out.whole && out.bytes.size() < kMaxUnpacked;
  return out;
}

class ZipScan {
 public:
  ZipScan(const Region& region, Sink& sink) : region_(region), sink_(sink) {}

  void run() {
    const ZipViews zip = zip_views(region_);
    script_ = std::any_of(zip.views.begin(), zip.views.end(),
                          [](const ZipView& view) { return view.name.ends_with("/constants.pkl"); });
    if (!sink_.spend(zip.views.size() * kRecordWork)) return;
    std::uint64_t code = 0;
    for (const ZipView& view : zip.views) {
      if (sink_.is_spent()) return;
      code += view.name.find("/code/") != std::string::npos && view.name.ends_with(".py");
      scan_record(view);
    }
    if (code > 0) {
      sink_.add(Verdict::kNote, "torchscript", "",
                fmt::format("is a TorchScript archive with {} files of code, which torch.jit.load would run", code),
                region_.part, 0);
    }
    for (const auto& [begin, end] : zip.gaps) {
      const bool first = begin == region_.begin;
      Region gap = inner(begin, end, first ? "before the archive" : "between the records", first);
      if (gap.size() >= 2 && !(first && region_.depth == 0)) scan_pickles_only(gap);
    }
  }

 private:
  Region inner(std::uint64_t begin, std::uint64_t end, const std::string& name, bool claim) const {
    return {region_.file,      begin,  end, region_.part.empty() ? name : region_.part + "/" + name, claim,
            region_.depth + 1, script_};
  }

  // A gap is padding, a data descriptor, or something that has no business there.
  void scan_pickles_only(const Region& gap) {
    char first = '\0';
    gap.file->read(gap.begin, std::as_writable_bytes(std::span(&first, 1)));
    Region region = gap;
    region.claim = false;
    if (first == '\x80' || first == 'c' || first == '(') scan_pickles(region, sink_);
  }

  void scan_record(const ZipView& view) {
    Region record = inner(view.data, view.data + view.stored_bytes, view.name, claims_code(view.name));
    const auto report = [&](Verdict verdict, const char* code, const char* message) {
      sink_.add(verdict, code, "", message, record.part, 0);
    };
    if (view.hidden) report(Verdict::kUnknown, "zip-hidden-record", "is a record that the zip directory does not name");
    if (view.two_faced)
      report(Verdict::kUnknown, "zip-two-faced", "its local header says something else than the zip directory");
    Unpacked unpacked{{}, true, false};
    if (view.method == 8) {
      unpacked = inflate_record(region_, view);
      sink_.spend(unpacked.bytes.size() / kUnpackedPerWork);
      record.file = File::from_bytes(region_.file->path(), unpacked.bytes);
      record.begin = 0;
      record.end = unpacked.bytes.size();
    }
    const bool known = scan_region(record, sink_);
    if (unpacked.damaged && (known || record.claim))
      report(Verdict::kUnknown, "zip-damaged", "its compressed data is damaged");
    if (!unpacked.whole && !unpacked.damaged && (known || record.claim))
      report(Verdict::kUnknown, "zip-large", "only its first 64 MiB were looked through");
    if (known) return;
    if (view.flags & 1u) return report(Verdict::kUnknown, "zip-encrypted", "is encrypted; it was not looked into");
    if (view.method != 0 && view.method != 8)
      return report(Verdict::kUnknown, "zip-method", "is compressed by a method that was not looked into");
    if ((view.name.ends_with(".pkl") || view.name.ends_with(".pickle")) && record.size() > 0)
      report(Verdict::kUnknown, "not-a-pickle", "is called a pickle and is none");
  }

  const Region& region_;
  Sink& sink_;
  bool script_ = false;
};

std::uint64_t octal(std::string_view digits) {
  std::uint64_t number = 0;
  for (const char c : digits) {
    if (c >= '0' && c <= '7') number = number << 3 | static_cast<std::uint64_t>(c - '0');
  }
  return number;
}

}  // namespace

void scan_zip(const Region& region, Sink& sink) { ZipScan(region, sink).run(); }

// Of old checkpoints; members hold pickles with raw numbers between them.
void scan_tar(const Region& region, Sink& sink) {
  constexpr std::uint64_t kBlock = 512;
  std::uint64_t at = region.begin;
  while (region.end - at >= kBlock) {
    std::string header(kBlock, '\0');
    region.file->read(at, std::as_writable_bytes(std::span(header)));
    if (header.find_first_not_of('\0') == std::string::npos) break;
    at += kBlock;
    const std::uint64_t size = std::min(octal(std::string_view(header).substr(124, 12)), region.end - at);
    std::string name = header.substr(0, 100);
    name.resize(std::min(name.find('\0'), name.size()));
    const Region member{region.file,      at,   at + size, region.part.empty() ? name : region.part + "/" + name, true,
                        region.depth + 1, false};
    if (size > 0) scan_region(member, sink);
    sweep_pickles(member, sink);
    at += std::min((size + kBlock - 1) / kBlock * kBlock, region.end - at);
  }
}

// Version, length of the header, the header (Python text), the data. Source: numpy/lib/format.py.
void scan_numpy(const Region& region, Sink& sink) {
  if (region.size() < 12) return;
  std::array<unsigned char, 12> head{};
  region.file->read(region.begin, std::as_writable_bytes(std::span(head)));
  const bool wide = head[6] >= 2;
  const std::uint64_t size =
      wide ? head[8] | head[9] << 8 | std::uint64_t{head[10]} << 16 | std::uint64_t{head[11]} << 24
           : std::uint64_t{head[8]} | std::uint64_t{head[9]} << 8;
  const std::uint64_t begin = region.begin + (wide ? 12 : 10);
  const std::uint64_t data = begin + std::min(size, region.end - begin);
  std::string text(std::min<std::uint64_t>(data - begin, 65536), '\0');
  region.file->read(begin, std::as_writable_bytes(std::span(text)));
  Region pickle = region;
  pickle.begin = data;
  pickle.claim = text.find('O') != std::string::npos;  // a dtype of Python objects
  if (pickle.size() >= 2) scan_pickles(pickle, sink);
}

}  // namespace wconv::scan
