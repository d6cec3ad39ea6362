//! The code of a loop and its instructions one by one give the same bits.

use super::super::PreparedLoop;
use super::Share;
use crate::kernels::Machine;
use crate::plan::LoopStep;
use crate::plan::kernel::{BufferId, Code, Fold, Instruction, Lane, Load, Loop, Operand, Register, Source, Store};
use crate::plan::nest::Nest;
use crate::run::Memory;
use crate::simd::Level;
use octant_graph::{Binary, Comparison, DType, Reduction, Unary};

/// 40 × 6 rows of 32 numbers each: rows are two dimensions, since six rows do not fill a block.
const DIMS: [usize; 3] = [40, 6, 32];
const IN_ORDER: [isize; 3] = [192, 32, 1];

/// A loop that is built register by register.
struct Builder {
    body: Loop,
    buffers: u32,
}

impl Builder {
    fn new() -> Builder {
        Builder::over(DIMS)
    }

    fn over(dims: [usize; 3]) -> Builder {
        Builder { body: Loop { dims: dims.to_vec(), ..Loop::default() }, buffers: 0 }
    }

    fn register(&mut self, lane: Lane) -> Register {
        self.body.registers.push(lane);
        self.body.registers.len() - 1
    }

    fn memory(&mut self, dtype: DType, strides: [isize; 3]) -> Operand {
        self.buffers += 1;
        Operand { buffer: BufferId(self.buffers - 1), dtype, offset: 0, strides: strides.to_vec() }
    }

    fn load(&mut self, dtype: DType, strides: [isize; 3]) -> Register {
        let (lane, source) = (Lane::of(dtype), Source::Memory(self.memory(dtype, strides)));
        let to = self.register(lane);
        self.body.loads.push(Load { to, lane, source });
        to
    }

    fn number(&mut self, value: f64) -> Register {
        self.immediate(value, Lane::F32)
    }

    fn immediate(&mut self, value: f64, lane: Lane) -> Register {
        let to = self.register(lane);
        self.body.loads.push(Load { to, lane, source: Source::Immediate(value) });
        to
    }

    fn instruction(&mut self, code: Code, from: &[Register]) -> Register {
        let lane = self.body.registers[from[from.len() - 1]];
        let to = self.register(match code {
            Code::Compare(_) => Lane::Bool,
            Code::Convert(to) => to,
            _ => lane,
        });
        self.body.instructions.push(Instruction { code, lane, to, from: from.to_vec() });
        to
    }

    fn store(&mut self, from: Register, dtype: DType, strides: [isize; 3]) {
        let to = self.memory(dtype, strides);
        self.body.stores.push(Store { from, to });
    }

    fn fold(&mut self, kind: Reduction, from: Register, factor: Option<Register>, strides: [isize; 3]) {
        let to = self.memory(DType::F32, strides);
        self.body.folds.push(Fold { from, factor, kind, to });
    }

    /// Runs the loop interpreted and as machine code over the same memory.
    fn check(self) {
        self.check_with(|_| {});
    }

    /// The same, where the loop's code has to be of a kind.
    fn check_with(mut self, inspect: impl Fn(&Share)) {
        let machine = Machine::new(1).unwrap();
        if machine.simd.level() != Level::Avx512 {
            return;
        }
        let nest = Nest::cut(&mut self.body);
        let results = [true, false].map(|native| {
            let step = LoopStep { body: self.body.clone(), nest: nest.clone(), partials: None };
            let mut prepared = PreparedLoop::new(step, machine.simd);
            inspect(&prepared.native.as_ref().expect("the loop has code").share);
            prepared.native = prepared.native.filter(|_| native);
            let mut buffers: Vec<Vec<u64>> =
                (0..self.buffers).map(|buffer| numbers(buffer, self.dtype(buffer))).collect();
            let memory = Memory::over(buffers.iter_mut().map(|buffer| buffer.as_mut_ptr().cast()).collect());
            prepared.run(&memory, &machine);
            buffers
        });
        let [native, one_by_one] = &results;
        for (buffer, (native, expected)) in native.iter().zip(one_by_one).enumerate() {
            let [native, expected] = [native, expected].map(|words| bytemuck::cast_slice::<u64, u32>(words));
            let differing = native.iter().zip(expected).position(|(&a, &b)| !same(a, b));
            assert_eq!(differing, None, "buffer {buffer} of {:?}", self.body.instructions);
        }
    }

