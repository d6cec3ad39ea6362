//! Options: every key that users may set is declared once, and everything else follows from the declaration.
//!
//! [`options!`](crate::options!) makes a struct of a list of keys. The struct is what the code works with; its
//! [`OptionTable::specs`] say how the keys are documented, which values they take and which flags set them, and its
//! [`OptionTable::take`] reads them from a TOML table with errors that name the key. Structs may contain others, whose keys lie
//! in the same table: so a recipe and the step that it leads to share one struct.
//!
//! ```
//! octant_train::options! {
//!     /// How a cake is baked.
//!     pub struct Cake {
//!         /// Degrees Celsius.
//!         heat: f64 = 180.0, within(50.0..=300.0), flag();
//!         /// Minutes in the oven.
//!         minutes: Option<u64>, unset("until it is done");
//!     }
//! }
//! use octant_train::options::OptionTable;
//! let cake = Cake::from_table("heat = 200".parse().unwrap()).unwrap();
//! assert_eq!((cake.heat, cake.minutes), (200.0, None));
//! let error = Cake::from_table("heat = 900".parse().unwrap()).unwrap_err().to_string();
//! assert_eq!(error, "`heat` must lie within 50 and 300, not 900");
//! ```

mod settings;
mod spec;

pub use settings::{OptionValue, number};
pub use spec::{Flag, OptionSpec};
pub use toml;

use toml::{Table, Value};

/// A value that cannot be used, in one sentence that names its key.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum OptionError {
    /// The value of a key.
    #[error("`{key}` {problem}")]
    Value {
        /// The key, with those that it lies in: `phases.0.lr`.
        key: String,
        /// The rest of the sentence.
        problem: String,
    },
    /// A key that must be there.
    #[error("`{key}` is missing: {about}")]
    Missing {
        /// The key.
        key: String,
        /// What it is for.
        about: String,
    },
    /// An unknown key.
    #[error("there is no key \"{key}\"; {known}")]
    Unknown {
        /// The key.
        key: String,
        /// Which one was meant, or which there are.
        known: String,
    },
}

impl OptionError {
    /// A value that cannot be used.
    pub fn value(key: impl Into<String>, problem: impl Into<String>) -> OptionError {
        OptionError::Value { key: key.into(), problem: problem.into() }
    }
}

/// Keys of one table, as a struct.
pub trait OptionTable: Sized {
    /// All keys, those of the structs inside too.
    fn specs() -> Vec<OptionSpec>;

    /// Takes the keys out of a table at `key_path`. Keys that are left belong to other structs.
    fn take(table: &mut Table, key_path: &str) -> Result<Self, OptionError>;

    /// Puts all keys that have a value into a table.
    fn put(&self, table: &mut Table);

    /// Reads a whole table; keys that are left over are a mistake.
    fn from_table(mut table: Table) -> Result<Self, OptionError> {
        let options = Self::take(&mut table, "")?;
        nothing_left::<Self>(&table, "")?;
        Ok(options)
    }

    /// All keys that have a value, as a table.
    fn to_table(&self) -> Table {
        let mut table = Table::new();
        self.put(&mut table);
        table
    }
}

/// The options that an empty table gives. Only for structs whose keys all have a default.
pub fn defaults<T: OptionTable>() -> T {
    T::take(&mut Table::new(), "").expect("every key has a default")
}

/// Refuses unknown keys, with the one that was probably meant.
pub fn nothing_left<T: OptionTable>(table: &Table, key_path: &str) -> Result<(), OptionError> {
    let Some(key) = table.keys().next() else { return Ok(()) };
    let keys: Vec<&str> = T::specs().iter().map(|spec| spec.key).collect();
    let known = match nearest(key, keys.iter().copied()) {
        Some(near) => format!("did you mean \"{near}\"?"),
        None => format!("there are {}", keys.join(", ")),
    };
    Err(OptionError::Unknown { key: join(key_path, key), known })
}

/// One key of a table, its default where the table lacks it.
pub fn take<T: OptionValue>(
    table: &mut Table,
    key_path: &str,
    spec: OptionSpec,
    default: Option<fn() -> T>,
) -> Result<T, OptionError> {
    let old = spec.old.and_then(|old| table.remove(old));
    let key = join(key_path, spec.key);
    match table.remove(spec.key).or(old) {
        Some(value) => {
            let read = T::read(&value, &key)?;
            spec.check(&value, &key)?;
            Ok(read)
        }
        None => {
            let missing = || OptionError::Missing { key, about: spec.doc.clone() };
            default.map(|default| default()).or_else(T::absent).ok_or_else(missing)
        }
    }
}

/// A key with its path.
pub fn join(key_path: &str, key: &str) -> String {
    if key_path.is_empty() { key.to_string() } else { format!("{key_path}.{key}") }
}

/// The name that is at most two edits away (one in a short word), or that contains the wanted one; none otherwise: a wrong
/// suggestion is worse than none.
pub fn nearest<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let names: Vec<&str> = names.collect();
    let most = (wanted.chars().count() / 2).min(2);
    let ranked = names.iter().map(|name| (strsim::osa_distance(wanted, name), *name)).min();
    let alike = ranked.filter(|(distance, _)| *distance <= most).map(|(_, name)| name);
    alike.or_else(|| names.into_iter().find(|name| wanted.len() > 2 && name.contains(wanted)))
}

/// Text from a command line as a value: TOML where it is, otherwise the text itself.
pub fn parsed(text: &str) -> Value {
    let value = format!("v = {text}").parse::<Table>().ok().and_then(|mut table| table.remove("v"));
    value.unwrap_or_else(|| Value::String(text.into()))
}

