//! A compiled program on the devices of its mesh.

use super::buffer::ShardedBuffer;
use super::compile::Compiled;
use super::{failed, whole_cost};
use crate::buffer::PjrtBuffer;
use crate::cache::CacheEntry;
use crate::error::PjrtError;
use crate::loaded::{Execution, LoadedExecutable};
use octant_runtime::{Buffer, Cost, Executable, MemoryPlan, Mesh, Program, Result, RuntimeError, Shape, Sharding};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

pub(super) struct PjrtExecutable {
    loaded: LoadedExecutable,
    inputs: Vec<Parameter>,
    outputs: Vec<(Shape, Sharding)>,
    mesh: Mesh,
    memory: MemoryPlan,
    flops: f64,
    compile_time: Duration,
    from_cache: bool,
    /// Where a program that has not run yet is stored.
    unproven: Mutex<Option<CacheEntry>>,
    /// Computed on demand, since the compiler traverses the whole program for it.
    cost: OnceLock<Cost>,
}

struct Parameter {
    name: String,
    shape: Shape,
    sharding: Sharding,
    donated: bool,
}

impl PjrtExecutable {
    pub(super) fn new(compiled: Compiled, program: &Program, compile_time: Duration) -> Result<PjrtExecutable> {
        let Compiled { loaded, from_cache, entry } = compiled;
        let shapes = program.graph.input_shapes().into_iter().zip(program.graph.input_names());
        let inputs = shapes.zip(&program.inputs).enumerate().map(|(index, ((shape, name), sharding))| Parameter {
            name: name.to_string(),
            shape,
            sharding: sharding.clone(),
            donated: program.donated.iter().any(|(input, _)| *input == index),
        });
        let outputs = program.graph.output_shapes().into_iter().zip(program.outputs.iter().cloned()).collect();
        // A plugin that keeps these figures to itself can still run programs.
        let memory = loaded.executable().memory().map(MemoryPlan::from).unwrap_or_default();
        let (inputs, flops, cost) = (inputs.collect(), program.graph.flops(), OnceLock::new());
        let (mesh, unproven) = (program.mesh.clone(), Mutex::new(entry));
        Ok(PjrtExecutable { loaded, inputs, outputs, mesh, memory, flops, compile_time, from_cache, unproven, cost })
    }

    /// Starts the program. What fails at its first run would fail from the store as well, so it is compiled again by the next
    /// process; for that the first run is waited for. Memory that others hold is not the program's fault.
    fn start(&self, arguments: &[Vec<&PjrtBuffer>]) -> Result<Execution> {
        let entry = self.unproven.lock().unwrap_or_else(PoisonError::into_inner).take();
        let started = self.loaded.execute(arguments, &[]).and_then(|execution| {
            let mut outputs = execution.outputs.iter().flatten().filter(|_| entry.is_some());
            outputs.try_for_each(|output| output.ready()?.wait())?;
            Ok(execution)
        });
        if let (Some(entry), Err(error)) = (entry, &started)
            && !matches!(error, PjrtError::OutOfMemory(_))
        {
            entry.discard();
        }
        started.map_err(failed)
    }

    /// The backend's own buffers behind `inputs`, each as the program expects it.
    fn check<'a>(&self, inputs: &'a [Buffer]) -> Result<Vec<&'a ShardedBuffer>> {
        let (expected, given) = (self.inputs.len(), inputs.len());
        if expected != given {
            return Err(RuntimeError::ArgumentCount { expected, given });
        }
        self.inputs
            .iter()
            .zip(inputs)
            .enumerate()
            .map(|(index, (parameter, input))| parameter.check(index, input))
            .collect()
    }
}

impl Parameter {
    fn check<'a>(&self, index: usize, input: &'a Buffer) -> Result<&'a ShardedBuffer> {
        if *input.shape() != self.shape {
            let (name, expected, given) = (self.name.clone(), self.shape.clone(), input.shape().clone());
            return Err(RuntimeError::Argument { index, name, expected, given });
        }
        let buffer = input.downcast::<ShardedBuffer>().ok_or_else(|| {
            RuntimeError::Device(format!(
                "input {index} ({}) lies on another backend's device; upload it first",
                self.name
            ))
        })?;
        if *buffer.sharding() != self.sharding {
            let (name, expected, given) = (&self.name, &self.sharding, buffer.sharding());
            let text =
                format!("input {index} ({name}) should be spread as {expected:?} over the devices, it is {given:?}");
            return Err(RuntimeError::Device(text));
        }
        Ok(buffer)
    }
}

impl Executable for PjrtExecutable {
    fn execute(&self, inputs: &[Buffer]) -> Result<Vec<Buffer>> {
        let buffers = self.check(inputs)?;
        let devices = self.loaded.devices();
        let mut arguments = vec![Vec::with_capacity(buffers.len()); devices];
        for buffer in &buffers {
            let parts = buffer.parts()?;
            if parts.len() != devices {
                let text = format!("an input lies on {} devices and the program runs on {devices}", parts.len());
                return Err(RuntimeError::Device(text));
            }
            arguments.iter_mut().zip(parts).for_each(|(list, part)| list.push(part));
        }
        let execution = self.start(&arguments)?;
        let donated = self.inputs.iter().zip(&buffers).filter(|(parameter, _)| parameter.donated);
        donated.for_each(|(_, buffer)| buffer.mark_donated());

        // From one list of outputs per device to one list of devices per output.
        let mut lists: Vec<_> = execution.outputs.into_iter().map(Vec::into_iter).collect();
        let collect = |(shape, sharding): &(Shape, Sharding)| {
            let parts = lists.iter_mut().filter_map(|list| list.next()).collect();
            Buffer::new(ShardedBuffer::new(shape.clone(), self.mesh.clone(), sharding.clone(), parts))
        };
        Ok(self.outputs.iter().map(collect).collect())
    }

    fn memory(&self) -> MemoryPlan {
        self.memory
    }

    fn cost(&self) -> Cost {
        *self.cost.get_or_init(|| {
            let cost = self.loaded.executable().cost().unwrap_or_default();
            let cost = whole_cost(&cost, self.mesh.devices(), self.compile_time, self.from_cache);
            // The compiler counts nothing for what it hands to libraries, such as convolutions on GPUs.
            Cost { flops: self.flops, ..cost }
        })
    }
}
