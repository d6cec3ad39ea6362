//! Tensors: shapes, offsets and storages.

use super::*;

#[test]
fn shapes_and_offsets_outside_the_storage_are_refused() {
    let huge = 1i64 << 60;
    let cases: [(i64, &[i64], &[i64], &str); 9] = [
        (0, &[17], &[1], "reaches outside a storage of 16 elements"),
        (8, &[9], &[1], "reaches outside"),
        (0, &[2, 2], &[15, 1], "reaches outside"),
        (0, &[huge], &[1], "reaches outside"),
        (0, &[huge, huge], &[1, 1], "larger than any memory"),
        (0, &[huge], &[0], "repeat their elements so often"),
        (huge, &[1], &[1], "reaches outside"),
        (-1, &[1], &[1], "incomplete"),
        (0, &[-1], &[1], "not a length"),
    ];
    for (offset, dims, strides, expected) in cases {
        let file = torch_zip(&dictionary(&[("w", tensor(offset, dims, strides))]), &[0; 64]);
        assert_refused(&file, expected);
    }
    let strides = torch_zip(&dictionary(&[("w", tensor(0, &[2, 2], &[2]))]), &[0; 64]);
    assert_refused(&strides, "f32[2,2] has 1 strides");
    let axes = torch_zip(&dictionary(&[("w", tensor(0, &[1; 65], &[1; 65]))]), &[0; 64]);
    assert_refused(&axes, "65 axes");
    let zero_by_huge = torch_zip(&dictionary(&[("w", tensor(0, &[0, huge, huge], &[0, 0, 0]))]), &[0; 64]);
    assert_refused(&zero_by_huge, "larger than any memory");
}

#[test]
fn many_repeated_tensors_do_not_add_up_to_a_bomb() {
    let entries: Vec<(String, Vec<u8>)> =
        (0..100).map(|index| (format!("w{index}"), tensor(0, &[64 << 10], &[0]))).collect();
    let entries: Vec<(&str, Vec<u8>)> = entries.iter().map(|(name, code)| (name.as_str(), code.clone())).collect();
    let (result, peak) = measured::peak_of(|| open(&torch_zip(&dictionary(&entries), &[0; 64])));
    assert!(result.unwrap_err().to_string().contains("repeat their elements so often"));
    assert!(peak < 3 * MEBI, "{peak}");
}

/// Bools are looked through and may have to be cleaned, which must not be repeated for one storage forever.
#[test]
fn many_bools_over_one_storage_do_not_add_up_to_a_bomb() {
    let record = tensor_of("BoolStorage", "0", 0, &[MEBI as i64], &[1]);
    let entries: Vec<(String, Vec<u8>)> = (0..100).map(|index| (format!("w{index}"), record.clone())).collect();
    let entries: Vec<(&str, Vec<u8>)> = entries.iter().map(|(name, code)| (name.as_str(), code.clone())).collect();
    let file = torch_zip(&dictionary(&entries), &vec![2; MEBI]);
    let (result, peak) = measured::peak_of(|| open(&file).map(|_| ()));
    assert!(result.unwrap_err().to_string().contains("repeat their elements so often"));
    assert!(peak < 8 * MEBI, "{peak}");
}

/// One long text, under which and as which a million entries are shown.
#[test]
fn long_texts_are_not_described_again_and_again() {
    let long = [text(&"a".repeat(MEBI)), b"q\x000}".to_vec()].concat();
    let entries = b"h\x00h\x00s".repeat(1_200_000);
    let weights = [text("state_dict"), b"}".to_vec(), text("w"), tensor(0, &[1], &[1]), b"ss".to_vec()].concat();
    let file = torch_zip(&[&long[..], &entries, &weights, b"."].concat(), &[0; 64]);
    let (result, peak) = measured::peak_of(|| open(&file).map(|_| ()));
    assert!(result.unwrap_err().to_string().contains("more and longer names than any network"));
    assert!(peak < 300 * MEBI, "{peak}");
}

#[test]
fn missing_storages_and_senseless_references_are_refused() {
    let file = zip(&[("x/data.pkl", &dictionary(&[("w", tensor(0, &[1], &[1]))]))]);
    assert_refused(&file, "its storage \"0\" is missing");
    let record = [b"ctorch._utils\n_rebuild_tensor_v2\n(", &text("storage")[..], b"QtR"].concat();
    assert_refused(&torch_zip(&dictionary(&[("w", record)]), &[]), "makes no sense");
}

#[test]
fn names_that_occur_twice_are_refused() {
    let entries = [("w", tensor(0, &[1], &[1])), ("w", tensor(0, &[1], &[1]))];
    assert_refused(&torch_zip(&dictionary(&entries), &[0; 64]), "\"w\" is in it twice");
}
