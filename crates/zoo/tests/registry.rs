//! The registry's invariants, and every model's size against what its reference publishes.

use octant_nn::{VariableKind, VariableSpec};
use octant_zoo::registry::ENTRIES;
use octant_zoo::{ModelEntry, build, describe, find};
use std::collections::HashSet;

fn parameters(specs: &[VariableSpec]) -> usize {
    let parameters = specs.iter().filter(|spec| spec.kind == VariableKind::Parameter);
    parameters.map(|spec| spec.shape.elements()).sum()
}

fn described(entry: &ModelEntry) -> (Vec<VariableSpec>, u64) {
    let model = (entry.build)(entry.classes);
    describe(&*model, entry.preprocessing.input).unwrap_or_else(|error| panic!("{}: {error}", entry.name))
}

#[test]
fn names_and_aliases_are_unique() {
    let mut seen = HashSet::new();
    for entry in ENTRIES {
        for name in entry.names() {
            assert!(seen.insert(name.to_lowercase().replace('-', "_")), "{name} is listed twice");
            assert_eq!(find(name).unwrap().name, entry.name);
        }
    }
}

#[test]
fn every_model_traces_at_its_native_size_and_has_the_head_it_says() {
    for entry in ENTRIES {
        let (specs, multiply_adds) = described(entry);
        assert!(multiply_adds > 0, "{}", entry.name);
        let paths: HashSet<&str> = specs.iter().map(|spec| spec.path.as_str()).collect();
        assert_eq!(paths.len(), specs.len(), "{} declares a path twice", entry.name);
        let model = (entry.build)(entry.classes);
        assert_eq!(model.classes(), entry.classes, "{}", entry.name);
        for head in model.head_paths() {
            let prefix = format!("{head}.");
            assert!(specs.iter().any(|spec| spec.path.starts_with(&prefix)), "{}: nothing under {head}", entry.name);
        }
    }
}

#[test]
fn a_head_of_another_size_changes_nothing_but_the_head() {
    for entry in ENTRIES.iter().filter(|entry| entry.name.contains("tiny") || entry.name.contains("test")) {
        let (specs, _) = described(entry);
        let model = build(entry.name, Some(entry.classes + 3)).unwrap();
        let (other, _) = describe(&*model, entry.preprocessing.input).unwrap();
        let heads = model.head_paths();
        for (before, after) in specs.iter().zip(&other) {
            assert_eq!(before.path, after.path);
            let under_head = heads.iter().any(|head| before.path.starts_with(&format!("{head}.")));
            assert!(under_head || before.shape == after.shape, "{}: {} changed", entry.name, before.path);
        }
    }
}

/// The published counts, of torchvision's networks without auxiliary heads.
#[test]
fn networks_for_a_class_per_pixel_have_the_published_sizes() {
    for (name, published) in [
        ("fcn_resnet50", 32_957_013),
        ("fcn_resnet101", 51_949_141),
        ("deeplabv3_resnet50", 39_638_869),
        ("deeplabv3_resnet101", 58_630_997),
        ("deeplabv3_mobilenet_v3_large", 11_025_477),
        ("lraspp_mobilenet_v3_large", 3_221_538),
        ("segformer_b0", 3_752_694),
        ("segformer_b1", 13_715_798),
        ("segformer_b2", 27_461_974),
        ("segformer_b3", 47_337_814),
        ("segformer_b4", 64_108_374),
        ("segformer_b5", 84_708_694),
        // Of segmentation_models_pytorch, with timm's encoders (`tu-…`) but for ResNets.
        ("unet_resnet34", 24_439_269),
        ("unet_resnet50", 32_524_005),
        ("unet_mobilenetv3_small_100", 3_588_549),
        ("unet_mobilenetv4_conv_small", 4_978_437),
        ("unet_efficientnet_b0", 5_837_601),
        ("unet_efficientnetv2_s", 22_096_373),
        ("unet_convnext_tiny", 31_931_653),
        ("fpn_resnet34", 23_157_973),
        ("fpn_resnet50", 26_118_613),
        ("fpn_mobilenetv3_large_100", 4_890_309),
        ("fpn_mobilenetv4_conv_small", 3_184_117),
        ("fpn_efficientnet_b0", 5_349_905),
        ("fpn_tf_efficientnetv2_s", 21_609_957),
        ("fpn_convnext_tiny", 29_814_773),
        ("deeplabv3plus_resnet34", 22_442_597),
        // The backbone's, and a norm and a 1×1 convolution for 150 classes.
        ("dinov2_linear_vits14", 22_056_192 + 2 * 384 + 385 * 150),
    ] {
        let (mut specs, _) = described(find(name).unwrap());
        specs.retain(|spec| !spec.path.starts_with("aux_classifier."));
        assert_eq!(parameters(&specs), published, "{name}");
    }
}

