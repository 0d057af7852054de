// What opens is written in every format that can hold it and read again: the same tensors and metadata. An ONNX file
// has a graph around its tensors and is rewritten; nothing else becomes ONNX.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <span>
#include <string>

#include "core/hash.h"
#include "wconv/engine.h"
#include "wconv/error.h"
#include "wconv/format.h"

namespace {

namespace fs = std::filesystem;
using namespace wconv;

constexpr std::uint64_t kMaxBytes = 256 * 1024;  // of all tensors: views can make much of little

[[noreturn]] void broken(const std::string& promise) {
  std::fprintf(stderr, "broken promise: %s\n", promise.c_str());
  std::abort();
}

// A folder for the life of the program. In `source` lies what ONNX files refer to.
const fs::path& scratch() {
  static const fs::path path = [] {
    std::string name = fs::exists("/dev/shm") ? "/dev/shm/wconv-fuzz-XXXXXX" : "/tmp/wconv-fuzz-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) broken("a folder for temporary files");
    std::atexit([] { fs::remove_all(scratch()); });
    fs::create_directory(name + "/source");
    std::ofstream(name + "/source/weights.bin") << std::string(4096, 'w');
    return fs::path(name);
  }();
  return path;
}

using Contents = std::map<std::string, std::string>;

// By name: dtype, shape and digest of a tensor; type and value of metadata. Throws where a value cannot be read.
Contents contents(const Model& model) {
  Contents contents;
  for (const Tensor& tensor : model.tensors) {
    std::vector<std::byte> bytes(tensor.data->size_bytes());
    tensor.data->read(0, bytes);
    Sha256 sha;
    sha.update(bytes);
    contents["tensor " + tensor.info.name] =
        fmt::format("{} [{}] {}", name(tensor.info.dtype), fmt::join(tensor.info.shape, ", "), sha.hex());
  }
  for (const auto& [key, value] : model.metadata)
    contents["metadata " + key] = fmt::format("{} {}", meta_type_name(value.type), metadata_json(value));
  return contents;
}

// Equal tensors that lie elsewhere: all of them are written anew into an ONNX graph.
Model copied(Model model) {
  for (Tensor& tensor : model.tensors) {
    std::vector<std::byte> bytes(tensor.data->size_bytes());
    tensor.data->read(0, bytes);
    tensor.data = memory_tensor(std::move(bytes));
  }
  return model;
}

void require_same(const Contents& expected, const Contents& found, std::string_view format) {
  if (expected == found) return;
  const auto differ = std::mismatch(expected.begin(), expected.end(), found.begin(), found.end());
  const auto text = [](auto entry, const Contents& all) {
    return entry == all.end() ? "nothing" : printable(entry->first + ": " + entry->second);
  };
  broken(fmt::format("{} gives the same model: {}, not {}", format, text(differ.first, expected),
                     text(differ.second, found)));
}

// What check() allows can be written, but for records with a wrong CRC-32: weights are read here for the first time.
bool written(const Model& model, const FormatWriter& writer, const std::string& path, int zstd_level) {
  const WriteOptions write{fs::path(path).filename(), false, 0};
  if (!writer.check(model, write).empty()) return false;
  EngineOptions options;
  options.threads = 1;
  options.force = true;
  try {
    Output output(path, false, true);
    Layout layout = writer.plan(model, write);
    for (OutputFile& file : layout.files) file.zstd_level = zstd_level;
    execute(model, layout, output, options);
    output.commit();
    return true;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kCorrupt) return false;
    broken(fmt::format("what {} can hold is written: {}", writer.name(), error.what()));
  }
}

void round_trip(const Model& model, const FormatWriter& writer, const Contents& expected, int zstd_level = 0) {
  const std::string path = (scratch() / "out").string() + std::string(writer.extensions()[0]);
  if (!written(model, writer, path, zstd_level)) return;
  Contents found;
  try {
    found = contents(open_model(path, {}));
  } catch (const Error& error) {
    broken(fmt::format("what was written as {} can be read: {}", writer.name(), error.what()));
  }
  require_same(expected, found, writer.name());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  try {
    static const std::string path = (scratch() / "source" / "input").string();
    const Model model = open_file(File::from_bytes(path, std::as_bytes(std::span(data, size))), {});
    std::uint64_t total = 0;
    for (const Tensor& tensor : model.tensors) {
      if (tensor.data->size_bytes() > kMaxBytes || (total += tensor.data->size_bytes()) > kMaxBytes) return 0;
    }
    if (!model.refused.empty()) return 0;
    const Contents expected = contents(model);
    for (const FormatWriter* writer : writers()) round_trip(model, *writer, expected);
    round_trip(model, *find_writer("safetensors"), expected, 1);
    if (model.graph) round_trip(copied(model), *find_writer("onnx"), expected);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInternal) broken(error.what());
  }
  return 0;
}
