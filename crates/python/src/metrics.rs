//! Metrics over arrays and COCO's files.

use crate::array::{Array, View};
use crate::error::refused;
use octant_metrics::Roc;
use octant_metrics::boxes::{BoxScores, CocoSummary, GroundTruthBox, PredictedBox, Rectangle};
use octant_metrics::features::{FeatureSet, frechet_distance as frechet, kernel_distance as kernel};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// One row of a COCO file: an object or a predicted box.
#[derive(Clone, Copy)]
struct Row {
    image: i64,
    category: i64,
    rectangle: Rectangle,
    score: f64,
    area: Option<f64>,
    crowd: bool,
}

/// The rows of one side, and the images and categories that it lists.
#[derive(Default)]
struct Rows {
    rows: Vec<Row>,
    images: Option<Vec<i64>>,
    categories: Option<Vec<i64>>,
}

const BOX: &str = "bbox";

fn row_of_json(row: &Value) -> Option<Row> {
    let sides = row.get(BOX)?.as_array()?;
    let [x, y, width, height] = sides.as_slice() else { return None };
    let rectangle = Rectangle { x: x.as_f64()?, y: y.as_f64()?, width: width.as_f64()?, height: height.as_f64()? };
    Some(Row {
        image: row.get("image_id")?.as_i64()?,
        category: row.get("category_id")?.as_i64()?,
        rectangle,
        score: row.get("score").and_then(Value::as_f64).unwrap_or(0.0),
        area: row.get("area").and_then(Value::as_f64),
        crowd: row.get("iscrowd").is_some_and(|crowd| crowd.as_i64() == Some(1) || crowd.as_bool() == Some(true)),
    })
}

impl Rows {
    fn of_json(value: &Value, what: &str) -> PyResult<Rows> {
        let ids = |key: &str| -> Option<Vec<i64>> {
            value.get(key)?.as_array()?.iter().map(|item| item.get("id")?.as_i64()).collect()
        };
        let list = value.as_array().or_else(|| value.get("annotations").and_then(Value::as_array));
        let list = list.ok_or_else(|| refused(format!("{what} has neither `annotations` nor a list of boxes")))?;
        let row = |(number, row): (usize, &Value)| {
            row_of_json(row).ok_or_else(|| {
                refused(format!("box {number} of {what} lacks `image_id`, `category_id` or a `bbox` of four numbers"))
            })
        };
        let rows = list.iter().enumerate().map(row).collect::<PyResult<_>>()?;
        Ok(Rows { rows, images: ids("images"), categories: ids("categories") })
    }

    /// Columns as arrays: `image_id`, `category_id`, `bbox` and what else COCO's files have.
    fn of_columns(columns: &Bound<PyDict>, what: &str) -> PyResult<Rows> {
        let column = |name: &str| -> PyResult<Option<(Vec<f64>, Vec<usize>)>> {
            let Some(column) = columns.get_item(name)? else { return Ok(None) };
            let view = View::required(&column, &format!("`{name}` of {what}"))?;
            Ok(Some((view.numbers()?, view.shape().to_vec())))
        };
        let needed = |name: &str| -> PyResult<(Vec<f64>, Vec<usize>)> {
            column(name)?.ok_or_else(|| refused(format!("{what} lacks the column `{name}`")))
        };
        let known = ["image_id", "category_id", BOX, "score", "area", "iscrowd", "images", "categories"];
        for name in columns.keys() {
            let name: String = name.extract()?;
            if !known.contains(&name.as_str()) {
                return Err(refused(match octant_recipe::nearest(&name, known.into_iter()) {
                    Some(near) => format!("{what} has no column `{name}`; did you mean `{near}`?"),
                    None => format!("{what} has no column `{name}`; there are {}", known.join(", ")),
                }));
            }
        }
        let ((images, _), (categories, _), (boxes, shape)) =
            (needed("image_id")?, needed("category_id")?, needed(BOX)?);
        if shape != [images.len(), 4] || categories.len() != images.len() {
            return Err(refused(format!(
                "`bbox` of {what} has shape {shape:?} for {} images and {} categories; it is a row of x, y, width and height per box",
                images.len(),
                categories.len()
            )));
        }
        let optional = |name: &str| -> PyResult<Option<Vec<f64>>> {
            let Some((values, _)) = column(name)? else { return Ok(None) };
            if values.len() != images.len() {
                return Err(refused(format!(
                    "`{name}` of {what} has {} values for {} boxes",
                    values.len(),
                    images.len()
                )));
            }
            Ok(Some(values))
        };
        let (scores, areas, crowds) = (optional("score")?, optional("area")?, optional("iscrowd")?);
        let at = |values: &Option<Vec<f64>>, index: usize| values.as_ref().map(|values| values[index]);
        let row = |index: usize| {
            let [x, y, width, height] = [0, 1, 2, 3].map(|side| boxes[4 * index + side]);
            Row {
                image: images[index] as i64,
                category: categories[index] as i64,
                rectangle: Rectangle { x, y, width, height },
                score: at(&scores, index).unwrap_or(0.0),
                area: at(&areas, index),
                crowd: at(&crowds, index).is_some_and(|crowd| crowd != 0.0),
            }
        };
        let ids = |name: &str| -> PyResult<Option<Vec<i64>>> {
            Ok(column(name)?.map(|(values, _)| values.into_iter().map(|value| value as i64).collect()))
        };
        Ok(Rows { rows: (0..images.len()).map(row).collect(), images: ids("images")?, categories: ids("categories")? })
    }

