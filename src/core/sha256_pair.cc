#include "core/sha256_pair.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

#include <array>

namespace wconv {

#if defined(__x86_64__)
namespace {

#define WCONV_SHA __attribute__((target("sha,sse4.1"), always_inline)) inline

// FIPS 180-4, section 4.2.2.
alignas(16) constexpr std::array<std::uint32_t, 64> kRounds = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

// One stream: its state as the instructions want it (words a b e f and c d g h), and the last 16 words of its schedule.
struct Lane {
  __m128i abef, cdgh, abef_before, cdgh_before;
  __m128i words[4];
  const std::byte* next;
};

WCONV_SHA void load(Lane& lane, const std::uint32_t* state, const std::byte* data) {
  const __m128i abcd = _mm_shuffle_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(state)), 0xb1);
  const __m128i efgh = _mm_shuffle_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(state + 4)), 0x1b);
  lane.abef = _mm_alignr_epi8(abcd, efgh, 8);
  lane.cdgh = _mm_blend_epi16(efgh, abcd, 0xf0);
  lane.next = data;
}

WCONV_SHA void store(const Lane& lane, std::uint32_t* state) {
  const __m128i feba = _mm_shuffle_epi32(lane.abef, 0x1b), dchg = _mm_shuffle_epi32(lane.cdgh, 0xb1);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(state), _mm_blend_epi16(feba, dchg, 0xf0));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(state + 4), _mm_alignr_epi8(dchg, feba, 8));
}

// Words 4·kStep to 4·kStep + 3 of the schedule, and their four rounds.
template <int kStep>
WCONV_SHA void rounds(Lane& lane) {
  __m128i* const w = lane.words;
  constexpr int kNow = kStep % 4, kNext = (kStep + 1) % 4, kBefore = (kStep + 3) % 4, kBefore2 = (kStep + 2) % 4;
  if constexpr (kStep < 4) {
    const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    w[kNow] = _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(lane.next + 16 * kStep)), big_endian);
  } else {
    const __m128i sum =
        _mm_add_epi32(_mm_sha256msg1_epu32(w[kNow], w[kNext]), _mm_alignr_epi8(w[kBefore], w[kBefore2], 4));
    w[kNow] = _mm_sha256msg2_epu32(sum, w[kBefore]);
  }
  const __m128i k = _mm_load_si128(reinterpret_cast<const __m128i*>(kRounds.data() + 4 * kStep));
  const __m128i sum = _mm_add_epi32(w[kNow], k);
  lane.cdgh = _mm_sha256rnds2_epu32(lane.cdgh, lane.abef, sum);
  lane.abef = _mm_sha256rnds2_epu32(lane.abef, lane.cdgh, _mm_shuffle_epi32(sum, 0x0e));
}

WCONV_SHA void begin(Lane& lane) {
  lane.abef_before = lane.abef;
  lane.cdgh_before = lane.cdgh;
}

WCONV_SHA void end(Lane& lane) {
  lane.abef = _mm_add_epi32(lane.abef, lane.abef_before);
  lane.cdgh = _mm_add_epi32(lane.cdgh, lane.cdgh_before);
  lane.next += kSha256Block;
}

template <int kStep = 0>
WCONV_SHA void all_rounds(Lane& a, Lane& b) {
  rounds<kStep>(a);
  rounds<kStep>(b);
  if constexpr (kStep < 15) all_rounds<kStep + 1>(a, b);
}

bool cpu_has_sha() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & (1u << 29)) != 0 && __builtin_cpu_supports("sse4.1");
}

}  // namespace

bool has_sha256_pair() {
  static const bool has = cpu_has_sha();
  return has;
}

__attribute__((target("sha,sse4.1"))) void sha256_blocks_pair(std::uint32_t* state_a, const std::byte* a,
                                                              std::uint32_t* state_b, const std::byte* b,
                                                              std::size_t blocks) {
  Lane first, second;
  load(first, state_a, a);
  load(second, state_b, b);
  for (; blocks > 0; --blocks) {
    begin(first);
    begin(second);
    all_rounds(first, second);
    end(first);
    end(second);
  }
  store(first, state_a);
  store(second, state_b);
}

#else

bool has_sha256_pair() { return false; }
void sha256_blocks_pair(std::uint32_t*, const std::byte*, std::uint32_t*, const std::byte*, std::size_t) {}

#endif

}  // namespace wconv
