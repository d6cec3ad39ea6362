//! What the functions of one module share: options, the private functions so far, and their names.

use crate::operation::Function;
use crate::{LoweringOptions, text, types};
use std::collections::{HashMap, HashSet};

/// The functions of a module as they are built.
pub struct Module {
    pub options: LoweringOptions,
    /// The private functions.
    pub functions: Vec<Function>,
    /// From the text of a function without name and layer paths to its name.
    known: HashMap<String, String>,
    names: HashSet<String>,
}

impl Module {
    /// The name of the function that runs.
    pub const MAIN: &str = "main";

    pub fn new(options: LoweringOptions) -> Module {
        let names = HashSet::from([Module::MAIN.to_string()]);
        Module { options, functions: Vec::new(), known: HashMap::new(), names }
    }

    /// Adds a private function under a name made from its own, and returns that; an equal function is used again.
    pub fn add(&mut self, function: Function) -> String {
        let text = text::meaning(&function);
        if let Some(name) = self.known.get(&text) {
            return name.clone();
        }
        let name = self.unused_name(&function.name);
        self.known.insert(text, name.clone());
        self.functions.push(Function { name: name.clone(), ..function });
        name
    }

    /// A symbol made from a layer path.
    fn unused_name(&mut self, hint: &str) -> String {
        let base = types::symbol(hint, "body");
        let numbered = (1..).map(|i| format!("{base}_{i}"));
        let name = std::iter::once(base.clone()).chain(numbered).find(|name| !self.names.contains(name));
        let name = name.expect("there are more numbers than functions");
        self.names.insert(name.clone());
        name
    }
}
