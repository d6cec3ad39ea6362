//! Appends operations to a graph and tracks a bound on the rounding error of every value.

use crate::tolerance::epsilon;
use octant_graph::{DType, Shape, Tensor, Trace};

/// A value of the graph, and a bound on its rounding error.
#[derive(Clone)]
pub struct Tracked {
    /// The value.
    pub tensor: Tensor,
    /// No element is greater than this; for floats.
    pub magnitude: f64,
    /// How far rounding may have carried an element; 0 means exact.
    pub error: f64,
}

impl Tracked {
    /// The result of moving elements: as exact as they were.
    pub fn moved(&self, tensor: Tensor) -> Tracked {
        Tracked { tensor, ..*self }
    }

    /// The result of an operation that rounds, from errors that it carries over.
    pub fn rounded(tensor: Tensor, magnitude: f64, carried: f64) -> Tracked {
        // Approximations of functions may be a few units off.
        let error = carried + 4.0 * epsilon(tensor.dtype()) * magnitude.max(1e-3);
        Tracked { tensor, magnitude, error }
    }

    /// A result without error: integers and bools.
    pub fn exact(tensor: Tensor) -> Tracked {
        Tracked { tensor, magnitude: 4.0, error: 0.0 }
    }

    /// This value, or its tanh when it may be greater than `limit`.
    pub fn tamed(&self, limit: f64) -> Tracked {
        match self.magnitude <= limit {
            true => self.clone(),
            false => Tracked::rounded(self.tensor.tanh(), 1.0, self.error),
        }
    }

    /// Whether decisions may depend on it.
    pub fn is_exact(&self) -> bool {
        self.error == 0.0
    }
}

/// A graph under construction.
pub struct GraphGenerator {
    /// Where it is recorded.
    pub trace: Trace,
    /// Everything made so far.
    pub values: Vec<Tracked>,
    /// The float type that most values have.
    pub float: DType,
}

/// Larger results are not worth their time.
const MOST_ELEMENTS: usize = 2000;

impl GraphGenerator {
    /// The value that a number picks among those with a property. The inputs make sure that there is one.
    pub fn pick(&self, number: u8, wanted: impl Fn(&Tracked) -> bool) -> Tracked {
        let fitting: Vec<&Tracked> = self.values.iter().filter(|value| wanted(value)).collect();
        // Counted from the end: small numbers, which shrinking prefers, take what was made last.
        fitting[fitting.len() - 1 - number as usize % fitting.len()].clone()
    }

    /// A float value.
    pub fn float(&self, number: u8) -> Tracked {
        self.pick(number, |value| value.tensor.dtype().is_float())
    }

    /// A value whose elements are known exactly.
    pub fn exact(&self, number: u8) -> Tracked {
        self.pick(number, Tracked::is_exact)
    }

    /// A value of that shape and of that kind, made from another one by cutting and repeating.
    pub fn fitted(&self, value: &Tracked, dims: &[usize]) -> Tracked {
        let elements = value.tensor.shape().elements();
        if elements == dims.iter().product() {
            return value.moved(value.tensor.reshape(dims));
        }
        let flat = value.tensor.reshape(&[elements]);
        let wanted: usize = dims.iter().product();
        let filled = match elements {
            0 => value.tensor.scalar_like(1.0).broadcast_to(&[wanted]),
            _ => {
                let repeats = wanted.div_ceil(elements).max(1);
                let repeated = flat.broadcast_in_dim(&[repeats, elements], &[1]).reshape(&[repeats * elements]);
                repeated.slice_axis(0, 0, wanted)
            }
        };
        Tracked { magnitude: value.magnitude.max(1.0), ..value.moved(filled.reshape(dims)) }
    }

    /// Keeps a result.
    pub fn keep(&mut self, value: Tracked) {
        if value.tensor.shape().elements() <= MOST_ELEMENTS {
            self.values.push(value);
        }
    }
}

/// A shape with the axes that a number chooses reduced to something else.
pub fn chosen_axis(shape: &Shape, choice: usize) -> Option<usize> {
    (shape.rank() > 0).then(|| choice % shape.rank())
}
