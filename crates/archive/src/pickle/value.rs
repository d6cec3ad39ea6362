//! What a pickle holds, and how it is read.

use octant_tensor::Bytes;
use std::fmt;

/// The values of one pickle. Reading starts at [`root`](Pickle::root).
pub struct Pickle {
    pub(super) nodes: Vec<Node>,
    pub(super) root: Ref,
}

/// The index of a value in its arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ref(pub u32);

pub(super) enum Node {
    None,
    Bool(bool),
    Int(i64),
    /// Little-endian two's complement, for integers of more than eight bytes.
    LongInt(Bytes),
    Float(f64),
    /// Known to be UTF-8.
    Text(Bytes),
    Bytes(Bytes),
    Tuple(Box<[Ref]>),
    List(Vec<Ref>),
    Set(Vec<Ref>),
    Dict(Vec<(Ref, Ref)>),
    Global(&'static str, &'static str),
    Object(Box<ObjectNode>),
    Persistent(Ref),
}

pub(super) struct ObjectNode {
    pub global: Ref,
    pub args: Ref,
    pub state: Option<Ref>,
}

impl Pickle {
    /// The value that was pickled.
    pub fn root(&self) -> PickleValue<'_> {
        PickleValue { pickle: self, at: self.root }
    }

    /// Every value once, in the order of creation, whether or not the root leads to it.
    pub fn values(&self) -> impl Iterator<Item = PickleValue<'_>> {
        (0..self.nodes.len() as u32).map(|index| PickleValue { pickle: self, at: Ref(index) })
    }
}

/// One value of a pickle: a cheap handle. Accessors of the wrong kind return `None`.
///
/// Values may be shared and may even contain themselves, so code that walks them bounds its depth.
#[derive(Clone, Copy)]
pub struct PickleValue<'a> {
    pickle: &'a Pickle,
    at: Ref,
}

/// The record of a call or an instance: nothing was called to make it.
#[derive(Clone, Copy)]
pub struct Object<'a> {
    /// The module of the function or class.
    pub module: &'static str,
    /// The function or class.
    pub name: &'static str,
    /// Its arguments, a tuple.
    pub args: PickleValue<'a>,
    /// What was set on it afterwards.
    pub state: Option<PickleValue<'a>>,
}

