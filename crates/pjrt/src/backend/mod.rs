//! PJRT as one of Octant's backends: programs are lowered to text, compiled by the plugin, and run on its devices.

mod buffer;
mod executable;
mod shards;

use crate::cache::{ExecutableCache, Key, Lookup};
use crate::client::{Client, Device};
use crate::compile_options::{CompileOptions, Flag};
use crate::discover::{self, PluginKind};
use crate::error::PjrtError;
use crate::executable::Executable;
use crate::loaded::LoadedExecutable;
use crate::named_value::NamedValues;
use crate::plugin::Plugin;
use crate::profiler::Profiler;
use crate::topology::Topology;
use crate::{CompiledMemory, Cost};
use octant_runtime as runtime;
use octant_runtime::{HostTensor, Mesh, Program, RuntimeError, Sharding};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use self::buffer::ShardedBuffer;
use self::executable::PjrtExecutable;

/// What the CUDA plugin calls its platform.
const CUDA: &str = "cuda";

/// How a program becomes text that the plugin's compiler reads.
type Lowering = fn(&Program, &octant_stablehlo::Options) -> runtime::Result<String>;

/// The devices of one plugin.
pub struct PjrtBackend {
    name: String,
    client: Client,
    devices: Vec<Device>,
    text: octant_stablehlo::Options,
    lowering: Lowering,
    cache: Option<ExecutableCache>,
    log: Log,
}

/// Where the backend says what it does: one sentence per call.
pub type Log = Box<dyn Fn(&str) + Send + Sync>;

impl PjrtBackend {
    /// Finds the best plugin among `kinds`, loads it and takes its devices.
    pub fn discover(kinds: &[PluginKind], options: &NamedValues) -> crate::Result<PjrtBackend> {
        let plugin = Plugin::load(discover::plugin(kinds)?.path)?;
        PjrtBackend::new(Client::new(&plugin, options)?)
    }

    /// A backend over the devices of `client`.
    pub fn new(client: Client) -> crate::Result<PjrtBackend> {
        let name = client.platform_name()?.to_lowercase();
        let devices = client.devices()?;
        let text = text_options(&name, client.plugin());
        Ok(PjrtBackend { name, client, devices, text, lowering: lower, cache: None, log: Box::new(|_| ()) })
    }

    /// Computes products that exactly instead of the device's fast way.
    pub fn with_precision(self, precision: octant_stablehlo::Precision) -> PjrtBackend {
        PjrtBackend { text: octant_stablehlo::Options { precision, ..self.text }, ..self }
    }

    /// Keeps executables (and what XLA's autotuner measures, and kernels of our own) in `cache`.
    pub fn with_cache(self, cache: ExecutableCache) -> PjrtBackend {
        octant_cuda::keep_in(cache.folder_for("kernels"));
        PjrtBackend { cache: Some(cache), ..self }
    }

    /// Tells `log` about compilations and the cache.
    pub fn with_log(self, log: Log) -> PjrtBackend {
        PjrtBackend { log, ..self }
    }

    /// The client behind this backend.
    pub fn client(&self) -> &Client {
        &self.client
    }

    fn devices_of(&self, mesh: &Mesh) -> runtime::Result<&[Device]> {
        self.devices.get(..mesh.devices()).ok_or_else(|| {
            let (asked, there) = (mesh.devices(), self.devices.len());
            RuntimeError::Device(format!("{asked} devices were asked for, and {} has {there}", self.name))
        })
    }

    fn compile_options(&self, program: &Program, options: &runtime::CompileOptions) -> runtime::Result<CompileOptions> {
        let devices = self.devices_of(&program.mesh)?;
        let mut compile = CompileOptions::spmd(devices.len());
        compile.device_ids = devices.iter().map(|device| device.description().id as i64).collect();
        if options.deterministic && self.name == CUDA {
            // Other platforms' programs always give the same bits.
            compile = compile.with_flag("xla_gpu_deterministic_ops", Flag::Bool(true));
        }
        Ok(compile)
    }

