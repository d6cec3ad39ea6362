//! The instructions of pickle protocols 0 to 5, under the names that Python's `pickletools` gives them.

macro_rules! opcodes {
    ($($name:ident $code:literal,)*) => { $(pub const $name: u8 = $code;)* };
}

// Framing.
opcodes! {
    PROTO 0x80, FRAME 0x95, STOP b'.',
}
// Constants and numbers.
opcodes! {
    NONE b'N', NEWTRUE 0x88, NEWFALSE 0x89, INT b'I', BININT b'J', BININT1 b'K', BININT2 b'M', LONG b'L', LONG1 0x8a,
    LONG4 0x8b, FLOAT b'F', BINFLOAT b'G',
}
// Bytes and texts.
opcodes! {
    STRING b'S', BINSTRING b'T', SHORT_BINSTRING b'U', BINBYTES b'B', SHORT_BINBYTES b'C', BINBYTES8 0x8e,
    BYTEARRAY8 0x96, UNICODE b'V', BINUNICODE b'X', SHORT_BINUNICODE 0x8c, BINUNICODE8 0x8d,
}
// Containers.
opcodes! {
    EMPTY_LIST b']', LIST b'l', APPEND b'a', APPENDS b'e', EMPTY_TUPLE b')', TUPLE b't', TUPLE1 0x85, TUPLE2 0x86,
    TUPLE3 0x87, EMPTY_DICT b'}', DICT b'd', SETITEM b's', SETITEMS b'u', EMPTY_SET 0x8f, ADDITEMS 0x90,
    FROZENSET 0x91,
}
// The stack.
opcodes! {
    MARK b'(', POP b'0', POP_MARK b'1', DUP b'2',
}
// The memo.
opcodes! {
    GET b'g', BINGET b'h', LONG_BINGET b'j', PUT b'p', BINPUT b'q', LONG_BINPUT b'r', MEMOIZE 0x94,
}
// Globals and objects.
opcodes! {
    GLOBAL b'c', STACK_GLOBAL 0x93, REDUCE b'R', BUILD b'b', INST b'i', OBJ b'o', NEWOBJ 0x81, NEWOBJ_EX 0x92,
    PERSID b'P', BINPERSID b'Q',
}
// Known but not supported: extension registries (up to `EXT4`) and buffers outside the file.
opcodes! {
    EXT1 0x82, EXT4 0x84, NEXT_BUFFER 0x97, READONLY_BUFFER 0x98,
}
