//! SSA names, given in the order in which values are printed.

use crate::operation::Value;
use crate::types;
use std::collections::HashMap;

/// The names of the values of one function.
#[derive(Default)]
pub struct Names {
    names: HashMap<usize, String>,
    next: usize,
}

impl Names {
    /// `%arg0`, `%arg1`, …: the arguments of a function.
    pub fn arguments(values: &[Value]) -> Names {
        let names = values.iter().enumerate().map(|(i, value)| (value.id, format!("%arg{i}")));
        Names { names: names.collect(), next: 0 }
    }

    /// Names the results of one operation and returns what stands before the `=`: `%0`, or `%0:2` for two results.
    pub fn results(&mut self, results: &[Value]) -> String {
        let name = self.fresh();
        match results {
            [only] => {
                self.names.insert(only.id, name.clone());
                name
            }
            several => {
                for (i, value) in several.iter().enumerate() {
                    self.names.insert(value.id, format!("{name}#{i}"));
                }
                format!("{name}:{}", several.len())
            }
        }
    }

    /// Names each of some values.
    pub fn each(&mut self, values: &[Value]) {
        for value in values {
            let name = self.fresh();
            self.names.insert(value.id, name);
        }
    }

    /// Gives values the names of others, one by one.
    pub fn alias(&mut self, values: &[Value], others: &[Value]) {
        for (value, other) in values.iter().zip(others) {
            let name = self.of(other).to_string();
            self.names.insert(value.id, name);
        }
    }

    /// The name of a value.
    pub fn of(&self, value: &Value) -> &str {
        self.names.get(&value.id).expect("a value is defined before it is used")
    }

    /// `%0, %1`.
    pub fn list(&self, values: &[Value]) -> String {
        types::join(values.iter().map(|value| self.of(value)))
    }

    /// `%0: tensor<f32>, %1: tensor<i32>`.
    pub fn typed(&self, values: &[Value]) -> String {
        types::join(values.iter().map(|value| format!("{}: {}", self.of(value), types::tensor(&value.shape))))
    }

    fn fresh(&mut self) -> String {
        self.next += 1;
        format!("%{}", self.next - 1)
    }
}