    /// The executable of `text`, from the cache or from the compiler.
    fn load_or_compile(&self, name: &str, text: &str, options: CompileOptions) -> crate::Result<LoadedExecutable> {
        let Some(cache) = &self.cache else { return self.client.compile(text, &options) };
        let key = self.cache_key(text, &options)?;
        let reason = match cache.look_up(&key) {
            Lookup::Hit(bytes) => match self.client.load_serialized(&bytes) {
                Ok(loaded) => {
                    (self.log)(&format!("{name}: loaded from the cache"));
                    return Ok(loaded);
                }
                Err(error) => {
                    cache.discard(&key);
                    format!("the stored executable could not be loaded ({error})")
                }
            },
            Lookup::Miss(reason) => reason,
        };
        (self.log)(&format!("{name}: compiling, because {reason}"));
        let loaded = self.client.compile(text, &self.with_autotuner_cache(options, cache))?;
        let stored = loaded.executable().serialize().map(|bytes| cache.store(&key, &bytes));
        match stored {
            Ok(Ok(())) => {}
            Ok(Err(error)) => (self.log)(&format!("{name}: the executable could not be kept ({error})")),
            Err(error) => (self.log)(&format!("{name}: the executable could not be kept ({error})")),
        }
        Ok(loaded)
    }

    fn cache_key(&self, text: &str, options: &CompileOptions) -> crate::Result<Key> {
        // What a user sets for the compiler by hand makes another program.
        let by_hand = std::env::var("XLA_FLAGS").unwrap_or_default();
        let version = format!("{} PJRT {}{by_hand}", self.client.platform_version()?, self.client.plugin().version());
        let kinds: Vec<_> = self.devices.iter().map(|device| device.description().kind.as_str()).collect();
        Ok(Key::new(text, &options.encode(), &version, &kinds.join(", ")))
    }

    /// Measurements outlive a change of the program: most of its kernels stay the same.
    fn with_autotuner_cache(&self, options: CompileOptions, cache: &ExecutableCache) -> CompileOptions {
        let folder = cache.folder_for("autotune");
        if self.name != CUDA || fs::create_dir_all(&folder).is_err() {
            return options;
        }
        let folder = Flag::Text(folder.to_string_lossy().into_owned());
        options.with_flag("xla_gpu_per_fusion_autotune_cache_dir", folder)
    }
}

impl runtime::Backend for PjrtBackend {
    fn name(&self) -> &str {
        &self.name
    }

    fn devices(&self) -> Vec<runtime::Device> {
        let describe = |(id, device): (usize, &Device)| {
            let description = device.description();
            runtime::Device { id, kind: description.kind.clone(), description: description.debug.clone() }
        };
        self.devices.iter().enumerate().map(describe).collect()
    }

    fn compile(
        &self,
        program: &Program,
        options: &runtime::CompileOptions,
    ) -> runtime::Result<Box<dyn runtime::Executable>> {
        let text = (self.lowering)(program, &self.text)?;
        if let Some(folder) = &options.dump {
            write_dump(folder, &program.name, "stablehlo.mlir", text.as_bytes())?;
        }
        let start = Instant::now();
        let compiled = self.load_or_compile(&program.name, &text, self.compile_options(program, options)?);
        let loaded = compiled.map_err(|error| refused(&self.name, error))?;
        if let Some(folder) = &options.dump {
            let optimized = loaded.executable().optimized_program().map_err(failed)?;
            let ending = format!("optimized.{}", optimized.format);
            write_dump(folder, &program.name, &ending, &optimized.code)?;
        }
        Ok(Box::new(PjrtExecutable::new(loaded, program, start.elapsed())?))
    }

    fn upload(&self, tensor: &HostTensor, mesh: &Mesh, sharding: &Sharding) -> runtime::Result<runtime::Buffer> {
        let devices = self.devices_of(mesh)?;
        Ok(runtime::Buffer::new(ShardedBuffer::upload(tensor, devices, *sharding)?))
    }

    fn memory(&self) -> runtime::Result<Vec<runtime::MemoryUse>> {
        let read = |device: &Device| {
            let stats = device.memory_stats().map_err(failed)?.unwrap_or_default();
            Ok(runtime::MemoryUse { used: stats.in_use, peak: stats.peak_in_use, limit: stats.limit })
        };
        self.devices.iter().map(read).collect()
    }

    fn record(&self) -> runtime::Result<Box<dyn runtime::Recording>> {
        Ok(Box::new(Profiler::start(self.client.plugin()).map_err(failed)?))
    }
}

