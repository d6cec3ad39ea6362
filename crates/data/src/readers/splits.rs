//! The splits of a data set, together.

use super::{Split, open};
use crate::decode::DecodeOptions;
use crate::{DataError, Dataset, Joined};
use std::path::Path;
use std::sync::Arc;

/// A split with its name.
pub type NamedSplit = (&'static str, Arc<dyn Dataset>);

/// The training split, the test split, or both where they are there. A data set without splits is one, called "all".
pub fn open_splits(path: &Path, wanted: &[Split], options: DecodeOptions) -> Result<Vec<NamedSplit>, DataError> {
    if !path.exists() {
        let sentence = format!("there is no {}; give the folder or file of a data set", path.display());
        return Err(DataError::Request(sentence));
    }
    let split = |split| open(path, split, options);
    if let [one] = wanted {
        return Ok(vec![(if *one == Split::Train { "train" } else { "test" }, split(*one)?)]);
    }
    let train = match (split(Split::Train), split(Split::Val)) {
        (Ok(train), _) => train,
        // A part that is there but does not fit together is not a missing one.
        (Err(error @ DataError::Mismatch { .. }), _) | (Err(error), Err(_)) => return Err(error),
        // Data that is only to be evaluated has no part to learn from.
        (Err(_), Ok(test)) => return Ok(vec![("test", test)]),
    };
    Ok(match split(Split::Val) {
        Ok(test) if is_same(&*train, &*test) => vec![("all", train)],
        Ok(test) => vec![("train", train), ("test", test)],
        // A missing half is fine; a half that is there but does not fit is not.
        Err(error @ DataError::Mismatch { .. }) => return Err(error),
        Err(_) => vec![("train", train)],
    })
}

/// All splits as one data set.
pub fn join_splits(splits: &[NamedSplit]) -> Joined {
    Joined::new(splits.iter().map(|(_, dataset)| dataset.clone()).collect())
}

/// Layouts without splits give the same samples whichever is requested.
fn is_same(first: &dyn Dataset, second: &dyn Dataset) -> bool {
    first.len() == second.len() && (0..first.len()).all(|index| first.location(index) == second.location(index))
}
