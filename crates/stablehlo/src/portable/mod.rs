//! Programs as portable artifacts: VHLO 1.0 in MLIR's bytecode.
//!
//! VHLO is StableHLO with versions: names and attributes of an operation never change, so that compilers read such files for
//! years, while the text may change with every release. The bytecode is a list of sections; operations refer to attributes, types
//! and strings by index. Both are written here without LLVM: `operations` says what VHLO calls an operation, `attributes` and
//! `tables` encode what it refers to, `writer` the operations themselves.

mod attributes;
mod encoding;
mod operations;
mod read;
mod tables;
mod writer;

use crate::operation::Function;
use crate::{LowerError, types};
use attributes::builtin;
use encoding::Encoder;
use octant_runtime::Program;
pub use read::portable_metadata;
use writer::Writer;

const MAGIC: &[u8] = b"ML\xEFR";
/// The version of the bytecode that belongs to StableHLO 1.0.
const VERSION: u64 = 6;
const PRODUCER: &str = "StableHLO_v1.0.0";

/// The file of a module: `@main` and the functions that it calls.
pub fn write(
    program: &Program,
    main: &Function,
    called: &[Function],
    metadata: &[(String, String)],
) -> Result<Vec<u8>, LowerError> {
    let refused = |what: &str, reason| {
        let layer = program.name.clone();
        Err(LowerError::NotPortable { what: what.into(), layer, reason })
    };
    if program.mesh.devices() > 1 {
        return refused("a program over several devices", "portable programs are for one device");
    }
    if !program.donated.is_empty() {
        return refused("a donated input", "whether an input is donated is up to the program's caller");
    }
    let mut writer = Writer::default();
    let one = builtin::i32(&mut writer.tables, 1);
    let mut entries = vec![("mhlo.num_partitions".to_string(), one), ("mhlo.num_replicas".to_string(), one)];
    for (key, value) in metadata {
        entries.push((key.clone(), builtin::string(&mut writer.tables, value)));
    }
    let functions: Vec<&Function> = std::iter::once(main).chain(called).collect();
    let operations = writer.module(&types::symbol(&program.name, "program"), entries, &functions)?;
    let mut file = Encoder(MAGIC.to_vec());
    file.varint(VERSION).0.extend(PRODUCER.as_bytes());
    file.byte(0);
    writer.tables.write(&mut file, &operations);
    Ok(file.0)
}
