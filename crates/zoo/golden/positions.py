"""Position embeddings as timm interpolates them: writes figures/positions.txt, one line per pair of grids.

    python positions.py

The embeddings are sin(1 + 0.37 i) for element i of [grid², 3]; of the result every seventh element is kept.
"""
import os

import torch
from timm.layers import resample_abs_pos_embed

HERE = os.path.dirname(os.path.abspath(__file__))
FEATURES = 3
GRIDS = [(37, (16, 16)), (14, (9, 20)), (16, (16, 16)), (7, (37, 5)), (37, (37, 38))]

lines = []
for grid, size in GRIDS:
    count = grid * grid * FEATURES
    given = torch.sin(1 + 0.37 * torch.arange(count, dtype=torch.float64)).reshape(1, grid * grid, FEATURES)
    made = resample_abs_pos_embed(given.float(), list(size), [grid, grid], num_prefix_tokens=0)
    kept = made.flatten()[::7].double().tolist()
    lines.append(f'{grid} {size[0]} {size[1]} ' + ' '.join(f'{value:.8g}' for value in kept))
with open(os.path.join(HERE, 'figures', 'positions.txt'), 'w') as file:
    file.write('\n'.join(lines) + '\n')
