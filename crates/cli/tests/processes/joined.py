"""Loads a checkpoint of several processes with PyTorch's distributed checkpoints, and writes it as one file.

    python joined.py FOLDER FILE
"""

import sys

import torch
from safetensors.torch import save_file
from torch.distributed.checkpoint import load
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader

reader = HuggingFaceStorageReader(sys.argv[1])
described = reader.read_metadata().state_dict_metadata
state = {name: torch.empty(part.size, dtype=part.properties.dtype) for name, part in described.items()}
load(state, storage_reader=reader, no_dist=True)
save_file(state, sys.argv[2])
