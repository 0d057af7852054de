#include "core/hash.h"

#include <libdeflate.h>
#include <openssl/evp.h>
#include <zlib.h>

#include <array>

#include "wconv/error.h"

namespace wconv {

struct Sha256::Context {
  EVP_MD_CTX* evp = EVP_MD_CTX_new();
  ~Context() { EVP_MD_CTX_free(evp); }
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  // Fetching the algorithm takes OpenSSL's locks; once is enough for a model of 100,000 tensors.
  static const EVP_MD* const algorithm = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  if (!context_->evp || EVP_DigestInit_ex(context_->evp, algorithm, nullptr) != 1) {
    fail(ErrorCode::kInternal, "libcrypto has no SHA-256");
  }
}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::update(std::span<const std::byte> bytes) { EVP_DigestUpdate(context_->evp, bytes.data(), bytes.size()); }

std::string Sha256::hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  EVP_DigestFinal_ex(context_->evp, digest.data(), &size);
  std::string text;
  for (unsigned i = 0; i < size; ++i) text += fmt::format("{:02x}", digest[i]);
  return text;
}

std::uint32_t crc32(std::uint32_t crc, std::span<const std::byte> bytes) {
  return libdeflate_crc32(crc, bytes.data(), bytes.size());
}

std::uint32_t crc32_join(std::uint32_t crc_a, std::uint32_t crc_b, std::uint64_t size_b) {
  return static_cast<std::uint32_t>(::crc32_combine(crc_a, crc_b, static_cast<z_off_t>(size_b)));
}

}  // namespace wconv
