//! Compiled programs of the engine.

use super::buffer::{Argument, CpuBuffer, Storage};
use super::workers::{Arena, Workers};
use crate::kernels::Machine;
use crate::plan;
use crate::run::{Memory, Prepared, run};
use octant_runtime::{Buffer, CompileOptions, Cost, Executable, MemoryPlan, Program, Result, RuntimeError, Shape};
use octant_tensor::AlignedBytes;
use std::sync::Arc;
use std::time::Instant;

pub(crate) struct CpuExecutable {
    workers: Arc<Workers>,
    inner: Arc<Inner>,
    input_names: Vec<Arc<str>>,
    cost: Cost,
}

struct Inner {
    prepared: Prepared,
    inputs: Vec<Shape>,
    outputs: Vec<Shape>,
    /// For every input the output that takes over its memory.
    donated: Vec<Option<usize>>,
}

impl CpuExecutable {
    pub fn compile(workers: Arc<Workers>, program: &Program, options: &CompileOptions) -> Result<CpuExecutable> {
        let started = Instant::now();
        let graph = &program.graph;
        check_donation(program)?;
        options.write_dump(program, "graph.txt", || graph.to_string().into_bytes())?;
        options.write_dump(program, "optimized.txt", || plan::prepared_graph(graph).to_string().into_bytes())?;
        let plan = plan::compile(graph, &program.donated);
        let flops = plan.flops();
        let prepared = match options.profile {
            true => Prepared::measured(plan, workers.machine()),
            false => Prepared::new(plan, workers.machine()),
        };
        let mut donated = vec![None; graph.inputs().len()];
        program.donated.iter().for_each(|&(input, output)| donated[input] = Some(output));
        let inner = Inner { prepared, inputs: graph.input_shapes(), outputs: graph.output_shapes(), donated };
        Ok(CpuExecutable {
            workers,
            inner: Arc::new(inner),
            input_names: graph.input_names().to_vec(),
            cost: Cost { flops, compile_time: started.elapsed(), ..Cost::default() },
        })
    }
}

fn check_donation(program: &Program) -> Result<()> {
    let (inputs, outputs) = (program.graph.input_shapes(), program.graph.output_shapes());
    let fits = |&(input, output): &(usize, usize)| match (inputs.get(input), outputs.get(output)) {
        (Some(input), Some(output)) => input.bytes() == output.bytes(),
        _ => false,
    };
    let distinct = |pick: fn(&(usize, usize)) -> usize| {
        let mut list: Vec<usize> = program.donated.iter().map(pick).collect();
        list.sort_unstable();
        list.windows(2).all(|pair| pair[0] != pair[1])
    };
    match program.donated.iter().all(fits) && distinct(|pair| pair.0) && distinct(|pair| pair.1) {
        true => Ok(()),
        false => Err(RuntimeError::Compile {
            backend: "cpu".into(),
            message: "a donated input and its output must have the same size, and each be named once".into(),
        }),
    }
}

impl Executable for CpuExecutable {
    fn execute(&self, inputs: &[Buffer]) -> Result<Vec<Buffer>> {
        let arguments = self.arguments(inputs)?;
        let outputs: Vec<CpuBuffer> = self.inner.outputs.iter().cloned().map(CpuBuffer::pending).collect();
        let handles = outputs.iter().cloned().map(Buffer::new).collect();
        let inner = self.inner.clone();
        // A donated buffer is taken away from runs that were queued before and have not read it yet.
        let alone = inner.donated.iter().any(Option::is_some);
        let work = move |arena: &mut Arena, machine: &Machine, outputs: &[CpuBuffer]| {
            inner.run(&arguments, outputs, arena, machine)
        };
        self.workers.submit(outputs, alone, work)?;
        Ok(handles)
    }

