//! Differences between results.

use crate::engine::Engine;
use crate::error::{Result, refusal, refuse};
use crate::files;
use crate::operation::{Operation, Precision, to_floats};
use octant_data::AnyImage;
use octant_imaging::compare::{ImageDifference, compare, difference_image};
use octant_imaging::{Image, Semantics};
use std::path::Path;
use std::str::FromStr;

/// Whose arithmetic, in what, and where: `SEMANTICS[:PRECISION[:DEVICE]]`, such as `torchvision:bf16:cpu`.
#[derive(Debug, Clone)]
pub struct Variant {
    /// As it was written.
    pub name: String,
    /// Whose arithmetic.
    pub semantics: Semantics,
    /// What is computed in.
    pub precision: Precision,
    /// `host`, or the name of a device.
    pub device: String,
}

impl FromStr for Variant {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Variant, String> {
        let mut parts = text.splitn(3, ':');
        let semantics = parts.next().unwrap_or_default().parse()?;
        let precision = parts.next().map_or(Ok(Precision::Stored), str::parse)?;
        Ok(Variant { name: text.to_string(), semantics, precision, device: parts.next().unwrap_or("host").to_string() })
    }
}

/// Results under the name of what made them, all images in one list, in units of which white has 255.
pub struct Results {
    /// What made them.
    pub name: String,
    /// The images.
    pub images: Vec<Image<f32>>,
}

impl Results {
    /// The images of a file or a folder as they are.
    pub fn of_files(path: &Path) -> Result<Results> {
        let images = files::read_all(path)?;
        let in_levels = |image: &AnyImage| scaled(to_floats(image), image);
        Ok(Results { name: path.display().to_string(), images: images.iter().map(in_levels).collect() })
    }

    /// The images of two files or folders, equally many of each.
    pub fn of_both(first: &Path, second: &Path) -> Result<Vec<Results>> {
        let both = [Results::of_files(first)?, Results::of_files(second)?];
        match both.each_ref().map(|results| results.images.len()) {
            [first, second] if first != second => {
                refuse!("there are {first} images in the one and {second} in the other")
            }
            _ => Ok(both.into()),
        }
    }

    /// What variants make of the images of a file or a folder, each by its operation; at least two. `open` opens what the last
    /// part of a variant's name means.
    pub fn of_variants(
        variants: &[Variant],
        input: &Path,
        operation: impl Fn(&Variant) -> Result<Operation>,
        open: impl Fn(&str) -> Result<Engine>,
    ) -> Result<Vec<Results>> {
        if variants.len() < 2 {
            refuse!("--variants needs at least two, such as opencv,torchvision:f32");
        }
        let images = files::read_all(input)?;
        let results = |variant: &Variant| {
            let result = || {
                let operation = operation(variant)?;
                Results::of_variant(variant, &open(&variant.device)?, &images, operation)
            };
            result().map_err(|error| refusal!("{}: {error}", variant.name))
        };
        variants.iter().map(results).collect()
    }

    /// What an engine makes of the images by one operation.
    pub fn of_variant(
        variant: &Variant,
        engine: &Engine,
        images: &[AnyImage],
        operation: Operation,
    ) -> Result<Results> {
        let (results, _) = engine.run(images, &vec![operation; images.len()], variant.precision, 1)?;
        let scaled = results.iter().zip(images).map(|(result, original)| scaled(to_floats(result), original));
        Ok(Results { name: variant.name.clone(), images: scaled.collect() })
    }

    /// The differences of all values.
    pub fn difference(&self, other: &Results) -> Result<ImageDifference> {
        compare(&stacked(&self.images)?, &stacked(&other.images)?)
            .ok_or_else(|| refusal!("{} and {} have different sizes", self.name, other.name))
    }

    /// The differences of the first images as an image, the largest white.
    pub fn difference_image(&self, other: &Results) -> Result<Image<u8>> {
        let pair = self.images.first().zip(other.images.first());
        pair.and_then(|(first, second)| difference_image(first, second)).ok_or_else(|| refusal!("the sizes differ"))
    }
}

fn scaled(image: Image<f32>, original: &AnyImage) -> Image<f32> {
    let factor = match original {
        AnyImage::U8(_) => return image,
        AnyImage::U16(_) => 255.0 / 65535.0,
        AnyImage::F32(_) => 255.0,
    };
    image.map(|value| value * factor)
}

/// All values of several images as one row.
fn stacked(images: &[Image<f32>]) -> Result<Image<f32>> {
    let values: Vec<f32> = images.iter().flat_map(|image| image.values().iter().copied()).collect();
    Ok(Image::new(1, values.len(), 1, values)?)
}
