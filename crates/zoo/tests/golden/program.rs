//! A model as the programs that the comparison runs: evaluation, and a training step.

use octant_graph::{DType, Graph, HostTensor, Shape, Tensor, Trace, composites::Pool};
use octant_nn::optimizer::{Adagrad, Adam, Optimizer, Sgd, Update};
use octant_nn::{Context, Mode, Precision, Training, Variable, VariableKind, VariableSpec, loss};
use octant_testing::deterministic;
use octant_testing::engine::Engine;
use octant_testing::figures::Figures;
use octant_zoo::{Model, ModelTask};

/// Gradients below this part of the largest gradient's size are rounding noise.
const GRADIENT_FLOOR: f64 = 1e-2;

pub struct Case {
    engine: Engine,
    /// Whether blocks are computed again in the backward pass.
    pub recompute: bool,
    model: Box<dyn Model>,
    task: ModelTask,
    deep: bool,
    optimizer: Optimizer,
    rate: f64,
    decay: f64,
    images: HostTensor,
    targets: HostTensor,
    specs: Vec<VariableSpec>,
}

/// A traced program and the variables that are its inputs after the images and targets.
struct Program {
    graph: Graph,
    variables: Vec<Variable>,
}

impl Case {
    pub fn new(name: &str, figures: &Figures, engine: Engine) -> Case {
        let mut model = octant_zoo::build(name, None).unwrap();
        model.set_drop(0.0, 0.0);
        let (batch, side) = (figures.size("batch"), figures.size("side"));
        let deep = name.starts_with("mshnet");
        let channels = if name.starts_with("fashion") { 1 } else { 3 };
        let (optimizer, rate, decay) = match () {
            () if deep => (Optimizer::Adagrad(Adagrad { initial_accumulator: 0.1, ..Adagrad::default() }), 0.05, 0.0),
            () if channels == 1 || name.starts_with("edsr") => (Optimizer::Adam(Adam::default()), 1e-3, 0.0),
            () => (Optimizer::Sgd(Sgd { momentum: 0.9, ..Sgd::default() }), 0.01, 1e-4),
        };
        let task = octant_zoo::find(name).unwrap().task;
        let targets = match task {
            // Networks without a head return features.
            ModelTask::Classify => deterministic::labels(batch, figures.elements("evaluate", "output") / batch),
            ModelTask::Segment if model.classes() > 1 => deterministic::class_masks(batch, side, model.classes()),
            ModelTask::Segment => deterministic::masks(batch, side),
            ModelTask::Detect | ModelTask::Instances | ModelTask::Pose | ModelTask::Rotated => {
                panic!("detectors have a comparison of their own")
            }
            ModelTask::Translate => {
                deterministic::images_of("targets", batch, side * model.enlarges(), model.classes())
            }
        };
        let images = deterministic::images(batch, side, channels);
        let mut case = Case {
            engine,
            recompute: false,
            model,
            task,
            deep,
            optimizer,
            rate,
            decay,
            images,
            targets,
            specs: vec![],
        };
        case.specs = case.trace(Mode::Evaluate, false, |_, outputs, _| outputs[..1].to_vec()).specs();
        case
    }

    pub fn parameter_count(&self) -> usize {
        let parameters = self.specs.iter().filter(|spec| spec.kind == VariableKind::Parameter);
        parameters.map(|spec| spec.shape.elements()).sum()
    }

    pub fn check_evaluation(&self, figures: &Figures) {
        for name in figures.names("evaluate") {
            let warm_up = name == "warm_up";
            let program = self.trace(Mode::Evaluate, warm_up, |_, outputs, _| outputs[..1].to_vec());
            let output = &self.engine.run(&program.graph, &self.inputs(&self.weights()))[0];
            figures.compare("evaluate", name, &to_nchw(output), 0.0);
        }
    }

