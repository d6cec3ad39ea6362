//! Files that predictions leave: drawings, masks, images, label files and COCO results.

use crate::error::{PredictError, Result, io};
use crate::prediction::{Boxes, csv_field, detail_json};
use crate::{Output, Prediction};
use octant_data::detection::{CocoIds, category_id, image_ids};
use octant_data::{ObjectDetail, write_png_indexed, write_png_u8};
use octant_imaging::Image;
use octant_metrics::boxes::{PredictedBox, Rectangle};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Predictions as a table of comma-separated values: a line of names, then the lines of every prediction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultTable {
    top: usize,
    has_names: bool,
}

impl ResultTable {
    /// A table with the `top` likeliest classes of every image.
    pub fn new(top: usize) -> ResultTable {
        ResultTable { top, has_names: false }
    }

    /// The lines of a prediction, with the files that belong to it.
    pub fn lines(&mut self, prediction: &Prediction, written: &[Written]) -> Vec<String> {
        // Boxes have many rows per image; other files belong to the row.
        let files: Vec<&Written> = written.iter().filter(|(key, _)| *key != "drawn").collect();
        let joined = |text: String, more: &dyn Fn(&Written) -> String| {
            files.iter().fold(text, |text, file| format!("{text},{}", more(file)))
        };
        let names = !std::mem::replace(&mut self.has_names, true);
        let names = names.then(|| joined(prediction.csv_header(), &|(key, _)| key.to_string()));
        let rows = prediction.csv_rows(self.top).into_iter();
        names.into_iter().chain(rows.map(|row| joined(row, &|(_, path)| csv_field(path.display())))).collect()
    }
}

