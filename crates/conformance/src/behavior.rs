//! What a backend promises beyond right results: donation, repeated use, errors.

use crate::case::Problem;
use crate::{Tolerance, values};
use octant_graph::{DType, Graph, HostTensor, Shape, Tensor, Trace};
use octant_runtime::{Backend, Buffer, CompileOptions, Executable, Mesh, Program, RuntimeError, Sharding};

type Check = fn(&dyn Backend) -> Result<(), Problem>;

/// Every promise: its name and what verifies it.
pub const CHECKS: &[(&str, Check)] = &[
    ("has-a-device", has_a_device),
    ("inputs-survive", inputs_survive),
    ("outputs-feed-inputs", outputs_feed_inputs),
    ("donated-inputs-are-gone", donated_inputs_are_gone),
    ("donated-loop", donated_loop),
    ("donated-and-read-elsewhere", donated_and_read_elsewhere),
    ("one-buffer-twice", one_buffer_twice),
    ("many-runs-in-flight", many_runs_in_flight),
    ("wrong-shape", wrong_shape),
    ("wrong-type", wrong_type),
    ("wrong-count", wrong_count),
    ("deterministic", deterministic),
];

fn wrong(sentence: impl Into<String>) -> Problem {
    Problem::Wrong(sentence.into())
}

fn ensure(holds: bool, otherwise: &str) -> Result<(), Problem> {
    if holds { Ok(()) } else { Err(wrong(otherwise)) }
}

fn equal(buffer: &Buffer, expected: &[f64]) -> Result<(), Problem> {
    let given = buffer.to_host()?;
    let expected = HostTensor::from_f64s(given.shape().clone(), expected).map_err(|error| wrong(error.to_string()))?;
    Tolerance::ELEMENTWISE.check(&given, &expected).map_err(wrong)
}

fn upload(backend: &dyn Backend, values: &[f64]) -> Result<Buffer, RuntimeError> {
    backend.upload(&values::tensor(DType::F32, &[values.len()], values), &Mesh::single(), &Sharding::REPLICATED)
}

/// A graph over vectors of four numbers.
fn over_vectors(inputs: usize, build: impl FnOnce(&[Tensor]) -> Vec<Tensor>) -> Graph {
    let trace = Trace::new();
    let inputs: Vec<Tensor> = (0..inputs).map(|i| trace.input(&format!("x{i}"), Shape::new(DType::F32, [4]))).collect();
    let outputs = build(&inputs);
    trace.finish(&outputs).expect("the suite's graphs are well typed")
}

fn compile(
    backend: &dyn Backend,
    graph: Graph,
    donated: &[(usize, usize)],
) -> Result<Box<dyn Executable>, RuntimeError> {
    let program = Program { donated: donated.to_vec(), ..Program::new("behavior", graph) };
    backend.compile(&program, &CompileOptions::default())
}

fn has_a_device(backend: &dyn Backend) -> Result<(), Problem> {
    ensure(!backend.name().is_empty(), "the backend has no name")?;
    ensure(!backend.devices().is_empty(), "the backend has no device")
}

fn inputs_survive(backend: &dyn Backend) -> Result<(), Problem> {
    let program = compile(backend, over_vectors(2, |x| vec![&x[0] + &x[1], x[0].clone()]), &[])?;
    let (x, y) = (upload(backend, &[1.0, 2.0, 3.0, 4.0])?, upload(backend, &[10.0, 20.0, 30.0, 40.0])?);
    for _ in 0..3 {
        let outputs = program.execute(&[x.clone(), y.clone()])?;
        equal(&outputs[0], &[11.0, 22.0, 33.0, 44.0])?;
        equal(&outputs[1], &[1.0, 2.0, 3.0, 4.0])?;
    }
    equal(&x, &[1.0, 2.0, 3.0, 4.0])?;
    equal(&y, &[10.0, 20.0, 30.0, 40.0])
}

fn outputs_feed_inputs(backend: &dyn Backend) -> Result<(), Problem> {
    let program = compile(backend, over_vectors(1, |x| vec![&x[0] * 2.0, x[0].clone()]), &[])?;
    let first = program.execute(&[upload(backend, &[1.0, 2.0, 3.0, 4.0])?])?;
    let second = program.execute(&first[..1])?;
    let third = program.execute(&second[1..])?;
    equal(&third[0], &[4.0, 8.0, 12.0, 16.0])?;
    equal(&second[0], &[4.0, 8.0, 12.0, 16.0])?;
    equal(&first[0], &[2.0, 4.0, 6.0, 8.0])
}

fn donated_inputs_are_gone(backend: &dyn Backend) -> Result<(), Problem> {
    let program = compile(backend, over_vectors(2, |x| vec![&x[0] + &x[1]]), &[(0, 0)])?;
    let (x, y) = (upload(backend, &[1.0; 4])?, upload(backend, &[2.0; 4])?);
    let outputs = program.execute(&[x.clone(), y.clone()])?;
    equal(&outputs[0], &[3.0; 4])?;
    ensure(matches!(x.to_host(), Err(RuntimeError::Donated)), "a donated buffer can still be read")?;
    let again = program.execute(&[x, y.clone()]);
    ensure(matches!(again, Err(RuntimeError::Donated)), "a donated buffer was accepted as an input")?;
    equal(&y, &[2.0; 4])
}

