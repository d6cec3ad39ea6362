//! The programs that training the recipe would compile, for any batch and board, and how they are kept for that board.

use crate::epoch::EpochImages;
use crate::error::refuse;
use crate::{PlanError, PlanRequest, Result};
use octant_data::Pipeline;
use octant_pjrt::Topology;
use octant_pjrt::backend::{self, Planned};
use octant_pjrt::cache::{ExecutableCache, Key, Lookup};
use octant_recipe::{Facts, Recipe, SourceEntry, Surroundings};
use octant_runtime::{Mesh, Program};
use octant_train::Phase;
use octant_train::step::{self, StepOptions, StepPlan};
use std::cell::OnceCell;
use std::collections::HashSet;
use std::path::Path;
use std::rc::Rc;

/// The phases at a batch size, which `update_images`, rates and the lengths of schedules follow.
type PhasesOf = Rc<dyn Fn(usize) -> Result<Vec<Phase>>>;

/// The recipe's phases, and what their steps have in common.
pub(crate) struct Steps {
    phases: PhasesOf,
    /// By how much the batch of the run is larger than that of the programs.
    devices_apart: usize,
    step: StepOptions,
    mesh: Mesh,
    /// Images of an epoch.
    pub images: EpochImages,
    /// How many forms a step has, and the largest of them.
    largest_form: OnceCell<(usize, usize)>,
}

impl Steps {
    /// On the data where it is at hand, otherwise on images and classes as far as the recipe and the model define them.
    pub fn new(request: &PlanRequest, devices: usize, surroundings: &dyn Surroundings) -> Result<Steps> {
        let recipe = &request.recipe;
        let is_at_hand = is_at_hand(recipe)?;
        if request.store.is_some() && !is_at_hand {
            refuse!(
                "programs depend on the size of the images and the number of classes: to store them, name the data (--data DIR)"
            );
        }
        let classes = recipe.classes.unwrap_or(octant_zoo::find(&recipe.model)?.classes);
        let images = |counted: Option<usize>| EpochImages::of(request.images, recipe, classes, counted);
        let of_batch = {
            let recipe = recipe.clone();
            move |batch_size: usize| Recipe {
                step: StepOptions { batch_size, ..recipe.step.clone() },
                ..recipe.clone()
            }
        };
        let (phases, images): (PhasesOf, _) = match is_at_hand {
            true => {
                let data = octant_recipe::data(recipe, &[], surroundings)?;
                let images = images(Some(data.train.len()));
                let settled = move |batch| {
                    let mut recipe = of_batch(batch);
                    octant_recipe::settle_keypoints(&mut recipe, &*data.train);
                    Ok(octant_recipe::phases(&recipe, &data)?)
                };
                (Rc::new(settled), images)
            }
            false => {
                let images = images(None);
                let count = images.count;
                (Rc::new(move |batch| guessed(&of_batch(batch), count)), images)
            }
        };
        // What is wrong with the recipe is reported before any compiler starts.
        phases(recipe.step.batch_size)?;
        Ok(Steps {
            phases,
            devices_apart: 1,
            step: recipe.step.clone(),
            mesh: octant_recipe::mesh_of(devices, &recipe.step)?.remote(),
            images,
            largest_form: OnceCell::new(),
        })
    }

    /// Bytes of the state that a device does not have, because other devices have them.
    pub fn sharded_bytes(&self) -> Result<u64> {
        let program = self.training(self.mesh.devices())?;
        let shapes = program.graph.input_shapes();
        let elsewhere = |(input, _): &(usize, usize)| -> Result<u64> {
            let shard = program.inputs[*input].shard_shape(&shapes[*input], &program.mesh)?;
            Ok((shapes[*input].bytes() - shard.bytes()) as u64)
        };
        program.donated.iter().map(elsewhere).sum()
    }

    /// The same for so many devices, which divide the step as these options say.
    pub fn divided(&self, devices: usize, step: StepOptions) -> Result<Steps> {
        let mesh = octant_recipe::mesh_of(devices, &step)?.remote();
        let (phases, images) = (self.phases.clone(), self.images.clone());
        Ok(Steps { phases, devices_apart: 1, step, mesh, images, largest_form: OnceCell::new() })
    }

    /// The same for one of several devices with its share of the batch, and of the groups that batch norms look at.
    pub fn of_one_device(self, devices: usize) -> Steps {
        let batch_groups = (self.step.batch_groups / devices).max(1);
        let step = StepOptions { batch_groups, ..self.step };
        Steps { step, mesh: Mesh::single().remote(), devices_apart: devices, ..self }
    }

