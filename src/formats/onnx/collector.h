// The tensors of one model as the walk meets them, with the messages that hold them.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "formats/onnx/graph.h"
#include "formats/onnx/number_list.h"

namespace wconv::onnx {

// A message that is being read, within those that hold it.
struct Frame {
  const Frame* parent = nullptr;
  Field field;
  unsigned depth = 0;
  mutable std::ptrdiff_t place = -1;  // in Collector::messages, once it is known to hold a weight
};

// A graph or a function.
struct Scope {
  const Frame& frame;
  std::string path;
  unsigned depth = 0;             // 0: the main graph
  bool castable = true;           // Cast nodes can be added to it
  std::size_t first = 0;          // of Collector::found that may be its own
  std::set<std::string> names{};  // of its initializers and constants
  std::set<std::string> casts{};  // values that a Cast node gives from one with kStoredEnding
  std::set<std::string> exact{};  // values that no cast of all weights may round: scales and sizes of Resize
};

struct Node {
  std::string name, op_type, domain, output;
  std::vector<Field> inputs, attributes;
  bool is_constant() const { return op_type == "Constant" && (domain.empty() || domain == "ai.onnx"); }
  const std::string& label() const { return !name.empty() ? name : !output.empty() ? output : op_type; }
};

struct Attribute {
  std::string name;
  std::vector<Field> tensors, sparse, graphs;
  NumberList f, i, floats, ints;
  std::uint64_t strings = 0;
  bool is_reference = false;  // to an attribute of the function: it has no value of its own
};

// A tensor before it has a name that is unique in the model. It is of strings where parsed has neither a tensor nor a
// reason to refuse it.
struct Found {
  ParsedTensor parsed;
  std::string name;    // in its graph
  std::string path;    // of its graph: "If_0/then_branch"; empty: the main graph
  unsigned depth = 0;  // of its graph; 0: the main one
  bool exact = false;  // a cast of all weights leaves it
  Weight weight;       // as far as its message says
};

struct SparseShape {
  std::string name;
  std::vector<std::uint64_t> dims;
};

// Each method proves what it adds and throws Error(kCorrupt | kUnsupported | kMissing) with tensor and byte offset. Two
// values of one name in one graph are an error.
class Collector {
 public:
  explicit Collector(const TensorContext& context) : context_(context) {}

  void add_initializer(const Field& message, Scope& scope);
  // `name`: of the value; empty: `values` has it. `node`: that holds it; null: none.
  void add_sparse(const Field& message, const Frame& parent, std::string name, Scope& scope, const Frame* node);
  // `frame`: of the attribute.
  void add_constant(const Frame& frame, const Node& node, const Attribute& attribute, Scope& scope);
  void add_attribute(const Field& message, const Frame& frame, std::string name, Scope& scope);

  // Knows the pairs of Scope::casts again, and what Scope::exact names, once the graph has been read.
  void finish(const Scope& scope);

  std::vector<Found> found;
  std::vector<MessagePlace> messages;
  std::vector<SparseShape> sparse;

 private:
  void add_list(const Frame& frame, const std::string& name, Scope& scope, std::uint32_t field, bool single,
                const NumberList& list);
  static void check_kind(const Frame& frame, const std::string& name, const Attribute& attribute);
  void claim(Scope& scope, const std::string& name, std::uint64_t at);
  void insert(ParsedTensor parsed, std::string name, const Scope& scope, Role role, std::ptrdiff_t message,
              const Frame* node);
  std::ptrdiff_t place(const Frame& frame);
  std::ptrdiff_t place(const Field& message, const Frame& parent);

  const TensorContext& context_;
};

}  // namespace wconv::onnx
