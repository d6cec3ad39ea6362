//! From one form of labeled objects to another. The images are copied as they are; the source is only read.

use super::convert_masks::convert_to_masks;
use super::convert_tiles::{ImageTiles, in_tile};
use super::{DetectionSet, LabelRule, LabeledImage, RelativeBox, has_part, open_as};
use crate::decode::{DecodeOptions, announced_size, read_image};
use crate::listing::Split;
use crate::{DataError, Dataset, Detail, KeypointLayout, LabelKind, write_png_u8};
use octant_imaging::Image;
use octant_imaging::geometry::{PixelWindow, crop};
use octant_imaging::rle::Rle;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::fmt::Write as _;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A form that boxes are kept in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BoxForm {
    /// Ultralytics' yaml file with one label file per image.
    Yolo,
    /// COCO's json, one file per part.
    Coco,
    /// Pascal VOC's xml, one file per image.
    Voc,
    /// An index PNG per image, drawn from outlines, with the names of classes.
    Masks,
}

impl FromStr for BoxForm {
    type Err = String;

    fn from_str(text: &str) -> Result<BoxForm, String> {
        match text {
            "yolo" => Ok(BoxForm::Yolo),
            "coco" => Ok(BoxForm::Coco),
            "voc" => Ok(BoxForm::Voc),
            "masks" => Ok(BoxForm::Masks),
            other => Err(format!("there is no form {other:?}; choose one of yolo, coco, voc, masks")),
        }
    }
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Converted {
    /// Images, of all parts.
    pub images: usize,
    /// Boxes.
    pub boxes: usize,
    /// Labels of the source that were left out, with reasons.
    pub dropped: Vec<String>,
    /// What to give to `open`.
    pub opens: PathBuf,
}

/// A part under the name that its files get.
struct Part {
    name: &'static str,
    images: Vec<(WrittenImage, String)>,
}

/// An image, or a tile of it with the labels in it.
struct WrittenImage {
    labeled: LabeledImage,
    tile: Option<PixelWindow>,
}

impl Deref for WrittenImage {
    type Target = LabeledImage;

    fn deref(&self) -> &LabeledImage {
        &self.labeled
    }
}

/// Writes the data set at `source` in another form into `out`, which must be empty or new. Labels keep what they say of that kind.
pub fn convert(source: &Path, out: &Path, form: BoxForm, kind: LabelKind) -> Result<Converted, DataError> {
    convert_in_tiles(source, out, form, kind, None)
}

/// The same with large images cut into tiles. An object belongs to the tiles that have seven tenths of it or more.
pub fn convert_in_tiles(
    source: &Path,
    out: &Path,
    form: BoxForm,
    kind: LabelKind,
    tiles: Option<ImageTiles>,
) -> Result<Converted, DataError> {
    if form == BoxForm::Voc && kind != LabelKind::Boxes {
        let problem = format!("Pascal VOC's files have boxes and no {}; choose yolo or coco", kind.name());
        return Err(DataError::request(problem));
    }
    if out.exists() && out.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(DataError::malformed(out, "it is not empty; give a new folder"));
    }
    if form == BoxForm::Masks {
        if kind != LabelKind::Outlines {
            let problem = format!("masks are drawn from outlines, not from {}; choose --labels outlines", kind.name());
            return Err(DataError::request(problem));
        }
        if tiles.is_some() {
            return Err(DataError::request("masks are written whole; choose yolo, coco or voc for tiles"));
        }
        return convert_to_masks(source, out);
    }
    let open = |part| open_as(source, part, LabelRule::DropLabel, kind);
    let sets = parts(source, kind, open, DetectionSet::images)?;
    let mut result = Converted { opens: out.to_path_buf(), ..Converted::default() };
    let (_, train) = &sets[0];
    let names = train.class_names().to_vec();
    let mut taken = HashSet::new();
    let mut written = Vec::new();
    for (name, set) in &sets {
        result.dropped.extend(set.dropped().iter().map(ToString::to_string));
        let images = numbered(set, &names, &mut taken)?;
        let whole = images.into_iter().map(|(labeled, name)| (WrittenImage { labeled, tile: None }, name));
        let images = match tiles {
            None => whole.collect(),
            Some(tiles) => in_tiles(whole, tiles, &mut result.dropped)?,
        };
        written.push(Part { name, images });
    }
    if tiles.is_some() {
        // Tiles have numbers of their own.
        let images = written.iter_mut().flat_map(|part| &mut part.images);
        images.zip(1..).for_each(|((image, _), id)| image.labeled.id = id);
    }
    result.dropped.sort();
    result.dropped.dedup();
    for (image, _) in written.iter().flat_map(|part| &part.images) {
        result.images += 1;
        result.boxes += image.boxes.len();
    }
    match form {
        BoxForm::Yolo => result.opens = yolo(out, &written, &names, train.keypoints().as_ref())?,
        BoxForm::Coco => coco(out, &written, &names, train.keypoints().as_ref())?,
        BoxForm::Voc => voc(out, &written, &names)?,
        BoxForm::Masks => unreachable!("masks were written before"),
    }
    Ok(result)
}

