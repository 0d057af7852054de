// The opcode machine. See pickle.h.
#include <array>
#include <bit>
#include <charconv>
#include <limits>

#include "core/utf8.h"
#include "formats/pytorch/long_text.h"
#include "formats/pytorch/pickle_builder.h"

namespace wconv::pytorch {
class Unpickler : private PickleBuilder {
 public:
  Unpickler(std::shared_ptr<const File> file, std::uint64_t begin, std::uint64_t end, std::uint64_t stored_bytes)
      : PickleBuilder(std::move(file), begin, end, stored_bytes) {}

  void run() {
    while (!step()) {
    }
    pickle_.end_offset = reader_.offset();
  }
  Pickle take() { return std::move(pickle_); }

 private:
  using Step = void (Unpickler::*)();
  static const std::array<Step, 256>& table();

  // True after STOP.
  bool step() {
    opcode_at_ = reader_.offset();
    if (reader_.at_end()) refuse("ends without STOP; cut short?");
    const std::uint8_t opcode = reader_.u8("pickle opcode");
    if (opcode == '.') {
      pickle_.root = pop();
      if (!stack_.empty()) refuse("STOP leaves {} values on the stack", stack_.size());
      return true;
    }
    const Step action = table()[opcode];
    if (!action) refuse("opcode 0x{:02x} is not one that builds data", opcode);
    (this->*action)();
    return false;
  }

  // --- text forms ---
  static constexpr std::uint64_t kMaxLine = 16 * 1024 * 1024;  // bytes; text of protocol 0 is one line
  std::string line() { return std::string(reader_.take_line("pickle text line", kMaxLine)); }
  std::int64_t decimal(std::string text) {
    if (text.ends_with('L')) text.pop_back();
    std::int64_t number = 0;
    const auto [end, error] =
        std::from_chars(text.data() + (text.starts_with('+') ? 1 : 0), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size()) refuse("'{}' is no 64-bit integer", text);
    return number;
  }
  void push_decimal(const std::string& text, bool booleans) {
    if (booleans && (text == "00" || text == "01")) return push(add(NodeKind::kBool, text == "01"));
    std::string digits = text.ends_with('L') ? text.substr(0, text.size() - 1) : text;
    const std::size_t sign = digits.starts_with('-') ? 1 : 0;
    if (digits.size() == sign || digits.find_first_not_of("0123456789", sign) != std::string::npos) {
      refuse("'{}' is no integer", text);
    }
    if (digits.size() - sign > 18) return push(add_owned(NodeKind::kLong, std::move(digits)));
    push(add(NodeKind::kInt, static_cast<std::uint64_t>(decimal(digits))));
  }
  // The escapes of a Python string literal.
  std::string unescape(std::string_view quoted) {
    if (quoted.size() < 2 || quoted.front() != quoted.back() || (quoted.front() != '\'' && quoted.front() != '"')) {
      refuse("STRING is not quoted");
    }
    quoted = quoted.substr(1, quoted.size() - 2);
    std::string text;
    for (std::size_t i = 0; i < quoted.size(); ++i) {
      if (quoted[i] != '\\' || i + 1 == quoted.size()) {
        text += quoted[i];
        continue;
      }
      const char c = quoted[++i];
      static constexpr std::string_view kFrom = "abfnrtv\\'\"", kTo = "\a\b\f\n\r\t\v\\'\"";
      if (c == 'x' && i + 2 < quoted.size()) {
        unsigned value = 0;
        const auto* digits = quoted.data() + i + 1;
        if (std::from_chars(digits, digits + 2, value, 16).ptr != digits + 2) refuse("STRING has a broken \\x escape");
        text += static_cast<char>(value);
        i += 2;
      } else if (const auto at = kFrom.find(c); at != std::string_view::npos) {
        text += kTo[at];
      } else {
        text += '\\';
        text += c;
      }
    }
    return text;
  }

