//! What detectors predict of objects beside their boxes.

use super::boxes::KeptBoxes;
use super::preprocess::Axis;
use super::writer::{Writer, int};
use crate::ExportError;
use crate::network::Dim;
use octant_graph::{DType, ValueId};

const PATH: &str = "details";

/// An output beside boxes, without the batch.
pub(super) struct DetailPort {
    pub name: &'static str,
    pub dtype: DType,
    pub dims: Vec<Dim>,
    /// The names of the first dimensions where these follow the image.
    pub varying: &'static [&'static str],
}

/// The boxes, and the other outputs.
type WithDetails = (String, Vec<(String, DetailPort)>);

impl Writer<'_> {
    fn two_of(&mut self, op: &str, a: &str, b: &str) -> String {
        self.emit(op, PATH, vec![a.into(), b.into()], vec![])
    }

    fn joined(&mut self, parts: &[&str], axis: i64) -> String {
        self.emit("Concat", PATH, parts.iter().map(ToString::to_string).collect(), vec![int("axis", axis)])
    }

    fn shaped(&mut self, name: &str, dims: &[i64]) -> String {
        let dims = self.integers(dims);
        self.two_of("Reshape", name, &dims)
    }

    /// Keypoints `[N, most, count, columns]`.
    pub(super) fn with_keypoints(
        &mut self,
        kept: &KeptBoxes,
        [count, columns]: [usize; 2],
        axes: Option<&[Axis; 2]>,
    ) -> Result<WithDetails, ExportError> {
        let boxes = self.in_image(&kept.corners, axes)?;
        let mut points = self.shaped(&kept.details, &[0, 0, count as i64, columns as i64]);
        if let Some(axes) = axes {
            points = self.alone(&points);
            let places = self.columns(&points, 0, 2, PATH);
            let moved = self.moved(&places, axes)?;
            points = match columns {
                2 => moved,
                _ => {
                    let seen = self.columns(&points, 2, columns, PATH);
                    self.joined(&[&moved, &seen], 2)
                }
            };
        }
        let dims = [kept.most, count, columns].map(Dim::Fixed).to_vec();
        let port = DetailPort { name: "keypoints", dtype: DType::F32, dims, varying: &[] };
        Ok((boxes, vec![(points, port)]))
    }

    /// The four corners of rotated boxes `[N, most, 4, 2]`; `boxes` are the upright ones around them.
    pub(super) fn with_corners(
        &mut self,
        kept: &KeptBoxes,
        axes: Option<&[Axis; 2]>,
    ) -> Result<WithDetails, ExportError> {
        let (mut corners, mut angles) = (kept.corners.clone(), kept.details.clone());
        if axes.is_some() {
            [corners, angles] = [corners, angles].map(|name| self.alone(&name));
        }
        let [width, height, x, y] = self.sides_and_center(&corners)?;
        let mut center = self.joined(&[&x, &y], -1);
        let half = self.scalar(0.5, DType::F32)?;
        let [mut width, mut height] = [width, height].map(|side| self.two_of("Mul", &side, &half));
        if let Some(axes) = axes {
            center = self.moved(&center, axes)?;
            // Both sides have nearly the same scale; a rectangle stays one.
            let both = self.two_of("Mul", &axes[0].scale, &axes[1].scale);
            let scale = self.emit("Sqrt", PATH, vec![both], vec![]);
            let scale = self.emit("Cast", PATH, vec![scale], vec![int("to", 1)]);
            [width, height] = [width, height].map(|side| self.two_of("Div", &side, &scale));
        }
        let [cos, sin] = ["Cos", "Sin"].map(|op| self.emit(op, PATH, vec![angles.clone()], vec![]));
        let [wide_x, wide_y] = [&cos, &sin].map(|share| self.two_of("Mul", &width, share));
        let [high_x, high_y] = [&sin, &cos].map(|share| self.two_of("Mul", &height, share));
        let high_x = self.emit("Neg", PATH, vec![high_x], vec![]);
        let [along, across] = [[&wide_x, &wide_y], [&high_x, &high_y]].map(|[x, y]| self.joined(&[x, y], -1));
        let [ahead, behind] = ["Add", "Sub"].map(|op| self.two_of(op, &center, &along));
        let sides = [("Add", &ahead), ("Sub", &ahead), ("Sub", &behind), ("Add", &behind)];
        let at = self.integers(&[-2]);
        let points = sides.map(|(op, side)| {
            let corner = self.two_of(op, side, &across);
            self.two_of("Unsqueeze", &corner, &at)
        });
        let points = self.joined(&points.each_ref().map(String::as_str), -2);
        let bounds = ["ReduceMin", "ReduceMax"]
            .map(|op| self.emit(op, PATH, vec![points.clone(), at.clone()], vec![int("keepdims", 0)]));
        let boxes = self.joined(&bounds.each_ref().map(String::as_str), -1);
        let dims = [kept.most, 4, 2].map(Dim::Fixed).to_vec();
        Ok((boxes, vec![(points, DetailPort { name: "corners", dtype: DType::F32, dims, varying: &[] })]))
    }

    /// Logits of masks at the size of the prototypes; with the preprocessing in the file masks of the objects that were found, in
    /// pixels of the image.
    pub(super) fn with_masks(
        &mut self,
        kept: &KeptBoxes,
        prototypes: ValueId,
        stride: usize,
        axes: Option<&[Axis; 2]>,
    ) -> Result<WithDetails, ExportError> {
        let &[_, height, width, count] = self.shape(prototypes).dims() else {
            return Err(ExportError::Refused("prototypes of masks are maps".into()));
        };
        let boxes = self.in_image(&kept.corners, axes)?;
        let maps = self.operand(prototypes, &[0, 3, 1, 2])?;
        let maps = self.shaped(&maps, &[0, count as i64, -1]);
        let Some(axes) = axes else {
            let logits = self.two_of("MatMul", &kept.details, &maps);
            let logits = self.shaped(&logits, &[0, 0, height as i64, width as i64]);
            let dims = [kept.most, height, width].map(Dim::Fixed).to_vec();
            let port = DetailPort { name: "mask_logits", dtype: DType::F32, dims, varying: &[] };
            return Ok((boxes, vec![(logits, port)]));
        };
        let [maps, coefficients, scores] = [&maps, &kept.details, &kept.scores].map(|name| self.alone(name));
        let (zero, objects) = (self.scalar(0.0, DType::F32)?, self.integers(&[0]));
        let is_object = self.two_of("Greater", &scores, &zero);
        let is_object = self.emit("Cast", PATH, vec![is_object], vec![int("to", 7)]);
        let found = self.emit("ReduceSum", PATH, vec![is_object, objects.clone()], vec![int("keepdims", 1)]);
        let first = |writer: &mut Self, name: &str, count: &str| {
            let inputs = vec![name.to_string(), objects.clone(), count.into(), objects.clone()];
            writer.emit("Slice", PATH, inputs, vec![])
        };
        // Runtimes do not multiply matrices without rows: one is computed where nothing was found, and left away.
        let one = self.integers(&[1]);
        let computed = self.two_of("Max", &found, &one);
        let (coefficients, places) = (first(self, &coefficients, &computed), first(self, &boxes, &computed));
        let logits = self.two_of("MatMul", &coefficients, &maps);
        let logits = self.shaped(&logits, &[-1, height as i64, width as i64]);
        let is_marked = self.enlarged(&logits, axes, [height, width], stride)?;
        let is_marked = self.two_of("Greater", &is_marked, &zero);
        let is_inside = self.inside(&places, axes)?;
        let is_marked = self.two_of("And", &is_marked, &is_inside);
        let [marked, free] = [self.scalar(255.0, DType::U8)?, self.scalar(0.0, DType::U8)?];
        let masks = self.emit("Where", PATH, vec![is_marked, marked, free], vec![]);
        let masks = first(self, &masks, &found);
        let port = DetailPort {
            name: "masks",
            dtype: DType::U8,
            dims: vec![Dim::Fixed(0); 3],
            varying: &["objects", "height", "width"],
        };
        Ok((boxes, vec![(masks, port)]))
    }

    /// Maps of the frame at the size of the image, with straight lines between their values.
    fn enlarged(
        &mut self,
        maps: &str,
        axes: &[Axis; 2],
        size: [usize; 2],
        stride: usize,
    ) -> Result<String, ExportError> {
        let stride = self.double(stride as f64)?;
        let mut weights = Vec::new();
        for (axis, frame) in axes.iter().zip(size) {
            let [scale, offset] = [&axis.scale, &axis.offset].map(|scalar| self.two_of("Div", scalar, &stride));
            let coarse = Axis { scale, offset, frame, ..axis.clone() };
            weights.push(self.weights_back(&coarse, true)?);
        }
        let across = self.permute(&weights[1], &[1, 0]);
        let wide = self.two_of("MatMul", maps, &across);
        Ok(self.two_of("MatMul", &weights[0], &wide))
    }

    /// Whether pixels have their centers in boxes `[objects, 4]` of the image, `[objects, height, width]`.
    fn inside(&mut self, boxes: &str, axes: &[Axis; 2]) -> Result<String, ExportError> {
        let [zero, one, half] = [0.0, 1.0, 0.5].map(|number| self.double(number));
        let (zero, one, half) = (zero?, one?, half?);
        let mut inside = Vec::new();
        let behind = self.integers(&[1]);
        for (axis, (low, dims)) in axes.iter().zip([(1, [1, -1, 1]), (0, [1, 1, -1])]) {
            let pixels = self.emit("Range", PATH, vec![zero.clone(), axis.old.clone(), one.clone()], vec![]);
            let centers = self.two_of("Add", &pixels, &half);
            let centers = self.emit("Cast", PATH, vec![centers], vec![int("to", 1)]);
            let centers = self.shaped(&centers, &dims);
            let edges = [low, low + 2].map(|column| {
                let edge = self.columns(boxes, column, column + 1, PATH);
                self.two_of("Unsqueeze", &edge, &behind)
            });
            let begun = self.two_of("GreaterOrEqual", &centers, &edges[0]);
            let ended = self.two_of("Less", &centers, &edges[1]);
            inside.push(self.two_of("And", &begun, &ended));
        }
        Ok(self.two_of("And", &inside[0], &inside[1]))
    }

    /// Points `[…, 2]` of the frame in pixels of the image.
    fn moved(&mut self, points: &str, [vertical, horizontal]: &[Axis; 2]) -> Result<String, ExportError> {
        let first = self.integers(&[0]);
        let pair = |writer: &mut Self, of_axis: fn(&Axis) -> &String| {
            let numbers = [horizontal, vertical].map(|axis| writer.two_of("Unsqueeze", of_axis(axis), &first));
            writer.joined(&numbers.each_ref().map(String::as_str), 0)
        };
        let (offset, scale) = (pair(self, |axis| &axis.offset), pair(self, |axis| &axis.scale));
        let exact = self.emit("Cast", PATH, vec![points.into()], vec![int("to", 11)]);
        let moved = self.two_of("Sub", &exact, &offset);
        let scaled = self.two_of("Div", &moved, &scale);
        Ok(self.emit("Cast", PATH, vec![scaled], vec![int("to", 1)]))
    }
}
