//! Data sets that recipes name: made up on the fly, or read from files.

use crate::data::Ticking;
use crate::fetching;
use crate::recipes::{DataSource, Recipe, nearest};
use anyhow::{Context, Result, bail};
use octant_data::decode::DecodeOptions;
use octant_data::readers::{self, Cifar, FolderDataset, IdxDataset, Split, TableDataset, open_irstd};
use octant_data::{
    AnyImage, Cached, DataError, Dataset, Glyphs, Matched, Sample, SampleRng, Target, pack_once, synth,
};
use octant_pjrt::discover::cache_folder;
use std::sync::Arc;

/// The two halves of a data set, and how large a head it asks for.
pub(crate) struct Data {
    pub train: Arc<dyn Dataset>,
    pub valid: Arc<dyn Dataset>,
    pub outputs: usize,
    /// What the head's outputs mean: the names of classes, or of columns. Both halves have their numbers.
    pub classes: Vec<String>,
    /// Where the halves are not the same, in sentences.
    pub remarks: Vec<String>,
}

/// Samples that are made up on the fly.
struct MadeUp {
    len: usize,
    side: usize,
    seed: u64,
    make: fn(usize, &mut SampleRng) -> Sample,
    names: Vec<String>,
}

impl Dataset for MadeUp {
    fn len(&self) -> usize {
        self.len
    }

    fn get(&self, index: usize) -> Result<Sample, DataError> {
        Ok((self.make)(self.side, &mut SampleRng::new(self.seed, 0, index as u64)))
    }

    fn class_names(&self) -> &[String] {
        &self.names
    }

    fn location(&self, index: usize) -> String {
        format!("sample {index} made up from seed {}", self.seed)
    }
}

fn scene(side: usize, rng: &mut SampleRng) -> Sample {
    let (image, mask) = synth::infrared(side, rng);
    Sample { image: AnyImage::U8(image), target: Target::Mask(mask) }
}

fn shape(side: usize, rng: &mut SampleRng) -> Sample {
    let (image, objects) = synth::shapes(side, 1, rng);
    let class = objects.first().map_or(0, |object| object.class);
    Sample { image: AnyImage::U8(image), target: Target::Class(class) }
}

fn discs(side: usize, rng: &mut SampleRng) -> Sample {
    let (image, [count, _]) = synth::regression(side, rng);
    Sample { image: AnyImage::U8(image), target: Target::Values(vec![count]) }
}

const KINDS: [&str; 9] = ["glyphs", "infrared", "shapes", "discs", "idx", "cifar", "folder", "irstd", "table"];

/// Opens the data that a recipe names. Classes are matched by name: with `known`, those of a run, where there are any,
/// otherwise with those of the training data.
pub(crate) fn data(recipe: &Recipe, known: &[String]) -> Result<Data> {
    let source = &recipe.data;
    let made_up = |make: fn(usize, &mut SampleRng) -> Sample, names: &[&str]| -> [Arc<dyn Dataset>; 2] {
        [(source.train.unwrap_or(1000), recipe.seed), (source.test.unwrap_or(200), recipe.seed ^ 0x7e57)].map(
            |(len, seed)| {
                let names = names.iter().map(|name| name.to_string()).collect();
                Arc::new(MadeUp { len, side: source.side.unwrap_or(64), seed, make, names }) as Arc<dyn Dataset>
            },
        )
    };
    if source.is_made_up() && source.dir.is_some() {
        bail!("{} are made up on the fly and take no --data; `octant recipes` lists recipes for files", source.kind);
    }
    let [train, valid] = match source.kind.as_str() {
        "glyphs" => [
            Arc::new(Glyphs::new(source.train.unwrap_or(12_000), recipe.seed)) as Arc<dyn Dataset>,
            Arc::new(Glyphs::new(source.test.unwrap_or(2_000), recipe.seed ^ 0x7e57)),
        ],
        "infrared" => made_up(scene, &["background", "target"]),
        "shapes" => made_up(shape, &["disc", "ring", "square", "triangle"]),
        "discs" => made_up(discs, &["discs"]),
        kind if KINDS.contains(&kind) => files(recipe, source)?,
        other => match nearest(other, KINDS.into_iter()) {
            Some(near) => bail!("there is no kind of data \"{other}\"; did you mean {near}?"),
            None => bail!("there is no kind of data \"{other}\"; there are {}", KINDS.join(", ")),
        },
    };
    if train.is_empty() || valid.is_empty() {
        bail!("the data set has no images to {}", if train.is_empty() { "learn from" } else { "validate on" });
    }
    let (classes, whose) = match known {
        [] => (train.class_names().to_vec(), "the training data"),
        known => (known.to_vec(), "the run"),
    };
    let (train, of_train) = Matched::by_name(train, &classes, "the training data", whose)?;
    let (valid, of_valid) = Matched::by_name(valid, &classes, "the validation data", whose)?;
    let outputs = match train.get(0)?.target {
        Target::Class(_) => classes.len(),
        Target::Values(values) => values.len(),
        Target::Mask(_) | Target::Boxes(_) => 1,
    };
    let (train, valid) = (cached(recipe, "train", train)?, cached(recipe, "test", valid)?);
    Ok(Data { train, valid, outputs, classes, remarks: of_train.into_iter().chain(of_valid).collect() })
}