  // Python's raw-unicode-escape: bytes are latin-1, \uXXXX and \UXXXXXXXX the rest.
  std::string raw_unicode(std::string_view raw) {
    std::string text;
    for (std::size_t i = 0; i < raw.size(); ++i) {
      std::uint32_t c = static_cast<unsigned char>(raw[i]);
      const bool escape = c == '\\' && i + 1 < raw.size() && (raw[i + 1] == 'u' || raw[i + 1] == 'U');
      if (escape) {
        const std::string_view digits = raw.substr(i + 2, raw[i + 1] == 'u' ? 4 : 8);
        const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), c, 16);
        if (error != std::errc() || end != digits.data() + digits.size() || (digits.size() != 4 && digits.size() != 8))
          refuse("UNICODE has a broken \\u escape");
        i += 1 + digits.size();
      }
      if (!append_utf8(text, c)) refuse("UNICODE holds U+{:X}, which is no character", c);
    }
    return text;
  }

  // --- lengths ---
  void push_sized(NodeKind kind, std::uint64_t size) {
    const std::uint64_t at = reader_.offset();
    reader_.skip(size, kind == NodeKind::kText ? "pickle: text" : "pickle: bytes");
    push(add_blob(kind, at, size));
  }
  std::uint64_t signed_length(std::int64_t length) {
    if (length < 0) refuse("a length is negative: {}", length);
    return static_cast<std::uint64_t>(length);
  }
  // The last byte of a two's complement number says nothing but the sign, which the one before it says too.
  static bool repeats_sign(std::span<const std::byte> bytes) {
    const bool negative = std::to_integer<unsigned>(bytes[bytes.size() - 2]) >> 7 != 0;
    return bytes.back() == (negative ? std::byte{0xff} : std::byte{0});
  }
  void push_long(std::uint64_t size) {
    auto bytes = reader_.take(size, "pickle: LONG");
    for (; size > 8 && repeats_sign(bytes); --size) bytes = bytes.first(size - 1);
    if (size <= 8) {
      std::uint64_t value = size > 0 && (std::to_integer<unsigned>(bytes[size - 1]) & 0x80u) ? ~std::uint64_t{0} : 0;
      for (std::size_t i = size; i-- > 0;) value = value << 8 | std::to_integer<std::uint64_t>(bytes[i]);
      return push(add(NodeKind::kInt, value));
    }
    push(add_owned(NodeKind::kLong, long_text(bytes)));
  }

  // --- opcodes ---
  void op_mark() { push(kMark); }
  void op_pop() {
    if (stack_.empty()) refuse("POP on an empty stack");
    stack_.pop_back();
  }
  void op_pop_mark() { pop_to_mark(); }
  void op_dup() { push(top()); }
  void op_proto() {
    const std::uint8_t version = reader_.u8("pickle: protocol");
    if (version > 5) refuse("protocol {} is not known; 0 to 5 are", version);
  }
  void op_frame() {
    const std::uint64_t size = reader_.u64("pickle: frame length");
    if (size > reader_.remaining())
      refuse("a frame of {} bytes, but {} are left; cut short?", size, reader_.remaining());
  }
  void op_none() { push(add(NodeKind::kNone, 0)); }
  void op_true() { push(add(NodeKind::kBool, 1)); }
  void op_false() { push(add(NodeKind::kBool, 0)); }
  void op_int() { push_decimal(line(), true); }
  void op_long() { push_decimal(line(), false); }
  void op_binint() {
    push(add(NodeKind::kInt, static_cast<std::uint64_t>(std::int64_t{reader_.i32("pickle: BININT")})));
  }
  void op_binint1() { push(add(NodeKind::kInt, reader_.u8("pickle: BININT1"))); }
  void op_binint2() { push(add(NodeKind::kInt, reader_.u16("pickle: BININT2"))); }
  void op_long1() { push_long(reader_.u8("pickle: LONG1 length")); }
  void op_long4() { push_long(signed_length(reader_.i32("pickle: LONG4 length"))); }
  void op_float() {
    const std::string text = line();
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    if (text.empty() || end != text.c_str() + text.size()) refuse("'{}' is no float", text);
    push(add(NodeKind::kFloat, std::bit_cast<std::uint64_t>(value)));
  }
  void op_binfloat() {
    reader_.set_endian(ByteReader::Endian::kBig);
    const std::uint64_t bits = reader_.u64("pickle: BINFLOAT");
    reader_.set_endian(ByteReader::Endian::kLittle);
    push(add(NodeKind::kFloat, bits));
  }
  void op_string() { push(add_owned(NodeKind::kText, unescape(line()))); }
  void op_unicode() { push(add_owned(NodeKind::kText, raw_unicode(line()))); }
  void op_binstring() { push_sized(NodeKind::kText, signed_length(reader_.i32("pickle: BINSTRING length"))); }
  void op_short_binstring() { push_sized(NodeKind::kText, reader_.u8("pickle: SHORT_BINSTRING length")); }
  void op_binunicode() { push_sized(NodeKind::kText, reader_.u32("pickle: BINUNICODE length")); }
  void op_short_binunicode() { push_sized(NodeKind::kText, reader_.u8("pickle: SHORT_BINUNICODE length")); }
  void op_binunicode8() { push_sized(NodeKind::kText, reader_.u64("pickle: BINUNICODE8 length")); }
  void op_binbytes() { push_sized(NodeKind::kBytes, reader_.u32("pickle: BINBYTES length")); }
  void op_short_binbytes() { push_sized(NodeKind::kBytes, reader_.u8("pickle: SHORT_BINBYTES length")); }
  void op_binbytes8() { push_sized(NodeKind::kBytes, reader_.u64("pickle: BINBYTES8 length")); }
  void op_empty_list() { push(add_list(NodeKind::kList, {})); }
  void op_empty_tuple() { push(add_list(NodeKind::kTuple, {})); }
  void op_empty_dict() { push(add_list(NodeKind::kDict, {})); }
  void op_empty_set() { push(add_list(NodeKind::kSet, {})); }
  void op_list() { push(add_list(NodeKind::kList, pop_to_mark())); }
  void op_tuple() { push(add_list(NodeKind::kTuple, pop_to_mark())); }
  void op_frozenset() { push(add_list(NodeKind::kSet, pop_to_mark())); }
  void op_tuple1() { push(add_list(NodeKind::kTuple, pop_items(1))); }
  void op_tuple2() { push(add_list(NodeKind::kTuple, pop_items(2))); }
  void op_tuple3() { push(add_list(NodeKind::kTuple, pop_items(3))); }
  void op_dict() {
    auto pairs = pop_to_mark();
    if (pairs.size() % 2 != 0) refuse("DICT has a key without a value");
    push(add_list(NodeKind::kDict, std::move(pairs)));
  }
  void op_append() {
    const NodeId item = pop();
    append_to(top(), {item});
  }
  void op_appends() {
    const auto items = pop_to_mark();
    append_to(top(), items);
  }
  void op_setitem() {
    const auto pair = pop_items(2);
    set_items(top(), pair);
  }
  void op_setitems() {
    const auto pairs = pop_to_mark();
    set_items(top(), pairs);
  }
  void op_put() { memo_set(signed_length(decimal(line()))); }
  void op_binput() { memo_set(reader_.u8("pickle: BINPUT")); }
  void op_long_binput() { memo_set(reader_.u32("pickle: LONG_BINPUT")); }
  void op_memoize() { memo_set(memo_.size()); }
  void op_get() { memo_get(signed_length(decimal(line()))); }
  void op_binget() { memo_get(reader_.u8("pickle: BINGET")); }
  void op_long_binget() { memo_get(reader_.u32("pickle: LONG_BINGET")); }
  void op_global() {
    std::string module = line();
    push(add_global(std::move(module), line()));
  }
  void op_stack_global() {
    const auto names = pop_items(2);
    for (const NodeId name : names) {
      if (pickle_.kind(name) != NodeKind::kText) refuse("STACK_GLOBAL names something that is no text");
    }
    push(add_global(pickle_.text(names[0]), pickle_.text(names[1])));
  }
  void op_reduce() {
    const auto parts = pop_items(2);
    push(add_object(parts[0], parts[1], Making::kCall));
  }
  void op_newobj() {
    const auto parts = pop_items(2);
    push(add_object(parts[0], parts[1], Making::kNew));
  }
  void op_newobj_ex() {
    const auto parts = pop_items(3);
    const NodeId object = add_object(parts[0], parts[1], Making::kNew);
    set_keywords(object, parts[2]);
    push(object);
  }
  void op_inst() {
    std::string module = line();
    const NodeId global = add_global(std::move(module), line());
    const NodeId args = add_list(NodeKind::kTuple, pop_to_mark());
    push(add_object(global, args, Making::kCall));
  }
  void op_obj() {
    auto items = pop_to_mark();
    if (items.empty()) refuse("OBJ names no class");
    const NodeId callable = items.front();
    items.erase(items.begin());
    push(add_object(callable, add_list(NodeKind::kTuple, std::move(items)), Making::kCall));
  }
  void op_build() {
    const NodeId state = pop();
    set_state(top(), state);
  }
  void push_persistent(NodeId id) {
    const NodeId node = add_list(NodeKind::kPersistent, {id});
    pickle_.persistent.push_back(node);
    push(node);
  }
  void op_persid() { push_persistent(add_owned(NodeKind::kText, line())); }
  void op_binpersid() { push_persistent(pop()); }
  void op_extension() { refuse("names a class by an extension code, which only its maker can resolve"); }
  void op_out_of_band() { refuse("wants buffers that are not in the file"); }
};

