//! Containers: zip, safetensors, and files of other kinds.

use super::*;

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
fn big_endian_files_are_byte_swapped() {
    let elements: Vec<u8> = [1.5f32, -2.0].into_iter().flat_map(f32::to_be_bytes).collect();
    let pickle = dictionary(&[("w", tensor(0, &[2], &[1]))]);
    let file = zip(&[("x/data.pkl", &pickle), ("x/data/0", &elements), ("x/byteorder", b"big")]);
    assert_eq!(open(&file).unwrap().get("w").unwrap().elements::<f32>().unwrap(), [1.5, -2.0]);
}

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
fn bools_are_zero_or_one_after_reading() {
    let file = safetensors(&format!("{{{}}}", entry("a", "BOOL", "[4]", 0, 4)), &[0, 1, 2, 255]);
    assert_eq!(open(&file).unwrap().get("a").unwrap().bytes()[..], [0, 1, 1, 1]);
}

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
