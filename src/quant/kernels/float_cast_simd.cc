// One source for every instruction set: Highway compiles it once per target and chooses at run time.
#include "quant/kernels/float_cast.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/kernels/float_cast_simd.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// After the headers that undefine things per target.
#include "quant/kernels/float_bits.h"

HWY_BEFORE_NAMESPACE();
namespace wconv::kernels::HWY_NAMESPACE {
#if HWY_TARGET == HWY_SCALAR  // one lane, and it loads by plain pointer: the reference does the same with less
void bf16_to_f32(const std::byte* in, float* out, std::size_t n) { bf16_to_f32_ref(in, out, n); }
void f16_to_f32(const std::byte* in, float* out, std::size_t n) { f16_to_f32_ref(in, out, n); }
bool f32_to_bf16(const float* in, std::byte* out, std::size_t n) { return f32_to_bf16_ref(in, out, n); }
bool f32_to_f16(const float* in, std::byte* out, std::size_t n) { return f32_to_f16_ref(in, out, n); }
#else
namespace hn = hwy::HWY_NAMESPACE;

// Lanes are signed: their comparison is one instruction everywhere, and magnitudes are never negative.
using I32 = hn::ScalableTag<std::int32_t>;
using U32 = hn::RebindToUnsigned<I32>;
using F32 = hn::Rebind<float, I32>;
using U16 = hn::Rebind<std::uint16_t, I32>;
using VecI32 = hn::Vec<I32>;

inline const std::uint16_t* u16_pointer(const std::byte* p) { return reinterpret_cast<const std::uint16_t*>(p); }
inline std::uint16_t* u16_pointer(std::byte* p) { return reinterpret_cast<std::uint16_t*>(p); }

HWY_INLINE VecI32 constant(std::uint32_t bits) { return hn::Set(I32(), static_cast<std::int32_t>(bits)); }

// True where a lane has lowest <= magnitude < infinity.
HWY_INLINE bool any_finite_from(VecI32 magnitude, std::uint32_t lowest) {
  return !hn::AllFalse(I32(),
                       hn::And(hn::Gt(magnitude, constant(lowest - 1)), hn::Lt(magnitude, constant(kF32Infinity))));
}

HWY_INLINE VecI32 widen_bf16(VecI32 code) { return hn::ShiftLeft<16>(code); }

HWY_INLINE VecI32 widen_f16(VecI32 code) {
  const F32 f32;
  const VecI32 exponent_mask = constant(0x0f80'0000);
  const VecI32 sign = hn::ShiftLeft<16>(hn::And(code, constant(0x8000)));
  const VecI32 shifted = hn::ShiftLeft<13>(hn::And(code, constant(0x7fff)));
  const VecI32 exponent = hn::And(shifted, exponent_mask);
  const VecI32 normal = hn::Add(shifted, constant(112u << 23));
  const VecI32 special = hn::Add(shifted, constant(224u << 23));
  // 2^-14 · (1 + m/1024) - 2^-14 is m · 2^-24, exactly and without a subnormal operand.
  const VecI32 one_more = hn::Add(shifted, constant(113u << 23));
  const VecI32 subnormal =
      hn::BitCast(I32(), hn::Sub(hn::BitCast(f32, one_more), hn::BitCast(f32, constant(113u << 23))));
  VecI32 magnitude = hn::IfThenElse(hn::Eq(exponent, exponent_mask), special, normal);
  magnitude = hn::IfThenElse(hn::Eq(exponent, hn::Zero(I32())), subnormal, magnitude);
  return hn::Or(sign, magnitude);
}

HWY_INLINE VecI32 narrow_bf16(VecI32 bits, bool& overflow) {
  const VecI32 magnitude = hn::And(bits, constant(0x7fff'ffff));
  const VecI32 odd = hn::And(hn::BitCast(I32(), hn::ShiftRight<16>(hn::BitCast(U32(), bits))), constant(1));
  VecI32 code = hn::Add(hn::Add(bits, constant(0x7fff)), odd);
  if (HWY_UNLIKELY(!hn::AllFalse(I32(), hn::Gt(magnitude, constant(kF32OverflowsBf16 - 1))))) {
    overflow |= any_finite_from(magnitude, kF32OverflowsBf16);
    const auto no_payload = hn::Eq(hn::And(bits, constant(0x007f'0000)), hn::Zero(I32()));
    const VecI32 nan = hn::Or(bits, hn::IfThenElseZero(no_payload, constant(0x0040'0000)));
    code = hn::IfThenElse(hn::Gt(magnitude, constant(kF32Infinity)), nan, code);
  }
  return hn::BitCast(I32(), hn::ShiftRight<16>(hn::BitCast(U32(), code)));
}

HWY_INLINE VecI32 narrow_f16(VecI32 bits, bool& overflow) {
  const F32 f32;
  const VecI32 magnitude = hn::And(bits, constant(0x7fff'ffff));
  const VecI32 sign = hn::BitCast(I32(), hn::ShiftRight<16>(hn::BitCast(U32(), hn::Xor(bits, magnitude))));
  const VecI32 shifted = hn::ShiftRight<13>(magnitude);
  const VecI32 odd = hn::And(shifted, constant(1));
  // Rebase the exponent by -112 and round in one addition; the shift comes after.
  const VecI32 normal = hn::ShiftRight<13>(hn::Add(hn::Add(magnitude, constant(0xc800'0fffu)), odd));
  // Below 2^-14: adding 0.5 leaves m · 2^-24, rounded to even by the addition itself, in the low bits.
  const VecI32 subnormal =
      hn::Sub(hn::BitCast(I32(), hn::Add(hn::BitCast(f32, magnitude), hn::BitCast(f32, constant(0x3f00'0000)))),
              constant(0x3f00'0000));
  VecI32 code = hn::IfThenElse(hn::Lt(magnitude, constant(0x3880'0000)), subnormal, normal);
  const auto too_large = hn::Gt(magnitude, constant(kF32OverflowsF16 - 1));
  if (HWY_UNLIKELY(!hn::AllFalse(I32(), too_large))) {
    overflow |= any_finite_from(magnitude, kF32OverflowsF16);
    const VecI32 payload = hn::And(shifted, constant(0x3ff));
    const VecI32 quiet = hn::IfThenElseZero(hn::Eq(payload, hn::Zero(I32())), constant(0x200));
    const VecI32 nan = hn::Or(constant(0x7c00), hn::Or(payload, quiet));
    code = hn::IfThenElse(too_large, constant(0x7c00), code);
    code = hn::IfThenElse(hn::Gt(magnitude, constant(kF32Infinity)), nan, code);
  }
  return hn::Or(sign, code);
}

template <VecI32 (*kWiden)(VecI32)>
HWY_INLINE std::size_t widen_all(const std::byte* in, float* out, std::size_t n) {
  const std::size_t lanes = hn::Lanes(I32());
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto codes = hn::LoadU(U16(), u16_pointer(in + 2 * i));
    hn::StoreU(hn::BitCast(F32(), kWiden(hn::PromoteTo(I32(), codes))), F32(), out + i);
  }
  return i;
}

template <VecI32 (*kNarrow)(VecI32, bool&)>
HWY_INLINE std::size_t narrow_all(const float* in, std::byte* out, std::size_t n, bool& overflow) {
  const std::size_t lanes = hn::Lanes(I32());
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const VecI32 code = kNarrow(hn::BitCast(I32(), hn::LoadU(F32(), in + i)), overflow);
    hn::StoreU(hn::DemoteTo(U16(), code), U16(), u16_pointer(out + 2 * i));
  }
  return i;
}

void bf16_to_f32(const std::byte* in, float* out, std::size_t n) {
  const std::size_t done = widen_all<widen_bf16>(in, out, n);
  bf16_to_f32_ref(in + 2 * done, out + done, n - done);
}

void f16_to_f32(const std::byte* in, float* out, std::size_t n) {
  const std::size_t done = widen_all<widen_f16>(in, out, n);
  f16_to_f32_ref(in + 2 * done, out + done, n - done);
}

bool f32_to_bf16(const float* in, std::byte* out, std::size_t n) {
  bool overflow = false;
  const std::size_t done = narrow_all<narrow_bf16>(in, out, n, overflow);
  return f32_to_bf16_ref(in + done, out + 2 * done, n - done) || overflow;
}

bool f32_to_f16(const float* in, std::byte* out, std::size_t n) {
  bool overflow = false;
  const std::size_t done = narrow_all<narrow_f16>(in, out, n, overflow);
  return f32_to_f16_ref(in + done, out + 2 * done, n - done) || overflow;
}

#endif
}  // namespace wconv::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace wconv::kernels {

HWY_EXPORT(bf16_to_f32);
HWY_EXPORT(f16_to_f32);
HWY_EXPORT(f32_to_bf16);
HWY_EXPORT(f32_to_f16);

void bf16_to_f32_simd(const std::byte* in, float* out, std::size_t n) { HWY_DYNAMIC_DISPATCH(bf16_to_f32)(in, out, n); }
void f16_to_f32_simd(const std::byte* in, float* out, std::size_t n) { HWY_DYNAMIC_DISPATCH(f16_to_f32)(in, out, n); }
bool f32_to_bf16_simd(const float* in, std::byte* out, std::size_t n) {
  return HWY_DYNAMIC_DISPATCH(f32_to_bf16)(in, out, n);
}
bool f32_to_f16_simd(const float* in, std::byte* out, std::size_t n) {
  return HWY_DYNAMIC_DISPATCH(f32_to_f16)(in, out, n);
}

}  // namespace wconv::kernels
#endif
