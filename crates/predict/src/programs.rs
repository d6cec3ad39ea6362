//! Compiled programs by the shape of their input, over weights that were uploaded once.

use crate::error::{Result, refusal};
use crate::network::Network;
use octant_graph::passes::quantized;
use octant_graph::{DType, Shape, Trace};
use octant_nn::{Context, Mode};
use octant_recipe::{NormalizationMode, Recipe};
use octant_runtime::{Backend, Buffer, CompileOptions, Executable, MemoryPlan, Mesh, Program, Sharding};
use octant_tensor::{AlignedBytes, Bytes, HostTensor};
use octant_train::step::{self, StepOptions, StepPlan};
use octant_train::{normalize_of, normalized};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Which numbers of a network are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Layer {
    /// What the task predicts: probabilities, masks, boxes, images.
    Prediction,
    /// What the last linear layer sees.
    Pooled,
    /// The network's result.
    Output,
    /// The last feature map, or all tokens.
    Map,
}

impl Layer {
    /// The layers that features are taken from, by name.
    pub const NAMED: [(&'static str, Layer); 3] =
        [("pooled", Layer::Pooled), ("output", Layer::Output), ("map", Layer::Map)];
}

impl std::str::FromStr for Layer {
    type Err = crate::PredictError;

    fn from_str(text: &str) -> Result<Layer> {
        let found = Layer::NAMED.iter().find(|(name, _)| *name == text).map(|(_, layer)| *layer);
        found.ok_or_else(|| refusal!("there is no layer \"{text}\"; use pooled, output or map"))
    }
}

/// What one row of a batch is, and what is wanted of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RowShape {
    /// What is wanted.
    pub layer: Layer,
    /// u8 for pixels from 0 to 255, f32 for normalized ones.
    pub dtype: DType,
    /// Height, width and channels.
    pub image: [usize; 3],
}

impl RowShape {
    /// The bytes of a row.
    pub fn bytes(&self) -> usize {
        self.image.iter().product::<usize>() * self.dtype.size()
    }

    /// The program for so many rows.
    pub(crate) fn key(&self, batch: usize) -> Key {
        let [height, width, channels] = self.image;
        Key { layer: self.layer, input: Shape::new(self.dtype, [batch, height, width, channels]) }
    }
}

/// A program is compiled once per key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub layer: Layer,
    /// Images `[batch, height, width, channels]`: bytes from 0 to 255, or f32 as the network wants them.
    pub input: Shape,
}

/// A program and the weights in the order of its inputs; the images come after them.
struct Compiled {
    executable: Box<dyn Executable>,
    weights: Vec<Buffer>,
}

/// A slot per key, so that compiling one program does not hold up calls of others.
type Slot = Arc<Mutex<Option<Arc<Compiled>>>>;

/// A program, and how it is kept.
#[derive(Default)]
struct Entry {
    slot: Slot,
    /// Compiled ahead: it is kept for ever.
    pinned: bool,
    /// The number of the last use of any program when this one was used last.
    used: u64,
}

/// Programs that are kept although they were not compiled ahead. Networks that take images of any size compile for each, and a
/// program that is used for one image must not be kept for ever.
const UNPINNED: usize = 32;

/// The programs of a network.
pub(crate) struct Programs {
    backend: Arc<dyn Backend>,
    weights: HashMap<String, Buffer>,
    compiled: Mutex<HashMap<Key, Entry>>,
    /// Blocks for inputs that no run reads now.
    staging: Mutex<Vec<Arc<AlignedBytes>>>,
}

/// Blocks for inputs that are kept: as many as calls that run at once, within reason.
const STAGED: usize = 16;

/// Nothing that these locks guard can be left half-changed by a panic.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lets a host tensor share a block that is staged again later.
struct Staged(Arc<AlignedBytes>);

impl std::ops::Deref for Staged {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl Programs {
    /// Uploads the weights.
    pub fn new(backend: Arc<dyn Backend>, network: &Network) -> Result<Programs> {
        let upload = |(path, value): (&String, &HostTensor)| -> Result<(String, Buffer)> {
            Ok((path.clone(), backend.upload(value, &Mesh::single(), &Sharding::REPLICATED)?))
        };
        let weights = network.values.iter().map(upload).collect::<Result<_>>()?;
        Ok(Programs { backend, weights, compiled: Mutex::default(), staging: Mutex::default() })
    }

    /// The device.
    pub fn backend(&self) -> &Arc<dyn Backend> {
        &self.backend
    }

    /// The batch sizes that programs for such rows were compiled for.
    pub fn batches(&self, rows: &RowShape) -> Vec<usize> {
        let compiled = locked(&self.compiled);
        let of_rows = |key: &&Key| {
            key.layer == rows.layer && key.input.dtype() == rows.dtype && key.input.dims()[1..] == rows.image
        };
        compiled.keys().filter(of_rows).map(|key| key.input.dims()[0]).collect()
    }

    /// The memory of every program that was compiled.
    pub fn memory(&self) -> Vec<MemoryPlan> {
        let slots: Vec<Slot> = locked(&self.compiled).values().map(|entry| entry.slot.clone()).collect();
        slots.iter().filter_map(|slot| locked(slot).as_ref().map(|compiled| compiled.executable.memory())).collect()
    }

    /// Bytes of the weights on the device.
    pub fn weight_bytes(&self) -> u64 {
        self.weights.values().map(|buffer| buffer.shape().bytes() as u64).sum()
    }

    /// Compiles the program of a key, unless it is there.
    pub fn prepare(&self, key: &Key, network: &Network) -> Result<()> {
        self.slot(key, true);
        self.compiled(key, network).map(drop)
    }