#[test]
fn an_unknown_name_suggests_near_ones() {
    let error = find("resnet5O").unwrap_err().to_string();
    assert!(error.contains("resnet50"), "{error}");
    let error = find("mobilenetv3_large_10").unwrap_err().to_string();
    assert!(error.contains("mobilenetv3_large_100"), "{error}");
    assert!(find("nothing like any of them").unwrap_err().to_string().contains("octant models"));
}

/// What has both references' form is the same network: as many variables of the same shapes, in the same order, under
/// other names unless the names are the same.
#[test]
fn timms_names_took_torchvisions_keys() {
    for (name, key) in [
        ("mobilenetv3_large_100", "conv_stem.weight"),
        ("efficientnet_b1.ra4_e3600_r240_in1k", "blocks.0.0.conv_dw.weight"),
        ("timm/convnext_tiny.fb_in1k", "stages.0.blocks.0.gamma"),
        ("efficientnetv2_s", "blocks.0.0.conv.weight"),
        ("convnext_tiny", "features.0.0.weight"),
        ("mobilenet_v3_large", "features.0.0.weight"),
        ("resnet50.a1_in1k", "fc.weight"),
    ] {
        let entry = find(name).unwrap();
        assert!(described(entry).0.iter().any(|spec| spec.path == key), "{name} is {}", entry.name);
        if let Some(other) = entry.counterpart() {
            let [own, others] = [entry, other].map(|entry| described(entry).0);
            let shapes = |specs: &[VariableSpec]| specs.iter().map(|spec| spec.shape.clone()).collect::<Vec<_>>();
            assert_eq!(shapes(&own), shapes(&others), "{name}");
            assert_eq!(other.counterpart().unwrap().name, entry.name);
        }
    }
    assert_eq!(find("resnet50.tv2_in1k").unwrap().name, "resnet50");
}

/// Parameters (exactly) and billions of multiply–adds at the native size as torchvision publishes them with its weights
/// (`num_params` and `_ops`); those of timm's models are measured with the same counter.
const PUBLISHED: &[(&str, usize, f64)] = &[
    ("resnet18", 11_689_512, 1.814),
    ("resnet34", 21_797_672, 3.664),
    ("resnet50", 25_557_032, 4.089),
    ("resnet101", 44_549_160, 7.801),
    ("resnet152", 60_192_808, 11.514),
    ("efficientnet_b0", 5_288_548, 0.386),
    ("efficientnet_b1", 7_794_184, 0.687),
    ("efficientnet_b2", 9_109_994, 1.088),
    ("efficientnet_b3", 12_233_232, 1.827),
    ("efficientnet_b4", 19_341_616, 4.394),
    ("efficientnet_b5", 30_389_784, 10.266),
    ("efficientnet_b6", 43_040_704, 19.068),
    ("efficientnet_b7", 66_347_960, 37.746),
    ("efficientnet_v2_s", 21_458_488, 8.366),
    ("efficientnet_v2_m", 54_139_356, 24.582),
    ("efficientnet_v2_l", 118_515_272, 56.08),
    ("mobilenet_v3_large", 5_483_032, 0.217),
    ("mobilenet_v3_small", 2_542_856, 0.057),
    ("convnext_tiny", 28_589_128, 4.456),
    ("convnext_small", 50_223_688, 8.684),
    ("convnext_base", 88_591_464, 15.355),
    ("convnext_large", 197_767_336, 34.361),
    ("vit_b_16", 86_567_656, 17.564),
    ("vit_b_32", 88_224_232, 4.409),
    ("vit_l_16", 304_326_632, 61.555),
    ("vit_l_32", 306_535_400, 15.378),
    ("swin_t", 28_288_354, 4.491),
    ("swin_s", 49_606_258, 8.741),
    ("swin_b", 87_768_224, 15.431),
];

#[test]
fn parameters_and_multiply_adds_are_the_published_ones() {
    for &(name, expected_parameters, expected_billions) in PUBLISHED {
        let (specs, multiply_adds) = described(find(name).unwrap());
        assert_eq!(parameters(&specs), expected_parameters, "{name}");
        let billions = multiply_adds as f64 / 1e9;
        assert!((billions - expected_billions).abs() <= 0.000_501, "{name}: {billions} of {expected_billions}");
    }
}

