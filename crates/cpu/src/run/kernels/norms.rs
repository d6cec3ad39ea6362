//! Norms after convolutions in one pass.
//!
//! In inference most convolutions are followed by a norm with known statistics, often by a sum with another picture and a
//! rectifier. Such a loop is recognised, and runs through vector registers instead of block by block through working
//! memory: the same operations on the same numbers in the same order, a fourth of the time.

use super::super::math::fused;
use super::super::memory::Memory;
use crate::kernels::Stored;
use crate::plan::LoopStep;
use crate::plan::kernel::{Code, Instruction, Load, Operand, Register, Source};
use crate::simd::{Kernel, Simd, Vector};
use half::bf16;
use octant_graph::{Binary, Comparison, DType};
use std::marker::PhantomData;

/// A norm of the convolution's bf16 result in its place, and what is added to it.
pub(super) struct Norms {
    result: usize,
    norm: Norm,
    added: Option<Added>,
    rectified: bool,
    channels: usize,
}

/// The buffers of a mean, a factor and a shift per channel.
#[derive(Clone, Copy)]
struct Norm([usize; 3]);

/// Another picture, as it is or with a norm of its own.
struct Added {
    picture: usize,
    norm: Option<Norm>,
}

impl Norms {
    /// The loop as norms, if it is nothing else.
    pub fn recognise(step: &LoopStep, channels: usize) -> Option<Norms> {
        let [store] = &step.body.stores[..] else { return None };
        let reader = Reader { step, left: std::cell::Cell::new(step.body.instructions.len()) };
        let result = store.to.buffer.0 as usize;
        let (sum, rectified) = match reader.rectified(store.from) {
            Some(sum) => (sum, true),
            None => (store.from, false),
        };
        let (first, second) = match reader.binary(Binary::Add, sum) {
            Some([first, second]) => (reader.rounded_term(first)?, Some(reader.rounded_term(second)?)),
            None => (reader.rounded_term(sum).or_else(|| reader.norm(sum))?, None),
        };
        // Either of the two may be the convolution's.
        let (own, other) = match second {
            Some(second) if first.0 != result => (second, Some(first)),
            second => (first, second),
        };
        let added = other.map(|(picture, norm)| Added { picture, norm });
        let fits = channels.is_multiple_of(step.nest.columns)
            && own.0 == result
            && added.as_ref().is_none_or(|added| added.picture != result)
            && reader.is_picture(&store.to)
            && reader.left.get() == 0;
        fits.then_some(Norms { result, norm: own.1?, added, rectified, channels: step.nest.columns })
    }

    /// Runs over some whole pixels of the result.
    pub fn run_range(&self, simd: Simd, memory: &Memory, first: usize, count: usize) {
        let vector = |buffer: usize| {
            // SAFETY: the plan stored one number per channel, and no step writes them now.
            unsafe { memory.read::<f32>(buffer, self.channels) }
        };
        let norm = |norm: Norm| norm.0.map(vector);
        // SAFETY: the plan stored pictures of bf16 there; the range of the result belongs to the calling chunk, and no
        // step writes the other picture now.
        let (pixels, added) = unsafe {
            let pixels = memory.write_range::<bf16>(self.result, first, count);
            let added = self.added.as_ref().map(|added| memory.read_range::<bf16>(added.picture, first, count));
            (pixels, added)
        };
        let norm_of_added = self.added.as_ref().and_then(|added| added.norm).map(norm);
        let pass = Pass { pixels, norm: norm(self.norm), added, norm_of_added, rectified: self.rectified };
        // SAFETY: the entry was chosen for this machine.
        unsafe { simd.entry::<Normalise<'_>>()(pass) };
    }
}

/// Follows a loop's instructions backwards and counts those that are not yet accounted for.
struct Reader<'a> {
    step: &'a LoopStep,
    left: std::cell::Cell<usize>,
}

