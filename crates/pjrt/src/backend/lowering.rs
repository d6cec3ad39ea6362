//! From a program to the text that a plugin's compiler reads.

use super::{CUDA, TPU};
use crate::environment;
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
    /// Whether the compiler's fastest kernels for this program might add in another order in every run.
    pub adds_atomically: bool,
    /// Whether the program calls cuDNN's attention, which may refuse when the program is compiled.
    pub calls_cudnn: bool,
}

/// How programs are written for a platform.
#[derive(Debug, Clone, Copy)]
pub struct LoweringTarget {
    precision: MatmulPrecision,
    /// The facts of an NVIDIA GPU, whose compiler wants some things written differently.
    gpu: Option<GpuFacts>,
    /// Arrays lie in tiles, as on TPUs, which narrow images would fill to a small part.
    tiled: bool,
    /// Kernels of our own that programs may call.
    kernels: &'static [&'static str],
    /// Who computes attention.
    attention: GpuAttention,
}

/// Why programs for a GPU do without some of the kernels that they might call.
#[derive(Debug, Default)]
pub struct Missing {
    /// Why there are none of ours.
    pub kernels: Option<String>,
    /// Why attention is not fused.
    pub attention: Option<String>,
    /// Why some attentions are not, as has been logged.
    pub refusals: Vec<&'static str>,
}

impl LoweringTarget {
    /// The same with products that exact.
    pub fn with_precision(self, precision: MatmulPrecision) -> LoweringTarget {
        LoweringTarget { precision, ..self }
    }

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

    /// The form for a platform, and why it has none of the kernels that it might have.
    pub fn of(platform: &str, plugin: &Plugin) -> (LoweringTarget, Missing) {
        let (tiled, attention) = (platform == TPU, GpuAttention::Plain);
        let plain = LoweringTarget { precision: MatmulPrecision::default(), gpu: None, tiled, kernels: &[], attention };
        if platform != CUDA {
            return (plain, Missing::default());
        }
        let form = LoweringTarget { gpu: Some(GpuFacts::of_device().unwrap_or(GpuFacts::H200)), ..plain };
        if let Err(reason) = register_kernels(plugin) {
            return (form, Missing { kernels: Some(reason), ..Missing::default() });
        }
        let form = LoweringTarget { kernels: octant_cuda::CALLED_NAMES, ..form };
        match GpuAttention::available(!environment::is_repeatable()) {
            _ if environment::wants_plain_attention() => (form, Missing::default()),
            Ok(attention) => (LoweringTarget { attention, ..form }, Missing::default()),
            Err(reason) => (form, Missing { attention: Some(reason), ..Missing::default() }),
        }
    }
}

/// Makes our kernels known to a plugin, or says why programs have to do without them.
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

pub fn lower(program: &Program, form: &LoweringTarget) -> runtime::Result<Lowered> {
    let refused = |error: octant_stablehlo::LowerError| RuntimeError::Compile {
        backend: "StableHLO".to_string(),
        message: error.to_string(),
    };
    let options =
        octant_stablehlo::LoweringOptions { precision: form.precision, kernels: form.kernels, ..Default::default() };
    let plain = |program: &Program| {
        let text = octant_stablehlo::lower(program, &options).map_err(refused)?;
        Ok(Lowered { text, adds_atomically: false, calls_cudnn: false })
    };
    if form.tiled {
        let graph = bytes_behind_barriers(&pack_narrow_images(&program.graph));
        return plain(&Program { graph, ..program.clone() });
    }
    let Some(gpu) = form.gpu else { return plain(program) };
    // XLA cannot partition a call that it knows nothing about.
    let kernels = !form.kernels.is_empty() && program.mesh.devices() == 1;
    let attention = if kernels { form.attention } else { GpuAttention::Plain };
    let target =
        octant_cuda::GpuTarget { gpu, kernels, fast_products: form.precision == MatmulPrecision::Fast, attention };
    let graph = octant_cuda::prepare(&program.graph, &program.donated, &target);
    let adds_atomically = octant_cuda::adds_atomically(&graph);
    let text = octant_stablehlo::lower(&Program { graph, ..program.clone() }, &options).map_err(refused)?;
    let calls_cudnn = octant_cuda::CUDNN_NAMES.iter().any(|name| text.contains(name));
    Ok(Lowered { text, adds_atomically, calls_cudnn })
}
