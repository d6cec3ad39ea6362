//! What is measured: a model under the usual settings of its kind, or the step of a recipe as it is, on a batch of noise.

use crate::error::{Result, refusal, refuse};
use octant_data::{Batch, MASK_STRIDE, Position, Targets};
use octant_nn::Optimizer;
use octant_nn::optimizer::Sgd;
use octant_recipe::{Recipe, TaskEntry, TaskOutput};
use octant_tensor::{Element, HostTensor};
use octant_train::PhaseOptions;
use octant_train::options::OptionTable;
use octant_zoo::{CellDetail, ModelEntry, ModelTask};
use toml::{Table, Value};

/// A step to be measured.
pub struct Subject {
    /// What was requested: a model or a recipe.
    pub name: String,
    /// Its model.
    pub entry: &'static ModelEntry,
    /// The recipe, with the steps of the command line.
    pub recipe: Recipe,
    /// How parameters learn.
    pub phase: PhaseOptions,
    /// Images per step.
    pub batch_size: usize,
    /// Height and width of images.
    pub size: usize,
}

/// What replaces the usual settings of a subject.
#[derive(Debug, Clone, Default)]
pub struct SubjectOptions {
    /// Images per step; 32, or those of the recipe, if not given.
    pub batch_size: Option<usize>,
    /// Height and width of images; those of the recipe or the model if not given.
    pub size: Option<usize>,
    /// The optimizer by name; the one of the model's recipe if not given.
    pub optimizer: Option<String>,
    /// Keys of the recipe, by path, and their values.
    pub settings: Vec<(String, Value)>,
}

impl SubjectOptions {
    fn apply(&self, table: &mut Table) -> octant_recipe::Result<()> {
        self.settings.iter().try_for_each(|(path, value)| octant_recipe::flags::apply(table, path, value.clone()))
    }
}

/// The default number of images per step of a model.
const BATCH: usize = 32;

impl Subject {
    /// The work of a comparison, as [`PeerRun`](crate::PeerRun) has it: the subject, then flags that both sides understand.
    pub fn work(&self, mode: &str, precision: &str, steps: usize, threads: Option<usize>) -> Vec<String> {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let flags = [
            ("--batch-size", self.batch_size.to_string()),
            ("--size", self.size.to_string()),
            ("--mode", mode.to_string()),
            ("--precision", precision.to_string()),
            ("--steps", steps.to_string()),
            ("--threads", threads.unwrap_or_else(cores).to_string()),
        ];
        let flags = flags.into_iter().flat_map(|(flag, value)| [flag.to_string(), value]);
        std::iter::once(self.name.clone()).chain(flags).collect()
    }

    /// The model of that name; otherwise the recipe.
    pub fn named(name: &str, options: &SubjectOptions) -> Result<Subject> {
        let unknown = match octant_zoo::find(name) {
            Ok(entry) => return Subject::of_model(entry, options),
            Err(unknown) => unknown,
        };
        match octant_recipe::table(name) {
            Ok(table) => Subject::of_recipe(name, table, options),
            Err(error) if name.ends_with(".toml") => Err(error.into()),
            Err(_) => refuse!("\"{name}\" is neither a model nor a recipe: {unknown}"),
        }
    }

    /// A phase in which everything is as usual, so that peers can do the same work.
    fn of_model(entry: &'static ModelEntry, options: &SubjectOptions) -> Result<Subject> {
        let recipe = Recipe { label_smoothing: 0.0, ..recipe_of(entry)? };
        let phase = Table::from_iter([
            ("epochs".to_string(), Value::Integer(1)),
            ("schedule".to_string(), Value::Table(Table::from_iter([("lr".to_string(), Value::Float(1e-3))]))),
        ]);
        let mut table = recipe.to_table();
        octant_recipe::set(&mut table, "phases", Value::Array(vec![Value::Table(phase)]))?;
        options.apply(&mut table)?;
        let given = octant_recipe::check(table)?;
        let usual = longest_phase(&recipe).map_or("sgd", |phase| phase.optimizer.name());
        let optimizer = optimizer(options.optimizer.as_deref().unwrap_or(usual))?;
        let phase = PhaseOptions { optimizer, ..given.phases[0].options.clone() };
        let size = options.size.unwrap_or(entry.preprocessing.input[0]);
        let batch_size = options.batch_size.unwrap_or(BATCH);
        Ok(Subject { name: entry.name.into(), entry, recipe: given, phase, batch_size, size })
    }

