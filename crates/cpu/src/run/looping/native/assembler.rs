//! The few instructions of AVX-512 that loops are made of, as bytes.

pub(super) use super::operations::*;

/// A register of 16 numbers.
pub(super) type Zmm = u8;
/// A register of 16 bools; 0 stands for no mask.
pub(super) type Mask = u8;

/// The general registers that have a fixed meaning; pointers to operands live in [`POINTERS`].
pub(super) const HERE: u8 = 7; // rdi, the first argument
pub(super) const SLOTS: u8 = 6; // rsi, the second argument
const COUNT: u8 = 2; // rdx, the third argument
const INDEX: u8 = 1; // rcx
pub(super) const SPARE: u8 = 0; // rax
const COLUMNS_LEFT: u8 = 3; // rbx
const ROWS_LEFT: u8 = 5; // rbp
/// r8 to r15.
pub(super) const POINTERS: [u8; 8] = [8, 9, 10, 11, 12, 13, 14, 15];
/// What belongs to the caller.
const SAVED: [u8; 6] = [COLUMNS_LEFT, ROWS_LEFT, 12, 13, 14, 15];

/// What an instruction reads last, or where it stores.
#[derive(Clone, Copy, Debug)]
pub(super) enum Operand {
    Register(Zmm),
    /// At a general register, plus the loop's index times this many bytes, plus a distance.
    Memory {
        base: u8,
        scale: u8,
        distance: i32,
    },
    /// The same 32 bits everywhere: those at a general register.
    Everywhere {
        base: u8,
    },
    /// Those in the code.
    Constant(u32),
}

/// Machine code that is being assembled.
#[derive(Default)]
pub(super) struct Assembler {
    pub bytes: Vec<u8>,
    constants: Vec<u32>,
    /// Distances to constants that are filled in at the end: where, to which constant, and from which byte on they count.
    open: Vec<(usize, usize, usize)>,
}

impl Assembler {
    /// `target = op(source, operand)` on all lanes.
    pub fn emit(&mut self, op: Op, target: Zmm, source: Zmm, operand: Operand) {
        self.encode(op, [target, source], operand, 0, false, None);
    }

    /// The same with one operand.
    pub fn emit1(&mut self, op: Op, target: Zmm, operand: Operand) {
        self.emit(op, target, 0, operand);
    }

    /// The same where the mask is set; other lanes stay.
    pub fn emit_masked(&mut self, op: Op, mask: Mask, target: Zmm, source: Zmm, operand: Operand) {
        self.encode(op, [target, source], operand, mask, false, None);
    }

    /// The same where the mask is set; other lanes become zero.
    pub fn emit_or_zero(&mut self, op: Op, mask: Mask, target: Zmm, source: Zmm, operand: Operand) {
        self.encode(op, [target, source], operand, mask, true, None);
    }

    /// Where the source is NaN so becomes the target; other lanes stay.
    pub fn keep_nans(&mut self, target: Zmm, source: Zmm) {
        /// What becomes of the two kinds of NaN, four bits each: the source's own, made quiet.
        const OF_NANS: u32 = 0x22;
        self.encode(REPAIR, [target, source], Operand::Constant(OF_NANS), 0, false, Some(0));
    }

    /// The nearest whole numbers, halves to even.
    pub fn nearest_whole(&mut self, target: Zmm, source: Zmm) {
        self.encode(WHOLE, [target, 0], Operand::Register(source), 0, false, Some(0x08));
    }

    /// Compares by a predicate.
    pub fn compare(&mut self, mask: Mask, source: Zmm, operand: Operand, predicate: u8) {
        self.encode(COMPARE, [mask, source], operand, 0, false, Some(predicate));
    }

    /// The same for 32-bit integers with signs.
    pub fn compare_integers(&mut self, mask: Mask, source: Zmm, operand: Operand, predicate: u8) {
        self.encode(COMPARE_INTEGERS, [mask, source], operand, 0, false, Some(predicate));
    }

    /// `target = op(a, b)` of masks.
    pub fn combine_masks(&mut self, op: u8, target: Mask, [a, b]: [Mask; 2]) {
        self.bytes.extend([0xc5, 0x84 | (!a & 15) << 3, op, 0xc0 | target << 3 | b]);
    }

    /// `target = not source`, of masks.
    pub fn invert_mask(&mut self, target: Mask, source: Mask) {
        self.bytes.extend([0xc5, 0xf8, 0x44, 0xc0 | target << 3 | source]);
    }

