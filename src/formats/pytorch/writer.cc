#include <algorithm>
#include <array>
#include <map>

#include "core/json_text.h"
#include "formats/pytorch/pickle_writer.h"
#include "formats/pytorch/pytorch.h"
#include "formats/pytorch/zip_archive.h"
#include "formats/pytorch/zip_plan.h"
#include "wconv/byte_reader.h"
#include "wconv/error.h"

namespace wconv {
namespace {

constexpr std::string_view kRoot = "archive/";  // torch.save's own choice where it knows no file name

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto* first = reinterpret_cast<const std::byte*>(text.data());
  return {first, first + text.size()};
}

std::string metadata_json_text(const Metadata& metadata) {
  std::string text;
  for (const auto& [key, value] : metadata_to_text(metadata)) {
    text += (text.empty() ? "" : ", ") + json_string(key) + ": " + json_string(value);
  }
  return "{" + text + "}";
}

// torch multiplies sizes from the first dimension up to one that is 0, and strides from the last with 1 for each 0;
// both must fit 63 bits. Only tensors without elements can fail that.
bool torch_counts(const std::vector<std::uint64_t>& shape) {
  const auto zero = std::find(shape.begin(), shape.end(), 0);
  std::uint64_t count = 1, stride = 1;
  bool fits = true;
  for (auto size = shape.begin(); size != zero; ++size) fits = fits && checked_mul(count, *size, count);
  for (std::size_t i = shape.size(); i-- > 1;)
    fits = fits && checked_mul(stride, std::max<std::uint64_t>(shape[i], 1), stride);
  return fits && (count | stride) >> 63 == 0 &&
         std::none_of(shape.begin(), shape.end(), [](std::uint64_t size) { return size >> 63 != 0; });
}

class Writer final : public FormatWriter {
 public:
  std::string_view name() const override { return "pytorch"; }
  std::span<const std::string_view> extensions() const override {
    static constexpr std::array<std::string_view, 5> kExtensions = {".pth", ".pt", ".bin", ".ckpt", ".pkl"};
    return kExtensions;
  }

  std::vector<std::string> check(const Model& model, const WriteOptions& options) const override {
    std::vector<std::string> problems;
    if (options.shard_size > 0)
      problems.push_back("--shard-size has no meaning for .pth; safetensors and GGUF can be sharded");
    if (options.file_name.ends_with(".pkl")) problems.push_back("a bare pickle is not written; call the output .pth");
    for (const Tensor& tensor : model.tensors) {
      if (!is_utf8(tensor.info.name))
        problems.push_back(fmt::format("the name '{}' is not UTF-8; --rename it", printable(tensor.info.name)));
      if (!torch_counts(tensor.info.shape))
        problems.push_back(fmt::format(
            "tensor '{}' is empty, but its shape [{}] has sizes or strides of more than torch's 63 bits; --exclude it",
            printable(tensor.info.name), fmt::join(tensor.info.shape, ",")));
      if (info(tensor.info.dtype).torch.empty()) {
        problems.push_back(
            fmt::format("tensor '{}' is {}, which torch doesn't have; --exclude it or cast it with --tensor-dtype",
                        printable(tensor.info.name), wconv::name(tensor.info.dtype)));
      }
    }
    for (const auto& [key, value] : model.metadata) {
      if (!is_utf8(key)) problems.push_back(fmt::format("metadata key '{}' is not UTF-8; --unset it", printable(key)));
    }
    const std::uint64_t bytes = metadata_json_text(model.metadata).size();
    if (bytes > pytorch::kMaxMetadataBytes)
      problems.push_back(fmt::format("the metadata takes {} bytes; {} are allowed", bytes, pytorch::kMaxMetadataBytes));
    if (model.metadata.find(kMetadataTypesKey)) problems.push_back(std::string(kMetadataTypesProblem));
    return problems;
  }

  Layout plan(const Model& model, const WriteOptions& options) const override {
    check_total_bytes(model);
    // Tied tensors share a storage.
    std::map<const TensorData*, std::size_t> numbers;
    std::vector<std::size_t> storages, owners;
    for (std::size_t i = 0; i < model.tensors.size(); ++i) {
      const auto [entry, added] = numbers.emplace(model.tensors[i].data.get(), numbers.size());
      if (added) owners.push_back(i);
      storages.push_back(entry->second);
    }
    const std::string root(kRoot);
    pytorch::ZipPlan zip;
    zip.add(root + "data.pkl", pytorch::state_dict_pickle(model.tensors, storages));
    zip.add(root + "byteorder", bytes_of("little"));
    for (std::size_t n = 0; n < owners.size(); ++n) {
      zip.add_tensor(fmt::format("{}data/{}", root, n), owners[n], model.tensors[owners[n]].data->size_bytes());
    }
    zip.add(root + "version", bytes_of("3\n"));
    if (!model.metadata.empty())
      zip.add(root + "extra/wconv_metadata.json", bytes_of(metadata_json_text(model.metadata)));
    Layout layout;
    layout.files.push_back(zip.finish(options.folder ? "pytorch_model.bin" : options.file_name));
    return layout;
  }
};

}  // namespace

const FormatWriter& pytorch_writer() {
  static const Writer writer;
  return writer;
}

}  // namespace wconv
