//! Errors of the library as exceptions of Python, with the same sentences.

use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use std::fmt::Display;

pyo3::create_exception!(
    octant,
    OctantError,
    PyException,
    "What could not be done, in a sentence that says what to do."
);

/// A failure as Python's exception.
pub(crate) fn refused(error: impl Display) -> PyErr {
    OctantError::new_err(in_python(&error.to_string()))
}

/// A sentence with names of arguments instead of flags: `--batch-size` becomes `batch_size`. Commands in backquotes stay.
pub(crate) fn in_python(sentence: &str) -> String {
    let mut text = String::with_capacity(sentence.len());
    for (number, part) in sentence.split('`').enumerate() {
        if number > 0 {
            text.push('`');
        }
        match number % 2 {
            0 => text += &without_dashes(part),
            _ => text += part,
        }
    }
    text
}

fn without_dashes(part: &str) -> String {
    let is_flag =
        |word: &str| word.starts_with("--") && word[2..].starts_with(|letter: char| letter.is_ascii_lowercase());
    let word = |word: &str| match word.find("--").filter(|&at| is_flag(&word[at..])) {
        Some(at) => format!("{}{}", &word[..at], word[at + 2..].replace('-', "_")),
        None => word.to_string(),
    };
    part.split_inclusive(' ').map(word).collect()
}
