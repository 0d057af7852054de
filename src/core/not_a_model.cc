#include "core/not_a_model.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <string>

#include "wconv/error.h"

namespace wconv {
namespace {

using namespace std::string_view_literals;

[[noreturn]] void refuse(const File& file, ErrorCode code, std::string message) {
  throw Error(code, std::move(message)).in_file(file.path());
}

// The rest of the line that begins with `key`, or empty.
std::string_view line_value(std::string_view text, std::string_view key) {
  const auto at = text.find(key);
  if (at == std::string_view::npos) return {};
  text.remove_prefix(at + key.size());
  return text.substr(0, text.find_first_of("\r\n"));
}

void refuse_lfs_pointer(const File& file, std::string_view text) {
  if (!text.starts_with("version https://git-lfs.github.com/spec/") &&
      !text.starts_with("version https://hawser.github.com/spec/")) {
    return;
  }
  const auto size = line_value(text, "\nsize ");
  const auto oid = line_value(text, "\noid sha256:");
  refuse(file, ErrorCode::kMissing,
         fmt::format("is a Git LFS pointer, not the file itself (real size {} bytes, sha256 {}); run 'git lfs pull'",
                     size.empty() ? "unknown" : size, oid.empty() ? "unknown" : oid));
}

struct Magic {
  std::string_view bytes;
  std::size_t offset;
  ErrorCode code;
  std::string_view message;

  bool in(std::string_view text) const { return text.size() > offset && text.substr(offset).starts_with(bytes); }
  // A model may begin with two or three such bytes, as the length of a safetensors header, or have a name further on.
  bool is_sure() const { return offset == 0 && bytes.size() >= 4; }
};

constexpr std::array kMagics = std::to_array<Magic>({
    {"\x1f\x8b"sv, 0, ErrorCode::kUnsupported, "is compressed with gzip; unpack it first"},
    {"\xfd"
     "7zXZ"sv,
     0, ErrorCode::kUnsupported, "is compressed with xz; unpack it first"},
    {"BZh"sv, 0, ErrorCode::kUnsupported, "is compressed with bzip2; unpack it first"},
    {"\x28\xb5\x2f\xfd"sv, 0, ErrorCode::kUnsupported, "is compressed with zstd twice; unpack it first"},
    {"7z\xbc\xaf\x27\x1c"sv, 0, ErrorCode::kUnsupported, "is a 7-Zip archive; unpack it first"},
    {"Rar!\x1a\x07"sv, 0, ErrorCode::kUnsupported, "is a RAR archive; unpack it first"},
    {"\x89HDF\r\n\x1a\n"sv, 0, ErrorCode::kUnsupported, "is an HDF5 file (Keras?); wconv does not read it"},
    {"\x93NUMPY"sv, 0, ErrorCode::kUnsupported, "is a NumPy array (.npy); wconv does not read it"},
    {"ggml"sv, 0, ErrorCode::kUnsupported, "is an old GGML file from before GGUF; convert it with an old llama.cpp"},
    {"lmgg"sv, 0, ErrorCode::kUnsupported, "is an old GGML file from before GGUF; convert it with an old llama.cpp"},
    {"fmgg"sv, 0, ErrorCode::kUnsupported, "is an old GGML file from before GGUF; convert it with an old llama.cpp"},
    {"tjgg"sv, 0, ErrorCode::kUnsupported, "is an old GGML file from before GGUF; convert it with an old llama.cpp"},
    {"TFL3"sv, 4, ErrorCode::kUnsupported, "is a TensorFlow Lite model; wconv does not read it"},
    {"outs:\n"sv, 0, ErrorCode::kMissing, "is a DVC stub, not the file itself; run 'dvc pull'"},
    {"%PDF-"sv, 0, ErrorCode::kCorrupt, "is a PDF document, not a model"},
    {"\x89PNG\r\n"sv, 0, ErrorCode::kCorrupt, "is a PNG picture, not a model"},
});

void refuse_markup(const File& file, std::string_view text) {
  const auto start = text.find_first_not_of(" \t\r\n\xef\xbb\xbf");
  if (start == std::string_view::npos) return;
  std::string head(text.substr(start, 64));
  std::transform(head.begin(), head.end(), head.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (head.starts_with("<!doctype html") || head.starts_with("<html") || head.starts_with("<head")) {
    refuse(file, ErrorCode::kCorrupt,
           "is an HTML page, not a model: the download got an error or log-in page; download it again");
  }
  if (head.starts_with("<?xml") || head.starts_with("<error")) {
    refuse(file, ErrorCode::kCorrupt,
           "is an XML message, not a model: the server answered with an error; download it again");
  }
  static constexpr std::array kAnswers = {"entry not found"sv,
                                          "repository not found"sv,
                                          "invalid username or password"sv,
                                          "invalid credentials"sv,
                                          "access to model"sv,
                                          "access denied"sv,
                                          "unauthorized"sv,
                                          "forbidden"sv,
                                          "not found"sv};
  if (std::any_of(kAnswers.begin(), kAnswers.end(),
                  [&](std::string_view answer) { return head.starts_with(answer); })) {
    refuse(
        file, ErrorCode::kCorrupt,
        fmt::format("is a message of the server, not a model: \"{}\"; log in or correct the address, and download it "
                    "again",
                    printable(line_value(text.substr(start, 200), ""))));
  }
  // The length of a safetensors header may begin with the byte '{'; zeros follow it.
  if (head.starts_with("{") && head.find('\0') == std::string::npos && file.size() < 64 * 1024) {
    refuse(file, ErrorCode::kCorrupt, "is JSON text, not weights: an error message, or a config file given by mistake");
  }
}

bool is_unfinished_name(std::string_view path) {
  static constexpr std::array kSuffixes = {".incomplete"sv, ".aria2"sv, ".part"sv,     ".crdownload"sv,
                                           ".download"sv,   ".!qB"sv,   ".wconv-tmp"sv};
  return std::any_of(kSuffixes.begin(), kSuffixes.end(),
                     [&](std::string_view suffix) { return path.ends_with(suffix); });
}

}  // namespace

void refuse_known_impostors(const File& file, std::span<const std::byte> head, bool recognised) {
  const std::string_view text(reinterpret_cast<const char*>(head.data()), head.size());
  if (file.size() == 0) refuse(file, ErrorCode::kCorrupt, "is empty (0 bytes): an unfinished download");
  refuse_lfs_pointer(file, text);
  for (const Magic& magic : kMagics) {
    if (magic.in(text) && (!recognised || magic.is_sure())) refuse(file, magic.code, std::string(magic.message));
  }
  refuse_markup(file, text);
  std::error_code ignored;
  if (is_unfinished_name(file.path()) || std::filesystem::exists(file.path() + ".aria2", ignored)) {
    refuse(file, ErrorCode::kCorrupt, "is an unfinished download; let the download end, or start it again");
  }
  if (head.size() >= 512 && std::all_of(head.begin(), head.end(), [](std::byte b) { return b == std::byte{0}; })) {
    refuse(file, ErrorCode::kCorrupt,
           fmt::format("begins with {} zero bytes: an unfinished or damaged download", head.size()));
  }
}

}  // namespace wconv
