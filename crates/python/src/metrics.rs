//! Metrics over arrays: distances of sets of features, curves.

use crate::array::{Array, View};
use crate::error::refused;
use octant_metrics::Roc;
use octant_metrics::features::{FeatureSet, frechet_distance as frechet, kernel_distance as kernel};
use pyo3::prelude::*;

/// Rows of features, one per image.
fn features(object: &Bound<PyAny>, what: &str) -> PyResult<FeatureSet> {
    let view = View::required(object, what)?;
    let [_, width] = view.shape()[..] else {
        return Err(refused(format!("{what} are images × features; this array has shape {:?}", view.shape())));
    };
    let values: Vec<f32> = view.numbers()?.into_iter().map(|value| value as f32).collect();
    let mut set = FeatureSet::new(width);
    object.py().detach(|| set.observe(&values));
    Ok(set)
}

fn both(a: &Bound<PyAny>, b: &Bound<PyAny>) -> PyResult<(FeatureSet, FeatureSet)> {
    let (a, b) = (features(a, "the features")?, features(b, "the features to compare with")?);
    match a.width() == b.width() && a.len() > 1 && b.len() > 1 {
        true => Ok((a, b)),
        false => Err(refused(format!(
            "both sets need at least two rows of as many features: they are {} × {} and {} × {}",
            a.len(),
            a.width(),
            b.len(),
            b.width()
        ))),
    }
}

/// The Fréchet distance of two sets of features.
#[pyfunction]
pub(crate) fn frechet_distance(py: Python, a: &Bound<PyAny>, b: &Bound<PyAny>) -> PyResult<f64> {
    let (a, b) = both(a, b)?;
    Ok(py.detach(|| frechet(&a, &b)))
}

/// The kernel distance of two sets of features.
#[pyfunction]
pub(crate) fn kernel_distance(py: Python, a: &Bound<PyAny>, b: &Bound<PyAny>) -> PyResult<f64> {
    let (a, b) = both(a, b)?;
    Ok(py.detach(|| kernel(&a, &b)))
}

/// The points of the curve (false positive rate, true positive rate), and the area below it.
#[pyfunction]
pub(crate) fn roc(py: Python, scores: &Bound<PyAny>, truth: &Bound<PyAny>) -> PyResult<(Array, f64)> {
    let scores = View::required(scores, "the scores")?.numbers()?;
    let truth = View::required(truth, "the truth")?.numbers()?;
    if scores.len() != truth.len() {
        return Err(refused(format!("there are {} scores for {} values of the truth", scores.len(), truth.len())));
    }
    py.detach(|| {
        let mut roc = Roc::default();
        scores.iter().zip(&truth).for_each(|(&score, &truth)| roc.observe(score as f32, truth != 0.0));
        let points: Vec<f64> = roc.curve().into_iter().flatten().collect();
        Ok((Array::of_vec(&[points.len() / 2, 2], points), roc.area()))
    })
}
