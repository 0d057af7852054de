// SHA-256 of two streams at once. One stream waits for the latency of each round; a second one fills the gaps, so that
// a core hashes nearly twice as much. Everything but whole blocks of two streams is OpenSSL's.
//
// Source: FIPS 180-4, section 6.2.2; Intel SHA Extensions.
#pragma once

#include <cstddef>
#include <cstdint>

namespace wconv {

inline constexpr std::size_t kSha256Block = 64;

// True where the CPU has the instructions; sha256_blocks_pair may be called only then.
bool has_sha256_pair();

// Adds `blocks` blocks of 64 bytes at `a` and at `b` to the two states of eight words each.
void sha256_blocks_pair(std::uint32_t* state_a, const std::byte* a, std::uint32_t* state_b, const std::byte* b,
                        std::size_t blocks);

}  // namespace wconv
