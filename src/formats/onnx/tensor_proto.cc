#include "formats/onnx/tensor_proto.h"

#include <algorithm>
#include <array>
#include <bitset>

#include "formats/onnx/number_list.h"
#include "formats/onnx/schema.h"
#include "wconv/error.h"
#include "wconv/file.h"

namespace wconv::onnx {
namespace {

using namespace tensor_proto;

constexpr std::string_view kMessage = "TensorProto";

// The fields that hold data, besides raw_data and external_data.
struct ListName {
  std::uint32_t field;
  std::string_view name;
};
constexpr auto kLists = std::to_array<ListName>({{kFloatData, "float_data"},
                                                 {kInt32Data, "int32_data"},
                                                 {kStringData, "string_data"},
                                                 {kInt64Data, "int64_data"},
                                                 {kDoubleData, "double_data"},
                                                 {kUint64Data, "uint64_data"}});

class Parser {
 public:
  Parser(const TensorContext& context, const Field& message) : context_(context), message_(message) {
    parsed_.at = message.at;
  }

  void read_fields() {
    Cursor cursor(context_.reader, message_, kMessage);
    while (cursor.next()) read_field(cursor);
  }

  ParsedTensor finish() {
    check_type();
    check_one_place();
    if (parsed_.data_type == kTypeString) {
      finish_strings();
    } else {
      finish_numbers();
    }
    return std::move(parsed_);
  }

 private:
  void read_field(Cursor& cursor) {
    const Field& field = cursor.field();
    switch (field.number) {
      case kDims:
        read_dims(context_.reader, cursor, parsed_.shape);
        break;
      case kDataType:
        once(field, "data_type");
        parsed_.data_type = cursor.number();
        break;
      case kSegment:
        fail_at(field.at, ErrorCode::kUnsupported, "it is a segment of a tensor; save the model with whole tensors");
      case kName:
        once(field, "name");
        parsed_.name = cursor.text();
        break;
      case kRawData:
        once(field, "raw_data");
        raw_ = cursor.bytes();
        break;
      case kExternalData:
        context_.external.add_entry(context_.reader, cursor.bytes(), external_);
        break;
      case kDataLocation:
        once(field, "data_location");
        if (cursor.number() > kLocationExternal)
          fail_at(field.at, ErrorCode::kCorrupt, "data_location is {}; 0 and 1 are known", cursor.number());
        is_external_ = cursor.number() == kLocationExternal;
        break;
      default:
        for (std::size_t i = 0; i < kLists.size(); ++i)
          if (field.number == kLists[i].field) lists_[i].add(field);
    }
  }

  // Parsers disagree about a field that stands twice.
  void once(const Field& field, std::string_view name) {
    if (seen_.test(field.number)) fail_at(field.at, ErrorCode::kCorrupt, "the field {} stands there twice", name);
    seen_.set(field.number);
  }

  void check_type() {
    const std::uint64_t type = parsed_.data_type;
    if (type == 0) fail_at(message_.at, ErrorCode::kCorrupt, "it has no data_type");
    if (type != kTypeString && !dtype_from_onnx(type))
      fail_at(message_.at, ErrorCode::kUnsupported, "data_type {} is none that wconv knows; 1 to 28 are", type);
  }

  void check_one_place() {
    std::vector<std::string_view> places;
    if (is_external_) places.push_back("an external file");
    if (raw_) places.push_back("raw_data");
    for (std::size_t i = 0; i < kLists.size(); ++i)
      if (!lists_[i].empty()) places.push_back(kLists[i].name);
    if (places.size() > 1)
      fail_at(message_.at, ErrorCode::kCorrupt, "it has data both in {} and {}; one of them is right", places[0],
              places[1]);
  }

  const NumberList& list(std::uint32_t field) const {
    const auto row = std::find_if(kLists.begin(), kLists.end(), [&](const ListName& l) { return l.field == field; });
    return lists_[static_cast<std::size_t>(row - kLists.begin())];
  }

  // Data in a field that does not belong to the type; `right` does.
  void check_no_other(std::uint32_t right, std::string_view right_name) {
    for (std::size_t i = 0; i < kLists.size(); ++i) {
      if (lists_[i].empty() || kLists[i].field == right) continue;
      fail_at(lists_[i].first.at, ErrorCode::kCorrupt, "data_type {} has its data in {}; {} or raw_data is right",
              parsed_.data_type, kLists[i].name, right_name);
    }
  }