    pub fn check_training(&self, figures: &Figures, steps: usize) {
        if self.deep {
            self.check_warm_up(figures);
        }
        let mut weights = self.weights();
        let parameters: Vec<&VariableSpec> =
            self.specs.iter().filter(|spec| spec.kind == VariableKind::Parameter).collect();
        let mut slots: Vec<Vec<HostTensor>> = parameters
            .iter()
            .map(|spec| self.optimizer.slots().iter().map(|slot| constant(&spec.shape, slot.initial)).collect())
            .collect();
        let step = self.trace_step();
        for index in 0..steps {
            let mut inputs = self.inputs(&weights);
            inputs.push(HostTensor::scalar(index as f32 + 1.0));
            inputs.extend(slots.iter().flatten().cloned());
            let mut results = self.engine.run(&step.graph, &inputs).into_iter();
            let loss = results.next().unwrap().to_f64s()[0];
            let expected = figures.loss(&format!("step{index}"));
            assert!(
                (loss - expected).abs() <= figures.tolerance.training * expected.abs(),
                "step {index}: loss {loss}, reference {expected}"
            );
            let outputs: Vec<HostTensor> = results.by_ref().take(figures.names("train").len()).collect();
            let gradients: Vec<HostTensor> = results.by_ref().take(parameters.len()).collect();
            weights = results.by_ref().take(weights.len()).collect();
            slots = slots.iter().map(|slots| results.by_ref().take(slots.len()).collect()).collect();
            if index == 0 {
                outputs.iter().enumerate().for_each(|(i, output)| {
                    figures.compare("train", &format!("output{i}"), &to_nchw(output), 0.0);
                });
                self.compare_gradients(figures, &parameters, &gradients);
            }
        }
        let stored = figures.names("state");
        for (spec, weight) in self.specs.iter().zip(&weights).filter(|(spec, _)| stored.contains(&spec.path.as_str())) {
            let weight = spec.layout.export(weight).unwrap();
            figures.compare("state", &spec.path, &weight.to_f64s(), 1e-2);
        }
    }

    fn compare_gradients(&self, figures: &Figures, parameters: &[&VariableSpec], gradients: &[HostTensor]) {
        let typical = |tensor: &HostTensor| {
            let values = tensor.to_f64s();
            (values.iter().map(|value| value * value).sum::<f64>() / values.len() as f64).sqrt()
        };
        let largest = gradients.iter().map(typical).fold(0.0, f64::max);
        assert_eq!(figures.names("gradient").len(), parameters.len());
        for (spec, gradient) in parameters.iter().zip(gradients) {
            let gradient = spec.layout.export(gradient).unwrap();
            figures.compare("gradient", &spec.path, &gradient.to_f64s(), GRADIENT_FLOOR * largest);
        }
    }

    /// During warm-up only the finest head has a loss.
    fn check_warm_up(&self, figures: &Figures) {
        let mode = Mode::Train(Training::without_randomness());
        let program = self.trace(mode, true, |trace, outputs, target_and_variables| {
            let (target, variables) = target_and_variables;
            let loss = self.loss(outputs, target);
            let parameters = parameters(variables);
            let gradients = trace.gradients(&loss, &parameters);
            vec![loss, octant_nn::optimizer::global_norm(&gradients)]
        });
        let results = self.engine.run(&program.graph, &self.inputs(&self.weights()));
        for (result, name) in results.iter().zip(["warm_up", "warm_up_gradient"]) {
            let (actual, expected) = (result.to_f64s()[0], figures.loss(name));
            assert!(
                (actual - expected).abs() <= figures.tolerance.training * expected.abs(),
                "{name}: {actual}, reference {expected}"
            );
        }
    }

    /// Loss, outputs, gradients, variables and slots after one step.
    fn trace_step(&self) -> Program {
        let mode = Mode::Train(Training { recompute_blocks: self.recompute, ..Training::without_randomness() });
        self.trace(mode, false, |trace, outputs, (target, variables)| {
            let loss = self.loss(outputs, target);
            let parameters = parameters(variables);
            let gradients = trace.gradients(&loss, &parameters);
            let step = trace.input("step", Shape::scalar(DType::F32));
            let rate = trace.scalar(DType::F32, self.rate);
            let mut updated = parameters.iter().zip(&gradients).map(|(parameter, gradient)| {
                let slots = self.optimizer.slots();
                let slots: Vec<Tensor> =
                    slots.iter().map(|slot| trace.input(slot.name, parameter.shape().clone())).collect();
                let (rate, step, decay) = (&rate, &step, self.decay);
                self.optimizer.update(Update { parameter, gradient, slots: &slots, rate, step, decay })
            });
            let mut slots_after = Vec::new();
            let mut values_after = Vec::new();
            for variable in variables {
                values_after.push(match variable.spec.kind {
                    VariableKind::Statistic => variable.updated.clone().unwrap(),
                    VariableKind::Parameter => {
                        let (parameter, slots) = updated.next().unwrap();
                        slots_after.extend(slots);
                        parameter
                    }
                });
            }
            [vec![loss], outputs.to_vec(), gradients, values_after, slots_after].concat()
        })
    }

