//! The operations that loops are made of, by their codes.

/// An operation: its table of codes, its prefix, its code, and whether it works on half a register.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Op {
    pub table: u8,
    pub prefix: u8,
    pub code: u8,
    pub half: bool,
}

const fn op(table: u8, prefix: u8, code: u8) -> Op {
    Op { table, prefix, code, half: false }
}

pub(super) const LOAD: Op = op(1, 0, 0x10);
pub(super) const STORE: Op = op(1, 0, 0x11);
pub(super) const STREAM: Op = op(1, 0, 0x2b);
pub(super) const STREAM_HALF: Op = Op { half: true, ..STREAM };
pub(super) const COPY: Op = op(1, 0, 0x28);
pub(super) const ADD: Op = op(1, 0, 0x58);
pub(super) const MULTIPLY: Op = op(1, 0, 0x59);
pub(super) const SUBTRACT: Op = op(1, 0, 0x5c);
pub(super) const MINIMUM: Op = op(1, 0, 0x5d);
pub(super) const DIVIDE: Op = op(1, 0, 0x5e);
pub(super) const MAXIMUM: Op = op(1, 0, 0x5f);
pub(super) const ROOT: Op = op(1, 0, 0x51);
pub(super) const COMPARE: Op = op(1, 0, 0xc2);
/// 32-bit integers to f32.
pub(super) const TO_FLOATS: Op = op(1, 0, 0x5b);
/// f32 to 32-bit integers, towards zero.
pub(super) const TO_INTEGERS: Op = op(1, 2, 0x5b);
/// f32 to whole numbers; the byte behind it says which.
pub(super) const WHOLE: Op = op(3, 1, 0x08);
pub(super) const SHIFT: Op = op(1, 1, 0x72);
pub(super) const AND: Op = op(1, 1, 0xdb);
pub(super) const XOR: Op = op(1, 1, 0xef);
pub(super) const ADD_INTEGERS: Op = op(1, 1, 0xfe);
pub(super) const SUBTRACT_INTEGERS: Op = op(1, 1, 0xfa);
pub(super) const MULTIPLY_INTEGERS: Op = op(2, 1, 0x40);
pub(super) const MINIMUM_OF_INTEGERS: Op = op(2, 1, 0x39);
pub(super) const MAXIMUM_OF_INTEGERS: Op = op(2, 1, 0x3d);
pub(super) const COMPARE_INTEGERS: Op = op(3, 1, 0x1f);
pub(super) const BROADCAST: Op = op(2, 1, 0x18);
pub(super) const BROADCAST_16_BITS: Op = op(2, 1, 0x79);
/// By mask the operand, elsewhere the first source.
pub(super) const BLEND: Op = op(2, 1, 0x65);
/// 16 numbers of 16 bits to 32 bits.
pub(super) const WIDEN: Op = op(2, 1, 0x33);
/// The lower 16 bits of 16 numbers.
pub(super) const NARROW: Op = op(2, 2, 0x33);
/// 16 bytes to 32 bits each, and back.
pub(super) const WIDEN_BYTES: Op = op(2, 1, 0x31);
pub(super) const NARROW_TO_BYTES: Op = op(2, 2, 0x31);
/// A mask of the lanes that are not 0.
pub(super) const TEST: Op = op(2, 1, 0x27);
/// Lane by lane what a table says for the source's kind of number.
pub(super) const REPAIR: Op = op(3, 1, 0x54);
/// `target · source ± operand`; see [`Op::onto_target`].
pub(super) const MULTIPLY_ADD: Op = op(2, 1, 0xa8);
pub(super) const MULTIPLY_SUBTRACT: Op = op(2, 1, 0xaa);
pub(super) const SUBTRACT_PRODUCT: Op = op(2, 1, 0xac);

impl Op {
    /// The same of a fused product: `source · operand ± target`.
    pub fn onto_target(self) -> Op {
        Op { code: self.code + 0x10, ..self }
    }
}

/// Operations on masks, by their codes.
pub(super) const AND_MASKS: u8 = 0x41;
pub(super) const OR_MASKS: u8 = 0x45;
pub(super) const XOR_MASKS: u8 = 0x47;

pub(super) const NOT_ZERO: &[u8] = &[0x0f, 0x85];
pub(super) const ZERO: &[u8] = &[0x0f, 0x84];
pub(super) const BELOW: &[u8] = &[0x0f, 0x82];
pub(super) const ALWAYS: &[u8] = &[0xe9];

/// The extension of [`SHIFT`] that says where to.
pub(super) const TO_LEFT: u8 = 6;
pub(super) const TO_RIGHT: u8 = 2;
/// The same with the sign coming in.
pub(super) const TO_RIGHT_SIGNED: u8 = 4;
