//! The backend interface: how programs are compiled, run and fed on devices.
//!
//! A [`Program`] is a graph with attributes of its inputs: which ones are donated and how each is sharded over
//! a [`Mesh`] of devices. A [`Backend`] compiles it into an [`Executable`], holds [`Buffer`]s on its devices, and runs
//! asynchronously: `execute` returns at once with buffers that become ready later, and only reading one waits. A
//! backend that cannot do something returns [`RuntimeError::Unsupported`]; there is no silent fallback.
//!
//! Start reading at [`Backend`].

mod buffer;
mod error;
mod mesh;
mod program;
mod timeline;

pub use buffer::{Buffer, DeviceBuffer, Shard};
pub use error::RuntimeError;
pub use mesh::{Axis, Mesh, Process, Sharding};
pub use octant_graph::Graph;
pub use octant_tensor::{DType, HostTensor, Shape};
pub use program::{CompileOptions, Cost, Device, Executable, MemoryPlan, MemoryUse, PartTiming, Program};
pub use timeline::{Occupation, Recording, Timeline, TimelineSpan};

use std::sync::Arc;

/// Result of everything that touches a device.
pub type Result<T> = std::result::Result<T, RuntimeError>;

/// A kind of device and how to use it: the embedded CPU engine, or XLA behind a PJRT plugin.
pub trait Backend: Send + Sync + 'static {
    /// The name on the command line: `cpu`, `cuda`, `tpu`.
    fn name(&self) -> &str;

    /// The same backend as sessions, predictors and runs hold it.
    fn shared(self) -> Arc<dyn Backend>
    where
        Self: Sized,
    {
        Arc::new(self)
    }

    /// The devices of this process, in the order a mesh numbers them.
    fn devices(&self) -> Vec<Device>;

    /// This process among those whose devices programs can run on; the others have as many devices each.
    fn process(&self) -> Process {
        Process::ALONE
    }

    /// How many programs run at the same time, each with memory for its intermediate values.
    fn concurrency(&self) -> usize {
        1
    }

    /// How many programs are worth compiling at the same time while another one runs; with none, each is compiled where it is
    /// needed.
    fn concurrent_compilations(&self) -> usize {
        0
    }

    /// Compiles a program. The result runs on the devices of `program.mesh`.
    fn compile(&self, program: &Program, options: &CompileOptions) -> Result<Box<dyn Executable>>;

    /// Starts to copy a tensor onto the devices of a mesh, split as `sharding` says. Where devices belong to several
    /// processes, all of them call this with the same tensor.
    fn upload(&self, tensor: &HostTensor, mesh: &Mesh, sharding: &Sharding) -> Result<Buffer>;

    /// The same for a tensor of the shape `whole` of which this process has some rows: those from `first` on, among which are
    /// all that its own devices hold.
    fn upload_rows(
        &self,
        rows: &HostTensor,
        first: usize,
        whole: &Shape,
        mesh: &Mesh,
        sharding: &Sharding,
    ) -> Result<Buffer> {
        match first == 0 && rows.shape() == whole {
            true => self.upload(rows, mesh, sharding),
            false => {
                Err(RuntimeError::Unsupported { backend: self.name().to_string(), what: "parts of a batch".into() })
            }
        }
    }

    /// Memory in use on every device now, where the backend reports it.
    fn memory(&self) -> Result<Vec<MemoryUse>>;

    /// Starts to record what the devices do, where the backend can.
    fn record(&self) -> Result<Box<dyn Recording>> {
        Err(RuntimeError::Unsupported { backend: self.name().to_string(), what: "recordings".into() })
    }
}
