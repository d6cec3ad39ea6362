//! The module: `@main`, the private functions, and the table of layer paths.

use crate::function::{Function, Line, Named};
use crate::{LowerError, Options, types};
use octant_graph::{Graph, Shape};
use octant_runtime::{Program, Sharding};
use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::sync::Arc;

/// What all functions of one module share.
pub struct Module {
    pub options: Options,
    functions: Vec<(String, Vec<Line>)>,
    /// From the text of a function without name and layer paths to its name.
    known: HashMap<String, String>,
    names: HashSet<String>,
}

impl Module {
    /// The name of a private function over arguments of these shapes; an equal one is used again.
    pub fn function(
        &mut self,
        hint: &str,
        inputs: &[Shape],
        write: impl FnOnce(&mut Function, &[Named]) -> Vec<Named>,
    ) -> String {
        let mut function = Function::new(self);
        let arguments: Vec<Named> = argument_names(inputs);
        let results = write(&mut function, &arguments);
        let shapes: Vec<&Shape> = results.iter().map(|result| &result.shape).collect();
        function.set_path(&"".into());
        function.line(format!("return{}", returned(&results)));
        let lines = function.lines;
        let list = types::join(arguments.iter().map(|argument| format!("{argument}: {}", argument.ty())));
        let signature = format!("({list}) -> {}", types::tuple(&shapes));
        let text = lines.iter().fold(signature.clone(), |text, line| text + "\n" + &line.text);
        if let Some(name) = self.known.get(&text) {
            return name.clone();
        }
        let name = self.unused_name(hint);
        self.known.insert(text, name.clone());
        self.functions.push((format!("func.func private @{name}{signature}"), lines));
        name
    }

    /// A symbol made from a layer path.
    fn unused_name(&mut self, hint: &str) -> String {
        let base = symbol(hint, "body");
        let numbered = (1..).map(|i| format!("{base}_{i}"));
        let name = std::iter::once(base.clone()).chain(numbered).find(|name| !self.names.contains(name));
        let name = name.expect("there are more numbers than functions");
        self.names.insert(name.clone());
        name
    }
}

fn argument_names(shapes: &[Shape]) -> Vec<Named> {
    let named = |(i, shape): (usize, &Shape)| Named { name: format!("%arg{i}"), shape: shape.clone() };
    shapes.iter().enumerate().map(named).collect()
}

/// ` %0, %1 : tensor<f32>, tensor<i32>`, or nothing.
fn returned(values: &[Named]) -> String {
    match values.is_empty() {
        true => String::new(),
        false => format!(" {} : {}", types::join(values), types::join(values.iter().map(Named::ty))),
    }
}

/// Letters, digits, points and underscores of a text, beginning with a letter.
fn symbol(text: &str, otherwise: &str) -> String {
    let kept: String = text.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '_' }).collect();
    match kept.chars().next() {
        None => otherwise.to_string(),
        Some(first) if first.is_ascii_alphabetic() => kept,
        Some(_) => format!("_{kept}"),
    }
}

pub fn lower_program(program: &Program, options: &Options) -> Result<String, LowerError> {
    check(program)?;
    let names = HashSet::from(["main".to_string()]);
    let kernels = if program.mesh.devices() == 1 { options.kernels } else { &[] };
    let options = &Options { kernels, ..*options };
    let mut module = Module { options: *options, functions: Vec::new(), known: HashMap::new(), names };
    let graph = &program.graph;
    let mut main = Function::new(&mut module);
    let results = main.graph(graph, &argument_names(&graph.input_shapes()));
    main.line(format!("return{}", returned(&results)));
    let main = (main_signature(program), main.lines);
    let functions: Vec<(String, Vec<Line>)> = std::iter::once(main).chain(module.functions).collect();
    Ok(print(program, &functions, options))
}

fn check(program: &Program) -> Result<(), LowerError> {
    let graph = &program.graph;
    let count = |what, expected: usize, given: usize| match expected == given {
        true => Ok(()),
        false => Err(LowerError::Count { what, expected, given }),
    };
    count("inputs", graph.inputs().len(), program.inputs.len())?;
    count("outputs", graph.outputs().len(), program.outputs.len())?;
    let (inputs, outputs) = (graph.input_shapes(), graph.output_shapes());
    for (what, shapes, shardings) in [("input", &inputs, &program.inputs), ("output", &outputs, &program.outputs)] {
        for (i, (shape, sharding)) in shapes.iter().zip(shardings).enumerate() {
            check_sharding(|| format!("{what} {i}"), shape, sharding, program.mesh.devices())?;
        }
    }
    check_donation(program, &inputs, &outputs)
}

fn check_sharding(
    what: impl Fn() -> String,
    shape: &Shape,
    sharding: &Sharding,
    devices: usize,
) -> Result<(), LowerError> {
    match *sharding {
        Sharding::Split { axis } if shape.dims().get(axis).is_none_or(|length| length % devices != 0) => {
            Err(LowerError::Sharding { what: what(), shape: shape.to_string(), axis, devices })
        }
        _ => Ok(()),
    }
}

