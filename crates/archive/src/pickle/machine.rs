//! The stack machine: what every instruction of protocols 0 to 5 does.

mod objects;

use super::code::{Code, raw_unicode, unquoted};
use super::opcode as op;
use super::value::{Node, Pickle, Ref};
use super::{Globals, PickleError, PickleLimits};
use octant_tensor::Bytes;
use std::collections::HashMap;

type PickleResult<T = ()> = Result<T, PickleError>;

pub(super) struct Machine<'a> {
    code: Code<'a>,
    globals: &'a [Globals],
    /// Names that are not listed become [`globals::FOREIGN`] instead of being an error.
    keep_foreign: bool,
    limits: PickleLimits,
    nodes: Vec<Node>,
    stack: Vec<Ref>,
    /// Heights of the stack at which a mark was set.
    marks: Vec<usize>,
    memo: HashMap<u32, Ref>,
    /// A few instructions copy values. Valid pickles copy every value at most once, so the total of copies
    /// is limited to the size of the input; otherwise a short loop over one long string would fill the memory.
    copy_allowance: usize,
}

impl<'a> Machine<'a> {
    pub fn new(input: &'a Bytes, globals: &'a [Globals], keep_foreign: bool, limits: PickleLimits) -> Machine<'a> {
        let code = Code::new(input);
        let copy_allowance = code.len();
        Machine {
            code,
            globals,
            keep_foreign,
            limits,
            nodes: Vec::new(),
            stack: Vec::new(),
            marks: Vec::new(),
            memo: HashMap::new(),
            copy_allowance,
        }
    }

    pub fn run(mut self) -> PickleResult<(Pickle, usize)> {
        for _ in 0..self.limits.steps {
            let opcode = self.code.byte()?;
            if opcode == op::STOP {
                let root = self.pop()?;
                return Ok((Pickle { nodes: self.nodes, root }, self.code.position()));
            }
            self.step(opcode)?;
        }
        Err(PickleError::TooLarge { what: "instructions", limit: self.limits.steps })
    }

    fn step(&mut self, opcode: u8) -> PickleResult {
        match opcode {
            op::PROTO => self.protocol(),
            op::FRAME => self.frame(),
            op::NONE | op::NEWTRUE | op::NEWFALSE => self.number(opcode),
            op::INT | op::BININT | op::BININT1 | op::BININT2 => self.number(opcode),
            op::LONG | op::LONG1 | op::LONG4 | op::FLOAT | op::BINFLOAT => self.number(opcode),
            op::STRING | op::BINSTRING | op::SHORT_BINSTRING => self.string(opcode),
            op::BINBYTES | op::SHORT_BINBYTES | op::BINBYTES8 | op::BYTEARRAY8 => self.string(opcode),
            op::UNICODE | op::BINUNICODE | op::SHORT_BINUNICODE | op::BINUNICODE8 => self.string(opcode),
            op::EMPTY_LIST => self.push(Node::List(Vec::new())),
            op::EMPTY_DICT => self.push(Node::Dict(Vec::new())),
            op::EMPTY_SET => self.push(Node::Set(Vec::new())),
            op::EMPTY_TUPLE => self.push(Node::Tuple(Box::default())),
            op::LIST => self.collect_to_mark(|items| Ok(Node::List(items))),
            op::TUPLE => self.collect_to_mark(|items| Ok(Node::Tuple(items.into()))),
            op::FROZENSET => self.collect_to_mark(|items| Ok(Node::Set(items))),
            op::DICT => self.collect_to_mark(|items| Ok(Node::Dict(pairs(&items)?))),
            op::TUPLE1 => self.tuple(1),
            op::TUPLE2 => self.tuple(2),
            op::TUPLE3 => self.tuple(3),
            op::APPEND => self.take(1).and_then(|items| self.extend(items)),
            op::APPENDS | op::ADDITEMS => self.take_to_mark().and_then(|items| self.extend(items)),
            op::SETITEM => self.take(2).and_then(|items| self.set_items(&items)),
            op::SETITEMS => self.take_to_mark().and_then(|items| self.set_items(&items)),
            op::MARK => self.mark(),
            op::POP => self.discard(),
            op::POP_MARK => self.take_to_mark().map(|_| ()),
            op::DUP => self.top().map(|top| self.stack.push(top)),
            op::GET | op::BINGET | op::LONG_BINGET => self.recall(opcode),
            op::PUT | op::BINPUT | op::LONG_BINPUT | op::MEMOIZE => self.remember(opcode),
            // Objects are recorded, never constructed.
            op::GLOBAL | op::STACK_GLOBAL => self.global(opcode),
            op::REDUCE | op::NEWOBJ => self.object(),
            op::NEWOBJ_EX => self.object_with_keywords(),
            op::INST | op::OBJ => self.object_from_mark(opcode),
            op::BUILD => self.build(),
            op::PERSID | op::BINPERSID => self.persistent(opcode),
            op::EXT1..=op::EXT4 => Err(self.code.damaged("it uses an extension registry that only its writer knows")),
            op::NEXT_BUFFER | op::READONLY_BUFFER => Err(self.code.damaged("part of its data lies outside the file")),
            other => Err(self.code.damaged(format!("there is no instruction 0x{other:02x}"))),
        }
    }

    // ---- the stack ----

    fn push(&mut self, node: Node) -> PickleResult {
        if self.nodes.len() >= self.limits.values.min(u32::MAX as usize) {
            return Err(PickleError::TooLarge { what: "values", limit: self.limits.values });
        }
        self.stack.push(Ref(self.nodes.len() as u32));
        self.nodes.push(node);
        Ok(())
    }

    /// The lowest height to which values may be popped.
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    fn top(&self) -> PickleResult<Ref> {
        let above = self.stack.len() > self.floor();
        self.stack.last().copied().filter(|_| above).ok_or_else(|| self.code.damaged("a value is missing"))
    }

    fn pop(&mut self) -> PickleResult<Ref> {
        let top = self.top()?;
        self.stack.pop();
        Ok(top)
    }

    fn take(&mut self, count: usize) -> PickleResult<Vec<Ref>> {
        let height = self.stack.len().checked_sub(count).filter(|&height| height >= self.floor());
        let height = height.ok_or_else(|| self.code.damaged("values are missing"))?;
        Ok(self.stack.split_off(height))
    }

    fn take_to_mark(&mut self) -> PickleResult<Vec<Ref>> {
        let mark = self.marks.pop().ok_or_else(|| self.code.damaged("a mark is missing"))?;
        Ok(self.stack.split_off(mark))
    }

    fn mark(&mut self) -> PickleResult {
        self.marks.push(self.stack.len());
        Ok(())
    }

    /// "Pop" also removes a mark when that is what lies on top.
    fn discard(&mut self) -> PickleResult {
        if self.marks.last() == Some(&self.stack.len()) {
            self.marks.pop();
            return Ok(());
        }
        self.pop().map(|_| ())
    }

    fn node(&mut self, at: Ref) -> &mut Node {
        &mut self.nodes[at.0 as usize]
    }

    // ---- framing, numbers, strings ----

    fn protocol(&mut self) -> PickleResult {
        match self.code.byte()? {
            0..=5 => Ok(()),
            newer => Err(self.code.damaged(format!("protocol {newer} is newer than the known ones (0 to 5)"))),
        }
    }

    /// Frames only help readers of slow streams; their contents follow as usual.
    fn frame(&mut self) -> PickleResult {
        self.code.array::<8>().map(|_| ())
    }

    fn number(&mut self, opcode: u8) -> PickleResult {
        let code = &mut self.code;
        let node = match opcode {
            op::NONE => Node::None,
            op::NEWTRUE => Node::Bool(true),
            op::NEWFALSE => Node::Bool(false),
            op::BININT => Node::Int(i32::from_le_bytes(code.array()?).into()),
            op::BININT1 => Node::Int(code.byte()?.into()),
            op::BININT2 => Node::Int(u16::from_le_bytes(code.array()?).into()),
            op::LONG1 => integer(code.window8()?),
            op::LONG4 => integer(code.window32()?),
            op::BINFLOAT => Node::Float(f64::from_be_bytes(code.array()?)),
            // INT, LONG and FLOAT are decimal text.
            _ => number_in_text(opcode, code.text_line()?).ok_or_else(|| code.damaged("a number is not one"))?,
        };
        self.push(node)
    }

    fn string(&mut self, opcode: u8) -> PickleResult {
        let code = &mut self.code;
        let node = match opcode {
            op::BINSTRING | op::BINBYTES => Node::Bytes(code.window32()?),
            op::SHORT_BINSTRING | op::SHORT_BINBYTES => Node::Bytes(code.window8()?),
            op::BINBYTES8 | op::BYTEARRAY8 => Node::Bytes(code.window64()?),
            op::BINUNICODE => self.text(Code::window32)?,
            op::SHORT_BINUNICODE => self.text(Code::window8)?,
            op::BINUNICODE8 => self.text(Code::window64)?,
            op::STRING => {
                let content = unquoted(code.line()?).ok_or_else(|| code.damaged("a string is badly quoted"))?;
                Node::Bytes(Bytes::new(content))
            }
            // UNICODE.
            _ => {
                let text = raw_unicode(code.line()?).ok_or_else(|| code.damaged("a text is badly escaped"))?;
                Node::Text(Bytes::new(text.into_bytes()))
            }
        };
        self.push(node)
    }

    fn text(&mut self, window: impl Fn(&mut Code<'a>) -> PickleResult<Bytes>) -> PickleResult<Node> {
        let bytes = window(&mut self.code)?;
        match std::str::from_utf8(&bytes) {
            Ok(_) => Ok(Node::Text(bytes)),
            Err(_) => Err(self.code.damaged("a text is not UTF-8")),
        }
    }

    // ---- containers ----

    fn collect_to_mark(&mut self, make: impl Fn(Vec<Ref>) -> Result<Node, &'static str>) -> PickleResult {
        let items = self.take_to_mark()?;
        let node = make(items).map_err(|problem| self.code.damaged(problem))?;
        self.push(node)
    }

    fn tuple(&mut self, count: usize) -> PickleResult {
        let items = self.take(count)?;
        self.push(Node::Tuple(items.into()))
    }

    /// Appends to the list or set that lies on top.
    fn extend(&mut self, items: Vec<Ref>) -> PickleResult {
        let (target, keep_foreign) = (self.top()?, self.keep_foreign);
        match self.node(target) {
            Node::List(list) | Node::Set(list) => {
                list.extend(items);
                Ok(())
            }
            // A class of its author's that is a list as well: what it holds is not looked at.
            Node::Object(_) if keep_foreign => Ok(()),
            _ => Err(self.code.damaged("it appends to something that is not a list")),
        }
    }

    /// Sets entries of the dictionary that lies on top.
    fn set_items(&mut self, items: &[Ref]) -> PickleResult {
        let entries = pairs(items).map_err(|problem| self.code.damaged(problem))?;
        let (target, keep_foreign) = (self.top()?, self.keep_foreign);
        match self.node(target) {
            Node::Dict(dict) => {
                dict.extend(entries);
                Ok(())
            }
            Node::Object(_) if keep_foreign => Ok(()),
            _ => Err(self.code.damaged("it sets entries of something that is not a dictionary")),
        }
    }

    // ---- the memo ----

    fn memo_index(&mut self, opcode: u8) -> PickleResult<u32> {
        match opcode {
            op::BINGET | op::BINPUT => Ok(self.code.byte()?.into()),
            op::LONG_BINGET | op::LONG_BINPUT => Ok(u32::from_le_bytes(self.code.array()?)),
            op::MEMOIZE => Ok(self.memo.len() as u32),
            // GET and PUT: decimal text.
            _ => self.code.text_line()?.trim().parse().map_err(|_| self.code.damaged("a memo index is not a number")),
        }
    }

    fn recall(&mut self, opcode: u8) -> PickleResult {
        let index = self.memo_index(opcode)?;
        let value = self.memo.get(&index).ok_or_else(|| self.code.damaged(format!("memo {index} was never set")))?;
        self.stack.push(*value);
        Ok(())
    }

    fn remember(&mut self, opcode: u8) -> PickleResult {
        let index = self.memo_index(opcode)?;
        let value = self.top()?;
        self.memo.insert(index, value);
        Ok(())
    }
}