    /// A list of COCO's dictionaries.
    fn of_list(list: &Bound<PyList>, what: &str) -> PyResult<Rows> {
        let row = |(number, row): (usize, Bound<PyAny>)| -> PyResult<Row> {
            let missing = |key: &str| refused(format!("box {number} of {what} lacks `{key}`"));
            let row =
                row.cast_into::<PyDict>().map_err(|_| refused(format!("box {number} of {what} is no dictionary")))?;
            let get = |key: &str| row.get_item(key)?.ok_or_else(|| missing(key));
            let [x, y, width, height]: [f64; 4] = get(BOX)?.extract()?;
            Ok(Row {
                image: get("image_id")?.extract()?,
                category: get("category_id")?.extract()?,
                rectangle: Rectangle { x, y, width, height },
                score: row.get_item("score")?.map_or(Ok(0.0), |score| score.extract())?,
                area: row.get_item("area")?.map(|area| area.extract()).transpose()?,
                crowd: row.get_item("iscrowd")?.map_or(Ok(false), |crowd| crowd.is_truthy())?,
            })
        };
        Ok(Rows { rows: list.iter().enumerate().map(row).collect::<PyResult<_>>()?, ..Rows::default() })
    }

    fn of(object: &Bound<PyAny>, what: &str) -> PyResult<Rows> {
        if let Ok(list) = object.cast::<PyList>() {
            return Rows::of_list(list, what);
        }
        if let Ok(dict) = object.cast::<PyDict>() {
            let Some(annotations) = dict.get_item("annotations")? else { return Rows::of_columns(dict, what) };
            let list = annotations
                .cast_into::<PyList>()
                .map_err(|_| refused(format!("`annotations` of {what} is no list")))?;
            let ids = |key: &str| -> PyResult<Option<Vec<i64>>> {
                let Some(items) = dict.get_item(key)? else { return Ok(None) };
                items.try_iter()?.map(|item| item?.get_item("id")?.extract()).collect::<PyResult<_>>().map(Some)
            };
            return Ok(Rows { images: ids("images")?, categories: ids("categories")?, ..Rows::of_list(&list, what)? });
        }
        let path: PathBuf = object.extract().map_err(|_| {
            let kind = if object.is_instance_of::<PyString>() { "text" } else { "object" };
            refused(format!(
                "{what} is a file of COCO, its dictionary, a list of its boxes, or columns as arrays, not this {kind}"
            ))
        })?;
        object.py().detach(|| {
            let named = |error: &dyn std::fmt::Display| refused(format!("cannot read {}: {error}", path.display()));
            let text = std::fs::read(&path).map_err(|error| named(&error))?;
            let value: Value = serde_json::from_slice(&text).map_err(|error| named(&error))?;
            Rows::of_json(&value, &path.display().to_string())
        })
    }
}

/// Both sides by image, in the order of COCO's own evaluation: images and categories by number.
fn scores(truth: &Rows, found: &Rows) -> PyResult<(BoxScores, Vec<i64>)> {
    let sorted = |listed: &Option<Vec<i64>>, own: fn(&Row) -> i64| {
        let mut ids = listed.clone().unwrap_or_else(|| truth.rows.iter().map(own).collect());
        ids.sort_unstable();
        ids.dedup();
        ids
    };
    let categories = sorted(&truth.categories, |row| row.category);
    let images = sorted(&truth.images, |row| row.image);
    let mut by_image: BTreeMap<i64, (Vec<GroundTruthBox>, Vec<PredictedBox>)> =
        images.into_iter().map(|image| (image, Default::default())).collect();
    let unknown = |row: &Row| refused(format!("there is no image {} in the ground truth", row.image));
    for row in &truth.rows {
        let Ok(class) = categories.binary_search(&row.category) else { continue };
        let (objects, _) = by_image.get_mut(&row.image).ok_or_else(|| unknown(row))?;
        let area = row.area.unwrap_or_else(|| row.rectangle.area());
        objects.push(GroundTruthBox { class, rectangle: row.rectangle, area, crowd: row.crowd });
    }
    for row in &found.rows {
        let Ok(class) = categories.binary_search(&row.category) else { continue };
        let (_, boxes) = by_image.get_mut(&row.image).ok_or_else(|| unknown(row))?;
        boxes.push(PredictedBox { class, rectangle: row.rectangle, score: row.score });
    }
    let mut scores = BoxScores::new(categories.len());
    by_image.into_values().for_each(|(objects, boxes)| scores.observe(objects, boxes));
    Ok((scores, categories))
}

/// Figures by name, and AP by category.
type Figures<'py> = (Vec<(&'static str, f64)>, Bound<'py, PyDict>);

/// COCO's twelve figures: see `octant.metrics.coco`.
#[pyfunction]
pub(crate) fn coco<'py>(
    py: Python<'py>,
    truth: &Bound<'py, PyAny>,
    found: &Bound<'py, PyAny>,
) -> PyResult<Figures<'py>> {
    let (truth, found) = (Rows::of(truth, "the ground truth")?, Rows::of(found, "the predictions")?);
    let (summary, categories) = py.detach(|| -> PyResult<(CocoSummary, Vec<i64>)> {
        let (scores, categories) = scores(&truth, &found)?;
        Ok((scores.coco(), categories))
    })?;
    let per_class = PyDict::new(py);
    categories
        .iter()
        .zip(&summary.per_class)
        .try_for_each(|(category, figure)| per_class.set_item(category, figure))?;
    Ok((CocoSummary::NAMES.into_iter().zip(summary.figures).collect(), per_class))
}

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
