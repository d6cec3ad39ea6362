//! What every model can do, and what it costs.

use octant_graph::{DType, GraphError, Shape, Tensor, Trace};
use octant_nn::{Context, Mode, Precision, Scope, VariableSpec};

/// What a model's output means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ModelTask {
    /// Logits per class, `[n, classes]`.
    Classify,
    /// Logits per pixel and class, `[n, h, w, classes]`.
    Segment,
    /// Boxes and class scores per cell, `[n, cells, …]`; [`Model::detector`] defines how they are read.
    Detect,
    /// The same with a mask per object.
    Instances,
    /// The same with keypoints per object.
    Pose,
    /// Rotated boxes and class scores per cell.
    Rotated,
    /// An image, `[n, h', w', channels]`, in the range in which the network takes images.
    Translate,
}

impl ModelTask {
    /// Whether objects are found, as boxes and what may belong to them.
    pub const fn is_detection(self) -> bool {
        matches!(self, ModelTask::Detect | ModelTask::Instances | ModelTask::Pose | ModelTask::Rotated)
    }

    /// The name in lists.
    pub const fn name(self) -> &'static str {
        match self {
            ModelTask::Classify => "classify",
            ModelTask::Segment => "segment",
            ModelTask::Detect => "detect",
            ModelTask::Instances => "instance",
            ModelTask::Pose => "pose",
            ModelTask::Rotated => "obb",
            ModelTask::Translate => "image-to-image",
        }
    }
}

/// How a detector's output is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DetectorHead {
    /// The side of a cell in pixels, per feature map, fine to coarse. Cells of a map come row by row, maps one after another.
    pub strides: Vec<usize>,
    /// How a cell's first numbers encode its box.
    pub code: BoxCode,
    /// The last output was trained with one cell per box and needs no suppression; the one before it is for training only.
    pub one_to_one: bool,
    /// What comes behind the class logits.
    pub detail: CellDetail,
}

/// What a cell predicts of its object beside box and class, in numbers behind the class logits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum CellDetail {
    /// Nothing.
    #[default]
    None,
    /// Coefficients of a mask: it is their product with prototypes `[n, h, w, prototypes]`, the network's last output, one
    /// logit per pixel of a grid.
    Mask {
        /// How many prototypes there are.
        prototypes: usize,
        /// How many pixels of the image's side a pixel of the grid stands for.
        stride: usize,
    },
    /// Columns and rows of keypoints, and logits of their visibility where there are three numbers for each.
    Keypoints {
        /// How many there are.
        count: usize,
        /// Two or three.
        columns: usize,
    },
    /// The logit of the angle by which the box is rotated around its center: (logistic − ¼) · π.
    Angle,
}

impl CellDetail {
    /// Numbers per cell.
    pub const fn columns(self) -> usize {
        match self {
            CellDetail::None => 0,
            CellDetail::Mask { prototypes, .. } => prototypes,
            CellDetail::Keypoints { count, columns } => count * columns,
            CellDetail::Angle => 1,
        }
    }
}

/// How a cell's numbers encode its box.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BoxCode {
    /// Distances from the cell's center to left, top, right and bottom in cells, each as logits of `bins` numbers from 0
    /// on; one bin is the distance itself. Class logits follow.
    Distances {
        /// Numbers per distance.
        bins: usize,
    },
    /// Center and size as shares of the image's sides, for a set of boxes instead of cells; class logits follow.
    Shares {
        /// How many boxes there are, and objects that an image may have.
        queries: usize,
    },
    /// Center relative to the cell's corner and logarithm of the size, in cells; then objectness and class logits.
    CenterSize,
}

/// A set of boxes with classes.
#[derive(Debug, Clone)]
pub struct SetPrediction {
    /// Center and size as shares of the image's sides, f32 `[n, queries, 4]`.
    pub boxes: Tensor,
    /// Class logits, f32 `[n, queries, classes]`.
    pub logits: Tensor,
    /// The distributions that the boxes follow from, where they do.
    pub distribution: Option<BoxDistribution>,
}

/// Distributions of the distances from a box to the sides of another.
#[derive(Debug, Clone)]
pub struct BoxDistribution {
    /// Logits of left, top, right and bottom, f32 `[n, queries, 4 · bins]`.
    pub logits: Tensor,
    /// The box, without gradient, `[n, queries, 4]`.
    pub first: Tensor,
    /// What every bin stands for, in sides of the box over `scale`, `[bins]`.
    pub bins: Tensor,
    /// `[1]`.
    pub scale: Tensor,
}

/// The objects of a batch, padded to the same number per image.
#[derive(Debug, Clone)]
pub struct SetObjects {
    /// Center and size as shares of the image's sides, `[n, objects, 4]`.
    pub boxes: Tensor,
    /// Class numbers, i32 `[n, objects]`.
    pub classes: Tensor,
    /// Which exist, bool `[n, objects]`.
    pub exists: Tensor,
}

/// What a detector predicts as sets.
#[derive(Debug, Clone, Default)]
pub struct SetPredictions {
    /// What queries begin with, then every layer's prediction, the last one final.
    pub layers: Vec<SetPrediction>,
    /// The layers' predictions of queries that began with an object and noise, and how many groups of them there are. A group has
    /// each object twice: first with little noise, which should find it, and then with much, which should find nothing.
    pub noisy: (Vec<SetPrediction>, usize),
}

