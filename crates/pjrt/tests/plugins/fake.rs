//! The fake of the unit tests as a shared library that the binary can load; `octant_testing::fake_plugin` builds it.

#![allow(unsafe_op_in_unsafe_fn, dead_code)]

#[path = "../../src/fake/mod.rs"]
mod fake;
#[path = "../../src/named_value.rs"]
mod named_value;
#[path = "../../src/sys/mod.rs"]
mod sys;

#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub extern "C" fn GetPjrtApi() -> *const sys::PJRT_Api {
    Box::leak(Box::new(fake::table()))
}
