//! Low-rank adapters: what is trainable, and that merging them changes no prediction.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod plans;

use octant_archive::Archive;
use octant_cpu::CpuBackend;
use octant_events::RunDirectory;
use octant_nn::{Adapters, VariableSpec};
use octant_runtime::{Backend, CompileOptions};
use octant_tensor::HostTensor;
use octant_train::checkpoint::Checkpoint;
use octant_train::run::run;
use octant_train::step::StepPlan;
use octant_train::{Classify, Predictor, Values};
use octant_zoo::{Model, adapted};
use std::sync::Arc;

const SETTINGS: Adapters = Adapters { rank: 4, alpha: 8.0, targets: Vec::new(), except: Vec::new() };

/// The weights after a short run.
fn trained(backend: &Arc<dyn Backend>) -> Checkpoint {
    let folder = tempfile::tempdir().unwrap();
    let plan = plans::adapters(backend, 1);
    let directory = RunDirectory::create(folder.path(), "").unwrap();
    run(&plan, directory, None, &mut plans::Patient::default()).unwrap();
    Checkpoint::newest(&folder.path().join("checkpoints"), "last").unwrap().unwrap().0
}

fn specs(model: &dyn Model) -> Vec<VariableSpec> {
    octant_zoo::describe(model, [28, 28, 1]).unwrap().0
}

fn probabilities(backend: &Arc<dyn Backend>, model: Box<dyn Model>, weights: &Archive) -> Vec<f64> {
    let specs = specs(&*model);
    let loaded = octant_zoo::weights::load(weights, &*model, &specs, 0);
    assert!(loaded.matching.is_exact(), "{}", loaded.matching);
    let values = Values::of(&specs, loaded.values);
    let task = Classify::new(model, [28, 28, 1]);
    let predictor =
        Predictor::new(backend, &StepPlan::new(Arc::new(task), 4), &CompileOptions::default(), &values).unwrap();
    let pixels: Vec<u8> = (0..4 * 28 * 28).map(|index| (index * index % 251) as u8).collect();
    predictor.predict(&HostTensor::new([4, 28, 28, 1], &pixels).unwrap()).unwrap().to_f64s()
}

/// The weights with residual branches that count in full: they begin at 1e-5 of it, where a change would be invisible.
fn vivid(mut tensors: Vec<(String, HostTensor)>) -> Vec<(String, HostTensor)> {
    for (_, tensor) in tensors.iter_mut().filter(|(name, _)| name.ends_with("gamma")) {
        *tensor = HostTensor::new(tensor.dims(), &vec![1f32; tensor.shape().elements()]).unwrap();
    }
    tensors
}

#[test]
fn adapters_and_the_head_learn_and_nothing_else() {
    let backend = CpuBackend::with_threads(2).unwrap().shared();
    let checkpoint = trained(&backend);
    let model = plans::adapted();
    let (mut adapters, mut others) = (0, 0);
    for spec in specs(&model) {
        let now = octant_train::import(&spec, &checkpoint.model).unwrap();
        let is_trainable = spec.is_adapter() || spec.path.starts_with("head.");
        assert_eq!(now != spec.initial(3), is_trainable, "{}", spec.path);
        assert_eq!(checkpoint.state.get(&format!("{}#exp_avg", spec.path)).is_some(), is_trainable, "{}", spec.path);
        *(if spec.is_adapter() { &mut adapters } else { &mut others }) += 1;
    }
    // Two layers of two blocks, two factors each.
    assert_eq!(adapters, 8);
    assert!(others > 20);
}

#[test]
fn merged_and_unmerged_predictions_agree() {
    let backend = CpuBackend::with_threads(2).unwrap().shared();
    let weights = trained(&backend).model;
    let weights = Archive { tensors: vivid(weights.tensors.clone()), ..weights };
    let unmerged = probabilities(&backend, Box::new(plans::adapted()), &weights);
    let plain = || octant_zoo::build("dinov2-test", Some(10)).unwrap();
    let merged = Archive { tensors: adapted::merged(&weights.tensors, Some(&SETTINGS)).unwrap(), ..weights.clone() };
    let close = |predictions: &[f64]| predictions.iter().zip(&unmerged).all(|(a, b)| (a - b).abs() < 1e-5);
    assert!(close(&probabilities(&backend, plain(), &merged)));
    // Without the adapters the predictions differ: they have learned something.
    let is_factor = |name: &str| Adapters::FACTORS.iter().any(|ending| name.ends_with(ending));
    let bare: Vec<_> = weights.tensors.iter().filter(|(name, _)| !is_factor(name)).cloned().collect();
    let bare = Archive { tensors: bare, ..weights.clone() };
    assert!(!close(&probabilities(&backend, plain(), &bare)));
    // Saved split and put beside the weights as they were, the adapters and the head give the same predictions.
    let settings = Adapters { except: vec!["head".into()], ..SETTINGS };
    let split = adapted::split(&weights.tensors, &settings).unwrap();
    assert!(split.iter().any(|(name, _)| name == "base_model.model.blocks.0.attn.qkv.lora_A.weight"));
    assert!(split.iter().any(|(name, _)| name == "base_model.model.head.weight"));
    let first: Vec<_> = specs(&*plain()).iter().map(|spec| (spec.path.clone(), spec.initial(3))).collect();
    let specs = specs(&*plain());
    let exported = |(name, value): (String, HostTensor)| {
        let spec = specs.iter().find(|spec| spec.path == name).unwrap();
        (name, spec.layout.export(&value).unwrap())
    };
    let beside = adapted::beside(vivid(first.into_iter().map(exported).collect()), &split);
    let again = Archive { tensors: adapted::merged(&beside, Some(&settings)).unwrap(), ..weights.clone() };
    assert!(close(&probabilities(&backend, plain(), &again)));
    // What the configuration says is read back.
    let text =
        adapted::config(&Adapters { targets: vec!["qkv".into(), "fc1".into()], ..settings.clone() }, "dinov2-test");
    assert_eq!(adapted::of_config(&text).unwrap().scale(), settings.scale());
    assert_eq!(adapted::of_config(&text).unwrap().except, ["head"]);
}