/// A network: a description from which graphs are built. Its variables have the names of the reference's state dict.
pub trait Model: Send + Sync + 'static {
    /// How many classes (or maps) the head makes.
    fn classes(&self) -> usize;

    /// The same network with a head of another size.
    fn reset_head(&mut self, classes: usize);

    /// Other rates of dropout and of stochastic depth, where the network has them.
    fn set_drop(&mut self, dropout: f64, stochastic_depth: f64) {
        let _ = (dropout, stochastic_depth);
    }

    /// Another number of keypoints per object and of numbers for each, where the network predicts any.
    fn set_keypoints(&mut self, count: usize, columns: usize) {
        let _ = (count, columns);
    }

    /// The paths below which the head's variables lie, such as `fc` or `classifier.1`. Everything else is the body,
    /// which a burn-in phase freezes.
    fn head_paths(&self) -> Vec<String>;

    /// From images `[n, h, w, c]` to the last feature map, `[n, h', w', features]` (tokens for transformers).
    fn features(&self, cx: &Scope, images: &Tensor) -> Tensor;

    /// From the last feature map to the pooled features, `[n, features]`, that the last linear layer sees: the mean over
    /// all pixels, unless the network says otherwise.
    fn pool(&self, cx: &Scope, features: &Tensor) -> Tensor {
        let _ = cx;
        features.global_avg_pool()
    }

    /// From the last feature map to the output.
    fn head(&self, cx: &Scope, features: &Tensor) -> Tensor;

    /// From images to the output.
    fn forward(&self, cx: &Scope, images: &Tensor) -> Tensor {
        let features = self.features(cx, images);
        self.head(cx, &features)
    }

    /// All outputs that a loss may use, the final one first. Networks with deep supervision have more than one
    /// after their warm-up. Whatever `warm_up` is, the same variables are declared in the same order.
    fn outputs(&self, cx: &Scope, images: &Tensor, warm_up: bool) -> Vec<Tensor> {
        let _ = warm_up;
        vec![self.forward(cx, images)]
    }

    /// What each output after the first one counts in a loss, as auxiliary heads do; none where all outputs count alike.
    fn auxiliary_weight(&self) -> Option<f64> {
        None
    }

    /// The predictions of a detector that predicts a set of boxes. With `objects`, training also begins queries with them and noise.
    /// Empty for other networks.
    fn sets(&self, cx: &Scope, images: &Tensor, objects: Option<&SetObjects>) -> SetPredictions {
        let _ = (cx, images, objects);
        SetPredictions::default()
    }

    /// How many times higher and wider an output image is than the input.
    fn enlarges(&self) -> usize {
        1
    }

    /// Sides of images must be multiples of this: a detector's coarsest cell, a transformer's patch, the scales of a network
    /// that joins them again.
    fn multiple(&self) -> usize {
        self.detector().and_then(|head| head.strides.last().copied()).unwrap_or(1)
    }

    /// Whether published files hold a tensor of that name that the network does not use.
    fn ignores(&self, key: &str) -> bool {
        let _ = key;
        false
    }

    /// How a detector's output is read; nothing for networks that are none.
    fn detector(&self) -> Option<DetectorHead> {
        None
    }
}

/// [`Model::classes`] and [`Model::reset_head`] of a network one of whose fields is the size of its head.
macro_rules! head_size {
    ($field:ident) => {
        fn classes(&self) -> usize {
            self.$field
        }

        fn reset_head(&mut self, size: usize) {
            self.$field = size;
        }
    };
}
pub(crate) use head_size;

/// The variables of a model, in the order of declaration, and the multiply–adds of one forward pass over an image of
/// `[height, width, channels]`. The model is traced and thrown away.
pub fn describe(model: &dyn Model, image: [usize; 3]) -> Result<(Vec<VariableSpec>, u64), GraphError> {
    let trace = Trace::new();
    let images = trace.input("images", Shape::new(DType::F32, [1, image[0], image[1], image[2]]));
    let context = Context::new(&trace, Mode::Evaluate, Precision::F32);
    let output = model.forward(&context.root(), &images);
    let specs = context.variables().into_iter().map(|variable| variable.spec).collect();
    // Heads that only training uses cost nothing.
    let graph = octant_graph::passes::dead_code(&trace.finish(&[output])?);
    Ok((specs, graph.multiply_adds()))
}

/// How many pixels of an image's side one pixel of a model's features stands for, at the size that the model is made for; none
/// where features are no map of several pixels.
pub fn total_stride(model: &dyn Model, [height, width, channels]: [usize; 3]) -> Option<usize> {
    let trace = Trace::new();
    let images = trace.input("images", Shape::new(DType::F32, [1, height, width, channels]));
    let context = Context::new(&trace, Mode::Evaluate, Precision::F32);
    let features = model.features(&context.root(), &images);
    match features.shape().dims() {
        [_, rows, columns, _] if *rows > 1 && *columns > 1 => Some((height / rows).min(width / columns)),
        _ => None,
    }
}

/// Whether every feature map of a model has pixels for images of that size; too small ones leave nothing after its strides.
pub fn leaves_pixels(model: &dyn Model, image: [usize; 3]) -> bool {
    let trace = Trace::new();
    let images = trace.input("images", Shape::new(DType::F32, [1, image[0], image[1], image[2]]));
    let context = Context::new(&trace, Mode::Evaluate, Precision::F32);
    let output = model.forward(&context.root(), &images);
    trace.finish(&[output]).is_ok_and(|graph| graph.values().iter().all(|value| value.shape.elements() > 0))
}
