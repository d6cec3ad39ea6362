//! Recipes: from a TOML table to a training run.
//!
//! A [`Recipe`] is a TOML table with everything a run needs to know: the task, the model, the data, and phases with their
//! optimizers, schedules and transforms. [`table`] finds one, [`set`] and [`set_text`] override single keys, [`check`]
//! validates the table and returns a [`Recipe`]. [`data`], [`phases`] and [`task`] turn it into the parts of a run, and [`lints`] warns
//! about likely mistakes before it begins; [`plan`] combines the parts. `octant-run` does all of it.
//!
//! This crate is independent of the command line. Errors name keys of the recipe in backquotes.

mod auto;
mod data;
mod directory;
mod error;
pub mod flags;
mod ineffective;
pub mod lints;
mod of_model;
mod order;
pub mod page;
mod phases;
mod published;
mod rate;
mod readers;
mod recipe;
mod run;
mod tables;
mod task;
mod transform;
pub mod ultralytics;

pub use auto::resolve_auto;
pub use data::{
    Data, EvaluationData, LocalCopy, LocalFiles, SOURCES, SourceEntry, Surroundings, data, evaluation_data,
    settle_keypoints,
};
pub use directory::{
    Opened, Resumable, begin, checkpoint_weights, choose, class_names, config, has_trained, nearest_run, of_run,
    recipe_or_run, resumable, trained_on,
};
pub use error::{RecipeError, Result};
pub use ineffective::ineffective;
pub use octant_train::options::nearest;
pub use of_model::{of_model, of_settings, prediction_settings, resized};
pub use order::archives_text;
pub use phases::{DEFAULT_SLOTS, Facts, images_per_update, phases, phases_on, refuse_ignored_sizes, scaling, slots_of};
pub use published::{PUBLISHED_DATA, PublishedData, published_data, recipe_for, recipe_of_labels};
pub use readers::RecipeReader;
pub use recipe::{
    AugmentOptions, Auto, BadLabels, BestMode, Cache, ClassWeights, Cores, DataSource, DegradeOptions, GainOptions,
    GanOptions, NormKind, NormalizationMode, Per, PhaseRecipe, Recipe, Sampling, ScheduleKind, ScheduleRecipe,
    ValidationPart,
};
pub use run::{fix_paths, follow_weights, mesh, mesh_of, plan, precision, weights};
pub use tables::{BUILT_IN, built_in, check, set, set_text, table, table_or_model, text};
pub use task::{TASKS, TaskEntry, TaskOutput, best, model, smaller_is_better, task};
pub use transform::{Transforms, image, transform};