    /// The training step of the phase that lasts longest, in its largest form.
    pub fn training(&self, batch: usize) -> Result<Program> {
        let plan = self.longest(batch)?;
        let forms = plan.forms();
        // The same form is the largest for every batch, unless a batch of the schedule is the batch itself: one form less.
        let largest = match self.largest_form.get() {
            Some((count, known)) if *count == forms.len() => *known,
            _ => {
                let found = step::largest_form(&plan)?;
                self.largest_form.get_or_init(|| (forms.len(), found));
                found
            }
        };
        Ok(step::training(&forms[largest])?.program)
    }

    /// Its evaluation step.
    pub fn evaluation(&self, batch: usize) -> Result<Program> {
        Ok(step::evaluation(&self.longest(batch)?)?.program)
    }

    /// Both steps of every phase, the training step in all its forms.
    pub fn all(&self, batch: usize) -> Result<Vec<Program>> {
        let mut programs = Vec::new();
        for phase in &self.phases(batch)? {
            let plan = self.plan(phase, batch);
            for form in plan.forms() {
                programs.push(step::training(&form)?.program);
            }
            programs.push(step::evaluation(&plan)?.program);
        }
        Ok(programs)
    }

    fn longest(&self, batch: usize) -> Result<StepPlan> {
        let phases = self.phases(batch)?;
        let longest = phases.iter().max_by_key(|phase| phase.epochs);
        let longest = longest.ok_or_else(|| PlanError::Refused("the recipe has no phases".into()))?;
        Ok(self.plan(longest, batch))
    }

    /// A batch that this machine could not read is planned with what follows from the recipe's own.
    fn phases(&self, batch: usize) -> Result<Vec<Phase>> {
        (self.phases)(batch * self.devices_apart).or_else(|_| (self.phases)(self.step.batch_size))
    }

    fn plan(&self, phase: &Phase, batch_size: usize) -> StepPlan {
        phase.step(&StepOptions { batch_size, ..self.step.clone() }, &self.mesh)
    }
}

/// The phases on images of the size that the recipe or the model names.
fn guessed(recipe: &Recipe, samples: usize) -> Result<Vec<Phase>> {
    let entry = octant_zoo::find(&recipe.model)?;
    let [height, width, channels] = entry.preprocessing.input;
    let wanted = recipe.crop_size.or(recipe.image_size);
    let size = wanted.map_or([height, width, channels], |side| [side, side, channels]);
    let image = |_: &Pipeline| Ok(size);
    Ok(octant_recipe::phases_on(
        recipe,
        &Facts { samples, outputs: entry.classes, image: &image, evaluated: &image, train: None },
    )?)
}

fn is_at_hand(recipe: &Recipe) -> Result<bool> {
    Ok(recipe.data.dir.is_some() || SourceEntry::named(&recipe.data.kind)?.is_synthetic())
}

/// A sentence for every key of the recipe that changes nothing where at most so many devices work together. Sizes that no
/// transform reads are refused.
pub(crate) fn ineffective(recipe: &Recipe, devices: usize, surroundings: &dyn Surroundings) -> Result<Vec<String>> {
    octant_recipe::refuse_ignored_sizes(recipe)?;
    if !is_at_hand(recipe)? {
        return octant_recipe::ineffective(recipe, devices, |recipe| guessed(recipe, recipe.step.batch_size));
    }
    let data = octant_recipe::data(recipe, &[], surroundings)?;
    let mut recipe = recipe.clone();
    octant_recipe::settle_keypoints(&mut recipe, &*data.train);
    octant_recipe::ineffective(&recipe, devices, |recipe| Ok(octant_recipe::phases(recipe, &data)?))
}

/// Stores every program that a run on the board will compile, under the key that it will look up, and returns how many there
/// are. Those that were `made` already are not compiled again.
pub(crate) fn keep_programs(
    folder: &Path,
    steps: &Steps,
    batch: usize,
    topology: &Topology,
    made: &[(Key, Planned)],
) -> Result<usize> {
    let cache = ExecutableCache::new(folder.join("executables"));
    let mut kept = HashSet::new();
    for program in steps.all(batch)? {
        // Phases that differ in their rates alone share their programs.
        let key = backend::key_of(topology, &program)?;
        if !kept.insert(key.clone()) || matches!(cache.look_up(&key), Lookup::Hit(_)) {
            continue;
        }
        let compiled;
        let planned = match made.iter().find(|(of, _)| *of == key) {
            Some((_, planned)) => planned,
            None => {
                compiled = backend::plan(topology, &program)?;
                &compiled
            }
        };
        let bytes = planned.executable.serialize()?;
        cache.note_time(&key, &program.name, planned.cost.compile_time);
        cache
            .store(&key, &bytes)
            .map_err(|error| PlanError::System(format!("cannot store programs in {}", folder.display()), error))?;
    }
    Ok(kept.len())
}
