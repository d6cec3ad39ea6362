//! TFRecord files as a data set.

use super::{Example, RecordReader};
use crate::decode::{ChooseWindow, DecodeOptions, decode, decode_window};
use crate::readers::mask_form::MaskForm;
use crate::readers::masked::names_beside;
use crate::{AnyImage, DataError, Dataset, LabeledBox, Sample, Target};
use flate2::read::MultiGzDecoder;
use octant_tensor::Bytes;
use std::fs::File;
use std::io::{BufReader, Cursor, Read};
use std::path::{Path, PathBuf};

/// A gzipped file cannot be read from the middle; it is unpacked into memory, up to this size.
const LARGEST_UNPACKED: u64 = 4 << 30;

/// What is predicted of the samples of TFRecord files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordTarget {
    /// A class: an integer.
    Class,
    /// Any number of classes: integers.
    Labels,
    /// Numbers to regress: floats or integers.
    Values,
    /// Boxes, as TensorFlow's detection API keeps them: `KEY/bbox/xmin` and so on in shares of the image, and
    /// `KEY/class/label`.
    Boxes,
    /// A mask: an encoded image.
    Mask,
    /// Another image, encoded.
    Image,
}

impl RecordTarget {
    /// All of them, in the order in which records are searched for one.
    const ALL: [RecordTarget; 6] = [
        RecordTarget::Class,
        RecordTarget::Labels,
        RecordTarget::Boxes,
        RecordTarget::Mask,
        RecordTarget::Image,
        RecordTarget::Values,
    ];

    /// The name of the feature; of boxes, what the names of their features begin with.
    pub fn usual_key(self) -> &'static str {
        match self {
            RecordTarget::Class => "image/class/label",
            RecordTarget::Labels => "image/labels",
            RecordTarget::Values => "image/values",
            RecordTarget::Boxes => "image/object",
            RecordTarget::Mask => "image/mask/encoded",
            RecordTarget::Image => "image/target/encoded",
        }
    }
}

/// The features of the box corners below the key of boxes, in the order of [`LabeledBox`].
pub(super) const CORNERS: [&str; 4] = ["bbox/xmin", "bbox/ymin", "bbox/xmax", "bbox/ymax"];
/// The feature of the classes below the key of boxes.
pub(super) const BOX_CLASSES: &str = "class/label";
/// The feature of the path of a sample's file.
pub(super) const PATH: &str = "image/filename";

/// The names of the features to use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TfRecordKeys {
    /// The encoded image.
    pub image: String,
    /// What is predicted; what the first record has if not given.
    pub target: Option<RecordTarget>,
    /// The feature of the target; its usual one if not given.
    pub label: Option<String>,
}

impl Default for TfRecordKeys {
    fn default() -> TfRecordKeys {
        TfRecordKeys { image: "image/encoded".into(), target: None, label: None }
    }
}

impl TfRecordKeys {
    /// The target and the name of its feature, in records like this one.
    fn target_in(&self, example: &Example) -> (RecordTarget, String) {
        let has = |target: &RecordTarget| {
            let key = self.label.as_deref().unwrap_or(target.usual_key());
            match target {
                RecordTarget::Class => example.int(key).is_some(),
                RecordTarget::Values => example.floats(key).is_some(),
                RecordTarget::Labels => example.features.contains_key(key),
                RecordTarget::Boxes => example.features.contains_key(&format!("{key}/{BOX_CLASSES}")),
                RecordTarget::Mask | RecordTarget::Image => example.bytes(key).is_some(),
            }
        };
        let target = self.target.or_else(|| RecordTarget::ALL.into_iter().find(has)).unwrap_or(RecordTarget::Class);
        (target, self.label.clone().unwrap_or_else(|| target.usual_key().to_string()))
    }
}

/// Examples in one or more files; where each record begins is noted when they are opened.
pub struct TfRecordDataset {
    files: Vec<(PathBuf, Bytes)>,
    records: Vec<(u32, u64)>,
    /// The feature of the image.
    image: String,
    target: RecordTarget,
    /// The feature of the target.
    label: String,
    options: DecodeOptions,
    classes: Vec<String>,
    masks: MaskForm,
}

