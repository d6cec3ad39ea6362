//! The engine passes the suite that every backend must pass.

octant_conformance::conformance!(octant_cpu::CpuBackend::with_threads(2).unwrap());
