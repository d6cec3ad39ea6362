//! Files that NumPy wrote (`golden/make.py`), read back.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use octant_tensor::{DType, HostTensor, read_npy, read_npz};
use std::path::{Path, PathBuf};

fn golden(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden").join(file)
}

fn assert_counting(tensor: &HostTensor, dtype: DType) {
    assert_eq!((tensor.dtype(), tensor.dims()), (dtype, &[2, 3][..]));
    assert_eq!(tensor.to_f64s(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
}

#[test]
fn arrays_that_numpy_saved() {
    let read = |file| read_npy(&golden(file)).unwrap();
    assert_counting(&read("c_order.npy"), DType::F32);
    assert_counting(&read("fortran_big_endian.npy"), DType::F64);
    assert_counting(&read("version2.npy"), DType::I64);
    assert_counting(&read("version3.npy"), DType::I64);
    assert_eq!(read("truth.npy").bytes()[..], [1, 0, 1, 0, 1, 0]);
    assert_eq!(read("scalar.npy"), HostTensor::scalar(octant_tensor::f16::from_f64(1.5)));
}

#[test]
fn archives_that_numpy_saved() {
    let stored = read_npz(&golden("stored.npz")).unwrap();
    assert_eq!(stored[0].0, "a");
    assert_counting(&stored[0].1, DType::U8);
    assert_eq!(stored[1].0, "b");
    assert_counting(&stored[1].1, DType::U32);
    let compressed = read_npz(&golden("compressed.npz")).unwrap();
    assert_counting(&compressed[0].1, DType::U8);
    assert_eq!(compressed[1].1.to_f64s(), [0.0; 1000]);
}
