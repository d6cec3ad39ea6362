"""Loads saved detectors into Ultralytics' networks, strictly, and compares the outputs with the golden figures:

    pip install torch safetensors ultralytics==8.4.190
    python load_detectors.py NAME FILE [NAME FILE ...]

The files come from the test `saved_detectors_load_strictly`. The package is called, not read.
"""
import os, sys
import torch
from safetensors.torch import load_file

import detectors, make

TOLERANCE = 1e-5


def check(name, path):
    reference = detectors.MODELS[name]()
    reference.model.load_state_dict(load_file(path), strict=True)
    reference.model.double().eval()
    outputs = reference.outputs(make.images(name, 3, reference.side, detectors.SEED))
    with open(os.path.join(make.HERE, 'figures', name + '.txt')) as file:
        stored = [line.split() for line in file if line.startswith('evaluate output')]
    for number, (output, words) in enumerate(zip(outputs, stored, strict=True)):
        expected = [float(word) for word in words[2:]]
        actual = [float(word) for word in make.line('evaluate', f'output{number}', output, 8).split()[2:]]
        # Size, sum, norm and elements, all relative to what a typical element contributes.
        typical = expected[2] / expected[0] ** 0.5
        scales = [1, typical * expected[0], expected[2], *[typical] * (len(expected) - 3)]
        for a, e, scale in zip(actual, expected, scales, strict=True):
            if abs(a - e) > TOLERANCE * scale:
                sys.exit(f'{name}: the reference gives {actual}, not {expected}')
    print(f'{name}: loaded strictly, same output')


if __name__ == '__main__':
    arguments = sys.argv[1:]
    for name, path in zip(arguments[::2], arguments[1::2]):
        check(name, path)
