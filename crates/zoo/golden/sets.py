"""Golden figures of detectors that predict sets of boxes, RT-DETRv2 and D-FINE of transformers, with weights that are a function of
name and index (see `make.py`), in double precision:

    pip install torch transformers scipy
    python sets.py

Writes `figures/sets.json`: what the small networks predict of two images, the loss and the gradient of every parameter after a
forward pass in training without noisy objects, and the parameters and keys of the published sizes.
"""
import json, os
import numpy as np
import torch
from transformers import DFineConfig, DFineForObjectDetection, RTDetrV2Config, RTDetrV2ForObjectDetection
from transformers.models.hgnet_v2.configuration_hgnet_v2 import HGNetV2Config
from transformers.models.rt_detr.configuration_rt_detr_resnet import RTDetrResNetConfig

HERE = os.path.dirname(os.path.abspath(__file__))
MASK = (1 << 64) - 1
CLASSES, SIDE = 10, 64
KEPT = ('n_points_scale', 'num_points_scale', 'up', 'reg_scale')


def path_hash(path):
    value = 0xcbf29ce484222325
    for byte in path.encode():
        value = ((value ^ byte) * 0x100000001b3) & MASK
    return value


def unit(seed, count):
    z = (np.arange(count, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed))
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((z ^ (z >> np.uint64(31))) >> np.uint64(40)).astype(np.float64) / (1 << 24)


def value(name, shape):
    last, u = name.split('.')[-1], unit(path_hash(name), int(np.prod(shape))).reshape(shape)
    if last == 'running_var':
        return 0.5 + u
    if last == 'running_mean':
        return 0.4 * u - 0.2
    if len(shape) >= 2:
        return (2 * u - 1) * (4 / np.prod(shape[1:])) ** 0.5
    return 0.8 + 0.4 * u if last.endswith('weight') else 0.2 * u - 0.1


def fill(model):
    state = model.state_dict()
    for name, tensor in state.items():
        own = name if name.startswith('model.') else 'model.decoder.' + name
        if not name.endswith(KEPT) and not name.endswith('num_batches_tracked'):
            tensor.copy_(torch.tensor(np.float32(value(own, tuple(tensor.shape))).astype(np.float64)))
    return model


def images(batch):
    u = unit(path_hash('pictures'), batch * 3 * SIDE * SIDE).reshape(batch, 3, SIDE, SIDE)
    return torch.tensor(np.float32(4 * u - 2).astype(np.float64))


SMALL = dict(encoder_hidden_dim=32, encoder_ffn_dim=64, encoder_attention_heads=4, hidden_expansion=0.5, d_model=32, num_queries=20,
    decoder_in_channels=[32, 32, 32], decoder_ffn_dim=64, decoder_layers=2, decoder_attention_heads=4, num_denoising=0, num_labels=CLASSES)


def resnet(kind, depths, widths, stem=64):
    return RTDetrResNetConfig(layer_type=kind, depths=depths, hidden_sizes=widths, embedding_size=stem, out_indices=[2, 3, 4])


def hgnet(stem, stages, layers, lab, out=(2, 3, 4)):
    ins, inner, width, blocks, light, kernel = zip(*stages)
    return HGNetV2Config(stem_channels=[3, *stem], stage_in_channels=ins, stage_mid_channels=inner, stage_out_channels=width,
        stage_num_blocks=blocks, stage_downsample=[False, True, True, True], stage_light_block=light, stage_kernel_size=kernel,
        stage_numb_of_layers=[layers] * 4, use_learnable_affine_block=lab, depths=[1] * 4, hidden_sizes=width, out_indices=list(out))


def b(stem, inner, width, blocks, layers, lab, out=(2, 3, 4)):
    ins = [stem[1], *width[:3]]
    return hgnet(stem, list(zip(ins, inner, width, blocks, [False, False, True, True], [3, 3, 5, 5])), layers, lab, out)


def rtdetr(backbone, **settings):
    return RTDetrV2ForObjectDetection(RTDetrV2Config(backbone_config=backbone, **settings))


def dfine(backbone, **settings):
    return DFineForObjectDetection(DFineConfig(backbone_config=backbone, **settings))


def small():
    yield 'rtdetrv2-tiny', rtdetr(resnet('basic', [1, 1, 1, 1], [8, 12, 16, 24], 8), encoder_in_channels=[12, 16, 24], decoder_n_points=2, **SMALL)
    yield 'dfine-tiny', dfine(b([8, 8], [8, 8, 8, 12], [16, 16, 24, 32], [1, 1, 2, 1], 2, True), encoder_in_channels=[16, 24, 32],
        decoder_n_points=[1, 2, 1], depth_mult=0.34, **SMALL)


