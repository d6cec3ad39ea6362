//! Data that a finished network is evaluated on.

use super::{
    Open, SourceEntry, Splits, Surroundings, held_out, left_out, open_files, outputs, refuse_other_labels, splits,
};
use crate::{Recipe, Result, ValidationPart};
use octant_data::{DataError, Dataset, Matched};
use std::path::Path;
use std::sync::Arc;

/// Samples to evaluate a network on.
pub struct EvaluationData {
    /// The samples.
    pub dataset: Arc<dyn Dataset>,
    /// How many samples the data has, with those that are not evaluated on.
    pub total: usize,
    /// Classes, numbers per image, or 1 for masks of one class.
    pub outputs: usize,
    /// What the head's outputs mean: the names of classes, or of columns.
    pub classes: Vec<String>,
    /// What should be known about the data, in sentences.
    pub remarks: Vec<String>,
}

/// Opens the data of a recipe for an evaluation of a network that was trained on `trained_on` and knows the classes
/// `known`. The part for validation is evaluated on, or that for training with `on_train`. Data without such parts is
/// evaluated whole, unless the network was trained on it: then training held out a part, which is evaluated on.
pub fn evaluation_data(
    recipe: &Recipe,
    known: &[String],
    trained_on: Option<&Path>,
    on_train: bool,
    surroundings: &dyn Surroundings,
) -> Result<EvaluationData> {
    let is_own = match (trained_on, &recipe.data.dir) {
        (Some(own), Some(given)) => is_same_place(own, given),
        (None, Some(_)) => false,
        (_, None) => true,
    };
    let entry = SourceEntry::named(&recipe.data.kind)?;
    let (dataset, total) = match entry.open {
        Open::Files(open) if !is_own => match open_files(recipe, entry, open, surroundings)?.0 {
            // Figures on the test part are wanted, and on no other.
            [_, Err(error)] if recipe.data.validate_on == ValidationPart::Test => return Err(error.into()),
            [Ok(train), Ok(valid)] if held_out::is_needed(&*train, &*valid) => whole(train),
            [Ok(train), Ok(valid)] => chosen(train, valid, on_train),
            [Err(_), Ok(valid)] if !on_train => whole(valid),
            // A part that is there but does not fit together is not a missing one.
            [_, Err(error @ DataError::Mismatch { .. })] | [Err(error), _] => return Err(error.into()),
            [Ok(train), Err(_)] => whole(train),
        },
        Open::Files(_) | Open::MadeUp { .. } => {
            let Splits { train, valid, .. } = splits(recipe, surroundings)?;
            chosen(train, valid, on_train)
        }
    };
    let mut remarks: Vec<String> = left_out(recipe, &[&*dataset]).into_iter().collect();
    let classes = if known.is_empty() { dataset.class_names().to_vec() } else { known.to_vec() };
    let (dataset, remark) = Matched::by_name(dataset, &classes, "the data", "the run")?;
    remarks.extend(remark);
    let outputs = outputs(&*dataset, &classes)?;
    refuse_other_labels(recipe, &*dataset)?;
    Ok(EvaluationData { dataset, total, outputs, classes, remarks })
}

type Counted = (Arc<dyn Dataset>, usize);

fn whole(dataset: Arc<dyn Dataset>) -> Counted {
    let total = dataset.len();
    (dataset, total)
}

fn chosen(train: Arc<dyn Dataset>, valid: Arc<dyn Dataset>, on_train: bool) -> Counted {
    let total = train.len() + valid.len();
    (if on_train { train } else { valid }, total)
}

/// Whether two paths lead to the same files.
fn is_same_place(one: &Path, other: &Path) -> bool {
    let resolved = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    resolved(one) == resolved(other)
}
