// A pickle as data: opcodes build nodes in an arena and nothing else. No class is looked up, no function is called;
// what a global name means is decided by those who read the nodes (globals.h).
//
// Source of the opcodes: CPython Lib/pickletools.py, PEP 307, PEP 3154, PEP 574.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "wconv/error.h"
#include "wconv/file.h"

namespace wconv::pytorch {

using NodeId = std::uint32_t;
inline constexpr NodeId kNoNode = ~NodeId{0};

enum class NodeKind : std::uint8_t {
  kNone,
  kBool,
  kInt,
  kLong,
  kFloat,  // kLong: an integer beyond 64 bits; its decimal text, hexadecimal from 1 KiB on
  kText,
  kBytes,
  kList,
  kTuple,
  kSet,
  kDict,        // kDict: key, value, key, value, …
  kGlobal,      // a name: module and attribute
  kObject,      // the result of REDUCE, NEWOBJ, INST, OBJ or BUILD: recorded, not made
  kPersistent,  // BINPERSID; its id is items()[0]
};

// How an object came to be.
enum class Making : std::uint8_t { kCall, kNew };  // kCall: REDUCE, INST, OBJ; kNew: NEWOBJ, NEWOBJ_EX

struct Object {
  NodeId callable = kNoNode;  // usually a kGlobal
  NodeId args = kNoNode;      // kTuple
  NodeId keywords = kNoNode;  // kDict that is not empty, of NEWOBJ_EX
  NodeId state = kNoNode;     // of BUILD
  Making making = Making::kCall;
  std::uint64_t offset = 0;   // in the file: of the opcode that made it
  std::vector<NodeId> pairs;  // SETITEM(S): key, value, …
  std::vector<NodeId> list;   // APPEND(S), ADDITEMS
};

// Text and bytes stay in the file until someone asks for them; decoded forms of protocol 0 are owned.
struct Blob {
  std::uint64_t offset = 0, size = 0;
  std::string owned;
  bool in_file = true;
};

// Immutable once made. Node ids are valid for its life.
class Pickle {
 public:
  NodeId root = kNoNode;
  std::uint64_t end_offset = 0;    // after STOP
  std::vector<NodeId> persistent;  // every kPersistent node, in the order of the file
  std::vector<NodeId> globals;     // every kGlobal node, in the order of the file

  std::size_t size() const { return nodes_.size(); }
  NodeKind kind(NodeId id) const { return nodes_[id].kind; }
  std::int64_t integer(NodeId id) const { return static_cast<std::int64_t>(nodes_[id].value); }  // kInt, kBool
  double real(NodeId id) const;                                                                  // kFloat
  std::string text(NodeId id) const;  // kText, kLong: the whole text (at most 64 MiB; longer is Error(kCorrupt))
  const Blob& blob(NodeId id) const { return blobs_[nodes_[id].value]; }                  // kText, kBytes, kLong
  const std::vector<NodeId>& items(NodeId id) const { return lists_[nodes_[id].value]; }  // containers, kPersistent
  const Object& object(NodeId id) const { return objects_[nodes_[id].value]; }
  std::string global_name(NodeId id) const;                                                 // "module.attribute"
  std::uint64_t global_offset(NodeId id) const { return names_[nodes_[id].value].offset; }  // in the file
  const std::shared_ptr<const File>& file() const { return file_; }

 private:
  friend class PickleBuilder;
  struct Node {
    NodeKind kind;
    std::uint64_t value;
  };
  std::shared_ptr<const File> file_;
  std::vector<Node> nodes_;
  std::vector<Blob> blobs_;
  std::vector<std::vector<NodeId>> lists_;
  std::vector<Object> objects_;
  struct Name {
    std::string module, attribute;
    std::uint64_t offset;
  };
  std::vector<Name> names_;  // of globals
};

// Reads one pickle, protocols 0 to 5, from `begin` up to its STOP, which must come before `end`. Throws Error(kCorrupt)
// with the byte offset; lengths are compared with the bytes left before anything is allocated. What is kept takes at
// most 16 MiB and 24 bytes for each byte of `stored_bytes`, the size of the pickle on disk: less than end - begin where
// it was deflated. 0: end - begin.
Pickle read_pickle(std::shared_ptr<const File> file, std::uint64_t begin, std::uint64_t end,
                   std::uint64_t stored_bytes = 0);

// The same of a pickle that may be broken: what stands before the error. Without a root then.
struct BrokenPickle {
  Pickle pickle;
  std::optional<Error> error;
};
BrokenPickle read_broken_pickle(std::shared_ptr<const File> file, std::uint64_t begin, std::uint64_t end,
                                std::uint64_t stored_bytes = 0);

// True when the bytes look like the start of a pickle of any protocol that wconv reads.
bool looks_like_pickle(std::string_view head);

}  // namespace wconv::pytorch
