//! Files that mean harm. Each must end in one sentence, quickly, and without asking for much memory.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod forge;
mod measured;

use forge::{dictionary, integer, safetensors, tensor, tensor_of, text, torch_zip, zip, zip_with};
use octant_archive::pickle::globals::CONTAINERS;
use octant_archive::pickle::{self, Pickle, PickleError, PickleLimits};
use octant_archive::{Archive, ArchiveError};
use octant_tensor::{AlignedBytes, Bytes};
use std::path::Path;

#[global_allocator]
static ALLOCATOR: measured::Counting = measured::Counting;

const MEBI: usize = 1 << 20;

fn open(file: &[u8]) -> Result<Archive, ArchiveError> {
    Archive::from_bytes(Bytes::new(AlignedBytes::copy_of(file)), Path::new("x.pt"))
}

/// Opening fails with one sentence that contains `expected`, and without a large allocation.
fn assert_refused(file: &[u8], expected: &str) {
    let (result, peak) = measured::peak_of(|| open(file));
    let error = result.map(|archive| format!("{archive:?}")).unwrap_err().to_string();
    assert!(error.contains(expected), "expected {expected:?}, got {error:?}");
    assert!(error.starts_with("x.pt cannot be used: ") && error.lines().count() == 1 && error.len() < 600, "{error}");
    assert!(peak < 4 * file.len() + MEBI, "{peak} bytes for a file of {}", file.len());
}

fn parse(code: &[u8]) -> Result<Pickle, PickleError> {
    pickle::parse(&Bytes::new(code.to_vec()), CONTAINERS, PickleLimits::default()).map(|(pickle, _)| pickle)
}

// ---- code ----

#[test]
fn calls_of_foreign_functions_are_refused_in_every_spelling() {
    let argument = text("echo pwned");
    let spellings: [(&str, Vec<u8>); 6] = [
        ("os.system", [b"cos\nsystem\n", &argument[..], b"\x85R."].concat()),
        ("os.system", [&text("os")[..], &text("system"), b"\x93", &argument, b"\x85R."].concat()),
        ("os.system", [b"(", &argument[..], b"ios\nsystem\n."].concat()),
        ("os.system", [b"(cos\nsystem\n", &argument[..], b"o."].concat()),
        ("builtins.eval", [b"cbuiltins\neval\n", &argument[..], b"\x85R."].concat()),
        ("builtins.getattr", [b"cbuiltins\ngetattr\n", &argument[..], b"\x85\x81."].concat()),
    ];
    for (name, code) in spellings {
        assert_refused(&torch_zip(&code, &[]), &format!("it asks for `{name}`"));
    }
}

#[test]
fn a_dotted_name_does_not_reach_through_an_accepted_module() {
    let code = [&text("collections")[..], &text("OrderedDict.__init__.__globals__"), b"\x93."].concat();
    assert!(matches!(parse(&code), Err(PickleError::Forbidden { .. })));
    assert!(matches!(parse(b"ctorch\nload\n."), Err(PickleError::Forbidden { .. })));
}

#[test]
fn names_cannot_write_to_the_terminal() {
    let code = [b"c\x1b[31mos\n", "x".repeat(5000).as_bytes(), b"\n."].concat();
    assert_refused(&torch_zip(&code, &[]), "it asks for `\\u{1b}[31mos.xxx");
}

#[test]
fn accepted_names_are_records_and_not_calls() {
    let pickle = parse(b"cbuiltins\nset\n]\x85R.").unwrap();
    let object = pickle.root().as_object().unwrap();
    assert_eq!((object.module, object.name), ("builtins", "set"));
    assert!(matches!(parse(b"K\x01)R."), Err(PickleError::Damaged { .. })));
}

// ---- memory and time ----

/// Sixty lists, each holding the one before twice: 2^60 items for whoever walks it naively.
fn billion_laughs() -> Vec<u8> {
    let mut code = b"]q\x000".to_vec();
    for level in 0..60u8 {
        code.extend([b'(', b'h', level, b'h', level, b'l', b'q', level + 1, b'0']);
    }
    code.extend(b"h\x3c");
    code
}

#[test]
fn memo_bombs_stay_small() {
    let (pickle, peak) = measured::peak_of(|| parse(&[&billion_laughs()[..], b"."].concat()).unwrap());
    assert_eq!(pickle.root().items().unwrap().len(), 2);
    assert!(peak < MEBI / 4, "{peak}");
    assert_refused(&torch_zip(&[&billion_laughs()[..], b"."].concat(), &[]), "there are no tensors in it");
    let in_a_checkpoint = dictionary(&[("bomb", billion_laughs()), ("w", tensor(0, &[2], &[1]))]);
    let archive = open(&torch_zip(&in_a_checkpoint, &[0; 64])).unwrap();
    assert_eq!(archive.metadata, [("bomb".to_string(), "list of 2".to_string())]);
}

