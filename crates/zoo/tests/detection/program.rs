//! A detector as the programs that the comparison runs.

use octant_graph::{DType, Graph, HostTensor, Shape, Tensor, Trace};
use octant_nn::loss::detection::{
    Aligned, Cells, Head, KeypointTruth, MaskTruth, RotatedBoxes, TaskAligned, TransportLoss, Truth, TruthDetails,
    keypoints_in_pixels, transport,
};
use octant_nn::optimizer::{Optimizer, Sgd, Update};
use octant_nn::{Context, Mode, Precision, Training, Variable, VariableKind, VariableSpec};
use octant_testing::deterministic;
use octant_testing::engine::Engine;
use octant_testing::figures::Figures;
use octant_zoo::{BoxCode, CellDetail, Model};

const SLOTS: usize = 16;
const BATCH: usize = 3;
const RATE: f64 = 1e-6;
const DECAY: f64 = 1e-4;
/// The steps whose gradients are compared, and the state after them.
const COMPARED: [usize; 2] = [0, 2];
/// The second head's share in the first epoch.
const MANY_SHARE: f64 = 0.8;

pub struct Case {
    engine: Engine,
    model: Box<dyn Model>,
    side: usize,
    images: HostTensor,
    corners: HostTensor,
    classes: HostTensor,
    /// What belongs to the network's kind of detail.
    details: HostTensor,
    specs: Vec<VariableSpec>,
}

struct Program {
    graph: Graph,
    variables: Vec<Variable>,
}

/// The boxes of `golden/detectors.py`.
fn boxes(side: usize) -> Vec<(usize, [f64; 4], i32)> {
    let mut all = Vec::new();
    for i in 0..9 {
        let f = i as f64;
        let corners = [0.10 + 0.03 * f, 0.12 + 0.02 * f, 0.45 + 0.04 * f, 0.50 + 0.03 * f];
        all.push((0, corners, i % 3));
    }
    all.push((0, [0.60, 0.60, 0.95, 0.90], 4));
    all.push((0, [0.62, 0.58, 0.93, 0.92], 5));
    all.push((2, [0.0, 0.0, 1.0, 1.0], 7));
    all.push((2, [0.0, 0.3, 0.4, 0.8], 2));
    all.push((2, [0.7, 0.0, 1.0, 0.25], 2));
    all.push((2, [0.47, 0.47, 0.53, 0.55], 9));
    all.push((2, [0.20, 0.85, 0.36, 1.0], 3));
    let pixels = |corners: [f64; 4]| corners.map(|corner| (corner * side as f64).round_ties_even());
    all.into_iter().map(|(image, corners, class)| (image, pixels(corners), class)).collect()
}

impl Case {
    pub fn new(name: &str, figures: &Figures, engine: Engine) -> Case {
        // The labels have ten classes; networks for keypoints come with one.
        let model = octant_zoo::build(name, name.ends_with("-pose").then_some(10)).unwrap();
        let side = figures.size("side");
        let images = deterministic::images_of("images", BATCH, side, 3);
        let (mut corners, mut classes) = (vec![0f32; BATCH * SLOTS * 4], vec![-1i32; BATCH * SLOTS]);
        let mut used = [0; BATCH];
        for (image, pixels, class) in boxes(side) {
            let position = image * SLOTS + used[image];
            corners[position * 4..][..4].iter_mut().zip(pixels).for_each(|(to, from)| *to = from as f32);
            classes[position] = class;
            used[image] += 1;
        }
        let corners = HostTensor::new([BATCH, SLOTS, 4], &corners).unwrap();
        let classes = HostTensor::new([BATCH, SLOTS], &classes).unwrap();
        let details = match model.detector().unwrap().detail {
            CellDetail::None => HostTensor::scalar(0f32),
            CellDetail::Mask { .. } => masks(side),
            CellDetail::Keypoints { .. } => keypoints(side),
            CellDetail::Angle => rotated(side),
        };
        let mut case = Case { engine, model, side, images, corners, classes, details, specs: vec![] };
        case.specs = case.trace(Mode::Evaluate, |_, outputs, _, _| outputs.to_vec()).specs();
        case
    }

    pub fn check_evaluation(&self, figures: &Figures) {
        let program = self.trace(Mode::Evaluate, |trace, outputs, _, _| match self.model.detector().unwrap().detail {
            CellDetail::None => outputs.to_vec(),
            _ => [outputs.to_vec(), vec![self.decoded(trace, &outputs[0])]].concat(),
        });
        let outputs = self.engine.run(&program.graph, &self.inputs(&self.weights()));
        assert_eq!(outputs.len(), figures.names("evaluate").len());
        for (index, output) in outputs.iter().enumerate() {
            figures.compare("evaluate", &format!("output{index}"), &output.to_f64s(), 0.0);
        }
    }

