//! From a program's text to an executable on the devices: out of the cache, or out of the compiler.

use super::lowering::{Lowered, LoweringTarget};
use super::{CUDA, Notice, PjrtBackend};
use crate::buffer::PjrtBuffer;
use crate::cache::{CacheEntry, ExecutableCache, Key, Lookup};
use crate::client::PjrtDevice;
use crate::compile_options::{CompilerFlag, XlaCompileOptions};
use crate::error::PjrtError;
use crate::loaded::LoadedExecutable;
use octant_cuda::refused_attentions;
use octant_runtime as runtime;
use octant_runtime::{DType, HostTensor, Program, Shape};
use std::sync::PoisonError;
use std::time::Instant;

/// A convolution that any GPU computes in microseconds.
const SMALL_CONVOLUTION: &str = r#"
module @small_convolution {
  func.func public @main(%x: tensor<1x8x8x8xf32>, %k: tensor<3x3x8x8xf32>) -> tensor<1x8x8x8xf32> {
    %y = stablehlo.convolution(%x, %k)
      dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
      window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1]}
      {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
      : (tensor<1x8x8x8xf32>, tensor<3x3x8x8xf32>) -> tensor<1x8x8x8xf32>
    return %y : tensor<1x8x8x8xf32>
  }
}
"#;

/// What XLA records into CUDA graphs: what it does by default, and convolutions, each of which takes 34 µs to launch otherwise.
/// ResNet-18 at batch 16 had 7,043 images/s with them and 6,230 and 6,069 without; large batches are as fast with them.
const RECORDED: &str = "CONDITIONAL,CUBLAS,CUBLASLT,CUDNN,CUSTOM_CALL,DYNAMIC_SLICE_FUSION,FUSION,CONVOLUTION";

/// An executable on the devices.
pub(super) struct Compiled {
    pub loaded: LoadedExecutable,
    /// Whether it was loaded instead of compiled.
    pub from_cache: bool,
    /// Where it is stored.
    pub entry: Option<CacheEntry>,
}

impl PjrtBackend {
    pub(super) fn log_line(&self, line: &str) {
        (self.log)(Notice::Message(line));
    }

    /// Logs, once each, why programs do without kernels that they might call.
    pub(super) fn log_missing_kernels(&self, program: &Program) {
        let mut missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(reason) = missing.own.take() {
            self.log_line(&format!("XLA's own kernels are used instead of ours: {reason}"));
        }
        if let Some(reason) = missing.attention.take() {
            self.log_line(&format!("attention is computed by plain products: {reason}"));
        }
        let refused = if self.target.fuses_attention() { refused_attentions(&program.graph) } else { Vec::new() };
        for (_, reason) in refused {
            if !missing.refusals.contains(&reason) {
                missing.refusals.push(reason);
                self.log_line(&format!("{}: attention is computed by plain products, since {reason}", program.name));
            }
        }
    }

    /// The executable of a program. Whether cuDNN has a kernel for an attention is
    /// known only when the program is compiled; where it has none, the program is compiled again without.
    pub(super) fn lower_and_compile(
        &self,
        program: &Program,
        options: &runtime::CompileOptions,
    ) -> runtime::Result<Compiled> {
        let lowered = self.lower(program, &self.target, options)?;
        let compiled = match self.compile_lowered(program, &lowered)? {
            Err(error) if lowered.calls_cudnn && !matches!(error, PjrtError::OutOfMemory(_)) => {
                self.log_line(&format!("{}: compiled again without cuDNN's attention ({error})", program.name));
                let lowered = self.lower(program, &self.target.with_plain_attention(), options)?;
                self.compile_lowered(program, &lowered)?
            }
            compiled => compiled,
        };
        compiled.map_err(|error| super::refused(&self.name, error))
    }

