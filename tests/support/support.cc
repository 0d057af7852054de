#include "support/support.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <system_error>

#include "core/json_text.h"

namespace wconv::test {

namespace fs = std::filesystem;

TempDir::TempDir() {
  std::string name = (fs::temp_directory_path() / "wconv-test-XXXXXX").string();
  if (!::mkdtemp(name.data())) throw std::system_error(errno, std::generic_category(), name);
  path_ = name;
}

TempDir::~TempDir() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::vector<std::string> TempDir::names() const {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(path_)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

namespace {

// With `added`, an entry replaces one of the same name.
std::vector<std::string> merged_environment(const std::vector<std::string>& added) {
  std::vector<std::string> all = added;
  for (char** entry = environ; *entry; ++entry) {
    const std::string_view text(*entry);
    const std::string_view key = text.substr(0, text.find('=') + 1);
    if (std::none_of(added.begin(), added.end(), [&](const std::string& a) { return a.starts_with(key); })) {
      all.emplace_back(text);
    }
  }
  return all;
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> out;
  for (std::string& text : strings) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

}  // namespace

RunResult run(const std::vector<std::string>& command, const std::vector<std::string>& environment) {
  const TempDir folder;
  const std::string out = folder / "out", err = folder / "err";
  std::vector<std::string> arguments = command, variables = merged_environment(environment);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out.c_str(), O_WRONLY | O_CREAT, 0600);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err.c_str(), O_WRONLY | O_CREAT, 0600);
  pid_t child = 0;
  const int error = ::posix_spawnp(&child, arguments.at(0).c_str(), &actions, nullptr, pointers(arguments).data(),
                                   pointers(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::runtime_error("cannot run " + command[0] + ": " + std::generic_category().message(error));
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) throw std::system_error(errno, std::generic_category(), "waitpid");
  }
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), read_file(out), read_file(err)};
}

RunResult wconv(std::vector<std::string> arguments, const std::vector<std::string>& environment) {
  arguments.insert(arguments.begin(), WCONV_BINARY);
  return run(arguments, environment);
}

void write_file(const std::string& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.flush()) throw std::runtime_error("cannot write " + path);
}

void write_file(const std::string& path, std::span<const std::byte> bytes) {
  write_file(path, std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

Model make_model(const std::vector<TensorSpec>& tensors) {
  Model model;
  model.format = "test";
  model.path = "memory";
  for (const TensorSpec& spec : tensors) {
    Tensor tensor;
    tensor.info = {spec.name, spec.dtype, spec.shape};
    tensor.data = memory_tensor(spec.bytes);
    tensor.source_dtype = spec.dtype;
    model.tensors.push_back(std::move(tensor));
  }
  return model;
}

std::vector<std::byte> safetensors_bytes(const std::vector<TensorSpec>& tensors, const TextMetadata& metadata) {
  std::string header = "{", data;
  if (!metadata.empty()) {
    header += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata) header += json_string(key) + ":" + json_string(value) + ",";
    header.back() = '}';
    header += ",";
  }
  for (const TensorSpec& spec : tensors) {
    header += fmt::format("{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}},", json_string(spec.name),
                          info(spec.dtype).safetensors, fmt::join(spec.shape, ","), data.size(),
                          data.size() + spec.bytes.size());
    data.append(reinterpret_cast<const char*>(spec.bytes.data()), spec.bytes.size());
  }
  if (header.size() > 1) header.pop_back();
  header += "}";
  header.append((8 - header.size() % 8) % 8, ' ');
  std::string text;
  for (unsigned i = 0; i < 8; ++i) text += static_cast<char>(std::uint64_t{header.size()} >> (8 * i) & 0xff);
  text += header + data;
  return bytes_of(std::span<const char>(text));
}

std::string write_safetensors(const std::string& path, const std::vector<TensorSpec>& tensors,
                              const TextMetadata& metadata) {
  write_file(path, safetensors_bytes(tensors, metadata));
  return path;
}

void add_record(Model& model, std::shared_ptr<const File> file, std::uint64_t offset, std::uint64_t size,
                std::uint32_t crc32, std::string name) {
  RecordCheck& check = model.checks.emplace_back();
  check.range.file = std::move(file);
  check.range.offset = offset;
  check.range.size = size;
  check.crc32 = crc32;
  check.record = std::move(name);
}

std::vector<std::byte> read_all(const Tensor& tensor) {
  std::vector<std::byte> bytes(tensor.data->size_bytes());
  if (!bytes.empty()) tensor.data->read(0, bytes);
  return bytes;
}

}  // namespace wconv::test
