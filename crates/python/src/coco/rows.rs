//! The rows of annotation and result files of COCO: from a file, from its dictionaries, or from columns as arrays.

use super::Compared;
use super::node::Node;
use super::shape::{Shape, whole_size};
use crate::array::View;
use crate::error::refused;
use octant_metrics::boxes::Rectangle;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};
use serde_json::Value;
use std::path::PathBuf;

const BOX: &str = "bbox";
const COLUMNS: [&str; 11] = [
    "image_id",
    "category_id",
    BOX,
    "score",
    "area",
    "iscrowd",
    "segmentation",
    "keypoints",
    "num_keypoints",
    "images",
    "categories",
];

/// One row: an object or a prediction.
pub(super) struct Row {
    pub number: usize,
    pub image: i64,
    pub category: i64,
    pub rectangle: Option<Rectangle>,
    pub score: f64,
    pub area: Option<f64>,
    pub crowd: bool,
    pub shape: Shape,
}

/// An image that is listed, with its height and width where they are known.
#[derive(Clone, Copy)]
pub(super) struct ListedImage {
    pub id: i64,
    pub size: Option<[usize; 2]>,
}

/// The rows of one side, and the images and categories that it lists.
pub(super) struct Rows {
    /// What errors call it.
    pub what: String,
    pub rows: Vec<Row>,
    pub images: Option<Vec<ListedImage>>,
    pub categories: Option<Vec<i64>>,
}

/// How one side is read.
#[derive(Clone, Copy)]
pub(super) struct Reading<'a> {
    pub what: &'a str,
    pub compared: Compared,
    /// Predictions have scores.
    pub scored: bool,
}