    fn lower(
        &self,
        program: &Program,
        target: &LoweringTarget,
        options: &runtime::CompileOptions,
    ) -> runtime::Result<Lowered> {
        let lowered = (self.lowering)(program, target)?;
        options.write_dump(program, "stablehlo.mlir", || lowered.text.clone().into_bytes())?;
        Ok(lowered)
    }

    /// The compiler's own outcome is the inner result.
    fn compile_lowered(&self, program: &Program, lowered: &Lowered) -> runtime::Result<crate::Result<Compiled>> {
        let options = self.compile_options(program)?;
        Ok(self.load_or_compile(&program.name, &lowered.text, options))
    }

    /// How a program is compiled. Unless speed was requested, no kernel adds atomically, and each is chosen by rule (the first
    /// that serves) instead of by measuring: what is measured differs from run to run and between machines of one kind, and
    /// with it the order of sums. On an H200 this costs 1 to 4 % of a step (YOLO11n 9 %) and halves the time to compile.
    pub(super) fn compile_options(&self, program: &Program) -> runtime::Result<XlaCompileOptions> {
        let device_ids = self.ids_of(&program.mesh)?;
        let devices = device_ids.len();
        let mut compile = XlaCompileOptions { device_ids, ..XlaCompileOptions::spmd(devices) };
        if self.name == CUDA && self.options.repeatable {
            compile = compile.with_flag("xla_gpu_exclude_nondeterministic_ops", CompilerFlag::Bool(true));
            // The first kernel for a product whose rows are no multiples of 8, such as 197 tokens, has no aligned loads. XLA pads
            // such products only where Triton is not going to compute them. Steps, which donate their state, have many in their
            // gradients (ViT-B 2,852 → 3,290 images/s, DINOv2-S 353 → 586); predictions attend by one kernel and lose by it.
            if !program.donated.is_empty() {
                compile = compile.with_optional_flag("xla_gpu_enable_triton_gemm", CompilerFlag::Bool(false));
            }
        }
        if devices == 1 && self.name == CUDA {
            // The kernels of a recorded graph run one after the other in both modes, since only copies between devices may
            // overlap them. But to find that out XLA compares every kernel with every other when a stored program is
            // loaded: 4.2 to 5.0 s instead of 2.3 to 3.0 for EfficientNetV2-L.
            compile = compile
                .with_optional_flag("xla_gpu_command_buffer_scheduling_mode", CompilerFlag::Text("SERIALIZE".into()));
        }
        if self.name == CUDA {
            compile = compile.with_optional_flag("xla_gpu_enable_command_buffer", CompilerFlag::Text(RECORDED.into()));
        }
        if self.name == CUDA && !program.mesh.process().is_alone() {
            // Processes that divided the measuring would wait for each other, and each compiles in an order of its own.
            compile = compile.with_optional_flag("xla_gpu_shard_autotuning", CompilerFlag::Bool(false));
        }
        Ok(compile)
    }

    /// The executable of `text`.
    pub(super) fn load_or_compile(
        &self,
        name: &str,
        text: &str,
        options: XlaCompileOptions,
    ) -> crate::Result<Compiled> {
        let Some(cache) = &self.cache else {
            return Ok(Compiled { loaded: self.client.compile(text, &options)?, from_cache: false, entry: None });
        };
        let key = self.cache_key(text, &options)?;
        let _turn = self.in_flight.turn(&key);
        let reason = match cache.look_up(&key) {
            Lookup::Hit(bytes) => match self.client.load_serialized(&bytes) {
                Ok(loaded) => {
                    self.log_line(&format!("{name}: loaded from the cache"));
                    if text.contains("stablehlo.convolution") {
                        self.open_cudnn(cache);
                    }
                    return Ok(Compiled { loaded, from_cache: true, entry: Some(cache.entry(&key)) });
                }
                Err(error) => {
                    cache.discard(&key);
                    format!("the stored executable could not be loaded ({error})")
                }
            },
            Lookup::Miss(reason) => reason,
        };
        (self.log)(Notice::Compiling { program: name, reason: &reason, before: cache.time_before(&key, name) });
        let begun = Instant::now();
        let compiled = self.client.compile(text, &self.with_autotuner_cache(options, cache));
        let time = begun.elapsed();
        (self.log)(Notice::Compiled { program: name, time });
        let loaded = compiled?;
        let stored = loaded.executable().serialize().map_err(|error| error.to_string()).and_then(|bytes| {
            cache.note_time(&key, name, time);
            cache.store(&key, &bytes).map_err(|error| error.to_string())
        });
        if let Err(problem) = stored {
            self.log_line(&format!(
                "{name}: the executable could not be kept ({problem}), so the next start compiles it again"
            ));
        }
        Ok(Compiled { loaded, from_cache: false, entry: Some(cache.entry(&key)) })
    }