def published():
    R = dict(num_labels=80)
    r18 = dict(encoder_in_channels=[128, 256, 512], hidden_expansion=0.5)
    yield 'rtdetrv2_r18', rtdetr(resnet('basic', [2, 2, 2, 2], [64, 128, 256, 512]), decoder_layers=3, **r18, **R)
    yield 'rtdetrv2_r34', rtdetr(resnet('basic', [3, 4, 6, 3], [64, 128, 256, 512]), decoder_layers=4, **r18, **R)
    yield 'rtdetrv2_r50', rtdetr(resnet('bottleneck', [3, 4, 6, 3], [256, 512, 1024, 2048]), **R)
    yield 'rtdetrv2_r101', rtdetr(resnet('bottleneck', [3, 4, 23, 3], [256, 512, 1024, 2048]), encoder_hidden_dim=384,
        encoder_ffn_dim=2048, decoder_in_channels=[384, 384, 384], **R)
    F = dict(decoder_n_points=[3, 6, 3], num_labels=80)
    B0 = [16, 16], [16, 32, 64, 128], [64, 256, 512, 1024], [1, 1, 2, 1], 3, True
    B4 = [32, 48], [48, 96, 192, 384], [128, 512, 1024, 2048], [1, 1, 3, 1], 6, False
    yield 'dfine_n', dfine(b(*B0, out=(3, 4)), encoder_in_channels=[512, 1024], feat_strides=[16, 32], encoder_hidden_dim=128,
        encode_proj_layers=[1], encoder_ffn_dim=512, hidden_expansion=0.34, depth_mult=0.5, d_model=128, decoder_in_channels=[128, 128],
        num_feature_levels=2, decoder_layers=3, decoder_ffn_dim=512, decoder_n_points=[6, 6], num_labels=80)
    yield 'dfine_s', dfine(b(*B0), encoder_in_channels=[256, 512, 1024], hidden_expansion=0.5, depth_mult=0.34, decoder_layers=3, **F)
    yield 'dfine_m', dfine(b([24, 32], [32, 64, 128, 256], [96, 384, 768, 1536], [1, 1, 3, 1], 4, True),
        encoder_in_channels=[384, 768, 1536], depth_mult=0.67, decoder_layers=4, **F)
    yield 'dfine_l', dfine(b(*B4), **F)
    yield 'dfine_x', dfine(b([32, 64], [64, 128, 256, 512], [128, 512, 1024, 2048], [1, 2, 5, 2], 6, False), encoder_hidden_dim=384,
        encoder_ffn_dim=2048, decoder_in_channels=[384, 384, 384], reg_scale=8.0, **F)


BOXES = [[[0.3, 0.4, 0.2, 0.3], [0.7, 0.6, 0.4, 0.5], [0.5, 0.5, 0.9, 0.8]], [[0.25, 0.75, 0.125, 0.25]]]
LABELS = [[3, 7, 3], [0]]
result = {'small': {}, 'published': {}}
torch.set_default_dtype(torch.float64)
# The loss of distributions mixes types otherwise.
torch.Tensor.float = torch.Tensor.double
for name, model in small():
    model = fill(model.double())
    pixels = images(2)
    model.eval()
    with torch.no_grad():
        out = model(pixels)
    figures = dict(logits=out.logits.flatten().tolist(), boxes=out.pred_boxes.flatten().tolist())
    model.train()
    labels = [dict(class_labels=torch.tensor(c), boxes=torch.tensor(x)) for c, x in zip(LABELS, BOXES)]
    out = model(pixels, labels=labels)
    out.loss.backward()
    figures['loss'] = float(out.loss.detach())
    figures['gradients'] = {n: [float(p.grad.norm()), float((p.grad.flatten() * torch.arange(p.numel()).double().cos()).sum())]
        for n, p in model.named_parameters() if p.grad is not None}
    result['small'][name] = figures
torch.set_default_dtype(torch.float32)
with torch.device('meta'):
    for name, model in published():
        keys = {k: list(v.shape) for k, v in model.state_dict().items() if k.startswith('model.') and not k.endswith('num_batches_tracked')}
        result['published'][name] = dict(parameters=sum(p.numel() for p in model.parameters()), keys=len(keys), hash=f"{path_hash(' '.join(f'{k}{keys[k]}' for k in sorted(keys))):016x}")
        print(name, result['published'][name])
json.dump(result, open(os.path.join(HERE, 'figures', 'sets.json'), 'w'))
