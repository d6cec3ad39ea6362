"""Writes the golden files next to this script with NumPy itself; `golden.rs` says what they hold.

    python make.py
"""

import os

import numpy

HERE = os.path.dirname(os.path.abspath(__file__))
counting = numpy.arange(6).reshape(2, 3)

numpy.save(os.path.join(HERE, "c_order.npy"), counting.astype("<f4"))
numpy.save(os.path.join(HERE, "fortran_big_endian.npy"), numpy.asfortranarray(counting.astype(">f8")))
numpy.save(os.path.join(HERE, "truth.npy"), counting % 2 == 0)
numpy.save(os.path.join(HERE, "scalar.npy"), numpy.float16(1.5))
for version in (2, 3):
    with open(os.path.join(HERE, f"version{version}.npy"), "wb") as file:
        numpy.lib.format.write_array(file, counting.astype("<i8"), version=(version, 0))
numpy.savez(os.path.join(HERE, "stored.npz"), a=counting.astype("u1"), b=counting.astype("<u4"))
numpy.savez_compressed(os.path.join(HERE, "compressed.npz"), a=counting.astype("u1"), zeros=numpy.zeros(1000))