    fn dtype(&self, buffer: u32) -> DType {
        let loads = self.body.loads.iter().filter_map(|load| match &load.source {
            Source::Memory(operand) => Some(operand),
            _ => None,
        });
        let stores = self.body.stores.iter().map(|store| &store.to);
        let mut all = loads.chain(stores).chain(self.body.folds.iter().map(|fold| &fold.to));
        all.find(|operand| operand.buffer.0 == buffer).map_or(DType::F32, |operand| operand.dtype)
    }
}

/// Bits of f32 numbers, or of two bf16 ones; NaNs may differ in theirs.
fn same(a: u32, b: u32) -> bool {
    let both_nan = |a: f32, b: f32| a.is_nan() && b.is_nan();
    let half = |word: u32, shift: u32| f32::from_bits(word >> shift << 16);
    a == b
        || both_nan(f32::from_bits(a), f32::from_bits(b))
        || [0, 16].iter().all(|&shift| half(a, shift) == half(b, shift) || both_nan(half(a, shift), half(b, shift)))
}

/// Numbers of many magnitudes, with NaNs, infinities and zeros among them; more than any operand reaches.
fn numbers(seed: u32, dtype: DType) -> Vec<u64> {
    const MOST: usize = 2 * 40 * 1040;
    let number = |at: usize| match (at as u32).wrapping_mul(2_654_435_761).wrapping_add(seed * 97) >> 8 {
        bits if bits % 89 == 0 => f32::NAN,
        bits if bits % 97 == 0 => f32::INFINITY,
        bits if bits % 13 == 0 => 0.0,
        bits => ((bits % 2001) as f32 - 1000.0) * 2f32.powi((bits % 37) as i32 - 18),
    };
    let bytes: Vec<u8> = match dtype {
        DType::Bool => (0..MOST).map(|at| (number(at) > 0.0) as u8).collect(),
        DType::U8 => (0..MOST).map(|at| (number(at).to_bits() >> 13) as u8).collect(),
        DType::I32 => (0..MOST).flat_map(|at| (number(at) as i32 % 50).to_le_bytes()).collect(),
        DType::BF16 => (0..MOST).flat_map(|at| half::bf16::from_f32(number(at)).to_le_bytes()).collect(),
        _ => (0..MOST).flat_map(|at| number(at).to_le_bytes()).collect(),
    };
    bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect()
}

#[test]
fn every_instruction() {
    use Unary::{Abs, Erf, Exp, Logistic, Neg, RoundEven, Rsqrt, Sqrt};
    let unary = [Neg, Abs, Sqrt, Rsqrt, Logistic, Exp, Erf, RoundEven];
    let unary = unary.map(|code| (Code::Unary(code), 1));
    let binary = [Binary::Add, Binary::Sub, Binary::Mul, Binary::Div, Binary::Max, Binary::Min];
    let fused = [Code::MultiplyAdd, Code::MultiplySubtract, Code::SubtractProduct].map(|code| (code, 3));
    let rest = [(Code::Round(DType::BF16), 1), (Code::Clamp, 3)];
    for (code, operands) in unary.into_iter().chain(binary.map(|code| (Code::Binary(code), 2))).chain(fused).chain(rest)
    {
        let mut builder = Builder::new();
        let loads: Vec<Register> = (0..operands).map(|_| builder.load(DType::F32, IN_ORDER)).collect();
        let constant = builder.number(-1.5);
        let first = builder.instruction(code, &loads);
        let with_constant: Vec<Register> = [&[first][..], &[constant, first][..operands - 1]].concat();
        let second = builder.instruction(code, &with_constant);
        builder.store(first, DType::F32, IN_ORDER);
        builder.store(second, DType::BF16, IN_ORDER);
        builder.check();
    }
}

#[test]
fn every_comparison_as_choice_number_and_truth() {
    use Comparison::{Equal, Greater, GreaterEqual, Less, LessEqual, NotEqual};
    for comparison in [Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual] {
        let mut builder = Builder::new();
        let [a, b, stored] = [DType::F32, DType::BF16, DType::Bool].map(|dtype| builder.load(dtype, IN_ORDER));
        let zero = builder.number(0.0);
        let truth = builder.instruction(Code::Compare(comparison), &[a, zero]);
        let number = builder.instruction(Code::Convert(Lane::F32), &[truth]);
        let choice = builder.instruction(Code::Select, &[truth, a, b]);
        let other = builder.instruction(Code::Select, &[stored, number, choice]);
        builder.store(truth, DType::Bool, IN_ORDER);
        builder.store(other, DType::F32, IN_ORDER);
        builder.check();
    }
}

