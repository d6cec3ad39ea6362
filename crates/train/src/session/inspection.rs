//! What a session reports: names, values, snapshots, costs and memory.

use super::*;
use crate::checkpoint::Parts;
use octant_archive::{Archive, save_safetensors};
use std::path::Path;

impl Session {
    /// What the metrics of a validation are called.
    pub fn validated_names(&self) -> Vec<String> {
        validated_names(&*self.task, self.programs.counted)
    }

    /// Steps of learning so far.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Batches that this optimizer has seen.
    pub fn batches(&self) -> u64 {
        self.accumulation.batches()
    }

    /// Batches that went into running statistics.
    pub fn tracked(&self) -> u64 {
        self.tracked
    }

    /// The model's variables.
    pub fn variables(&self) -> &[VariableSpec] {
        &self.programs.traced.variables
    }

    /// Everything that lives between steps.
    pub fn entries(&self) -> &[StateEntry] {
        &self.programs.traced.entries
    }

    /// Waits, and copies the model's variables (averages, where there are any) to the host as a file has them: with the
    /// reference's names and layouts. [`set_weights`](Session::set_weights) and [`Values::import`] read them back.
    pub fn weights(&self) -> Result<Archive, TrainError> {
        let (specs, values) = self.model()?;
        Ok(octant_zoo::weights::export(&specs, &values, self.tracked).into())
    }

