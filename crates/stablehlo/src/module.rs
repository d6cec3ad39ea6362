//! What the functions of one module share: options, the private functions so far, and their names.

use crate::LoweringOptions;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// One line of a function: text and the layer it belongs to. Lines that only open or close a region have no layer.
#[derive(Debug, Clone)]
pub struct Line {
    pub text: String,
    pub path: Option<Arc<str>>,
}

/// The functions of a module as they are written.
pub struct Module {
    pub options: LoweringOptions,
    /// Signatures and lines of the private functions.
    pub functions: Vec<(String, Vec<Line>)>,
    /// From the text of a function without name and layer paths to its name.
    known: HashMap<String, String>,
    names: HashSet<String>,
}

impl Module {
    pub fn new(options: LoweringOptions) -> Module {
        let names = HashSet::from(["main".to_string()]);
        Module { options, functions: Vec::new(), known: HashMap::new(), names }
    }

    /// Adds a private function and returns its name; an equal one is used again.
    pub fn add(&mut self, hint: &str, signature: String, lines: Vec<Line>) -> String {
        let text = lines.iter().fold(signature.clone(), |text, line| text + "\n" + &line.text);
        if let Some(name) = self.known.get(&text) {
            return name.clone();
        }
        let name = self.unused_name(hint);
        self.known.insert(text, name.clone());
        self.functions.push((format!("func.func private @{name}{signature}"), lines));
        name
    }

    /// A symbol made from a layer path.
    fn unused_name(&mut self, hint: &str) -> String {
        let base = symbol(hint, "body");
        let numbered = (1..).map(|i| format!("{base}_{i}"));
        let name = std::iter::once(base.clone()).chain(numbered).find(|name| !self.names.contains(name));
        let name = name.expect("there are more numbers than functions");
        self.names.insert(name.clone());
        name
    }
}

/// Letters, digits, points and underscores of a text, beginning with a letter.
pub fn symbol(text: &str, otherwise: &str) -> String {
    let kept: String = text.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '_' }).collect();
    match kept.chars().next() {
        None => otherwise.to_string(),
        Some(first) if first.is_ascii_alphabetic() => kept,
        Some(_) => format!("_{kept}"),
    }
}
