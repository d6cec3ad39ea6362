//! Filter weights along one axis, and the arithmetic of the libraries that they are applied with.

use super::preprocess::{Axis, Kernel, Sampling};
use super::writer::{Writer, graph, int};
use crate::ExportError;
use octant_graph::DType;

/// A weight of one in OpenCV's fixed point.
const OPENCV_ONE: f64 = 2048.0;

impl Writer<'_> {
    /// The filter weights of an axis, `[frame, old]` in f32. Rows outside of the image are zero.
    pub(super) fn weights_of(&mut self, axis: &Axis, sampling: Sampling) -> Result<String, ExportError> {
        let positions: Vec<f64> = (0..axis.frame).map(|position| position as f64).collect();
        let positions = self.doubles(&positions, &[axis.frame, 1])?;
        let [zero, one] = [self.double(0.0)?, self.double(1.0)?];
        let is_inside = self.is_inside(axis, &positions)?;
        let pixels = self.op("Range", &[&zero, &axis.old, &one], vec![]);
        let step = self.op("Div", &[&axis.old, &axis.new], vec![]);
        let center = self.center(axis, &positions, &step)?;
        let weights = match sampling {
            Sampling::Antialiased { kernel, bytes_between } => {
                let weights = self.antialiased(kernel, &pixels, &center, &step, &axis.old)?;
                if bytes_between { self.rounded(&weights, 22)? } else { weights }
            }
            Sampling::Linear { opencv: false } => self.linear(&pixels, &center, &axis.old)?,
            Sampling::Linear { opencv: true } => {
                // As whole numbers, so that sums are exact.
                let center = self.in_single(&center)?;
                let weights = self.linear(&pixels, &center, &axis.old)?;
                let unit = self.double(OPENCV_ONE)?;
                let scaled = self.op("Mul", &[&weights, &unit], vec![]);
                self.op("Round", &[&scaled], vec![])
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

    /// Which positions of the frame are pixels of the image.
    pub(super) fn is_inside(&mut self, axis: &Axis, positions: &str) -> Result<String, ExportError> {
        let zero = self.double(0.0)?;
        let at = self.op("Sub", &[positions, &axis.offset], vec![]);
        let begun = self.op("GreaterOrEqual", &[&at, &zero], vec![]);
        let ended = self.op("Less", &[&at, &axis.new], vec![]);
        Ok(self.op("And", &[&begun, &ended], vec![]))
    }

    /// The center of a position of the frame, in pixels of the image.
    fn center(&mut self, axis: &Axis, positions: &str, step: &str) -> Result<String, ExportError> {
        let half = self.double(0.5)?;
        let at = self.op("Sub", &[positions, &axis.offset], vec![]);
        let middle = self.op("Add", &[&at, &half], vec![]);
        Ok(self.op("Mul", &[&middle, step], vec![]))
    }

    /// Rounded to single precision where OpenCV does: half a pixel before the center.
    fn in_single(&mut self, center: &str) -> Result<String, ExportError> {
        let half = self.double(0.5)?;
        let before = self.op("Sub", &[center, &half], vec![]);
        let single = self.op("Cast", &[&before], vec![int("to", 1)]);
        let exact = self.op("Cast", &[&single], vec![int("to", 11)]);
        Ok(self.op("Add", &[&exact, &half], vec![]))
    }

    /// OpenCV's vertical pass over sums of 11 fractional bits along the rows: 7 of them are kept, every product with the
    /// weight of a row is cut off by 16 bits, and the sum of both rounds the last two.
    pub(super) fn in_opencvs_steps(&mut self, axis: &Axis, planes: &str, across: &str) -> Result<String, ExportError> {
        let sums = self.op("MatMul", &[planes, across], vec![]);
        let positions: Vec<f64> = (0..axis.frame).map(|position| position as f64).collect();
        let positions = self.doubles(&positions, &[axis.frame])?;
        let [zero, one, half] = [self.double(0.0)?, self.double(1.0)?, self.double(0.5)?];
        let step = self.op("Div", &[&axis.old, &axis.new], vec![]);
        let center = self.center(axis, &positions, &step)?;
        let center = self.in_single(&center)?;
        let at = self.op("Sub", &[&center, &half], vec![]);
        let first = self.op("Floor", &[&at], vec![]);
        let share = self.op("Sub", &[&at, &first], vec![]);
        let rest = self.op("Sub", &[&one, &share], vec![]);
        let second = self.op("Add", &[&first, &one], vec![]);
        let last = self.op("Sub", &[&axis.old, &one], vec![]);
        let [unit, sixteen, cut] = [self.double(OPENCV_ONE)?, self.double(16.0)?, self.double(65536.0)?];
        let behind = self.integers(&[1]);
        let mut products = Vec::new();
        for (row, weight) in [(first, rest), (second, share)] {
            let row = self.op("Max", &[&row, &zero], vec![]);
            let row = self.op("Min", &[&row, &last], vec![]);
            let row = self.op("Cast", &[&row], vec![int("to", 7)]);
            let picked = self.op("Gather", &[&sums, &row], vec![int("axis", 1)]);
            let picked = self.op("Cast", &[&picked], vec![int("to", 11)]);
            let kept = self.op("Div", &[&picked, &sixteen], vec![]);
            let kept = self.op("Floor", &[&kept], vec![]);
            let weight = self.op("Mul", &[&weight, &unit], vec![]);
            let weight = self.op("Round", &[&weight], vec![]);
            let weight = self.op("Unsqueeze", &[&weight, &behind], vec![]);
            let product = self.op("Mul", &[&kept, &weight], vec![]);
            let product = self.op("Div", &[&product, &cut], vec![]);
            products.push(self.op("Floor", &[&product], vec![]));
        }
        let [two, four] = [self.double(2.0)?, self.double(4.0)?];
        let sum = self.op("Add", &[&products[0], &products[1]], vec![]);
        let sum = self.op("Add", &[&sum, &two], vec![]);
        let sum = self.op("Div", &[&sum, &four], vec![]);
        let whole = self.op("Floor", &[&sum], vec![]);
        Ok(self.op("Cast", &[&whole], vec![int("to", 1)]))
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
    pub(super) fn weights_back(&mut self, axis: &Axis, extends: bool) -> Result<String, ExportError> {
        let [zero, one, half] = [self.double(0.0)?, self.double(1.0)?, self.double(0.5)?];
        let frame = self.double(axis.frame as f64)?;
        let pixels = self.op("Range", &[&zero, &axis.old, &one], vec![]);
        let last = self.integers(&[1]);
        let pixels = self.op("Unsqueeze", &[&pixels, &last], vec![]);
        let middle = self.op("Add", &[&pixels, &half], vec![]);
        let scaled = self.op("Mul", &[&middle, &axis.scale], vec![]);
        let mut center = self.op("Add", &[&scaled, &axis.offset], vec![]);
        if extends {
            let above = self.op("Max", &[&center, &zero], vec![]);
            center = self.op("Min", &[&above, &frame], vec![]);
        }
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
    pub(super) fn in_pillows_order(
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
        let branches = vec![graph("then_branch", then), graph("else_branch", otherwise)];
        Ok(self.op("If", &[&is_vertical], branches))
    }

    /// Whole numbers from 0 to 255, in f32; floats round half to even, fixed point rounds half up.
    pub(super) fn bytes(&mut self, values: &str, is_float: bool) -> Result<String, ExportError> {
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
}