    /// Losses of every step, gradients and state of those in [`COMPARED`].
    pub fn check_training(&self, figures: &Figures, steps: usize) {
        let mut weights = self.weights();
        let parameters: Vec<&VariableSpec> =
            self.specs.iter().filter(|spec| spec.kind == VariableKind::Parameter).collect();
        let mut momenta: Vec<HostTensor> =
            parameters.iter().map(|spec| HostTensor::zeros(spec.shape.clone())).collect();
        let step = self.trace_step();
        for index in 0..steps {
            let mut inputs = self.inputs(&weights);
            inputs.push(HostTensor::scalar(index as f32 + 1.0));
            inputs.extend(momenta.iter().cloned());
            let mut results = self.engine.run(&step.graph, &inputs).into_iter();
            let close = |name: String, value: f64| {
                let expected = figures.loss(&name);
                let bound = figures.tolerance.training * expected.abs();
                assert!((value - expected).abs() <= bound, "{name}: {value}, reference {expected}");
            };
            close(format!("step{index}"), results.next().unwrap().to_f64s()[0]);
            let parts = results.next().unwrap().to_f64s();
            for (part, &value) in parts.iter().enumerate() {
                close(format!("step{index}.part{part}"), value);
            }
            let gradients: Vec<HostTensor> = results.by_ref().take(parameters.len()).collect();
            weights = results.by_ref().take(weights.len()).collect();
            momenta = results.by_ref().take(momenta.len()).collect();
            if COMPARED.contains(&index) {
                compare_gradients(figures, &format!("gradient{index}"), &parameters, &gradients);
                self.compare_state(figures, &format!("state{index}"), &weights);
            }
        }
    }

    /// Weights and running statistics after a step.
    fn compare_state(&self, figures: &Figures, what: &str, weights: &[HostTensor]) {
        let compared = self.specs.iter().zip(weights).filter(|(spec, _)| !spec.path.ends_with(BINS));
        let mut count = 0;
        for (spec, weight) in compared {
            figures.compare(what, &spec.path, &spec.layout.export(weight).unwrap().to_f64s(), 1e-2);
            count += 1;
        }
        assert_eq!(figures.names(what).len(), count);
    }

    /// Loss, its parts, gradients, variables and momenta after one step.
    fn trace_step(&self) -> Program {
        self.trace(Mode::Train(Training::without_randomness()), |trace, outputs, truth, variables| {
            let (loss, parts) = self.loss(trace, outputs, truth);
            let learned: Vec<&Variable> = variables.iter().filter(|v| v.spec.kind == VariableKind::Parameter).collect();
            let values: Vec<Tensor> = learned.iter().map(|variable| variable.value.clone()).collect();
            let gradients = trace.gradients(&loss, &values);
            let step = trace.input("step", Shape::scalar(DType::F32));
            let rate = trace.scalar(DType::F32, RATE);
            let optimizer = Optimizer::Sgd(Sgd { momentum: 0.9, ..Sgd::default() });
            let mut updated = values.iter().zip(&gradients).map(|(parameter, gradient)| {
                let slots = [trace.input("momentum", parameter.shape().clone())];
                optimizer.update(Update { parameter, gradient, slots: &slots, rate: &rate, step: &step, decay: DECAY })
            });
            let (mut after, mut momenta) = (Vec::new(), Vec::new());
            for variable in variables {
                after.push(match variable.spec.kind {
                    VariableKind::Statistic => variable.updated.clone().unwrap_or_else(|| variable.value.clone()),
                    VariableKind::Parameter => {
                        let (parameter, slots) = updated.next().unwrap();
                        momenta.extend(slots);
                        parameter
                    }
                });
            }
            [vec![loss, octant_nn_vector(&parts)], gradients, after, momenta].concat()
        })
    }

