//! Pickles: foreign code, memory and time.

use super::*;

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
        assert_refused(&torch_zip(&code, &[]), &format!("it calls `{name}`"));
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
    assert_refused(&torch_zip(&code, &[]), "it calls `\\u{1b}[31mos.xxx");
}

#[test]
fn accepted_names_are_records_and_not_calls() {
    let pickle = parse(b"cbuiltins\nset\n]\x85R.").unwrap();
    let object = pickle.root().as_object().unwrap();
    assert_eq!((object.module, object.name), ("builtins", "set"));
    assert!(matches!(parse(b"K\x01)R."), Err(PickleError::Damaged { .. })));
}

/// Sixty lists, each holding the one before twice: 2^60 items for a naive traversal.
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
