"""Golden figures of the model zoo, from the reference implementations.

    pip install torch torchvision timm transformers segmentation-models-pytorch
    git clone https://github.com/Lliu666/MSHNet; git clone https://github.com/mateuszbuda/brain-segmentation-pytorch
    MSHNET_DIR=MSHNet UNET_DIR=brain-segmentation-pytorch python make.py [NAME...]

Weights and images are a function of name and index (see `value`), which the tests repeat in Rust, so that only figures
are stored: for every tensor its size, its sum, its norm and a few elements. The references run in double precision.
One file per model: `figures/NAME.txt`, a line per tensor: `what name size sum norm element…`.
"""
import math, os, sys, types
from functools import partial
import torch
import torch.nn as nn
import torch.nn.functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import semantic
import translate
MASK = (1 << 64) - 1


def fnv(name):
    h = 0xCBF29CE484222325
    for byte in name.encode():
        h = ((h ^ byte) * 0x100000001B3) & MASK
    return h


def mix(z):
    """SplitMix64's finaliser."""
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def units(name, count):
    """Numbers of [0, 1) with 24 bits, one per index."""
    index = torch.arange(count, dtype=torch.int64)
    # Python integers would be slow for millions of weights: SplitMix64 in wrapping 64-bit arithmetic.
    def shift(z, by):
        return (z >> by) & ((1 << (64 - by)) - 1)
    def signed(v):
        return v - (1 << 64) if v >= 1 << 63 else v
    z = index * signed(0x9E3779B97F4A7C15) + signed(fnv(name))
    z = (z ^ shift(z, 30)) * signed(0xBF58476D1CE4E5B9)
    z = (z ^ shift(z, 27)) * signed(0x94D049BB133111EB)
    z = z ^ shift(z, 31)
    return shift(z, 40).double() / (1 << 24)


def value(name, shape):
    """The weight of that name: spread so that signals neither die nor explode."""
    count = math.prod(shape)
    u = units(name, count)
    last = name.rsplit('.', 1)[-1]
    if last == 'running_var':
        w = 0.5 + u
    elif last == 'running_mean':
        w = 0.4 * u - 0.2
    elif last in ('layer_scale', 'gamma'):
        w = 0.5 + 0.5 * u
    elif last in ('class_token', 'cls_token', 'pos_embedding', 'pos_embed'):
        w = u - 0.5
    elif len(shape) >= 2:
        w = (2 * u - 1) * math.sqrt(4.0 / math.prod(shape[1:]))
    elif last.endswith('weight'):
        w = 0.8 + 0.4 * u
    else:
        w = 0.2 * u - 0.1
    return w.float().double().reshape(shape)


def fill(model):
    model.double()
    state = model.state_dict()
    for name, tensor in state.items():
        if tensor.is_floating_point():
            tensor.copy_(value(name, tuple(tensor.shape)))
    model.load_state_dict(state)


def samples(name, count, how_many):
    return [mix((fnv(name) + k + 1) & MASK) % count for k in range(how_many)]


def line(what, name, tensor, how_many=3, digits=9):
    flat = tensor.detach().double().contiguous().reshape(-1)
    elements = [flat[i].item() for i in samples(name, flat.numel(), how_many)]
    numbers = ' '.join('%.*g' % (digits, v) for v in [flat.sum().item(), flat.norm().item(), *elements])
    return f'{what} {name} {flat.numel()} {numbers}'


# ---- The references, small and real. -------------------------------------------------------------------------------

class FashionCnn(nn.Module):
    def __init__(self, width, classes=10):
        super().__init__()
        self.conv, self.fc = nn.Conv2d(1, width, 3), nn.Linear(width * 13 * 13, classes)

    def forward(self, x):
        return self.fc(F.relu(F.max_pool2d(self.conv(x), 2)).flatten(1))


class SmallCnn(nn.Module):
    def __init__(self, width, channels=3, classes=10):
        super().__init__()
        widths = [channels, width, 2 * width, 4 * width, 4 * width]
        for i in range(4):
            setattr(self, f'conv{i + 1}', nn.Conv2d(widths[i], widths[i + 1], 3, padding=1, bias=False))
            setattr(self, f'bn{i + 1}', nn.BatchNorm2d(widths[i + 1]))
        self.fc = nn.Linear(widths[4], classes)

    def forward(self, x):
        for i in range(1, 5):
            x = F.relu(getattr(self, f'bn{i}')(getattr(self, f'conv{i}')(x)))
            x = F.max_pool2d(x, 2) if i < 3 else x
        return self.fc(x.mean((2, 3)))


