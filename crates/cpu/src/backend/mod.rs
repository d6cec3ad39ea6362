//! The engine as the runtime sees it.

mod buffer;
mod executable;
mod workers;

use buffer::CpuBuffer;
use executable::CpuExecutable;
use octant_runtime::{
    Backend, Buffer, CompileOptions, Device, Executable, HostTensor, MemoryUse, Mesh, Program, Result, RuntimeError,
    Sharding,
};
use std::sync::Arc;
use workers::Workers;

/// The processor of this machine as one device.
pub struct CpuBackend {
    workers: Arc<Workers>,
}

impl CpuBackend {
    /// Uses all processors that this process may run on.
    pub fn new() -> Result<CpuBackend> {
        CpuBackend::with_threads(crate::pool::ThreadPool::available())
    }

    /// Uses that many threads.
    pub fn with_threads(threads: usize) -> Result<CpuBackend> {
        Ok(CpuBackend { workers: Arc::new(Workers::start(threads)?) })
    }

    /// Bytes of every arena there is: one per program that ran at the same time as others, at most
    /// [`concurrency`](Backend::concurrency) of them, each as large as the largest program that it was used for.
    pub fn arenas(&self) -> Vec<usize> {
        self.workers.arenas()
    }

    fn check_mesh(&self, mesh: &Mesh) -> Result<()> {
        match mesh.devices() {
            1 => Ok(()),
            more => Err(RuntimeError::Unsupported {
                backend: "cpu".into(),
                what: format!("a mesh of {more} devices: the processor is one device, and uses all its cores as one"),
            }),
        }
    }
}

impl Backend for CpuBackend {
    fn name(&self) -> &str {
        "cpu"
    }

    fn devices(&self) -> Vec<Device> {
        let machine = self.workers.machine();
        let description = format!("{} threads, {:?}", machine.pool.threads(), machine.simd.level());
        vec![Device { id: 0, kind: processor_name(), description }]
    }

    fn concurrency(&self) -> usize {
        self.workers.count()
    }

    fn compile(&self, program: &Program, options: &CompileOptions) -> Result<Box<dyn Executable>> {
        self.check_mesh(&program.mesh)?;
        Ok(Box::new(CpuExecutable::compile(self.workers.clone(), program, options)?))
    }

    fn upload(&self, tensor: &HostTensor, mesh: &Mesh, _: &Sharding) -> Result<Buffer> {
        self.check_mesh(mesh)?;
        Ok(Buffer::new(CpuBuffer::ready(tensor)))
    }

    fn memory(&self) -> Result<Vec<MemoryUse>> {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let limit = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let used = kibibytes(&status, "VmRSS:").unwrap_or(0);
        Ok(vec![MemoryUse { used, peak: kibibytes(&status, "VmHWM:"), limit: kibibytes(&limit, "MemTotal:") }])
    }
}

/// The bytes of a line `Name:   123 kB`.
fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|count| count * 1024)
}

fn processor_name() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("model name"));
    let name = line.and_then(|line| line.split(':').nth(1)).map(str::trim);
    name.map_or_else(|| format!("{} processor", std::env::consts::ARCH), str::to_owned)
}