fn check_donation(program: &Program, inputs: &[Shape], outputs: &[Shape]) -> Result<(), LowerError> {
    let mut taken = HashSet::new();
    for &(input, output) in &program.donated {
        let described = |shapes: &[Shape], i: usize| shapes.get(i).map_or("not there".to_string(), Shape::to_string);
        let reason = match (inputs.get(input), outputs.get(output)) {
            (None, _) | (_, None) => Some("there is no such input or output"),
            (Some(from), Some(to)) if from != to => Some("their shapes differ"),
            _ if program.inputs[input] != program.outputs[output] => {
                Some("they are spread over the devices differently")
            }
            _ if !taken.insert(("input", input)) || !taken.insert(("output", output)) => {
                Some("one of them is already taken")
            }
            _ => None,
        };
        if let Some(reason) = reason {
            let (input_shape, output_shape) = (described(inputs, input), described(outputs, output));
            return Err(LowerError::Donation { input, input_shape, output, output_shape, reason });
        }
    }
    Ok(())
}

fn main_signature(program: &Program) -> String {
    let graph = &program.graph;
    let argument = |i: usize, shape: &Shape| {
        let donated = program.donated.iter().find(|(input, _)| *input == i);
        let donated = donated.map(|(_, output)| format!("tf.aliasing_output = {output} : i32"));
        let attributes = [donated, sharding(program, shape, &program.inputs[i])];
        format!("%arg{i}: {}{}", types::tensor(shape), braces(&attributes))
    };
    let result = |i: usize, shape: &Shape| {
        format!("{}{}", types::tensor(shape), braces(&[sharding(program, shape, &program.outputs[i])]))
    };
    let arguments = types::join(graph.input_shapes().iter().enumerate().map(|(i, shape)| argument(i, shape)));
    let results = types::join(graph.output_shapes().iter().enumerate().map(|(i, shape)| result(i, shape)));
    format!("func.func public @main({arguments}) -> ({results})")
}

/// ` {a, b}`, or nothing.
fn braces(attributes: &[Option<String>]) -> String {
    let given: Vec<&String> = attributes.iter().flatten().collect();
    if given.is_empty() { String::new() } else { format!(" {{{}}}", types::join(given)) }
}

/// How a tensor is spread, in Shardy's words; nothing on one device.
fn sharding(program: &Program, shape: &Shape, sharding: &Sharding) -> Option<String> {
    let along = |axis: usize| match *sharding {
        Sharding::Split { axis: split } if split == axis => "{\"batch\"}",
        _ => "{}",
    };
    let axes = types::list((0..shape.rank()).map(along));
    (program.mesh.devices() > 1).then(|| format!("sdy.sharding = #sdy.sharding<@mesh, {axes}>"))
}

fn print(program: &Program, functions: &[(String, Vec<Line>)], options: &Options) -> String {
    let devices = program.mesh.devices();
    let mut locations = Locations::default();
    let mut text = format!(
        "module @{} attributes {{mhlo.num_partitions = {devices} : i32, mhlo.num_replicas = 1 : i32}} {{\n",
        symbol(&program.name, "program")
    );
    let mut put = |line: std::fmt::Arguments| text.write_fmt(line).expect("writing to a string does not fail");
    if devices > 1 {
        put(format_args!("  sdy.mesh @mesh = <[\"batch\"={devices}]>\n"));
    }
    for (signature, lines) in functions {
        put(format_args!("  {signature} {{\n"));
        for line in lines {
            let location = line.path.as_ref().filter(|path| !path.is_empty() && !options.without_locations);
            match location {
                Some(path) => put(format_args!("{} loc(#loc{})\n", line.text, locations.number(path))),
                None => put(format_args!("{}\n", line.text)),
            }
        }
        put(format_args!("  }}\n"));
    }
    put(format_args!("}}\n"));
    for (i, path) in locations.paths.iter().enumerate() {
        put(format_args!("#loc{i} = loc({})\n", quoted(path)));
    }
    text
}

/// Layer paths in order of their first appearance.
#[derive(Default)]
struct Locations {
    paths: Vec<Arc<str>>,
    numbers: HashMap<Arc<str>, usize>,
}

impl Locations {
    fn number(&mut self, path: &Arc<str>) -> usize {
        *self.numbers.entry(path.clone()).or_insert_with(|| {
            self.paths.push(path.clone());
            self.paths.len() - 1
        })
    }
}

/// A string literal of MLIR.
pub fn quoted(text: &str) -> String {
    let escape = |byte: u8| match byte {
        b' '..=b'~' if byte != b'"' && byte != b'\\' => (byte as char).to_string(),
        _ => format!("\\{byte:02X}"),
    };
    format!("\"{}\"", text.bytes().map(escape).collect::<String>())
}

/// A call of a body, which becomes a private function.
pub fn lower_call(
    function: &mut Function,
    path: &str,
    body: &Graph,
    operands: &[Named],
    shapes: &[&Shape],
) -> Vec<Named> {
    let name = function.module.function(path, &body.input_shapes(), |inner, inputs| inner.graph(body, inputs));
    call(function, &name, operands, shapes)
}

/// A call of a private function by its name.
pub fn call(function: &mut Function, name: &str, operands: &[Named], shapes: &[&Shape]) -> Vec<Named> {
    let inputs: Vec<&Shape> = operands.iter().map(|operand| &operand.shape).collect();
    let (inputs, results) = (types::tuple(&inputs), types::results(shapes));
    let operands = types::join(operands);
    function.several(shapes, |function, head| {
        function.line(format!("{head} = call @{name}({operands}) : {inputs} -> {results}"))
    })
}