def read_module(path, edits=()):
    """Runs a reference's own file, with constants replaced to make its tiny variant."""
    text = open(path).read()
    for old, new in edits:
        assert old in text, f'{path} has changed: {old} is not in it'
        text = text.replace(old, new)
    skimage = types.ModuleType('skimage')
    skimage.measure = None
    sys.modules.setdefault('skimage', skimage)
    module = types.ModuleType('reference')
    exec(compile(text, path, 'exec'), module.__dict__)
    return module


def mshnet(edits=()):
    return read_module(os.path.join(os.environ['MSHNET_DIR'], 'model', 'MSHNet.py'), edits).MSHNet(3)


def mshnet_tiny():
    return mshnet([('[16, 32, 64, 128, 256]', '[16, 16, 32, 32, 32]'), ('[2, 2, 2, 2]', '[1, 1, 1, 1]')])


def unet(width):
    model = read_module(os.path.join(os.environ['UNET_DIR'], 'unet.py'), [('torch.sigmoid(self.conv(dec1))', 'self.conv(dec1)')])
    return model.UNet(3, 1, width)


def resnet_tiny(block='BasicBlock'):
    from timm.models import resnet
    return resnet.ResNet(getattr(resnet, block), [1, 1, 1, 1], num_classes=10, channels=(8, 12, 16, 20))


def efficientnet_tiny():
    from torchvision.models.efficientnet import EfficientNet, MBConvConfig as M
    rows = [M(1, 3, 1, 8, 8, 1), M(4, 3, 2, 8, 16, 2), M(4, 5, 2, 16, 16, 1)]
    return EfficientNet(rows, 0.0, 0.0, 10, last_channel=64)


def efficientnet_v2_tiny():
    from torchvision.models.efficientnet import EfficientNet, FusedMBConvConfig as FM, MBConvConfig as M
    rows = [FM(1, 3, 1, 8, 8, 2), FM(2, 3, 2, 8, 16, 1), M(4, 3, 2, 16, 24, 2), M(4, 3, 1, 24, 24, 1)]
    return EfficientNet(rows, 0.0, 0.0, 10, partial(nn.BatchNorm2d, eps=1e-3), 64)


def tf_efficientnetv2_tiny():
    from timm.models.efficientnet import EfficientNet, decode_arch_def
    rows = [['cn_r2_k3_s1_e1_c8_skip'], ['er_r1_k3_s2_e2_c16'], ['ir_r2_k3_s2_e4_c24_se0.25'], ['ir_r1_k3_s1_e4_c24_se0.25']]
    return EfficientNet(decode_arch_def(rows), 10, 64, stem_size=8, pad_type='same', act_layer=nn.SiLU,
                        norm_layer=partial(nn.BatchNorm2d, eps=1e-3))


def efficientnet_timm_tiny():
    from timm.models.efficientnet import EfficientNet, decode_arch_def
    rows = [['ds_r1_k3_s1_e1_c8_se0.25'], ['ir_r2_k3_s2_e4_c16_se0.25'], ['ir_r1_k5_s2_e4_c16_se0.25']]
    return EfficientNet(decode_arch_def(rows), 10, 64, stem_size=8, act_layer=nn.SiLU)


def mobilenetv3_timm_tiny():
    from timm.models._efficientnet_blocks import SqueezeExcite
    from timm.models.mobilenetv3 import MobileNetV3, decode_arch_def
    rows = [['ds_r1_k3_s1_e1_c8_se0.25_nre'], ['ir_r1_k3_s2_e2_c16', 'ir_r1_k5_s1_e2_c16_se0.25'], ['cn_r1_k1_s1_c96']]
    squeeze = partial(SqueezeExcite, gate_layer='hard_sigmoid', force_act_layer=nn.ReLU, rd_round_fn=lambda c: max(8, int(c)))
    return MobileNetV3(decode_arch_def(rows), 10, stem_size=8, num_features=24, act_layer=nn.Hardswish, se_layer=squeeze)


def convnext_timm_test():
    from timm.models.convnext import ConvNeXt
    return ConvNeXt(depths=(1, 1, 2, 1), dims=(8, 12, 16, 24), num_classes=10)


