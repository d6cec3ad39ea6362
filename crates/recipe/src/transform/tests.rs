//! The steps of transforms, as recipes read them, beside their documentation.

use super::Transforms;
use octant_data::TransformStep;
use octant_data::transforms::STEPS;
use octant_train::options::OptionValue;
use toml::{Table, Value};

fn read(text: &str) -> Result<TransformStep, String> {
    let table: Table = format!("v = {{ {text} }}").parse().unwrap();
    table["v"].clone().try_into().map_err(|error: toml::de::Error| error.message().to_string())
}

/// Names in backquotes after the first one: what serde would have understood instead.
fn known(message: &str) -> Vec<String> {
    message.split('`').skip(3).step_by(2).map(str::to_string).collect()
}

#[test]
fn every_step_is_documented_with_all_its_arguments() {
    let ops = known(&read("op = \"zzz\"").unwrap_err());
    assert_eq!(ops.len(), STEPS.len());
    for step in &STEPS {
        let table: Table = format!("v = {{ {} }}", step.example).parse().unwrap();
        let Value::Table(arguments) = &table["v"] else { panic!("{}", step.example) };
        let op = arguments["op"].as_str().unwrap();
        assert!(ops.contains(&op.to_string()), "{op}");
        read(step.example).unwrap_or_else(|error| panic!("{}: {error}", step.example));
        // A step without arguments says nothing about others.
        let wrong = read(&format!("{}, zzz = 1", step.example)).err().unwrap_or_default();
        let mut fields = known(&wrong);
        let mut written: Vec<String> = arguments.keys().filter(|key| *key != "op").cloned().collect();
        fields.sort();
        written.sort();
        assert_eq!(written, fields, "the arguments of {op}: {wrong}");
    }
}

/// The step with one of its numbers replaced, for each number that it has, down into lists and tables.
fn with_each_number(value: &Value, other: &Value) -> Vec<Value> {
    match value {
        Value::Integer(_) | Value::Float(_) => vec![other.clone()],
        Value::Array(items) => (0..items.len())
            .flat_map(|at| with_each_number(&items[at], other).into_iter().map(move |changed| (at, changed)))
            .map(|(at, changed)| {
                let mut items = items.clone();
                items[at] = changed;
                Value::Array(items)
            })
            .collect(),
        Value::Table(table) => table
            .iter()
            .flat_map(|(key, value)| {
                with_each_number(value, other).into_iter().map(move |changed| {
                    let mut table = table.clone();
                    table.insert(key.clone(), changed);
                    Value::Table(table)
                })
            })
            .collect(),
        Value::String(_) | Value::Boolean(_) | Value::Datetime(_) => Vec::new(),
    }
}

/// Every list of two numbers the other way around.
fn reversed(value: &Value) -> Value {
    match value {
        Value::Array(items) if items.len() == 2 => Value::Array(items.iter().rev().cloned().collect()),
        Value::Table(table) => Value::Table(table.iter().map(|(k, v)| (k.clone(), reversed(v))).collect()),
        other => other.clone(),
    }
}

#[test]
fn numbers_out_of_range_were_taken_by_every_step() {
    let refused = |value: &Value| {
        let read = Transforms::read(&Value::Array(vec![value.clone()]), "transform");
        read.err().map(|error| error.to_string())
    };
    let wrong = [Value::Float(f64::NAN), Value::Float(f64::INFINITY), Value::Float(-0.5), Value::Integer(-1)];
    let large = [Value::Integer(1_000_000), Value::Float(1e9)];
    for step in &STEPS {
        let table: Table = format!("v = {{ {} }}", step.example).parse().unwrap();
        let example = &table["v"];
        assert_eq!(refused(example), None, "{}", step.example);
        for number in wrong.iter().chain(&large) {
            for changed in with_each_number(example, number) {
                let sentence = refused(&changed).unwrap_or_else(|| panic!("{changed} is taken"));
                assert!(sentence.starts_with("`transform.0`"), "{sentence}");
            }
        }
        let swapped = reversed(example);
        let is_span = |key: &str| example.get(key).and_then(Value::as_array).is_some_and(|list| list.len() == 2);
        let has_spans = ["scale", "ratio", "sigma"].iter().any(|key| is_span(key));
        assert_eq!(refused(&swapped).is_some(), has_spans, "{swapped}");
    }
    let flip = Value::try_from(TransformStep::FlipHorizontally { p: 7.0 }).unwrap();
    assert!(refused(&flip).unwrap().contains("whose `p` must lie within 0 and 1, not 7"), "{:?}", refused(&flip));
}
