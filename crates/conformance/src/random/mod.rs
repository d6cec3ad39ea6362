//! Randomly generated graphs, compared with the reference evaluator and shrunk when they fail.
//!
//! A `GraphSpec` is a list of numbers. `generator` turns *any* list into a well-typed graph, so a spec can be shrunk
//! number by number and step by step, and what is left is the smallest graph that still fails. While it generates a graph it
//! keeps track of how far rounding can carry every value, so the comparison is as strict as the graph allows.

mod generator;
mod spec;
mod steps;

use crate::Case;
use crate::values::UniformRng;
use spec::{GraphSpec, Step};

/// The specs of a sequence of random numbers, always the same one: a failure comes again.
fn specs(count: u32) -> impl Iterator<Item = GraphSpec> {
    let mut numbers = UniformRng::new(1);
    (0..count).map(move |_| {
        let mut byte = || numbers.bits() as u8;
        let (float, lengths, steps) = (byte(), [byte(), byte(), byte()], 1 + byte() % 15);
        let steps = (0..steps).map(|_| Step {
            kind: byte(),
            picks: [byte(), byte()],
            choice: u16::from_le_bytes([byte(), byte()]),
        });
        GraphSpec { float, lengths, steps: steps.collect() }
    })
}

/// Tries `count` graphs. The error names the smallest one that fails and shows it.
pub fn search(count: u32, check: impl Fn(&Case) -> Result<(), String>) -> Result<(), String> {
    match specs(count).find(|spec| check(&spec.generate()).is_err()) {
        None => Ok(()),
        Some(spec) => {
            let smallest = minimize(spec, |spec| check(&spec.generate()).is_err()).generate();
            Err(format!("{}\n    {}", check(&smallest).err().unwrap_or_default(), show(&smallest)))
        }
    }
}

/// Leaves out steps and sets numbers to zero as long as the spec still fails.
fn minimize(mut spec: GraphSpec, fails: impl Fn(&GraphSpec) -> bool) -> GraphSpec {
    loop {
        match spec.simpler().into_iter().find(&fails) {
            Some(simpler) => spec = simpler,
            None => return spec,
        }
    }
}

impl GraphSpec {
    /// Every spec that is one change simpler.
    fn simpler(&self) -> Vec<GraphSpec> {
        let mut all = Vec::new();
        for position in 0..self.steps.len() {
            let mut shorter = self.clone();
            shorter.steps.remove(position);
            all.push(shorter);
        }
        for position in 0..self.steps.len() {
            let change = |change: fn(&mut Step)| {
                let mut changed = self.clone();
                change(&mut changed.steps[position]);
                changed
            };
            all.extend([
                change(|step| step.picks[0] = 0),
                change(|step| step.picks[1] = 0),
                change(|step| step.choice = 0),
            ]);
        }
        all.push(GraphSpec { float: 0, ..self.clone() });
        all.push(GraphSpec { lengths: [0; 3], ..self.clone() });
        all.retain(|other| other != self);
        all
    }
}

/// The graphs that [`search`] tries first, for backends that are fed in batches.
pub fn graphs(count: u32) -> Vec<Case> {
    let named = |(number, spec): (usize, GraphSpec)| Case { name: format!("random/{number}"), ..spec.generate() };
    specs(count).enumerate().map(named).collect()
}

/// A graph line by line.
fn show(case: &Case) -> String {
    let line = |node: &octant_graph::Node| {
        let values = |ids: &[octant_graph::ValueId]| {
            let names = ids.iter().map(|&id| format!("%{} {}", id.index(), case.graph.shape(id)));
            names.collect::<Vec<_>>().join(", ")
        };
        format!("{} = {:?}({})", values(&node.outputs), node.op, values(&node.inputs))
    };
    let lines: Vec<String> = case.graph.nodes().iter().map(line).collect();
    format!("{}\n    inputs: {:?}", lines.join("\n    "), case.inputs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coverage;

    #[test]
    fn graphs_are_varied_and_can_be_evaluated() {
        let cases = graphs(300);
        for case in &cases {
            let outputs = case.expected().unwrap();
            let harmless = |value: &f64| value.is_finite();
            assert!(outputs.iter().all(|output| output.to_f64s().iter().all(harmless)), "{}", show(case));
        }
        let kinds = coverage::kinds_in(&cases);
        assert!(kinds.len() > 50, "only {} kinds of operations appear: {kinds:?}", kinds.len());
    }

    #[test]
    fn a_failure_is_shrunk_to_what_matters() {
        // A "backend" that cannot do tanh: the smallest failing graph has one operation that makes one.
        let fails = |case: &Case| match coverage::kinds_in(std::slice::from_ref(case)).contains("unary tanh") {
            true => Err("tanh is broken".to_string()),
            false => Ok(()),
        };
        let message = search(200, fails).unwrap_err();
        let operations = message.lines().filter(|line| line.contains(" = ") && !line.contains("Parameter")).count();
        assert!(message.contains("tanh is broken") && operations <= 3, "{message}");
    }
}
