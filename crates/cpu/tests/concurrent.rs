//! Programs that run at the same time: results are those of one after another, and donated buffers wait for their readers.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use octant_cpu::CpuBackend;
use octant_graph::{DType, HostTensor, Shape, Tensor, Trace};
use octant_runtime::{Backend, Buffer, CompileOptions, Executable, Mesh, Program, Sharding};

const LENGTH: usize = 1 << 16;

fn compiled(backend: &CpuBackend, donated: bool, of: impl Fn(&Tensor) -> Tensor) -> Box<dyn Executable> {
    let trace = Trace::new();
    let x = trace.input("x", Shape::new(DType::F32, [LENGTH]));
    let graph = trace.finish(&[of(&x)]).unwrap();
    let donated = if donated { vec![(0, 0)] } else { Vec::new() };
    let program = Program { donated, ..Program::new("test", graph) };
    backend.compile(&program, &CompileOptions::default()).unwrap()
}

fn filled(backend: &CpuBackend, value: f32) -> Buffer {
    let tensor = HostTensor::new([LENGTH], &vec![value; LENGTH]).unwrap();
    backend.upload(&tensor, &Mesh::single(), &Sharding::REPLICATED).unwrap()
}

fn first(buffer: &Buffer) -> f32 {
    let tensor = buffer.to_host().unwrap();
    let values: &[f32] = tensor.elements().unwrap();
    assert!(values.iter().all(|value| *value == values[0]), "all elements are computed alike");
    values[0]
}

#[test]
fn a_donated_buffer_is_taken_only_after_the_runs_that_read_it() {
    let backend = CpuBackend::with_threads(4).unwrap();
    let read = compiled(&backend, false, |x| x.exp().log() * 2.0);
    let take = compiled(&backend, true, |x| x + 1.0);
    let mut x = filled(&backend, 1.0);
    let mut seen = Vec::new();
    for step in 0..40 {
        // Readers of a buffer that may not be computed yet, then a run that takes it away.
        let readers: Vec<Buffer> = (0..3).flat_map(|_| read.execute(&[x.clone()]).unwrap()).collect();
        seen.push((1.0 + step as f32, readers));
        x = take.execute(&[x]).unwrap().remove(0);
    }
    for (value, readers) in seen {
        readers.iter().for_each(|reader| assert!((first(reader) - 2.0 * value).abs() < 1e-3, "{value}"));
    }
    assert_eq!(first(&x), 41.0);
}

#[test]
fn runs_of_one_program_with_other_inputs_do_not_see_each_other() {
    let backend = CpuBackend::with_threads(4).unwrap();
    let program = compiled(&backend, false, |x| (x * 3.0).exp().log());
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (backend, program) = (&backend, &program);
            scope.spawn(move || {
                for round in 0..10 {
                    let value = 0.5 + thread as f32 + round as f32 / 16.0;
                    let result = program.execute(&[filled(backend, value)]).unwrap().remove(0);
                    assert!((first(&result) - 3.0 * value).abs() < 1e-3);
                }
            });
        }
    });
    assert!(backend.arenas().len() <= backend.concurrency(), "{:?}", backend.arenas());
}
