//! One suite of cases that every backend must pass.
//!
//! A [`Case`] is a graph, inputs for it and the results that the reference evaluator (or a formula) gives. The suite
//! holds every primitive with every type it is defined for and shapes that kernels often get wrong, small networks,
//! gradients against finite differences, the runtime's contract, and randomly generated graphs. A backend joins with
//! one line in a test file:
//!
//! ```
//! octant_conformance::conformance!(octant_conformance::ReferenceBackend);
//! ```
//!
//! Unsupported cases are listed with reasons, and the suite verifies that the backend returns an error for them:
//!
//! ```
//! use octant_conformance::{Exception, ReferenceBackend, Suite};
//! const EXCEPTIONS: &[Exception] = &[Exception { cases: "dot/u64", reason: "the device multiplies floats only" }];
//! octant_conformance::conformance!(Suite::new(ReferenceBackend).with_exceptions(EXCEPTIONS));
//! ```
//!
//! A program that is not a test runs everything with [`Suite::run`] and prints the [`Report`]. Start reading at
//! [`cases`], where a new primitive gets its case.

mod behavior;
mod case;
pub mod cases;
pub mod coverage;
pub mod layers;
pub mod random;
mod reference;
mod suite;
mod tolerance;
pub mod values;

pub use case::{Case, Problem};
pub use reference::ReferenceBackend;
pub use suite::{CUDA_SHORTFALLS, Exception, Report, Shortfall, Suite, run_on};
pub use tolerance::Tolerance;

impl<B: octant_runtime::Backend + 'static> From<B> for Suite {
    fn from(backend: B) -> Suite {
        Suite::new(backend)
    }
}

/// Makes one test per group of cases for a backend, or for a [`Suite`] with exceptions.
#[macro_export]
macro_rules! conformance {
    ($suite:expr) => {
        $crate::conformance!(
            @tests $suite, source, unary, binary, compare, choice, convert, movement, reduce, window, dot, convolution,
            index, control, composite, gradient, attention
        );
    };
    (@tests $suite:expr, $($group:ident),*) => {
        /// The suite that every backend must pass.
        #[cfg(test)]
        mod conformance {
            #[allow(unused_imports)]
            use super::*;

            fn suite() -> &'static $crate::Suite {
                static SUITE: std::sync::OnceLock<$crate::Suite> = std::sync::OnceLock::new();
                SUITE.get_or_init(|| $crate::Suite::from($suite))
            }

            $(
                #[test]
                fn $group() {
                    suite().run_group(stringify!($group)).assert_passed();
                }
            )*

            #[test]
            fn behavior() {
                suite().run_behavior().assert_passed();
            }

            #[test]
            fn random_graphs() {
                suite().run_random().assert_passed();
            }

            #[test]
            fn every_group_has_a_test() {
                let tested = [$(stringify!($group)),*];
                let groups: Vec<&str> = $crate::cases::GROUPS.iter().map(|(name, _)| *name).collect();
                assert_eq!(groups, tested, "the macro in octant-conformance must list every group");
            }
        }
    };
}
