"""References of networks for a class per pixel, for `make.py`: torchvision's, SegFormer of transformers, U-Net, FPN and DeepLabV3+ of
segmentation_models_pytorch, and a linear head on timm's DINOv2.

    pip install torch torchvision timm transformers segmentation-models-pytorch
"""
import re
from functools import partial
import torch.nn as nn
import torch.nn.functional as F


class Torchvision(nn.Module):
    """torchvision's networks return a dictionary, with the auxiliary head's output where there is one. Nothing is dropped."""

    def __init__(self, model):
        super().__init__()
        self.model = model
        for module in model.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0

    def named_parameters(self, *args, **kwargs):
        return self.model.named_parameters()

    def state_dict(self, *args, **kwargs):
        return self.model.state_dict()

    def load_state_dict(self, state):
        self.model.load_state_dict(state)

    def forward(self, x):
        return list(self.model(x).values())


# Names in memory and in files: those in files are the published ones.
SEGFORMER = [
    (r'segformer\.stages\.(\d)\.patch_embeddings\.', r'segformer.encoder.patch_embeddings.\1.'),
    (r'segformer\.stages\.(\d)\.blocks\.(\d+)\.', r'segformer.encoder.block.\1.\2.'),
    (r'segformer\.stages\.(\d)\.layer_norm\.', r'segformer.encoder.layer_norm.\1.'),
    ('layernorm_before', 'layer_norm_1'), ('layernorm_after', 'layer_norm_2'),
    (r'attention\.q_proj', 'attention.self.query'), (r'attention\.k_proj', 'attention.self.key'),
    (r'attention\.v_proj', 'attention.self.value'), (r'attention\.o_proj', 'attention.output.dense'),
    (r'attention\.sequence_reduction\.sequence_reduction', 'attention.self.sr'),
    (r'attention\.sequence_reduction\.layer_norm', 'attention.self.layer_norm'),
    (r'mlp\.fc', 'mlp.dense'), ('linear_projections', 'linear_c'),
]


def published(name):
    for pattern, replacement in SEGFORMER:
        name = re.sub(pattern, replacement, name)
    return name


class Segformer(nn.Module):
    def __init__(self, **settings):
        super().__init__()
        from transformers import SegformerConfig, SegformerForSemanticSegmentation
        config = SegformerConfig(drop_path_rate=0.0, classifier_dropout_prob=0.0, **settings)
        self.model = SegformerForSemanticSegmentation(config)

    def named_parameters(self, *args, **kwargs):
        return [(published(name), value) for name, value in self.model.named_parameters()]

    def state_dict(self, *args, **kwargs):
        return {published(name): value for name, value in self.model.state_dict().items()}

    def load_state_dict(self, state):
        self.model.load_state_dict({name: state[published(name)] for name in self.model.state_dict()})

    def forward(self, x):
        return [self.model(x).logits]


def fcn_tiny():
    from timm.models import resnet
    from torchvision.models._utils import IntermediateLayerGetter
    from torchvision.models.segmentation.fcn import FCN, FCNHead
    # With an output stride of 8, timm dilates as torchvision does.
    network = resnet.ResNet(resnet.Bottleneck, [1, 1, 1, 1], output_stride=8, channels=(8, 12, 16, 20))
    backbone = IntermediateLayerGetter(network, {'layer4': 'out', 'layer3': 'aux'})
    return Torchvision(FCN(backbone, FCNHead(80, 10), FCNHead(64, 10)))


def mobilenet_tiny():
    from torchvision.models.mobilenetv3 import InvertedResidualConfig, MobileNetV3
    row = partial(InvertedResidualConfig, width_mult=1.0)
    rows = [row(8, 3, 8, 8, False, 'RE', 2, 1), row(8, 3, 16, 16, False, 'RE', 2, 1),
            row(16, 5, 24, 16, True, 'HS', 2, 2), row(16, 5, 32, 16, True, 'HS', 1, 2)]
    return MobileNetV3(rows, 24, 10, dropout=0.0)


def deeplabv3_tiny():
    from torchvision.models.segmentation.deeplabv3 import _deeplabv3_mobilenetv3
    return Torchvision(_deeplabv3_mobilenetv3(mobilenet_tiny(), 10, True))


def lraspp_tiny():
    from torchvision.models.segmentation.lraspp import _lraspp_mobilenetv3
    return Torchvision(_lraspp_mobilenetv3(mobilenet_tiny(), 10))


