"""Loads saved files into their references, strictly, and compares the outputs with the golden figures:

    python load_saved.py NAME FILE [NAME FILE ...]

The files come from the test `saved_files_load_strictly`. torch, torchvision, timm and safetensors must be installed.
"""
import os, sys
import torch
from safetensors.torch import load_file

import make
from mshnet import MSHNet

TOLERANCE = 1e-6


def model_of(name):
    if name == 'mshnet':
        return MSHNet()
    return {**make.TINY, **make.REAL}[name][0]()


def outputs(name, model, batch, side):
    answer = model(make.images(name, batch, side))
    return answer[1] if name == 'mshnet' else answer


def stored(name):
    with open(os.path.join(make.HERE, 'figures', name + '.txt')) as file:
        lines = [line.split() for line in file]
    sizes = {words[1]: int(words[2]) for words in lines if words[0] == 'size'}
    figure = next(words for words in lines if words[:2] == ['evaluate', 'output'])
    return sizes['batch'], sizes['side'], [float(word) for word in figure[2:]]


def check(name, path):
    batch, side, expected = stored(name)
    model = model_of(name)
    state = torch.load(path, weights_only=True) if path.endswith('.pth') else load_file(path)
    model.load_state_dict(state, strict=True)
    model.double().eval()
    with torch.no_grad():
        output = outputs(name, model, batch, side)
    actual = [float(word) for word in make.line('evaluate', 'output', output).split()[2:]]
    # Size, sum, norm and elements, all relative to what a typical element contributes.
    typical = expected[2] / expected[0] ** 0.5
    scales = [1, typical * expected[0], expected[2], *[typical] * (len(expected) - 3)]
    for a, e, scale in zip(actual, expected, scales):
        if abs(a - e) > TOLERANCE * scale:
            sys.exit(f'{name}: the reference gives {actual}, not {expected}')
    print(f'{name}: loaded strictly, same output')


if __name__ == '__main__':
    arguments = sys.argv[1:]
    for name, path in zip(arguments[::2], arguments[1::2]):
        check(name, path)