/// Samples that need not be decoded again in every epoch.
fn cached(recipe: &Recipe, part: &str, dataset: Arc<dyn Dataset>) -> Result<Arc<dyn Dataset>> {
    Ok(match recipe.cache.as_str() {
        "off" => dataset,
        "ram" => Arc::new(Cached::new(dataset, recipe.cache_mb << 20)),
        "packed" if recipe.data.dir.is_none() => bail!("--cache packed is for data that is read from files"),
        "packed" => {
            let folder = cache_folder().join("packed");
            let ticking = Ticking::new(&format!("packing {part}"), &*dataset);
            let packed = pack_once(&ticking, &folder, &format!("{}-{part}", recipe.data.kind));
            ticking.end();
            Arc::new(packed.context("the data could not be packed; try --cache ram or off")?)
        }
        other => bail!("there is no --cache {other}; there are off, ram and packed"),
    })
}

fn files(recipe: &Recipe, source: &DataSource) -> Result<[Arc<dyn Dataset>; 2]> {
    let expected = match source.kind.as_str() {
        "idx" => "the folder with train-images-idx3-ubyte(.gz) and the other three files",
        "cifar" => "the folder or archive of CIFAR-10 or CIFAR-100",
        "irstd" => "the folder with images/, masks/, trainval.txt and test.txt",
        "table" => "the folder with train.csv and test.csv",
        _ => "the folder with train/CLASS/ and val/CLASS/",
    };
    let place = source.dir.as_deref().with_context(|| format!("{} needs --data DIR, {expected}", recipe.name))?;
    let folder = &fetching::localise(place, "data")?;
    if !folder.exists() {
        bail!("there is no {}; --data should be {expected}", folder.display());
    }
    let options = DecodeOptions { eight_bits: true, ..DecodeOptions::default() };
    let both = |open: &dyn Fn(Split) -> Result<Arc<dyn Dataset>, DataError>| -> Result<[Arc<dyn Dataset>; 2]> {
        Ok([open(Split::Train)?, open(Split::Test)?])
    };
    // What `octant data pack` wrote, whatever it was before.
    if readers::holds_shards(folder) {
        return both(&|split| readers::open(folder, split, options));
    }
    match source.kind.as_str() {
        "idx" => both(&|split| {
            Matched::named_by_file(Arc::new(IdxDataset::open(folder, split == Split::Train)?), folder)
        }),
        "cifar" => both(&|split| Ok(Arc::new(Cifar::open(folder, split)?))),
        "irstd" => both(&|split| Ok(Arc::new(open_irstd(folder, split, options)?))),
        "table" => both(&|split| {
            let name = if split == Split::Train { "train.csv" } else { "test.csv" };
            Ok(Arc::new(TableDataset::open(folder.join(name), &source.columns, options)?))
        }),
        _ => {
            let part = |names: [&str; 2]| names.map(|name| folder.join(name)).into_iter().find(|path| path.is_dir());
            let train =
                part(["train", "training"]).with_context(|| format!("{} has no folder train/", folder.display()))?;
            let valid =
                part(["val", "test"]).with_context(|| format!("{} has no folder val/ or test/", folder.display()))?;
            Ok([Arc::new(FolderDataset::open(train, options)?), Arc::new(FolderDataset::open(valid, options)?)])
        }
    }
}
