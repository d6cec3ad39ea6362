//! PJRT as one of Octant's backends: programs are lowered to text, compiled by the plugin, and run on its devices.

mod buffer;
mod compile;
mod executable;
mod lowering;
mod options;
mod plan;
mod processes;
mod shards;
mod small_buffers;

use crate::cache::{ExecutableCache, InFlight};
use crate::client::{Client, PjrtDevice};
use crate::discover::{self, PluginKind};
use crate::error::PjrtError;
use crate::named_value::NamedValues;
use crate::plugin::Plugin;
use crate::profiler::Profiler;
use crate::{CompiledMemory, XlaCost};
use octant_runtime as runtime;
use octant_runtime::{HostTensor, Mesh, Program, RuntimeError, Shape, Sharding};
use std::sync::{Arc, Mutex, Once};
use std::time::{Duration, Instant};

pub use self::options::PjrtOptions;
pub use self::plan::{Planned, key_of, plan, plan_quickly};
pub use crate::cache::PastCompileTime;

use self::buffer::ShardedBuffer;
use self::executable::PjrtExecutable;
use self::lowering::{Lowering, LoweringTarget, MissingKernels, lower};
use self::processes::Processes;
use self::shards::Rows;
use self::small_buffers::SmallBuffers;

/// What the CUDA plugin calls its platform.
const CUDA: &str = "cuda";
/// What libtpu calls its platform.
const TPU: &str = "tpu";

/// The devices of one plugin.
pub struct PjrtBackend {
    name: String,
    client: Client,
    /// Those of this process.
    devices: Vec<PjrtDevice>,
    processes: Processes,
    options: PjrtOptions,
    target: LoweringTarget,
    lowering: Lowering,
    /// Why programs cannot call some kernels, until that has been logged.
    missing: Mutex<MissingKernels>,
    cache: Option<ExecutableCache>,
    log: Log,
    /// The first use of cuDNN by this process.
    cudnn: Once,
    /// What is being compiled.
    in_flight: InFlight,
    /// On GPUs, one per device.
    _small_buffers: Vec<SmallBuffers>,
}

/// An event that users who wait for the backend want to see.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Notice<'a> {
    /// A sentence for the log.
    Message(&'a str),
    /// The compiler is at work from now on, and why.
    Compiling {
        /// The program's name.
        program: &'a str,
        /// Why it was not found in the cache.
        reason: &'a str,
        /// How long the compiler took before, where that is known.
        before: Option<PastCompileTime>,
    },
    /// The compiler is done, successfully or not.
    Compiled {
        /// The program's name.
        program: &'a str,
        /// How long it took.
        time: Duration,
    },
}

/// Receives the notices of a backend.
pub type Log = Arc<dyn Fn(Notice) + Send + Sync>;

impl PjrtBackend {
    /// Finds the best plugin among `kinds`, loads it and takes its devices.
    pub fn discover(kinds: &[PluginKind], options: &NamedValues) -> crate::Result<PjrtBackend> {
        let plugin = Plugin::load(discover::plugin(kinds)?.path)?;
        PjrtBackend::new(Client::new(&plugin, options)?)
    }

    /// A backend over the devices of `client`, with the default options.
    pub fn new(client: Client) -> crate::Result<PjrtBackend> {
        PjrtBackend::with_options(client, PjrtOptions::default())
    }

    /// A backend over the devices of `client`.
    pub fn with_options(client: Client, options: PjrtOptions) -> crate::Result<PjrtBackend> {
        let name = client.platform_name()?.to_lowercase();
        let (processes, devices) = Processes::of(&client)?;
        let (target, missing) = LoweringTarget::of(&name, client.plugin(), options);
        let missing = Mutex::new(missing);
        let log: Log = Arc::new(|_| ());
        let gpus = if name == CUDA { &devices[..] } else { &[] };
        let _small_buffers = gpus.iter().map(SmallBuffers::make_room).collect::<crate::Result<_>>()?;
        let (lowering, cache, cudnn) = (lower, None, Once::new());
        Ok(PjrtBackend {
            name,
            client,
            devices,
            processes,
            options,
            target,
            lowering,
            missing,
            cache,
            log,
            cudnn,
            in_flight: InFlight::default(),
            _small_buffers,
        })
    }

    /// Keeps executables (and what XLA's autotuner measures, and kernels of our own) in `cache`.
    pub fn with_cache(self, cache: ExecutableCache) -> PjrtBackend {
        octant_cuda::keep_in(cache.folder_for("kernels"));
        PjrtBackend { cache: Some(cache), ..self }
    }

    /// Sends notices about compilations and the cache to `log`.
    pub fn with_log(self, log: Log) -> PjrtBackend {
        PjrtBackend { log, ..self }
    }

    /// The client behind this backend.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The devices of a mesh that this process addresses.
    fn devices_of(&self, mesh: &Mesh) -> runtime::Result<&[PjrtDevice]> {
        let (process, ours) = (mesh.process(), self.processes.process);
        if process != runtime::Process::ALONE && process != ours {
            let (mesh, ours) = (process.ranks, ours.ranks);
            return Err(RuntimeError::Device(format!("a mesh over {mesh} processes, and {} has {ours}", self.name)));
        }
        self.devices.get(..mesh.addressable().len()).ok_or_else(|| {
            let (requested, there) = (mesh.addressable().len(), self.devices.len());
            RuntimeError::Device(format!("{requested} devices were requested, and {} has {there}", self.name))
        })
    }

