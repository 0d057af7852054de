// What tests share: temporary folders, running programs, small models in memory and on disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "wconv/dtype.h"
#include "wconv/model.h"

namespace wconv::test {

// A new empty folder below TMPDIR, removed with all it holds.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::string operator/(std::string_view name) const { return (path_ / name).string(); }
  std::vector<std::string> names() const;  // of the entries, sorted

 private:
  std::filesystem::path path_;
};

struct RunResult {
  int status = 0;  // exit status, or 128 + signal
  std::string out, err;
};

// Runs a program (found in PATH) without a shell and waits; stdin is empty. `environment` adds "NAME=VALUE" entries.
// Throws std::runtime_error when it cannot be started.
RunResult run(const std::vector<std::string>& command, const std::vector<std::string>& environment = {});
// Runs the wconv that was built with the tests.
RunResult wconv(std::vector<std::string> arguments, const std::vector<std::string>& environment = {});

void write_file(const std::string& path, std::string_view text);
void write_file(const std::string& path, std::span<const std::byte> bytes);
std::string read_file(const std::string& path);

// The bytes of numbers, as this (little-endian) machine stores them.
template <typename T>
std::vector<std::byte> bytes_of(std::span<const T> numbers) {
  std::vector<std::byte> bytes(numbers.size_bytes());
  if (!bytes.empty()) std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}
template <typename T>
std::vector<std::byte> bytes_of(const std::vector<T>& numbers) {
  return bytes_of(std::span<const T>(numbers));
}
template <typename T>
std::vector<std::byte> bytes_of(std::initializer_list<T> numbers) {
  return bytes_of(std::span<const T>(numbers.begin(), numbers.size()));
}

struct TensorSpec {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::uint64_t> shape;
  std::vector<std::byte> bytes;  // little-endian, row-major
};

using TextMetadata = std::vector<std::pair<std::string, std::string>>;

// A model whose tensors lie in memory; format "test".
Model make_model(const std::vector<TensorSpec>& tensors);
// The bytes of a .safetensors file, written here by hand and not by the writer under test. Keeps the given order.
std::vector<std::byte> safetensors_bytes(const std::vector<TensorSpec>& tensors, const TextMetadata& metadata = {});
// Writes them and returns the path.
std::string write_safetensors(const std::string& path, const std::vector<TensorSpec>& tensors,
                              const TextMetadata& metadata = {});

// Adds a record with a CRC-32 to model.checks.
void add_record(Model& model, std::shared_ptr<const File> file, std::uint64_t offset, std::uint64_t size,
                std::uint32_t crc32, std::string name);

// All the bytes of a tensor.
std::vector<std::byte> read_all(const Tensor& tensor);

}  // namespace wconv::test
