#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| octant_fuzz::events::events(data));
