"""Loads a file saved by `cargo run -p octant-zoo --example save_deterministic -- NAME FILE` into the reference, strictly, and
compares its output with the golden figure: python load_saved.py NAME FILE (same set-up as make.py).
"""
import os, sys
import torch
from safetensors.torch import load_file

name, path = sys.argv[1:3]
sys.argv = ['make.py', 'nothing']
import make

table = {**make.TINY, **make.REAL}
case = make.Case(name, table[name])
with torch.no_grad():
    for tensor in case.model.parameters():
        tensor.zero_()
case.model.load_state_dict(load_file(path), strict=True)
case.model.double().eval()
with torch.no_grad():
    actual = make.line('evaluate', 'output', case.outputs()[0])
with open(os.path.join(make.HERE, 'figures', name + '.txt')) as file:
    expected = next(line.strip() for line in file if line.startswith('evaluate output'))
if actual != expected:
    sys.exit(f'{name}: the reference gives {actual}, not {expected}')
print(f'{name}: loaded strictly, same output')