    fn loss(&self, outputs: &[Tensor], target: &Tensor) -> Tensor {
        match self.task {
            ModelTask::Classify => loss::mean(&loss::cross_entropy(&outputs[0], target, 0.0), None),
            ModelTask::Segment if self.deep => self.deep_loss(outputs, target),
            ModelTask::Segment if self.model.classes() > 1 => self.class_loss(outputs, target),
            ModelTask::Segment => loss::mean(&loss::binary_cross_entropy(&outputs[0], target), None),
            ModelTask::Detect | ModelTask::Instances | ModelTask::Pose | ModelTask::Rotated => {
                panic!("detectors have a comparison of their own")
            }
            ModelTask::Translate => loss::mean(&loss::squared_error(&outputs[0], target), None),
        }
    }

    /// Cross-entropy of the output at the image's size, and what the auxiliary head counts.
    fn class_loss(&self, outputs: &[Tensor], target: &Tensor) -> Tensor {
        let [height, width] = [1, 2].map(|axis| target.dim(axis));
        let of = |output: &Tensor| {
            let enlarged = output.resize_bilinear(height, width, false);
            loss::pixel_cross_entropy(&enlarged, target, &[], 0.0)
        };
        let weight = self.model.auxiliary_weight().unwrap_or(1.0);
        outputs[1..].iter().fold(of(&outputs[0]), |total, output| total + of(output) * weight)
    }

    /// The mean over the final map and the four heads, the target halved from head to head.
    fn deep_loss(&self, outputs: &[Tensor], target: &Tensor) -> Tensor {
        let warm_up = outputs.len() == 1;
        let mut target = target.clone();
        let mut total = loss::mean(&loss::sls_iou(&outputs[0], &target, warm_up), None);
        for (index, map) in outputs[1..].iter().enumerate() {
            if index > 0 {
                target = target.max_pool(Pool::square(2, 2));
            }
            total = total + loss::mean(&loss::sls_iou(map, &target, warm_up), None);
        }
        total / outputs.len() as f64
    }

    fn trace(
        &self,
        mode: Mode,
        warm_up: bool,
        outputs: impl FnOnce(&Trace, &[Tensor], (&Tensor, &[Variable])) -> Vec<Tensor>,
    ) -> Program {
        let trace = Trace::new();
        let images = trace.input("images", self.images.shape().clone());
        let target = trace.input("target", self.targets.shape().clone());
        let context = Context::new(&trace, mode, Precision::F32);
        let results = self.model.outputs(&context.root(), &images, warm_up);
        let variables = context.variables();
        let outputs = outputs(&trace, &results, (&target, &variables));
        let graph = trace.finish(&outputs).unwrap();
        Program { graph, variables }
    }

    fn weights(&self) -> Vec<HostTensor> {
        self.specs.iter().map(deterministic::weight).collect()
    }

    fn inputs(&self, weights: &[HostTensor]) -> Vec<HostTensor> {
        [self.images.clone(), self.targets.clone()].into_iter().chain(weights.iter().cloned()).collect()
    }
}

impl Program {
    fn specs(&self) -> Vec<VariableSpec> {
        self.variables.iter().map(|variable| variable.spec.clone()).collect()
    }
}

fn parameters(variables: &[Variable]) -> Vec<Tensor> {
    let parameters = variables.iter().filter(|variable| variable.spec.kind == VariableKind::Parameter);
    parameters.map(|variable| variable.value.clone()).collect()
}

fn constant(shape: &Shape, value: f64) -> HostTensor {
    HostTensor::from_f64s(shape.clone(), &vec![value; shape.elements()]).unwrap()
}

/// Images in the references' order of elements; everything else as it is.
fn to_nchw(tensor: &HostTensor) -> Vec<f64> {
    let values = tensor.to_f64s();
    let &[batch, height, width, channels] = tensor.dims() else { return values };
    let positions = height * width;
    let at = |n: usize, c: usize, position: usize| values[(n * positions + position) * channels + c];
    (0..batch)
        .flat_map(|n| (0..channels).flat_map(move |c| (0..positions).map(move |position| (n, c, position))))
        .map(|(n, c, position)| at(n, c, position))
        .collect()
}
