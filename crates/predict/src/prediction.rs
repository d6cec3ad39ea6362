//! What a network predicts of an image, typed by what people do with it.

mod text;

pub use text::csv_field;

use crate::draw;
use octant_data::{LabeledBox, ObjectDetail};
use octant_imaging::Image;
use octant_imaging::palette::class_color;
use octant_imaging::polygon::RotatedRectangle;
use octant_metrics::boxes::{PredictedBox, Rectangle};
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use std::sync::Arc;

/// The prediction for one image.
#[derive(Debug, Clone)]
pub struct Prediction {
    /// The file that the image came from, where it came from one.
    pub path: Option<PathBuf>,
    /// The number of the frame in a video, from 1 on.
    pub frame: Option<u64>,
    /// Height and width of the original image; boxes and masks are in its pixels.
    pub size: [usize; 2],
    /// What was predicted.
    pub output: Output,
}

/// What was predicted. Further tasks add further kinds.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Output {
    /// A probability per class.
    Classes(Classes),
    /// Any number of labels.
    Labels(Labels),
    /// Numbers.
    Values(Values),
    /// Which pixels are marked, or the class of every pixel.
    Mask(Mask),
    /// Objects with classes.
    Boxes(Boxes),
    /// An image.
    Image(Image<u8>),
}

/// The meaning of outputs by number, shared by all predictions of a network.
#[derive(Debug, Clone, Default)]
pub struct Names(Arc<[String]>);

impl Names {
    /// These names; empty where they are not known.
    pub fn new(names: Vec<String>) -> Names {
        Names(names.into())
    }

    /// The name of an output, or its number where it has none.
    pub fn of(&self, output: usize) -> String {
        self.0.get(output).cloned().unwrap_or_else(|| output.to_string())
    }

    /// All names that are known.
    pub fn all(&self) -> &[String] {
        &self.0
    }

    /// One name per column of so many values.
    pub fn columns(&self, count: usize) -> Vec<String> {
        match self.0.len() == count {
            true => self.0.to_vec(),
            false => (1..=count).map(|number| format!("value_{number}")).collect(),
        }
    }
}

/// A probability per class.
#[derive(Debug, Clone)]
pub struct Classes {
    /// By the number of the class.
    pub scores: Vec<f64>,
    /// Their names.
    pub names: Names,
}

impl Classes {
    /// The likeliest classes with their probabilities, the likeliest first.
    pub fn top(&self, count: usize) -> Vec<(usize, f64)> {
        let mut order: Vec<usize> = (0..self.scores.len()).collect();
        order.sort_by(|&a, &b| self.scores[b].total_cmp(&self.scores[a]));
        order.into_iter().take(count).map(|class| (class, self.scores[class])).collect()
    }
}

/// Any number of labels, each with its probability.
#[derive(Debug, Clone)]
pub struct Labels {
    /// By the number of the label.
    pub scores: Vec<f64>,
    /// The probability from which on each is predicted.
    pub thresholds: Vec<f64>,
    /// Their names.
    pub names: Names,
}

impl Labels {
    /// Where a label is predicted for which no threshold was chosen.
    pub const HALF: f64 = 0.5;

    /// The probability from which on a label is predicted.
    pub fn threshold(&self, label: usize) -> f64 {
        self.thresholds.get(label).copied().unwrap_or(Labels::HALF)
    }

    /// The labels that are predicted with their probabilities, the likeliest first.
    pub fn chosen(&self) -> Vec<(usize, f64)> {
        let is_chosen = |&(label, score): &(usize, f64)| score >= self.threshold(label);
        let mut chosen: Vec<(usize, f64)> = self.scores.iter().copied().enumerate().filter(is_chosen).collect();
        chosen.sort_by(|a, b| b.1.total_cmp(&a.1));
        chosen
    }
}

/// Numbers with names.
#[derive(Debug, Clone)]
pub struct Values {
    /// The numbers.
    pub values: Vec<f64>,
    /// The names of their columns.
    pub names: Names,
}