impl TfRecordDataset {
    /// Opens the files, plain or gzipped, and checks every record's sums once.
    pub fn open(paths: &[PathBuf], keys: TfRecordKeys, options: DecodeOptions) -> Result<TfRecordDataset, DataError> {
        let mut files = Vec::new();
        let (mut records, mut classes, mut target) = (Vec::new(), 0, None);
        for path in paths {
            let bytes = contents(path)?;
            let mut reader = RecordReader::new(Cursor::new(&bytes[..]));
            let file = files.len() as u32;
            loop {
                let position = reader.position();
                let record = reader.next_record().map_err(|problem| DataError::malformed(path, problem))?;
                let Some(record) = record else { break };
                let example = Example::parse(&record).map_err(|problem| DataError::malformed(path, problem))?;
                let (target, label) = target.get_or_insert_with(|| keys.target_in(&example));
                classes = classes.max(largest_class(&example, *target, label) + 1);
                records.push((file, position));
            }
            files.push((path.clone(), bytes));
        }
        let Some((target, label)) = target else {
            return Err(DataError::request("the TFRecord files hold no records"));
        };
        let (image, masks) = (keys.image, MaskForm::Marked);
        let mut set = TfRecordDataset { files, records, image, target, label, options, classes: Vec::new(), masks };
        if target == RecordTarget::Mask {
            let (form, count) = set.mask_form(paths)?;
            // One class against its background.
            (set.masks, classes) = (form, count.max(2) as i64);
        }
        set.classes = (0..classes.clamp(0, 1 << 20)).map(|class| class.to_string()).collect();
        Ok(set)
    }

    /// How the masks of the records are to be read, and how many classes they have.
    fn mask_form(&self, paths: &[PathBuf]) -> Result<(MaskForm, usize), DataError> {
        let Some(path) = paths.first() else { return Ok((MaskForm::Marked, 1)) };
        let names = names_beside(path)?.len();
        // Names say enough, but for the first mask.
        let read = if names > 1 { 1 } else { self.records.len() };
        let examples: Vec<Example> = (0..read).map(|index| self.example(index)).collect::<Result<_, _>>()?;
        let masks = examples.iter().filter_map(|example| Some((path.as_path(), example.bytes(&self.label)?)));
        MaskForm::of_shards(masks, names, &self.options)
    }

    /// The example of that number.
    pub fn example(&self, index: usize) -> Result<Example, DataError> {
        let (file, position) = self.records[index];
        let (path, bytes) = &self.files[file as usize];
        let problem = |problem: String| DataError::malformed(path, problem);
        let record = RecordReader::new(&bytes[position as usize..]).next_record().map_err(problem)?;
        Example::parse(&record.unwrap_or_default()).map_err(problem)
    }
}

fn contents(path: &Path) -> Result<Bytes, DataError> {
    let problem = |error| DataError::io(path, error);
    let mut file = File::open(path).map_err(problem)?;
    let mut magic = [0; 2];
    let is_gzipped = file.read(&mut magic).map_err(problem)? == 2 && magic == [0x1f, 0x8b];
    let file = File::open(path).map_err(problem)?;
    if is_gzipped {
        let mut bytes = Vec::new();
        let mut unpacked = MultiGzDecoder::new(BufReader::new(file)).take(LARGEST_UNPACKED);
        unpacked.read_to_end(&mut bytes).map_err(problem)?;
        return Ok(Bytes::new(bytes));
    }
    if file.metadata().map_err(problem)?.len() == 0 {
        return Ok(Bytes::new(Vec::new()));
    }
    // SAFETY: the mapping is private and read-only; like every reader of data sets we rely on no process shortening the
    // files while they are read.
    Ok(Bytes::new(unsafe { memmap2::Mmap::map(&file) }.map_err(problem)?))
}

/// The largest class of a record; -1 where it has none.
fn largest_class(example: &Example, target: RecordTarget, label: &str) -> i64 {
    match target {
        RecordTarget::Class => example.int(label).unwrap_or(-1),
        RecordTarget::Labels => example.ints(label).iter().copied().max().unwrap_or(-1),
        RecordTarget::Boxes => example.ints(&format!("{label}/{BOX_CLASSES}")).iter().copied().max().unwrap_or(-1),
        RecordTarget::Values | RecordTarget::Mask | RecordTarget::Image => -1,
    }
}

