//! WebDataset shards: tar archives in which the files of one sample share a name up to the first dot.

use super::mask_form::MaskForm;
use super::masked::names_beside;
use super::tar;
use crate::decode::{ChooseWindow, DecodeOptions, ImageFileFormat, decode, decode_window};
use crate::encode::encode_mask;
use crate::{DataError, Dataset, LabeledBox, NAMES_FILE, Sample, Target, encode_png};
use octant_tensor::Bytes;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Where a member's contents lie.
#[derive(Debug, Clone, Copy)]
struct Span {
    offset: usize,
    size: usize,
}

/// What belongs to one sample.
struct Entry {
    shard: u32,
    key: String,
    image: Option<Span>,
    label: Option<Label>,
    /// The path of the file that the sample was packed from.
    path: Option<Span>,
}

#[derive(Clone, Copy)]
enum Label {
    Class(Span),
    Labels(Span),
    Mask(Span),
    Values(Span),
    Boxes(Span),
    Image(Span),
}

/// Why outlines, keypoints and rotated boxes cannot be written.
pub(crate) const BOXES_ALONE: &str =
    "shards keep boxes alone, and its objects have more; use a packed file or the files themselves";

/// Class, left, top, right, bottom: how `.boxes.json` lists a box.
type ListedBox = (u32, f32, f32, f32, f32);

/// Samples in tar shards.
pub struct WebDataset {
    shards: Vec<(PathBuf, Bytes)>,
    entries: Vec<Entry>,
    options: DecodeOptions,
    classes: Vec<String>,
    masks: MaskForm,
}

impl WebDataset {
    /// Opens shards. A sample is an image with `.cls` (a class number), `.labels.txt` (any number of them), `.mask.png` or `.seg.png` (a mask), `.txt`
    /// (numbers to regress), `.boxes.json` (a list of `[class, left, top, right, bottom]` in pixels) or `.target.png`
    /// (another image).
    pub fn open(paths: &[PathBuf], options: DecodeOptions) -> Result<WebDataset, DataError> {
        let mut set = WebDataset {
            shards: Vec::new(),
            entries: Vec::new(),
            options,
            classes: Vec::new(),
            masks: MaskForm::Marked,
        };
        for path in paths {
            set.add_shard(path)?;
        }
        set.entries.retain(|entry| entry.image.is_some());
        if set.entries.is_empty() {
            return Err(DataError::request("the shards hold no images"));
        }
        let names = names_beside(&set.shards[0].0)?.len();
        let is_mask = |entry: &Entry| matches!(entry.label, Some(Label::Mask(_)));
        let (form, mut classes) = if set.entries.iter().any(is_mask) {
            let mask = |(index, entry): (usize, &Entry)| match entry.label {
                Some(Label::Mask(span)) => {
                    Some((set.shards[entry.shard as usize].0.as_path(), set.contents(index, span)))
                }
                _ => None,
            };
            let (form, classes) =
                MaskForm::of_shards(set.entries.iter().enumerate().filter_map(mask), names, &options)?;
            // One class against its background.
            (form, classes.max(2))
        } else {
            (MaskForm::Marked, 0)
        };
        set.masks = form;
        for index in 0..set.entries.len() {
            match set.entries[index].label {
                Some(Label::Class(span)) => classes = classes.max(set.class(index, span)? as usize + 1),
                Some(Label::Labels(span)) => {
                    let labels = set.labels(index, span)?;
                    classes = labels.iter().fold(classes, |most, &label| most.max(label as usize + 1));
                }
                Some(Label::Boxes(span)) => {
                    let boxes = set.boxes(index, span)?;
                    classes = boxes.iter().fold(classes, |most, object| most.max(object.class as usize + 1));
                }
                Some(Label::Mask(_) | Label::Values(_) | Label::Image(_)) | None => {}
            }
        }
        set.classes = (0..classes.min(1 << 20)).map(|class| class.to_string()).collect();
        Ok(set)
    }