def torchvision_segmenter(name, **settings):
    def make():
        import torchvision.models.segmentation as segmentation
        return Torchvision(getattr(segmentation, name)(weights=None, weights_backbone=None, num_classes=21, **settings))
    return make


class Smp(nn.Module):
    """One of segmentation_models_pytorch's networks, under its names. Nothing is dropped."""

    def __init__(self, model):
        super().__init__()
        self.encoder, self.decoder, self.segmentation_head = model.encoder, model.decoder, model.segmentation_head
        for module in self.modules():
            if isinstance(module, (nn.Dropout, nn.Dropout2d)):
                module.p = 0.0

    def forward(self, x):
        return [self.segmentation_head(self.decoder(self.encoder(x)))]


class TinyEncoder(nn.Module):
    """The maps of timm's small ResNet, which has torchvision's names. Dilated, its last stage is what segmentation_models_pytorch makes
    of it."""
    out_channels = [3, 64, 8, 12, 16, 20]

    def __init__(self, dilated):
        super().__init__()
        from timm.models import resnet
        network = resnet.ResNet(resnet.BasicBlock, [1, 1, 1, 1], channels=(8, 12, 16, 20))
        for name in ('conv1', 'bn1', 'maxpool', 'layer1', 'layer2', 'layer3', 'layer4'):
            setattr(self, name, getattr(network, name))
        if dilated:
            from segmentation_models_pytorch.encoders._utils import replace_strides_with_dilation
            replace_strides_with_dilation(self.layer4, 2)

    def forward(self, x):
        maps = [x, F.relu(self.bn1(self.conv1(x)))]
        maps.append(self.layer1(self.maxpool(maps[1])))
        for layer in (self.layer2, self.layer3, self.layer4):
            maps.append(layer(maps[-1]))
        return maps


def tiny_smp(make, dilated=False):
    from types import SimpleNamespace
    encoder = TinyEncoder(dilated)
    decoder, head = make(encoder.out_channels)
    return Smp(SimpleNamespace(encoder=encoder, decoder=decoder, segmentation_head=head))


def unet_tiny_decoder(channels):
    from segmentation_models_pytorch.base import SegmentationHead
    from segmentation_models_pytorch.decoders.unet.decoder import UnetDecoder
    return UnetDecoder(channels, (16, 12, 8, 8, 4)), SegmentationHead(4, 10)


def fpn_tiny_decoder(channels):
    from segmentation_models_pytorch.base import SegmentationHead
    from segmentation_models_pytorch.decoders.fpn.decoder import FPNDecoder
    return FPNDecoder(channels, 5, 12, 64), SegmentationHead(64, 10, kernel_size=1, upsampling=4)


def deeplabv3plus_tiny_decoder(channels):
    from segmentation_models_pytorch.base import SegmentationHead
    from segmentation_models_pytorch.decoders.deeplabv3.decoder import DeepLabV3PlusDecoder
    decoder = DeepLabV3PlusDecoder(channels, 5, out_channels=12, atrous_rates=(1, 2, 3), output_stride=16,
                                   aspp_separable=True, aspp_dropout=0.0)
    return decoder, SegmentationHead(12, 10, kernel_size=1, upsampling=4)


def smp_model(decoder, encoder):
    def make():
        import segmentation_models_pytorch as smp
        return Smp(getattr(smp, decoder)(encoder_name=encoder, encoder_weights=None, classes=21))
    return make


class DinoLinear(nn.Module):
    """What DINOv2's evaluation of its features does with the patches: a batch norm and a 1x1 convolution. Heads are published
    under these names; timm's backbone has those of segmentation_models_pytorch's encoders of timm."""

    def __init__(self, backbone, classes):
        super().__init__()
        self.encoder, self.decode_head = nn.Module(), nn.Module()
        self.encoder.model = backbone
        self.decode_head.bn = nn.BatchNorm2d(backbone.embed_dim)
        self.decode_head.conv_seg = nn.Conv2d(backbone.embed_dim, classes, 1)

    def forward(self, x):
        backbone = self.encoder.model
        patches = backbone.forward_features(x)[:, backbone.num_prefix_tokens:]
        side = x.shape[-1] // backbone.patch_embed.patch_size[0]
        maps = patches.transpose(1, 2).reshape(len(x), -1, side, side)
        return [self.decode_head.conv_seg(self.decode_head.bn(maps))]


def dinov2_linear_tiny(**settings):
    from timm.models.vision_transformer import VisionTransformer
    backbone = VisionTransformer(32, 8, embed_dim=24, depth=2, num_heads=3, num_classes=0, init_values=1e-5,
                                 dynamic_img_size=True, **settings)
    return DinoLinear(backbone, 10)