    /// The recipe's own batch, sizes and longest phase.
    fn of_recipe(name: &str, mut table: Table, options: &SubjectOptions) -> Result<Subject> {
        options.apply(&mut table)?;
        let recipe = octant_recipe::check(table)?;
        let entry = octant_zoo::find(&recipe.model)?;
        let mut phase = longest_phase(&recipe).ok_or_else(|| refusal!("the recipe has no phase"))?.clone();
        if let Some(name) = &options.optimizer {
            phase.optimizer = optimizer(name)?;
        }
        let size = options.size.or(recipe.crop_size).or(recipe.image_size).unwrap_or(entry.preprocessing.input[0]);
        let batch_size = options.batch_size.unwrap_or(recipe.step.batch_size);
        Ok(Subject { name: name.into(), entry, phase, batch_size, size, recipe })
    }

    /// How many classes, channels or numbers the network has; models without a head of their own get one.
    pub fn classes(&self) -> usize {
        self.recipe.classes.unwrap_or_else(|| classes(self.entry))
    }
}

fn classes(entry: &ModelEntry) -> usize {
    const WITHOUT_HEAD: usize = 1000;
    if entry.classes == 0 { WITHOUT_HEAD } else { entry.classes }
}

/// The recipe that trains this very model, or one that trains its kind.
fn recipe_of(entry: &ModelEntry) -> Result<Recipe> {
    let usual = octant_recipe::of_model(entry)?;
    let trains_it = |recipe: &Recipe| recipe.model == entry.name && recipe.task == usual.task;
    match octant_recipe::built_in().find(trains_it) {
        Some(recipe) => Ok(Recipe { classes: Some(classes(entry)), ..recipe }),
        None => Ok(usual),
    }
}

fn longest_phase(recipe: &Recipe) -> Option<&PhaseOptions> {
    recipe.phases.iter().max_by_key(|phase| phase.epochs).map(|phase| &phase.options)
}

/// The optimizer of that name in its usual settings.
fn optimizer(name: &str) -> Result<Optimizer> {
    let found = Optimizer::named(name);
    let names = Optimizer::NAMES.join(", ");
    Ok(match found.ok_or_else(|| refusal!("there is no optimizer \"{name}\"; there are {names}"))? {
        Optimizer::Sgd(sgd) => Optimizer::Sgd(Sgd { momentum: 0.9, ..sgd }),
        other => other,
    })
}

/// Objects per image, as mosaics of busy images have them, and the slots that training compiles for so many.
const BOXES: usize = 40;
pub(crate) const SLOTS: usize = BOXES.next_power_of_two();

