//! What is measured: a model under the usual settings of its kind, or the step of a recipe as it is.

use super::Arguments;
use crate::recipes::Recipe;
use crate::{plan, recipes};
use anyhow::{Context, Result};
use octant_nn::Optimizer;
use octant_nn::optimizer::Sgd;
use octant_train::PhaseOptions;
use octant_train::options::Options;
use octant_zoo::ModelEntry;
use toml::{Table, Value};

/// A step to be measured.
pub(super) struct Subject {
    /// What was asked for: a model or a recipe.
    pub name: String,
    /// Its model.
    pub entry: &'static ModelEntry,
    /// The recipe, with what the command line says of steps.
    pub recipe: Recipe,
    /// How parameters learn.
    pub phase: PhaseOptions,
    /// Images per step.
    pub batch_size: usize,
    /// Height and width of images.
    pub size: usize,
}

/// Images per step of a model, where nobody says.
const BATCH: usize = 32;

impl Subject {
    /// The model of that name; otherwise the recipe.
    pub fn named(name: &str, arguments: &Arguments) -> Result<Subject> {
        let unknown = match octant_zoo::find(name) {
            Ok(entry) => return Subject::of_model(entry, arguments),
            Err(unknown) => unknown,
        };
        match recipes::table(name) {
            Ok(table) => Subject::of_recipe(name, table, arguments),
            Err(error) if name.ends_with(".toml") => Err(error.into()),
            Err(_) => Err(unknown).context(format!("\"{name}\" is neither a model nor a recipe")),
        }
    }

    /// A phase in which everything is as usual, so that peers can do the same work.
    fn of_model(entry: &'static ModelEntry, arguments: &Arguments) -> Result<Subject> {
        let recipe = Recipe { label_smoothing: 0.0, ..recipe_of(entry)? };
        let phase = Table::from_iter([
            ("epochs".to_string(), Value::Integer(1)),
            ("schedule".to_string(), Value::Table(Table::from_iter([("lr".to_string(), Value::Float(1e-3))]))),
        ]);
        let mut table = recipe.to_table();
        recipes::set(&mut table, "phases", Value::Array(vec![Value::Table(phase)]))?;
        arguments.flags.apply(&mut table)?;
        let given = recipes::check(table)?;
        let usual = longest_phase(&recipe).map_or("sgd", |phase| phase.optimizer.name());
        let optimizer = optimizer(arguments.optimizer.as_deref().unwrap_or(usual))?;
        let phase = PhaseOptions { optimizer, ..given.phases[0].options.clone() };
        let size = arguments.size.unwrap_or(entry.preprocessing.input[0]);
        let batch_size = arguments.batch_size.unwrap_or(BATCH);
        Ok(Subject { name: entry.name.into(), entry, recipe: given, phase, batch_size, size })
    }

    /// The recipe's own batch, sizes and longest phase.
    fn of_recipe(name: &str, mut table: Table, arguments: &Arguments) -> Result<Subject> {
        arguments.flags.apply(&mut table)?;
        let recipe = recipes::check(table)?;
        let entry = octant_zoo::find(&recipe.model)?;
        let mut phase = longest_phase(&recipe).context("the recipe has no phase")?.clone();
        if let Some(name) = &arguments.optimizer {
            phase.optimizer = optimizer(name)?;
        }
        let size = arguments.size.or(recipe.crop_size).or(recipe.image_size).unwrap_or(entry.preprocessing.input[0]);
        let batch_size = arguments.batch_size.unwrap_or(recipe.step.batch_size);
        Ok(Subject { name: name.into(), entry, phase, batch_size, size, recipe })
    }

    /// How many classes, channels or numbers the network has; models without a head of their own get one.
    pub fn classes(&self) -> usize {
        self.recipe.classes.unwrap_or_else(|| classes(self.entry))
    }
}

fn classes(entry: &ModelEntry) -> usize {
    const WITHOUT_HEAD: usize = 1000;
    if entry.classes == 0 { WITHOUT_HEAD } else { entry.classes }
}

/// The recipe that trains this very model, or one that trains its kind.
fn recipe_of(entry: &ModelEntry) -> Result<Recipe> {
    match recipes::built_in().find(|recipe| recipe.model == entry.name) {
        Some(recipe) => Ok(Recipe { classes: Some(classes(entry)), ..recipe }),
        None => plan::recipe_for(entry),
    }
}

fn longest_phase(recipe: &Recipe) -> Option<&PhaseOptions> {
    recipe.phases.iter().max_by_key(|phase| phase.epochs).map(|phase| &phase.options)
}

/// The optimizer of that name in its usual settings.
fn optimizer(name: &str) -> Result<Optimizer> {
    let found = Optimizer::named(name);
    let names = Optimizer::NAMES.join(", ");
    Ok(match found.with_context(|| format!("there is no optimizer \"{name}\"; there are {names}"))? {
        Optimizer::Sgd(sgd) => Optimizer::Sgd(Sgd { momentum: 0.9, ..sgd }),
        other => other,
    })
}
