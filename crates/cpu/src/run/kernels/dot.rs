//! Which kernel computes a product of the graph.

use super::super::looping::PreparedLoop;
use super::super::memory::Memory;
use super::convolution::{self, KernelStrides};
use super::numbers::{
    advance, doubles, integers, into_f32, is_bf16, with_bf16, with_f32, write_doubles, write_integers,
};
#[cfg(target_arch = "x86_64")]
use super::run_behind;
use super::{Arguments, KeptWeights, general};
use crate::kernels::{
    ConvGeometry, FEW_ROWS, ForwardConv, Gemm, Machine, MatrixStrides, WeightsGradient, gemm, gemm_bf16,
};
#[cfg(target_arch = "x86_64")]
use crate::kernels::{RowsGemm, borrow_scratch};
use crate::simd::{Bf16Unit, Simd};
use octant_graph::ops::contract::free_axes;
use octant_graph::{DType, DotGeneral, Shape};
use std::ops::Range;

pub(super) enum DotAlgorithm {
    /// Products at regular distances, and where each group of them begins in both operands: several groups where the first
    /// axes of a batch lie at other distances than the last, as heads behind tokens do. Results follow each other.
    Matrices { gemm: Gemm, first: Vec<[usize; 2]> },
    /// Operands whose axes must first be put into the order batch, rows, columns.
    Reordered { gemm: Gemm, left: Vec<usize>, right: Vec<usize> },
    /// One product after the other, for types without a matrix kernel.
    General(DotGeneral),
}

impl DotAlgorithm {
    /// One group of products.
    pub fn of(gemm: Gemm) -> DotAlgorithm {
        DotAlgorithm::Matrices { gemm, first: vec![[0, 0]] }
    }

    /// The products, if they are one group.
    fn one_group(&self) -> Option<&Gemm> {
        match self {
            DotAlgorithm::Matrices { gemm, first } if first.len() == 1 => Some(gemm),
            _ => None,
        }
    }

    pub fn choose(dot: &DotGeneral, arguments: &Arguments) -> DotAlgorithm {
        let [left, right, output] = [&arguments.inputs[0].1, &arguments.inputs[1].1, &arguments.outputs[0].1];
        let f32_sums = [left, output].iter().all(|s| matches!(s.dtype(), DType::F32 | DType::BF16 | DType::F16));
        if !f32_sums {
            return DotAlgorithm::General(dot.clone());
        }
        let left_free = free_axes(left, &dot.left_batch, &dot.left_contract);
        let right_free = free_axes(right, &dot.right_batch, &dot.right_contract);
        let length = |shape: &Shape, axes: &[usize]| axes.iter().map(|&axis| shape.dims()[axis]).product::<usize>();
        let (batch, k) = (length(left, &dot.left_batch), length(left, &dot.left_contract));
        let (m, n) = (length(left, &left_free), length(right, &right_free));
        let c = MatrixStrides::row_major(m, n);
        let is_empty = left.elements() * right.elements() == 0;
        for outer in 0..=if is_empty { 0 } else { dot.left_batch.len() } {
            let (left_outer, left_inner) = dot.left_batch.split_at(outer);
            let (right_outer, right_inner) = dot.right_batch.split_at(outer);
            let a = matrix(left, left_inner, &left_free, &dot.left_contract);
            let b = matrix(right, right_inner, &dot.right_contract, &right_free);
            let (Some(a), Some(b)) = (a, b) else { continue };
            let gemm = Gemm { batch: length(left, left_inner), m, n, k, a, b, c };
            let starts = starts(left, left_outer).into_iter().zip(starts(right, right_outer));
            return DotAlgorithm::Matrices { gemm, first: starts.map(|(a, b)| [a, b]).collect() };
        }
        DotAlgorithm::Reordered {
            gemm: Gemm { batch, m, n, k, a: MatrixStrides::row_major(m, k), b: MatrixStrides::row_major(k, n), c },
            left: [&dot.left_batch[..], &left_free, &dot.left_contract].concat(),
            right: [&dot.right_batch[..], &dot.right_contract, &right_free].concat(),
        }
    }