/// Images of noise with targets of the model's kind.
pub(crate) fn synthetic_batch(subject: &Subject) -> Batch {
    let (entry, count, [height, width]) = (subject.entry, subject.batch_size, [subject.size; 2]);
    let channels = entry.preprocessing.input[2];
    let output = TaskEntry::named(&subject.recipe.task).map(|task| task.output);
    let targets = match entry.task {
        ModelTask::Classify if matches!(output, Ok(TaskOutput::Labels)) => {
            let labels: Vec<f32> = (0..count * subject.classes()).map(|i| f32::from(i % 3 == 0)).collect();
            Targets::Labels(tensor(&[count, subject.classes()], &labels))
        }
        ModelTask::Classify if matches!(output, Ok(TaskOutput::Values)) => {
            let values: Vec<f32> = (0..count * subject.classes()).map(|i| (i % 7) as f32).collect();
            Targets::Values(tensor(&[count, subject.classes()], &values))
        }
        ModelTask::Classify => {
            let labels: Vec<i32> = (0..count).map(|i| (i % subject.classes()) as i32).collect();
            Targets::Classes(tensor(&[count], &labels))
        }
        ModelTask::Segment => {
            let mask: Vec<u8> = (0..count * height * width).map(|i| (i % 97 == 0) as u8).collect();
            Targets::Masks(tensor(&[count, height, width, 1], &mask))
        }
        ModelTask::Translate => {
            let factor = (entry.build)(entry.classes).enlarges();
            Targets::Images(noise(&[count, height * factor, width * factor, subject.classes()]))
        }
        task @ (ModelTask::Detect | ModelTask::Instances | ModelTask::Pose | ModelTask::Rotated) => {
            // Boxes all over the image whose sides are 2 to 32 % of its own, as in bench/peers/detection_peer.py.
            let share = |number: usize, step: f32| (number as f32 * step).fract();
            let side = |number: usize, step: f32| share(number, step) * 0.3 + 0.02;
            let corners = |i: usize| {
                let (w, h) = (side(i, 0.618), side(i, 0.414));
                let (x, y) = (share(i, 0.732) * (1.0 - w), share(i, 0.236) * (1.0 - h));
                [x, y, x + w, y + h].map(|share| share * width.min(height) as f32)
            };
            let boxes: Vec<f32> = (0..count * SLOTS).flat_map(corners).collect();
            let classes =
                (0..count * SLOTS).map(|i| if i % SLOTS < BOXES { (i % subject.classes()) as i32 } else { -1 });
            let classes: Vec<i32> = classes.collect();
            let (corners, classes) = (tensor(&[count, SLOTS, 4], &boxes), tensor(&[count, SLOTS], &classes));
            let details = details(task, subject, &boxes);
            Targets::Boxes { corners, classes, details, ground_truth: Vec::new() }
        }
    };
    Batch {
        position: Position::default(),
        images: noise(&[count, height, width, channels]),
        targets,
        mask: tensor(&[count], &vec![1.0f32; count]),
        valid: count,
        indices: (0..count as u64).collect(),
    }
}

/// What belongs to boxes in pixels: a rectangle in the middle of each as its mask, keypoints along its diagonal, a rotation.
fn details(task: ModelTask, subject: &Subject, boxes: &[f32]) -> Option<HostTensor> {
    let (count, side) = (subject.batch_size, subject.size);
    match task {
        ModelTask::Instances => {
            let grid = side.div_ceil(MASK_STRIDE);
            let mut owners = vec![0i32; count * grid * grid];
            for (number, corners) in boxes.as_chunks::<4>().0.iter().enumerate() {
                let [x0, y0, x1, y1] = corners.map(|corner| (corner / MASK_STRIDE as f32) as usize);
                for row in y0..y1.min(grid) {
                    let first = (number / SLOTS * grid + row) * grid;
                    owners[first + x0..first + x1.clamp(x0, grid)].fill((number % SLOTS) as i32 + 1);
                }
            }
            Some(tensor(&[count, grid, grid], &owners))
        }
        ModelTask::Pose => {
            let points = match (subject.entry.build)(1).detector().map(|head| head.detail) {
                Some(CellDetail::Keypoints { count, .. }) => count,
                _ => 0,
            };
            let along = |[x0, y0, x1, y1]: &[f32; 4], point: usize| {
                let share = (point as f32 + 0.5) / points as f32;
                [x0 + share * (x1 - x0), y0 + share * (y1 - y0), 2.0]
            };
            let all = boxes.as_chunks::<4>().0.iter();
            let numbers: Vec<f32> =
                all.flat_map(|corners| (0..points).flat_map(move |point| along(corners, point))).collect();
            Some(tensor(&[count, SLOTS, points, 3], &numbers))
        }
        ModelTask::Rotated => {
            let rotated = |[x0, y0, x1, y1]: &[f32; 4]| [(x0 + x1) / 2.0, (y0 + y1) / 2.0, x1 - x0, y1 - y0, 0.3];
            let numbers: Vec<f32> = boxes.as_chunks::<4>().0.iter().flat_map(rotated).collect();
            Some(tensor(&[count, SLOTS, 5], &numbers))
        }
        _ => None,
    }
}

fn noise(dims: &[usize]) -> HostTensor {
    let elements = dims.iter().product::<usize>() as u32;
    let bytes: Vec<u8> = (0..elements).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    tensor(dims, &bytes)
}

fn tensor<T: Element>(dims: &[usize], elements: &[T]) -> HostTensor {
    HostTensor::new(dims, elements).expect("as many elements as the shape has")
}
