// What kernels share whose work programs write as C: the size of the table with which they are told where everything lies, which is
// as much as a kernel's parameters may hold on every GPU, and what the text may use beyond the language.

#define WORDS 500

#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
