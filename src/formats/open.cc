// What a person calls a model: a file, an index, a folder.
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "core/not_a_model.h"
#include "core/zstd_file.h"
#include "formats/folder.h"
#include "wconv/error.h"
#include "wconv/format.h"
#include "wconv/interrupt.h"

namespace wconv {
namespace {

constexpr std::uint64_t kHeadBytes = 4096;

// A file that no reader recognises, but whose name says what it should be: that reader explains best what is wrong.
const FormatReader* reader_by_name(const std::string& path) {
  const FormatWriter* writer = find_writer_by_extension(path);
  if (!writer) return nullptr;
  for (const FormatReader* reader : readers()) {
    if (reader->name() == writer->name()) return reader;
  }
  return nullptr;
}

void note_wrong_extension(Model& model, const std::string& path) {
  const FormatWriter* expected = find_writer_by_extension(path);
  if (!expected || expected->name() == model.format) return;
  model.findings.push_back(
      {Severity::kWarning, "wrong-extension",
       fmt::format("the name says {}, the content is {}; read as what it is", expected->name(), model.format)});
}

}  // namespace

Model open_file(std::shared_ptr<const File> given, const ReadOptions& options) {
  const auto file = unpacked(std::move(given));
  std::vector<std::byte> head(std::min(file->size(), kHeadBytes));
  try {
    file->read(0, head);
    const auto found = std::find_if(readers().begin(), readers().end(), [&](const auto* r) { return r->probe(head); });
    const FormatReader* reader = found == readers().end() ? nullptr : *found;
    if (!reader) {
      refuse_known_impostors(*file, head, false);
      reader = reader_by_name(file->path());
    }
    if (!reader) {
      fail(ErrorCode::kUnsupported, "is in no format that wconv reads (safetensors, PyTorch, GGUF, ONNX)");
    }
    Model model;
    try {
      model = reader->open(file, options);
    } catch (const Error&) {
      if (found != readers().end()) refuse_known_impostors(*file, head, true);
      throw;
    }
    note_wrong_extension(model, file->path());
    for (SourceFile& source : model.files) source.bytes = source.file->stored().size();
    return model;
  } catch (Error& error) {
    throw error.in_file(file->path());
  }
}

namespace {

Model open_path(const std::string& path, const ReadOptions& options) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) return open_folder(path, options);
  if (is_index_name(path)) return open_index(path, options);
  return open_file(File::open(path), options);
}

}  // namespace

Model open_model(const std::string& path, const ReadOptions& options) {
  Model model = open_path(path, options);
  check_interrupted();  // a reader may have taken the error of a read for damage that it can report
  return model;
}

}  // namespace wconv