/// Dictionaries within dictionaries, each holding the one before nine times, around one tensor.
fn shared_dictionaries(levels: u8) -> Vec<u8> {
    let mut code = [b"}", &text("w")[..], &tensor(0, &[2], &[1]), b"sq\x00"].concat();
    for level in 0..levels {
        code.push(b'}');
        for entry in 0..9 {
            code.extend([text(&entry.to_string()), vec![b'h', level, b's']].concat());
        }
        code.extend([b'q', level + 1]);
    }
    torch_zip(&[&code[..], b"."].concat(), &[0; 64])
}

#[test]
fn dictionaries_shared_exponentially_often_are_refused() {
    assert_eq!(open(&shared_dictionaries(2)).unwrap().tensors.len(), 81);
    for levels in [7, 40] {
        let (result, peak) = measured::peak_of(|| open(&shared_dictionaries(levels)));
        let error = result.map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("more and longer names than any network"), "{error}");
        assert!(peak < 400 * MEBI, "{peak}");
    }
}

#[test]
fn values_that_contain_themselves_are_read_and_dropped() {
    let code = [b"}q\x00", &text("state_dict")[..], b"h\x00s."].concat();
    let pickle = parse(&code).unwrap();
    assert!(pickle.root().get("state_dict").unwrap().get("state_dict").is_some());
    assert_refused(&torch_zip(&code, &[]), "there are no tensors in it");
}

#[test]
fn deep_nesting_neither_reads_nor_drops_recursively() {
    let depth = 1_000_000;
    let tuples = [&b")"[..], &b"\x85".repeat(depth), b"."].concat();
    let lists = [&b"(".repeat(depth)[..], &b"l".repeat(depth), b"."].concat();
    // A small stack, so that recursion would be noticed.
    let reader = std::thread::Builder::new().stack_size(128 << 10);
    let work = move || [tuples, lists].map(|code| parse(&code).map(|pickle| format!("{pickle:?}")).unwrap());
    let shown = reader.spawn(work).unwrap().join().unwrap();
    assert_eq!(shown[0], "a pickled tuple of 1 (1000001 values)");
}

#[test]
fn long_chains_of_parameters_are_not_followed() {
    let mut code = tensor(0, &[2], &[1]);
    for _ in 0..100_000 {
        code = [&code[..], b"q\x01", b"0", b"ctorch._utils\n_rebuild_parameter\n(h\x01\x89NtR"].concat();
        if code.len() > 40_000 {
            break;
        }
    }
    let file = torch_zip(&dictionary(&[("w", code)]), &[0; 64]);
    assert_refused(&file, "there are no tensors in it");
}

#[test]
fn announced_lengths_cost_nothing() {
    for code in [
        &b"X\xff\xff\xff\xff"[..],
        b"\x8d\x00\x00\x00\x00\x00\x00\x00\x10",
        b"\x8e\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x96\xff\xff\xff\xff\xff\xff\xff\x7f",
        b"T\xff\xff\xff\xff",
        b"\x8b\xff\xff\xff\x7f",
        b"\x95\xff\xff\xff\xff\xff\xff\xff\xff.",
    ] {
        let (result, peak) = measured::peak_of(|| parse(code));
        assert!(matches!(result, Err(PickleError::Damaged { .. })), "{code:?}");
        assert!(peak < 64 << 10, "{peak}");
    }
}

#[test]
fn one_long_text_is_not_copied_again_and_again() {
    let long = text(&"a".repeat(MEBI));
    let again = b"c_codecs\nencode\nh\x00\x85R0".repeat(10_000);
    let bytes = [&long[..], b"q\x000", &again, b"N."].concat();
    let pairs = [b"(".to_vec(), b"]K\x01aK\x02a".repeat(100_000), b"lq\x000".to_vec()].concat();
    let dictionaries = [&pairs[..], &b"ccollections\nOrderedDict\nh\x00\x85R0".repeat(10_000), b"N."].concat();
    for code in [bytes, dictionaries] {
        let (result, peak) = measured::peak_of(|| parse(&code));
        assert!(matches!(result, Err(PickleError::TooLarge { .. })), "{result:?}");
        assert!(peak < 60 * MEBI, "{peak}");
    }
}

