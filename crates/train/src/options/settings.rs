//! The types that keys may have.

use super::{OptionError, OptionSpec, parsed};
use octant_data::{Corrupt, LastBatch};
use octant_nn::Precision;
use std::path::PathBuf;
use toml::Value;

/// A type that a key may have.
pub trait OptionValue: Sized {
    /// What a value looks like, in words: `a whole number`.
    fn expected() -> String;

    /// The value of the key at `key_path`, the dotted path for messages.
    fn read(value: &Value, key_path: &str) -> Result<Self, OptionError>;

    /// The value as TOML; none where there is none.
    fn write(&self) -> Option<Value>;

    /// What a key without a value is, where it need not have one.
    fn absent() -> Option<Self> {
        None
    }

    /// The words that it can be, where there are only those.
    fn choices() -> Vec<&'static str> {
        Vec::new()
    }

    /// The keys of the table that it is.
    fn inner() -> Vec<OptionSpec> {
        Vec::new()
    }

    /// Whether it is a list of those tables.
    fn is_list() -> bool {
        false
    }

    /// A value that was typed on a command line.
    fn from_text(text: &str) -> Value {
        parsed(text)
    }
}

fn wrong<T: OptionValue>(value: &Value, key_path: &str) -> OptionError {
    OptionError::value(key_path, format!("must be {}, not {value}", T::expected()))
}

/// A number, whole or not.
pub fn number(value: &Value) -> Option<f64> {
    value.as_float().or_else(|| value.as_integer().map(|number| number as f64))
}

impl OptionValue for bool {
    fn expected() -> String {
        "true or false".into()
    }

    fn read(value: &Value, key_path: &str) -> Result<bool, OptionError> {
        value.as_bool().ok_or_else(|| wrong::<bool>(value, key_path))
    }

    fn write(&self) -> Option<Value> {
        Some(Value::Boolean(*self))
    }
}

macro_rules! whole {
    ($($type:ty),*) => { $(
        impl OptionValue for $type {
            fn expected() -> String {
                "a whole number".into()
            }

            fn read(value: &Value, key_path: &str) -> Result<$type, OptionError> {
                match value.as_integer().map(<$type>::try_from) {
                    Some(Ok(number)) => Ok(number),
                    Some(Err(_)) => Err(OptionError::value(key_path, format!("must be at least 0, not {value}"))),
                    None => Err(wrong::<$type>(value, key_path)),
                }
            }

            fn write(&self) -> Option<Value> {
                i64::try_from(*self).ok().map(Value::Integer)
            }
        }
    )* };
}
whole!(usize, u64);

impl OptionValue for f64 {
    fn expected() -> String {
        "a number".into()
    }

    fn read(value: &Value, key_path: &str) -> Result<f64, OptionError> {
        let finite = number(value).filter(|number| number.is_finite());
        finite.ok_or_else(|| wrong::<f64>(value, key_path))
    }

    fn write(&self) -> Option<Value> {
        Some(Value::Float(*self))
    }
}

impl OptionValue for [f64; 2] {
    fn expected() -> String {
        "two numbers".into()
    }

    fn read(value: &Value, key_path: &str) -> Result<[f64; 2], OptionError> {
        match value.as_array().map(|items| items.iter().map(number).collect::<Option<Vec<f64>>>()) {
            Some(Some(numbers)) if numbers.len() == 2 => Ok([numbers[0], numbers[1]]),
            _ => Err(wrong::<[f64; 2]>(value, key_path)),
        }
    }

    fn write(&self) -> Option<Value> {
        Some(Value::Array(self.map(Value::Float).to_vec()))
    }
}

impl OptionValue for String {
    fn expected() -> String {
        "a text".into()
    }

    fn read(value: &Value, key_path: &str) -> Result<String, OptionError> {
        value.as_str().map(str::to_string).ok_or_else(|| wrong::<String>(value, key_path))
    }

    fn write(&self) -> Option<Value> {
        Some(Value::String(self.clone()))
    }

    fn from_text(text: &str) -> Value {
        Value::String(text.into())
    }
}

impl OptionValue for PathBuf {
    fn expected() -> String {
        "a path".into()
    }

    fn read(value: &Value, key_path: &str) -> Result<PathBuf, OptionError> {
        value.as_str().map(PathBuf::from).ok_or_else(|| wrong::<PathBuf>(value, key_path))
    }

    fn write(&self) -> Option<Value> {
        Some(Value::String(self.to_string_lossy().into_owned()))
    }

    fn from_text(text: &str) -> Value {
        Value::String(text.into())
    }
}

impl<T: OptionValue> OptionValue for Option<T> {
    fn expected() -> String {
        T::expected()
    }

    fn read(value: &Value, key_path: &str) -> Result<Option<T>, OptionError> {
        T::read(value, key_path).map(Some)
    }

    fn write(&self) -> Option<Value> {
        self.as_ref().and_then(T::write)
    }

    fn absent() -> Option<Option<T>> {
        Some(None)
    }

    fn choices() -> Vec<&'static str> {
        T::choices()
    }

    fn inner() -> Vec<OptionSpec> {
        T::inner()
    }

    fn is_list() -> bool {
        T::is_list()
    }

    fn from_text(text: &str) -> Value {
        T::from_text(text)
    }
}

impl<T: OptionValue> OptionValue for Vec<T> {
    fn expected() -> String {
        format!("a list of {}", T::expected().trim_start_matches("a "))
    }

    fn read(value: &Value, key_path: &str) -> Result<Vec<T>, OptionError> {
        let items = value.as_array().ok_or_else(|| wrong::<Vec<T>>(value, key_path))?;
        items.iter().enumerate().map(|(number, item)| T::read(item, &format!("{key_path}.{number}"))).collect()
    }

    fn write(&self) -> Option<Value> {
        Some(Value::Array(self.iter().filter_map(T::write).collect()))
    }

    fn inner() -> Vec<OptionSpec> {
        T::inner()
    }

    fn is_list() -> bool {
        !T::inner().is_empty()
    }

    /// A list as TOML has it, or its items with commas between them.
    fn from_text(text: &str) -> Value {
        match parsed(text) {
            Value::Array(items) => Value::Array(items),
            _ => Value::Array(text.split(',').map(|item| T::from_text(item.trim())).collect()),
        }
    }
}

crate::choice!(impl Precision { F32 = "f32", Bf16 = "bf16" });
crate::choice!(impl LastBatch { Drop = "drop", Pad = "pad" });
crate::choice!(impl Corrupt { Fatal = "fatal", Skip = "skip" });