  void finish_strings() {
    if (raw_ || is_external_)
      fail_at(raw_ ? raw_->at : message_.at, ErrorCode::kCorrupt, "strings lie in {}; string_data is right",
              raw_ ? "raw_data" : "an external file");
    check_no_other(kStringData, "string_data");
    parsed_.strings = list(kStringData).fields;
    const std::uint64_t wanted = element_count(parsed_.shape);
    if (parsed_.strings != wanted)
      fail_at(message_.at, ErrorCode::kCorrupt, "string_data holds {} strings; dims need {}", parsed_.strings, wanted);
  }

  void finish_numbers() {
    const DType dtype = *dtype_from_onnx(parsed_.data_type);
    const DTypeInfo& type = info(dtype);
    const std::uint64_t elements = element_count(parsed_.shape);
    if (type.kind == DTypeKind::kFloat && elements % type.block_elements != 0) {
      parsed_.refused =
          fmt::format("{} elements of {} do not fill whole bytes; only ONNX holds such a tensor", elements, type.name);
      return;
    }
    const std::uint64_t bytes = storage_bytes(dtype, parsed_.shape);
    const ItemCodec* codec = item_codec(dtype);
    if (!codec && !list(kInt32Data).empty()) {
      parsed_.refused = fmt::format("it is {} in int32_data; save the model again with raw_data", type.name);
      return;
    }
    check_no_other(codec ? codec->field : 0, codec ? codec->name : kMessage);
    place_data(codec, bytes);
    parsed_.tensor->info = {"", dtype, parsed_.shape};
    parsed_.tensor->source_dtype = dtype;
  }

  void place_data(const ItemCodec* codec, std::uint64_t bytes) {
    Tensor& tensor = parsed_.tensor.emplace();
    tensor.source_file = context_.file;
    tensor.source_offset = message_.begin;
    if (is_external_) {
      const auto place = context_.external.find(external_, bytes);
      tensor.source_file = place.file;
      tensor.source_offset = place.offset;
      tensor.data = file_tensor(place.file, place.offset, bytes);
    } else if (raw_) {
      if (raw_->size() != bytes)
        fail_at(raw_->at, ErrorCode::kCorrupt, "raw_data has {} bytes; dims and data_type need {}", raw_->size(),
                bytes);
      tensor.source_offset = raw_->begin;
      tensor.data = file_tensor(context_.file, raw_->begin, bytes);
    } else if (codec && list(codec->field).fields > 0) {
      tensor.source_offset = list(codec->field).first.begin;
      const ListPlace place{context_.file, context_.reader, message_.begin,
                            message_.end,  codec->field,    list(codec->field)};
      tensor.data = list_tensor(place, *codec, bytes / codec->bytes);
    } else {
      if (bytes > 0)
        fail_at(message_.at, ErrorCode::kCorrupt, "it has no data; dims and data_type need {} bytes", bytes);
      tensor.data = file_tensor(context_.file, message_.begin, 0);
    }
  }

  const TensorContext& context_;
  const Field& message_;
  ParsedTensor parsed_;
  std::optional<Field> raw_;
  std::array<NumberList, kLists.size()> lists_;
  ExternalData external_;
  bool is_external_ = false;
  std::bitset<32> seen_;
};

void add_dim(std::uint64_t value, std::uint64_t at, std::vector<std::uint64_t>& dims) {
  if (static_cast<std::int64_t>(value) < 0)
    fail_at(at, ErrorCode::kCorrupt, "dimension {} is {}", dims.size(), static_cast<std::int64_t>(value));
  dims.push_back(value);
}

}  // namespace

void read_dims(ByteReader& reader, const Cursor& cursor, std::vector<std::uint64_t>& dims) {
  const Field& field = cursor.field();
  if (field.wire != Wire::length_delimited) return add_dim(cursor.number(), field.at, dims);
  for (std::uint64_t at = field.begin; at < field.end;) {
    const std::uint64_t begin = at;
    add_dim(read_varint(reader, at, field.end, "dims", kMessage), begin, dims);
  }
}

namespace {

// For the message about a tensor whose name comes after what is wrong with it.
std::string find_name(ByteReader& reader, const Field& message) {
  std::string name;
  try {
    Cursor cursor(reader, message, kMessage);
    while (name.empty() && cursor.next())
      if (cursor.field().number == kName) name = cursor.text();
  } catch (const Error&) {
    return name;
  }
  return name;
}

}  // namespace

ParsedTensor parse_tensor(const TensorContext& context, const Field& message, std::string_view name) {
  try {
    Parser parser(context, message);
    parser.read_fields();
    return parser.finish();
  } catch (Error& error) {
    const std::string own = find_name(context.reader, message);
    throw error.in_tensor(own.empty() ? name : own).at(message.at);
  }
}

}  // namespace wconv::onnx
