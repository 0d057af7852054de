#include "core/hash.h"

#include <libdeflate.h>
#define OPENSSL_SUPPRESS_DEPRECATED
#include <fmt/format.h>
#include <openssl/sha.h>
#include <zlib.h>

#include <algorithm>
#include <array>

#include "core/sha256_pair.h"

namespace wconv {

// The state in the open, for the kernel that advances two of them; OpenSSL deprecates its own names for it.
struct Sha256::Context {
  SHA256_CTX state;
};

Sha256::Sha256() : context_(std::make_unique<Context>()) { SHA256_Init(&context_->state); }
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::update(std::span<const std::byte> bytes) { SHA256_Update(&context_->state, bytes.data(), bytes.size()); }

// Completes the block that has been begun; returns the bytes after it.
std::span<const std::byte> Sha256::fill_block(std::span<const std::byte> bytes) {
  const std::size_t begun = context_->state.num;
  const std::size_t missing = begun == 0 ? 0 : std::min(bytes.size(), kSha256Block - begun);
  update(bytes.first(missing));
  return bytes.subspan(missing);
}

void Sha256::update_pair(Sha256& a, std::span<const std::byte> bytes_a, Sha256& b, std::span<const std::byte> bytes_b) {
  if (has_sha256_pair()) {
    bytes_a = a.fill_block(bytes_a);
    bytes_b = b.fill_block(bytes_b);
    const std::size_t blocks = std::min(bytes_a.size(), bytes_b.size()) / kSha256Block;
    const std::size_t bytes = blocks * kSha256Block;
    if (blocks > 0) {
      SHA256_CTX &first = a.context_->state, &second = b.context_->state;
      sha256_blocks_pair(first.h, bytes_a.data(), second.h, bytes_b.data(), blocks);
      for (SHA256_CTX* state : {&first, &second}) {  // the length in bits, in two words
        const std::uint64_t bits = (std::uint64_t{state->Nh} << 32 | state->Nl) + 8 * std::uint64_t{bytes};
        state->Nl = static_cast<std::uint32_t>(bits);
        state->Nh = static_cast<std::uint32_t>(bits >> 32);
      }
    }
    bytes_a = bytes_a.subspan(bytes);
    bytes_b = bytes_b.subspan(bytes);
  }
  a.update(bytes_a);
  b.update(bytes_b);
}

std::string Sha256::hex() {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  SHA256_Final(digest.data(), &context_->state);
  std::string text;
  for (const unsigned char byte : digest) text += fmt::format("{:02x}", byte);
  return text;
}

std::uint32_t crc32(std::uint32_t crc, std::span<const std::byte> bytes) {
  return libdeflate_crc32(crc, bytes.data(), bytes.size());
}

std::uint32_t crc32_join(std::uint32_t crc_a, std::uint32_t crc_b, std::uint64_t size_b) {
  return static_cast<std::uint32_t>(::crc32_combine(crc_a, crc_b, static_cast<z_off_t>(size_b)));
}

}  // namespace wconv