/// The class of every pixel of the original image.
#[derive(Debug, Clone)]
pub struct Mask {
    /// The number of the class of every pixel. A network that marks a single class has 1 where it is, and 0 elsewhere.
    pub classes: Image<u8>,
    /// How many classes the network knows; 1 where it marks a single one.
    pub count: usize,
    /// The names of the classes.
    pub names: Names,
}

/// What a mask has of one class.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassArea {
    /// The number of the class.
    pub class: usize,
    /// How many pixels have it.
    pub pixels: usize,
    /// Their share of the image.
    pub share: f64,
}

impl Mask {
    /// Whether the network marks a single class.
    pub fn is_of_one_class(&self) -> bool {
        self.count == 1
    }

    /// 255 where a single class is marked and 0 elsewhere; the class of every pixel where there are several. What is written
    /// as a file and served.
    pub fn levels(&self) -> Image<u8> {
        if self.is_of_one_class() { self.classes.map(|class| 255 * class) } else { self.classes.clone() }
    }

    /// The color that each class is drawn in, by its number: the color map of VOC.
    pub fn palette(&self) -> Vec<[u8; 3]> {
        (0..self.count.clamp(2, 256)).map(|class| class_color(class as u8)).collect()
    }

    /// How many pixels are marked, and how many connected regions they form; of several classes all but the first one count.
    pub fn counts(&self) -> [usize; 2] {
        let marked: Vec<bool> = self.classes.values().iter().map(|&value| value > 0).collect();
        let pixels = marked.iter().filter(|&&marked| marked).count();
        [pixels, octant_metrics::components(&marked, self.classes.width()).len()]
    }

    /// The classes that any pixel has, by their numbers.
    pub fn areas(&self) -> Vec<ClassArea> {
        let mut counts = [0usize; 256];
        self.classes.values().iter().for_each(|&class| counts[usize::from(class)] += 1);
        let all = self.classes.values().len().max(1) as f64;
        let present = counts.into_iter().enumerate().filter(|(_, pixels)| *pixels > 0);
        present.map(|(class, pixels)| ClassArea { class, pixels, share: pixels as f64 / all }).collect()
    }
}

/// Objects in pixels of the original image, by descending score.
#[derive(Debug, Clone)]
pub struct Boxes {
    /// Those that are shown. Of rotated boxes, the upright ones around them.
    pub shown: Vec<PredictedBox>,
    /// What else was predicted of those that are shown: masks, keypoints or rotated boxes; empty where there is nothing.
    pub details: Vec<ObjectDetail>,
    /// Those that an evaluation counts: nearly all, several classes per cell. Only where
    /// [`PredictOptions::evaluated_boxes`](crate::PredictOptions::evaluated_boxes) is set.
    pub evaluated: Vec<PredictedBox>,
    /// What else was predicted of these.
    pub evaluated_details: Vec<ObjectDetail>,
    /// The names of the classes.
    pub names: Names,
}

/// Left, top, right and bottom.
fn corners(found: &PredictedBox) -> [f64; 4] {
    let Rectangle { x, y, width, height } = found.rectangle;
    [x, y, x + width, y + height]
}

impl Boxes {
    /// What is drawn onto an image.
    pub(crate) fn draw(&self, image: &Image<u8>, factor: usize, truth: &[LabeledBox]) -> Image<u8> {
        draw::objects(image, factor, truth, &self.shown, &self.details, self.names.all())
    }
}

/// What an object has beside its box, as a key and its value. Masks are COCO's compressed runs.
pub(crate) fn detail_json(detail: &ObjectDetail) -> Option<(&'static str, Value)> {
    match detail {
        ObjectDetail::None | ObjectDetail::Polygons(_) => None,
        ObjectDetail::Mask(mask) => Some(("segmentation", json!({ "size": mask.size(), "counts": mask.text() }))),
        ObjectDetail::Rotated(rectangle) => {
            let RotatedRectangle { center: [x, y], size: [width, height], angle } = *rectangle;
            Some(("rotated", json!([x, y, width, height, angle])))
        }
        ObjectDetail::Keypoints(points) => Some(("keypoints", json!(points.concat()))),
    }
}

