//! The names that a pickle may mention. None of them is ever called: they are labels on records.

/// The accepted names of one Python module.
pub type Globals = (&'static str, &'static [&'static str]);

const BUILTINS: &[&str] = &["bytearray", "complex", "dict", "float", "frozenset", "int", "list", "set", "tuple"];

/// Python's own containers, and the function that Python 3 uses to store bytes in old protocols.
pub const CONTAINERS: &[Globals] = &[
    ("collections", &["OrderedDict", "Counter", "defaultdict"]),
    ("builtins", BUILTINS),
    ("__builtin__", BUILTINS),
    ("_codecs", &["encode"]),
];

/// Arrays and scalars of NumPy 1 and 2.
pub const NUMPY: &[Globals] = &[
    ("numpy", &["ndarray", "dtype"]),
    ("numpy.core.multiarray", &["_reconstruct", "scalar"]),
    ("numpy._core.multiarray", &["_reconstruct", "scalar"]),
    ("numpy.core.numeric", &["_frombuffer"]),
    ("numpy._core.numeric", &["_frombuffer"]),
];

/// The storage classes, named after C types.
const STORAGES: &[&str] = &[
    "BFloat16Storage",
    "BoolStorage",
    "ByteStorage",
    "CharStorage",
    "DoubleStorage",
    "FloatStorage",
    "HalfStorage",
    "IntStorage",
    "LongStorage",
    "ShortStorage",
    "ComplexDoubleStorage",
    "ComplexFloatStorage",
    "UntypedStorage",
];

/// Tensors, parameters, their storages, and what describes them.
pub const TORCH: &[Globals] = &[
    ("torch", STORAGES),
    ("torch.cuda", STORAGES),
    ("torch.storage", &["UntypedStorage", "TypedStorage"]),
    (
        "torch._utils",
        &[
            "_rebuild_tensor",
            "_rebuild_tensor_v2",
            "_rebuild_tensor_v3",
            "_rebuild_parameter",
            "_rebuild_parameter_with_state",
        ],
    ),
    ("torch._tensor", &["_rebuild_from_type_v2"]),
    ("torch.nn.parameter", &["Parameter", "Buffer"]),
    ("torch", &["Tensor", "Size", "device", "strided", "contiguous_format", "channels_last"]),
    (
        "torch",
        &[
            "bool",
            "uint8",
            "int8",
            "uint16",
            "int16",
            "uint32",
            "int32",
            "uint64",
            "int64",
            "float16",
            "bfloat16",
            "float32",
            "float64",
            "complex64",
            "complex128",
            "float8_e4m3fn",
            "float8_e5m2",
        ],
    ),
];

/// What stands for every name that is not listed where such names are kept ([`super::parse_with_foreign`]).
pub const FOREIGN: (&str, &str) = ("", "a class of the file's own");

/// The entry for `module.name`, when one of the lists has it.
pub(super) fn find(globals: &[Globals], module: &str, name: &str) -> Option<(&'static str, &'static str)> {
    let of_module = globals.iter().filter(|(known, _)| *known == module);
    of_module.flat_map(|&(module, names)| names.iter().map(move |&known| (module, known))).find(|entry| entry.1 == name)
}