    /// The same product as a 1×1 convolution of an image one pixel wide, which knows how to keep its weights (`keeps`) and runs the
    /// epilogue while rows are in the cache: where rows lie in order, and AMX computes bf16 numbers or there is none. With AMX,
    /// f32 numbers are multiplied in parts, which [`DotAlgorithm::run_rows`] does.
    pub fn as_convolution(&self, arguments: &Arguments, keeps: bool, simd: Simd) -> Option<convolution::ConvAlgorithm> {
        let Gemm { batch: 1, m, n, k, a, b, .. } = *self.one_group()? else { return None };
        let amx = simd.bf16() == Bf16Unit::Amx;
        let has_unit = amx && is_bf16(&arguments.inputs[0].1, &arguments.outputs[0].1) && k > 0;
        let mut operands = arguments.inputs.iter().chain(&arguments.outputs);
        let of_f32 = operands.all(|(_, shape)| shape.dtype() == DType::F32);
        // Blocks along the reduced axis, which only `gemm` has, are worth more than packed weights for many rows.
        const MANY_ROWS: usize = 1024;
        // Packing weights for a few rows costs more than it saves, unless they stay packed.
        let fewest = if keeps { 1 } else { FEW_ROWS + 1 };
        let in_registers = of_f32 && k > 0 && (!amx || m <= FEW_ROWS) && (fewest..=MANY_ROWS).contains(&m);
        // The distance between products of a batch says nothing about one product, nor a stride about a single row.
        let dense = |matrix: MatrixStrides, [rows, columns]: [usize; 2]| {
            (matrix.column == 1 || columns == 1) && (matrix.row == columns || rows == 1)
        };
        if has_unit && m > 1 && dense(a.transposed(), [k, m]) && dense(b, [k, n]) {
            // Rows of A are channels of an image of k pixels: the product is the gradient of a 1×1 convolution's weights.
            return Some(convolution::ConvAlgorithm::Gradient(WeightsGradient::new(&ConvGeometry::new(
                1,
                [k, 1],
                [m, n],
                [1, 1],
            ))));
        }
        let fits = (has_unit || in_registers) && dense(a, [m, k]);
        let kernel = || ForwardConv::new(&ConvGeometry::new(1, [m, 1], [k, n], [1, 1]));
        fits.then(|| convolution::ConvAlgorithm::Images { kernel: kernel(), strides: KernelStrides::of_matrix(b) })
    }

    /// Computes one f32 product whose rows are finished one block after the other, for the sake of the epilogue or of weights
    /// that are kept. False where nothing is gained by it.
    #[cfg(target_arch = "x86_64")]
    pub fn run_rows(
        &self,
        arguments: &Arguments,
        epilogue: Option<&PreparedLoop>,
        kept: Option<&KeptWeights>,
        memory: &Memory,
        machine: &Machine,
    ) -> bool {
        /// Packed weights are larger than they were: with more rows than this, packing them anew costs next to nothing.
        const KEPT_ROWS: usize = 512;
        let [left, right, output] = [&arguments.inputs[0], &arguments.inputs[1], &arguments.outputs[0]];
        let Some(shape) = self.one_group() else { return false };
        let of_f32 = [left, right, output].iter().all(|(_, shape)| shape.dtype() == DType::F32);
        let kept = kept.filter(|_| shape.m <= KEPT_ROWS);
        let Some(len) = RowsGemm::packed_len(machine.simd, shape).filter(|_| of_f32) else { return false };
        if epilogue.is_none() && kept.is_none() {
            return false;
        }
        let follow = run_behind(epilogue, memory);
        with_f32(memory, machine, left, |a| {
            with_f32(memory, machine, right, |b| {
                into_f32(memory, machine, output, |c| {
                    let product = RowsGemm::new(machine, shape, a, b, c);
                    let run = |packed: &[u16]| product.run(packed, &follow);
                    match kept {
                        Some(kept) => kept.lend(memory, len, |packed| product.pack(packed), run),
                        None => borrow_scratch(len, |packed: &mut [u16]| {
                            product.pack(packed);
                            run(packed);
                        }),
                    }
                });
            });
        });
        true
    }