    /// Shifts the lanes' bits.
    pub fn shift(&mut self, direction: u8, target: Zmm, source: Zmm, bits: u8) {
        self.encode(SHIFT, [direction, target], Operand::Register(source), 0, false, Some(bits));
    }

    fn encode(
        &mut self,
        op: Op,
        [target, source]: [u8; 2],
        operand: Operand,
        mask: Mask,
        zero: bool,
        last: Option<u8>,
    ) {
        let inverted = |register: u8, bit: u8| (!register >> bit) & 1;
        let broadcasts = op == BROADCAST || op == BROADCAST_16_BITS;
        let (index_bit, base_bit, everywhere) = match operand {
            Operand::Register(register) => (inverted(register, 4), inverted(register, 3), 0),
            Operand::Memory { base, .. } => (1, inverted(base, 3), 0),
            // A broadcast reads one number anyway.
            Operand::Everywhere { base } => (1, inverted(base, 3), !broadcasts as u8),
            Operand::Constant(_) => (1, 1, !broadcasts as u8),
        };
        let length = if op.half { 1 } else { 2 };
        let target_bits = inverted(target, 3) << 7 | inverted(target, 4) << 4;
        self.bytes.extend([
            0x62,
            target_bits | index_bit << 6 | base_bit << 5 | op.table,
            (!source & 15) << 3 | 1 << 2 | op.prefix,
            (zero as u8) << 7 | length << 5 | everywhere << 4 | inverted(source, 4) << 3 | mask,
            op.code,
        ]);
        self.operand(target, operand, last.is_some() as usize);
        self.bytes.extend(last);
    }

    /// The bytes that name an operand; `after` are those of the instruction that follow them.
    fn operand(&mut self, target: u8, operand: Operand, after: usize) {
        let field = (target & 7) << 3;
        match operand {
            Operand::Register(register) => self.bytes.push(0xc0 | field | register & 7),
            Operand::Memory { base, scale, distance } => {
                let scale = scale.trailing_zeros() as u8;
                self.bytes.extend([0x80 | field | 4, scale << 6 | INDEX << 3 | base & 7]);
                self.bytes.extend(distance.to_le_bytes());
            }
            Operand::Everywhere { base } => {
                // Where an index is named, the stack pointer's code stands for none.
                self.bytes.extend([0x80 | field | 4, 4 << 3 | base & 7]);
                self.bytes.extend([0; 4]);
            }
            Operand::Constant(bits) => {
                let known = self.constants.iter().position(|&constant| constant == bits);
                let constant = known.unwrap_or(self.constants.len());
                if known.is_none() {
                    self.constants.push(bits);
                }
                self.bytes.push(field | 5);
                self.open.push((self.bytes.len(), constant, self.bytes.len() + 4 + after));
                self.bytes.extend([0; 4]);
            }
        }
    }

    /// Loads a pointer from the list of operands.
    pub fn load_pointer(&mut self, to: u8, operand: usize) {
        self.bytes.extend([0x48 | (to >> 3) << 2, 0x8b, 0x80 | (to & 7) << 3 | HERE]);
        self.bytes.extend((operand as i32 * 8).to_le_bytes());
    }

    /// Prefetches a cache line.
    pub fn prefetch(&mut self, operand: Operand, written: bool) {
        let Operand::Memory { base, .. } = operand else { return };
        self.bytes.extend([0x40 | base >> 3, 0x0f, if written { 0x0d } else { 0x18 }]);
        self.operand(1, operand, 0);
    }

    /// Saves what belongs to the caller, and takes over how many blocks there are, and rows before the outer ones move on.
    pub fn begin(&mut self) {
        for register in SAVED {
            self.bytes.extend((register >= 8).then_some(0x41));
            self.bytes.push(0x50 | register & 7);
        }
        self.bytes.extend([0x41, 0x50]); // push r8: the blocks that are left lie at the top of the stack
        self.bytes.extend([0x48, 0x89, 0xc0 | INDEX << 3 | ROWS_LEFT]); // mov rbp, rcx
    }

