//! One call for what an optimizer does to many small variables. A kernel for each would take a microsecond and a half
//! whatever it does, and a network has hundreds of them.
//!
//! Operands are the arrays of every variable in turn, then the scalars; the results are the arrays that are written, in place.

mod group;
mod statements;

pub use group::group_updates;

use super::ELEMENT_HEADERS;
use crate::GpuFacts;
use crate::runtime::compiler::{Source, source};
use crate::runtime::driver::Grid;
use crate::runtime::ffi::FfiBuffer;
use crate::runtime::launch::{Dims, Encoded, GpuKernel, Parameter, WORDS, enough};
use octant_graph::KernelHint;
use std::sync::Arc;

/// Threads of a block, and elements of a block, as in the source.
const THREADS: u32 = 256;
const ELEMENTS: i64 = THREADS as i64 * 4;

/// What is done to every element of a variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpdateDescriptor {
    /// Arrays of a variable, of which the first are written.
    pub arrays: usize,
    /// Scalars that all variables read.
    pub scalars: usize,
    pub written: usize,
    /// What to do with element `i` of a variable's `arrays`, in C.
    pub statements: Arc<str>,
}

impl UpdateDescriptor {
    /// How many variables one call can take.
    pub fn capacity(&self) -> usize {
        WORDS.saturating_sub(self.scalars) / (self.arrays + 1)
    }

    /// The hint of a call for so many variables.
    pub fn hint(&self, variables: usize) -> KernelHint {
        let counts = [self.arrays, self.scalars, self.written].map(|count| count as i64);
        let results = 0..variables * self.written;
        let in_place = results.map(|result| (result, result / self.written * self.arrays + result % self.written));
        KernelHint {
            source: Some(self.statements.clone()),
            in_place: in_place.collect(),
            ..KernelHint::new(UpdateKernel::NAME, counts.to_vec())
        }
    }

    /// How many variables a call with so many operands and results has.
    fn variables(&self, operands: usize, results: usize) -> Result<usize, String> {
        let variables = operands.saturating_sub(self.scalars) / self.arrays;
        let fits = operands == variables * self.arrays + self.scalars && results == variables * self.written;
        match fits && (1..=self.capacity()).contains(&variables) {
            true => Ok(variables),
            false => Err(format!("an update of {variables} variables has {operands} operands and {results} results")),
        }
    }

    /// What the kernel reads: the scalars; of every variable its arrays, its elements and the block after its last.
    fn table(&self, operands: &[&FfiBuffer], results: &[&FfiBuffer]) -> Result<Vec<u64>, String> {
        let variables = self.variables(operands.len(), results.len())?;
        let (arrays, scalars) = operands.split_at(variables * self.arrays);
        let mut table: Vec<u64> = scalars.iter().map(|scalar| scalar.data as u64).collect();
        let mut blocks = 0;
        for (arrays, results) in arrays.chunks(self.arrays).zip(results.chunks(self.written)) {
            if !arrays.iter().zip(results).all(|(array, result)| array.data == result.data) {
                return Err("an update writes its results over its operands".to_string());
            }
            let elements: i64 = arrays[0].dims().iter().product();
            blocks += enough(elements, ELEMENTS);
            table.extend(arrays.iter().map(|array| array.data as u64));
            table.push(elements as u64 | u64::from(blocks) << 32);
        }
        Ok(table)
    }
}

/// The kernel.
pub struct UpdateKernel;

impl GpuKernel for UpdateKernel {
    const NAME: &'static str = "octant.update";
    const SOURCE: Source = source!("update.cu", c"octant_update", ELEMENT_HEADERS);
    type Descriptor = UpdateDescriptor;

    fn decode(encoded: &Encoded) -> Result<UpdateDescriptor, String> {
        let counts = encoded.integers.iter().map(|&count| usize::try_from(count)).collect::<Result<Vec<_>, _>>();
        match (counts.as_deref(), encoded.source) {
            (Ok(&[arrays, scalars, written]), Some(statements)) if (1..=arrays).contains(&written) => {
                Ok(UpdateDescriptor { arrays, scalars, written, statements: statements.into() })
            }
            _ => Err("an update's descriptor has three counts and statements".to_string()),
        }
    }

    fn defines(descriptor: &UpdateDescriptor) -> Vec<String> {
        let UpdateDescriptor { arrays, scalars, statements, .. } = descriptor;
        vec![format!("ARRAYS={arrays}"), format!("SCALARS={scalars}"), format!("STATEMENTS={statements}")]
    }

