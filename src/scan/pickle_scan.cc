// Pickles: every name they hold, whatever they do with it.
#include <algorithm>
#include <cctype>
#include <string_view>

#include "formats/pytorch/containers.h"
#include "formats/pytorch/globals.h"
#include "formats/pytorch/objects.h"
#include "formats/pytorch/pickle.h"
#include "scan/names.h"
#include "scan/region.h"
#include "wconv/error.h"

namespace wconv::scan {
namespace {

using pytorch::BrokenPickle;
using pytorch::NodeKind;
using pytorch::Pickle;

// A name that Python could import. In weights that happen to look like a pickle there is none.
bool is_plausible(std::string_view name) {
  return name.size() > 2 && name.size() < 512 &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '.'; });
}

std::string_view meaning_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kDanger:
      return "is known to run code, read files or reach the network when the pickle is loaded";
    case Verdict::kUnknown:
      return "is not known to be data; loading the pickle would import and use it";
    default:
      return "is data";
  }
}

class PickleScan {
 public:
  PickleScan(const Region& region, Sink& sink) : region_(region), sink_(sink) {}

  // True when it is a pickle.
  bool run() {
    std::uint64_t at = region_.begin;
    for (int count = 0; at < region_.end; ++count) {
      if (count > 0 && !starts_pickle(at)) break;
      const BrokenPickle read = pytorch::read_broken_pickle(region_.file, at, region_.end);
      // Sound files hold few bytes that look like a pickle by chance, and these soon end.
      const std::uint64_t end = read.error ? read.error->offset().value_or(at) : read.pickle.end_offset;
      if (!region_.claim && !sink_.spend(end - at)) return true;
      if (read.error && !region_.claim && !names_something(read.pickle)) return count > 0;
      if (read.error && count > 0 && !names_something(read.pickle)) break;  // bytes that only looked like one
      sink_.count_pickle();
      report(read.pickle);
      if (read.error) {
        add(Verdict::kUnknown, "pickle-broken", "", "the pickle is broken: " + read.error->message(),
            read.error->offset().value_or(at));
        return true;
      }
      scan_nested(read.pickle);
      at = read.pickle.end_offset;
    }
    return true;
  }

 private:
  bool starts_pickle(std::uint64_t at) const {
    std::string head(std::min<std::uint64_t>(2, region_.end - at), '\0');
    region_.file->read(at, std::as_writable_bytes(std::span(head)));
    return may_begin_pickle(head);
  }

  static bool names_something(const Pickle& pickle) {
    return std::any_of(pickle.globals.begin(), pickle.globals.end(),
                       [&](pytorch::NodeId id) { return is_plausible(pickle.global_name(id)); });
  }

  void add(Verdict verdict, std::string code, std::string what, std::string message, std::uint64_t offset) {
    sink_.add(verdict, std::move(code), std::move(what), std::move(message), region_.part, offset - region_.begin);
  }

  void report(const Pickle& pickle) {
    for (const pytorch::NodeId id : pickle.globals) {
      const std::string name = pickle.global_name(id);
      const bool script = region_.script && name.starts_with("__torch__.");
      const Verdict verdict = script ? Verdict::kData : verdict_of_global(name);
      add(verdict, "pickle-global", name, fmt::format("{} {}", printable(name), meaning_of(verdict)),
          pickle.global_offset(id));
    }
    for (pytorch::NodeId id = 0; id < pickle.size(); ++id) {
      if (pickle.kind(id) != NodeKind::kObject) continue;
      const pytorch::Object& object = pickle.object(id);
      if (pickle.kind(object.callable) != NodeKind::kGlobal)
        add(Verdict::kUnknown, "pickle-call", "", "calls something that the pickle itself has made", object.offset);
    }
  }

  // Storages that torch wrote as bytes into a plain pickle: torch unpickles them in turn.
  void scan_nested(const Pickle& pickle) {
    pytorch::RangeStorages none(region_.file);
    const pytorch::Objects objects(pickle, none);
    for (pytorch::NodeId id = 0; id < pickle.size(); ++id) {
      refuse_handed_loader(pickle, id);
      if (objects.meaning(id).meaning != pytorch::Meaning::kLoadFromBytes) continue;
      const pytorch::Object& object = pickle.object(id);
      try {
        scan_bytes(*objects.bytes(first_argument(pickle, object)), object.offset);
      } catch (const std::exception& error) {
        add(Verdict::kUnknown, "pickle-nested", "",
            fmt::format("bytes that torch would unpickle cannot be looked into: {}", error.what()), object.offset);
      }
    }
  }

