//! From the records in a PyTorch pickle to tensors.

use crate::error::Fault;
use crate::numpy;
use crate::pickle::{Object, PickleValue};
use crate::source::Source;
use octant_tensor::{Bytes, DType, HostTensor, Shape, swap_byte_order};
use std::collections::HashMap;
use std::ops::Range;

/// What a storage is made of: numbers of one type, or bytes whose type stands with each tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StorageElement {
    Typed(DType),
    Untyped,
    /// Pairs of floats and the like: known to exist, not known to Octant.
    Foreign(&'static str, usize),
}

/// PyTorch's classes of storages and what their elements are here.
const CLASSES: [(&str, DType); 10] = [
    ("BFloat16Storage", DType::BF16),
    ("BoolStorage", DType::Bool),
    ("ByteStorage", DType::U8),
    ("CharStorage", DType::I8),
    ("DoubleStorage", DType::F64),
    ("FloatStorage", DType::F32),
    ("HalfStorage", DType::F16),
    ("IntStorage", DType::I32),
    ("LongStorage", DType::I64),
    ("ShortStorage", DType::I16),
];

/// The class of a storage of such elements.
pub(super) fn class_of(dtype: DType) -> Option<&'static str> {
    CLASSES.iter().find(|(_, known)| *known == dtype).map(|(class, _)| *class)
}

impl StorageElement {
    fn of_class(class: &'static str) -> Option<StorageElement> {
        match class {
            "UntypedStorage" => Some(StorageElement::Untyped),
            "ComplexFloatStorage" => Some(StorageElement::Foreign("complex64", 8)),
            "ComplexDoubleStorage" => Some(StorageElement::Foreign("complex128", 16)),
            _ => CLASSES.iter().find(|(known, _)| *known == class).map(|(_, dtype)| StorageElement::Typed(*dtype)),
        }
    }

    pub fn size(self) -> usize {
        match self {
            StorageElement::Typed(dtype) => dtype.size(),
            StorageElement::Untyped => 1,
            StorageElement::Foreign(_, size) => size,
        }
    }
}

/// The element type that PyTorch calls `torch.NAME`.
fn dtype_of_torch(name: &str) -> Option<DType> {
    Some(match name {
        "bool" => DType::Bool,
        "uint8" => DType::U8,
        "int8" => DType::I8,
        "uint16" => DType::U16,
        "int16" => DType::I16,
        "uint32" => DType::U32,
        "int32" => DType::I32,
        "uint64" => DType::U64,
        "int64" => DType::I64,
        "float16" => DType::F16,
        "bfloat16" => DType::BF16,
        "float32" => DType::F32,
        "float64" => DType::F64,
        _ => return None,
    })
}

/// Keys are counters in zip files and addresses in legacy ones.
const LONGEST_KEY: usize = 256;

/// A reference to a storage: `('storage', class, key, location, count)`, in legacy files with a part of it at the end.
pub(super) struct Stored<'a> {
    pub element: StorageElement,
    pub key: &'a str,
    /// First element of the part, when the reference is to a part.
    first: usize,
}

impl<'a> Stored<'a> {
    pub fn from_id(id: PickleValue<'a>) -> Result<Stored<'a>, Fault> {
        let unknown = || Fault::damaged("a reference to a storage makes no sense");
        let part = |index| id.item(index).ok_or_else(unknown);
        if part(0)?.as_bytes().is_none_or(|kind| kind[..] != *b"storage") {
            return Err(unknown());
        }
        let (_, class) = part(1)?.as_global().ok_or_else(unknown)?;
        let element = StorageElement::of_class(class).ok_or_else(unknown)?;
        let key = part(2)?.as_bytes().filter(|key| key.len() <= LONGEST_KEY).ok_or_else(unknown)?;
        let key = std::str::from_utf8(key).map_err(|_| unknown())?;
        let first = match id.item(5) {
            Some(view) if !view.is_none() => view.item(1).and_then(PickleValue::as_usize).ok_or_else(unknown)?,
            _ => 0,
        };
        Ok(Stored { element, key, first })
    }

    /// Where the part begins, counted in elements of `dtype`.
    fn first_of(&self, dtype: DType) -> Option<usize> {
        let bytes = self.first.checked_mul(self.element.size())?;
        bytes.is_multiple_of(dtype.size()).then(|| bytes / dtype.size())
    }
}

/// The record of a tensor.
struct Description<'a> {
    stored: Stored<'a>,
    shape: Shape,
    /// In elements of the shape's type, from the start of the storage.
    offset: usize,
    strides: Vec<usize>,
}