    /// The slot of a key. Of the programs that were not compiled ahead, the one that was used longest ago makes room.
    fn slot(&self, key: &Key, pin: bool) -> Slot {
        let mut compiled = locked(&self.compiled);
        let used = compiled.values().map(|entry| entry.used).max().unwrap_or(0) + 1;
        let unpinned = compiled.iter().filter(|(other, entry)| !entry.pinned && *other != key);
        if unpinned.clone().count() >= UNPINNED
            && !compiled.contains_key(key)
            && let Some(oldest) = unpinned.min_by_key(|(_, entry)| entry.used).map(|(oldest, _)| oldest.clone())
        {
            compiled.remove(&oldest);
        }
        let entry = compiled.entry(key.clone()).or_default();
        entry.pinned |= pin;
        entry.used = used;
        entry.slot.clone()
    }

    fn compiled(&self, key: &Key, network: &Network) -> Result<Arc<Compiled>> {
        let slot = self.slot(key, false);
        let mut slot = locked(&slot);
        if let Some(compiled) = &*slot {
            return Ok(compiled.clone());
        }
        let (program, paths) = traced(key, network)?;
        let executable = self.backend.compile(&program, &CompileOptions::default())?;
        let weight = |path: &String| {
            let found = self.weights.get(path).cloned();
            found.ok_or_else(|| refusal!("the weights have no {path}; they belong to another model"))
        };
        let weights = paths.iter().map(weight).collect::<Result<_>>()?;
        Ok(slot.insert(Arc::new(Compiled { executable, weights })).clone())
    }

    /// Runs the program of a key over images that `fill` writes, and waits for its result.
    pub fn run(&self, key: &Key, network: &Network, fill: impl FnOnce(&mut [u8])) -> Result<HostTensor> {
        let compiled = self.compiled(key, network)?;
        let len = key.input.bytes();
        let mut block = self.staged(len);
        let Some(bytes) = Arc::get_mut(&mut block) else { unreachable!("staged blocks have no other handle") };
        fill(bytes);
        let images = HostTensor::from_bytes(key.input.clone(), Bytes::new(Staged(block.clone())))?;
        let mut inputs = compiled.weights.clone();
        inputs.push(self.backend.upload(&images, &Mesh::single(), &Sharding::REPLICATED)?);
        let outputs = compiled.executable.execute(&inputs)?;
        let Some(output) = outputs.first() else { unreachable!("a prediction has one output") };
        let result = output.to_host()?;
        let mut staging = locked(&self.staging);
        if staging.len() < STAGED {
            staging.push(block);
        }
        Ok(result)
    }

    /// A block of that length that nothing else reads: one of an earlier run, or a new one.
    fn staged(&self, len: usize) -> Arc<AlignedBytes> {
        let mut staging = locked(&self.staging);
        // A device may hold the input of a run for a moment after its result is there.
        let free = staging.iter_mut().position(|block| block.len() == len && Arc::get_mut(block).is_some());
        match free {
            Some(index) => staging.swap_remove(index),
            None => Arc::new(AlignedBytes::zeroed(len)),
        }
    }
}

/// The program of a key, and the paths of its weights in the order of its inputs.
pub(crate) fn traced(key: &Key, network: &Network) -> Result<(Program, Vec<String>)> {
    let &[batch, height, width, channels] = key.input.dims() else {
        return Err(refusal!("{} are no images", key.input));
    };
    if key.layer == Layer::Prediction && key.input.dtype() == DType::U8 {
        let task = network.task([height, width, channels])?;
        let step = StepOptions { batch_size: batch, ..network.recipe.step.clone() };
        let plan = StepPlan { step, int8: network.int8.clone(), ..StepPlan::new(task, batch) };
        let traced = step::prediction(&plan)?;
        return Ok((traced.program, traced.variables.into_iter().map(|spec| spec.path).collect()));
    }
    let (model, precision) = (network.model()?, network.recipe.step.precision);
    let trace = Trace::new();
    let images = trace.input("images", key.input.clone());
    let context = Context::new(&trace, Mode::Evaluate, precision);
    let scope = context.root();
    // Bytes are images of files; numbers are normalized already.
    let normalize = match (key.input.dtype(), network.recipe.normalize) {
        (DType::U8, NormalizationMode::Model) => normalize_of(&network.entry()?.preprocessing),
        _ => None,
    };
    let normal = normalized(&images, &normalize).convert(precision.dtype());
    // Traced beside the whole network, which declares all variables in their usual order.
    let output = || match network.warm_up {
        true => model.outputs(&scope, &normal, true).swap_remove(0),
        false => model.forward(&scope, &normal),
    };
    let result = match key.layer {
        Layer::Output => output(),
        Layer::Map => (output(), model.features(&scope, &normal)).1,
        Layer::Pooled => (output(), model.pool(&scope, &model.features(&scope, &normal))).1,
        // A detector's own output is numbers per cell of its feature maps; corners and scores are what others can read.
        Layer::Prediction => {
            let recipe = Recipe { normalize: NormalizationMode::None, ..network.recipe.clone() };
            let task = octant_recipe::task(&recipe, network.outputs, [height, width, channels], network.warm_up)?;
            task.predict(&context, &images)
        }
    };
    let variables = context.variables();
    let paths: Vec<String> = variables.iter().map(|variable| variable.spec.path.clone()).collect();
    let graph = trace.finish(&[result.convert(DType::F32)])?;
    // The trace declared the images first; programs here read them last.
    let order: Vec<usize> = (1..graph.inputs().len()).chain([0]).collect();
    let graph = graph.with_inputs_ordered(&order);
    let graph = match &network.int8 {
        Some(ranges) => quantized(&graph, &[paths.len()], ranges)?,
        None => graph,
    };
    Ok((Program::new("prediction", graph), paths))
}