    /// Waits, and writes the model's weights as a safetensors file, which PyTorch reads as well.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), TrainError> {
        let weights = self.weights()?;
        let tensors = weights.tensors.iter().map(|(name, tensor)| (name.as_str(), tensor));
        Ok(save_safetensors(path.as_ref(), tensors, &[("format".into(), "pt".into())])?)
    }

    /// Reads the model's weights from a file: one of [`save`](Session::save), or of PyTorch with the same names. As with
    /// PyTorch's `load_state_dict`, a name that is missing or unknown is an error, and the optimizer's state stays as it is.
    pub fn load(&mut self, path: impl AsRef<Path>) -> Result<(), TrainError> {
        self.set_weights(&Archive::open(path.as_ref())?)
    }

    /// The same with weights in memory. Averages start from them too.
    pub fn set_weights(&mut self, weights: &Archive) -> Result<(), TrainError> {
        let specs: Vec<VariableSpec> = self.variables().iter().filter(|spec| !spec.companion).cloned().collect();
        let values = Values::of_archive(weights, &specs)?;
        self.state.set(&*self.backend, &self.programs.traced, &values)?;
        let counted = weights.tensors.iter().find(|(name, _)| name.ends_with("num_batches_tracked"));
        if let Some(count) = counted.and_then(|(_, count)| count.to_f64s().first().copied()) {
            self.tracked = count as u64;
        }
        Ok(())
    }

    /// Waits, and copies everything to the host. What is left to be done with it needs no device: another thread may.
    pub fn snapshot(&self) -> Result<Box<dyn FnOnce() -> Snapshot + Send>, TrainError> {
        if self.is_divided() {
            let parts = Some(self.parts()?);
            return Ok(Box::new(move || Snapshot { parts, model: Vec::new(), state: Vec::new() }));
        }
        let averaged = averages(&self.programs.traced);
        let (specs, values) = self.model()?;
        let tracked = self.tracked;
        let mut state = Vec::new();
        for (entry, buffer) in self.programs.traced.entries.iter().zip(&self.state.buffers) {
            if !self.is_of_model(entry, averaged) {
                state.push((entry.name.clone(), buffer.to_host()?));
            }
        }
        Ok(Box::new(move || {
            let model = octant_zoo::weights::export(&specs, &values, tracked);
            Snapshot { parts: None, model, state }
        }))
    }

    /// Whether the model's file holds an entry: the evaluated variables need not be kept twice.
    fn is_of_model(&self, entry: &StateEntry, averaged: bool) -> bool {
        match entry.role {
            Role::Variable(index) => !averaged && !self.programs.traced.variables[index].companion,
            Role::Average(_) => true,
            Role::Slot | Role::Gradient | Role::Sums => false,
        }
    }

    /// Whether some of the state is on the devices of other processes only.
    pub fn is_divided(&self) -> bool {
        self.state.buffers.iter().any(|buffer| !buffer.is_addressable())
    }

    /// The parts of the state that this process keeps.
    fn parts(&self) -> Result<Parts, TrainError> {
        let averaged = averages(&self.programs.traced);
        let mut parts = Parts::default();
        for (entry, buffer) in self.programs.traced.entries.iter().zip(&self.state.buffers) {
            match entry.role {
                Role::Variable(index) | Role::Average(index) if self.is_of_model(entry, averaged) => {
                    parts.add_variable(&self.programs.traced.variables[index], buffer.shards()?)?;
                }
                _ => parts.add_entry(&entry.name, buffer.shards()?),
            }
        }
        if self.mesh.process().rank == 0 {
            let specs = self.programs.traced.variables.iter().filter(|spec| !spec.companion);
            specs.filter_map(|spec| octant_zoo::weights::kept_beside(spec, self.tracked)).for_each(|(name, tensor)| {
                parts.add_beside(name, tensor);
            });
        }
        Ok(parts)
    }

    /// Waits, and copies the state to the host by name, in the layout of the device.
    pub fn values(&self) -> Result<Values, TrainError> {
        let buffers = if self.is_divided() { self.gathered()? } else { self.state.buffers.clone() };
        let named = self.programs.traced.entries.iter().zip(&buffers);
        let values = named.map(|(entry, buffer)| Ok((entry.name.clone(), buffer.to_host()?)));
        Ok(Values::of_state(values.collect::<Result<Vec<_>, TrainError>>()?))
    }

    /// The state with all of it on every device, which all processes request together.
    fn gathered(&self) -> Result<Vec<Buffer>, TrainError> {
        let trace = octant_graph::Trace::new();
        let entries = &self.programs.traced.entries;
        let inputs: Vec<_> = entries.iter().map(|entry| trace.input(&entry.name, entry.shape.clone())).collect();
        let mut program = octant_runtime::Program::new("gathering of the state", trace.finish(&inputs)?);
        program.mesh = self.mesh.clone();
        program.inputs = self.programs.traced.program.inputs[..entries.len()].to_vec();
        let gathering = self.backend.compile(&program, &CompileOptions::default())?;
        Ok(gathering.execute(&self.state.buffers)?)
    }

    /// Where the time of the training steps went, if it was measured.
    pub fn profile(&self) -> Vec<octant_runtime::PartTiming> {
        self.first_form().profile()
    }

    /// Memory in use on each of its devices, where the backend reports it.
    pub fn memory(&self) -> Vec<MemoryUse> {
        let mut uses = self.backend.memory().unwrap_or_default();
        uses.truncate(self.mesh.devices());
        uses
    }

    /// The memory on each device of the largest training step that is compiled, and of the evaluation step if it is.
    pub fn planned_memory(&self) -> (MemoryPlan, Option<MemoryPlan>) {
        self.programs.memory()
    }

    /// The evaluation step.
    pub fn evaluation_usage(&self) -> Usage {
        self.programs.evaluation.usage()
    }

    /// The forms of the training step: those of the task for `batch_size`, then for the other sizes.
    pub fn form_usage(&self) -> impl Iterator<Item = Usage> {
        self.programs.form_usage()
    }

    fn first_form(&self) -> &dyn Executable {
        self.programs.forms[0].train.executable().expect("a session begins when its first form is compiled")
    }

    /// The same error, except that one about memory names what would need less of it.
    pub fn explained(&self, error: TrainError) -> TrainError {
        match error {
            TrainError::Device(RuntimeError::OutOfMemory { requested, .. }) => {
                self.programs.needs.ran_out(requested, self.first_form().memory().peak())
            }
            other => other,
        }
    }

    /// Memory and work of one training step.
    pub fn cost(&self) -> (MemoryPlan, Cost) {
        (self.first_form().memory(), self.first_form().cost())
    }
}