#[test]
fn integers_and_their_comparisons() {
    use Comparison::{Equal, Greater, GreaterEqual, Less, LessEqual, NotEqual};
    for comparison in [Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual] {
        let mut builder = Builder::new();
        // One of them is the same along every row, one lies in no order.
        let [a, b, c] = [IN_ORDER, [6, 1, 0], [1, 40, 240]].map(|strides| builder.load(DType::I32, strides));
        let seven = builder.immediate(7.0, Lane::I32);
        let mut all = b;
        for binary in [Binary::Add, Binary::Sub, Binary::Mul, Binary::Max, Binary::Min] {
            all = builder.instruction(Code::Binary(binary), &[all, a]);
            all = builder.instruction(Code::Binary(binary), &[all, seven]);
        }
        let [mask, other] = [b, seven].map(|b| builder.instruction(Code::Compare(comparison), &[a, b]));
        let choice = builder.instruction(Code::Select, &[mask, c, all]);
        let counted = builder.instruction(Code::Convert(Lane::I32), &[other]);
        let sum = builder.instruction(Code::Binary(Binary::Add), &[choice, counted]);
        let float = builder.instruction(Code::Convert(Lane::F32), &[sum]);
        builder.store(sum, DType::I32, IN_ORDER);
        builder.store(mask, DType::Bool, IN_ORDER);
        builder.store(float, DType::BF16, IN_ORDER);
        builder.check();
    }
}

#[test]
fn bools_are_combined() {
    let mut builder = Builder::new();
    // The second is the same along every row, the third lies in no order.
    let loads = [IN_ORDER, [6, 1, 0], [1, 40, 240]].map(|strides| builder.load(DType::Bool, strides));
    let [number, zero] = [builder.load(DType::F32, IN_ORDER), builder.number(0.0)];
    let mut all = builder.instruction(Code::Compare(Comparison::Less), &[number, zero]);
    for (binary, other) in [Binary::And, Binary::Or, Binary::Xor].into_iter().zip(loads) {
        let inverted = builder.instruction(Code::Unary(Unary::Not), &[other]);
        all = builder.instruction(Code::Binary(binary), &[all, inverted]);
        all = builder.instruction(Code::Binary(binary), &[other, all]);
    }
    let chosen = builder.instruction(Code::Select, &[all, number, zero]);
    builder.store(all, DType::Bool, IN_ORDER);
    builder.store(chosen, DType::F32, IN_ORDER);
    builder.check();
}

#[test]
fn more_values_than_registers() {
    let mut builder = Builder::new();
    let loads: Vec<Register> = (0..20).map(|_| builder.load(DType::F32, IN_ORDER)).collect();
    let pairs = (0..60).map(|at| builder.instruction(Code::Binary(Binary::Add), &[loads[at % 20], loads[at * 7 % 19]]));
    let pairs: Vec<Register> = pairs.collect();
    let all =
        pairs.iter().rev().copied().reduce(|sum, next| builder.instruction(Code::Binary(Binary::Sub), &[sum, next]));
    builder.store(all.unwrap(), DType::F32, IN_ORDER);
    builder.check();
}

#[test]
fn rows_that_do_not_lie_in_order() {
    let mut builder = Builder::new();
    let positions = [[6, 1, 0], [0, 64, 1], [192, 0, 1], [0, 0, 1], [6, 0, 0]];
    let loads: Vec<Register> = [DType::F32, DType::BF16]
        .into_iter()
        .flat_map(|dtype| positions.map(|strides| (dtype, strides)))
        .map(|(dtype, strides)| builder.load(dtype, strides))
        .collect();
    let in_order = builder.load(DType::BF16, IN_ORDER);
    let all = loads.iter().fold(in_order, |sum, &next| builder.instruction(Code::MultiplyAdd, &[sum, next, next]));
    builder.store(all, DType::F32, [384, 64, 1]);
    builder.store(all, DType::BF16, IN_ORDER);
    builder.check();
}

