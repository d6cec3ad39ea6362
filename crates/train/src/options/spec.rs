//! What is known about a key before anybody sets it.

use super::{OptionError, OptionValue};
use std::fmt::Display;
use std::ops::{Bound, RangeBounds};
use toml::Value;

/// A key: what it means, which values it takes, and how it is set on a command line.
#[derive(Debug, Clone)]
pub struct OptionSpec {
    /// Its name in the table.
    pub key: &'static str,
    /// What it means.
    pub doc: String,
    /// What a value looks like: `a whole number`.
    pub expected: String,
    /// The words that it takes, where it takes only those.
    pub choices: Vec<&'static str>,
    /// Its value if none is given.
    pub default: Option<Value>,
    /// What happens if none is given, where that is not a value.
    pub unset: &'static str,
    /// It must be given.
    pub is_required: bool,
    /// A former name.
    pub old: Option<&'static str>,
    /// How it is set on a command line, if it has a flag of its own.
    pub flag: Option<Flag>,
    /// The keys of the table that it is.
    pub inner: Vec<OptionSpec>,
    /// It is a list of those tables.
    pub is_list: bool,
    /// It is true or false.
    pub is_switch: bool,
    /// How a value is read from a command line.
    pub from_text: fn(&str) -> Value,
    low: Bound<f64>,
    high: Bound<f64>,
}

/// A flag of a command line.
#[derive(Debug, Clone, PartialEq)]
pub struct Flag {
    /// Its name, without dashes before it.
    pub name: String,
    /// Another name.
    pub alias: Option<&'static str>,
    /// What its value is called in the help.
    pub value: Option<&'static str>,
}

impl OptionSpec {
    /// The specification of a key of that type. Documentation comes line by line.
    pub fn new<T: OptionValue>(key: &'static str, doc: &[&str], default: Option<fn() -> T>) -> OptionSpec {
        let doc = doc.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ");
        OptionSpec {
            key,
            doc: doc.trim_end_matches('.').to_string(),
            expected: T::expected(),
            choices: T::choices(),
            is_required: default.is_none() && T::absent().is_none(),
            default: default.and_then(|default| default().write()),
            unset: "",
            old: None,
            flag: None,
            inner: T::inner(),
            is_list: T::is_list(),
            is_switch: T::expected() == bool::expected(),
            from_text: T::from_text,
            low: Bound::Unbounded,
            high: Bound::Unbounded,
        }
    }

    /// Numbers must lie in this range, those of lists too.
    pub fn within<N: Copy + Into<f64>>(mut self, range: impl RangeBounds<N>) -> OptionSpec {
        (self.low, self.high) =
            (range.start_bound().map(|&low| low.into()), range.end_bound().map(|&high| high.into()));
        self
    }

    /// Numbers must be above 0.
    pub fn positive(mut self) -> OptionSpec {
        self.low = Bound::Excluded(0.0);
        self
    }

    /// What happens if the key is not given, in words.
    pub fn unset(mut self, words: &'static str) -> OptionSpec {
        self.unset = words;
        self
    }

    /// The key had another name once, which is still understood.
    pub fn was(mut self, old: &'static str) -> OptionSpec {
        self.old = Some(old);
        self
    }

    /// A flag of the same name sets it.
    pub fn flag(mut self) -> OptionSpec {
        self.flag.get_or_insert(Flag { name: self.key.replace('_', "-"), alias: None, value: None });
        self
    }

    /// A flag of another name sets it.
    pub fn flag_named(mut self, name: &str) -> OptionSpec {
        self.flag = Some(Flag { name: name.to_string(), alias: None, value: None });
        self
    }

    /// The flag has a second name.
    pub fn alias(mut self, alias: &'static str) -> OptionSpec {
        self = self.flag();
        self.flag.iter_mut().for_each(|flag| flag.alias = Some(alias));
        self
    }

    /// What the flag's value is called in the help.
    pub fn value(mut self, name: &'static str) -> OptionSpec {
        self = self.flag();
        self.flag.iter_mut().for_each(|flag| flag.value = Some(name));
        self
    }

    /// Refuses numbers out of range.
    pub fn check(&self, value: &Value, key: &str) -> Result<(), OptionError> {
        let number = match value {
            Value::Integer(number) => *number as f64,
            Value::Float(number) => *number,
            Value::Array(items) => return items.iter().try_for_each(|item| self.check(item, key)),
            Value::String(_) | Value::Boolean(_) | Value::Datetime(_) | Value::Table(_) => return Ok(()),
        };
        match (self.low, self.high).contains(&number) {
            true => Ok(()),
            false => Err(OptionError::value(key, format!("must {}, not {value}", self.range().unwrap_or_default()))),
        }
    }

    /// The range in words, as they follow "must".
    pub fn range(&self) -> Option<String> {
        fn end<N: Display>(bound: Bound<N>, included: &str, excluded: &str) -> Option<String> {
            match bound {
                Bound::Included(end) => Some(format!("{included} {end}")),
                Bound::Excluded(end) => Some(format!("{excluded} {end}")),
                Bound::Unbounded => None,
            }
        }
        if let (Bound::Included(low), Bound::Included(high)) = (self.low, self.high) {
            return Some(format!("lie within {low} and {high}"));
        }
        let ends = [end(self.low, "at least", "above"), end(self.high, "at most", "below")];
        let words: Vec<String> = ends.into_iter().flatten().collect();
        (!words.is_empty()).then(|| format!("be {}", words.join(" and ")))
    }
}
