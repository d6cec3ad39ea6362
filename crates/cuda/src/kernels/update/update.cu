// The same statements for every element of many arrays: what an optimizer does to all small variables of a network.
//
// ARRAYS belong to every variable and SCALARS to all of them; STATEMENTS read and write `arrays[0][i]` and so on.

#include "element.h"

#define THREADS 256
#define EACH 4

// The addresses of the scalars; then for every variable those of its arrays, and a word with the number of elements below
// and the number of the first block behind it above.
struct Table {
    unsigned long long words[WORDS];
};

extern "C" __global__ void octant_update(const __grid_constant__ Table table, int count) {
    const unsigned long long *scalars = table.words;
    const auto variable = [&](int index) { return table.words + SCALARS + index * (ARRAYS + 1); };
    const auto end = [&](int index) { return (int)(variable(index)[ARRAYS] >> 32); };
    const int block = blockIdx.x;
    int mine = 0;
    for (int last = count - 1; mine < last;) {
        const int middle = (mine + last) / 2;
        if (end(middle) > block) last = middle;
        else mine = middle + 1;
    }
    const int elements = (int)variable(mine)[ARRAYS];
    const int first = (block - (mine ? end(mine - 1) : 0)) * THREADS * EACH;
    float *arrays[ARRAYS];
    for (int k = 0; k < ARRAYS; k++) arrays[k] = (float *)variable(mine)[k];
#pragma unroll
    for (int k = 0; k < EACH; k++) {
        const int i = first + k * THREADS + threadIdx.x;
        if (i < elements) { STATEMENTS }
    }
}