impl Prediction {
    /// The file, with the number of the frame in a video; empty for images that came from no file.
    pub fn source(&self) -> String {
        let path = self.path.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
        self.frame.map_or_else(|| path.clone(), |frame| format!("{path}:{frame}"))
    }

    /// The prediction as an object; of classes, `top` are listed.
    pub fn json(&self, top: usize) -> Map<String, Value> {
        let mut object = Map::new();
        let mut add = |key: &str, value: Value| drop(object.insert(key.into(), value));
        add("path", json!(self.path));
        if let Some(frame) = self.frame {
            add("frame", frame.into());
        }
        add("height", self.size[0].into());
        add("width", self.size[1].into());
        match &self.output {
            Output::Classes(classes) => {
                let listed = |(class, score): (usize, f64)| json!({ "class": class, "name": classes.names.of(class), "probability": score });
                if let Some(&(class, score)) = classes.top(1).first() {
                    add("class", class.into());
                    add("name", classes.names.of(class).into());
                    add("probability", json!(score));
                }
                add("top", classes.top(top).into_iter().map(listed).collect());
                add("probabilities", json!(classes.scores));
            }
            Output::Labels(labels) => {
                let listed = |(label, score): (usize, f64)| json!({ "label": label, "name": labels.names.of(label), "probability": score });
                add("labels", labels.chosen().into_iter().map(listed).collect());
                add("probabilities", json!(labels.scores));
                let thresholds: Vec<f64> = (0..labels.scores.len()).map(|label| labels.threshold(label)).collect();
                add("thresholds", json!(thresholds));
            }
            Output::Values(Values { values, names }) => {
                let columns = names.columns(values.len()).into_iter().zip(values.iter().map(|&value| json!(value)));
                add("values", json!(values));
                add("columns", Value::Object(columns.collect()));
            }
            Output::Mask(mask) if !mask.is_of_one_class() => {
                let listed = |ClassArea { class, pixels, share }: ClassArea| json!({ "class": class, "name": mask.names.of(class), "pixels": pixels, "share": share, "color": class_color(class as u8) });
                add("classes", mask.areas().into_iter().map(listed).collect());
            }
            Output::Mask(mask) => {
                let [pixels, components] = mask.counts();
                add("marked_pixels", pixels.into());
                add("components", components.into());
            }
            Output::Boxes(boxes) => {
                let listed = |(number, found): (usize, &PredictedBox)| {
                    let mut object = json!({ "class": found.class, "name": boxes.names.of(found.class), "score": found.score, "box": corners(found) });
                    if let Some((key, value)) = boxes.details.get(number).and_then(detail_json) {
                        object[key] = value;
                    }
                    object
                };
                add("boxes", boxes.shown.iter().enumerate().map(listed).collect());
            }
            Output::Image(image) => {
                add("made_height", image.height().into());
                add("made_width", image.width().into());
            }
        }
        object
    }

    /// The original image with the prediction drawn on it: boxes with names, marked pixels in red, classes in their colors; an image that was made
    /// instead of it. Nothing where there is nothing to draw.
    pub fn draw(&self, image: &Image<u8>) -> Option<Image<u8>> {
        match &self.output {
            Output::Boxes(boxes) => Some(boxes.draw(image, 1, &[])),
            Output::Mask(mask) if mask.is_of_one_class() => {
                Some(draw::mask(image, 1, |row, column| mask.classes.pixel(row, column)[0] > 0, None))
            }
            Output::Mask(mask) => Some(draw::classes(image, 1, &mask.classes)),
            Output::Image(made) => Some(made.clone()),
            Output::Classes(_) | Output::Labels(_) | Output::Values(_) => None,
        }
    }
}