/// How programs are written for a platform.
fn text_options(platform: &str, plugin: &Plugin) -> octant_stablehlo::Options {
    // Measured on an H200, EfficientNetV2-L at batch 64: 1,159 to 1,193 images/s with products, 1,066 to 1,094 with 1×1
    // convolutions.
    let pointwise_as_products = platform == CUDA;
    let cuda_kernels = platform == CUDA && has_cuda_kernels(plugin);
    octant_stablehlo::Options { pointwise_as_products, cuda_kernels, ..Default::default() }
}

/// Whether programs may call kernels of our own. Where they may not, for want of a compiler for instance, the plugin's
/// own kernels do the work, if more slowly.
fn has_cuda_kernels(plugin: &Plugin) -> bool {
    octant_cuda::custom_calls().is_ok_and(|calls| calls.iter().all(|call| plugin.register(call).is_ok()))
}

fn lower(program: &Program, options: &octant_stablehlo::Options) -> runtime::Result<String> {
    let refused = |error: octant_stablehlo::LowerError| RuntimeError::Compile {
        backend: "StableHLO".to_string(),
        message: error.to_string(),
    };
    octant_stablehlo::lower(program, options).map_err(refused)
}

/// A program compiled for a board that need not be here.
pub struct Planned {
    /// What the compiler made; it can be stored and loaded on such a board.
    pub executable: Executable,
    /// The memory that every device of the board needs.
    pub memory: runtime::MemoryPlan,
    /// The compiler's estimate of the work.
    pub cost: runtime::Cost,
}

/// Compiles a program for a board that need not be here. The program's mesh should be as large as the board.
pub fn plan(topology: &Topology, program: &Program) -> runtime::Result<Planned> {
    let text = lower(program, &octant_stablehlo::Options::default())?;
    let devices = program.mesh.devices();
    let start = Instant::now();
    let compiled = topology.compile(&text, &CompileOptions::spmd(devices));
    let executable = compiled.map_err(|error| refused("the board's compiler", error))?;
    let memory = executable.memory().map_err(failed)?.into();
    let cost = whole_cost(&executable.cost().map_err(failed)?, devices, start.elapsed());
    Ok(Planned { executable, memory, cost })
}

/// The runtime's form of what a compiler said, for executables here and for those of boards elsewhere.
impl From<CompiledMemory> for runtime::MemoryPlan {
    fn from(memory: CompiledMemory) -> runtime::MemoryPlan {
        runtime::MemoryPlan {
            inputs: memory.arguments,
            outputs: memory.outputs.saturating_sub(memory.aliased),
            temporary: memory.temporaries,
            code: memory.code,
        }
    }
}

/// The runtime's form of a cost: the compiler counts one device, the runtime all of them.
pub fn whole_cost(cost: &Cost, devices: usize, compile_time: Duration) -> runtime::Cost {
    runtime::Cost {
        flops: cost.flops.unwrap_or(0.0) * devices as f64,
        bytes: cost.bytes_accessed.map(|bytes| bytes * devices as f64),
        seconds: cost.optimal_seconds,
        compile_time,
    }
}

/// An error of the compiler.
fn refused(backend: &str, error: PjrtError) -> RuntimeError {
    match error {
        PjrtError::OutOfMemory(_) => failed(error),
        error => RuntimeError::Compile { backend: backend.to_string(), message: error.to_string() },
    }
}

/// Any other error.
fn failed(error: PjrtError) -> RuntimeError {
    let message = error.to_string();
    match error {
        PjrtError::OutOfMemory(memory) => {
            RuntimeError::OutOfMemory { message, asked: memory.needed, available: memory.available }
        }
        _ => RuntimeError::Device(message),
    }
}

fn write_dump(folder: &Path, program: &str, ending: &str, contents: &[u8]) -> runtime::Result<()> {
    let path = folder.join(format!("{}.{ending}", program.replace([' ', '/'], "_")));
    let written = fs::create_dir_all(folder).and_then(|()| fs::write(&path, contents));
    written.map_err(|reason| RuntimeError::Device(format!("{} could not be written: {reason}", path.display())))
}

#[cfg(test)]
mod tests;
