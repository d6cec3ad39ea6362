"""PyTorch's predictions on an NVIDIA GPU, on the work of `octant bench MODEL --mode infer --precision bf16`: one JSON line.

    python gpu_inference_peer.py MODEL --batch-size N [--size H] [--steps K] [--variant compile|eager]

Models by timm's names, with random weights in bf16 and channels last where that is faster. Bytes of images go in, normalized on
the device, probabilities come out; `compile` is torch.compile in its mode `reduce-overhead`, which records CUDA graphs. At batch 1
every prediction waits for its result, as `octant bench --latency` does; otherwise five are queued.
"""
from measuring import flags, measure  # first: it starts the clock

import timm  # noqa: E402
import torch  # noqa: E402

# The names of `octant models` that timm has under another one.
NAMES = {"vit_b_16": "vit_base_patch16_224", "swin_t": "swin_tiny_patch4_window7_224",
         "mobilenet_v3_large": "mobilenetv3_large_100"}


def main():
    arguments = flags(["compile", "eager"], "compile")
    arguments.mode, arguments.precision = "infer", "bf16"
    model = timm.create_model(NAMES.get(arguments.model, arguments.model)).eval().cuda().to(torch.bfloat16)
    if not arguments.model.startswith(("vit", "swin")):
        model = model.to(memory_format=torch.channels_last)
    mean = torch.tensor([123.7, 116.3, 103.5], device="cuda").view(1, 3, 1, 1)
    scale = 1 / torch.tensor([58.4, 57.1, 57.4], device="cuda").view(1, 3, 1, 1)

    def predict(images):
        normal = ((images.permute(0, 3, 1, 2).float() - mean) * scale).to(torch.bfloat16)
        return model(normal).float().softmax(1)

    if arguments.variant == "compile":
        predict = torch.compile(predict, mode="reduce-overhead")
    side = (arguments.batch_size, arguments.size, arguments.size, 3)
    images = torch.randint(0, 256, side, dtype=torch.uint8, device="cuda")
    alone = arguments.batch_size == 1

    def step():
        with torch.inference_mode():
            result = predict(images)
            if alone:
                result.cpu()

    measure(step, "pytorch", arguments, torch.cuda)


main()
