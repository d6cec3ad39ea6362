//! The backend against the [fake](crate::fake) plugin, whose programs add one.

use super::lowering::Lowered;
use super::small_buffers::GAPS;
use super::*;
use crate::compile_options::{CompilerFlag, XlaCompileOptions};
use crate::fake::{ONE_AT_A_TIME, alive, plugin};
use crate::topology::Topology;
use octant_graph::{Shape, Trace};
use octant_runtime::{Axis, Backend, DType};
use std::fs;
use std::sync::{Arc, Mutex, PoisonError};

/// `(state, batch) → (state + 1, batch + 1)`, state replicated and donated, batch split.
fn program() -> Program {
    let trace = Trace::new();
    let state = trace.input("state", Shape::new(DType::F32, [1]));
    let batch = trace.input("batch", Shape::new(DType::F32, [4, 2]));
    let graph = trace.finish(&[state, batch]).unwrap();
    let spread = vec![Sharding::REPLICATED, Sharding::split(0, [Axis::Data])];
    Program {
        donated: vec![(0, 0)],
        mesh: Mesh::new(2),
        inputs: spread.clone(),
        outputs: spread,
        ..Program::new("step", graph)
    }
}

fn lower(program: &Program) -> runtime::Result<String> {
    Ok(format!("outputs={} donates={}", program.outputs.len(), program.donated[0].0))
}

fn backend() -> PjrtBackend {
    let backend = PjrtBackend::new(Client::new(&plugin(), &NamedValues::new()).unwrap()).unwrap();
    let lowering = |program: &Program, _: &LoweringTarget| Ok(Lowered { text: lower(program)?, calls_cudnn: false });
    PjrtBackend { lowering, ..backend }
}

#[test]
fn a_step_runs_on_all_devices_and_its_state_is_donated() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let backend = backend();
    assert_eq!((backend.name(), backend.devices().len()), ("fake", 2));
    let program = program();
    let executable = backend.compile(&program, &runtime::CompileOptions::default()).unwrap();
    assert_eq!(executable.memory(), runtime::MemoryPlan { inputs: 100, outputs: 10, temporary: 7, code: 3 });

    let state = HostTensor::new([1], &[7f32]).unwrap();
    let numbers: Vec<f32> = (0..8).map(|number| number as f32).collect();
    let batch = HostTensor::new([4, 2], &numbers).unwrap();
    let mut state = backend.upload(&state, &program.mesh, &Sharding::REPLICATED).unwrap();
    let batch = backend.upload(&batch, &program.mesh, &Sharding::split(0, [Axis::Data])).unwrap();
    assert_eq!(batch.to_host().unwrap().elements::<f32>().unwrap(), numbers);

    for step in 1..=3 {
        let outputs = executable.execute(&[state.clone(), batch.clone()]).unwrap();
        assert!(matches!(state.to_host(), Err(RuntimeError::Donated)), "the old state is gone");
        assert!(matches!(executable.execute(&[state, batch.clone()]), Err(RuntimeError::Donated)));
        state = outputs[0].clone();
        assert_eq!(state.to_host().unwrap().elements::<f32>().unwrap(), [7.0 + step as f32]);
        let sums = outputs[1].to_host().unwrap();
        assert_eq!(sums.dims(), [4, 2]);
        assert!(sums.elements::<f32>().unwrap().iter().zip(&numbers).all(|(sum, number)| *sum == number + 1.0));
        outputs[1].wait().unwrap();
    }
}

fn logged(notice: Notice) -> String {
    match notice {
        Notice::Message(sentence) => sentence.to_string(),
        Notice::Compiling { program, reason, before: None } => format!("{program}: compiling, because {reason}"),
        Notice::Compiling { program, reason, .. } => format!("{program}: compiling again, because {reason}"),
        Notice::Compiled { program, .. } => format!("{program}: compiled"),
    }
}