    /// Only AMX computes products in this way.
    #[cfg(not(target_arch = "x86_64"))]
    pub fn run_rows(
        &self,
        _: &Arguments,
        _: Option<&PreparedLoop>,
        _: Option<&KeptWeights>,
        _: &Memory,
        _: &Machine,
    ) -> bool {
        false
    }

    pub fn run(&self, arguments: &Arguments, memory: &Memory, machine: &Machine) {
        let [left, right, output] = [&arguments.inputs[0], &arguments.inputs[1], &arguments.outputs[0]];
        match self {
            DotAlgorithm::Matrices { gemm: shape, first } if is_bf16(&left.1, &output.1) => {
                with_bf16(memory, [left, right, output], |a, b, mut c| {
                    for (group, &[first_a, first_b]) in first.iter().enumerate() {
                        gemm_bf16(machine, shape, &a[first_a..], &b[first_b..], c.part(results(shape, group)));
                    }
                });
            }
            DotAlgorithm::Matrices { gemm: shape, first } => with_f32(memory, machine, left, |a| {
                with_f32(memory, machine, right, |b| {
                    into_f32(memory, machine, output, |c| {
                        for (group, &[first_a, first_b]) in first.iter().enumerate() {
                            gemm(machine, shape, &a[first_a..], &b[first_b..], &mut c[results(shape, group)]);
                        }
                    });
                })
            }),
            DotAlgorithm::Reordered { gemm: shape, left: left_order, right: right_order } => {
                with_f32(memory, machine, left, |a| {
                    with_f32(memory, machine, right, |b| {
                        let (a, b) = (reorder(a, &left.1, left_order), reorder(b, &right.1, right_order));
                        into_f32(memory, machine, output, |c| gemm(machine, shape, &a, &b, c));
                    })
                })
            }
            DotAlgorithm::General(dot) if output.1.dtype().is_float() => {
                let (a, b) = (doubles(memory, left), doubles(memory, right));
                let c = general::product(dot, (&a, &left.1), (&b, &right.1), 0.0, |sum, a, b| sum + a * b);
                write_doubles(memory, output, &c);
            }
            DotAlgorithm::General(dot) => {
                let (a, b) = (integers(memory, left), integers(memory, right));
                let multiply_add = |sum: i64, a: i64, b: i64| sum.wrapping_add(a.wrapping_mul(b));
                let c = general::product(dot, (&a, &left.1), (&b, &right.1), 0, multiply_add);
                write_integers(memory, output, &c);
            }
        }
    }
}

/// An operand as matrices, if each of the three lists of axes walks through memory at one distance.
fn matrix(shape: &Shape, batch: &[usize], rows: &[usize], columns: &[usize]) -> Option<MatrixStrides> {
    let strides = shape.strides();
    let one = |axes: &[usize]| -> Option<usize> {
        let long: Vec<usize> = axes.iter().copied().filter(|&axis| shape.dims()[axis] != 1).collect();
        let walks = long.windows(2).all(|pair| strides[pair[0]] == strides[pair[1]] * shape.dims()[pair[1]]);
        walks.then(|| long.last().map_or(1, |&axis| strides[axis]))
    };
    Some(MatrixStrides { batch: one(batch)?, row: one(rows)?, column: one(columns)? })
}

/// Where each combination of indices of these axes begins, in row-major order.
fn starts(shape: &Shape, axes: &[usize]) -> Vec<usize> {
    let strides = shape.strides();
    axes.iter().fold(vec![0], |starts, &axis| {
        starts
            .iter()
            .flat_map(|start| (0..shape.dims()[axis]).map(move |i| (start, i)))
            .map(|(start, i)| start + i * strides[axis])
            .collect()
    })
}