impl Reading<'_> {
    fn wrong(&self, number: usize, fault: &str) -> PyErr {
        refused(format!("row {number} of {}: {fault}", self.what))
    }

    fn row(&self, number: usize, row: &impl Node) -> PyResult<Row> {
        if !row.is_dictionary() {
            return Err(self.wrong(number, "it is no dictionary"));
        }
        let of_row = || -> Result<Row, String> {
            let whole = |key: &str| {
                let value = row.get(key).ok_or_else(|| format!("it lacks `{key}`"))?;
                value.integer().ok_or_else(|| format!("its `{key}` is no whole number"))
            };
            let number_of = |key: &str| {
                let value = row.get(key);
                value.map(|value| value.float().ok_or_else(|| format!("its `{key}` is no number"))).transpose()
            };
            let sides =
                row.get(BOX).map(|sides| sides.floats().ok_or("its `bbox` is no list of numbers")).transpose()?;
            Ok(Row {
                number,
                rectangle: self.rectangle(sides.as_deref().unwrap_or_default())?,
                image: whole("image_id")?,
                category: whole("category_id")?,
                score: match number_of("score")? {
                    None if self.scored => return Err("it lacks `score`".to_string()),
                    score => score.unwrap_or(0.0),
                },
                area: number_of("area")?,
                crowd: row.get("iscrowd").is_some_and(|crowd| crowd.is_true()),
                shape: Shape::of(row, self.compared)?,
            })
        };
        of_row().map_err(|fault| self.wrong(number, &fault))
    }

    /// The box of a row; an empty list is none.
    fn rectangle(&self, sides: &[f64]) -> Result<Option<Rectangle>, String> {
        match *sides {
            [] if self.compared == Compared::Boxes => Err("it lacks `bbox`".to_string()),
            [] => Ok(None),
            [x, y, width, height] => Ok(Some(Rectangle { x, y, width, height })),
            _ => Err(format!("its `bbox` has {} numbers; it is x, y, width and height", sides.len())),
        }
    }

    /// A file's content, or a list of rows.
    fn file<N: Node>(&self, content: &N) -> PyResult<Rows> {
        let list = content.list().or_else(|| content.get("annotations")?.list());
        let list =
            list.ok_or_else(|| refused(format!("{} has neither `annotations` nor a list of rows", self.what)))?;
        let rows = list.iter().enumerate().map(|(number, row)| self.row(number, row)).collect::<PyResult<_>>()?;
        let what = self.what.to_string();
        Ok(Rows { what, rows, images: self.images(content)?, categories: self.categories(content)? })
    }

    fn images<N: Node>(&self, content: &N) -> PyResult<Option<Vec<ListedImage>>> {
        let Some(images) = content.get("images") else { return Ok(None) };
        if let Some(ids) = ids(&images) {
            return Ok(Some(ids.into_iter().map(|id| ListedImage { id, size: None }).collect()));
        }
        let wrong = || refused(format!("an entry of `images` of {} has no whole `id`", self.what));
        let listed = images.list().ok_or_else(wrong)?;
        let image = |image: &N| {
            let side = |key: &str| image.get(key)?.float();
            let size = side("height").zip(side("width")).and_then(|(height, width)| whole_size(&[height, width]));
            Some(ListedImage { id: image.get("id")?.integer()?, size })
        };
        listed.iter().map(|entry| image(entry).ok_or_else(wrong)).collect::<PyResult<_>>().map(Some)
    }

    fn categories(&self, content: &impl Node) -> PyResult<Option<Vec<i64>>> {
        let Some(categories) = content.get("categories") else { return Ok(None) };
        if let Some(ids) = ids(&categories) {
            return Ok(Some(ids));
        }
        let listed = categories.list().unwrap_or_default();
        let ids: Option<Vec<i64>> = listed.iter().map(|entry| entry.get("id")?.integer()).collect();
        let ids = ids.filter(|ids| !ids.is_empty());
        ids.ok_or_else(|| refused(format!("an entry of `categories` of {} has no whole `id`", self.what))).map(Some)
    }

    /// Columns as arrays: `image_id`, `category_id` and what else COCO's files have.
    fn columns(&self, columns: &Bound<PyDict>) -> PyResult<Rows> {
        let what = self.what;
        for name in columns.keys() {
            let name: String = name.extract()?;
            if !COLUMNS.contains(&name.as_str()) {
                return Err(refused(match octant_recipe::nearest(&name, COLUMNS.into_iter()) {
                    Some(near) => format!("{what} has no column `{name}`; did you mean `{near}`?"),
                    None => format!("{what} has no column `{name}`; there are {}", COLUMNS.join(", ")),
                }));
            }
        }
        let column = |name: &str| -> PyResult<Option<(Vec<f64>, Vec<usize>)>> {
            let Some(column) = columns.get_item(name)? else { return Ok(None) };
            let view = View::required(&column, &format!("`{name}` of {what}"))?;
            Ok(Some((view.numbers()?, view.shape().to_vec())))
        };
        let lacking = |name: &str| refused(format!("{what} lacks the column `{name}`"));
        let needed = |name: &str| column(name)?.ok_or_else(|| lacking(name));
        let ((images, _), (categories, _)) = (needed("image_id")?, needed("category_id")?);
        let boxes = if self.compared == Compared::Boxes { Some(needed(BOX)?) } else { column(BOX)? };
        let count = images.len();
        if categories.len() != count || boxes.as_ref().is_some_and(|(_, shape)| *shape != [count, 4]) {
            let shape = boxes.map(|(_, shape)| shape).unwrap_or_default();
            return Err(refused(format!(
                "`bbox` of {what} has shape {shape:?} for {count} images and {} categories; it is a row of x, y, width and height per box",
                categories.len()
            )));
        }
        let of_length = |name: &str, length: usize| match length == count {
            true => Ok(()),
            false => Err(refused(format!("`{name}` of {what} has {length} values for {count} rows"))),
        };
        let optional = |name: &str| -> PyResult<Option<Vec<f64>>> {
            let Some((values, _)) = column(name)? else { return Ok(None) };
            of_length(name, values.len()).map(|()| Some(values))
        };
        let (scores, areas, crowds) = (optional("score")?, optional("area")?, optional("iscrowd")?);
        if self.scored && scores.is_none() {
            return Err(lacking("score"));
        }
        let shapes: Vec<Shape> = match self.compared {
            Compared::Boxes => (0..count).map(|_| Shape::Box).collect(),
            Compared::Masks => {
                let listed = columns.get_item("segmentation")?.ok_or_else(|| lacking("segmentation"))?.list();
                let listed = listed.ok_or_else(|| refused(format!("`segmentation` of {what} is no list of masks")))?;
                of_length("segmentation", listed.len())?;
                let shape = |(number, item)| Shape::of_segmentation(item).map_err(|fault| self.wrong(number, &fault));
                listed.iter().enumerate().map(shape).collect::<PyResult<_>>()?
            }
            Compared::Keypoints => {
                let ((points, shape), known) = (needed("keypoints")?, optional("num_keypoints")?);
                of_length("keypoints", shape.first().copied().unwrap_or_default())?;
                let width = points.len().checked_div(count).unwrap_or_default();
                let of_row = |number: usize| {
                    let known = known.as_ref().map(|known| known[number] as i64);
                    let points = &points[number * width..][..width];
                    Shape::of_keypoints(points, known).map_err(|fault| self.wrong(number, &fault))
                };
                (0..count).map(of_row).collect::<PyResult<_>>()?
            }
        };
        let at = |values: &Option<Vec<f64>>, index: usize| values.as_ref().map(|values| values[index]);
        let row = |(number, shape): (usize, Shape)| {
            let sides = boxes.as_ref().map_or(&[][..], |(sides, _)| &sides[4 * number..][..4]);
            Ok(Row {
                number,
                image: images[number] as i64,
                category: categories[number] as i64,
                rectangle: self.rectangle(sides).map_err(|fault| self.wrong(number, &fault))?,
                score: at(&scores, number).unwrap_or(0.0),
                area: at(&areas, number),
                crowd: at(&crowds, number).is_some_and(|crowd| crowd != 0.0),
                shape,
            })
        };
        let rows = shapes.into_iter().enumerate().map(row).collect::<PyResult<_>>()?;
        let content = columns.as_any();
        Ok(Rows { what: what.to_string(), rows, images: self.images(content)?, categories: self.categories(content)? })
    }

    /// Whatever the caller has.
    pub fn rows(&self, object: &Bound<PyAny>) -> PyResult<Rows> {
        if let Ok(dict) = object.cast::<PyDict>() {
            return if dict.contains("annotations")? { self.file(object) } else { self.columns(dict) };
        }
        if object.is_instance_of::<PyList>() {
            return self.file(object);
        }
        let path: PathBuf = object.extract().map_err(|_| {
            let kind = if object.is_instance_of::<PyString>() { "text" } else { "object" };
            refused(format!(
                "{} is a file of COCO, its dictionary, a list of its rows, or columns as arrays, not this {kind}",
                self.what
            ))
        })?;
        object.py().detach(|| {
            let named = |error: &dyn std::fmt::Display| refused(format!("cannot read {}: {error}", path.display()));
            let text = std::fs::read(&path).map_err(|error| named(&error))?;
            let value: Value = serde_json::from_slice(&text).map_err(|error| named(&error))?;
            Reading { what: &path.display().to_string(), ..*self }.file(&&value)
        })
    }
}

/// Numbers of images or categories as an array or a list.
fn ids(listed: &impl Node) -> Option<Vec<i64>> {
    let numbers = listed.floats()?;
    numbers.into_iter().map(|number| (number.fract() == 0.0).then_some(number as i64)).collect()
}