#[test]
fn too_many_values_and_too_many_instructions_are_refused() {
    let limits = PickleLimits { steps: 1000, values: 100 };
    let read =
        |code: Vec<u8>| pickle::parse(&Bytes::new(code), CONTAINERS, limits).map(|_| ()).unwrap_err().to_string();
    assert!(read(b"N0".repeat(500)).contains("more than 100 values"));
    assert!(read([&b"N"[..], &b"20".repeat(1000)].concat()).contains("more than 1000 instructions"));
}

#[test]
fn sparse_memo_indices_take_no_space_between() {
    let (result, peak) = measured::peak_of(|| parse(b"Nr\xff\xff\xff\xff0j\xff\xff\xff\xff."));
    assert!(result.unwrap().root().is_none() && peak < 64 << 10);
    assert!(parse(b"h\x00.").is_err());
    assert!(parse(b"Np99999999999999999999\n.").is_err());
}

// ---- tensors ----

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
fn many_truth_values_over_one_storage_do_not_add_up_to_a_bomb() {
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

// ---- zip files ----

#[test]
fn zip_slips_write_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("inner").join("x.pt");
    std::fs::create_dir(path.parent().unwrap()).unwrap();
    let pickle = dictionary(&[("w", tensor(0, &[2], &[1]))]);
    let escape =
        [("x/data.pkl", &pickle[..]), ("x/data/0", &[0; 64]), ("x/data/../../../escaped", b"1"), ("/escaped", b"2")];
    std::fs::write(&path, zip(&escape)).unwrap();
    assert_eq!(Archive::open(&path).unwrap().tensors.len(), 1);
    let entries: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(entries.len(), 1);
    assert!(!Path::new("/escaped").exists());
}

#[test]
fn other_zip_files_say_what_they_are() {
    let pickle = dictionary(&[("w", tensor(0, &[2], &[1]))]);
    assert_refused(&zip(&[("a.txt", b"x")]), "no data.pkl");
    assert_refused(&zip(&[("a/data.pkl", &pickle), ("b/data.pkl", &pickle)]), "more than one data.pkl");
    assert_refused(&zip(&[("x/data.pkl", &pickle), ("x/constants.pkl", b"")]), "TorchScript");
    let deflated = [("x/data.pkl", &pickle[..]), ("x/data/0", &[0; 1000])];
    assert_refused(&zip_with(&deflated, zip::CompressionMethod::Deflated), "compressed");
}

#[test]
fn big_endian_files_are_turned_round() {
    let elements: Vec<u8> = [1.5f32, -2.0].into_iter().flat_map(f32::to_be_bytes).collect();
    let pickle = dictionary(&[("w", tensor(0, &[2], &[1]))]);
    let file = zip(&[("x/data.pkl", &pickle), ("x/data/0", &elements), ("x/byteorder", b"big")]);
    assert_eq!(open(&file).unwrap().get("w").unwrap().elements::<f32>().unwrap(), [1.5, -2.0]);
}

// ---- safetensors ----