#[test]
fn sums_and_extremes_over_rows() {
    let mut builder = Builder::new();
    let [a, b] = [DType::F32, DType::BF16].map(|dtype| builder.load(dtype, IN_ORDER));
    let sum = builder.instruction(Code::Binary(Binary::Add), &[a, b]);
    builder.fold(Reduction::Sum, sum, None, [0, 0, 1]);
    builder.fold(Reduction::Sum, a, Some(sum), [0, 0, 1]);
    builder.fold(Reduction::Max, b, None, [0, 0, 1]);
    builder.store(sum, DType::BF16, IN_ORDER);
    builder.check();
}

#[test]
fn blocks_below_each_other() {
    // Several rows to a block, one row to a block, and rows of a block and a rest.
    for [rows, columns] in [[300, 48], [150, 512], [80, 1040]] {
        let in_order = [(rows * columns) as isize, columns as isize, 1];
        let mut builder = Builder::over([1, rows, columns]);
        let [a, b] = [DType::F32, DType::BF16].map(|dtype| builder.load(dtype, in_order));
        let [channel, row] = [[0, 0, 1], [0, 1, 0]].map(|strides| builder.load(DType::F32, strides));
        let scaled = builder.instruction(Code::MultiplyAdd, &[a, channel, row]);
        let rounded = builder.instruction(Code::Round(DType::BF16), &[scaled]);
        let sum = builder.instruction(Code::Binary(Binary::Sub), &[rounded, b]);
        let mut folding = Builder { body: builder.body.clone(), buffers: builder.buffers };
        builder.store(sum, DType::F32, in_order);
        builder.store(sum, DType::BF16, in_order);
        let together = |share: &Share| assert!(share.steps.is_some(), "blocks run one by one");
        builder.check_with(together);
        folding.fold(Reduction::Sum, sum, Some(a), [0, 0, 1]);
        folding.fold(Reduction::Max, sum, None, [0, 0, 1]);
        folding.store(scaled, DType::BF16, in_order);
        folding.check_with(together);
    }
}

#[test]
fn bytes_are_read_computed_with_and_stored() {
    let mut builder = Builder::new();
    let [a, b] = [DType::U8, DType::U8].map(|dtype| builder.load(dtype, IN_ORDER));
    // One of them has rows that lie apart.
    let [c, apart] = [builder.load(DType::F32, IN_ORDER), builder.load(DType::U8, [384, 64, 1])];
    let [three, byte] = [builder.number(0.37), builder.immediate(200.0, Lane::U8)];
    let [a, b, apart] = [a, b, apart].map(|from| builder.instruction(Code::Convert(Lane::F32), &[from]));
    let byte = builder.instruction(Code::Convert(Lane::F32), &[byte]);
    let product = builder.instruction(Code::Binary(Binary::Mul), &[a, three]);
    let sum = builder.instruction(Code::MultiplyAdd, &[b, three, apart]);
    let whole = builder.instruction(Code::Unary(Unary::RoundEven), &[product]);
    let other = builder.instruction(Code::Unary(Unary::RoundEven), &[c]);
    let lower = builder.instruction(Code::Binary(Binary::Sub), &[byte, sum]);
    // Numbers of all magnitudes and NaN saturate.
    for (number, strides) in [(whole, IN_ORDER), (other, IN_ORDER), (c, IN_ORDER), (lower, [384, 64, 1])] {
        let stored = builder.instruction(Code::Convert(Lane::U8), &[number]);
        builder.store(stored, DType::U8, strides);
    }
    builder.store(other, DType::F32, IN_ORDER);
    builder.check();
}

#[test]
fn more_bytes_than_registers() {
    let mut builder = Builder::new();
    let numbers: Vec<Register> = (0..20).map(|_| builder.load(DType::F32, IN_ORDER)).collect();
    let bytes = numbers.iter().map(|&number| builder.instruction(Code::Convert(Lane::U8), &[number]));
    let bytes: Vec<Register> = bytes.collect();
    let loads: Vec<Register> = (0..20).map(|_| builder.load(DType::U8, IN_ORDER)).collect();
    let wide = bytes.iter().chain(&loads).map(|&byte| builder.instruction(Code::Convert(Lane::F32), &[byte]));
    let wide: Vec<Register> = wide.collect();
    let sum = wide.into_iter().rev().reduce(|sum, next| builder.instruction(Code::Binary(Binary::Sub), &[sum, next]));
    builder.store(sum.unwrap(), DType::F32, IN_ORDER);
    bytes.iter().take(5).for_each(|&byte| builder.store(byte, DType::U8, IN_ORDER));
    builder.check();
}