impl<'a> PickleValue<'a> {
    fn node(self) -> &'a Node {
        &self.pickle.nodes[self.at.0 as usize]
    }

    fn other(self, at: Ref) -> PickleValue<'a> {
        PickleValue { pickle: self.pickle, at }
    }

    /// True for Python's `None`.
    pub fn is_none(self) -> bool {
        matches!(self.node(), Node::None)
    }

    /// A bool.
    pub fn as_bool(self) -> Option<bool> {
        if let Node::Bool(truth) = self.node() { Some(*truth) } else { None }
    }

    /// An integer that fits.
    pub fn as_int(self) -> Option<i64> {
        if let Node::Int(value) = self.node() { Some(*value) } else { None }
    }

    /// An integer that is an index or a size.
    pub fn as_usize(self) -> Option<usize> {
        self.as_int().and_then(|value| value.try_into().ok())
    }

    /// An integer of more than eight bytes, little-endian in two's complement.
    pub fn as_long_int(self) -> Option<&'a [u8]> {
        if let Node::LongInt(bytes) = self.node() { Some(bytes) } else { None }
    }

    /// A floating-point number or an integer.
    pub fn as_f64(self) -> Option<f64> {
        match self.node() {
            Node::Float(value) => Some(*value),
            Node::Int(value) => Some(*value as f64),
            _ => None,
        }
    }

    /// Text, or a Python 2 string that is valid text.
    pub fn as_str(self) -> Option<&'a str> {
        self.as_bytes().and_then(|bytes| std::str::from_utf8(bytes).ok())
    }

    /// Bytes, or the UTF-8 of a text. Python 2 made no difference between the two, and its files are still around.
    pub fn as_bytes(self) -> Option<&'a Bytes> {
        if let Node::Text(bytes) | Node::Bytes(bytes) = self.node() { Some(bytes) } else { None }
    }

    /// The items of a list, tuple or set.
    pub fn items(self) -> Option<impl ExactSizeIterator<Item = PickleValue<'a>> + Clone> {
        let items: &'a [Ref] = match self.node() {
            Node::Tuple(items) => items,
            Node::List(items) | Node::Set(items) => items,
            _ => return None,
        };
        Some(items.iter().map(move |&item| self.other(item)))
    }

    /// The item at `index` of a list or tuple.
    pub fn item(self, index: usize) -> Option<PickleValue<'a>> {
        self.items()?.nth(index)
    }

    /// The entries of a dictionary, in order.
    pub fn entries(self) -> Option<impl ExactSizeIterator<Item = (PickleValue<'a>, PickleValue<'a>)> + Clone> {
        let Node::Dict(entries) = self.node() else { return None };
        Some(entries.iter().map(move |&(key, value)| (self.other(key), self.other(value))))
    }

    /// The value under a text (or bytes) key of a dictionary; the last one when it was set twice.
    pub fn get(self, key: &str) -> Option<PickleValue<'a>> {
        let Node::Dict(entries) = self.node() else { return None };
        let is_key = |at: Ref| self.other(at).as_bytes().is_some_and(|bytes| bytes[..] == *key.as_bytes());
        entries.iter().rev().find(|&&(at, _)| is_key(at)).map(|&(_, value)| self.other(value))
    }

    /// The module and name of a global.
    pub fn as_global(self) -> Option<(&'static str, &'static str)> {
        if let Node::Global(module, name) = self.node() { Some((module, name)) } else { None }
    }

    /// The record of a call or an instance.
    pub fn as_object(self) -> Option<Object<'a>> {
        let Node::Object(object) = self.node() else { return None };
        let (module, name) = self.other(object.global).as_global()?;
        Some(Object { module, name, args: self.other(object.args), state: object.state.map(|state| self.other(state)) })
    }

    /// The identifier of something that is stored outside the pickle.
    pub fn as_persistent(self) -> Option<PickleValue<'a>> {
        if let Node::Persistent(id) = self.node() { Some(self.other(*id)) } else { None }
    }
}

/// One short line: containers show how many items they have, long strings only their beginning.
impl fmt::Display for PickleValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.node() {
            Node::None => write!(f, "None"),
            Node::Bool(truth) => write!(f, "{}", if *truth { "True" } else { "False" }),
            Node::Int(value) => write!(f, "{value}"),
            Node::LongInt(bytes) => write!(f, "an integer of {} bytes", bytes.len()),
            Node::Float(value) => write!(f, "{value:?}"),
            Node::Text(text) => f.write_str(&shortened(text)),
            Node::Bytes(bytes) if bytes.len() > SHOWN => write!(f, "{} bytes", bytes.len()),
            Node::Bytes(bytes) => match self.as_str() {
                Some(text) if !text.contains(char::is_control) => f.write_str(text),
                _ => write!(f, "{} bytes", bytes.len()),
            },
            Node::Tuple(items) => write!(f, "tuple of {}", items.len()),
            Node::List(items) => write!(f, "list of {}", items.len()),
            Node::Set(items) => write!(f, "set of {}", items.len()),
            Node::Dict(entries) => write!(f, "dict of {}", entries.len()),
            Node::Global(module, name) => write!(f, "{module}.{name}"),
            Node::Object(object) => match self.other(object.global).as_global() {
                Some((module, name)) => write!(f, "{module}.{name}(…)"),
                None => write!(f, "an object"),
            },
            Node::Persistent(_) => write!(f, "a stored object"),
        }
    }
}

/// How much of a string is shown.
const SHOWN: usize = 200;

/// Looks only at the beginning: a file may show one endless text a million times.
fn shortened(text: &[u8]) -> String {
    match text.get(..SHOWN) {
        Some(beginning) if text.len() > SHOWN => format!("{}…", String::from_utf8_lossy(beginning)),
        _ => String::from_utf8_lossy(text).into_owned(),
    }
}

impl fmt::Debug for PickleValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Debug for Pickle {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "a pickled {} ({} values)", self.root(), self.nodes.len())
    }
}