    fn grid(descriptor: &UpdateDescriptor, [operands, results]: [&[Dims]; 2], _: &GpuFacts) -> Result<Grid, String> {
        let variables = descriptor.variables(operands.len(), results.len())?;
        let mut blocks = 0;
        for arrays in operands[..variables * descriptor.arrays].chunks(descriptor.arrays) {
            let elements: i64 = arrays[0].iter().product();
            if arrays.iter().any(|array| array != &arrays[0]) || i32::try_from(elements).is_err() {
                return Err("the arrays of a variable have one shape".to_string());
            }
            blocks += enough(elements, ELEMENTS);
        }
        Ok(Grid { blocks: [blocks, 1, 1], threads: [THREADS, 1] })
    }

    fn parameters(
        descriptor: &UpdateDescriptor,
        [operands, results]: [&[&FfiBuffer]; 2],
    ) -> Result<Vec<Parameter>, String> {
        let table = descriptor.table(operands, results)?;
        let variables = descriptor.variables(operands.len(), results.len())?;
        let words = std::array::from_fn(|word| table.get(word).copied().unwrap_or(0));
        Ok(vec![Parameter::Table(Box::new(words)), Parameter::Count(variables as i32)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::GpuFacts;
    use crate::runtime::compiler::compiler;
    use crate::runtime::ffi::fake;
    use crate::runtime::launch::handler;

    fn descriptor(arrays: usize, scalars: usize, statements: &str) -> UpdateDescriptor {
        UpdateDescriptor { arrays, scalars, written: 1, statements: statements.into() }
    }

    #[test]
    fn the_table_says_where_every_variable_lies_and_ends() {
        let update = descriptor(2, 1, "");
        let dims = [[3, 500], [7, 1]];
        let [first, second] = dims.each_ref().map(|dims| move |address| fake::buffer(address, dims));
        let operands = [first(16), first(32), second(48), second(64), fake::buffer(80, &[])];
        let results = [first(16), second(48)];
        let operands: Vec<&FfiBuffer> = operands.iter().collect();
        let table = update.table(&operands, &results.iter().collect::<Vec<_>>());
        assert_eq!(table, Ok(vec![80, 16, 32, 1500 | 2 << 32, 48, 64, 7 | 3 << 32]));

        let elsewhere = [first(96), second(48)];
        let moved = update.table(&operands, &elsewhere.iter().collect::<Vec<_>>());
        assert!(moved.is_err_and(|error| error.contains("over its operands")), "results elsewhere");
        assert!(update.table(&operands[1..], &results.iter().collect::<Vec<_>>()).is_err(), "an operand is missing");
    }

    #[test]
    fn a_grid_has_blocks_for_every_variable() {
        let dims: [&[i64]; 5] = [&[3, 500], &[3, 500], &[7], &[7], &[]];
        let grid = UpdateKernel::grid(&descriptor(2, 1, ""), [&dims, &[&[3, 500], &[7]]], &GpuFacts::H200);
        assert_eq!(grid.map(|grid| grid.blocks), Ok([3, 1, 1]));
        let uneven: [&[i64]; 3] = [&[3], &[4], &[]];
        assert!(UpdateKernel::grid(&descriptor(2, 1, ""), [&uneven, &[&[3]]], &GpuFacts::H200).is_err());
    }

    #[test]
    fn an_update_without_counts_is_an_error() {
        let error = fake::call(handler::<UpdateKernel>, 3, &[3]).unwrap_or_default();
        assert!(error.contains("counts"), "{error}");
    }

    /// Needs NVIDIA's run-time compiler, which is a pip package of its own and needs no GPU.
    #[test]
    fn statements_compile_where_there_is_a_compiler() {
        let Ok(compiler) = compiler() else {
            println!("skipped: libnvrtc is not on this machine");
            return;
        };
        let statements = "const float v0 = arrays[0][i]; const float v1 = *(const float *)scalars[0]; \
                          const bool v2 = *(const bool *)scalars[1]; const float v3 = v2 ? sqrtf(v0) * v1 : v0; \
                          arrays[0][i] = v3;";
        for (arrays, scalars) in [(2, 2), (4, 3)] {
            let defines = UpdateKernel::defines(&descriptor(arrays, scalars, statements));
            let code = compiler.compile(&UpdateKernel::SOURCE, 80, &defines);
            assert!(code.as_ref().is_ok_and(|code| !code.is_empty()), "{code:?}");
        }
    }
}