impl Reader<'_> {
    fn maker(&self, register: Register) -> Option<&Instruction> {
        self.step.body.instructions.iter().find(|instruction| instruction.to == register)
    }

    fn load(&self, register: Register) -> Option<&Load> {
        self.step.body.loads.iter().find(|load| load.to == register)
    }

    /// The operands of the instruction that makes a register, if it is this one.
    fn operands<const N: usize>(&self, code: Code, register: Register) -> Option<[Register; N]> {
        let maker = self.maker(register).filter(|maker| maker.code == code)?;
        self.left.set(self.left.get().saturating_sub(1));
        maker.from[..].try_into().ok()
    }

    fn binary(&self, binary: Binary, register: Register) -> Option<[Register; 2]> {
        self.operands(Code::Binary(binary), register)
    }

    /// What becomes zero where it is not above zero.
    fn rectified(&self, register: Register) -> Option<Register> {
        let [condition, zero, value] = self.operands(Code::Select, register)?;
        let compared = self.operands(Code::Compare(Comparison::LessEqual), condition)?;
        let is_zero = matches!(self.load(zero)?.source, Source::Immediate(zero) if zero == 0.0);
        (is_zero && compared == [value, zero]).then_some(value)
    }

    /// A picture's buffer and its norm, rounded before anything else is done with it.
    fn rounded_term(&self, register: Register) -> Option<(usize, Option<Norm>)> {
        if let Some(picture) = self.picture(register) {
            return Some((picture, None));
        }
        let [sum] = self.operands(Code::Round(DType::BF16), register)?;
        self.norm(sum)
    }

    fn norm(&self, sum: Register) -> Option<(usize, Option<Norm>)> {
        let [centred, factor, shift] = self.operands(Code::MultiplyAdd, sum)?;
        let [picture, mean] = self.binary(Binary::Sub, centred)?;
        let norm = Norm([self.per_channel(mean)?, self.per_channel(factor)?, self.per_channel(shift)?]);
        Some((self.picture(picture)?, Some(norm)))
    }

    fn picture(&self, register: Register) -> Option<usize> {
        match &self.load(register)?.source {
            Source::Memory(operand) if self.is_picture(operand) => Some(operand.buffer.0 as usize),
            _ => None,
        }
    }

    fn is_picture(&self, operand: &Operand) -> bool {
        operand.dtype == DType::BF16 && operand.offset == 0 && self.step.nest.lie_in_order(&operand.strides)
    }

    /// A vector with one number for each channel, the same for all pixels.
    fn per_channel(&self, register: Register) -> Option<usize> {
        let Source::Memory(operand) = &self.load(register)?.source else { return None };
        let (column, rows) = operand.strides.split_last()?;
        let spread = *column == 1 && rows.iter().all(|&stride| stride == 0);
        (operand.dtype == DType::F32 && operand.offset == 0 && spread).then_some(operand.buffer.0 as usize)
    }
}

struct Pass<'a> {
    pixels: &'a mut [bf16],
    norm: [&'a [f32]; 3],
    added: Option<&'a [bf16]>,
    norm_of_added: Option<[&'a [f32]; 3]>,
    rectified: bool,
}

struct Normalise<'a>(PhantomData<&'a ()>);

impl<'a> Kernel for Normalise<'a> {
    type Args = Pass<'a>;
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector>(pass: Pass<'a>) {
        let Pass { pixels, norm, added, norm_of_added, rectified } = pass;
        let channels = norm[0].len();
        // Lengths that are known to be equal are checked once.
        let norm = norm.map(|vector| &vector[..channels]);
        let norm_of_added = norm_of_added.map(|norm| norm.map(|vector| &vector[..channels]));
        let rectify = |value: f32| if rectified && value <= 0.0 { 0.0 } else { value };
        for (index, pixel) in pixels.chunks_exact_mut(channels).enumerate() {
            let own = |at: usize, value: bf16| normalised::<V>(value, norm.map(|vector| vector[at]));
            let own_rounded = |at: usize, value: bf16| bf16::rounded(own(at, value)).wide();
            let pixel = &mut pixel[..channels];
            match added.map(|added| &added[index * channels..][..channels]) {
                // A rectifier does not mind whether its operand was rounded, so rounding once is enough.
                None => {
                    for at in 0..channels {
                        pixel[at] = bf16::rounded(rectify(own(at, pixel[at])));
                    }
                }
                Some(added) => match norm_of_added {
                    None => {
                        for at in 0..channels {
                            pixel[at] = bf16::rounded(rectify(own_rounded(at, pixel[at]) + added[at].wide()));
                        }
                    }
                    Some(other) => {
                        for at in 0..channels {
                            let other = normalised::<V>(added[at], other.map(|vector| vector[at]));
                            let sum = own_rounded(at, pixel[at]) + bf16::rounded(other).wide();
                            pixel[at] = bf16::rounded(rectify(sum));
                        }
                    }
                },
            }
        }
    }
}

/// The norm of a number.
#[inline(always)]
fn normalised<V: Vector>(value: bf16, [mean, factor, shift]: [f32; 3]) -> f32 {
    fused::<V>(value.wide() - mean, factor, shift)
}