def mobilenet_v3_tiny():
    from torchvision.models.mobilenetv3 import InvertedResidualConfig, MobileNetV3
    row = partial(InvertedResidualConfig, dilation=1, width_mult=1.0)
    rows = [row(8, 3, 8, 8, True, 'RE', 1), row(8, 3, 16, 16, False, 'HS', 2), row(16, 5, 32, 16, True, 'HS', 1)]
    return MobileNetV3(rows, 24, 10, dropout=0.0)


def convnext_test():
    from torchvision.models.convnext import CNBlockConfig as C, ConvNeXt
    return ConvNeXt([C(8, 12, 1), C(12, 16, 1), C(16, 24, 2), C(24, None, 1)], 0.0, num_classes=10)


def vit_test():
    from torchvision.models import VisionTransformer
    return VisionTransformer(32, 8, 2, 3, 24, 96, num_classes=10)


def vit_timm_test():
    from timm.models.vision_transformer import VisionTransformer
    return VisionTransformer(32, 8, embed_dim=24, depth=2, num_heads=3, num_classes=10)


def transformer_test(cls=None, **settings):
    def make():
        from timm.models.vision_transformer import VisionTransformer
        return (cls or VisionTransformer)(32, 8, embed_dim=24, depth=2, num_heads=3, num_classes=10, **settings)
    return make


def deit_distilled_test():
    from timm.models.deit import VisionTransformerDistilled
    return transformer_test(VisionTransformerDistilled)()


def dinov2_test():
    # Images are larger than the positions' grid.
    return transformer_test(init_values=1e-5, dynamic_img_size=True)()


def dinov2_gated_test():
    from timm.layers import SwiGLUPacked
    return transformer_test(init_values=1e-5, mlp_ratio=64 / 24, mlp_layer=SwiGLUPacked, act_layer=nn.SiLU, reg_tokens=4,
                            no_embed_class=True, dynamic_img_size=True)()


def clip_test():
    return transformer_test(pre_norm=True, norm_layer=partial(nn.LayerNorm, eps=1e-5), act_layer='quick_gelu')()


def siglip_test():
    return transformer_test(class_token=False, global_pool='map')()


def swin_test():
    from torchvision.models.swin_transformer import SwinTransformer
    return SwinTransformer([4, 4], 8, [2, 2, 1], [2, 4, 8], [3, 3], stochastic_depth_prob=0.0, num_classes=10)


def swin_t():
    from torchvision.models.swin_transformer import SwinTransformer
    return SwinTransformer([4, 4], 96, [2, 2, 6, 2], [3, 6, 12, 24], [7, 7], stochastic_depth_prob=0.0)


def swin_timm_test():
    from timm.models.swin_transformer import SwinTransformer
    return SwinTransformer(56, 4, embed_dim=8, depths=(2, 2, 1), num_heads=(2, 4, 8), window_size=3, drop_path_rate=0.0,
                           num_classes=10)


def convnextv2_test(small=False):
    from timm.models.convnext import ConvNeXt
    return ConvNeXt(depths=(1, 1, 2, 1), dims=(8, 12, 16, 24), num_classes=10, use_grn=True, ls_init_value=None,
                    conv_mlp=small)


def mobilenetv4_tiny():
    from timm.models.mobilenetv3 import MobileNetV3, decode_arch_def
    rows = [['cn_r1_k3_s2_e1_c8', 'cn_r1_k1_s1_e1_c8'], ['er_r1_k3_s1_e2_c16'],
            ['uir_r1_a3_k5_s2_e2_c24', 'uir_r1_a0_k3_s1_e2_c24', 'uir_r1_a3_k0_s1_e2_c24', 'uir_r1_a0_k0_s1_e2_c24'],
            ['cn_r1_k1_s1_c40']]
    return MobileNetV3(decode_arch_def(rows), 10, stem_size=8, num_features=24, fix_stem=True, head_bias=False,
                       head_norm=True, act_layer=nn.ReLU)


class YoloClassifier(nn.Module):
    """Ultralytics' classifiers (ultralytics==8.4.190, called and not read), with logits in evaluation too."""
    def __init__(self, family, scale):
        super().__init__()
        from ultralytics.nn.tasks import ClassificationModel
        description = ClassificationModel(f'{family}n-cls.yaml', nc=10, verbose=False).yaml
        description.update(scales={'n': scale}, nc=10)
        description.pop('yaml_file', None)
        self.model = ClassificationModel(description, nc=10, verbose=False).model

    def forward(self, x):
        for layer in self.model:
            x = layer(x)
        return x[1] if isinstance(x, tuple) else x