const std::array<Unpickler::Step, 256>& Unpickler::table() {
  using U = Unpickler;
  static const std::array<Step, 256> steps = [] {
    std::array<Step, 256> t{};
    const std::pair<unsigned char, Step> rows[] = {
        {'(', &U::op_mark},
        {'0', &U::op_pop},
        {'1', &U::op_pop_mark},
        {'2', &U::op_dup},
        {0x80, &U::op_proto},
        {0x95, &U::op_frame},
        {'N', &U::op_none},
        {0x88, &U::op_true},
        {0x89, &U::op_false},
        {'I', &U::op_int},
        {'L', &U::op_long},
        {'J', &U::op_binint},
        {'K', &U::op_binint1},
        {'M', &U::op_binint2},
        {0x8a, &U::op_long1},
        {0x8b, &U::op_long4},
        {'F', &U::op_float},
        {'G', &U::op_binfloat},
        {'S', &U::op_string},
        {'V', &U::op_unicode},
        {'T', &U::op_binstring},
        {'U', &U::op_short_binstring},
        {'X', &U::op_binunicode},
        {0x8c, &U::op_short_binunicode},
        {0x8d, &U::op_binunicode8},
        {'B', &U::op_binbytes},
        {'C', &U::op_short_binbytes},
        {0x8e, &U::op_binbytes8},
        {0x96, &U::op_binbytes8},
        {']', &U::op_empty_list},
        {')', &U::op_empty_tuple},
        {'}', &U::op_empty_dict},
        {0x8f, &U::op_empty_set},
        {'l', &U::op_list},
        {'t', &U::op_tuple},
        {0x91, &U::op_frozenset},
        {0x85, &U::op_tuple1},
        {0x86, &U::op_tuple2},
        {0x87, &U::op_tuple3},
        {'d', &U::op_dict},
        {'a', &U::op_append},
        {'e', &U::op_appends},
        {0x90, &U::op_appends},
        {'s', &U::op_setitem},
        {'u', &U::op_setitems},
        {'p', &U::op_put},
        {'q', &U::op_binput},
        {'r', &U::op_long_binput},
        {0x94, &U::op_memoize},
        {'g', &U::op_get},
        {'h', &U::op_binget},
        {'j', &U::op_long_binget},
        {'c', &U::op_global},
        {0x93, &U::op_stack_global},
        {'R', &U::op_reduce},
        {0x81, &U::op_newobj},
        {0x92, &U::op_newobj_ex},
        {'i', &U::op_inst},
        {'o', &U::op_obj},
        {'b', &U::op_build},
        {'P', &U::op_persid},
        {'Q', &U::op_binpersid},
        {0x82, &U::op_extension},
        {0x83, &U::op_extension},
        {0x84, &U::op_extension},
        {0x97, &U::op_out_of_band},
        {0x98, &U::op_out_of_band},
    };
    for (const auto& [opcode, step] : rows) t[opcode] = step;
    return t;
  }();
  return steps;
}

Pickle read_pickle(std::shared_ptr<const File> file, std::uint64_t begin, std::uint64_t end,
                   std::uint64_t stored_bytes) {
  BrokenPickle read = read_broken_pickle(std::move(file), begin, end, stored_bytes);
  if (read.error) throw std::move(*read.error);
  return std::move(read.pickle);
}

BrokenPickle read_broken_pickle(std::shared_ptr<const File> file, std::uint64_t begin, std::uint64_t end,
                                std::uint64_t stored_bytes) {
  Unpickler unpickler(std::move(file), begin, end, stored_bytes);
  std::optional<Error> error;
  try {
    unpickler.run();
  } catch (const Error& thrown) {
    error = thrown;
  }
  return {unpickler.take(), std::move(error)};
}

}  // namespace wconv::pytorch
