//! Instruction sets: which ones this machine has, and how one generic loop is compiled for each of them.
//!
//! A loop is written once as a [`Kernel`], generic over a [`Vector`]. [`Simd::entry`] gives the instance of it that was
//! compiled for the chosen level: inside it the compiler may use the whole instruction set, also for plain loops that
//! it vectorizes on its own. A [`Simd`] exists only for a level that the machine was seen to have; that is what makes
//! calling such a function sound.

mod cache;
mod vector;

#[cfg(target_arch = "x86_64")]
mod amx;

use std::sync::OnceLock;

pub(crate) use cache::second_level_bytes;
pub use vector::{Portable, Vector};

/// An instruction set that kernels are compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// What every machine of this architecture has.
    Portable,
    /// AVX2 with FMA: 8 lanes, 16 registers.
    Avx2,
    /// AVX-512 (F, BW, DQ, VL): 16 lanes, 32 registers.
    Avx512,
    /// NEON on 64-bit ARM: 4 lanes, 32 registers.
    Neon,
}

/// The environment selects an instruction set that is not available.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SimdError {
    /// The name is not one of ours.
    #[error("OCTANT_SIMD is \"{0}\"; set it to portable, avx2, avx512, avx512-without-amx or neon, or unset it")]
    Unknown(String),
    /// The machine does not have it.
    #[error("this machine has no {0:?}; unset OCTANT_SIMD or set it to one of {1:?}")]
    Unavailable(Level, Vec<Level>),
}

impl Level {
    /// Every level this machine can run, the best last.
    pub fn available() -> Vec<Level> {
        [Level::Portable, Level::Neon, Level::Avx2, Level::Avx512].into_iter().filter(|level| level.exists()).collect()
    }

    #[cfg(target_arch = "x86_64")]
    fn exists(self) -> bool {
        match self {
            Level::Portable => true,
            Level::Avx2 => {
                is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c")
            }
            Level::Avx512 => {
                Level::Avx2.exists()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
            }
            Level::Neon => false,
        }
    }

    #[cfg(target_arch = "aarch64")]
    fn exists(self) -> bool {
        matches!(self, Level::Portable | Level::Neon)
    }

    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    fn exists(self) -> bool {
        self == Level::Portable
    }

    fn named(name: &str) -> Result<Level, SimdError> {
        match name {
            "portable" => Ok(Level::Portable),
            "avx2" => Ok(Level::Avx2),
            "avx512" => Ok(Level::Avx512),
            "neon" => Ok(Level::Neon),
            other => Err(SimdError::Unknown(other.to_owned())),
        }
    }
}

/// How products of bf16 numbers are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bf16Unit {
    /// Widened to f32 first.
    Widen,
    /// Pairwise dot products of AVX512-BF16.
    Avx512Dot,
    /// AMX tiles.
    Amx,
}

/// How products of 8-bit numbers are computed. All of them have the same, exact sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Int8Unit {
    /// One by one, as the compiler makes vectors of it.
    Portable,
    /// Sums of four products by AVX512-VNNI.
    Vnni,
    /// AMX tiles.
    Amx,
}

/// A level that this machine was seen to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Simd {
    level: Level,
    bf16: Bf16Unit,
    int8: Int8Unit,
}