  // torch's loader as a value that `id` holds: who calls it then, and with which bytes, is not to be seen.
  void refuse_handed_loader(const Pickle& pickle, pytorch::NodeId id) {
    const auto is_loader = [&](pytorch::NodeId held) {
      return held != pytorch::kNoNode && pickle.kind(held) == NodeKind::kGlobal &&
             pytorch::lookup_global(pickle.global_name(held)).meaning == pytorch::Meaning::kLoadFromBytes;
    };
    const auto any = [&](const std::vector<pytorch::NodeId>& held) {
      return std::any_of(held.begin(), held.end(), is_loader);
    };
    bool handed = false;
    switch (pickle.kind(id)) {
      case NodeKind::kList:
      case NodeKind::kTuple:
      case NodeKind::kSet:
      case NodeKind::kDict:
      case NodeKind::kPersistent:
        handed = any(pickle.items(id));
        break;
      case NodeKind::kObject: {
        const pytorch::Object& object = pickle.object(id);
        handed = is_loader(object.args) || is_loader(object.state) || any(object.pairs) || any(object.list);
        break;
      }
      default:
        break;
    }
    if (handed)
      add(Verdict::kUnknown, "pickle-nested", "", "hands on the function with which torch loads bytes", region_.begin);
  }

  // Of a call in a broken or hostile pickle: its arguments may be anything.
  static pytorch::NodeId first_argument(const Pickle& pickle, const pytorch::Object& object) {
    if (object.args == pytorch::kNoNode || pickle.kind(object.args) != NodeKind::kTuple ||
        pickle.items(object.args).empty())
      fail(ErrorCode::kCorrupt, "the call has no tuple of arguments");
    return pickle.items(object.args)[0];
  }

  void scan_bytes(const TensorData& data, std::uint64_t offset) {
    constexpr std::uint64_t kMax = 64 * 1024 * 1024;
    Region inner{region_.file, 0, 0, region_.part + " (bytes in it)", true, region_.depth + 1, false};
    if (const auto range = data.file_range()) {
      inner.begin = range->offset;
      inner.end = range->offset + range->size;
    } else {
      if (data.size_bytes() > kMax) fail(ErrorCode::kUnsupported, "they are {} bytes", data.size_bytes());
      std::vector<std::byte> bytes(data.size_bytes());
      data.read(0, bytes);
      inner.file = File::from_bytes(region_.file->path(), bytes);
      inner.end = bytes.size();
    }
    if (!scan_region(inner, sink_))
      add(Verdict::kUnknown, "pickle-nested", "", "bytes that torch would load are no pickle and no archive", offset);
  }

  const Region& region_;
  Sink& sink_;
};

}  // namespace

bool scan_pickles(const Region& region, Sink& sink) { return PickleScan(region, sink).run(); }

void sweep_pickles(const Region& region, Sink& sink) {
  constexpr std::uint64_t kChunk = 1024 * 1024;
  constexpr int kMaxTries = 10'000;
  std::string chunk;
  int tries = 0;
  for (std::uint64_t from = region.begin; from + 2 < region.end; from += kChunk) {
    chunk.resize(std::min(kChunk + 1, region.end - from));  // a mark may lie across two chunks
    region.file->read(from, std::as_writable_bytes(std::span(chunk)));
    for (std::size_t i = chunk.find('\x80'); i < chunk.size() - 1; i = chunk.find('\x80', i + 1)) {
      if (sink.is_spent()) return;
      if (chunk[i + 1] < 0 || chunk[i + 1] > 5 || from + i == region.begin) continue;
      if (++tries > kMaxTries) {
        return sink.add(Verdict::kUnknown, "sweep", "", "holds too many marks of pickles to look into all of them",
                        region.part, from + i - region.begin);
      }
      Region tail = region;
      tail.begin = from + i;
      tail.claim = false;
      scan_pickles(tail, sink);
    }
  }
}

}  // namespace wconv::scan
