//! Python pickles, read as data.
//!
//! A pickle is a program for a small stack machine. Python's own reader lets that program call anything, which is why
//! opening a foreign weight file can take over a computer. This reader keeps the stack machine and leaves out the calls:
//! where the program has "call `torch.Size` with these arguments", the result is a record of exactly that
//! ([`Object`]), and the code that wanted a tensor interprets the record. A name that is not on the caller's list of
//! [globals] ends the reading with [`PickleError::Forbidden`].
//!
//! All values live in one flat arena and refer to each other by index. Sharing and cycles therefore cost nothing, and
//! neither reading nor dropping ever recurses, however deep the structure. Every instruction adds a bounded amount, so
//! memory stays proportional to the input, with [`PickleLimits`] on top.
//!
//! Start reading at [`parse`], then `machine.rs` (what every instruction does) and `value.rs` (how results are read).

mod code;
pub mod globals;
mod machine;
pub(crate) mod opcode;
mod value;

pub use globals::Globals;
pub use value::{Object, Pickle, PickleValue};

use octant_tensor::Bytes;

/// How much a pickle may allocate, whatever its size.
#[derive(Debug, Clone, Copy)]
pub struct PickleLimits {
    /// Instructions executed.
    pub steps: usize,
    /// Values created; each takes some 40 to 80 bytes.
    pub values: usize,
}

impl Default for PickleLimits {
    /// Ten times what large checkpoints and the pickled data sets need.
    fn default() -> PickleLimits {
        PickleLimits { steps: 16_000_000, values: 4_000_000 }
    }
}

/// A pickle could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PickleError {
    /// The pickle names something that is not a tensor or a container.
    #[error(
        "it calls `{module}.{name}`, and Octant runs no code from files: load it in Python and save only the tensors, \
         as in torch.save(model.state_dict(), …)"
    )]
    Forbidden {
        /// The Python module.
        module: String,
        /// The function or class in it.
        name: String,
    },
    /// The instructions make no sense.
    #[error("its pickle is damaged at byte {position}: {problem}")]
    Damaged {
        /// Where, counted from the start of the pickle.
        position: usize,
        /// What is wrong there.
        problem: String,
    },
    /// It would take more time or memory than any honest file.
    #[error("its pickle has more than {limit} {what}, which no file of weights or data needs")]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// How much is accepted.
        limit: usize,
    },
}

/// Reads the pickle at the start of `input` and returns how many bytes it took. Only the names in `globals` are accepted.
pub fn parse(input: &Bytes, globals: &[Globals], limits: PickleLimits) -> Result<(Pickle, usize), PickleError> {
    machine::Machine::new(input, globals, false, limits).run()
}

/// As [`parse`], but a name that is not in `globals` becomes the label [`globals::FOREIGN`]: a whole network that was
/// pickled with its classes can be searched for tensors. Still nothing is called or looked up.
pub fn parse_with_foreign(
    input: &Bytes,
    globals: &[Globals],
    limits: PickleLimits,
) -> Result<(Pickle, usize), PickleError> {
    machine::Machine::new(input, globals, true, limits).run()
}
