// What the C text of programs may use beyond the language.

#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