fn entry(name: &str, dtype: &str, shape: &str, from: u64, to: u64) -> String {
    format!(r#""{name}":{{"dtype":"{dtype}","shape":{shape},"data_offsets":[{from},{to}]}}"#)
}

#[test]
fn safetensors_offsets_must_cover_the_file_exactly() {
    let two = |first: String, second: String| safetensors(&format!("{{{first},{second}}}"), &[0; 8]);
    let a = || entry("a", "F32", "[1]", 0, 4);
    assert!(open(&two(a(), entry("b", "F32", "[1]", 4, 8))).is_ok());
    assert_refused(&two(a(), entry("b", "F32", "[1]", 2, 6)), "\"b\" overlaps another one");
    assert_refused(&two(a(), entry("b", "F32", "[1]", 0, 4)), "overlaps another one");
    assert_refused(&two(a(), entry("b", "U8", "[3]", 5, 8)), "leaves a hole before it (bytes 4 to 5)");
    assert_refused(&two(a(), entry("b", "F32", "[2]", 4, 12)), "reaches byte 12 of 8");
    assert_refused(&two(a(), entry("b", "F32", "[1]", 8, 4)), "ends before it begins");
    assert_refused(&two(a(), entry("b", "U8", "[2]", 4, 6)), "2 bytes after its last tensor");
    assert_refused(&two(a(), entry("a", "F32", "[1]", 4, 8)), "\"a\" is in it twice");
    assert_refused(&two(a(), entry("b", "F32", "[1]", 4, u64::MAX)), "reaches byte");
}

#[test]
fn safetensors_shapes_and_types_are_checked() {
    let one = |dtype: &str, shape: &str| safetensors(&format!("{{{}}}", entry("a", dtype, shape, 0, 4)), &[0; 4]);
    assert_refused(&one("F32", "[2]"), "does not take the 4 bytes");
    assert_refused(&one("F32", "[1152921504606846976]"), "does not take the 4 bytes");
    assert_refused(&one("F32", "[4294967296,4294967296,4294967296]"), "does not take the 4 bytes");
    assert_refused(&one("F32", "[-1]"), "its header: ");
    assert_refused(&one("F32", "[1e30]"), "its header: ");
    assert_refused(&one("F8_E4M3", "[4]"), "\"F8_E4M3\" are not supported");
    assert_refused(&one("F32", &format!("[{}1]", "1,".repeat(100))), "more than 64 axes");
}

#[test]
fn safetensors_headers_are_bounded() {
    let mut claim = u64::MAX.to_le_bytes().to_vec();
    claim.extend(b"{}");
    assert_refused(&claim, "its header claims 18446744073709551615 bytes");
    let mut beyond = 1000u64.to_le_bytes().to_vec();
    beyond.extend(b"{}");
    assert_refused(&beyond, "truncated");
    assert_refused(&safetensors(&format!("{{\"a\":{}", "[".repeat(MEBI)), &[]), "its header: ");
    let unknown = format!("{{\"a\":{{\"x\":{}", "{\"x\":".repeat(100_000));
    assert_refused(&safetensors(&unknown, &[]), "its header: ");
}

#[test]
fn truth_values_are_zero_or_one_after_reading() {
    let file = safetensors(&format!("{{{}}}", entry("a", "BOOL", "[4]", 0, 4)), &[0, 1, 2, 255]);
    assert_eq!(open(&file).unwrap().get("a").unwrap().bytes()[..], [0, 1, 1, 1]);
}

// ---- everything ----

#[test]
fn files_of_other_kinds_say_what_they_are() {
    let cases: [(&[u8], &str); 7] = [
        (b"", "it is empty"),
        (b"<!doctype html><html>", "web page"),
        (b"version https://git-lfs.github.com/spec/v1", "Git LFS pointer"),
        (b"\x1f\x8b\x08", "gzip"),
        (b"\x80\x04N.", "not one that torch.save wrote"),
        (b"\x89HDF\r\n\x1a\n", "HDF5"),
        (b"?", "format is unknown"),
    ];
    for (file, expected) in cases {
        assert_refused(file, expected);
    }
    let folder = tempfile::tempdir().unwrap();
    let error = Archive::open(folder.path()).unwrap_err().to_string();
    assert!(error.contains("it is a folder"), "{error}");
    let missing = Archive::open(&folder.path().join("x.pt")).unwrap_err();
    assert!(matches!(missing, ArchiveError::Io { action: "read", .. }));
}

#[test]
fn every_truncation_of_every_golden_file_is_refused() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden");
    for name in ["types.pt", "types.legacy.pt", "views.legacy.pt", "checkpoint.pth", "types.safetensors"] {
        let whole = std::fs::read(folder.join(name)).unwrap();
        assert!(open(&whole).is_ok());
        for len in 0..whole.len() {
            let (result, peak) = measured::peak_of(|| open(&whole[..len]));
            let error = result.map(|_| format!("{name} of {len} bytes was read")).unwrap_err().to_string();
            assert!(error.lines().count() == 1 && peak < MEBI, "{error}: {peak}");
        }
    }
}

#[test]
fn integers_and_stack_tricks() {
    assert_eq!(parse(&[&integer(-7)[..], b"."].concat()).unwrap().root().as_int(), Some(-7));
    assert_eq!(parse(b"\x8a\x00.").unwrap().root().as_int(), Some(0));
    assert_eq!(parse(b"\x8a\x01\x80.").unwrap().root().as_int(), Some(-128));
    for broken in [
        &b"."[..],
        b"0.",
        b"1.",
        b"(.",
        b"t.",
        b"a.",
        b"]a.",
        b"Na.",
        b"K\x01K\x02s.",
        b"}K\x01s.",
        b"(K\x01d.",
        b"R.",
        b"b.",
    ] {
        assert!(matches!(parse(broken), Err(PickleError::Damaged { .. })), "{broken:?}");
    }
    // A mark fences off what lies below it.
    assert!(parse(b"N(0N.").is_ok());
    assert!(parse(b"N(N00.").is_ok());
    assert!(parse(b"N(Q.").is_err());
    assert!(parse(b"\x80\x06N.").is_err());
    assert!(parse(b"\x82\x01.").is_err());
    assert!(parse(b"\x97.").is_err());
}