/// Declares a struct of options; see [`options`](mod@crate::options). A key is written `name: Type = default, attribute(…);`,
/// where the attributes are methods of [`OptionSpec`]. Structs whose keys lie in the same table come first, in brackets.
#[macro_export]
macro_rules! options {
    (@default $type:ty) => { None::<fn() -> $type> };
    (@default $type:ty = $default:expr) => { Some((|| $default) as fn() -> $type) };
    (
        $(#[$meta:meta])*
        pub struct $name:ident $([ $( $(#[doc = $part_doc:literal])* $part:ident : $part_type:ty ),* $(,)? ])? {
            $(
                $(#[doc = $doc:literal])*
                $key:ident : $type:ty $(= $default:expr)? $(, $attribute:ident ( $($argument:tt)* ))* ;
            )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $name {
            $($( $(#[doc = $part_doc])* pub $part: $part_type, )*)?
            $( $(#[doc = $doc])* pub $key: $type, )*
        }

        impl $name {
            fn own_specs() -> Vec<$crate::options::OptionSpec> {
                vec![$(
                    $crate::options::OptionSpec::new::<$type>(
                        stringify!($key),
                        &[$($doc),*],
                        $crate::options!(@default $type $(= $default)?),
                    )$(.$attribute($($argument)*))*
                ),*]
            }
        }

        impl $crate::options::OptionTable for $name {
            fn specs() -> Vec<$crate::options::OptionSpec> {
                #[allow(unused_mut, reason = "not every struct contains others")]
                let mut specs = $name::own_specs();
                $($( specs.extend(<$part_type as $crate::options::OptionTable>::specs()); )*)?
                specs
            }

            fn take(
                table: &mut $crate::options::toml::Table,
                key_path: &str,
            ) -> Result<$name, $crate::options::OptionError> {
                let mut specs = $name::own_specs().into_iter();
                Ok($name {
                    $( $key: $crate::options::take::<$type>(
                        table,
                        key_path,
                        specs.next().expect("a specification per key"),
                        $crate::options!(@default $type $(= $default)?),
                    )?, )*
                    $($( $part: <$part_type as $crate::options::OptionTable>::take(table, key_path)?, )*)?
                })
            }

            fn put(&self, table: &mut $crate::options::toml::Table) {
                $( if let Some(value) = $crate::options::OptionValue::write(&self.$key) {
                    table.insert(stringify!($key).into(), value);
                } )*
                $($( $crate::options::OptionTable::put(&self.$part, table); )*)?
            }
        }

        impl $crate::options::OptionValue for $name {
            fn expected() -> String {
                "a table".into()
            }

            fn read(value: &$crate::options::toml::Value, key_path: &str) -> Result<$name, $crate::options::OptionError> {
                let wrong = || $crate::options::OptionError::value(key_path, format!("must be a table, not {value}"));
                let mut table = value.as_table().ok_or_else(wrong)?.clone();
                let options = <$name as $crate::options::OptionTable>::take(&mut table, key_path)?;
                $crate::options::nothing_left::<$name>(&table, key_path)?;
                Ok(options)
            }

            fn write(&self) -> Option<$crate::options::toml::Value> {
                Some($crate::options::toml::Value::Table($crate::options::OptionTable::to_table(self)))
            }

            fn inner() -> Vec<$crate::options::OptionSpec> {
                <$name as $crate::options::OptionTable>::specs()
            }
        }
    };
}

/// Declares an enum whose variants have names in recipes, or gives names to those of an enum that exists.
#[macro_export]
macro_rules! choice {
    (
        $(#[$meta:meta])*
        pub enum $name:ident { $( $(#[doc = $doc:literal])* $variant:ident = $text:literal ),* $(,)? }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name { $( $(#[doc = $doc])* $variant, )* }

        $crate::choice!(impl $name { $($variant = $text),* });

        impl $name {
            /// All of them.
            pub const ALL: &'static [$name] = &[$($name::$variant),*];
            /// Their names in recipes.
            pub const NAMES: &'static [&'static str] = &[$($text),*];

            /// Its name in recipes.
            pub fn name(self) -> &'static str {
                match self { $( $name::$variant => $text, )* }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter) -> std::fmt::Result {
                formatter.write_str(self.name())
            }
        }
    };
    (impl $type:ty { $( $variant:ident = $text:literal ),* $(,)? }) => {
        impl $crate::options::OptionValue for $type {
            fn expected() -> String {
                [$(concat!("`", $text, "`")),*].join(", ")
            }

            fn read(value: &$crate::options::toml::Value, key_path: &str) -> Result<$type, $crate::options::OptionError> {
                match value.as_str() {
                    $( Some($text) => Ok(<$type>::$variant), )*
                    _ => Err($crate::options::not_a_choice(value, key_path, &[$($text),*])),
                }
            }

            fn write(&self) -> Option<$crate::options::toml::Value> {
                let name = match self { $( <$type>::$variant => $text, )* };
                Some($crate::options::toml::Value::String(name.into()))
            }

            fn choices() -> Vec<&'static str> {
                vec![$($text),*]
            }

            fn from_text(text: &str) -> $crate::options::toml::Value {
                $crate::options::toml::Value::String(text.into())
            }
        }
    };
}

/// The error about a word that is none of those there are.
pub fn not_a_choice(value: &Value, key_path: &str, known: &[&str]) -> OptionError {
    let near = value.as_str().and_then(|word| nearest(word, known.iter().copied()));
    let hint = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
    OptionError::value(key_path, format!("must be {}, not {value}{hint}", one_of(known)))
}

/// `a, b or c`.
pub fn one_of(known: &[&str]) -> String {
    match known.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => known.join(", "),
    }
}
