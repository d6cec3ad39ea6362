//! From an image of any size to what the network sees.
//!
//! Other runtimes have a Resize operator, but none that antialiases as Pillow does: onnxruntime's is up to 20 gray levels
//! away from it. So a resize is what it is in Octant, two matrices of filter weights, one per axis, which the file computes
//! from the size of the image. Crops and borders are rows of the same matrices: a row outside of the image is zero.

use super::info;
use super::proto::ValueInfo;
use super::writer::{Writer, int, ints};
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
    /// Straight lines between pixels; OpenCV's weights have 11 fractional bits.
    Linear {
        /// Whether the weights are OpenCV's.
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
    new: String,
    /// Pixels of the frame before the image; negative where it is cropped.
    pub offset: String,
    /// `new / old`.
    pub scale: String,
    /// Pixels of the frame.
    frame: usize,
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
        let rows = self.weights_of(vertical, input.sampling)?;
        let columns = self.weights_of(horizontal, input.sampling)?;
        let across = self.op("Transpose", &[&columns], vec![ints("perm", &[1, 0])]);
        let between = matches!(input.sampling, Sampling::Antialiased { bytes_between: true, .. });
        let resized = match between {
            false => {
                let wide = self.op("MatMul", &[&planes, &across], vec![]);
                self.op("MatMul", &[&rows, &wide], vec![])
            }
            true => self.in_pillows_order(&axes, &planes, &rows, &across)?,
        };
        let resized = self.filled(input.fill, resized, &rows, &columns)?;
        let is_float = matches!(input.sampling, Sampling::Antialiased { bytes_between: false, .. })
            || input.sampling == Sampling::Linear { opencv: false };
        let pixels = self.bytes(&resized, is_float)?;
        let pixels = self.op("Cast", &[&pixels], vec![int("to", 2)]);
        let first = self.integers(&[0]);
        let images = self.op("Unsqueeze", &[&pixels, &first], vec![]);
        let dims = [("height", None), ("width", None), ("", Some(input.channels))];
        let mut declared = info("image", DType::U8, &[Dim::Fixed(0), Dim::Fixed(0), Dim::Fixed(input.channels)]);
        for (index, (name, _)) in dims.iter().enumerate().filter(|(_, (_, fixed))| fixed.is_none()) {
            super::name_dimension(&mut declared, index, name);
        }
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

    /// The filter weights of an axis, `[frame, old]` in f32. Rows outside of the image are zero.
    fn weights_of(&mut self, axis: &Axis, sampling: Sampling) -> Result<String, ExportError> {
        let positions: Vec<f64> = (0..axis.frame).map(|position| position as f64).collect();
        let positions = self.doubles(&positions, &[axis.frame, 1])?;
        let [zero, one, half] = [self.double(0.0)?, self.double(1.0)?, self.double(0.5)?];
        let at = self.op("Sub", &[&positions, &axis.offset], vec![]);
        let begun = self.op("GreaterOrEqual", &[&at, &zero], vec![]);
        let ended = self.op("Less", &[&at, &axis.new], vec![]);
        let is_inside = self.op("And", &[&begun, &ended], vec![]);
        let pixels = self.op("Range", &[&zero, &axis.old, &one], vec![]);
        // The center of a pixel of the frame, in pixels of the image.
        let middle = self.op("Add", &[&at, &half], vec![]);
        let step = self.op("Div", &[&axis.old, &axis.new], vec![]);
        let center = self.op("Mul", &[&middle, &step], vec![]);
        let weights = match sampling {
            Sampling::Antialiased { kernel, bytes_between } => {
                let weights = self.antialiased(kernel, &pixels, &center, &step, &axis.old)?;
                if bytes_between { self.rounded(&weights, 22)? } else { weights }
            }
            Sampling::Linear { opencv } => {
                let weights = self.linear(&pixels, &center, &axis.old)?;
                if opencv { self.rounded(&weights, 11)? } else { weights }
            }
            Sampling::Nearest => {
                let last = self.op("Sub", &[&axis.old, &one], vec![]);
                let nearest = self.op("Floor", &[&center], vec![]);
                let nearest = self.op("Min", &[&nearest, &last], vec![]);
                let is_nearest = self.op("Equal", &[&pixels, &nearest], vec![]);
                self.op("Where", &[&is_nearest, &one, &zero], vec![])
            }
        };
        let weights = self.op("Where", &[&is_inside, &weights, &zero], vec![]);
        Ok(self.op("Cast", &[&weights], vec![int("to", 1)]))
    }

    /// Every pixel that a kernel reaches, whose weights add up to 1.
    fn antialiased(
        &mut self,
        kernel: Kernel,
        pixels: &str,
        center: &str,
        step: &str,
        old: &str,
    ) -> Result<String, ExportError> {
        let [zero, one, half] = [self.double(0.0)?, self.double(1.0)?, self.double(0.5)?];
        let radius = self.double(if kernel == Kernel::Cubic { 2.0 } else { 1.0 })?;
        let width = self.op("Max", &[step, &one], vec![]);
        let support = self.op("Mul", &[&radius, &width], vec![]);
        let bounds = ["Sub", "Add"].map(|op| {
            let bound = self.op(op, &[center, &support], vec![]);
            let bound = self.op("Add", &[&bound, &half], vec![]);
            self.op("Floor", &[&bound], vec![])
        });
        let first = self.op("Max", &[&bounds[0], &zero], vec![]);
        let end = self.op("Min", &[&bounds[1], old], vec![]);
        let distance = self.op("Sub", &[pixels, center], vec![]);
        let distance = self.op("Add", &[&distance, &half], vec![]);
        let distance = self.op("Div", &[&distance, &width], vec![]);
        let distance = self.op("Abs", &[&distance], vec![]);
        let value = match kernel {
            Kernel::Triangle => {
                let height = self.op("Sub", &[&one, &distance], vec![]);
                self.op("Max", &[&height, &zero], vec![])
            }
            Kernel::Cubic => {
                let near = self.polynomial(&distance, &[1.5, -2.5, 0.0, 1.0])?;
                let far = self.polynomial(&distance, &[-0.5, 2.5, -4.0, 2.0])?;
                let two = self.double(2.0)?;
                let [is_near, is_far] = [&one, &two].map(|limit| self.op("Less", &[&distance, limit], vec![]));
                let far = self.op("Where", &[&is_far, &far, &zero], vec![]);
                self.op("Where", &[&is_near, &near, &far], vec![])
            }
        };
        let begun = self.op("GreaterOrEqual", &[pixels, &first], vec![]);
        let ended = self.op("Less", &[pixels, &end], vec![]);
        let is_reached = self.op("And", &[&begun, &ended], vec![]);
        let value = self.op("Where", &[&is_reached, &value, &zero], vec![]);
        let last = self.integers(&[1]);
        let sum = self.op("ReduceSum", &[&value, &last], vec![int("keepdims", 1)]);
        // Rows outside of the image reach no pixel.
        let is_empty = self.op("Equal", &[&sum, &zero], vec![]);
        let sum = self.op("Where", &[&is_empty, &one, &sum], vec![]);
        Ok(self.op("Div", &[&value, &sum], vec![]))
    }

    /// The two neighbors of a center; pixels outside are those of the edge.
    fn linear(&mut self, pixels: &str, center: &str, old: &str) -> Result<String, ExportError> {
        let [zero, one, half] = [self.double(0.0)?, self.double(1.0)?, self.double(0.5)?];
        let last = self.op("Sub", &[old, &one], vec![]);
        let at = self.op("Sub", &[center, &half], vec![]);
        let at = self.op("Max", &[&at, &zero], vec![]);
        let at = self.op("Min", &[&at, &last], vec![]);
        let distance = self.op("Sub", &[pixels, &at], vec![]);
        let distance = self.op("Abs", &[&distance], vec![]);
        let height = self.op("Sub", &[&one, &distance], vec![]);
        Ok(self.op("Max", &[&height, &zero], vec![]))
    }

    /// The weights by which pixels of the image read a map of the frame, `[old, frame]` in f32; zero outside of the frame.
    pub(super) fn weights_back(&mut self, axis: &Axis) -> Result<String, ExportError> {
        let [zero, one, half] = [self.double(0.0)?, self.double(1.0)?, self.double(0.5)?];
        let frame = self.double(axis.frame as f64)?;
        let pixels = self.op("Range", &[&zero, &axis.old, &one], vec![]);
        let last = self.integers(&[1]);
        let pixels = self.op("Unsqueeze", &[&pixels, &last], vec![]);
        let middle = self.op("Add", &[&pixels, &half], vec![]);
        let scaled = self.op("Mul", &[&middle, &axis.scale], vec![]);
        let center = self.op("Add", &[&scaled, &axis.offset], vec![]);
        let begun = self.op("GreaterOrEqual", &[&center, &zero], vec![]);
        let ended = self.op("LessOrEqual", &[&center, &frame], vec![]);
        let is_inside = self.op("And", &[&begun, &ended], vec![]);
        let positions: Vec<f64> = (0..axis.frame).map(|position| position as f64).collect();
        let positions = self.doubles(&positions, &[1, axis.frame])?;
        let weights = self.linear(&positions, &center, &frame)?;
        let weights = self.op("Where", &[&is_inside, &weights, &zero], vec![]);
        Ok(self.op("Cast", &[&weights], vec![int("to", 1)]))
    }

    /// A polynomial by Horner's rule, the highest power first.
    fn polynomial(&mut self, x: &str, factors: &[f64]) -> Result<String, ExportError> {
        let mut value = self.double(factors[0])?;
        for &factor in &factors[1..] {
            let factor = self.double(factor)?;
            value = self.op("Mul", &[&value, x], vec![]);
            value = self.op("Add", &[&value, &factor], vec![]);
        }
        Ok(value)
    }

    /// Weights with so many fractional bits.
    fn rounded(&mut self, weights: &str, bits: u32) -> Result<String, ExportError> {
        let unit = self.double(f64::from(1u32 << bits))?;
        let scaled = self.op("Mul", &[weights, &unit], vec![]);
        let whole = self.op("Round", &[&scaled], vec![]);
        Ok(self.op("Div", &[&whole, &unit], vec![]))
    }

    /// Both passes with bytes between them. Pillow begins with the rows where it removes more than twice as many of them as
    /// columns.
    fn in_pillows_order(
        &mut self,
        [vertical, horizontal]: &[Axis; 2],
        planes: &str,
        rows: &str,
        across: &str,
    ) -> Result<String, ExportError> {
        let removed = [vertical, horizontal].map(|axis| self.op("Sub", &[&axis.old, &axis.new], vec![]));
        let [zero, two] = [self.double(0.0)?, self.double(2.0)?];
        let twice = self.op("Mul", &[&removed[1], &two], vec![]);
        let is_more = self.op("Greater", &[&removed[0], &twice], vec![]);
        let is_removed = self.op("Greater", &[&removed[0], &zero], vec![]);
        let is_vertical = self.op("And", &[&is_more, &is_removed], vec![]);
        let begun = self.branch();
        let tall = self.op("MatMul", &[rows, planes], vec![]);
        let tall = self.bytes(&tall, false)?;
        let vertical_first = self.op("MatMul", &[&tall, across], vec![]);
        let then = self.end_branch(begun, &vertical_first);
        let begun = self.branch();
        let wide = self.op("MatMul", &[planes, across], vec![]);
        let wide = self.bytes(&wide, false)?;
        let horizontal_first = self.op("MatMul", &[rows, &wide], vec![]);
        let otherwise = self.end_branch(begun, &horizontal_first);
        let branches = vec![super::writer::graph("then_branch", then), super::writer::graph("else_branch", otherwise)];
        Ok(self.op("If", &[&is_vertical], branches))
    }

    /// The value around an image, where rows or columns of the frame have no weights.
    fn filled(&mut self, fill: u8, resized: String, rows: &str, columns: &str) -> Result<String, ExportError> {
        if fill == 0 {
            return Ok(resized);
        }
        let last = self.integers(&[1]);
        let [down, across] = [rows, columns].map(|weights| {
            let sum = self.op("ReduceSum", &[weights, &last], vec![int("keepdims", 0)]);
            // Fixed-point weights add up to 1 within their rounding.
            self.op("Round", &[&sum], vec![])
        });
        let down = self.op("Unsqueeze", &[&down, &last], vec![]);
        let covered = self.op("Mul", &[&down, &across], vec![]);
        let one = self.scalar(1.0, DType::F32)?;
        let fill = self.scalar(f64::from(fill), DType::F32)?;
        let free = self.op("Sub", &[&one, &covered], vec![]);
        let border = self.op("Mul", &[&free, &fill], vec![]);
        Ok(self.op("Add", &[&resized, &border], vec![]))
    }

    /// Whole numbers from 0 to 255, in f32; floats round half to even, fixed point rounds half up.
    fn bytes(&mut self, values: &str, is_float: bool) -> Result<String, ExportError> {
        let whole = match is_float {
            true => self.op("Round", &[values], vec![]),
            false => {
                let half = self.scalar(0.5, DType::F32)?;
                let sum = self.op("Add", &[values, &half], vec![]);
                self.op("Floor", &[&sum], vec![])
            }
        };
        let [low, high] = [self.scalar(0.0, DType::F32)?, self.scalar(255.0, DType::F32)?];
        Ok(self.op("Clip", &[&whole, &low, &high], vec![]))
    }

    fn doubles(&mut self, values: &[f64], dims: &[usize]) -> Result<String, ExportError> {
        let tensor = HostTensor::from_f64s(Shape::new(DType::F64, dims), values);
        let tensor = tensor.map_err(|error| ExportError::Refused(error.to_string()))?;
        Ok(self.tensor("positions", dims, DType::F64, tensor.bytes()))
    }
}