    /// Continues with the next block, if there are any left: from where pointers are loaded on, each operand having moved.
    pub fn repeat_block(&mut self, begin: usize, steps: impl Iterator<Item = (usize, i32)>) {
        self.bytes.extend([0x48, 0xff, 0x0c, 0x24]); // dec qword [rsp]
        let last = self.jump(ZERO);
        for (operand, step) in steps {
            self.bytes.extend([0x48, 0x81, 0x80 | HERE]); // add qword [rdi + …], …
            self.bytes.extend((operand as i32 * 8).to_le_bytes());
            self.bytes.extend(step.to_le_bytes());
        }
        self.jump_back(ALWAYS, begin);
        self.land(last);
    }

    /// Begins the loop over all numbers at 0; what this returns belongs to [`Assembler::repeat`].
    pub fn begin_loop(&mut self, columns: usize) -> usize {
        self.bytes.extend([0x31, 0xc9]); // xor ecx, ecx
        self.set(COLUMNS_LEFT, columns);
        self.bytes.len()
    }

    /// Continues with the next 16 numbers, if there are any left.
    pub fn repeat(&mut self, begin: usize) {
        self.bytes.extend([0x48, 0x83, 0xc1, 16]); // add rcx, 16
        self.bytes.extend([0x48, 0x39, 0xc0 | COUNT << 3 | INDEX]); // cmp rcx, rdx
        self.jump_back(BELOW, begin);
    }

    fn jump_back(&mut self, code: &[u8], to: usize) {
        self.bytes.extend(code);
        let distance = to as i64 - (self.bytes.len() as i64 + 4);
        self.bytes.extend((distance as i32).to_le_bytes());
    }

    /// At the end of a row of `columns` numbers, moves pointers on: after the last of `inner_rows` rows by their second
    /// distance, otherwise by their first.
    pub fn end_row(&mut self, columns: usize, inner_rows: usize, pointers: &[(u8, [i32; 2])]) {
        self.bytes.extend([0x83, 0xe8 | COLUMNS_LEFT, 16]); // sub ebx, 16
        let within = self.jump(NOT_ZERO);
        self.set(COLUMNS_LEFT, columns);
        self.bytes.extend([0x83, 0xe8 | ROWS_LEFT, 1]); // sub ebp, 1
        let last = self.jump(ZERO);
        pointers.iter().for_each(|&(pointer, [inner, _])| self.move_on(pointer, inner));
        let done = self.jump(ALWAYS);
        self.land(last);
        self.set(ROWS_LEFT, inner_rows);
        pointers.iter().for_each(|&(pointer, [_, outer])| self.move_on(pointer, outer));
        self.land(done);
        self.land(within);
    }

    fn set(&mut self, register: u8, value: usize) {
        self.bytes.push(0xb8 | register); // mov to the lower half, which clears the upper one
        self.bytes.extend((value as u32).to_le_bytes());
    }

    fn move_on(&mut self, pointer: u8, bytes: i32) {
        self.bytes.extend([0x48 | pointer >> 3, 0x81, 0xc0 | pointer & 7]); // add
        self.bytes.extend(bytes.to_le_bytes());
    }

    /// A jump ahead; what this returns belongs to [`Assembler::land`].
    fn jump(&mut self, code: &[u8]) -> usize {
        self.bytes.extend(code);
        self.bytes.extend([0; 4]);
        self.bytes.len()
    }

    /// Where a jump goes.
    fn land(&mut self, from: usize) {
        let distance = (self.bytes.len() - from) as i32;
        self.bytes[from - 4..from].copy_from_slice(&distance.to_le_bytes());
    }

    /// Returns to the caller.
    pub fn end(&mut self) {
        self.bytes.extend([0xc5, 0xf8, 0x77]); // vzeroupper
        self.bytes.extend([0x48, 0x83, 0xc4, 0x08]); // add rsp, 8
        for register in SAVED.into_iter().rev() {
            self.bytes.extend((register >= 8).then_some(0x41));
            self.bytes.push(0x58 | register & 7);
        }
        self.bytes.push(0xc3);
    }

    /// The finished code, with its constants behind it.
    pub fn finish(mut self) -> Vec<u8> {
        let first = self.bytes.len().next_multiple_of(64);
        self.bytes.resize(first, 0);
        for &(at, constant, from) in &self.open {
            let distance = (first + 4 * constant - from) as i32;
            self.bytes[at..at + 4].copy_from_slice(&distance.to_le_bytes());
        }
        self.bytes.extend(self.constants.iter().flat_map(|bits| bits.to_le_bytes()));
        self.bytes
    }
}
