//! A version of a network that is served: what it takes, what it returns, and how fast it is.

use crate::options::{ServeEvent, ServeOptions};
use crate::outputs;
use crate::plan::BatchPlan;
use crate::protocol::{DataType, TensorSpec};
use octant_predict::{Network, PredictError, PredictOptions, Predictor, RowShape};
use octant_runtime::Backend;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The input that takes normalized tensors, named as in exported files.
pub(crate) const TENSORS: &str = "images";
/// The input that takes encoded images, or pixels of any size.
pub(crate) const IMAGES: &str = "image";
/// Runs by which the time of a program is measured: the least of them counts, since other work on the machine only adds.
const TIMED: std::ops::RangeInclusive<usize> = 2..=20;
/// No more runs once they took this long.
const TIMED_LONG: Duration = Duration::from_millis(100);

/// A version of a model, ready to predict.
pub(crate) struct Loaded {
    pub predictor: Predictor,
    /// Counts the versions, from 1 on.
    pub version: u64,
    /// Normalized tensors, where the network has a fixed size, and the name of what they return.
    pub tensors: Option<(RowShape, &'static str)>,
    /// Tensors are `[N, C, H, W]`; otherwise `[N, H, W, C]`.
    pub channels_first: bool,
    pub inputs: Vec<TensorSpec>,
    pub outputs: Vec<TensorSpec>,
    plans: Vec<(RowShape, BatchPlan)>,
}

impl Loaded {
    /// Uploads a network, compiles its programs and measures them.
    pub fn new(
        name: &str,
        network: Network,
        choice: &PredictOptions,
        version: u64,
        device: &Arc<dyn Backend>,
        options: &ServeOptions,
        report: &dyn Fn(ServeEvent),
    ) -> Result<Loaded, PredictError> {
        let predictor = Predictor::new(network, device, choice.clone())?;
        let tensors = predictor.tensor_rows()?;
        let sizes = BatchPlan::sizes(options.max_batch);
        let mut plans = Vec::new();
        let mut returned = None;
        for shape in predictor.image_rows().into_iter().chain(tensors.map(|(shape, _)| shape)) {
            let zeros = vec![0; shape.bytes()];
            let mut times = Vec::new();
            for &size in &sizes {
                let begun = Instant::now();
                predictor.warm_up_rows(&shape, &[size])?;
                let rows = vec![&zeros[..]; size];
                let mut least = Duration::MAX;
                let measuring = Instant::now();
                for run in 1..=*TIMED.end() {
                    let begun = Instant::now();
                    let result = predictor.run_rows(&shape, &rows)?;
                    least = least.min(begun.elapsed());
                    if tensors.is_some_and(|(tensors, _)| tensors == shape) {
                        returned = Some(result.dims()[1..].to_vec());
                    }
                    if run >= *TIMED.start() && measuring.elapsed() > TIMED_LONG {
                        break;
                    }
                }
                times.push((size, least));
                report(ServeEvent::Compiled { model: name, batch: size, took: begun.elapsed(), run: least });
            }
            plans.push((shape, BatchPlan::new(times)));
        }
        let channels_first = options.channels_first;
        let mut inputs = vec![TensorSpec::new(IMAGES, DataType::Bytes, &[None])];
        let mut outputs = outputs::specs(&predictor)?;
        if let (Some((shape, name)), Some(dims)) = (tensors, returned) {
            let spec = |name, dims: &[usize]| {
                let dims: Vec<_> =
                    std::iter::once(None).chain(outside(dims, channels_first).into_iter().map(Some)).collect();
                TensorSpec::new(name, DataType::Fp32, &dims)
            };
            inputs.insert(0, spec(TENSORS, &shape.image));
            for (name, dims) in predictor.tensor_parts(name, &dims) {
                if !outputs.iter().any(|output| output.name == name) {
                    outputs.push(spec(name, &dims));
                }
            }
        }
        Ok(Loaded { predictor, version, tensors, channels_first, inputs, outputs, plans })
    }

    /// How many rows of a shape a batch takes.
    pub fn plan(&self, shape: &RowShape) -> BatchPlan {
        self.plans.iter().find(|(planned, _)| planned == shape).map(|(_, plan)| plan.clone()).unwrap_or_default()
    }
}

/// The axes of a row as clients see them: images of tensors may have their channels first.
pub(crate) fn outside(dims: &[usize], channels_first: bool) -> Vec<usize> {
    match dims {
        &[height, width, channels] if channels_first => vec![channels, height, width],
        other => other.to_vec(),
    }
}