/// The parts that a data set names, training first. A part with the images of one before it is that one under another name; one that
/// is named is opened or refused, never left out.
pub(super) fn parts<T>(
    source: &Path,
    kind: LabelKind,
    open: impl Fn(Split) -> Result<T, DataError>,
    images: impl Fn(&T) -> &[LabeledImage],
) -> Result<Vec<(&'static str, T)>, DataError> {
    let mut found = vec![("train", open(Split::Train)?)];
    for (name, part) in [("val", Split::Val), ("test", Split::Test)] {
        if has_part(source, part, kind) {
            let set = open(part)?;
            if found.iter().all(|(_, known)| images(known) != images(&set)) {
                found.push((name, set));
            }
        }
    }
    Ok(found)
}

/// Images with the classes of the training part, each under a file name of its own.
fn numbered(
    set: &DetectionSet,
    names: &[String],
    taken: &mut HashSet<String>,
) -> Result<Vec<(LabeledImage, String)>, DataError> {
    let number = |class: u32| -> Result<u32, DataError> {
        let name = set.class_names().get(class as usize).cloned().unwrap_or_default();
        let position = names.iter().position(|known| *known == name);
        position.map(|position| position as u32).ok_or_else(|| {
            DataError::request(format!("the class {name:?} is not in the training part; it cannot be learned"))
        })
    };
    set.images()
        .iter()
        .map(|image| {
            let [stem, ending] = file_names(&image.path, taken);
            let boxes =
                image.boxes.iter().map(|object| Ok(RelativeBox { class: number(object.class)?, ..object.clone() }));
            let boxes = boxes.collect::<Result<_, DataError>>()?;
            Ok((LabeledImage { boxes, ..image.clone() }, format!("{stem}.{ending}")))
        })
        .collect()
}

/// The tiles of images, each as a PNG file named after its image and the place of its corner.
fn in_tiles(
    images: impl Iterator<Item = (WrittenImage, String)>,
    tiles: ImageTiles,
    dropped: &mut Vec<String>,
) -> Result<Vec<(WrittenImage, String)>, DataError> {
    let mut written = Vec::new();
    for (image, name) in images {
        let (height, width) = announced_size(&image.path)?;
        let windows = tiles.windows([height, width]);
        if windows.len() == 1 {
            written.push((image, name));
            continue;
        }
        let stem = Path::new(&name).file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let mut kept = vec![false; image.boxes.len()];
        for window in windows {
            let boxes = in_tile(&image, [height, width], &window, &mut kept);
            let name = format!("{stem}__{}__{}___{}.png", tiles.side, window.left, window.top);
            let labeled = LabeledImage { boxes, ground_truth: None, ..image.labeled.clone() };
            written.push((WrittenImage { labeled, tile: Some(window) }, name));
        }
        let lost = kept.iter().filter(|is_kept| !**is_kept).count();
        if lost > 0 {
            let path = image.path.display();
            dropped.push(format!("{path}: {lost} objects are in no tile by seven tenths; a larger overlap keeps them"));
        }
    }
    Ok(written)
}

/// A name that no other image has, and the ending.
pub(super) fn file_names(path: &Path, taken: &mut HashSet<String>) -> [String; 2] {
    let [stem, ending] =
        [path.file_stem(), path.extension()].map(|part| part.unwrap_or_default().to_string_lossy().into_owned());
    let free = std::iter::once(stem.clone()).chain((2..).map(|count| format!("{stem}-{count}")));
    [free.into_iter().find(|stem| taken.insert(stem.clone())).unwrap_or(stem), ending]
}

pub(super) fn create(folder: &Path) -> Result<(), DataError> {
    std::fs::create_dir_all(folder).map_err(|error| DataError::write(folder, error))
}

fn write(path: &Path, text: &str) -> Result<(), DataError> {
    std::fs::write(path, text).map_err(|error| DataError::write(path, error))
}

/// Copies an image, or writes a tile of it. `last` is the image that was decoded before, which has the next tile as well.
fn put(image: &WrittenImage, to: &Path, last: &mut Option<(PathBuf, Image<u8>)>) -> Result<(), DataError> {
    let Some(window) = image.tile else { return copy(image, to) };
    if last.as_ref().is_none_or(|(path, _)| *path != image.path) {
        let options = DecodeOptions { eight_bits: true, ..DecodeOptions::default() };
        *last = Some((image.path.clone(), read_image(&image.path, &options)?.to_u8()));
    }
    match last {
        Some((_, whole)) => write_png_u8(to, &crop(whole, window)),
        None => Ok(()),
    }
}

