//! Named values: options that go to a plugin, attributes that come from it.

use crate::sys;
use std::collections::BTreeMap;
use std::fmt;

/// The value of an option or an attribute.
#[derive(Debug, Clone, PartialEq)]
pub enum AttributeValue {
    /// Text.
    Text(String),
    /// A whole number.
    Int(i64),
    /// A list of whole numbers, such as coordinates.
    Ints(Vec<i64>),
    /// A floating-point number.
    Float(f32),
    /// A bool.
    Bool(bool),
}

/// Options or attributes by name, in alphabetical order.
pub type NamedValues = BTreeMap<String, AttributeValue>;

impl fmt::Display for AttributeValue {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            AttributeValue::Text(text) => f.write_str(text),
            AttributeValue::Int(number) => write!(f, "{number}"),
            AttributeValue::Ints(numbers) => write!(f, "{numbers:?}"),
            AttributeValue::Float(number) => write!(f, "{number}"),
            AttributeValue::Bool(truth) => write!(f, "{truth}"),
        }
    }
}

impl AttributeValue {
    /// The number, when it is one (rounded to double precision).
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            AttributeValue::Int(number) => Some(*number as f64),
            AttributeValue::Float(number) => Some(*number as f64),
            AttributeValue::Text(_) | AttributeValue::Ints(_) | AttributeValue::Bool(_) => None,
        }
    }
}

/// The C form of `values`, which must outlive it.
pub(crate) fn to_c(values: &NamedValues) -> Vec<sys::PJRT_NamedValue> {
    values.iter().map(|(name, value)| one_to_c(name, value)).collect()
}

fn one_to_c(name: &str, value: &AttributeValue) -> sys::PJRT_NamedValue {
    use sys::PJRT_NamedValue_Union as Union;
    let (type_, value, value_size) = match value {
        AttributeValue::Text(text) => {
            (sys::PJRT_NamedValue_kString, Union { string_value: text.as_ptr().cast() }, text.len())
        }
        AttributeValue::Int(number) => (sys::PJRT_NamedValue_kInt64, Union { int64_value: *number }, 1),
        AttributeValue::Ints(numbers) => {
            (sys::PJRT_NamedValue_kInt64List, Union { int64_array_value: numbers.as_ptr() }, numbers.len())
        }
        AttributeValue::Float(number) => (sys::PJRT_NamedValue_kFloat, Union { float_value: *number }, 1),
        AttributeValue::Bool(truth) => (sys::PJRT_NamedValue_kBool, Union { bool_value: *truth }, 1),
    };
    sys::PJRT_NamedValue {
        name: name.as_ptr().cast(),
        name_size: name.len(),
        type_,
        value,
        value_size,
        ..Default::default()
    }
}

/// Copies the values that a plugin returned; values of a type that we do not know are left out.
///
/// # Safety
/// `first` must point to `count` valid values (or be null with a count of 0).
pub(crate) unsafe fn from_c(first: *const sys::PJRT_NamedValue, count: usize) -> NamedValues {
    // SAFETY: passed on from the caller; the struct has not grown since the interface exists.
    let values = unsafe { slice(first, count) };
    // SAFETY: the caller guarantees that every one of the values is valid.
    values.iter().filter_map(|named| unsafe { one_from_c(named) }).collect()
}

/// # Safety
/// `named` must be a valid value: its pointers lead to as many characters or numbers as its sizes say.
unsafe fn one_from_c(named: &sys::PJRT_NamedValue) -> Option<(String, AttributeValue)> {
    // SAFETY: the caller guarantees that the pointers and sizes belong together, and `type_` that the field read from
    // the union is the one that was written.
    unsafe {
        let value = match named.type_ {
            sys::PJRT_NamedValue_kString => AttributeValue::Text(text(named.value.string_value, named.value_size)),
            sys::PJRT_NamedValue_kInt64 => AttributeValue::Int(named.value.int64_value),
            sys::PJRT_NamedValue_kInt64List => {
                AttributeValue::Ints(slice(named.value.int64_array_value, named.value_size).to_vec())
            }
            sys::PJRT_NamedValue_kFloat => AttributeValue::Float(named.value.float_value),
            sys::PJRT_NamedValue_kBool => AttributeValue::Bool(named.value.bool_value),
            _ => return None,
        };
        Some((text(named.name, named.name_size), value))
    }
}

/// A copy of `size` characters; null is the empty text.
///
/// # Safety
/// `start` must be null or point to `size` readable bytes.
pub(crate) unsafe fn text(start: *const std::ffi::c_char, size: usize) -> String {
    // SAFETY: passed on from the caller; bytes have no alignment.
    String::from_utf8_lossy(unsafe { slice(start.cast::<u8>(), size) }).into_owned()
}

/// A slice over what a plugin points to; unlike Rust, C may use null for an empty one.
///
/// # Safety
/// `start` must be null or point to `size` initialized, aligned elements that live as long as the slice.
pub(crate) unsafe fn slice<'a, T>(start: *const T, size: usize) -> &'a [T] {
    if start.is_null() || size == 0 {
        return &[];
    }
    // SAFETY: passed on from the caller, and not null.
    unsafe { std::slice::from_raw_parts(start, size) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_survive_the_way_to_c_and_back() {
        let values = NamedValues::from([
            ("allocator".to_string(), AttributeValue::Text("bfc".into())),
            ("visible_devices".to_string(), AttributeValue::Ints(vec![3, -1, 7])),
            ("memory_fraction".to_string(), AttributeValue::Float(0.75)),
            ("node_id".to_string(), AttributeValue::Int(-5)),
            ("preallocate".to_string(), AttributeValue::Bool(true)),
            ("empty".to_string(), AttributeValue::Ints(vec![])),
        ]);
        let c = to_c(&values);
        // SAFETY: `c` was made from `values`, which are still alive.
        assert_eq!(unsafe { from_c(c.as_ptr(), c.len()) }, values);
        // SAFETY: nothing is read when the count is 0.
        assert!(unsafe { from_c(std::ptr::null(), 0) }.is_empty());
    }
}
