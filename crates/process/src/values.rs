//! What becomes of every value of an image or an array, by a named rule.

use crate::error::{Result, refusal, refuse};
use crate::files::{self, Job};
use crate::operation::to_floats;
use crate::work::{Processed, WorkEvent};
use octant_data::AnyImage;
use octant_imaging::mask::{Rounding, Threshold};
use octant_tensor::{DType, HostTensor, read_npy, write_npy};
use std::fmt;
use std::path::Path;

/// A rule for single values.
#[derive(Debug, Clone, Copy)]
pub enum ValueRule {
    /// Values that reach a limit are marked, others become 0.
    Threshold {
        /// The limit.
        limit: Threshold,
        /// What marked values become; 255 in images and 1 in arrays if not given.
        marked: Option<u8>,
    },
    /// Values become whole.
    Round(Rounding),
}

impl ValueRule {
    /// An array of the same shape: marks as u8, whole numbers as i32.
    pub fn on_array(&self, array: &HostTensor) -> Result<HostTensor> {
        let values = array.to_f64s().into_iter().map(|value| value as f32);
        let dims = array.dims().to_vec();
        match *self {
            ValueRule::Threshold { limit, marked } => {
                let marked = marked.unwrap_or(1);
                let marks: Vec<u8> = values.map(|value| if limit.holds(value) { marked } else { 0 }).collect();
                Ok(HostTensor::new(dims, &marks)?)
            }
            ValueRule::Round(rounding) => {
                let whole = |value: f32| {
                    let rounded = f64::from(rounding.apply(value));
                    if !(f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&rounded) {
                        refuse!("{value} is no number that an i32 holds");
                    }
                    Ok(rounded as i32)
                };
                Ok(HostTensor::new(dims, &values.map(whole).collect::<Result<Vec<i32>>>()?)?)
            }
        }
    }

    /// An 8-bit image. The rule's numbers are in units of which white has `white`: 255 for levels, 1 for shares of the range.
    pub fn on_image(&self, image: &AnyImage, white: f32) -> Result<AnyImage> {
        let full = match image {
            AnyImage::U8(_) => 255.0,
            AnyImage::U16(_) => 65535.0,
            AnyImage::F32(_) => 1.0,
        };
        // Divided last: a level of 128 of 255 is 128 again, and half of the range is exactly what 0.5 is compared with.
        let image = to_floats(image).map(|value| value * white / full);
        match *self {
            ValueRule::Threshold { limit, marked } => {
                let marked = marked.unwrap_or(255);
                Ok(AnyImage::U8(image.map(|value| if limit.holds(value) { marked } else { 0 })))
            }
            ValueRule::Round(rounding) => {
                let rounded = image.map(|value| rounding.apply(value));
                if !rounded.values().iter().all(|value| (0.0..=255.0).contains(value)) {
                    refuse!("an 8-bit image holds 0 to 255; choose a smaller value for white");
                }
                Ok(AnyImage::U8(rounded.map(|value| value as u8)))
            }
        }
    }
}

impl ValueRule {
    /// Applies the rule to a `.npy` array and writes the result, which it returns.
    pub fn on_array_file(&self, input: &Path, out: &Path) -> Result<HostTensor> {
        if !is_array(out) {
            refuse!("an array becomes an array; give an OUT that ends in .npy, not {}", out.display());
        }
        let array = read_npy(input).map_err(|error| refusal!("{error}"))?;
        let result = self.on_array(&array).map_err(|error| refusal!("{}: {error}", input.display()))?;
        write_npy(out, &result).map_err(|error| refusal!("{error}"))?;
        Ok(result)
    }

    /// Applies the rule to an image, or to every image below a folder; see [`on_image`](ValueRule::on_image). One that cannot be
    /// read or written is reported.
    pub fn on_files(
        &self,
        input: &Path,
        out: &Path,
        white: f32,
        observer: &mut dyn FnMut(WorkEvent),
    ) -> Result<Processed> {
        let jobs = files::jobs(input, out, None)?;
        let mut failed = 0;
        for Job { image, out, .. } in &jobs {
            let written = || -> Result<AnyImage> {
                let result = self.on_image(&files::read(image)?, white)?;
                files::write(out, &result)?;
                Ok(result)
            };
            match written() {
                Ok(result) => {
                    let (dims, dtype) = (result.dims(), result.dtype());
                    observer(WorkEvent::Written { image, out, dims, dtype, computed_in: DType::F32 });
                }
                Err(error) => {
                    observer(WorkEvent::Failed(format!("{}: {error}", image.display())));
                    failed += 1;
                }
            }
        }
        Ok(Processed { images: jobs.len(), failed, times: None })
    }
}

/// Whether a path names a `.npy` array.
pub fn is_array(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("npy"))
}

impl fmt::Display for ValueRule {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            ValueRule::Threshold { limit: Threshold::AtLeast(limit), .. } => write!(f, "at least {limit}"),
            ValueRule::Threshold { limit: Threshold::Above(limit), .. } => write!(f, "above {limit}"),
            ValueRule::Round(rounding) => f.write_str(&format!("{rounding:?}").to_lowercase()),
        }
    }
}
