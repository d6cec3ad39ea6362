//! From a program to the text that a plugin's compiler reads.

use super::{CUDA, PjrtOptions, TPU};
use crate::plugin::Plugin;
use octant_cuda::{GpuAttention, GpuFacts};
use octant_graph::passes::{self, pack_narrow_images};
use octant_graph::{DType, Graph, Op, Trace};
use octant_runtime as runtime;
use octant_runtime::{Program, RuntimeError};
use octant_stablehlo::MatmulPrecision;

/// How a program becomes text.
pub type Lowering = fn(&Program, &LoweringTarget) -> runtime::Result<Lowered>;

/// What the compiler is given.
pub struct Lowered {
    pub text: String,
    /// Whether the program calls cuDNN's attention, which may refuse when the program is compiled.
    pub calls_cudnn: bool,
}

/// How programs are written for a platform.
#[derive(Debug, Clone, Copy)]
pub struct LoweringTarget {
    precision: MatmulPrecision,
    /// For an NVIDIA GPU, whose compiler needs some graph rewrites.
    is_cuda: bool,
    /// Arrays lie in tiles, as on TPUs, which narrow images would fill to a small part.
    tiled: bool,
    /// The GPU that kernels of our own divide their work for; none where programs may not call them.
    kernels: Option<GpuFacts>,
    /// How attention is computed.
    attention: GpuAttention,
}

/// Why programs for a GPU do without some of the kernels that they might call.
#[derive(Debug, Default)]
pub struct MissingKernels {
    /// Why our own kernels are not used.
    pub own: Option<String>,
    /// Why attention is not fused.
    pub attention: Option<String>,
    /// Reasons, already logged, why single attentions are not fused.
    pub refusals: Vec<&'static str>,
}

impl LoweringTarget {
    /// The same without calls of cuDNN's attention.
    pub fn with_plain_attention(self) -> LoweringTarget {
        LoweringTarget { attention: GpuAttention::Plain, ..self }
    }

    #[cfg(test)]
    pub fn with_fused_attention(self) -> LoweringTarget {
        LoweringTarget { attention: GpuAttention::CuDnn { gradient: false }, ..self }
    }

    /// Whether attention is left to cuDNN where it takes it.
    pub fn fuses_attention(&self) -> bool {
        self.attention != GpuAttention::Plain
    }

    /// The target of a platform, and why it has none of the kernels that it might have.
    pub fn of(platform: &str, plugin: &Plugin, options: PjrtOptions) -> (LoweringTarget, MissingKernels) {
        let (tiled, attention) = (platform == TPU, GpuAttention::Plain);
        let precision = options.precision;
        let plain = LoweringTarget { precision, is_cuda: false, tiled, kernels: None, attention };
        if platform != CUDA {
            return (plain, MissingKernels::default());
        }
        let target = LoweringTarget { is_cuda: true, ..plain };
        // Kernels divide their work by the facts of the GPU: without them there are none.
        let target = match GpuFacts::of_device().and_then(|gpu| register_kernels(plugin).map(|()| gpu)) {
            Ok(gpu) => LoweringTarget { kernels: Some(gpu), ..target },
            Err(reason) => return (target, MissingKernels { own: Some(reason), ..MissingKernels::default() }),
        };
        if options.plain_attention {
            return (target, MissingKernels::default());
        }
        match GpuAttention::available(!options.repeatable) {
            Ok(attention) => (LoweringTarget { attention, ..target }, MissingKernels::default()),
            Err(reason) => (target, MissingKernels { attention: Some(reason), ..MissingKernels::default() }),
        }
    }
}

/// Registers our kernels with a plugin, or returns why they cannot be used.
fn register_kernels(plugin: &Plugin) -> Result<(), String> {
    let calls = octant_cuda::custom_calls()?;
    calls.iter().try_for_each(|call| plugin.register(call)).map_err(|error| error.to_string())
}

/// libtpu 0.0.51 aborts for v5e and v6e where a batch that it splits for a packed weight gradient reaches bytes through a
/// conversion: images become floats behind a barrier.
fn bytes_behind_barriers(graph: &Graph) -> Graph {
    passes::rewrite(graph, |node| {
        let Op::Convert(dtype) = node.op else { return None };
        let shape = graph.shape(node.inputs[0]);
        if shape.rank() <= 2 || shape.dtype() != DType::U8 || !dtype.is_float() {
            return None;
        }
        let trace = Trace::new();
        let floats = trace.input("bytes", shape.clone()).convert(dtype);
        let behind = trace.barrier(&[floats]);
        trace.finish(&behind).ok()
    })
}

pub fn lower(program: &Program, target: &LoweringTarget) -> runtime::Result<Lowered> {
    let refused = |error: octant_stablehlo::LowerError| RuntimeError::Compile {
        backend: "StableHLO".to_string(),
        message: error.to_string(),
    };
    let options = octant_stablehlo::LoweringOptions {
        precision: target.precision,
        kernels: if target.kernels.is_some() { octant_cuda::CALLED_NAMES } else { &[] },
        ..Default::default()
    };
    let plain = |program: &Program| {
        let text = octant_stablehlo::lower(program, &options).map_err(refused)?;
        Ok(Lowered { text, calls_cudnn: false })
    };
    let graph = passes::apply(passes::overwrite_by_last, &program.graph);
    let program = &Program { graph, ..program.clone() };
    if target.tiled {
        let graph = bytes_behind_barriers(&pack_narrow_images(&program.graph));
        return plain(&Program { graph, ..program.clone() });
    }
    if !target.is_cuda {
        return plain(program);
    }
    // XLA cannot partition a call that it knows nothing about.
    let kernels = target.kernels.filter(|_| program.mesh.devices() == 1);
    let attention = if kernels.is_some() { target.attention } else { GpuAttention::Plain };
    let fast_products = target.precision == MatmulPrecision::Fast;
    let gpu_target = octant_cuda::GpuTarget { kernels, fast_products, attention };
    let graph = octant_cuda::prepare(&program.graph, &gpu_target);
    let text = octant_stablehlo::lower(&Program { graph, ..program.clone() }, &options).map_err(refused)?;
    let calls_cudnn = octant_cuda::CUDNN_NAMES.iter().any(|name| text.contains(name));
    Ok(Lowered { text, calls_cudnn })
}
