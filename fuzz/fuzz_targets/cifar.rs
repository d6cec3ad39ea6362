#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| octant_fuzz::data::cifar(data));
