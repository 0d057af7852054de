// A main for fuzz targets without libFuzzer: runs every file of the folders that are named, and mutations of each. The
// same inputs on every run. Usage: fuzz_NAME MUTATIONS FOLDER...
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size);
extern "C" std::size_t LLVMFuzzerCustomMutator(unsigned char* data, std::size_t size, std::size_t max_size,
                                               unsigned seed);

namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<unsigned char>;

constexpr std::size_t kLargestSeed = 64 * 1024;

std::vector<fs::path> files_below(int count, char** folders) {
  std::vector<fs::path> files;
  for (int i = 2; i < count; ++i) {
    for (const auto& entry : fs::recursive_directory_iterator(folders[i])) {
      if (entry.is_regular_file() && entry.file_size() <= kLargestSeed) files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

// One of: another byte, a flipped bit, eight bytes that make a number extreme, a cut, a doubled piece.
Bytes mutated(Bytes bytes, std::mt19937& random) {
  static constexpr std::uint64_t kExtremes[] = {
      0, 1, 0x7f, 0xff, 0xffff, 0x7fffffff, 0xffffffff, 1ull << 32, 1ull << 62, 0x7fffffffffffffff, 0xffffffffffffffff};
  const auto below = [&](std::size_t limit) { return limit == 0 ? 0 : random() % limit; };
  const std::size_t at = below(bytes.size());
  if (bytes.empty()) return bytes;
  switch (random() % 5) {
    case 0:
      bytes[at] = static_cast<unsigned char>(random());
      break;
    case 1:
      bytes[at] = static_cast<unsigned char>(bytes[at] ^ (1u << (random() % 8)));
      break;
    case 2: {
      const std::uint64_t number = kExtremes[random() % std::size(kExtremes)];
      const std::size_t width = std::min<std::size_t>(bytes.size() - at, std::size_t{1} << (random() % 4));
      for (std::size_t i = 0; i < width; ++i) bytes[at + i] = static_cast<unsigned char>(number >> (8 * i));
      break;
    }
    case 3:
      bytes.resize(at);
      break;
    default: {
      const std::size_t length = below(std::min<std::size_t>(bytes.size() - at, 64)) + 1;
      const Bytes piece(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                        bytes.begin() + static_cast<std::ptrdiff_t>(at + length));
      bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(at), piece.begin(), piece.end());
    }
  }
  return bytes;
}

// A seed, or now and then the mutation before, with one more mutation.
void run_mutations(const Bytes& seed, std::size_t count) {
  const std::size_t max_size = 2 * seed.size() + 4096;
  Bytes bytes = seed;
  for (unsigned i = 0; i < count; ++i) {
    if (i % 4 != 0) bytes = seed;
    const std::size_t size = bytes.size();
    bytes.resize(std::max(max_size, size));
    bytes.resize(LLVMFuzzerCustomMutator(bytes.data(), size, max_size, i));
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }
}

}  // namespace

// libFuzzer has its own; this is for those who mutate by structure and fall back.
extern "C" std::size_t LLVMFuzzerMutate(unsigned char* data, std::size_t size, std::size_t max_size) {
  static std::mt19937 random(1);
  const Bytes bytes = mutated(Bytes(data, data + size), random);
  size = std::min(bytes.size(), max_size);
  std::copy_n(bytes.begin(), size, data);
  return size;
}

int main(int argc, char** argv) {
  const std::vector<fs::path> files = files_below(argc, argv);
  const std::size_t mutations = argc > 1 ? std::stoul(argv[1]) : 0;
  for (const fs::path& path : files) {
    std::ifstream file(path, std::ios::binary);
    const Bytes seed{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    std::printf("%s\n", path.c_str());
    std::fflush(stdout);  // a crash then shows its seed
    LLVMFuzzerTestOneInput(seed.data(), seed.size());
    run_mutations(seed, mutations);
  }
  std::printf("%zu seeds, %zu mutations of each\n", files.size(), mutations);
  return files.empty() ? 1 : 0;
}