fn pairs(items: &[Ref]) -> Result<Vec<(Ref, Ref)>, &'static str> {
    let (pairs, rest) = items.as_chunks::<2>();
    if rest.is_empty() {
        Ok(pairs.iter().map(|&[key, value]| (key, value)).collect())
    } else {
        Err("a key has no value")
    }
}

fn integer(bytes: Bytes) -> Node {
    if bytes.len() > 8 {
        return Node::LongInt(bytes);
    }
    let negative = bytes.last().is_some_and(|&last| last >= 0x80);
    let mut wide = [if negative { 0xff } else { 0 }; 8];
    wide[..bytes.len()].copy_from_slice(&bytes);
    Node::Int(i64::from_le_bytes(wide))
}

fn number_in_text(opcode: u8, line: &str) -> Option<Node> {
    let line = line.trim();
    match (opcode, line) {
        (op::INT, "00") => Some(Node::Bool(false)),
        (op::INT, "01") => Some(Node::Bool(true)),
        (op::FLOAT, _) => line.parse().ok().map(Node::Float),
        _ => {
            let value: i128 = line.trim_end_matches('L').parse().ok()?;
            let wide = || Node::LongInt(Bytes::new(value.to_le_bytes().to_vec()));
            Some(i64::try_from(value).map_or_else(|_| wide(), Node::Int))
        }
    }
}
