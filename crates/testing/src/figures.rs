//! Reading the stored figures and comparing tensors with them.

use crate::deterministic::mix;
use octant_nn::random::path_hash;
use std::path::Path;

/// The largest difference that is still equal, relative to the size of the tensor.
#[derive(Clone, Copy)]
pub struct Tolerance {
    /// In evaluation mode.
    pub evaluation: f64,
    /// In training: loss, outputs, gradients, state.
    pub training: f64,
}

impl Tolerance {
    /// The same for both.
    pub const fn new(both: f64) -> Tolerance {
        Tolerance { evaluation: both, training: both }
    }
}

/// The figures of one model.
pub struct Figures {
    /// How near tensors must be.
    pub tolerance: Tolerance,
    lines: Vec<Line>,
}

struct Line {
    what: String,
    name: String,
    size: usize,
    numbers: Vec<f64>,
}

impl Figures {
    /// The stored figures of a model of the zoo.
    pub fn read(name: &str, tolerance: Tolerance) -> Figures {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../zoo/golden/figures").join(format!("{name}.txt"));
        let text = std::fs::read_to_string(&path).unwrap();
        Figures { tolerance, lines: text.lines().map(Line::parse).collect() }
    }

    /// The number of a line that has only one.
    pub fn size(&self, name: &str) -> usize {
        self.line("size", name).size
    }

    /// How many elements a tensor has.
    pub fn elements(&self, what: &str, name: &str) -> usize {
        self.line(what, name).size
    }

    /// A loss.
    pub fn loss(&self, name: &str) -> f64 {
        self.line("loss", name).numbers[0]
    }

    /// The names of all tensors of a kind, in order.
    pub fn names(&self, what: &str) -> Vec<&str> {
        self.lines.iter().filter(|line| line.what == what).map(|line| line.name.as_str()).collect()
    }

    /// Compares a tensor in the reference's layout. `floor` is the size below which elements are noise, for gradients
    /// that vanish by cancellation.
    #[track_caller]
    pub fn compare(&self, what: &str, name: &str, values: &[f64], floor: f64) {
        let line = self.line(what, name);
        assert_eq!(values.len(), line.size, "{what} {name}");
        let [sum, norm, samples @ ..] = &line.numbers[..] else { panic!("{what} {name} has no figures") };
        let count = values.len() as f64;
        let scale = (norm / count.sqrt()).max(floor);
        let actual_norm = values.iter().map(|value| value * value).sum::<f64>().sqrt();
        let Tolerance { evaluation, training } = self.tolerance;
        let tolerance = if what == "evaluate" { evaluation } else { training };
        let close = |actual: f64, expected: f64, scale: f64| (actual - expected).abs() <= tolerance * scale;
        let message = |part: &str, actual: f64, expected: f64| {
            format!("{what} {name}: the {part} is {actual}, the reference's {expected} (typical element {scale:.3e})")
        };
        assert!(close(actual_norm, *norm, scale * count.sqrt()), "{}", message("norm", actual_norm, *norm));
        let actual_sum = values.iter().sum();
        // Differences may all point the same way, so they add up with the number of elements.
        let sum_scale = scale * count;
        assert!(close(actual_sum, *sum, sum_scale), "{}", message("sum", actual_sum, *sum));
        for (k, &expected) in samples.iter().enumerate() {
            let index = mix(path_hash(name).wrapping_add(k as u64 + 1)) as usize % values.len();
            let actual = values[index];
            assert!(close(actual, expected, expected.abs().max(scale)), "{}", message("sample", actual, expected));
        }
    }

    fn line(&self, what: &str, name: &str) -> &Line {
        let found = self.lines.iter().find(|line| line.what == what && line.name == name);
        found.unwrap_or_else(|| panic!("there is no figure for {what} {name}"))
    }
}

impl Line {
    fn parse(text: &str) -> Line {
        let mut words = text.split(' ');
        let (what, name) = (words.next().unwrap().to_string(), words.next().unwrap().to_string());
        let size = words.next().unwrap().parse().unwrap();
        Line { what, name, size, numbers: words.map(|word| word.parse().unwrap()).collect() }
    }
}
