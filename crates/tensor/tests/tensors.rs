//! What every other crate relies on: names, sizes, strides, alignment, conversions.

use octant_tensor::{AlignedBytes, Bytes, DType, HostTensor, Shape, TensorError, bf16, f16};
use proptest::prelude::*;

#[test]
fn names_are_unique_and_lead_back() {
    for (index, dtype) in DType::ALL.into_iter().enumerate() {
        assert_eq!(DType::from_name(dtype.name()), Some(dtype));
        assert_eq!(dtype.to_string(), dtype.name());
        assert!(DType::ALL[..index].iter().all(|other| other.name() != dtype.name()));
    }
    assert_eq!(DType::from_name("float"), None);
}

#[test]
fn names_tell_size_and_kind() {
    for dtype in DType::ALL.into_iter().filter(|&dtype| dtype != DType::Bool) {
        let bits: usize = dtype.name().trim_start_matches(char::is_alphabetic).parse().unwrap();
        assert_eq!(dtype.size() * 8, bits);
        assert_eq!(dtype.is_float(), dtype.name().contains('f'));
        assert_eq!(dtype.is_integer(), !dtype.is_float());
        assert_eq!(dtype.is_signed(), !dtype.name().starts_with('u'));
    }
    assert_eq!(DType::Bool.size(), 1);
    assert!(!DType::Bool.is_float() && !DType::Bool.is_integer() && !DType::Bool.is_signed());
}

#[test]
fn shapes_measure_themselves() {
    let shape = Shape::new(DType::F32, [2, 3, 4]);
    assert_eq!((shape.rank(), shape.elements(), shape.bytes()), (3, 24, 96));
    assert_eq!(shape.strides(), [12, 4, 1]);
    assert_eq!(shape.to_string(), "f32[2,3,4]");
    assert_eq!(shape.with_dtype(DType::U8).to_string(), "u8[2,3,4]");
    assert_eq!(shape.with_dims([6]).bytes(), 24);
    let scalar = Shape::scalar(DType::I64);
    assert_eq!((scalar.rank(), scalar.elements(), scalar.strides().len()), (0, 1, 0));
    assert_eq!(scalar.to_string(), "i64[]");
}

#[test]
fn shapes_from_outside_never_overflow() {
    let huge = 1usize << 40;
    assert_eq!(Shape::new(DType::F32, [huge, huge]).checked_bytes(), None);
    assert_eq!(Shape::new(DType::F32, [huge, huge, 0]).checked_bytes(), None);
    assert_eq!(Shape::new(DType::F32, [0, huge, huge]).checked_bytes(), None);
    assert_eq!(Shape::new(DType::U8, [usize::MAX]).checked_bytes(), None);
    assert_eq!(Shape::new(DType::F32, [0, huge]).checked_bytes(), Some(0));
    assert_eq!(Shape::new(DType::F64, [3, 5]).checked_bytes(), Some(120));
    let refused = HostTensor::from_bytes(Shape::new(DType::U8, [0, huge, huge]), Bytes::new(vec![]));
    assert!(matches!(refused, Err(TensorError::Size { .. })));
}

#[test]
fn wrong_sizes_and_types_say_both_sides() {
    let error = HostTensor::new([2, 2], &[1.0f32; 3]).unwrap_err();
    assert_eq!(error.to_string(), "f32[2,2] holds 16 bytes, but 12 were given");
    let error = HostTensor::scalar(1u8).elements::<i8>().unwrap_err();
    assert_eq!(error.to_string(), "the tensor is u8, it was read as i8");
}

#[test]
fn blocks_are_aligned_and_zero() {
    for len in [0, 1, 63, 64, 4097] {
        let block = AlignedBytes::zeroed(len);
        assert_eq!(block.as_ptr().align_offset(AlignedBytes::ALIGNMENT), 0);
        assert!(block.len() == len && block.iter().all(|&byte| byte == 0));
    }
}

#[test]
fn windows_stay_inside_their_owner() {
    let bytes = Bytes::new((0u8..10).collect::<Vec<_>>());
    let middle = bytes.slice(2..8).unwrap();
    assert_eq!(middle.slice(1..3).unwrap()[..], [3, 4]);
    assert_eq!(middle.slice(6..6).unwrap().len(), 0);
    assert!(middle.slice(5..7).is_none());
    assert!(bytes.slice(usize::MAX..usize::MAX).is_none());
    #[expect(clippy::reversed_empty_ranges, reason = "a window that ends before it starts is what is tested")]
    let reversed = bytes.slice(5..4);
    assert!(reversed.is_none());
}

#[test]
fn misaligned_bytes_are_copied_and_aligned_ones_shared() {
    let mut block = AlignedBytes::zeroed(64);
    block[8..16].copy_from_slice(bytemuck::cast_slice(&[1.5f32, -2.0]));
    block[17..25].copy_from_slice(bytemuck::cast_slice(&[1.5f32, -2.0]));
    let bytes = Bytes::new(block);
    let shape = Shape::new(DType::F32, [2]);
    let shared = HostTensor::from_bytes(shape.clone(), bytes.slice(8..16).unwrap()).unwrap();
    let copied = HostTensor::from_bytes(shape, bytes.slice(17..25).unwrap()).unwrap();
    assert_eq!(shared.bytes().as_ptr(), bytes[8..].as_ptr());
    assert_eq!(copied.elements::<f32>().unwrap(), [1.5, -2.0]);
    assert_eq!(shared, copied);
}