/// The results of a group of products.
fn results(shape: &Gemm, group: usize) -> Range<usize> {
    let len = shape.batch * shape.m * shape.n;
    group * len..(group + 1) * len
}

fn reorder(values: &[f32], shape: &Shape, order: &[usize]) -> Vec<f32> {
    let strides = shape.strides();
    let dims: Vec<usize> = order.iter().map(|&axis| shape.dims()[axis]).collect();
    let mut index = vec![0; dims.len()];
    let mut result = Vec::with_capacity(values.len());
    while result.len() < values.len() {
        result.push(values[order.iter().zip(&index).map(|(&axis, &i)| i * strides[axis]).sum::<usize>()]);
        advance(&mut index, &dims);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn algorithm(dot: DotGeneral, shapes: [&[usize]; 3], simd: Simd) -> Option<convolution::ConvAlgorithm> {
        let [left, right, output] = shapes.map(|dims| (0, Shape::new(DType::BF16, dims.to_vec())));
        let arguments = Arguments { inputs: vec![left, right], outputs: vec![output] };
        DotAlgorithm::choose(&dot, &arguments).as_convolution(&arguments, false, simd)
    }

    /// Weights times values of an attention: the heads of the values lie behind their tokens, and nothing is copied.
    #[test]
    fn batches_at_two_distances_are_groups_of_products() {
        let dot = DotGeneral {
            left_batch: vec![0, 1],
            right_batch: vec![0, 2],
            left_contract: vec![3],
            right_contract: vec![1],
            dtype: DType::F32,
        };
        let shapes: [&[usize]; 3] = [&[3, 2, 5, 7], &[3, 7, 2, 4], &[3, 2, 5, 4]];
        let [left, right, output] = shapes.map(|dims| (0, Shape::new(DType::F32, dims.to_vec())));
        let arguments = Arguments { inputs: vec![left, right], outputs: vec![output] };
        let DotAlgorithm::Matrices { gemm, first } = DotAlgorithm::choose(&dot, &arguments) else { panic!("a copy") };
        assert_eq!(first, [[0, 0], [70, 56], [140, 112]]);
        let expected = [
            MatrixStrides { batch: 35, row: 7, column: 1 },
            MatrixStrides { batch: 4, row: 8, column: 1 },
            MatrixStrides { batch: 20, row: 4, column: 1 },
        ];
        assert_eq!((gemm.batch, [gemm.a, gemm.b, gemm.c]), (2, expected));
    }

    /// They were copied number by number, because the distance between products of a batch was compared where there is no
    /// batch.
    #[test]
    fn bf16_products_of_linear_layers_need_no_copy_of_an_operand() {
        for simd in Simd::all().into_iter().filter(|simd| simd.bf16() == Bf16Unit::Amx) {
            let none = DotGeneral {
                left_batch: vec![],
                right_batch: vec![],
                left_contract: vec![],
                right_contract: vec![],
                dtype: DType::BF16,
            };
            let forward = DotGeneral { left_contract: vec![2], right_contract: vec![0], ..none.clone() };
            for tokens in [[8, 197], [1, 1]] {
                let [batch, length] = tokens;
                let shapes: [&[usize]; 3] = [&[batch, length, 64], &[64, 96], &[batch, length, 96]];
                let chosen = algorithm(forward.clone(), shapes, simd);
                assert!(matches!(chosen, Some(convolution::ConvAlgorithm::Images { .. })), "{tokens:?}");
            }
            let gradient = DotGeneral { left_contract: vec![0, 1], right_contract: vec![0, 1], ..none };
            let chosen = algorithm(gradient, [&[8, 197, 64], &[8, 197, 96], &[64, 96]], simd);
            assert!(matches!(chosen, Some(convolution::ConvAlgorithm::Gradient(_))));
        }
    }
}