#[test]
fn the_second_compilation_comes_from_the_cache() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let compile = || {
        let notices = Arc::new(Mutex::new(Vec::new()));
        let log = notices.clone();
        let backend = backend()
            .with_cache(ExecutableCache::new(folder.path()))
            .with_log(Arc::new(move |notice| log.lock().unwrap().push(logged(notice))));
        backend.compile(&program(), &runtime::CompileOptions::default()).unwrap();
        let notices = notices.lock().unwrap().clone();
        notices.join("\n")
    };
    assert_eq!(compile(), "step: compiling, because this program has not been compiled before\nstep: compiled");
    assert_eq!(compile(), "step: loaded from the cache");
    // Whole as a file, but nothing that the plugin would load.
    let files = fs::read_dir(folder.path()).unwrap().flatten().map(|entry| entry.path());
    let entry = files.into_iter().find(|path| path.extension().is_some_and(|ending| ending == "executable")).unwrap();
    let backend = backend();
    let key = backend.cache_key("outputs=2 donates=0", &backend.compile_options(&program()).unwrap());
    ExecutableCache::new(folder.path()).store(&key.unwrap(), b"rubbish").unwrap();
    assert!(compile().starts_with("step: compiling again, because the stored executable could not be loaded"));
    assert_eq!(compile(), "step: loaded from the cache");
    assert!(entry.exists());
}

#[test]
fn a_program_that_failed_at_its_first_run_was_stored() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    for (fault, is_kept) in [("none", true), ("start", false), ("later", false), ("memory", true)] {
        let folder = tempfile::tempdir().unwrap();
        let stored = || {
            let files = fs::read_dir(folder.path()).unwrap().flatten();
            files.filter(|file| file.path().extension().is_some_and(|ending| ending == "executable")).count()
        };
        let lowering = |program: &Program, _: &LoweringTarget| {
            Ok(Lowered { text: format!("{} fault={}", lower(program)?, program.name), calls_cudnn: false })
        };
        // Compiled, and then loaded from the store where it is kept.
        for from_cache in [false, is_kept] {
            let backend = PjrtBackend { lowering, ..backend() }.with_cache(ExecutableCache::new(folder.path()));
            let program = Program { name: fault.into(), ..program() };
            let executable = backend.compile(&program, &runtime::CompileOptions::default()).unwrap();
            assert_eq!((executable.cost().from_cache, stored()), (from_cache, 1), "{fault}");
            let (state, batch) = (HostTensor::new([1], &[7f32]).unwrap(), HostTensor::new([4, 2], &[1f32; 8]).unwrap());
            let upload = |tensor, index: usize| backend.upload(tensor, &program.mesh, &program.inputs[index]).unwrap();
            let outcome = executable.execute(&[upload(&state, 0), upload(&batch, 1)]);
            assert_eq!((outcome.is_ok(), stored()), (fault == "none", usize::from(is_kept)), "{fault}");
        }
    }
}

#[test]
fn a_program_planned_for_a_board_has_the_key_that_the_board_looks_for() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let backend = PjrtBackend::new(Client::new(&plugin(), &NamedValues::new()).unwrap()).unwrap();
    let topology = Topology::new(backend.client().plugin(), "v3:1x1x1", &NamedValues::new()).unwrap();
    let text = (backend.lowering)(&program(), &backend.target).unwrap().text;
    let options = backend.compile_options(&program()).unwrap();
    assert!(!options.device_ids.is_empty(), "here the devices have numbers");
    assert_eq!(backend.cache_key(&text, &options).unwrap(), key_of(&topology, &program()).unwrap());
}

#[test]
fn a_program_that_needs_large_windows_is_planned_quickly_with_the_compilers_own() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let topology = Topology::new(&plugin(), "v3:1x1x1", &NamedValues::new()).unwrap();
    let program = Program { name: "large_windows".into(), ..program() };
    let text = super::lowering::lower(&program, &LoweringTarget::of(TPU, topology.plugin(), PjrtOptions::default()).0)
        .unwrap()
        .text;
    let small = XlaCompileOptions::default().with_flag("xla_tpu_scoped_vmem_limit_kib", CompilerFlag::Int(1));
    assert!(matches!(topology.compile(&text, &small), Err(PjrtError::OutOfMemory(_))));
    let planned = plan_quickly(&topology, &program).unwrap();
    assert_eq!(planned.memory, plan(&topology, &program).unwrap().memory);
}

#[test]
fn a_program_that_may_vary_is_not_loaded_where_a_repeatable_one_is_wanted() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let key = |repeatable| {
        let backend = backend();
        let backend =
            PjrtBackend { name: CUDA.into(), options: PjrtOptions { repeatable, ..backend.options }, ..backend };
        backend.cache_key("text", &backend.compile_options(&program()).unwrap()).unwrap()
    };
    assert_eq!(key(true), key(true));
    assert_ne!(key(true), key(false));
}