/// Parameters of models whose references publish no table, counted in the references themselves.
#[test]
fn parameters_of_the_other_references() {
    let counted = [
        ("fashion-cnn", 108_810),
        ("small-cnn", 61_050),
        ("unet_256", 54_413_955),
        ("unet_128", 41_828_995),
        ("resnet_9blocks", 11_378_179),
        ("resnet_6blocks", 7_837_699),
        ("nafnet_width32", 29_159_715),
        ("edsr_baseline_x3", 1_554_499),
        ("edsr_baseline_x2", 1_369_859),
        ("edsr_baseline_x4", 1_517_571),
        ("dncnn", 555_137),
        ("dncnn_color", 668_227),
        ("mshnet", 4_065_513),
        ("unet", 7_763_041),
        ("tf_efficientnetv2_s", 21_458_488),
        ("tf_efficientnetv2_m", 54_139_356),
        ("tf_efficientnetv2_l", 118_515_272),
        ("tf_efficientnetv2_xl", 208_119_808),
        ("vit_tiny_patch16_224", 5_717_416),
        ("vit_small_patch16_224", 22_050_664),
        ("vit_base_patch16_224", 86_567_656),
        ("vit_base_patch32_224", 88_224_232),
        ("vit_large_patch16_224", 304_326_632),
        ("deit_tiny_patch16_224", 5_717_416),
        ("deit_small_patch16_224", 22_050_664),
        ("deit_base_patch16_224", 86_567_656),
        ("deit_tiny_distilled_patch16_224", 5_910_800),
        ("deit_small_distilled_patch16_224", 22_436_432),
        ("deit_base_distilled_patch16_224", 87_338_192),
        ("vit_small_patch14_dinov2", 22_056_192),
        ("vit_base_patch14_dinov2", 86_579_712),
        ("vit_large_patch14_dinov2", 304_367_616),
        ("vit_giant_patch14_dinov2", 1_136_479_232),
        ("vit_small_patch14_reg4_dinov2", 22_057_344),
        ("vit_base_patch14_reg4_dinov2", 86_582_016),
        ("vit_large_patch14_reg4_dinov2", 304_370_688),
        ("vit_giant_patch14_reg4_dinov2", 1_136_483_840),
        ("vit_base_patch32_clip_224", 87_849_728),
        ("vit_base_patch16_clip_quickgelu_224", 86_193_152),
        ("vit_large_patch14_clip_224", 303_966_976),
        ("vit_xsmall_patch16_clip_224", 8_277_504),
        ("vit_base_patch16_siglip_224", 92_884_224),
        ("vit_large_patch16_siglip_256", 315_956_224),
        ("vit_so400m_patch14_siglip_224", 427_680_704),
        ("vit_so400m_patch14_siglip_384", 428_225_600),
        ("swin_tiny_patch4_window7_224", 28_288_354),
        ("swin_small_patch4_window7_224", 49_606_258),
        ("swin_base_patch4_window7_224", 87_768_224),
        ("convnextv2_atto", 3_708_400),
        ("convnextv2_femto", 5_233_240),
        ("convnextv2_pico", 9_066_280),
        ("convnextv2_nano", 15_623_800),
        ("convnextv2_tiny", 28_635_496),
        ("convnextv2_base", 88_717_800),
        ("convnextv2_large", 197_956_840),
        ("convnextv2_huge", 660_289_640),
        // Without the second head, which has 3,326,696 of torchvision's 27,161,264.
        ("inception_v3", 23_834_568),
        ("mobilenetv4_conv_small", 3_774_024),
        ("mobilenetv4_conv_medium", 9_715_512),
        ("mobilenetv4_conv_large", 32_590_864),
    ];
    for (name, expected) in counted {
        assert_eq!(parameters(&described(find(name).unwrap()).0), expected, "{name}");
    }
}

/// Discriminators are no models of their own: their parameters and entries of the state dict, with the counters of batch norms.
#[test]
fn discriminators_have_the_published_sizes() {
    use octant_graph::{DType, Shape, Trace};
    use octant_nn::{Context, Mode, Precision};
    use octant_zoo::families::gan::Discriminator;
    use octant_zoo::families::gan::GanNorm;
    let sizes = |discriminator: Discriminator, channels: usize| {
        let trace = Trace::new();
        let images = trace.input("images", Shape::new(DType::F32, [1, 256, 256, channels]));
        let cx = Context::new(&trace, Mode::Evaluate, Precision::F32);
        let scores = discriminator.apply(&cx.root(), &images);
        let specs: Vec<VariableSpec> = cx.variables().into_iter().map(|variable| variable.spec).collect();
        let counters = specs.iter().filter(|spec| spec.path.ends_with("running_var")).count();
        (parameters(&specs), specs.len() + counters, scores.dim(1))
    };
    assert_eq!(sizes(Discriminator::patches(GanNorm::Batch), 6), (2_768_705, 22, 30));
    assert_eq!(sizes(Discriminator::patches(GanNorm::Instance), 3), (2_764_737, 10, 30));
    let pixels = Discriminator { layers: 0, ..Discriminator::patches(GanNorm::Batch) };
    assert_eq!(sizes(pixels, 6), (9_024, 9, 256));
}
