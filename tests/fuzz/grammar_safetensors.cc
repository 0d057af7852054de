// safetensors: the length of the header, its JSON, the tensors. Strings keep their escapes.
#include <algorithm>
#include <cctype>
#include <charconv>

#include "structure.h"

namespace wconv::fuzz {
namespace {

// Labels. A member of an object is a group of its key and its value.
enum : int { kObject, kArray, kMember, kString, kInteger, kLiteral, kPadding, kData };

constexpr int kMaxDepth = 100;
constexpr std::string_view kWords[] = {"F32",     "F64",          "F16",
                                       "BF16",    "F8_E4M3",      "F8_E5M2",
                                       "F4",      "F6_E2M3",      "C64",
                                       "BOOL",    "I8",           "U8",
                                       "I16",     "I64",          "U64",
                                       "F8_E8M0", "__metadata__", "",
                                       "dtype",   "shape",        "data_offsets",
                                       "format",  "pt",           "wconv.types",
                                       "\\ud800", "\\u0000",      "\xff",
                                       "null",    "-1",           "1.5",
                                       "1e3",     "00",           "{\"x\":\"u32\"}"};

class Json {
 public:
  explicit Json(std::string_view text) : text_(text) {}
  std::size_t position() const { return at_; }

  bool value(Node& node, int depth) {
    skip_space();
    if (at_ == text_.size() || depth == kMaxDepth) return false;
    if (text_[at_] == '{') return list(node, kObject, '}', depth);
    if (text_[at_] == '[') return list(node, kArray, ']', depth);
    if (text_[at_] == '"') return string(node);
    const std::size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 ||
                                  std::string_view("+-.").find(text_[at_]) != std::string_view::npos))
      ++at_;
    const std::string_view literal = text_.substr(begin, at_ - begin);
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(literal.data(), literal.data() + literal.size(), number);
    const bool whole = error == std::errc() && end == literal.data() + literal.size();
    node = whole ? number_node(kInteger, number) : text_node(kLiteral, literal);
    return !literal.empty();
  }

 private:
  void skip_space() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }
  bool take(char c) {
    skip_space();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool string(Node& node) {
    const std::size_t begin = ++at_;
    for (; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      if (text_[at_] == '\\') ++at_;
    }
    if (at_ >= text_.size()) return false;
    node = text_node(kString, text_.substr(begin, at_++ - begin));
    return true;
  }
  bool list(Node& node, int label, char close, int depth) {
    ++at_;
    node = group_node(label);
    if (take(close)) return true;
    do {
      Node member = group_node(kMember);
      if (label == kObject) {
        skip_space();
        if (at_ == text_.size() || text_[at_] != '"' || !string(member.parts.emplace_back()) || !take(':'))
          return false;
      }
      if (!value(member.parts.emplace_back(), depth + 1)) return false;
      node.parts.push_back(label == kObject ? std::move(member) : std::move(member.parts[0]));
    } while (take(','));
    return take(close);
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

bool parse(std::string_view bytes, Node& root) {
  Cursor cursor(bytes);
  const std::string_view header = cursor.take(cursor.number(8));
  if (!cursor.ok() || header.empty() || header[0] != '{') return false;
  Json json(header);
  root = group_node(kObject);
  if (!json.value(root.parts.emplace_back(), 0)) return false;
  root.parts.push_back(text_node(kPadding, header.substr(json.position())));
  root.parts.push_back(text_node(kData, cursor.rest()));
  return true;
}

std::string json_text(const Node& node) {
  if (node.kind == NodeKind::kNumber) return std::to_string(node.number);
  if (node.label == kString) return '"' + node.text + '"';
  if (node.kind == NodeKind::kText) return node.text;
  std::string text;
  const char separator = node.label == kMember ? ':' : ',';
  for (const Node& part : node.parts)
    text += (&part == &node.parts[0] ? "" : std::string(1, separator)) + json_text(part);
  if (node.label == kMember) return text;
  return node.label == kObject ? '{' + text + '}' : '[' + text + ']';
}

std::string write(const Node& root) {
  std::string header, data;
  for (const Node& part : root.parts) (part.label == kData ? data : header) += json_text(part);
  return little_endian(header.size() + (root.parts.empty() ? 0 : root.parts[0].lie), 8) + header + data;
}

// The offsets of one tensor that begins at `end`, which is moved behind it.
void settle_tensor(Node& fields, std::uint64_t& end) {
  std::optional<DType> dtype;
  std::vector<std::uint64_t> shape;
  Node* offsets = nullptr;
  for (Node& field : fields.parts) {
    if (field.parts.size() != 2) continue;
    Node& value = field.parts[1];
    if (field.parts[0].text == "dtype") dtype = dtype_from_safetensors(value.text);
    if (field.parts[0].text == "data_offsets") offsets = &value;
    if (field.parts[0].text != "shape") continue;
    for (const Node& size : value.parts) shape.push_back(size.number);
  }
  const std::optional<std::uint64_t> size = small_size(dtype, shape);
  if (offsets == nullptr || !size) return;
  *offsets = group_node(kArray);
  offsets->parts = {number_node(kInteger, end), number_node(kInteger, end + *size)};
  end += *size;
}

void settle(Node& root) {
  std::uint64_t end = 0;
  for (Node& part : root.parts) {
    for (Node& member : part.parts) {
      if (member.parts.size() == 2) settle_tensor(member.parts[1], end);
    }
    if (part.label == kData) part.text.resize(end, 'd');
  }
}

}  // namespace

const Grammar& safetensors_grammar() {
  static const Grammar grammar{parse, write, kWords, settle};
  return grammar;
}

}  // namespace wconv::fuzz
