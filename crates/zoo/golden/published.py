"""The networks of `translate.py` against those of a published package, as a black box: same keys, outputs and gradients.

    pip install torch; pip install --no-deps deepliif==1.2.7
    python published.py

deepliif carries the generators, the discriminator and the losses of the published PyTorch implementation of Pix2Pix and
CycleGAN. Only that module is loaded; the rest of the package wants more than it needs. Nothing of it is kept here.
"""
import functools, importlib.util, sys, sysconfig, types
import torch
import torch.nn as nn
import torch.nn.functional as F
import translate as ours


def published():
    folder = sysconfig.get_paths()["purelib"] + "/deepliif"
    for name in ("deepliif", "deepliif.models", "deepliif.util"):
        module = sys.modules[name] = types.ModuleType(name)
        module.__path__ = [folder + name.removeprefix("deepliif").replace(".", "/")]
    sys.modules["deepliif.util"].util = types.ModuleType("util")
    spec = importlib.util.spec_from_file_location("deepliif.models.networks", folder + "/models/networks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def compare(name, theirs, mine, shape):
    mine.load_state_dict(theirs.state_dict())
    assert list(theirs.state_dict()) == list(mine.state_dict()), name
    theirs.double().train(), mine.double().train()
    x = torch.randn(shape, dtype=torch.float64)
    made = [network(x.clone()) for network in (theirs, mine)]
    slopes = [torch.autograd.grad(y.square().mean(), list(n.parameters())) for n, y in zip((theirs, mine), made)]
    # A bias in front of an instance norm has no gradient but rounding.
    scale = max(slope.abs().max() for slope in slopes[0])
    apart = max((a - b).abs().max() for a, b in zip(*slopes)) / scale
    print(f"{name}: {len(mine.state_dict())} entries, outputs within {(made[0] - made[1]).abs().max():.1e}, gradients within {apart:.1e}")
    assert (made[0] - made[1]).abs().max() < 1e-6 and apart < 1e-6


if __name__ == "__main__":
    torch.manual_seed(0)
    theirs = published()
    batch, instance = nn.BatchNorm2d, functools.partial(nn.InstanceNorm2d, affine=False, track_running_stats=False)
    compare("unet_256", theirs.UnetGenerator(3, 3, 8, 64, norm_layer=batch), ours.UnetGenerator(8, 64), (2, 3, 256, 256))
    resnet = theirs.ResnetGenerator(3, 3, 64, norm_layer=instance, n_blocks=9, padding_type="reflect")
    compare("resnet_9blocks", resnet, ours.ResnetGenerator(9, 64), (1, 3, 64, 64))
    for name, norm, channels in (("batch", batch, 6), ("instance", instance, 3)):
        judge = theirs.NLayerDiscriminator(channels, 64, 3, norm_layer=norm)
        compare(f"patches, {name} norm", judge, ours.PatchDiscriminator(channels, 64, kind=name), (2, channels, 128, 128))
    x = torch.randn(2, 1, 30, 30, dtype=torch.float64)
    own = {"vanilla": lambda real: F.softplus(-x if real else x).mean(),
           "lsgan": lambda real: ((x - 1) if real else x).square().mean(), "wgangp": lambda real: -x.mean() if real else x.mean()}
    for mode, loss in own.items():
        judged = theirs.GANLoss(mode).double()
        assert all(abs(judged(x, real) - loss(real)) < 1e-12 for real in (True, False)), mode
    print("the losses are the same")
