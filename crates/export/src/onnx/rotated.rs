//! Suppression of rotated boxes, for which ONNX has no operator.

use super::proto::{GraphProto, ValueInfo};
use super::writer::{Writer, graph, int};
use super::{info, name_dimension};
use crate::ExportError;
use crate::network::Dim;
use octant_graph::{DType, HostTensor, Shape};

/// The most candidates that are compared with each other: every pair of them is a number.
pub(super) const CONSIDERED: usize = 1024;

/// Rotated boxes of all cells.
pub(super) struct Rotated<'a> {
    /// Before the rotation, `[N, cells, 4]`.
    pub corners: &'a str,
    /// Radians `[N, cells, 1]`.
    pub angles: &'a str,
    /// `[N, cells]`.
    pub classes: &'a str,
    pub cells: usize,
}

const PATH: &str = "suppression";
/// Keeps quotients and logarithms finite, as in the predictor.
const EPSILON: f64 = 1e-7;

impl Writer<'_> {
    /// The candidates with the highest scores, of which those that are dropped score 0, and their cells; both `[N, candidates]`.
    ///
    /// A candidate is kept if none that is kept before it overlaps it too much. Starting from all, this rule is applied to all
    /// candidates at once until nothing changes: after `n` rounds the first `n` are decided, usually all after a few.
    pub(super) fn without_rotated(
        &mut self,
        best: &str,
        boxes: &Rotated,
        overlap: f32,
    ) -> Result<(String, String), ExportError> {
        let count = boxes.cells.min(CONSIDERED);
        let [scores, cell] = self.top(best.into(), count);
        let classes = self.emit("GatherElements", PATH, vec![boxes.classes.into(), cell.clone()], vec![int("axis", 1)]);
        let corners = self.rows_at(boxes.corners.into(), &cell);
        let angles = self.rows_at(boxes.angles.into(), &cell);
        let excludes = self.exclusions(&corners, &angles, &classes, count, overlap)?;
        let keeps = self.settled(&scores, &excludes, count)?;
        Ok((self.emit("Mul", PATH, vec![scores, keeps], vec![]), cell))
    }

    fn two(&mut self, op: &str, a: &str, b: &str) -> String {
        self.emit(op, PATH, vec![a.into(), b.into()], vec![])
    }

    fn by(&mut self, op: &str, a: &str, number: f64) -> Result<String, ExportError> {
        let number = self.scalar(number, DType::F32)?;
        Ok(self.two(op, a, &number))
    }

    /// Width, height and center, each `[…, 1]`, of corners `[…, 4]`.
    pub(super) fn sides_and_center(&mut self, corners: &str) -> Result<[String; 4], ExportError> {
        let [x0, y0, x1, y1] = [0, 1, 2, 3].map(|column| self.columns(corners, column, column + 1, PATH));
        let (width, height) = (self.two("Sub", &x1, &x0), self.two("Sub", &y1, &y0));
        let (x, y) = (self.two("Add", &x0, &x1), self.two("Add", &y0, &y1));
        Ok([width, height, self.by("Mul", &x, 0.5)?, self.by("Mul", &y, 0.5)?])
    }

    /// 1 where the first candidate excludes the second if it is kept, `[N, count, count]`.
    fn exclusions(
        &mut self,
        corners: &str,
        angles: &str,
        classes: &str,
        count: usize,
        limit: f32,
    ) -> Result<String, ExportError> {
        let [width, height, x, y] = self.sides_and_center(corners)?;
        // Variances of the Gaussian that stands for a box, and its covariance.
        let [u, v] = [self.two("Mul", &width, &width), self.two("Mul", &height, &height)];
        let [u, v] = [self.by("Div", &u, 12.0)?, self.by("Div", &v, 12.0)?];
        let [cos, sin] = ["Cos", "Sin"].map(|op| self.emit(op, PATH, vec![angles.into()], vec![]));
        let [cos2, sin2] = [self.two("Mul", &cos, &cos), self.two("Mul", &sin, &sin)];
        let mixed = |writer: &mut Self, first: &str, second: &str| {
            let [first, second] = [writer.two("Mul", &u, first), writer.two("Mul", &v, second)];
            writer.two("Add", &first, &second)
        };
        let (a, b) = (mixed(self, &cos2, &sin2), mixed(self, &sin2, &cos2));
        let skew = self.two("Sub", &u, &v);
        let c = self.two("Mul", &cos, &sin);
        let c = self.two("Mul", &skew, &c);
        let own = self.determinant(&a, &b, &c)?;
        // Every number of the first candidate, with every number of the second.
        let pairs = |writer: &mut Self, op: &str, column: &str| {
            let perm = vec![super::writer::ints("perm", &[0, 2, 1])];
            let row = writer.emit("Transpose", PATH, vec![column.into()], perm);
            writer.two(op, column, &row)
        };
        let [own, x, y] = [pairs(self, "Mul", &own), pairs(self, "Sub", &x), pairs(self, "Sub", &y)];
        let [a, b, c] = [a, b, c].map(|column| pairs(self, "Add", &column));
        let both = self.determinant(&a, &b, &c)?;
        let safe = self.by("Add", &both, EPSILON)?;
        let [x2, y2, xy] = [self.two("Mul", &x, &x), self.two("Mul", &y, &y), self.two("Mul", &x, &y)];
        let [ay, bx, cxy] = [self.two("Mul", &a, &y2), self.two("Mul", &b, &x2), self.two("Mul", &c, &xy)];
        let squares = self.two("Add", &ay, &bx);
        let [squares, cxy] = [self.by("Mul", &squares, 0.25)?, self.by("Mul", &cxy, 0.5)?];
        let near = self.two("Sub", &squares, &cxy);
        let near = self.two("Div", &near, &safe);
        let root = self.emit("Sqrt", PATH, vec![own], vec![]);
        let root = self.by("Mul", &root, 4.0)?;
        let root = self.by("Add", &root, EPSILON)?;
        let ratio = self.two("Div", &both, &root);
        let ratio = self.by("Add", &ratio, EPSILON)?;
        let shape = self.emit("Log", PATH, vec![ratio], vec![]);
        let shape = self.by("Mul", &shape, 0.5)?;
        let distance = self.two("Add", &near, &shape);
        let bounds = [self.scalar(EPSILON, DType::F32)?, self.scalar(100.0, DType::F32)?];
        let distance = self.emit("Clip", PATH, [vec![distance], bounds.to_vec()].concat(), vec![]);
        // 1 - √(1 - exp(-distance)) above the limit, without the difference of near numbers.
        let least = (1.0 - (1.0 - f64::from(limit)).powi(2) + EPSILON).ln();
        let meets = self.by("Less", &distance, -least)?;
        let classes = {
            let last = self.integers(&[-1]);
            self.emit("Unsqueeze", PATH, vec![classes.into(), last], vec![])
        };
        let is_class = pairs(self, "Equal", &classes);
        let order = self.order(count)?;
        let excludes = self.two("And", &meets, &is_class);
        let excludes = self.two("And", &excludes, &order);
        Ok(self.emit("Cast", PATH, vec![excludes], vec![int("to", 1)]))
    }

    /// `max(ab - c², 0)`.
    fn determinant(&mut self, a: &str, b: &str, c: &str) -> Result<String, ExportError> {
        let [product, square] = [self.two("Mul", a, b), self.two("Mul", c, c)];
        let determinant = self.two("Sub", &product, &square);
        self.by("Max", &determinant, 0.0)
    }

    /// Whether the first candidate comes before the second, `[1, count, count]`.
    fn order(&mut self, count: usize) -> Result<String, ExportError> {
        let numbers: Vec<f64> = (0..count).map(|number| number as f64).collect();
        let numbers = HostTensor::from_f64s(Shape::new(DType::I64, [count]), &numbers);
        let numbers = numbers.map_err(|error| ExportError::Refused(error.to_string()))?;
        let [first, second] =
            [[1, count, 1], [1, 1, count]].map(|dims| self.tensor("candidates", &dims, DType::I64, numbers.bytes()));
        Ok(self.two("Less", &first, &second))
    }

    /// 1 for every candidate that is kept, 0 for the others.
    fn settled(&mut self, scores: &str, excludes: &str, count: usize) -> Result<String, ExportError> {
        let none = self.two("Sub", scores, scores);
        let all = self.by("Add", &none, 1.0)?;
        let [before, round, continues] = ["kept_before", "round", "continues"].map(|name| format!("{PATH}/{name}"));
        [&before, &round, &continues].into_iter().for_each(|name| self.reserve(name));
        let begun = self.branch();
        let one = self.integers(&[1]);
        let row = self.two("Unsqueeze", &before, &one);
        let against = self.two("MatMul", &row, excludes);
        let against = self.two("Squeeze", &against, &one);
        let is_free = self.by("Equal", &against, 0.0)?;
        let now = self.emit("Cast", PATH, vec![is_free], vec![int("to", 1)]);
        let changes = self.two("Sub", &now, &before);
        let changes = self.emit("Abs", PATH, vec![changes], vec![]);
        let largest = self.emit("ReduceMax", PATH, vec![changes], vec![int("keepdims", 0)]);
        let has_changed = self.by("Greater", &largest, 0.0)?;
        let body = GraphProto {
            name: format!("{PATH}/rounds"),
            node: self.since(begun),
            input: vec![info(&round, DType::I64, &[]), info(&continues, DType::Bool, &[]), rows_of(&before, count)],
            output: vec![info(&has_changed, DType::Bool, &[]), rows_of(&now, count)],
            ..GraphProto::default()
        };
        let most = self.scalar(count as f64, DType::I64)?;
        let begins = self.tensor("begins", &[], DType::Bool, &[1]);
        Ok(self.emit("Loop", PATH, vec![most, begins, all], vec![graph("body", body)]))
    }
}

/// A row of numbers per image.
fn rows_of(name: &str, count: usize) -> ValueInfo {
    let mut declared = info(name, DType::F32, &[Dim::Fixed(0), Dim::Fixed(count)]);
    name_dimension(&mut declared, 0, "batch");
    declared
}