    fn add_shard(&mut self, path: &Path) -> Result<(), DataError> {
        let file = File::open(path).map_err(|error| DataError::io(path, error))?;
        // SAFETY: the mapping is private and read-only; like every reader of data sets we rely on no process shortening
        // the files while they are read.
        let map = unsafe { memmap2::Mmap::map(&file) }.map_err(|error| DataError::io(path, error))?;
        // Headers lie far apart: what the system would read ahead after each of them is not needed yet.
        #[cfg(unix)]
        let _ = map.advise(memmap2::Advice::Random);
        let shard = self.shards.len() as u32;
        let entries = &mut self.entries;
        let visited = tar::visit_mapped(&map, |member, _| {
            let span = Span { offset: member.offset as usize, size: member.size as usize };
            if span.offset.checked_add(span.size).is_none_or(|end| end > map.len()) {
                return Err(format!("{} is cut off", member.name));
            }
            let (key, kind) = split_name(&member.name);
            if !entries.last().is_some_and(|entry| entry.shard == shard && entry.key == key) {
                entries.push(Entry { shard, key: key.to_string(), image: None, label: None, path: None });
            }
            let entry = entries.last_mut().expect("one was just pushed");
            match kind {
                "cls" => entry.label = Some(Label::Class(span)),
                "labels.txt" => entry.label = Some(Label::Labels(span)),
                "txt" => entry.label = Some(Label::Values(span)),
                "boxes.json" => entry.label = Some(Label::Boxes(span)),
                "target.png" => entry.label = Some(Label::Image(span)),
                "path" => entry.path = Some(span),
                "mask.png" | "seg.png" => entry.label = Some(Label::Mask(span)),
                _ if ImageFileFormat::has_image_extension(Path::new(&member.name)) => entry.image = Some(span),
                _ => {}
            }
            Ok(())
        });
        visited.map_err(|problem| DataError::malformed(path, problem))?;
        #[cfg(unix)]
        let _ = map.advise(memmap2::Advice::Normal);
        self.shards.push((path.to_path_buf(), Bytes::new(map)));
        Ok(())
    }

    fn contents(&self, index: usize, span: Span) -> &[u8] {
        &self.shards[self.entries[index].shard as usize].1[span.offset..][..span.size]
    }

    fn problem(&self, index: usize, problem: impl Into<String>) -> DataError {
        let entry = &self.entries[index];
        DataError::malformed(self.shards[entry.shard as usize].0.join(&entry.key), problem)
    }

    fn class(&self, index: usize, span: Span) -> Result<u32, DataError> {
        let text = String::from_utf8_lossy(self.contents(index, span));
        text.trim().parse().map_err(|_| self.problem(index, format!("its class {text:?} is not a number")))
    }

    fn labels(&self, index: usize, span: Span) -> Result<Vec<u32>, DataError> {
        let text = String::from_utf8_lossy(self.contents(index, span));
        let number = |word: &str| word.parse().ok().filter(|&label: &u32| label < 1 << 20);
        let labels: Option<Vec<u32>> = text.split_whitespace().map(number).collect();
        labels.ok_or_else(|| self.problem(index, format!("its labels {text:?} are not numbers of classes")))
    }

    fn boxes(&self, index: usize, span: Span) -> Result<Vec<LabeledBox>, DataError> {
        let listed = serde_json::from_slice::<Vec<ListedBox>>(self.contents(index, span));
        let listed = listed.map_err(|error| self.problem(index, format!("its boxes cannot be read ({error})")))?;
        Ok(listed.into_iter().map(|(class, x0, y0, x1, y1)| LabeledBox::new(class, [x0, y0, x1, y1])).collect())
    }

    fn target(&self, index: usize) -> Result<Target, DataError> {
        match self.entries[index].label {
            Some(Label::Class(span)) => Ok(Target::Class(self.class(index, span)?)),
            Some(Label::Labels(span)) => {
                let mut labels = vec![false; self.classes.len()];
                self.labels(index, span)?.into_iter().for_each(|label| labels[label as usize] = true);
                Ok(Target::Labels(labels))
            }
            Some(Label::Boxes(span)) => Ok(Target::Boxes(self.boxes(index, span)?)),
            Some(Label::Image(span)) => {
                let options = DecodeOptions { eight_bits: true, ..self.options };
                let image = decode(self.contents(index, span), &options);
                Ok(Target::Image(image.map_err(|problem| self.problem(index, problem))?.to_u8()))
            }
            Some(Label::Mask(span)) => {
                let mask = self.masks.decode(self.contents(index, span), &self.options);
                Ok(Target::Mask(mask.map_err(|problem| self.problem(index, problem.to_string()))?))
            }
            Some(Label::Values(span)) => {
                let text = String::from_utf8_lossy(self.contents(index, span));
                let values: Result<Vec<f32>, _> = text.split_whitespace().map(str::parse).collect();
                Ok(Target::Values(values.map_err(|_| self.problem(index, format!("{text:?} are not numbers")))?))
            }
            None => Err(self.problem(
                index,
                "it has an image but no .cls, .labels.txt, .txt, .mask.png, .boxes.json or .target.png",
            )),
        }
    }
}

/// The key of a sample and the kind of one of its files: the folder belongs to the key, the first dot ends it.
fn split_name(name: &str) -> (&str, &str) {
    let file = name.rfind('/').map_or(0, |slash| slash + 1);
    match name[file..].find('.') {
        Some(dot) => (&name[..file + dot], &name[file + dot + 1..]),
        None => (name, ""),
    }
}

impl Dataset for WebDataset {
    fn len(&self) -> usize {
        self.entries.len()
    }