#[test]
fn repeatable_steps_had_products_without_aligned_loads() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let triton = |repeatable, program: Program| {
        let backend = backend();
        let options = PjrtOptions { repeatable, ..backend.options };
        let backend = PjrtBackend { name: CUDA.into(), options, ..backend };
        backend.compile_options(&program).unwrap().optional_flags.get("xla_gpu_enable_triton_gemm").cloned()
    };
    assert_eq!(triton(true, program()), Some(CompilerFlag::Bool(false)));
    assert_eq!(triton(true, Program { donated: Vec::new(), ..program() }), None, "predictions");
    assert_eq!(triton(false, program()), None, "measured kernels");
}

#[test]
fn gaps_between_small_buffers_are_given_back() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let client = Client::new(&plugin(), &NamedValues::new()).unwrap();
    let devices = client.devices().unwrap();
    let before = alive();
    let _room = SmallBuffers::make_room(&devices[0]).unwrap();
    let kept = GAPS as isize + 1;
    // The fake's copies end later, on threads of their own.
    let attempts = (0..1000).take_while(|_| alive() - before > kept);
    attempts.for_each(|_| std::thread::sleep(std::time::Duration::from_millis(5)));
    assert_eq!(alive() - before, kept);
}

#[test]
fn inputs_that_do_not_fit_are_named() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let backend = backend();
    let program = program();
    let executable = backend.compile(&program, &runtime::CompileOptions::default()).unwrap();
    let scalar = backend.upload(&HostTensor::new([1], &[0f32]).unwrap(), &program.mesh, &Sharding::REPLICATED).unwrap();
    let error = executable.execute(std::slice::from_ref(&scalar)).unwrap_err();
    assert_eq!(error.to_string(), "the program takes 2 inputs, it was given 1");
    let error = executable.execute(&[scalar.clone(), scalar.clone()]).unwrap_err();
    assert_eq!(error.to_string(), "input 1 (batch) should be f32[4,2], it is f32[1]");
    let batch = HostTensor::new([4, 2], &[0f32; 8]).unwrap();
    let replicated = backend.upload(&batch, &program.mesh, &Sharding::REPLICATED).unwrap();
    let error = executable.execute(&[scalar, replicated]).unwrap_err();
    assert!(error.to_string().contains("should be spread as [data]"), "{error}");
}

#[test]
fn more_devices_than_there_are_is_an_error() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let program = Program { mesh: Mesh::new(8), ..program() };
    let error = backend().compile(&program, &runtime::CompileOptions::default()).err().unwrap();
    assert_eq!(error.to_string(), "8 devices were requested, and fake has 2");
}

#[test]
fn dumps_are_written() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let options = runtime::CompileOptions { dump: Some(folder.path().join("dump")), ..Default::default() };
    // The fake has no optimized program, which is no reason to fail.
    backend().compile(&program(), &options).unwrap();
    assert!(folder.path().join("dump/step.graph.txt").exists());
    let text = fs::read_to_string(folder.path().join("dump/step.stablehlo.mlir")).unwrap();
    assert_eq!(text, "outputs=2 donates=0");
}

#[test]
fn a_program_whose_attention_cudnn_refuses_is_compiled_without() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let notices = Arc::new(Mutex::new(Vec::new()));
    let log = notices.clone();
    let backend = backend().with_log(Arc::new(move |notice| log.lock().unwrap().push(logged(notice))));
    let lowering = |program: &Program, target: &LoweringTarget| {
        let call = if target.fuses_attention() { "__cudnn$fmhaSoftmax" } else { "" };
        let calls_cudnn = target.fuses_attention();
        Ok(Lowered { text: lower(program)? + call, calls_cudnn })
    };
    let backend = PjrtBackend { lowering, target: backend.target.with_fused_attention(), ..backend };
    backend.compile(&program(), &runtime::CompileOptions::default()).unwrap();
    let notices = notices.lock().unwrap().join("\n");
    assert!(
        notices.contains("compiled again without cuDNN's attention") && notices.contains("execution plans"),
        "{notices}"
    );
}