#[test]
fn reshaping_shares_and_keeps_the_order() {
    let tensor = HostTensor::new([2, 3], &[0i16, 1, 2, 3, 4, 5]).unwrap();
    let flat = tensor.reshape([6]).unwrap();
    assert_eq!(flat.bytes().as_ptr(), tensor.bytes().as_ptr());
    assert_eq!(flat.to_f64s(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    assert!(tensor.reshape([5]).is_err());
}

#[test]
fn equality_is_bitwise() {
    let nan = HostTensor::scalar(f32::NAN);
    assert_eq!(nan, nan.clone());
    assert_ne!(HostTensor::scalar(0.0f32), HostTensor::scalar(-0.0f32));
    assert_ne!(HostTensor::scalar(1i8), HostTensor::scalar(1u8));
}

#[test]
fn conversions_round_truncate_and_saturate() {
    let convert = |dtype, value| HostTensor::from_f64s(Shape::scalar(dtype), &[value]).unwrap().to_f64s()[0];
    assert_eq!(convert(DType::U8, 300.7), 255.0);
    assert_eq!(convert(DType::U8, -1.0), 0.0);
    assert_eq!(convert(DType::I32, -2.9), -2.0);
    assert_eq!(convert(DType::I64, f64::NAN), 0.0);
    assert_eq!(convert(DType::Bool, -0.5), 1.0);
    assert_eq!(convert(DType::F16, 65520.0), f64::INFINITY);
    assert_eq!(convert(DType::BF16, 1.0 + 1.0 / 256.0), 1.0);
    assert_eq!(convert(DType::F32, 0.1), 0.1f32 as f64);
}

#[test]
fn bools_are_normalized_and_nothing_else() {
    let bytes = || Bytes::new(vec![0u8, 1, 2, 255]);
    let tensor = |dtype| HostTensor::from_bytes(Shape::new(dtype, [4]), bytes()).unwrap().with_normalized_bools();
    assert_eq!(tensor(DType::Bool).bytes()[..], [0, 1, 1, 1]);
    assert_eq!(tensor(DType::U8).bytes()[..], [0, 1, 2, 255]);
}

#[test]
fn long_tensors_are_shown_short() {
    let shown = format!("{:?}", HostTensor::zeros(Shape::new(DType::U8, [20])));
    assert!(shown.starts_with("u8[20] [0.0,") && shown.ends_with("… 4 more]"), "{shown}");
}

proptest! {
    #[test]
    fn small_integers_are_exact_in_every_type(values in prop::collection::vec(0u8..=127, 0..20)) {
        let wanted: Vec<f64> = values.iter().map(|&value| value as f64).collect();
        for dtype in DType::ALL.into_iter().filter(|&dtype| dtype != DType::Bool) {
            let tensor = HostTensor::from_f64s(Shape::new(dtype, [wanted.len()]), &wanted).unwrap();
            prop_assert_eq!(tensor.to_f64s(), wanted.clone());
        }
    }

    #[test]
    fn halves_keep_their_bits(bits in any::<u16>()) {
        let single = HostTensor::scalar(bf16::from_bits(bits)).to_f64s()[0];
        prop_assert!(single.is_nan() || bf16::from_f64(single).to_bits() == bits);
        let half = HostTensor::scalar(f16::from_bits(bits)).to_f64s()[0];
        prop_assert!(half.is_nan() || f16::from_f64(half).to_bits() == bits);
    }

    #[test]
    fn strides_walk_every_element_once(dims in prop::collection::vec(1usize..4, 0..5)) {
        let shape = Shape::new(DType::U8, dims);
        let strides = shape.strides();
        let mut seen = vec![0; shape.elements()];
        for flat in 0..shape.elements() {
            let position: usize =
                (0..shape.rank()).map(|axis| flat / strides[axis] % shape.dims()[axis] * strides[axis]).sum();
            seen[position] += 1;
        }
        prop_assert!(seen.iter().all(|&count| count == 1));
    }
}

#[test]
fn a_block_is_donated_only_by_its_last_holder() {
    let bytes = Bytes::new(AlignedBytes::copy_of(&[1, 2, 3]));
    let (address, other) = (bytes.as_ptr(), bytes.clone());
    assert_ne!(bytes.into_block().as_ptr(), address, "another owner still reads it");
    let part = other.slice(1..3).unwrap();
    let block = other.into_block();
    assert_eq!((&block[..], &part[..]), (&[1, 2, 3][..], &[2, 3][..]));
    drop(part);
    let whole = Bytes::new(AlignedBytes::copy_of(&[4, 5]));
    let address = whole.as_ptr();
    assert_eq!(whole.into_block().as_ptr(), address);
    assert_eq!(Bytes::new(vec![6, 7]).into_block()[..], [6, 7], "it lies in no block");
}