    fn get(&self, index: usize) -> Result<Sample, DataError> {
        let span = self.entries[index].image.ok_or_else(|| self.problem(index, "it has no image"))?;
        let image = decode(self.contents(index, span), &self.options);
        let image = image.map_err(|problem| self.problem(index, problem))?;
        Ok(Sample { image, target: self.target(index)? })
    }

    fn window(&self, index: usize, choose: &mut ChooseWindow) -> Option<Result<Sample, DataError>> {
        let entry = &self.entries[index];
        let (Some(span), Some(Label::Class(_) | Label::Values(_))) = (entry.image, &entry.label) else { return None };
        let image = decode_window(self.contents(index, span), &self.options, choose);
        let image = image.map_err(|problem| self.problem(index, problem));
        Some(image.and_then(|image| Ok(Sample { image, target: self.target(index)? })))
    }

    fn class_names(&self) -> &[String] {
        &self.classes
    }

    fn path(&self, index: usize) -> String {
        let entry = &self.entries[index];
        let stored = entry.path.map(|span| String::from_utf8_lossy(self.contents(index, span)).into_owned());
        stored.unwrap_or_else(|| entry.key.clone())
    }

    fn archive(&self, index: usize) -> Option<&Path> {
        Some(&self.shards[self.entries[index].shard as usize].0)
    }

    fn location(&self, index: usize) -> String {
        let entry = &self.entries[index];
        format!("{} in {}", entry.key, self.shards[entry.shard as usize].0.display())
    }
}

/// Writes a data set as shards `NAME-00000.tar` and so on of at most `per_shard` samples, images as PNG, and the names of
/// classes beside them; returns the paths of the shards.
pub fn write_webdataset(
    dataset: &dyn Dataset,
    folder: &Path,
    name: &str,
    per_shard: usize,
) -> Result<Vec<PathBuf>, DataError> {
    write_names(dataset.class_names(), folder)?;
    let sources = crate::packed::paths(dataset);
    let mut paths = Vec::new();
    for (number, first) in (0..dataset.len()).step_by(per_shard.max(1)).enumerate() {
        let path = folder.join(format!("{name}-{number:05}.tar"));
        let mut shard = Vec::new();
        for index in first..(first + per_shard.max(1)).min(dataset.len()) {
            let sample = dataset.get(index)?;
            let problem = |problem: String| DataError::malformed(&path, problem);
            let mut put = |ending: &str, contents: &[u8]| {
                tar::member_bytes(&format!("{index:08}.{ending}"), contents).map(|bytes| shard.extend(bytes))
            };
            put("png", &encode_png(&sample.image).map_err(problem)?).map_err(problem)?;
            put("path", sources[index].as_bytes()).map_err(problem)?;
            match sample.target.clone() {
                Target::Class(class) => put("cls", class.to_string().as_bytes()).map_err(problem)?,
                Target::Labels(_) => {
                    let text: Vec<String> = sample.target.classes().iter().map(u32::to_string).collect();
                    put("labels.txt", text.join(" ").as_bytes()).map_err(problem)?;
                }
                Target::Values(values) => {
                    let text: Vec<String> = values.iter().map(f32::to_string).collect();
                    put("txt", text.join(" ").as_bytes()).map_err(problem)?;
                }
                Target::Mask(mask) => {
                    put("mask.png", &encode_mask(&mask).map_err(problem)?).map_err(problem)?;
                }
                Target::Image(image) => {
                    let image = encode_png(&crate::AnyImage::U8(image)).map_err(problem)?;
                    put("target.png", &image).map_err(problem)?;
                }
                Target::Boxes(boxes) if boxes.iter().any(|object| !object.detail.is_none()) => {
                    return Err(problem(BOXES_ALONE.to_string()));
                }
                Target::Boxes(boxes) => {
                    let listed: Vec<ListedBox> = boxes.iter().map(|b| (b.class, b.x0, b.y0, b.x1, b.y1)).collect();
                    let text = serde_json::to_vec(&listed).map_err(|error| problem(error.to_string()))?;
                    put("boxes.json", &text).map_err(problem)?;
                }
            }
        }
        shard.extend([0; 1024]);
        let mut file = File::create(&path).map_err(|error| DataError::write(&path, error))?;
        file.write_all(&shard).map_err(|error| DataError::write(&path, error))?;
        paths.push(path);
    }
    Ok(paths)
}

/// Writes the names of classes into the folder of files that hold numbers alone.
pub(crate) fn write_names(names: &[String], folder: &Path) -> Result<(), DataError> {
    std::fs::create_dir_all(folder).map_err(|error| DataError::write(folder, error))?;
    if names.is_empty() {
        return Ok(());
    }
    if let Some(name) = names.iter().find(|name| name.contains('\n')) {
        return Err(DataError::request(format!("the class {name:?} has a line break in its name; rename it")));
    }
    let path = folder.join(NAMES_FILE);
    std::fs::write(&path, names.join("\n") + "\n").map_err(|error| DataError::write(&path, error))
}
