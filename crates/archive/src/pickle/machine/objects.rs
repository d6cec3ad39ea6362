//! Globals, calls and instances: recorded, never made.

use super::{Machine, PickleResult, op};
use crate::pickle::value::{Node, ObjectNode, Ref};
use crate::pickle::{PickleError, globals};
use octant_tensor::Bytes;

impl Machine<'_> {
    pub(super) fn global(&mut self, opcode: u8) -> PickleResult {
        if opcode == op::GLOBAL {
            let (module, name) = (self.code.text_line()?, self.code.text_line()?);
            return self.push_global(module, name);
        }
        let names = self.take(2)?;
        let text = |at: Ref| match &self.nodes[at.0 as usize] {
            Node::Text(bytes) | Node::Bytes(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
            _ => None,
        };
        match (text(names[0]), text(names[1])) {
            (Some(module), Some(name)) => self.push_global(&module, &name),
            _ => Err(self.code.damaged("a global has no name")),
        }
    }

    fn push_global(&mut self, module: &str, name: &str) -> PickleResult {
        match globals::find(self.globals, module, name) {
            Some((module, name)) => self.push(Node::Global(module, name)),
            None if self.keep_foreign => self.push(Node::Global(globals::FOREIGN.0, globals::FOREIGN.1)),
            None => Err(PickleError::Forbidden { module: printable(module), name: printable(name) }),
        }
    }

    pub(super) fn object(&mut self) -> PickleResult {
        let parts = self.take(2)?;
        self.push_object(parts[0], parts[1])
    }

    pub(super) fn object_with_keywords(&mut self) -> PickleResult {
        let parts = self.take(3)?;
        match self.node(parts[2]) {
            Node::Dict(keywords) if keywords.is_empty() => self.push_object(parts[0], parts[1]),
            _ => Err(self.code.damaged("an object is made with keywords, which tensors never are")),
        }
    }

    /// Python 2's instances: the class lies above the mark (or is named in the code), its arguments follow.
    pub(super) fn object_from_mark(&mut self, opcode: u8) -> PickleResult {
        if opcode == op::INST {
            let (module, name) = (self.code.text_line()?, self.code.text_line()?);
            let args = self.take_to_mark()?;
            self.push(Node::Tuple(args.into()))?;
            self.push_global(module, name)?;
            let parts = self.take(2)?;
            return self.push_object(parts[1], parts[0]);
        }
        let items = self.take_to_mark()?;
        let Some((&class, args)) = items.split_first() else { return Err(self.code.damaged("an object has no class")) };
        self.push(Node::Tuple(args.into()))?;
        let args = self.pop()?;
        self.push_object(class, args)
    }

    /// Dictionaries and bytes become what they are; everything else stays a record.
    fn push_object(&mut self, global: Ref, args: Ref) -> PickleResult {
        let &mut Node::Global(module, name) = self.node(global) else {
            return Err(self.code.damaged("it calls something that has no name"));
        };
        let Node::Tuple(values) = &self.nodes[args.0 as usize] else {
            return Err(self.code.damaged("arguments are not a tuple"));
        };
        let first = values.first().map(|at| &self.nodes[at.0 as usize]);
        let node = match (module, name, first) {
            ("collections", "OrderedDict" | "Counter", None) | ("collections", "defaultdict", _) => Node::Dict(vec![]),
            ("collections", "Counter", Some(Node::Dict(entries))) => {
                spend(&mut self.copy_allowance, entries.len())?;
                Node::Dict(entries.clone())
            }
            ("collections", "OrderedDict", Some(Node::List(items))) => {
                spend(&mut self.copy_allowance, items.len())?;
                let pair = |at: &Ref| match &self.nodes[at.0 as usize] {
                    Node::List(pair) => <[Ref; 2]>::try_from(&pair[..]).ok(),
                    Node::Tuple(pair) => <[Ref; 2]>::try_from(&pair[..]).ok(),
                    _ => None,
                };
                let entries = items.iter().map(|item| pair(item).map(|[key, value]| (key, value)));
                let entries: Option<Vec<_>> = entries.collect();
                Node::Dict(entries.ok_or_else(|| self.code.damaged("a dictionary is not made of pairs"))?)
            }
            ("_codecs", "encode", Some(Node::Text(text))) => {
                spend(&mut self.copy_allowance, text.len())?;
                let bytes = latin1(text).ok_or_else(|| self.code.damaged("a text is not Latin-1"))?;
                Node::Bytes(Bytes::new(bytes))
            }
            _ => Node::Object(Box::new(ObjectNode { global, args, state: None })),
        };
        self.push(node)
    }

    /// Sets the state of the object below. Attributes of dictionaries (PyTorch's `_metadata`) mean nothing here.
    pub(super) fn build(&mut self) -> PickleResult {
        let state = self.pop()?;
        let target = self.top()?;
        match self.node(target) {
            Node::Object(object) => {
                object.state = Some(state);
                Ok(())
            }
            Node::Dict(_) => Ok(()),
            _ => Err(self.code.damaged("it sets the state of something that has none")),
        }
    }

    pub(super) fn persistent(&mut self, opcode: u8) -> PickleResult {
        if opcode == op::PERSID {
            let text = self.code.text_line()?.as_bytes().to_vec();
            self.push(Node::Text(Bytes::new(text)))?;
        }
        let id = self.pop()?;
        self.push(Node::Persistent(id))
    }
}

fn spend(allowance: &mut usize, amount: usize) -> PickleResult {
    let left = allowance.checked_sub(amount);
    *allowance = left.ok_or(PickleError::TooLarge { what: "copies of what it holds", limit: 1 })?;
    Ok(())
}

/// The bytes whose Latin-1 text this is.
fn latin1(text: &[u8]) -> Option<Vec<u8>> {
    std::str::from_utf8(text).ok()?.chars().map(|symbol| u8::try_from(symbol as u32).ok()).collect()
}

/// A name from a file, made safe to show in a terminal.
fn printable(name: &str) -> String {
    name.chars().take(100).flat_map(char::escape_debug).collect()
}
