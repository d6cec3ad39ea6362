//! How a backend compiles its programs.

use octant_stablehlo::MatmulPrecision;

/// What a user chooses about the programs of a plugin's devices. Each choice changes the program's text or the compiler's
/// options, and so the key under which it is cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PjrtOptions {
    /// How exactly products of f32 are computed.
    pub precision: MatmulPrecision,
    /// On GPUs: only kernels that give the same bits in every run. Without, sums may be added in another order each time,
    /// where such a kernel is faster.
    pub repeatable: bool,
    /// On GPUs: attention by plain products, for comparisons with cuDNN's fused kernels.
    pub plain_attention: bool,
}

impl Default for PjrtOptions {
    fn default() -> PjrtOptions {
        PjrtOptions { precision: MatmulPrecision::default(), repeatable: true, plain_attention: false }
    }
}