    /// The loss, and its parts as the reference reports them.
    fn loss(&self, trace: &Trace, outputs: &[Tensor], truth: &Truth) -> (Tensor, Vec<Tensor>) {
        let detector = self.model.detector().unwrap();
        let cells = Cells::new(trace, [self.side; 2], &detector.strides);
        let BoxCode::Distances { bins } = detector.code else {
            let parts = transport(&cells, &outputs[0], truth);
            let boxes = parts.boxes * TransportLoss::BOX_GAIN;
            let total = &boxes + &parts.objectness + &parts.classes + &parts.distances;
            return (total, vec![boxes, parts.objectness, parts.classes, parts.distances]);
        };
        let of = |raw: &Tensor, assignment| {
            let parts = Aligned { assignment, bins, details: detector.detail.columns() }.loss(&cells, raw, truth);
            let gains = Aligned::GAINS;
            let [masks, keypoints, visibility, angles] = Aligned::DETAIL_GAINS;
            let plain = [parts.boxes * gains[0], parts.classes * gains[1], parts.distances * gains[2]];
            let [boxes, classes, distances] = plain;
            // In the order in which the reference reports them.
            match (detector.detail, parts.details.as_slice()) {
                (CellDetail::Mask { .. }, [of_masks]) => vec![boxes, of_masks * masks, classes, distances],
                (CellDetail::Keypoints { .. }, [points, visible]) => {
                    vec![boxes, points * keypoints, visible * visibility, classes, distances]
                }
                (CellDetail::Angle, [angle]) => vec![boxes, classes, distances, angle * angles],
                _ => vec![boxes, classes, distances],
            }
        };
        let total =
            |parts: &[Tensor]| parts.iter().skip(1).fold(parts[0].clone(), |sum, part| sum + part) * BATCH as f64;
        let many = of(&outputs[0], TaskAligned::MANY);
        if !detector.one_to_one {
            return (total(&many), many);
        }
        let one = of(&outputs[1], TaskAligned::ONE);
        (total(&many) * MANY_SHARE + total(&one) * (1.0 - MANY_SHARE), one)
    }

    /// What the reference makes of a raw output: center and size in pixels, scores, and the details.
    fn decoded(&self, trace: &Trace, raw: &Tensor) -> Tensor {
        let detector = self.model.detector().unwrap();
        let cells = Cells::new(trace, [self.side; 2], &detector.strides);
        let BoxCode::Distances { bins } = detector.code else { panic!("such heads have no details") };
        let head = Head::new(&cells, raw, bins, detector.detail.columns());
        let scores = head.scores.logistic();
        let boxes = head.pixels(&cells);
        let (x, y) = ((&boxes.x0 + &boxes.x1) * 0.5, (&boxes.y0 + &boxes.y1) * 0.5);
        let upright = [x, y, &boxes.x1 - &boxes.x0, &boxes.y1 - &boxes.y0].map(|column| column.unsqueeze(2));
        let rotated = head.rotated(&cells).scaled(&cells.stride).columns();
        let parts = match detector.detail {
            CellDetail::Angle => vec![rotated.slice_axis(2, 0, 4), scores, rotated.slice_axis(2, 4, 5)],
            CellDetail::Keypoints { columns, .. } => {
                vec![Tensor::concatenate(&upright, 2), scores, keypoints_in_pixels(&cells, &head.details, columns)]
            }
            _ => vec![Tensor::concatenate(&upright, 2), scores, head.details.clone()],
        };
        Tensor::concatenate(&parts, 2)
    }

    fn trace(
        &self,
        mode: Mode,
        outputs: impl FnOnce(&Trace, &[Tensor], &Truth, &[Variable]) -> Vec<Tensor>,
    ) -> Program {
        let trace = Trace::new();
        let images = trace.input("images", self.images.shape().clone());
        let corners = trace.input("corners", self.corners.shape().clone());
        let classes = trace.input("classes", self.classes.shape().clone());
        let details = trace.input("details", self.details.shape().clone());
        let truth = Truth::new(&corners, &classes, &trace.full(&Shape::new(DType::F32, [BATCH]), 1.0));
        let context = Context::new(&trace, mode, Precision::F32);
        let results = self.model.outputs(&context.root(), &images, false);
        let truth = truth.with(match self.model.detector().unwrap().detail {
            CellDetail::None => TruthDetails::None,
            CellDetail::Mask { .. } => {
                TruthDetails::Masks(MaskTruth { owners: details, prototypes: results[1].clone() })
            }
            CellDetail::Keypoints { columns, .. } => {
                TruthDetails::Keypoints(KeypointTruth { points: details, columns })
            }
            CellDetail::Angle => TruthDetails::Rotated(RotatedBoxes::of_columns(&details)),
        });
        let variables = context.variables();
        let outputs = outputs(&trace, &results, &truth, &variables);
        Program { graph: trace.finish(&outputs).unwrap(), variables }
    }

