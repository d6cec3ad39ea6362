//! The report on how a file fits a model.

use octant_archive::{Archive, ArchiveError, Fit, Matching};
use octant_tensor::{DType, HostTensor, Shape};

fn archive(tensors: &[(&str, &[usize])]) -> Archive {
    let tensor = |dims: &[usize]| HostTensor::zeros(Shape::new(DType::F16, dims));
    Archive::from(tensors.iter().map(|(name, dims)| (name.to_string(), tensor(dims))).collect::<Vec<_>>())
}

fn wanted(parameters: &[(&str, &[usize])]) -> Vec<(String, Shape)> {
    parameters.iter().map(|(name, dims)| (name.to_string(), Shape::new(DType::F32, *dims))).collect()
}

const MODEL: &[(&str, &[usize])] =
    &[("conv.weight", &[4, 3, 3, 3]), ("bn.num_batches_tracked", &[]), ("fc.weight", &[10, 4]), ("fc.bias", &[10])];

#[test]
fn equal_names_and_dimensions_match_whatever_the_element_type() {
    let matching = Matching::between(&archive(MODEL), &wanted(MODEL), &["fc"]);
    assert!(matching.is_exact() && matching.matched.len() == 4);
    matching.require(Fit::Exact).unwrap();
    assert_eq!(matching.to_string(), "4 matched, 0 missing, 0 unexpected, 0 of another shape");
}

#[test]
fn step_counters_are_never_missing_or_unexpected() {
    let without: Vec<_> = MODEL.iter().copied().filter(|(name, _)| !name.contains("tracked")).collect();
    assert!(Matching::between(&archive(&without), &wanted(MODEL), &[]).is_exact());
    assert!(Matching::between(&archive(MODEL), &wanted(&without), &[]).is_exact());
}

#[test]
fn everything_else_is_listed() {
    let file =
        archive(&[("conv.weight", &[4, 3, 1, 1]), ("fc.weight", &[1000, 4]), ("fcx.bias", &[10]), ("old", &[2])]);
    let matching = Matching::between(&file, &wanted(MODEL), &["fc"]);
    assert_eq!(matching.missing_head, wanted(&[("fc.bias", &[10])]));
    assert_eq!(matching.unexpected.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["fcx.bias", "old"]);
    assert_eq!(matching.other_shape.iter().map(|other| other.name.as_str()).collect::<Vec<_>>(), ["conv.weight"]);
    assert_eq!(matching.other_head.iter().map(|other| other.name.as_str()).collect::<Vec<_>>(), ["fc.weight"]);
    let text = matching.to_string();
    for part in [
        "0 matched, 1 missing, 2 unexpected, 2 of another shape",
        "\n  head that the file lacks: fc.bias f32[10]",
        "\n  unknown to the model: fcx.bias f16[10] (did you mean fc.bias?), old f16[2]",
        "\n  another shape: conv.weight (the model has f32[4,3,3,3], the file f16[4,3,1,1])",
        "\n  head of another size: fc.weight (the model has f32[10,4], the file f16[1000,4])",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn the_requested_fit_decides_about_misfits_but_not_about_another_network() {
    let other_head = archive(&[("conv.weight", &[4, 3, 3, 3]), ("fc.weight", &[1000, 4]), ("fc.bias", &[1000])]);
    let matching = Matching::between(&other_head, &wanted(MODEL), &["fc"]);
    matching.require(Fit::AnyHead).unwrap();
    let strict = matching.require(Fit::Exact).unwrap_err();
    assert!(matches!(&strict, ArchiveError::Mismatch(report) if report.contains("head of another size")), "{strict}");
    let other_network = Matching::between(&archive(&[("a", &[1])]), &wanted(MODEL), &["fc"]);
    let error = other_network.require(Fit::Partial).unwrap_err().to_string();
    assert!(error.contains("another network"), "{error}");
}

#[test]
fn weights_of_another_depth_are_refused_unless_a_partial_fit_is_requested() {
    let shallow = archive(&[("fc.weight", &[10, 4]), ("fc.bias", &[10])]);
    let matching = Matching::between(&shallow, &wanted(MODEL), &["fc"]);
    assert!(matching.require(Fit::AnyHead).is_err() && matching.require(Fit::Partial).is_ok());
    let deep = archive(&[MODEL, &[("conv2.weight", &[4, 4, 3, 3])]].concat());
    let matching = Matching::between(&deep, &wanted(MODEL), &["fc"]);
    assert!(matching.require(Fit::AnyHead).is_err() && matching.require(Fit::Partial).is_ok());
}

#[test]
fn long_lists_are_shortened() {
    let names: Vec<String> = (0..50).map(|index| format!("layer{index}")).collect();
    let parameters: Vec<(String, Shape)> = names.iter().map(|name| (name.clone(), Shape::scalar(DType::F32))).collect();
    let text = Matching::between(&archive(&[]), &parameters, &[]).to_string();
    assert!(text.ends_with("layer7 f32[] and 42 more"), "{text}");
}
