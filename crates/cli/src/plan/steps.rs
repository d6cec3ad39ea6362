//! The programs that training the recipe would compile, for any batch and board.

use super::Arguments;
use crate::prepare::{self, Facts};
use crate::recipes::Recipe;
use anyhow::{Context, Result, bail};
use octant_data::Pipeline;
use octant_runtime::{Mesh, Program};
use octant_train::step::{self, StepPlan};
use octant_train::{Phase, Rules};

/// Images of an epoch where nobody knows.
const IMAGES: usize = 50_000;

/// The recipe's phases, and what their steps have in common.
pub(super) struct Steps {
    phases: Vec<Phase>,
    rules: Rules,
    /// Images of an epoch.
    pub images: usize,
}

impl Steps {
    /// On the data where it is at hand, otherwise on images and classes as far as the recipe and the model tell them.
    pub fn new(arguments: &Arguments, recipe: &Recipe, devices: usize) -> Result<Steps> {
        let is_at_hand = recipe.data.dir.is_some() || recipe.data.is_made_up();
        if arguments.save.is_some() && !is_at_hand {
            bail!("--save needs --data DIR: programs depend on the size of the images and the number of classes");
        }
        let (phases, samples) = match is_at_hand {
            true => {
                let data = prepare::data(recipe, &[])?;
                (prepare::phases(recipe, &data, recipe.steps_per_epoch)?, data.train.len())
            }
            false => (guessed(recipe)?, IMAGES),
        };
        let rules = prepare::rules(recipe, Mesh::new(devices))?;
        Ok(Steps { phases, rules, images: arguments.images.unwrap_or(samples) })
    }

    /// The learning step of the phase that lasts longest.
    pub fn training(&self, batch: usize) -> Result<Program> {
        self.of_longest(batch, |plan| Ok(step::training(plan)?.program))
    }

    /// Its counting step.
    pub fn evaluation(&self, batch: usize) -> Result<Program> {
        self.of_longest(batch, |plan| Ok(step::evaluation(plan)?.program))
    }

    /// Both steps of every phase.
    pub fn all(&self, batch: usize) -> Result<Vec<Program>> {
        let both = |phase: &Phase| {
            let programs = |plan: &StepPlan| Ok([step::training(plan)?.program, step::evaluation(plan)?.program]);
            Ok(phase.with_step(&self.rules(batch), programs)?)
        };
        Ok(self.phases.iter().map(both).collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
    }

    fn of_longest(
        &self,
        batch: usize,
        program: impl FnOnce(&StepPlan) -> Result<Program, octant_train::TrainError>,
    ) -> Result<Program> {
        let longest = self.phases.iter().max_by_key(|phase| phase.epochs).context("the recipe has no phases")?;
        Ok(longest.with_step(&self.rules(batch), |plan| program(plan))?)
    }

    fn rules(&self, batch_size: usize) -> Rules {
        Rules { batch_size, ..self.rules.clone() }
    }
}

/// The phases on images of the size that the recipe or the model names.
fn guessed(recipe: &Recipe) -> Result<Vec<Phase>> {
    let entry = octant_zoo::find(&recipe.model)?;
    let [height, width, channels] = entry.preprocessing.input;
    let wanted = recipe.crop_size.or(recipe.image_size);
    let size = wanted.map_or([height, width, channels], |side| [side, side, channels]);
    let image = |_: &Pipeline| Ok(size);
    prepare::phases_on(recipe, &Facts { samples: IMAGES, outputs: entry.classes, image: &image }, None)
}