fn donated_loop(backend: &dyn Backend) -> Result<(), Problem> {
    // The two donated inputs cross over: output 0 lies in input 1's memory and is made from input 0.
    let graph = over_vectors(2, |x| vec![&x[0] + 1.0, &x[1] * 2.0 + &x[0]]);
    let program = compile(backend, graph, &[(1, 0), (0, 1)])?;
    let mut state = vec![upload(backend, &[0.0, 1.0, 2.0, 3.0])?, upload(backend, &[1.0; 4])?];
    let mut expected = ([0.0, 1.0, 2.0, 3.0], [1.0f64; 4]);
    for _ in 0..6 {
        state = program.execute(&state)?;
        expected = (expected.0.map(|x| x + 1.0), std::array::from_fn(|i| expected.1[i] * 2.0 + expected.0[i]));
    }
    equal(&state[0], &expected.0)?;
    equal(&state[1], &expected.1)
}

/// The donated input is read by other outputs as well, which must see its old elements.
fn donated_and_read_elsewhere(backend: &dyn Backend) -> Result<(), Problem> {
    let graph = over_vectors(1, |x| vec![x[0].reverse(&[0]), &x[0] * 10.0, x[0].sum_all(), x[0].clone()]);
    let program = compile(backend, graph, &[(0, 0)])?;
    let outputs = program.execute(&[upload(backend, &[1.0, 2.0, 3.0, 4.0])?])?;
    equal(&outputs[0], &[4.0, 3.0, 2.0, 1.0])?;
    equal(&outputs[1], &[10.0, 20.0, 30.0, 40.0])?;
    equal(&outputs[2], &[10.0])?;
    equal(&outputs[3], &[1.0, 2.0, 3.0, 4.0])
}

fn one_buffer_twice(backend: &dyn Backend) -> Result<(), Problem> {
    let program = compile(backend, over_vectors(2, |x| vec![&x[0] * &x[1]]), &[])?;
    let x = upload(backend, &[1.0, 2.0, 3.0, 4.0])?;
    equal(&program.execute(&[x.clone(), x])?[0], &[1.0, 4.0, 9.0, 16.0])
}

fn many_runs_in_flight(backend: &dyn Backend) -> Result<(), Problem> {
    let program = compile(backend, over_vectors(1, |x| vec![&x[0] + 1.0]), &[])?;
    let x = upload(backend, &[0.0; 4])?;
    // There is no wait in between, and the buffers in the middle are dropped while later runs may still need them.
    let mut last = x.clone();
    for _ in 0..50 {
        last = program.execute(&[last])?.remove(0);
    }
    last.wait()?;
    equal(&last, &[50.0; 4])?;
    equal(&x, &[0.0; 4])
}

fn refusal(backend: &dyn Backend, inputs: &[HostTensor]) -> Result<RuntimeError, Problem> {
    let program = compile(backend, over_vectors(2, |x| vec![&x[0] + &x[1]]), &[])?;
    let upload = |input: &HostTensor| backend.upload(input, &Mesh::single(), &Sharding::REPLICATED);
    let inputs = inputs.iter().map(upload).collect::<Result<Vec<_>, _>>()?;
    program.execute(&inputs).err().ok_or_else(|| wrong("the program accepted inputs it was not compiled for"))
}

fn wrong_shape(backend: &dyn Backend) -> Result<(), Problem> {
    let inputs = [values::ordinary(DType::F32, &[4]), values::ordinary(DType::F32, &[5])];
    match refusal(backend, &inputs)? {
        RuntimeError::Argument { index: 1, name, .. } if name == "x1" => Ok(()),
        other => Err(wrong(format!("a wrong shape was reported as: {other}"))),
    }
}

fn wrong_type(backend: &dyn Backend) -> Result<(), Problem> {
    let inputs = [values::ordinary(DType::I32, &[4]), values::ordinary(DType::F32, &[4])];
    match refusal(backend, &inputs)? {
        RuntimeError::Argument { index: 0, expected, given, .. } => {
            ensure(expected.dtype() == DType::F32 && given.dtype() == DType::I32, "the types in the message are wrong")
        }
        other => Err(wrong(format!("a wrong type was reported as: {other}"))),
    }
}

fn wrong_count(backend: &dyn Backend) -> Result<(), Problem> {
    match refusal(backend, &[values::ordinary(DType::F32, &[4])])? {
        RuntimeError::ArgumentCount { expected: 2, given: 1 } => Ok(()),
        other => Err(wrong(format!("a missing input was reported as: {other}"))),
    }
}

/// Two runs agree to the last bit.
fn deterministic(backend: &dyn Backend) -> Result<(), Problem> {
    let trace = Trace::new();
    let x = trace.input("x", Shape::new(DType::F32, [64, 300]));
    let outputs = [x.matmul(&x.transpose(&[1, 0])), x.sum(&[0]), x.sum_all()];
    let graph = trace.finish(&outputs).expect("the suite's graphs are well typed");
    let program = backend.compile(&Program::new("deterministic", graph), &CompileOptions::default())?;
    let x = backend.upload(&values::ordinary(DType::F32, &[64, 300]), &Mesh::single(), &Sharding::REPLICATED)?;
    let run = || program.execute(std::slice::from_ref(&x))?.iter().map(Buffer::to_host).collect::<Result<Vec<_>, _>>();
    ensure(run()? == run()?, "two deterministic runs differ")
}
