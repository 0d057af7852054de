// SHA-256 (OpenSSL) and CRC-32 (libdeflate), both with the CPU's instructions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace wconv {

// Not thread-safe.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  void update(std::span<const std::byte> bytes);
  // As a.update(bytes_a) and b.update(bytes_b), in less time where the CPU can do both at once.
  static void update_pair(Sha256& a, std::span<const std::byte> bytes_a, Sha256& b, std::span<const std::byte> bytes_b);
  std::string hex();  // once; nothing can be added after it

 private:
  std::span<const std::byte> fill_block(std::span<const std::byte> bytes);
  struct Context;
  std::unique_ptr<Context> context_;
};

// CRC-32 of `bytes` after bytes whose CRC-32 is `crc` (0 at the start).
std::uint32_t crc32(std::uint32_t crc, std::span<const std::byte> bytes);
// CRC-32 of A followed by B, from both and the length of B.
std::uint32_t crc32_join(std::uint32_t crc_a, std::uint32_t crc_b, std::uint64_t size_b);

}  // namespace wconv
