//! Every family against its reference: forward pass in evaluation and in training, loss, the gradient of every parameter,
//! and the state after three optimizer steps. The figures in `golden/figures` were made by `golden/make.py` with weights
//! that are a function of name and index, repeated here in [`deterministic`].

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod deterministic;
mod engine;
mod figures;
mod program;

use engine::Engine;
use figures::Figures;
use program::Case;

/// The whole comparison for a small network, by definition of the primitives.
fn check_small(name: &str) {
    check(name, Engine::Reference, 3, figures::TOLERANCE);
}

/// One step of a real network on the CPU backend; `noise` is the tolerance in training.
fn check_real(name: &str, noise: f64) {
    check(name, Engine::Cpu, 1, noise);
}

fn check(name: &str, engine: Engine, steps: usize, noise: f64) {
    let mut figures = Figures::read(name);
    figures.noise = noise;
    let case = Case::new(name, &figures, engine);
    assert_eq!(case.parameter_count(), figures.size("parameters"), "parameters");
    case.check_evaluation(&figures);
    case.check_training(&figures, steps);
}

macro_rules! golden {
    ($check:ident: $($(#[$attribute:meta])* $test:ident => $name:literal $(, $noise:literal)?;)*) => {$(
        #[test]
        $(#[$attribute])*
        fn $test() {
            $check($name $(, $noise)?);
        }
    )*};
}

golden! { check_small:
    fashion_cnn_tiny => "fashion-cnn-tiny";
    resnet_tiny => "resnet-tiny";
    mshnet_tiny => "mshnet-tiny";
    efficientnet_tiny => "efficientnet-tiny";
    efficientnet_v2_tiny => "efficientnet_v2-tiny";
    tf_efficientnetv2_tiny => "tf_efficientnetv2-tiny";
    mobilenet_v3_tiny => "mobilenet_v3-tiny";
    convnext_test => "convnext-test";
    vit_test => "vit-test";
    vit_timm_test => "vit_timm-test";
    unet_tiny => "unet-tiny";
}

golden! { check_real:
    fashion_cnn => "fashion-cnn", 1e-4;
    // PyTorch's f32 gradients differ from its f64 ones by up to 3e-2 here.
    resnet50 => "resnet50", 1e-1;
    mshnet => "mshnet", 2e-3;
    efficientnet_b0 => "efficientnet_b0", 1e-4;
    efficientnet_v2_s => "efficientnet_v2_s", 1e-4;
    tf_efficientnetv2_s => "tf_efficientnetv2_s", 1e-4;
    mobilenet_v3_large => "mobilenet_v3_large", 1e-4;
    convnext_tiny => "convnext_tiny", 1e-4;
    vit_tiny_patch16_224 => "vit_tiny_patch16_224", 1e-4;
    unet => "unet", 1e-4;
}

/// Computing blocks again in the backward pass changes no figure.
#[test]
fn recomputed_blocks_give_the_same_figures() {
    for name in ["resnet-tiny", "efficientnet_v2-tiny"] {
        let figures = Figures::read(name);
        let mut case = Case::new(name, &figures, Engine::Reference);
        case.recompute = true;
        case.check_training(&figures, 3);
    }
}