    /// The numbers of all devices of a mesh.
    fn ids_of(&self, mesh: &Mesh) -> runtime::Result<Vec<i64>> {
        let ours = self.devices_of(mesh)?;
        Ok(match mesh.process().is_alone() {
            true => ours.iter().map(|device| device.description().id as i64).collect(),
            false => self.processes.ids(mesh.addressable().len()),
        })
    }
}

impl runtime::Backend for PjrtBackend {
    fn name(&self) -> &str {
        &self.name
    }

    fn devices(&self) -> Vec<runtime::Device> {
        let describe = |(id, device): (usize, &PjrtDevice)| {
            let description = device.description();
            runtime::Device { id, kind: description.kind.clone(), description: description.debug.clone() }
        };
        self.devices.iter().enumerate().map(describe).collect()
    }

    fn process(&self) -> runtime::Process {
        self.processes.process
    }

    /// A compiler's passes over one program run one after the other, so most cores are free for others. Kernels that are chosen
    /// by measuring must have the GPU for themselves.
    fn concurrent_compilations(&self) -> usize {
        /// Each needs memory for its program, and the loader needs cores as well.
        const MOST: usize = 4;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let measures = self.name == CUDA && !self.options.repeatable;
        if measures { 0 } else { cores.div_ceil(2).min(MOST) }
    }

    fn compile(
        &self,
        program: &Program,
        options: &runtime::CompileOptions,
    ) -> runtime::Result<Box<dyn runtime::Executable>> {
        self.log_missing_kernels(program);
        options.write_dump(program, "graph.txt", || program.graph.to_string().into_bytes())?;
        let start = Instant::now();
        let compiled = self.lower_and_compile(program, options)?;
        if options.dump.is_some() {
            match compiled.loaded.executable().optimized_program() {
                Ok(optimized) => {
                    let ending = format!("optimized.{}", optimized.format);
                    options.write_dump(program, &ending, || optimized.code)?;
                }
                // Plugins need not return the optimized program.
                Err(error) => self.log_line(&format!("{}: no optimized program to dump ({error})", program.name)),
            }
        }
        let executable = PjrtExecutable::new(compiled, program, start.elapsed())?;
        Ok(Box::new(executable))
    }

    fn upload(&self, tensor: &HostTensor, mesh: &Mesh, sharding: &Sharding) -> runtime::Result<runtime::Buffer> {
        let devices = self.devices_of(mesh)?;
        Ok(runtime::Buffer::new(ShardedBuffer::upload(&Rows::whole(tensor), devices, mesh, sharding)?))
    }

    fn upload_rows(
        &self,
        rows: &HostTensor,
        first: usize,
        whole: &Shape,
        mesh: &Mesh,
        sharding: &Sharding,
    ) -> runtime::Result<runtime::Buffer> {
        let devices = self.devices_of(mesh)?;
        let rows = Rows { tensor: rows, first, whole };
        Ok(runtime::Buffer::new(ShardedBuffer::upload(&rows, devices, mesh, sharding)?))
    }

    fn memory(&self) -> runtime::Result<Vec<runtime::MemoryUse>> {
        let read = |device: &PjrtDevice| {
            let stats = device.memory_stats().map_err(failed)?.unwrap_or_default();
            Ok(runtime::MemoryUse { used: stats.in_use, peak: stats.peak_in_use, limit: stats.limit })
        };
        self.devices.iter().map(read).collect()
    }

    fn record(&self) -> runtime::Result<Box<dyn runtime::Recording>> {
        Ok(Box::new(Profiler::start(self.client.plugin()).map_err(failed)?))
    }
}

/// A compiler's analysis as the runtime's types, for local executables and for planned ones.
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
pub fn whole_cost(cost: &XlaCost, devices: usize, compile_time: Duration, from_cache: bool) -> runtime::Cost {
    runtime::Cost {
        flops: cost.flops.unwrap_or(0.0) * devices as f64,
        bytes: cost.bytes_accessed.map(|bytes| bytes * devices as f64),
        seconds: cost.optimal_seconds,
        compile_time,
        from_cache,
    }
}

/// An error of the compiler.
fn refused(backend: &str, error: PjrtError) -> RuntimeError {
    match error {
        PjrtError::OutOfMemory(_) => failed(error),
        error if error.is_device_lost() => failed(error),
        error => RuntimeError::Compile { backend: backend.to_string(), message: error.to_string() },
    }
}

/// Any other error.
fn failed(error: PjrtError) -> RuntimeError {
    let message = error.to_string();
    match error {
        error if error.is_device_lost() => {
            RuntimeError::Lost { reason: message.lines().next().unwrap_or_default().to_string() }
        }
        PjrtError::OutOfMemory(memory) => {
            RuntimeError::OutOfMemory { message, requested: memory.needed, available: memory.available }
        }
        _ => RuntimeError::Device(message),
    }
}

#[cfg(test)]
mod tests;