    fn weights(&self) -> Vec<HostTensor> {
        let weight = |spec: &VariableSpec| match spec.path.ends_with(BINS) {
            true => spec.initial(0),
            false => deterministic::weight(spec),
        };
        self.specs.iter().map(weight).collect()
    }

    fn inputs(&self, weights: &[HostTensor]) -> Vec<HostTensor> {
        let batch = [self.images.clone(), self.corners.clone(), self.classes.clone(), self.details.clone()];
        batch.into_iter().chain(weights.iter().cloned()).collect()
    }
}

/// The slot of every object, in the order of [`boxes`].
fn slots(side: usize) -> Vec<(usize, [f64; 4])> {
    let mut used = [0; BATCH];
    let slot = |(image, corners, _): (usize, [f64; 4], i32)| {
        used[image] += 1;
        (image * SLOTS + used[image] - 1, corners)
    };
    boxes(side).into_iter().map(slot).collect()
}

/// Ellipses in boxes, later ones before earlier ones.
fn masks(side: usize) -> HostTensor {
    let grid = side / 4;
    let mut owners = vec![0i32; BATCH * grid * grid];
    for (slot, [x0, y0, x1, y1]) in slots(side) {
        for (index, owner) in owners[slot / SLOTS * grid * grid..][..grid * grid].iter_mut().enumerate() {
            let (x, y) = ((index % grid) as f64 * 4.0 + 2.0, (index / grid) as f64 * 4.0 + 2.0);
            let (u, v) = ((x - (x0 + x1) / 2.0) / ((x1 - x0) / 2.0), (y - (y0 + y1) / 2.0) / ((y1 - y0) / 2.0));
            if u * u + v * v <= 1.0 {
                *owner = (slot % SLOTS) as i32 + 1;
            }
        }
    }
    HostTensor::new([BATCH, grid, grid], &owners).unwrap()
}

/// Spirals in boxes.
fn keypoints(side: usize) -> HostTensor {
    let mut points = vec![0f32; BATCH * SLOTS * 17 * 3];
    for (slot, [x0, y0, x1, y1]) in slots(side) {
        let number = (slot % SLOTS) as f64;
        for (k, point) in points[slot * 51..][..51].chunks_exact_mut(3).enumerate() {
            let radius = k as f64 / 40.0;
            let angle = k as f64 + number;
            point[0] = (x0 + (x1 - x0) * (0.5 + radius * angle.cos())) as f32;
            point[1] = (y0 + (y1 - y0) * (0.5 + radius * angle.sin())) as f32;
            point[2] = if (k + slot % SLOTS).is_multiple_of(5) { 0.0 } else { 2.0 };
        }
    }
    HostTensor::new([BATCH, SLOTS, 17, 3], &points).unwrap()
}

/// Boxes at every angle.
fn rotated(side: usize) -> HostTensor {
    let mut columns = vec![0f32; BATCH * SLOTS * 5];
    for (number, (slot, [x0, y0, x1, y1])) in slots(side).into_iter().enumerate() {
        let angle = (number as f64 * 0.7) % 3.1 - 0.75;
        let values = [(x0 + x1) / 2.0, (y0 + y1) / 2.0, x1 - x0, y1 - y0, angle];
        columns[slot * 5..][..5].iter_mut().zip(values).for_each(|(to, from)| *to = from as f32);
    }
    HostTensor::new([BATCH, SLOTS, 5], &columns).unwrap()
}

const BINS: &str = "dfl.conv.weight";

fn octant_nn_vector(parts: &[Tensor]) -> Tensor {
    Tensor::concatenate(&parts.iter().map(|part| part.reshape(&[1])).collect::<Vec<_>>(), 0)
}

fn compare_gradients(figures: &Figures, what: &str, parameters: &[&VariableSpec], gradients: &[HostTensor]) {
    let typical = |tensor: &HostTensor| {
        let values = tensor.to_f64s();
        (values.iter().map(|value| value * value).sum::<f64>() / values.len() as f64).sqrt()
    };
    let largest = gradients.iter().map(typical).fold(0.0, f64::max);
    assert_eq!(figures.names(what).len(), parameters.len());
    for (spec, gradient) in parameters.iter().zip(gradients) {
        let gradient = spec.layout.export(gradient).unwrap();
        figures.compare(what, &spec.path, &gradient.to_f64s(), 1e-2 * largest);
    }
}

impl Program {
    fn specs(&self) -> Vec<VariableSpec> {
        self.variables.iter().map(|variable| variable.spec.clone()).collect()
    }
}