def torchvision_model(name, **settings):
    def make():
        import torchvision.models
        return getattr(torchvision.models, name)(**settings)
    return make


def timm_model(name, **settings):
    def make():
        import timm
        return timm.create_model(name, **settings)
    return make


def inception_fid():
    # As pytorch_fid builds it, without fetching its weights.
    import pytorch_fid.inception as fid
    model = torchvision_model('inception_v3', num_classes=1008, **INCEPTION)()
    for name, width in (('5b', 192), ('5c', 256), ('5d', 288)):
        setattr(model, 'Mixed_' + name, fid.FIDInceptionA(width, pool_features=32 if name == '5b' else 64))
    for name, width in (('6b', 128), ('6c', 160), ('6d', 160), ('6e', 192)):
        setattr(model, 'Mixed_' + name, fid.FIDInceptionC(768, channels_7x7=width))
    model.Mixed_7b, model.Mixed_7c = fid.FIDInceptionE_1(1280), fid.FIDInceptionE_2(2048)
    return model


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.01, momentum=0.9, weight_decay=1e-4)


def adam(parameters):
    return torch.optim.Adam(parameters, lr=1e-3)


def adagrad(parameters):
    # From an accumulator of 0 the first steps depend on the gradients' signs alone, and many of MSHNet's gradients (biases in
    # front of norms) are rounding noise around 0: PyTorch's own f32 and f64 results would differ.
    return torch.optim.Adagrad(parameters, lr=0.05, initial_accumulator_value=0.1)