def dinov2_linear_reg_tiny():
    from timm.layers import SwiGLUPacked
    return dinov2_linear_tiny(mlp_ratio=64 / 24, mlp_layer=SwiGLUPacked, act_layer=nn.SiLU, reg_tokens=4, no_embed_class=True)


def dinov2_linear(name):
    import timm
    return DinoLinear(timm.create_model(name, num_classes=0, dynamic_img_size=True), 150)


TINY_SEGFORMER = dict(num_labels=10, hidden_sizes=[8, 12, 16, 24], depths=[1, 2, 1, 1], num_attention_heads=[1, 2, 2, 3],
                      decoder_hidden_size=16)

# name: (reference, side, batch). Sides are large enough that the last map has several pixels.
TINY = {
    'fcn-tiny': (fcn_tiny, 32, 4),
    'deeplabv3-tiny': (deeplabv3_tiny, 64, 4),
    'lraspp-tiny': (lraspp_tiny, 64, 4),
    'segformer-tiny': (lambda: Segformer(**TINY_SEGFORMER), 64, 2),
    'unet_resnet-tiny': (lambda: tiny_smp(unet_tiny_decoder), 64, 2),
    'fpn_resnet-tiny': (lambda: tiny_smp(fpn_tiny_decoder), 64, 2),
    'deeplabv3plus_resnet-tiny': (lambda: tiny_smp(deeplabv3plus_tiny_decoder, True), 64, 4),
    # On images larger, and smaller, than the grid of the positions.
    'dinov2_linear-test': (dinov2_linear_tiny, 48, 4),
    'dinov2_linear_reg-test': (dinov2_linear_reg_tiny, 24, 4),
}
REAL = {
    'fcn_resnet50': (torchvision_segmenter('fcn_resnet50', aux_loss=True), 64, 2),
    'deeplabv3_resnet50': (torchvision_segmenter('deeplabv3_resnet50', aux_loss=True), 64, 2),
    'deeplabv3_mobilenet_v3_large': (torchvision_segmenter('deeplabv3_mobilenet_v3_large', aux_loss=True), 96, 4),
    'lraspp_mobilenet_v3_large': (torchvision_segmenter('lraspp_mobilenet_v3_large'), 96, 4),
    'segformer_b0': (lambda: Segformer(num_labels=150), 128, 2),
    'unet_resnet34': (smp_model('Unet', 'resnet34'), 64, 2),
    'fpn_mobilenetv3_large_100': (smp_model('FPN', 'tu-mobilenetv3_large_100'), 96, 2),
    'unet_efficientnet_b0': (smp_model('Unet', 'tu-efficientnet_b0'), 64, 2),
    'unet_convnext_tiny': (smp_model('Unet', 'tu-convnext_tiny'), 64, 1),
    'fpn_mobilenetv4_conv_small': (smp_model('FPN', 'tu-mobilenetv4_conv_small'), 96, 1),
    'fpn_convnextv2_atto': (smp_model('FPN', 'tu-convnextv2_atto'), 64, 1),
    # A last map that is larger than the smallest dilation of the pyramid. One image has no variance of its mean.
    'deeplabv3plus_resnet34': (smp_model('DeepLabV3Plus', 'resnet34'), 208, 2),
    'deeplabv3plus_efficientnet_b0': (smp_model('DeepLabV3Plus', 'tu-efficientnet_b0'), 96, 2),
    'deeplabv3plus_mobilenetv3_large_100': (smp_model('DeepLabV3Plus', 'tu-mobilenetv3_large_100'), 96, 2),
    'deeplabv3plus_mobilenetv4_conv_small': (smp_model('DeepLabV3Plus', 'tu-mobilenetv4_conv_small'), 96, 2),
    'deeplabv3plus_convnext_tiny': (smp_model('DeepLabV3Plus', 'tu-convnext_tiny'), 96, 2),
    'dinov2_linear_vits14': (lambda: dinov2_linear('vit_small_patch14_dinov2'), 98, 1),
}


def loss(outputs, target):
    """The first output, and 0.4 of the auxiliary one, against class numbers of the images' size."""
    size = target.shape[-2:]
    def of(output):
        if output.shape[-2:] != size:
            output = F.interpolate(output, size=size, mode='bilinear', align_corners=False)
        return F.cross_entropy(output, target, ignore_index=255)
    return sum(weight * of(output) for weight, output in zip((1.0, 0.4), outputs))