pub(super) fn copy(image: &LabeledImage, to: &Path) -> Result<(), DataError> {
    let copied = std::fs::read(&image.path).map_err(|error| DataError::io(&image.path, error))?;
    std::fs::write(to, copied).map_err(|error| DataError::write(to, error))
}

/// Height and width, as decoding gives them: upright.
fn size(image: &WrittenImage) -> Result<[usize; 2], DataError> {
    if let Some(PixelWindow { height, width, .. }) = image.tile {
        return Ok([height, width]);
    }
    let [height, width, _] = read_image(&image.path, &DecodeOptions::default())?.dims();
    Ok([height, width])
}

/// The numbers of a line behind its class, or why a line cannot have them.
fn line(object: &RelativeBox, keypoints: Option<&KeypointLayout>) -> Result<Vec<f64>, &'static str> {
    let [x0, y0, x1, y1] = object.corners;
    let mut numbers = vec![(x0 + x1) / 2.0, (y0 + y1) / 2.0, x1 - x0, y1 - y0];
    let flat = |points: &[[f32; 2]]| points.concat().into_iter().map(f64::from).collect();
    Ok(match &object.detail {
        Detail::None => numbers,
        Detail::Outline(rings) => match &rings[..] {
            [ring] if !ring.is_hole => flat(&ring.points),
            _ => return Err("its outline has several parts or a hole, and a line has one polygon"),
        },
        Detail::Corners(points) => flat(points),
        Detail::Keypoints(points) => {
            let has_visibility = keypoints.is_some_and(|layout| layout.visibility);
            for point in points {
                let [x, y] = if point.visibility == 0 && !has_visibility { [-1.0; 2] } else { point.at };
                numbers.extend([f64::from(x), f64::from(y)]);
                numbers.extend(has_visibility.then_some(f64::from(point.visibility)));
            }
            numbers
        }
    })
}

fn yolo(
    out: &Path,
    written: &[Part],
    names: &[String],
    keypoints: Option<&KeypointLayout>,
) -> Result<PathBuf, DataError> {
    let (mut yaml, mut last) = (String::new(), None);
    for part in written {
        let [images, labels] = ["images", "labels"].map(|kind| out.join(kind).join(part.name));
        create(&images)?;
        create(&labels)?;
        let _ = writeln!(yaml, "{}: images/{}", part.name, part.name);
        for (image, name) in &part.images {
            put(image, &images.join(name), &mut last)?;
            let mut lines = String::new();
            for object in &image.boxes {
                let numbers = line(object, keypoints).map_err(|problem| {
                    DataError::request(format!("an object in {}: {problem}; COCO's json can", image.path.display()))
                })?;
                // Writing to a string cannot fail.
                let _ = write!(lines, "{}", object.class);
                for number in numbers {
                    let _ = write!(lines, " {number:.8}");
                }
                lines.push('\n');
            }
            write(&labels.join(name).with_extension("txt"), &lines)?;
        }
    }
    if let [only] = written {
        // Theirs wants both keys; without a part for validation, some images are held out.
        let _ = writeln!(yaml, "val: images/{}", only.name);
    }
    if let Some(layout) = keypoints {
        let _ = writeln!(yaml, "kpt_shape: [{}, {}]", layout.count, layout.columns());
        let listed = |numbers: &Vec<usize>| numbers.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
        if let Some(mirrored) = &layout.mirrored {
            let _ = writeln!(yaml, "flip_idx: [{}]", listed(mirrored));
        }
    }
    yaml += "names:\n";
    for (class, name) in names.iter().enumerate() {
        let _ = writeln!(yaml, "  {class}: \"{}\"", name.replace('"', "'"));
    }
    let file = out.join("data.yaml");
    write(&file, &yaml)?;
    Ok(file)
}

/// Names that say which keypoints change places in a mirrored image.
fn keypoint_names(layout: &KeypointLayout) -> Vec<String> {
    let name = |point: usize| match layout.mirrored.as_ref().map(|mirrored| mirrored[point]) {
        Some(other) if other > point => format!("left_{}", point + 1),
        Some(other) if other < point => format!("right_{}", other + 1),
        _ => format!("point_{}", point + 1),
    };
    (0..layout.count).map(name).collect()
}

