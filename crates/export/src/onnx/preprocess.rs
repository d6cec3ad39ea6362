//! From an image of any size to what the network sees.
//!
//! Other runtimes have a Resize operator, but none that antialiases as Pillow does: onnxruntime's is up to 20 gray levels
//! away from it. So a resize is what it is in Octant, two matrices of filter weights, one per axis, which the file computes
//! from the size of the image. Crops and borders are rows of the same matrices: a row outside of the image is zero.

use super::proto::ValueInfo;
use super::writer::{Writer, int, ints};
use super::{info, name_dimension};
use crate::ExportError;
use crate::network::Dim;
use octant_graph::{DType, HostTensor, Shape};

/// How an image of any size becomes what the network sees.
#[derive(Debug, Clone, PartialEq)]
pub struct ImageInput {
    /// The channels of the image.
    pub channels: usize,
    /// Height and width of what the network sees.
    pub frame: [usize; 2],
    /// The size that the image is resized to.
    pub resized: ResizedTo,
    /// Where the resized image lies in the frame.
    pub position: Position,
    /// The value around it.
    pub fill: u8,
    /// How it is resized.
    pub sampling: Sampling,
}

/// The size that an image is resized to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResizedTo {
    /// The frame.
    Frame,
    /// The shorter side has this length, the longer one is rounded down.
    Short(usize),
    /// The longer side has this length, the shorter one is rounded down.
    Long(usize),
    /// The largest size of the same shape in the frame, rounded down.
    Inside,
    /// The same, rounded up.
    InsideRoundedUp,
}

/// Where a resized image lies in a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    /// In the middle; of an odd difference, crops round half to even and borders down, as torchvision does.
    Center,
    /// In the middle, with the odd row or column of the border behind.
    Letterbox,
}

/// How an image is resized.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sampling {
    /// A kernel that widens as the image shrinks.
    Antialiased {
        /// The kernel.
        kernel: Kernel,
        /// Pillow's arithmetic: weights of 22 fractional bits, and bytes between the passes.
        bytes_between: bool,
    },
    /// Straight lines between pixels.
    Linear {
        /// OpenCV's arithmetic: weights of 11 fractional bits, and sums that are cut off.
        opencv: bool,
    },
    /// The pixel at the center.
    Nearest,
}

/// A kernel of [`Sampling::Antialiased`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// A triangle: bilinear.
    Triangle,
    /// Keys' cubic with a = -0.5: bicubic.
    Cubic,
}

/// Scalars (f64) of the model about one axis.
#[derive(Debug, Clone)]
pub(super) struct Axis {
    /// Pixels of the image.
    pub old: String,
    /// Pixels after the resize.
    pub new: String,
    /// Pixels of the frame before the image; negative where it is cropped.
    pub offset: String,
    /// `new / old`.
    pub scale: String,
    /// Pixels of the frame.
    pub frame: usize,
}

const PATH: &str = "preprocessing";