    /// Runs a small convolution outside of any recorded graph, once. cuDNN opens its handle when it is first used, which fails
    /// while kernels are being recorded. The compiler uses cuDNN, so a program that was compiled here needs no such help; one
    /// that was loaded may record its first convolution.
    fn open_cudnn(&self, cache: &ExecutableCache) {
        if self.name == CUDA {
            self.cudnn.call_once(|| self.run_small_convolution(cache));
        }
    }

    fn run_small_convolution(&self, cache: &ExecutableCache) {
        let run = |device: &PjrtDevice| -> crate::Result<()> {
            let plain = XlaCompileOptions { device_ids: vec![device.description().id as i64], ..Default::default() };
            let options = plain
                .with_flag("xla_gpu_exclude_nondeterministic_ops", CompilerFlag::Bool(true))
                .with_optional_flag("xla_gpu_enable_command_buffer", CompilerFlag::Text(String::new()));
            let key = self.cache_key(SMALL_CONVOLUTION, &options)?;
            let stored = match cache.look_up(&key) {
                Lookup::Hit(bytes) => self.client.load_serialized(&bytes).ok(),
                Lookup::Miss(_) => None,
            };
            let loaded = match stored {
                Some(loaded) => loaded,
                None => {
                    let loaded = self.client.compile(SMALL_CONVOLUTION, &options)?;
                    // A program that cannot be kept is compiled again by the next process.
                    let _ = loaded.executable().serialize().map(|bytes| cache.store(&key, &bytes));
                    loaded
                }
            };
            let zeros =
                |dims: [usize; 4]| PjrtBuffer::from_host(device, &HostTensor::zeros(Shape::new(DType::F32, dims)));
            let (image, kernel) = (zeros([1, 8, 8, 8])?, zeros([3, 3, 8, 8])?);
            let execution = loaded.execute(&[vec![&image, &kernel]], &[])?;
            execution.outputs.iter().flatten().try_for_each(|output| output.ready()?.wait())
        };
        if let Err(error) = self.devices.iter().try_for_each(run) {
            self.log_line(&format!("cuDNN could not be opened before the first step ({error})"));
        }
    }

    pub(super) fn cache_key(&self, text: &str, options: &XlaCompileOptions) -> crate::Result<Key> {
        let kinds: Vec<_> = self.devices.iter().map(|device| device.description().kind.as_str()).collect();
        Ok(Key::of(text, options, self.client.plugin(), &self.client.compiler_version()?, &kinds))
    }

    /// Measurements outlive a change of the program: most of its kernels stay the same.
    fn with_autotuner_cache(&self, options: XlaCompileOptions, cache: &ExecutableCache) -> XlaCompileOptions {
        let folder = cache.folder_for("autotune");
        if self.name != CUDA || std::fs::create_dir_all(&folder).is_err() {
            return options;
        }
        let folder = CompilerFlag::Text(folder.to_string_lossy().into_owned());
        options.with_optional_flag("xla_gpu_per_fusion_autotune_cache_dir", folder)
    }
}
