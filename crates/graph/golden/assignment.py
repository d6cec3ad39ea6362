"""Golden totals of assignments, from scipy:

    pip install numpy scipy
    python assignment.py

Writes `assignment.bin`: the lowest total cost of 10,000 matrices as f32, little-endian. The test repeats the matrices.
"""
import os
import numpy as np
from scipy.optimize import linear_sum_assignment

HERE = os.path.dirname(os.path.abspath(__file__))


def matrix(number):
    """As in the test: a number per entry from SplitMix64, a fifth of the matrices with ties."""
    rows = 1 + number % 12
    columns = rows + number // 12 % 20
    z = np.arange(rows * columns, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(number)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    unit = ((z ^ (z >> np.uint64(31))) >> np.uint64(40)).astype(np.float64) / (1 << 24)
    values = np.floor(unit * 5) if number % 5 == 0 else 10 * unit - 5
    return np.float32(values).reshape(rows, columns)


totals = []
for number in range(10_000):
    costs = matrix(number)
    rows, columns = linear_sum_assignment(costs)
    totals.append(costs[rows, columns].astype(np.float64).sum())
np.array(totals, dtype='<f4').tofile(os.path.join(HERE, 'assignment.bin'))