# name: (reference, side, batch, optimizer). Optimizers are called by the same names in the tests.
TINY = {
    'fashion-cnn-tiny': (lambda: FashionCnn(4), 28, 4, adam),
    'small-cnn-tiny': (lambda: SmallCnn(4), 28, 4, sgd),
    'resnet-tiny': (resnet_tiny, 32, 4, sgd),
    'resnet-bottleneck-tiny': (lambda: resnet_tiny('Bottleneck'), 32, 4, sgd),
    'mshnet-tiny': (mshnet_tiny, 32, 2, adagrad),
    'efficientnet-tiny': (efficientnet_tiny, 32, 4, sgd),
    'efficientnet_v2-tiny': (efficientnet_v2_tiny, 32, 4, sgd),
    'tf_efficientnetv2-tiny': (tf_efficientnetv2_tiny, 33, 4, sgd),
    'mobilenet_v3-tiny': (mobilenet_v3_tiny, 32, 4, sgd),
    'convnext-test': (convnext_test, 32, 4, sgd),
    'vit-test': (vit_test, 32, 4, sgd),
    'vit_timm-test': (vit_timm_test, 32, 4, sgd),
    'yolov8-tiny-cls': (lambda: YoloClassifier('yolov8', [0.33, 0.0625, 1024]), 64, 4, sgd),
    'yolo11-tiny-cls': (lambda: YoloClassifier('yolo11', [0.5, 0.125, 1024]), 64, 4, sgd),
    'efficientnet_timm-tiny': (efficientnet_timm_tiny, 32, 4, sgd),
    'mobilenetv3_timm-tiny': (mobilenetv3_timm_tiny, 32, 4, sgd),
    'convnext_timm-test': (convnext_timm_test, 32, 4, sgd),
    'unet-tiny': (lambda: unet(4), 32, 2, sgd),
    'deit_distilled-test': (deit_distilled_test, 32, 4, sgd),
    'dinov2-test': (dinov2_test, 48, 4, sgd),
    'dinov2_gated-test': (dinov2_gated_test, 24, 4, sgd),
    'clip-test': (clip_test, 32, 4, sgd),
    'siglip-test': (siglip_test, 32, 4, sgd),
    'swin-test': (swin_test, 56, 2, sgd),
    'swin_timm-test': (swin_timm_test, 56, 2, sgd),
    'convnextv2-test': (convnextv2_test, 32, 4, sgd),
    'convnextv2_small-test': (lambda: convnextv2_test(True), 32, 4, sgd),
    'mobilenetv4-tiny': (mobilenetv4_tiny, 32, 4, sgd),
}
# EDSR's values go up to 255; its gradients would be too large for this rate of plain descent.
TINY.update({name: (*entry, adam if name.startswith('edsr') else sgd) for name, entry in translate.TINY.items()})
TINY.update({name: (*entry, sgd) for name, entry in semantic.TINY.items()})
INCEPTION = dict(aux_logits=False, transform_input=False, init_weights=False, dropout=0.0)
NO_DROP = dict(dropout=0.0, stochastic_depth_prob=0.0)
# Large enough that batch norms over the last feature maps are not dominated by rounding.
REAL = {
    'fashion-cnn': (lambda: FashionCnn(64), 28, 4, adam),
    'resnet50': (torchvision_model('resnet50'), 64, 2, sgd),
    'inception_v3': (torchvision_model('inception_v3', **INCEPTION), 107, 2, sgd),
    'inception_v3_fid': (inception_fid, 107, 2, sgd),
    'mshnet': (mshnet, 64, 2, adagrad),
    'efficientnet_b0': (torchvision_model('efficientnet_b0', **NO_DROP), 96, 4, sgd),
    'efficientnet_v2_s': (torchvision_model('efficientnet_v2_s', **NO_DROP), 96, 4, sgd),
    'tf_efficientnetv2_s': (timm_model('tf_efficientnetv2_s'), 97, 4, sgd),
    'mobilenet_v3_large': (torchvision_model('mobilenet_v3_large', dropout=0.0), 96, 4, sgd),
    'convnext_tiny': (torchvision_model('convnext_tiny', stochastic_depth_prob=0.0), 64, 2, sgd),
    'timm_efficientnet_b1': (timm_model('efficientnet_b1'), 97, 2, sgd),
    'efficientnetv2_s': (timm_model('efficientnetv2_s'), 97, 2, sgd),
    'mobilenetv3_large_100': (timm_model('mobilenetv3_large_100'), 97, 4, sgd),
    'timm_convnext_tiny': (timm_model('convnext_tiny'), 64, 2, sgd),
    'vit_tiny_patch16_224': (timm_model('vit_tiny_patch16_224'), 224, 1, sgd),
    'unet': (lambda: unet(32), 32, 2, sgd),
    'deit_tiny_distilled_patch16_224': (timm_model('deit_tiny_distilled_patch16_224'), 224, 1, sgd),
    'vit_small_patch14_dinov2': (timm_model('vit_small_patch14_dinov2', dynamic_img_size=True), 98, 1, sgd),
    'vit_small_patch14_reg4_dinov2': (timm_model('vit_small_patch14_reg4_dinov2', dynamic_img_size=True), 98, 1, sgd),
    'vit_xsmall_patch16_clip_224': (timm_model('vit_xsmall_patch16_clip_224', num_classes=512), 224, 1, sgd),
    'swin_t': (swin_t, 224, 1, sgd),
    'swin_tiny_patch4_window7_224': (timm_model('swin_tiny_patch4_window7_224', drop_path_rate=0.0), 224, 1, sgd),
    'convnextv2_atto': (timm_model('convnextv2_atto'), 96, 2, sgd),
    'mobilenetv4_conv_small': (timm_model('mobilenetv4_conv_small'), 97, 4, sgd),
    'mobilenetv4_conv_medium': (timm_model('mobilenetv4_conv_medium'), 97, 4, sgd),
}
REAL.update({name: (*entry, sgd) for name, entry in semantic.REAL.items()})


def images(name, batch, side, seed='pictures'):
    """From the seed that the stored figures were made with."""
    channels = 1 if name.startswith('fashion') else 3
    u = units(seed, batch * channels * side * side).reshape(batch, channels, side, side)
    return torch.floor(u * 256) if channels == 1 else (4 * u - 2).float().double()


def masks(batch, side):
    target = torch.zeros(batch, 1, side, side, dtype=torch.float64)
    for i in range(batch):
        target[i, :, 5 + 3 * i:9 + 5 * i, 8 + i:14 + 2 * i] = 1
    return target


def class_masks(batch, side, classes):
    """A rectangle of one class per image on class 0; the first row is ignored."""
    numbers = torch.tensor([(7 * i + 3) % classes for i in range(batch)])
    target = masks(batch, side)[:, 0].long() * numbers[:, None, None]
    target[:, 0] = 255
    return target