/// The boxes of a record in pixels of an image of that size; nothing where a list is missing or of another length.
fn boxes(example: &Example, label: &str, height: usize, width: usize) -> Option<Vec<LabeledBox>> {
    let classes = example.ints(&format!("{label}/{BOX_CLASSES}"));
    let corners = CORNERS.map(|corner| example.floats(&format!("{label}/{corner}")).unwrap_or_default());
    let is_whole = corners.iter().all(|values| values.len() == classes.len());
    let at = |index: usize| -> Option<LabeledBox> {
        let class = u32::try_from(classes[index]).ok()?;
        let [x0, y0, x1, y1] = [0, 1, 2, 3].map(|corner| {
            let side = if corner % 2 == 0 { width } else { height };
            (f64::from(corners[corner][index]) * side as f64) as f32
        });
        Some(LabeledBox::new(class, [x0, y0, x1, y1]))
    };
    if is_whole { (0..classes.len()).map(at).collect() } else { None }
}

/// Decodes the contents of an image file.
type DecodeImage<'a> = dyn FnMut(&[u8]) -> Result<AnyImage, String> + 'a;

impl TfRecordDataset {
    /// The sample of a record, its image by `decode`.
    fn read(&self, index: usize, decode_image: &mut DecodeImage) -> Result<Sample, DataError> {
        let example = self.example(index)?;
        let path = &self.files[self.records[index].0 as usize].0;
        let problem = |problem: String| DataError::malformed(path, problem);
        let missing = |name: &str| {
            let names: Vec<&str> = example.features.keys().map(String::as_str).collect();
            problem(format!(
                "a record has no usable {name:?}; it has {}; name others by `data.image_key` and `data.label_key`",
                names.join(", ")
            ))
        };
        let encoded = |name: &str| example.bytes(name).ok_or_else(|| missing(name));
        let image = decode_image(encoded(&self.image)?).map_err(problem)?;
        let [height, width, _] = image.dims();
        let label = &self.label;
        let target = match self.target {
            RecordTarget::Class => {
                let class = example.int(label).and_then(|class| u32::try_from(class).ok());
                Target::Class(class.ok_or_else(|| missing(label))?)
            }
            RecordTarget::Labels => {
                let mut labels = vec![false; self.classes.len()];
                for class in example.ints(label) {
                    let has = usize::try_from(*class).ok().and_then(|class| labels.get_mut(class));
                    *has.ok_or_else(|| problem(format!("a record has the label {class}, which is no class")))? = true;
                }
                Target::Labels(labels)
            }
            RecordTarget::Values => Target::Values(example.floats(label).ok_or_else(|| missing(label))?),
            RecordTarget::Boxes => {
                let boxes = boxes(&example, label, height, width);
                Target::Boxes(boxes.ok_or_else(|| missing(&format!("{label}/{BOX_CLASSES}")))?)
            }
            RecordTarget::Mask => {
                let mask = self.masks.decode(encoded(label)?, &self.options);
                Target::Mask(mask.map_err(|wrong| problem(wrong.to_string()))?)
            }
            RecordTarget::Image => {
                let options = DecodeOptions { eight_bits: true, ..self.options };
                Target::Image(decode(encoded(label)?, &options).map_err(problem)?.to_u8())
            }
        };
        Ok(Sample { image, target })
    }
}

impl Dataset for TfRecordDataset {
    fn len(&self) -> usize {
        self.records.len()
    }

    fn get(&self, index: usize) -> Result<Sample, DataError> {
        self.read(index, &mut |bytes| decode(bytes, &self.options))
    }

    fn window(&self, index: usize, choose: &mut ChooseWindow) -> Option<Result<Sample, DataError>> {
        let is_still = matches!(self.target, RecordTarget::Class | RecordTarget::Values);
        is_still.then(|| self.read(index, &mut |bytes| decode_window(bytes, &self.options, choose)))
    }

    fn class_names(&self) -> &[String] {
        &self.classes
    }

    fn path(&self, index: usize) -> String {
        let path = self
            .example(index)
            .ok()
            .and_then(|example| example.bytes(PATH).map(|path| String::from_utf8_lossy(path).into_owned()));
        path.unwrap_or_else(|| self.location(index))
    }

    fn archive(&self, index: usize) -> Option<&Path> {
        Some(&self.files[self.records[index].0 as usize].0)
    }

    fn location(&self, index: usize) -> String {
        let (file, position) = self.records[index];
        format!("byte {position} of {}", self.files[file as usize].0.display())
    }
}