impl Writer<'_> {
    /// Writes the preprocessing: the input, the network's images `[1, channels, height, width]` in u8, and both axes.
    pub(super) fn preprocessed(&mut self, input: &ImageInput) -> Result<(ValueInfo, String, [Axis; 2]), ExportError> {
        self.reserve("image");
        let axes = self.axes(input)?;
        let [vertical, horizontal] = &axes;
        let channels_first = vec![ints("perm", &[2, 0, 1])];
        let planes = self.op("Transpose", &["image"], channels_first);
        let planes = self.op("Cast", &[&planes], vec![int("to", 1)]);
        let columns = self.weights_of(horizontal, input.sampling)?;
        let across = self.op("Transpose", &[&columns], vec![ints("perm", &[1, 0])]);
        let pixels = match input.sampling {
            Sampling::Linear { opencv: true } => self.in_opencvs_steps(vertical, &planes, &across)?,
            Sampling::Antialiased { bytes_between: true, .. } => {
                let rows = self.weights_of(vertical, input.sampling)?;
                let resized = self.in_pillows_order(&axes, &planes, &rows, &across)?;
                self.bytes(&resized, false)?
            }
            Sampling::Antialiased { .. } | Sampling::Linear { .. } | Sampling::Nearest => {
                let rows = self.weights_of(vertical, input.sampling)?;
                let wide = self.op("MatMul", &[&planes, &across], vec![]);
                let resized = self.op("MatMul", &[&rows, &wide], vec![]);
                self.bytes(&resized, true)?
            }
        };
        let pixels = self.filled(input.fill, pixels, &axes)?;
        let pixels = self.op("Cast", &[&pixels], vec![int("to", 2)]);
        let first = self.integers(&[0]);
        let images = self.op("Unsqueeze", &[&pixels, &first], vec![]);
        let mut declared = info("image", DType::U8, &[Dim::Fixed(0), Dim::Fixed(0), Dim::Fixed(input.channels)]);
        ["height", "width"].iter().enumerate().for_each(|(index, name)| name_dimension(&mut declared, index, name));
        Ok((declared, images, axes))
    }

    pub(super) fn op(&mut self, op: &str, inputs: &[&str], attributes: Vec<super::proto::Attribute>) -> String {
        self.emit(op, PATH, inputs.iter().map(ToString::to_string).collect(), attributes)
    }

    pub(super) fn double(&mut self, value: f64) -> Result<String, ExportError> {
        self.scalar(value, DType::F64)
    }

    /// The sizes and offsets of both axes.
    fn axes(&mut self, input: &ImageInput) -> Result<[Axis; 2], ExportError> {
        let mut old = Vec::new();
        for axis in 0..2 {
            let length = self.emit("Shape", PATH, vec!["image".into()], vec![int("start", axis), int("end", axis + 1)]);
            let scalar = self.emit("Squeeze", PATH, vec![length], vec![]);
            old.push(self.op("Cast", &[&scalar], vec![int("to", 11)]));
        }
        let one = self.double(1.0)?;
        let mut axes = Vec::new();
        for axis in 0..2 {
            let frame = self.double(input.frame[axis] as f64)?;
            let new = match input.resized {
                ResizedTo::Frame => frame.clone(),
                ResizedTo::Short(side) => self.proportional("Min", side, &old, axis)?,
                ResizedTo::Long(side) => self.proportional("Max", side, &old, axis)?,
                ResizedTo::Inside => {
                    let mut shares = Vec::new();
                    for other in 0..2 {
                        let frame = self.double(input.frame[other] as f64)?;
                        shares.push(self.op("Div", &[&old[other], &frame], vec![]));
                    }
                    let ratio = self.op("Max", &[&shares[0], &shares[1]], vec![]);
                    let exact = self.op("Div", &[&old[axis], &ratio], vec![]);
                    let whole = self.op("Floor", &[&exact], vec![]);
                    self.op("Min", &[&whole, &frame], vec![])
                }
                ResizedTo::InsideRoundedUp => {
                    let longest = self.op("Max", &[&old[0], &old[1]], vec![]);
                    let ratio = self.op("Div", &[&frame, &longest], vec![]);
                    let exact = self.op("Mul", &[&old[axis], &ratio], vec![]);
                    let whole = self.op("Ceil", &[&exact], vec![]);
                    self.op("Min", &[&whole, &frame], vec![])
                }
            };
            let new = self.op("Max", &[&new, &one], vec![]);
            let offset = self.offset(input.position, &frame, &new)?;
            let scale = self.op("Div", &[&new, &old[axis]], vec![]);
            axes.push(Axis { old: old[axis].clone(), new, offset, scale, frame: input.frame[axis] });
        }
        let both = <[Axis; 2]>::try_from(axes);
        both.map_err(|_| ExportError::Refused("an image has two axes".into()))
    }

    /// `side · old / shortest`, rounded down; exact, since sides of images are small whole numbers.
    fn proportional(&mut self, of: &str, side: usize, old: &[String], axis: usize) -> Result<String, ExportError> {
        let base = self.op(of, &[&old[0], &old[1]], vec![]);
        let side = self.double(side as f64)?;
        let product = self.op("Mul", &[&side, &old[axis]], vec![]);
        let exact = self.op("Div", &[&product, &base], vec![]);
        Ok(self.op("Floor", &[&exact], vec![]))
    }

    fn offset(&mut self, position: Position, frame: &str, new: &str) -> Result<String, ExportError> {
        let missing = self.op("Sub", &[frame, new], vec![]);
        let half = self.double(0.5)?;
        let middle = self.op("Mul", &[&missing, &half], vec![]);
        Ok(match position {
            Position::Center => {
                let (border, crop) = (self.op("Floor", &[&middle], vec![]), self.op("Round", &[&middle], vec![]));
                let zero = self.double(0.0)?;
                let is_cropped = self.op("Less", &[&missing, &zero], vec![]);
                self.op("Where", &[&is_cropped, &crop, &border], vec![])
            }
            Position::Letterbox => {
                // A tenth less than the middle, to the nearest: what is odd comes behind.
                let tenth = self.double(0.1)?;
                let before = self.op("Sub", &[&middle, &tenth], vec![]);
                let whole = self.op("Round", &[&before], vec![]);
                let zero = self.double(0.0)?;
                self.op("Max", &[&whole, &zero], vec![])
            }
        })
    }

    /// The value around an image. It is 0 where rows and columns have no weights.
    fn filled(&mut self, fill: u8, pixels: String, axes: &[Axis; 2]) -> Result<String, ExportError> {
        if fill == 0 {
            return Ok(pixels);
        }
        let mut inside = Vec::new();
        for (axis, dims) in axes.iter().zip([[axes[0].frame, 1], [1, axes[1].frame]]) {
            let positions: Vec<f64> = (0..axis.frame).map(|position| position as f64).collect();
            let positions = self.doubles(&positions, &dims)?;
            inside.push(self.is_inside(axis, &positions)?);
        }
        let is_covered = self.op("And", &[&inside[0], &inside[1]], vec![]);
        let fill = self.scalar(f64::from(fill), DType::F32)?;
        Ok(self.op("Where", &[&is_covered, &pixels, &fill], vec![]))
    }

    pub(super) fn doubles(&mut self, values: &[f64], dims: &[usize]) -> Result<String, ExportError> {
        let tensor = HostTensor::from_f64s(Shape::new(DType::F64, dims), values);
        let tensor = tensor.map_err(|error| ExportError::Refused(error.to_string()))?;
        Ok(self.tensor("positions", dims, DType::F64, tensor.bytes()))
    }
}