class Case:
    """Calls a reference as a trainer would: images to outputs, outputs to the loss."""

    def __init__(self, name, entry):
        make, self.side, self.batch, self.optimizer = entry
        self.name, self.model = name, make()
        fill(self.model)
        self.images = images(name, self.batch, self.side)
        self.segments = name.startswith(('mshnet', 'unet'))
        if name.startswith('mshnet'):
            loss = read_module(os.path.join(os.environ['MSHNET_DIR'], 'model', 'loss.py'))
            self.sls = loss.SLSIoULoss()

    def outputs(self, warm_up=False):
        """The final output first."""
        if self.name in semantic.TINY or self.name in semantic.REAL:
            return self.model(self.images)
        if not self.name.startswith('mshnet'):
            return [self.model(self.images)]
        maps, final = self.model(self.images, not warm_up)
        return [final, *maps]

    def loss(self, outputs):
        if self.name in translate.TINY:
            u = units('targets', outputs[0].numel()).reshape(outputs[0].shape)
            return F.mse_loss(outputs[0], (4 * u - 2).float().double())
        if self.name in semantic.TINY or self.name in semantic.REAL:
            return semantic.loss(outputs, class_masks(self.batch, self.side, outputs[0].shape[1]))
        if not self.segments:
            labels = torch.tensor([(7 * i + 3) % outputs[0].shape[1] for i in range(self.batch)])
            return F.cross_entropy(outputs[0], labels)
        target = masks(self.batch, self.side)
        if not self.name.startswith('mshnet'):
            return F.binary_cross_entropy_with_logits(outputs[0], target)
        # The authors' training loop: a warm-up of 5 epochs, this is the first or the tenth.
        epoch = 1 if len(outputs) == 1 else 10
        total = self.sls(outputs[0], target, 5, epoch)
        for i, small in enumerate(outputs[1:]):
            if i > 0:
                target = F.max_pool2d(target, 2, 2)
            total = total + self.sls(small, target, 5, epoch)
        return total / len(outputs)


def figures(name, entry, real):
    how_many = 1 if real else 3
    case = Case(name, entry)
    lines = [f'size batch {case.batch}', f'size side {case.side}', f'size parameters {sum(p.numel() for p in case.model.parameters())}']
    case.model.eval()
    with torch.no_grad():
        lines.append(line('evaluate', 'output', case.outputs()[0]))
        if name.startswith('mshnet'):
            lines.append(line('evaluate', 'warm_up', case.outputs(True)[0]))
    case.model.train()
    optimizer = case.optimizer(case.model.parameters())
    if name.startswith('mshnet'):
        fresh = {k: v.clone() for k, v in case.model.state_dict().items()}
        loss = case.loss(case.outputs(True))
        lines.append(f'loss warm_up 1 {loss.item():.12g}')
        gradients = torch.autograd.grad(loss, list(case.model.parameters()), allow_unused=True)
        norm = math.sqrt(sum((g ** 2).sum().item() for g in gradients if g is not None))
        lines.append(f'loss warm_up_gradient 1 {norm:.12g}')
        case.model.load_state_dict(fresh)
    for step in range(1 if real else 3):
        outputs = case.outputs()
        loss = case.loss(outputs)
        optimizer.zero_grad()
        loss.backward()
        lines.append(f'loss step{step} 1 {loss.item():.12g}')
        if step == 0:
            for i, output in enumerate(outputs):
                lines.append(line('train', f'output{i}', output))
            for key, parameter in case.model.named_parameters():
                lines.append(line('gradient', key, parameter.grad, how_many))
        optimizer.step()
    for key, tensor in case.model.state_dict().items():
        if tensor.is_floating_point() and (not real or key.endswith('running_var')):
            lines.append(line('state', key, tensor, how_many))
    return lines


def main():
    wanted = sys.argv[1:]
    folder = os.path.join(HERE, 'figures')
    os.makedirs(folder, exist_ok=True)
    for table, real in ((TINY, False), (REAL, True)):
        for name, entry in table.items():
            if wanted and name not in wanted:
                continue
            lines = figures(name, entry, real)
            with open(os.path.join(folder, name + '.txt'), 'w') as file:
                file.write('\n'.join(lines) + '\n')
            print(name, len(lines), 'lines', lines[3])


if __name__ == "__main__":
    main()
