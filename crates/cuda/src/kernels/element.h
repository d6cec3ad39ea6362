// Shared by kernels whose body is generated as C: the size of the table of pointers and sizes that they receive, which is
// as much as kernel parameters may hold on every GPU, and the functions that the generated text may call.

#define WORDS 500

#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