/// What an annotation says beside its box, and the area of what is inside of its outline.
fn coco_detail(object: &RelativeBox, height: usize, width: usize) -> (Vec<(&'static str, Value)>, Option<f64>) {
    let pixels = object.in_pixels(height, width).detail;
    let flat = |points: &[[f32; 2]]| json!(points.concat());
    match &pixels {
        Detail::None => (Vec::new(), None),
        Detail::Corners(points) => {
            (vec![("segmentation", json!([flat(points)]))], pixels.rectangle().map(|rectangle| rectangle.area()))
        }
        Detail::Outline(rings) => {
            let mask = pixels.mask(height, width, 1.0);
            let mask = Rle::of(height, width, |row, column| mask.pixel(row, column)[0] > 0);
            let segmentation = match rings.iter().any(|ring| ring.is_hole) {
                true => json!({ "size": [height, width], "counts": mask.counts() }),
                false => rings.iter().map(|ring| flat(&ring.points)).collect(),
            };
            (vec![("segmentation", segmentation)], Some(mask.area() as f64))
        }
        Detail::Keypoints(points) => {
            let numbers: Vec<f32> =
                points.iter().flat_map(|point| [point.at[0], point.at[1], f32::from(point.visibility)]).collect();
            let known = points.iter().filter(|point| point.visibility > 0).count();
            (vec![("keypoints", json!(numbers)), ("num_keypoints", json!(known))], None)
        }
    }
}

fn coco(out: &Path, written: &[Part], names: &[String], keypoints: Option<&KeypointLayout>) -> Result<(), DataError> {
    create(&out.join("annotations"))?;
    let categories = names.iter().enumerate().map(|(class, name)| match keypoints {
        Some(layout) => json!({ "id": class + 1, "name": name, "keypoints": keypoint_names(layout) }),
        None => json!({ "id": class + 1, "name": name }),
    });
    let categories: Vec<Value> = categories.collect();
    let mut last = None;
    for part in written {
        create(&out.join(part.name))?;
        let (mut images, mut annotations) = (Vec::new(), Vec::new());
        for (image, name) in &part.images {
            put(image, &out.join(part.name).join(name), &mut last)?;
            let [height, width] = size(image)?;
            let id = image.id;
            images.push(json!({ "id": id, "file_name": name, "width": width, "height": height }));
            for object in &image.boxes {
                let [x0, y0, x1, y1] = object.corners;
                let (x, y) = (x0 * width as f64, y0 * height as f64);
                let (w, h) = ((x1 - x0) * width as f64, (y1 - y0) * height as f64);
                let (details, area) = coco_detail(object, height, width);
                let mut annotation = json!({
                    "id": annotations.len() + 1, "image_id": id, "category_id": object.class + 1,
                    "bbox": [x, y, w, h], "area": area.unwrap_or(w * h), "iscrowd": 0,
                });
                details.into_iter().for_each(|(key, value)| annotation[key] = value);
                annotations.push(annotation);
            }
        }
        let text = json!({ "images": images, "categories": categories, "annotations": annotations }).to_string();
        let kind = if keypoints.is_some() { "person_keypoints" } else { "instances" };
        write(&out.join(format!("annotations/{kind}_{}.json", part.name)), &text)?;
    }
    Ok(())
}

fn voc(out: &Path, written: &[Part], names: &[String]) -> Result<(), DataError> {
    for folder in ["Annotations", "JPEGImages", "ImageSets/Main"] {
        create(&out.join(folder))?;
    }
    let mut last = None;
    for part in written {
        let mut list = String::new();
        for (image, name) in &part.images {
            put(image, &out.join("JPEGImages").join(name), &mut last)?;
            let [height, width] = size(image)?;
            let stem = Path::new(name).with_extension("");
            let _ = writeln!(list, "{}", stem.display());
            let mut text = format!(
                "<annotation>\n  <filename>{}</filename>\n  <size><width>{width}</width><height>{height}</height>\
                 <depth>3</depth></size>\n",
                escaped(name)
            );
            for object in &image.boxes {
                let class = names.get(object.class as usize).map(|name| escaped(name)).unwrap_or_default();
                let [x0, y0, x1, y1] = object.corners;
                // Pixels count from 1 and both ends are included; parts of a pixel are kept.
                let [xmin, xmax] = [x0 * width as f64 + 1.0, x1 * width as f64].map(decimals);
                let [ymin, ymax] = [y0 * height as f64 + 1.0, y1 * height as f64].map(decimals);
                let _ = writeln!(
                    text,
                    "  <object><name>{class}</name><difficult>0</difficult><bndbox><xmin>{xmin}</xmin>\
                     <ymin>{ymin}</ymin><xmax>{xmax}</xmax><ymax>{ymax}</ymax></bndbox></object>"
                );
            }
            text += "</annotation>\n";
            write(&out.join("Annotations").join(stem).with_extension("xml"), &text)?;
        }
        write(&out.join("ImageSets/Main").join(format!("{}.txt", part.name)), &list)?;
    }
    Ok(())
}

/// Whole numbers without a point, others with four digits after it.
fn decimals(value: f64) -> String {
    match (value - value.round()).abs() < 5e-5 {
        true => format!("{}", value.round()),
        false => format!("{value:.4}"),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