/// The storages of a file, by key.
pub(super) struct Storages<'a> {
    source: &'a Source,
    positions: HashMap<String, Range<usize>>,
    swapped: bool,
    /// Storages that had to be copied as a whole, because they are misaligned or in the other byte order.
    copies: HashMap<(String, usize), Bytes>,
    /// Where elements lie while they are rearranged; one for all, because a block per tensor would leave gaps behind.
    scratch: Vec<u8>,
    /// Strides of zero let a small file describe huge tensors, and many tensors may share one storage, so what is copied
    /// (or looked through, for bools) is bounded by the file's size.
    copy_allowance: usize,
}

impl<'a> Storages<'a> {
    pub fn new(source: &'a Source, positions: HashMap<String, Range<usize>>, big_endian: bool) -> Storages<'a> {
        let swapped = big_endian != cfg!(target_endian = "big");
        let copy_allowance = source.len().saturating_mul(4).saturating_add(1 << 20);
        Storages { source, positions, swapped, copies: HashMap::new(), scratch: Vec::new(), copy_allowance }
    }

    /// The tensor that a value stands for; `None` when it stands for something else.
    pub fn tensor(&mut self, value: PickleValue) -> Result<Option<HostTensor>, Fault> {
        match tensor_record(value) {
            Some((name, args)) => self.materialize(describe(name, args)?).map(Some),
            None => Ok(None),
        }
    }

    fn materialize(&mut self, wanted: Description) -> Result<HostTensor, Fault> {
        let Description { stored, shape, offset, strides } = wanted;
        let position = self.positions.get(stored.key).cloned();
        let position = position.ok_or_else(|| Fault::Damaged(format!("its storage {:?} is missing", stored.key)))?;
        let len = shape.checked_bytes().ok_or_else(|| Fault::Damaged(format!("{shape} is larger than any memory")))?;
        if strides.len() != shape.rank() {
            return Err(Fault::Damaged(format!("{shape} has {} strides", strides.len())));
        }
        let size = shape.dtype().size();
        let mapped = self.source.window(position.clone())?;
        let usable_as_it_is = !self.swapped && mapped.as_ptr().align_offset(size) == 0;
        let storage = if usable_as_it_is { mapped } else { self.copied(stored.key, position.clone(), size)? };
        let row_major = shape.is_row_major(&strides);
        if !row_major || shape.dtype() == DType::Bool {
            self.spend(len)?;
        }
        let window = if usable_as_it_is && !row_major { window_of(&shape, &strides, offset, &position) } else { None };
        let tensor = match window {
            Some(window) => {
                self.scratch.resize(window.len(), 0);
                self.source.read(window.start, &mut self.scratch)?;
                HostTensor::copy_strided(shape, &self.scratch, 0, &strides)?
            }
            None => HostTensor::from_strides(shape, &storage, offset, &strides)?,
        };
        Ok(tensor.with_normalized_bools())
    }

    fn copied(&mut self, key: &str, position: Range<usize>, size: usize) -> Result<Bytes, Fault> {
        let cached = (key.to_string(), if self.swapped { size } else { 0 });
        if let Some(copy) = self.copies.get(&cached) {
            return Ok(copy.clone());
        }
        self.spend(position.len())?;
        let mut copy = self.source.copy(position)?;
        if self.swapped {
            swap_byte_order(&mut copy, size);
        }
        let copy = Bytes::new(copy);
        self.copies.insert(cached, copy.clone());
        Ok(copy)
    }

    fn spend(&mut self, bytes: usize) -> Result<(), Fault> {
        let left = self.copy_allowance.checked_sub(bytes);
        self.copy_allowance = left.ok_or_else(|| {
            Fault::damaged("its tensors repeat their elements so often that they are many times the size of the file")
        })?;
        Ok(())
    }
}

/// The part of the file that a view with gaps lies in, when reading it costs little more than the view itself. It is
/// read into the scratch memory, while mapped pages would stay in memory next to the tensor.
fn window_of(shape: &Shape, strides: &[usize], offset: usize, position: &Range<usize>) -> Option<Range<usize>> {
    let size = shape.dtype().size();
    let span = shape.strided_span(strides).filter(|span| span / 4 <= shape.elements())?;
    let start = position.start.checked_add(offset.checked_mul(size)?)?;
    let end = start.checked_add(span.checked_mul(size)?)?;
    (end <= position.end).then_some(start..end)
}

/// The record of a plain tensor, out of the parameter or subclass it may be wrapped in: its function and arguments.
pub(super) fn tensor_record(value: PickleValue) -> Option<(&'static str, PickleValue)> {
    const DEEPEST_WRAPPING: usize = 4;
    let Object { mut name, mut args, .. } = value.as_object()?;
    for _ in 0..DEEPEST_WRAPPING {
        match name {
            "_rebuild_tensor" | "_rebuild_tensor_v2" | "_rebuild_tensor_v3" => return Some((name, args)),
            "_rebuild_parameter" | "_rebuild_parameter_with_state" => {
                Object { name, args, .. } = args.item(0)?.as_object()?;
            }
            // The arguments are (function, class, arguments, state).
            "_rebuild_from_type_v2" => (name, args) = (args.item(0)?.as_global()?.1, args.item(2)?),
            _ => return None,
        }
    }
    None
}

/// Arguments: (storage, offset, shape, strides, requires_grad, hooks), in version 3 followed by the element type.
fn describe<'a>(name: &str, args: PickleValue<'a>) -> Result<Description<'a>, Fault> {
    let incomplete = || Fault::damaged("the record of a tensor is incomplete");
    let part = |index| args.item(index).ok_or_else(incomplete);
    let stored = Stored::from_id(part(0)?.as_persistent().ok_or_else(incomplete)?)?;
    let dtype = if name == "_rebuild_tensor_v3" {
        let (_, name) = part(6)?.as_global().ok_or_else(incomplete)?;
        dtype_of_torch(name).ok_or_else(|| unsupported(name))?
    } else {
        match stored.element {
            StorageElement::Typed(dtype) => dtype,
            StorageElement::Foreign(name, _) => return Err(unsupported(name)),
            StorageElement::Untyped => return Err(incomplete()),
        }
    };
    let offset = part(1)?.as_usize().and_then(|offset| offset.checked_add(stored.first_of(dtype)?));
    let offset = offset.ok_or_else(incomplete)?;
    let shape = Shape::new(dtype, numpy::dims(size_tuple(part(2)?))?);
    let strides = numpy::dims(size_tuple(part(3)?))?;
    Ok(Description { stored, shape, offset, strides })
}

fn unsupported(name: &str) -> Fault {
    Fault::Damaged(format!(
        "elements of type {name} are not supported; convert them in PyTorch, for example to float32"
    ))
}

/// A shape is a tuple or a `torch.Size` made from one.
fn size_tuple(value: PickleValue) -> PickleValue {
    match value.as_object() {
        Some(Object { name: "Size", args, .. }) => args.item(0).unwrap_or(value),
        _ => value,
    }
}
