//! NVIDIA GPUs that people rent, by their usual names, for estimates: XLA chooses a GPU's kernels by measuring them, so a program
//! cannot be compiled for one that is not here.

use crate::error::{PjrtError, Result};
use octant_graph::DType;

/// A GPU to estimate for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gpu {
    /// The usual name: `a100`.
    pub name: &'static str,
    /// Bytes of memory that programs see, as the driver reports them.
    pub memory: u64,
    /// Operations per second in products of bf16, as published, without sparsity.
    pub bf16: f64,
    /// Operations per second in products of f32, rounded to 11 bits where the GPU can.
    pub f32: f64,
    /// Bytes per second to and from its memory, as published.
    pub bandwidth: f64,
    /// Bytes per second that it can exchange with others of its machine, both directions together, as published.
    pub links: f64,
    /// Whether Octant's own kernels run on it: compute capability 8.0 and above.
    pub has_kernels: bool,
    /// In words.
    pub description: &'static str,
}

/// The GPUs, oldest first.
pub const GPUS: [Gpu; 7] = [
    Gpu { has_kernels: false, ..gpu("v100", 15.8, [15.7, 15.7, 900.0, 300.0], "16 GB, Volta: no products of bf16") },
    Gpu { has_kernels: false, ..gpu("t4", 14.7, [8.1, 8.1, 320.0, 32.0], "16 GB, Turing: no products of bf16") },
    gpu("a100", 39.4, [312.0, 156.0, 1555.0, 600.0], "40 GB, Ampere"),
    gpu("a100-80", 79.2, [312.0, 156.0, 2039.0, 600.0], "80 GB, Ampere"),
    gpu("l4", 22.2, [121.0, 60.0, 300.0, 64.0], "24 GB, Ada"),
    gpu("h100", 79.2, [989.0, 494.0, 3350.0, 900.0], "80 GB, Hopper, SXM"),
    gpu("h200", 139.8, [989.0, 494.0, 4800.0, 900.0], "141 GB, Hopper, SXM"),
];

const fn gpu(name: &'static str, gib: f64, [bf16, f32, gigabytes, links]: [f64; 4], description: &'static str) -> Gpu {
    let memory = (gib * (1u64 << 30) as f64) as u64;
    let (bf16, f32, bandwidth, links) = (bf16 * 1e12, f32 * 1e12, gigabytes * 1e9, links * 1e9);
    Gpu { name, memory, bf16, f32, bandwidth, links, has_kernels: true, description }
}

impl Gpu {
    /// The GPU of that name; spellings such as `A100-40GB` and `H100-80` are understood too.
    pub fn named(name: &str) -> Result<Gpu> {
        let short = name.to_ascii_lowercase().replace(['_', ' '], "-");
        let short = short.trim_start_matches("nvidia-").trim_end_matches("gb");
        let short = match short {
            "a100-40" => "a100",
            "h100-80" => "h100",
            "h200-141" => "h200",
            "v100-16" => "v100",
            other => other,
        };
        GPUS.into_iter().find(|gpu| gpu.name == short).ok_or_else(|| {
            let known = GPUS.map(|gpu| gpu.name).join(", ");
            PjrtError::Misuse(format!("there is no GPU called {name}; Octant knows {known}"))
        })
    }

    /// Operations per second in products of this type.
    pub fn products(&self, dtype: DType) -> f64 {
        match dtype {
            DType::BF16 | DType::F16 => self.bf16,
            _ => self.f32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_are_found_by_the_names_that_people_use() {
        for (name, expected) in [("T4", "t4"), ("A100-40GB", "a100"), ("a100-80gb", "a100-80"), ("NVIDIA_H200", "h200")]
        {
            assert_eq!(Gpu::named(name).unwrap().name, expected);
        }
        let error = Gpu::named("rtx-5090").unwrap_err().to_string();
        assert!(error.contains("no GPU called rtx-5090; Octant knows v100, t4, a100"), "{error}");
    }
}
