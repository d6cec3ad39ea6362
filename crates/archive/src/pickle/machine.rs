//! The stack machine: what every instruction of protocols 0 to 5 does.

mod objects;

use super::code::{Code, raw_unicode, unquoted};
use super::value::{Node, Pickle, Ref};
use super::{Globals, PickleError, PickleLimits};
use octant_tensor::Bytes;
use std::collections::HashMap;

type Done<T = ()> = Result<T, PickleError>;

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
        let (nodes, stack, marks, memo) = Default::default();
        Machine { code, globals, keep_foreign, limits, nodes, stack, marks, memo, copy_allowance }
    }

    pub fn run(mut self) -> Done<(Pickle, usize)> {
        for _ in 0..self.limits.steps {
            let opcode = self.code.byte()?;
            if opcode == b'.' {
                let root = self.pop()?;
                return Ok((Pickle { nodes: self.nodes, root }, self.code.position()));
            }
            self.step(opcode)?;
        }
        Err(PickleError::TooLarge { what: "instructions", limit: self.limits.steps })
    }

    fn step(&mut self, opcode: u8) -> Done {
        match opcode {
            // Framing.
            0x80 => self.protocol(),
            0x95 => self.frame(),
            // Constants, numbers, strings.
            b'N' | 0x88 | 0x89 | b'I' | b'J' | b'K' | b'M' | b'L' | 0x8a | 0x8b | b'F' | b'G' => self.number(opcode),
            b'S' | b'T' | b'U' | b'B' | b'C' | 0x8e | 0x96 | b'V' | b'X' | 0x8c | 0x8d => self.string(opcode),
            // Containers.
            b']' => self.push(Node::List(Vec::new())),
            b'}' => self.push(Node::Dict(Vec::new())),
            0x8f => self.push(Node::Set(Vec::new())),
            b')' => self.push(Node::Tuple(Box::default())),
            b'l' => self.collect_to_mark(|items| Ok(Node::List(items))),
            b't' => self.collect_to_mark(|items| Ok(Node::Tuple(items.into()))),
            0x91 => self.collect_to_mark(|items| Ok(Node::Set(items))),
            b'd' => self.collect_to_mark(|items| Ok(Node::Dict(pairs(&items)?))),
            0x85 => self.tuple(1),
            0x86 => self.tuple(2),
            0x87 => self.tuple(3),
            b'a' => self.take(1).and_then(|items| self.extend(items)),
            b'e' | 0x90 => self.take_to_mark().and_then(|items| self.extend(items)),
            b's' => self.take(2).and_then(|items| self.set_items(&items)),
            b'u' => self.take_to_mark().and_then(|items| self.set_items(&items)),
            // The stack itself.
            b'(' => self.mark(),
            b'0' => self.discard(),
            b'1' => self.take_to_mark().map(|_| ()),
            b'2' => self.top().map(|top| self.stack.push(top)),
            // The memo.
            b'g' | b'h' | b'j' => self.recall(opcode),
            b'p' | b'q' | b'r' | 0x94 => self.remember(opcode),
            // Objects: recorded, never constructed.
            b'c' | 0x93 => self.global(opcode),
            b'R' | 0x81 => self.object(),
            0x92 => self.object_with_keywords(),
            b'i' | b'o' => self.object_from_mark(opcode),
            b'b' => self.build(),
            b'P' | b'Q' => self.persistent(opcode),
            0x82..=0x84 => Err(self.code.damaged("it uses an extension registry that only its writer knows")),
            0x97 | 0x98 => Err(self.code.damaged("part of its data lies outside the file")),
            other => Err(self.code.damaged(format!("there is no instruction 0x{other:02x}"))),
        }
    }

    // ---- the stack ----

    fn push(&mut self, node: Node) -> Done {
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

    fn top(&self) -> Done<Ref> {
        let above = self.stack.len() > self.floor();
        self.stack.last().copied().filter(|_| above).ok_or_else(|| self.code.damaged("a value is missing"))
    }

    fn pop(&mut self) -> Done<Ref> {
        let top = self.top()?;
        self.stack.pop();
        Ok(top)
    }

    fn take(&mut self, count: usize) -> Done<Vec<Ref>> {
        let height = self.stack.len().checked_sub(count).filter(|&height| height >= self.floor());
        let height = height.ok_or_else(|| self.code.damaged("values are missing"))?;
        Ok(self.stack.split_off(height))
    }

    fn take_to_mark(&mut self) -> Done<Vec<Ref>> {
        let mark = self.marks.pop().ok_or_else(|| self.code.damaged("a mark is missing"))?;
        Ok(self.stack.split_off(mark))
    }

    fn mark(&mut self) -> Done {
        self.marks.push(self.stack.len());
        Ok(())
    }

    /// "Pop" also removes a mark when that is what lies on top.
    fn discard(&mut self) -> Done {
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

    fn protocol(&mut self) -> Done {
        match self.code.byte()? {
            0..=5 => Ok(()),
            newer => Err(self.code.damaged(format!("protocol {newer} is newer than the known ones (0 to 5)"))),
        }
    }

    /// Frames only help readers of slow streams; their contents follow as usual.
    fn frame(&mut self) -> Done {
        self.code.array::<8>().map(|_| ())
    }

    fn number(&mut self, opcode: u8) -> Done {
        let code = &mut self.code;
        let node = match opcode {
            b'N' => Node::None,
            0x88 => Node::Bool(true),
            0x89 => Node::Bool(false),
            b'J' => Node::Int(i32::from_le_bytes(code.array()?).into()),
            b'K' => Node::Int(code.byte()?.into()),
            b'M' => Node::Int(u16::from_le_bytes(code.array()?).into()),
            0x8a => integer(code.window8()?),
            0x8b => integer(code.window32()?),
            b'G' => Node::Float(f64::from_be_bytes(code.array()?)),
            _ => number_in_text(opcode, code.text_line()?).ok_or_else(|| code.damaged("a number is not one"))?,
        };
        self.push(node)
    }

    fn string(&mut self, opcode: u8) -> Done {
        let code = &mut self.code;
        let node = match opcode {
            b'T' | b'B' => Node::Bytes(code.window32()?),
            b'U' | b'C' => Node::Bytes(code.window8()?),
            0x8e | 0x96 => Node::Bytes(code.window64()?),
            b'X' => self.text(Code::window32)?,
            0x8c => self.text(Code::window8)?,
            0x8d => self.text(Code::window64)?,
            b'S' => {
                let content = unquoted(code.line()?).ok_or_else(|| code.damaged("a string is badly quoted"))?;
                Node::Bytes(Bytes::new(content))
            }
            _ => {
                let text = raw_unicode(code.line()?).ok_or_else(|| code.damaged("a text is badly escaped"))?;
                Node::Text(Bytes::new(text.into_bytes()))
            }
        };
        self.push(node)
    }

    fn text(&mut self, window: impl Fn(&mut Code<'a>) -> Done<Bytes>) -> Done<Node> {
        let bytes = window(&mut self.code)?;
        match std::str::from_utf8(&bytes) {
            Ok(_) => Ok(Node::Text(bytes)),
            Err(_) => Err(self.code.damaged("a text is not UTF-8")),
        }
    }

    // ---- containers ----

    fn collect_to_mark(&mut self, make: impl Fn(Vec<Ref>) -> Result<Node, &'static str>) -> Done {
        let items = self.take_to_mark()?;
        let node = make(items).map_err(|problem| self.code.damaged(problem))?;
        self.push(node)
    }

    fn tuple(&mut self, count: usize) -> Done {
        let items = self.take(count)?;
        self.push(Node::Tuple(items.into()))
    }

    /// Appends to the list or set that lies on top.
    fn extend(&mut self, items: Vec<Ref>) -> Done {
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
    fn set_items(&mut self, items: &[Ref]) -> Done {
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

    fn memo_index(&mut self, opcode: u8) -> Done<u32> {
        match opcode {
            b'h' | b'q' => Ok(self.code.byte()?.into()),
            b'j' | b'r' => Ok(u32::from_le_bytes(self.code.array()?)),
            0x94 => Ok(self.memo.len() as u32),
            _ => self.code.text_line()?.trim().parse().map_err(|_| self.code.damaged("a memo index is not a number")),
        }
    }

    fn recall(&mut self, opcode: u8) -> Done {
        let index = self.memo_index(opcode)?;
        let value = self.memo.get(&index).ok_or_else(|| self.code.damaged(format!("memo {index} was never set")))?;
        self.stack.push(*value);
        Ok(())
    }

    fn remember(&mut self, opcode: u8) -> Done {
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
        (b'I', "00") => Some(Node::Bool(false)),
        (b'I', "01") => Some(Node::Bool(true)),
        (b'F', _) => line.parse().ok().map(Node::Float),
        _ => {
            let value: i128 = line.trim_end_matches('L').parse().ok()?;
            let wide = || Node::LongInt(Bytes::new(value.to_le_bytes().to_vec()));
            Some(i64::try_from(value).map_or_else(|_| wide(), Node::Int))
        }
    }
}