    fn memory(&self) -> MemoryPlan {
        let bytes = |shapes: &[Shape]| shapes.iter().map(|shape| shape.bytes() as u64).sum::<u64>();
        let reused: u64 = self.inner.donated.iter().flatten().map(|&o| self.inner.outputs[o].bytes() as u64).sum();
        MemoryPlan {
            inputs: bytes(&self.inner.inputs),
            outputs: bytes(&self.inner.outputs) - reused,
            temporary: self.inner.prepared.plan.working_bytes() as u64,
            code: 0,
        }
    }

    fn cost(&self) -> Cost {
        self.cost
    }

    fn profile(&self) -> Vec<octant_runtime::PartTiming> {
        self.inner.prepared.profile()
    }
}

impl CpuExecutable {
    /// The arguments as the engine's own buffers, the donated ones taken from the caller.
    fn arguments(&self, inputs: &[Buffer]) -> Result<Vec<Argument>> {
        let expected = &self.inner.inputs;
        if inputs.len() != expected.len() {
            return Err(RuntimeError::ArgumentCount { expected: expected.len(), given: inputs.len() });
        }
        for (index, (buffer, shape)) in inputs.iter().zip(expected).enumerate() {
            if buffer.shape() != shape {
                let name = self.input_names[index].to_string();
                let (expected, given) = (shape.clone(), buffer.shape().clone());
                return Err(RuntimeError::Argument { index, name, expected, given });
            }
        }
        let own = inputs.iter().map(|buffer| {
            buffer
                .downcast::<CpuBuffer>()
                .ok_or_else(|| RuntimeError::Device("a buffer of another device was given to the cpu".into()))
        });
        own.zip(&self.inner.donated)
            .map(|(buffer, donated)| match donated {
                Some(_) => buffer?.donate().map(Argument::Pending),
                None => buffer?.to_read(),
            })
            .collect()
    }
}

impl Inner {
    fn run(&self, arguments: &[Argument], outputs: &[CpuBuffer], arena: &mut Arena, machine: &Machine) -> Result<()> {
        let plan = &self.prepared.plan;
        // Inputs that are not donated are read first, so that one buffer given twice is copied before it is taken.
        let mut storages: Vec<Option<Storage>> = vec![None; arguments.len()];
        for (index, argument) in arguments.iter().enumerate().filter(|&(index, _)| self.donated[index].is_none()) {
            storages[index] = Some(argument.storage()?);
        }
        let mut results: Vec<Option<Arc<AlignedBytes>>> = vec![None; outputs.len()];
        for (index, argument) in arguments.iter().enumerate() {
            if let Some(output) = self.donated[index] {
                let memory = argument.take()?.into_exclusive();
                results[output] = Some(memory.clone());
                storages[index] = Some(Storage::Owned(memory));
            }
        }
        let results: Vec<Arc<AlignedBytes>> = results
            .into_iter()
            .zip(&self.outputs)
            .map(|(reused, shape)| reused.unwrap_or_else(|| Arc::new(AlignedBytes::zeroed(shape.bytes()))))
            .collect();
        let input_pointers: Vec<*mut u8> = storages.iter().flatten().map(Storage::pointer).collect();
        let output_pointers: Vec<*mut u8> = results.iter().map(|memory| memory.as_ptr().cast_mut()).collect();
        // SAFETY: storages and results live until the end of this function and have the sizes of their shapes; results
        // and donated inputs have no other handle. The arena belongs to this run. What is kept is written only by a run that
        // `enter` lets in alone.
        let memory = unsafe {
            let own = [arena.reserve(plan.arena_bytes), self.prepared.kept_memory()];
            Memory::bind(plan, own, &input_pointers, &output_pointers)
        };
        let memory = memory.with_identities(arguments.iter().map(Argument::identity).collect());
        let entered = self.prepared.enter(&memory);
        machine.pool.as_caller(|| run(&self.prepared, &memory, machine));
        self.prepared.has_ended();
        drop((entered, storages));
        outputs.iter().zip(results).for_each(|(output, memory)| output.fulfil(Storage::Owned(memory)));
        Ok(())
    }
}