/// A file that was written, with the key that it has in JSON and in tables.
pub type Written = (&'static str, PathBuf);

/// Writes what belongs to predictions into a folder.
pub struct ResultWriter {
    folder: PathBuf,
    labels: bool,
    coco: Option<CocoResults>,
}

impl ResultWriter {
    /// Writes into that folder, which is made when there is something to write.
    pub fn new(folder: impl Into<PathBuf>) -> ResultWriter {
        ResultWriter { folder: folder.into(), labels: false, coco: None }
    }

    /// Detectors: also writes label files into `labels/`.
    pub fn with_labels(self, labels: bool) -> ResultWriter {
        ResultWriter { labels, ..self }
    }

    /// Detectors: also collects a COCO results file of these images.
    pub fn with_coco(self, results: Option<CocoResults>) -> ResultWriter {
        ResultWriter { coco: results, ..self }
    }

    /// Where a file of that name goes; its folder is made.
    pub(crate) fn file(&self, name: &Path, ending: &str) -> Result<PathBuf> {
        let path = self.folder.join(format!("{}.{ending}", name.display()));
        let folder = path.parent().unwrap_or(&self.folder);
        std::fs::create_dir_all(folder).map_err(io("write to", folder))?;
        Ok(path)
    }

    /// Writes the files of one prediction under `name`, a path without an ending. `drawn` is where boxes were drawn already, as
    /// the frames of a video are.
    pub fn write(
        &mut self,
        prediction: &Prediction,
        image: &Image<u8>,
        name: &Path,
        drawn: Option<&Path>,
    ) -> Result<Vec<Written>> {
        let png = |name: &Path, image: &Image<u8>| -> Result<PathBuf> {
            let path = self.file(name, "png")?;
            write_png_u8(&path, image)?;
            Ok(path)
        };
        match &prediction.output {
            Output::Boxes(boxes) => {
                let drawn = match drawn {
                    Some(path) => path.to_path_buf(),
                    None => png(name, &prediction.draw(image).unwrap_or_else(|| image.clone()))?,
                };
                if self.labels {
                    let path = self.file(&Path::new("labels").join(name), "txt")?;
                    std::fs::write(&path, boxes.label_file(prediction.size)).map_err(io("write", &path))?;
                }
                if let Some(results) = &mut self.coco {
                    results.add(prediction.path.as_deref().filter(|_| prediction.frame.is_none()), name, boxes);
                }
                Ok(vec![("drawn", drawn)])
            }
            Output::Mask(mask) => {
                let overlay = prediction.draw(image).unwrap_or_else(|| image.clone());
                let masks = match mask.is_of_one_class() {
                    true => png(&Path::new("masks").join(name), &mask.levels())?,
                    false => {
                        let path = self.file(&Path::new("masks").join(name), "png")?;
                        write_png_indexed(&path, &mask.classes)?;
                        path
                    }
                };
                Ok(vec![("mask", masks), ("overlay", png(&Path::new("overlays").join(name), &overlay)?)])
            }
            Output::Image(made) => Ok(vec![("made", png(name, made)?)]),
            Output::Classes(_) | Output::Labels(_) | Output::Values(_) => Ok(Vec::new()),
        }
    }

    /// Writes what was collected over all predictions.
    pub fn finish(self) -> Result<()> {
        self.coco.map_or(Ok(()), |results| results.finish())
    }
}

/// The entries of a COCO results file.
pub struct CocoResults {
    path: PathBuf,
    ids: HashMap<PathBuf, u64>,
    /// The number that an image without one gets.
    next: u64,
    categories: Vec<(u64, String)>,
    entries: Vec<Value>,
}

impl CocoResults {
    /// Results for these images. Their numbers are those of the annotation file beside them, where there is one, else those
    /// that `octant data convert --to coco` would give them.
    pub fn of_images(path: &Path, images: &[PathBuf]) -> CocoResults {
        match CocoIds::beside(images) {
            Some(annotations) => {
                let ids = images.iter().filter_map(|image| Some((image.clone(), annotations.image(image)?)));
                CocoResults::new(path, ids.collect(), annotations.categories)
            }
            None => CocoResults::new(path, images.iter().cloned().zip(image_ids(images)).collect(), Vec::new()),
        }
    }

    fn new(path: &Path, ids: HashMap<PathBuf, u64>, categories: Vec<(u64, String)>) -> CocoResults {
        let next = ids.values().max().map_or(1, |most| most + 1);
        CocoResults { path: path.into(), ids, next, categories, entries: Vec::new() }
    }

    fn add(&mut self, path: Option<&Path>, name: &Path, boxes: &Boxes) {
        let known = path.and_then(|path| self.ids.get(path).copied());
        let id = known.unwrap_or(self.next);
        self.next = self.next.max(id + 1);
        // A source's name has no ending; a frame of a video has no path of its own.
        let file = path.unwrap_or(name).file_name().unwrap_or_default().to_string_lossy().into_owned();
        let entry = |(number, found): (usize, &PredictedBox)| {
            let detail = boxes.evaluated_details.get(number);
            coco_entry(id, &file, found, detail, boxes.names.all(), &self.categories)
        };
        self.entries.extend(boxes.evaluated.iter().enumerate().map(entry));
    }

    fn finish(self) -> Result<()> {
        write_entries(&self.path, &self.entries)
    }
}

/// One entry of a COCO results file.
pub(crate) fn coco_entry(
    image_id: u64,
    file: &str,
    found: &PredictedBox,
    detail: Option<&ObjectDetail>,
    names: &[String],
    categories: &[(u64, String)],
) -> Value {
    let Rectangle { x, y, width, height } = found.rectangle;
    let mut entry = json!({
        "image_id": image_id, "file_name": file, "category_id": category_id(found.class, names, categories),
        "bbox": [x, y, width, height], "score": found.score,
    });
    if let Some((key, value)) = detail.and_then(detail_json) {
        entry[key] = value;
    }
    entry
}

/// Writes a COCO results file.
pub(crate) fn write_entries(path: &Path, entries: &[Value]) -> Result<()> {
    let text = serde_json::to_string(entries).map_err(|error| PredictError::Refused(error.to_string()))?;
    std::fs::write(path, text).map_err(io("write", path))
}