/// Prefetches the cache line at an address, on machines that can; any address is allowed.
#[inline(always)]
pub(crate) fn prefetch(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch of any address is harmless, and every x86-64 has it.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// The same into the second-level cache only, for what is needed a while later.
#[inline(always)]
pub(crate) fn prefetch_to_second_level(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch of any address is harmless, and every x86-64 has it.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T1 }>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// The same for a cache line that will be written, which no other core may hold then.
#[inline(always)]
pub(crate) fn prefetch_to_write(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch of any address is harmless, and machines without this one do nothing.
    unsafe {
        std::arch::asm!("prefetchw [{0}]", in(reg) at, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// Waits until what this thread wrote with [`Vector::stream`] can be seen by others.
#[inline(always)]
pub(crate) fn finish_streams() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 has it.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

/// A loop that is compiled once per instruction set.
pub trait Kernel {
    /// What the loop is given.
    type Args;
    /// What it returns.
    type Output;
    /// The loop. Mark the implementation and what it calls `#[inline(always)]`: only inlined code is compiled for the
    /// instruction set.
    ///
    /// # Safety
    /// Only [`Simd`] calls it, on machines that have the instruction set of `V`; `args` may require more.
    unsafe fn run<V: Vector>(args: Self::Args) -> Self::Output;
}

impl Simd {
    /// The token for `level` with the best units that go with it.
    pub fn new(level: Level) -> Result<Simd, SimdError> {
        match level.exists() {
            true => Ok(Simd { level, bf16: best_bf16(level), int8: best_int8(level) }),
            false => Err(SimdError::Unavailable(level, Level::available())),
        }
    }

    /// What this process uses: the level named by `OCTANT_SIMD`, or the best there is. `avx512-without-amx` is AVX-512 on a machine
    /// whose tile registers are left alone, to measure what others have.
    pub fn current() -> Result<Simd, SimdError> {
        static CURRENT: OnceLock<Result<Simd, SimdError>> = OnceLock::new();
        let choose = || match std::env::var("OCTANT_SIMD") {
            Ok(name) if name == "avx512-without-amx" => Ok(Simd::new(Level::Avx512)?.without_tiles()),
            Ok(name) => Simd::new(Level::named(&name)?),
            Err(_) => Simd::new(Level::available().last().copied().unwrap_or(Level::Portable)),
        };
        CURRENT.get_or_init(choose).clone()
    }

    /// One token for every level and unit of this machine: what tests go through. The last of a level has its best units.
    pub fn all() -> Vec<Simd> {
        let pairs = [
            (Bf16Unit::Widen, Int8Unit::Portable),
            (Bf16Unit::Avx512Dot, Int8Unit::Vnni),
            (Bf16Unit::Amx, Int8Unit::Amx),
        ];
        let units = |level| {
            let (best_bf16, best_int8) = (best_bf16(level), best_int8(level));
            let there = pairs.into_iter().filter(move |(bf16, _)| *bf16 <= best_bf16);
            there.map(move |(bf16, int8)| Simd {
                level,
                bf16,
                int8: if bf16 == best_bf16 { best_int8 } else { int8.min(best_int8) },
            })
        };
        Level::available().into_iter().flat_map(units).collect()
    }

    /// The same machine without its tile registers.
    pub fn without_tiles(self) -> Simd {
        Simd { bf16: self.bf16.min(Bf16Unit::Avx512Dot), int8: self.int8.min(Int8Unit::Vnni), ..self }
    }

    /// The instruction set.
    pub fn level(self) -> Level {
        self.level
    }

    /// How bf16 products are computed.
    pub fn bf16(self) -> Bf16Unit {
        self.bf16
    }

    /// How products of 8-bit numbers are computed.
    pub fn int8(self) -> Int8Unit {
        self.int8
    }

    /// f32 numbers in one vector register.
    pub fn lanes(self) -> usize {
        struct Lanes;
        impl Kernel for Lanes {
            type Args = ();
            type Output = usize;

            #[inline(always)]
            unsafe fn run<V: Vector>((): ()) -> usize {
                V::LANES
            }
        }
        // SAFETY: the entry was chosen for this machine.
        unsafe { self.entry::<Lanes>()(()) }
    }

    /// The instance of a kernel for this level; calling it requires no more than [`Kernel::run`] does.
    #[inline]
    pub fn entry<K: Kernel>(self) -> unsafe fn(K::Args) -> K::Output {
        match self.level {
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => avx2::<K>,
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => avx512::<K>,
            #[cfg(target_arch = "aarch64")]
            Level::Neon => neon::<K>,
            _ => portable::<K>,
        }
    }
}

unsafe fn portable<K: Kernel>(args: K::Args) -> K::Output {
    // SAFETY: every machine runs this; the rest is the caller's promise.
    unsafe { K::run::<Portable>(args) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn avx2<K: Kernel>(args: K::Args) -> K::Output {
    // SAFETY: the instruction set is enabled here; the rest is the caller's promise.
    unsafe { K::run::<std::arch::x86_64::__m256>(args) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn avx512<K: Kernel>(args: K::Args) -> K::Output {
    // SAFETY: the instruction set is enabled here; the rest is the caller's promise.
    unsafe { K::run::<std::arch::x86_64::__m512>(args) }
}

#[cfg(target_arch = "aarch64")]
#[target_feature(enable = "neon")]
unsafe fn neon<K: Kernel>(args: K::Args) -> K::Output {
    // SAFETY: the instruction set is enabled here; the rest is the caller's promise.
    unsafe { K::run::<std::arch::aarch64::float32x4_t>(args) }
}

#[cfg(target_arch = "x86_64")]
fn best_bf16(level: Level) -> Bf16Unit {
    static BEST: OnceLock<Bf16Unit> = OnceLock::new();
    let detect = || match is_x86_feature_detected!("avx512bf16") {
        true if amx::request(amx::BF16) => Bf16Unit::Amx,
        true => Bf16Unit::Avx512Dot,
        false => Bf16Unit::Widen,
    };
    match level {
        Level::Avx512 => *BEST.get_or_init(detect),
        _ => Bf16Unit::Widen,
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn best_bf16(_: Level) -> Bf16Unit {
    Bf16Unit::Widen
}

#[cfg(target_arch = "x86_64")]
fn best_int8(level: Level) -> Int8Unit {
    static BEST: OnceLock<Int8Unit> = OnceLock::new();
    let detect = || match is_x86_feature_detected!("avx512vnni") {
        true if amx::request(amx::INT8) => Int8Unit::Amx,
        true => Int8Unit::Vnni,
        false => Int8Unit::Portable,
    };
    match level {
        Level::Avx512 => *BEST.get_or_init(detect),
        _ => Int8Unit::Portable,
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn best_int8(_: Level) -> Int8Unit {
    Int8Unit::Portable
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instruction_set_of_another_machine_is_refused() {
        let foreign = if cfg!(target_arch = "aarch64") { Level::Avx2 } else { Level::Neon };
        let error = Simd::new(foreign).unwrap_err();
        assert!(error.to_string().contains("Portable"), "{error}");
    }

    #[test]
    fn names_are_the_documented_ones() {
        assert_eq!(Level::named("avx512"), Ok(Level::Avx512));
        assert!(Level::named("AVX-512").is_err());
    }
}
