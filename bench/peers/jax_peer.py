"""JAX (XLA) on the work that `octant bench` does: one JSON line with the same keys.

    python jax_peer.py MODEL [--batch-size N] [--size H] [--mode train|infer] [--precision f32|bf16] [--steps K]

Models: fashion-cnn, resnet18, resnet34, resnet50, vit_b_16, vit_l_16. One jitted step with donated state, NHWC, the optimizers written out.
"""
import os
import sys

from measuring import flags, measure  # first: it starts the clock

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402


def conv(x, w, stride=1, padding="SAME"):
    return lax.conv_general_dilated(x, w.astype(x.dtype), (stride, stride), padding, dimension_numbers=("NHWC", "HWIO", "NHWC"))


def max_pool(x, size, stride, padding):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, size, size, 1), (1, stride, stride, 1), padding)


class Weights:
    """Hands out weights in the order they are requested; the first pass only notes their shapes."""

    def __init__(self, given=None):
        self.given, self.shapes = given, []

    def __call__(self, *shape):
        self.shapes.append(shape)
        return jnp.zeros(shape) if self.given is None else self.given[len(self.shapes) - 1]


def norm(w, x, train):
    channels = x.shape[-1]
    scale, shift = w(channels), w(channels)
    wide = x.astype(jnp.float32)
    if train:
        mean = wide.mean((0, 1, 2))
        variance = (wide ** 2).mean((0, 1, 2)) - mean ** 2
    else:
        mean, variance = jnp.zeros(channels), jnp.ones(channels)
    return ((wide - mean) * lax.rsqrt(variance + 1e-5) * scale + shift).astype(x.dtype)


def fashion_cnn(w, x, train):
    y = conv(x, w(3, 3, 1, 64), padding="VALID") + w(64).astype(x.dtype)
    y = jax.nn.relu(max_pool(y, 2, 2, "VALID")).reshape(x.shape[0], -1)
    return y @ w(y.shape[1], 10).astype(y.dtype) + w(10).astype(y.dtype)


def resnet(depths, bottleneck):
    def forward(w, x, train):
        y = jax.nn.relu(norm(w, conv(x, w(7, 7, 3, 64), 2, ((3, 3), (3, 3))), train))
        y = max_pool(y, 3, 2, ((0, 0), (1, 1), (1, 1), (0, 0)))
        for stage, depth in enumerate(depths):
            width = 64 << stage
            output = width * 4 if bottleneck else width
            kernels = [(1, width), (3, width), (1, output)] if bottleneck else [(3, width), (3, output)]
            for block in range(depth):
                stride, z = 2 if stage > 0 and block == 0 else 1, y
                strided = 1 if bottleneck else 0
                for index, (kernel, features) in enumerate(kernels):
                    step, half = stride if index == strided else 1, kernel // 2
                    z = conv(z, w(kernel, kernel, z.shape[-1], features), step, ((half, half), (half, half)))
                    z = norm(w, z, train)
                    z = jax.nn.relu(z) if index + 1 < len(kernels) else z
                if stride != 1 or y.shape[-1] != output:
                    y = norm(w, conv(y, w(1, 1, y.shape[-1], output), stride, "VALID"), train)
                y = jax.nn.relu(y + z)
        pooled = y.astype(jnp.float32).mean((1, 2)).astype(y.dtype)
        return pooled @ w(pooled.shape[1], 1000).astype(y.dtype) + w(1000).astype(y.dtype)
    return forward


def layer_norm(w, x):
    scale, shift, wide = w(x.shape[-1]), w(x.shape[-1]), x.astype(jnp.float32)
    mean, variance = wide.mean(-1, keepdims=True), wide.var(-1, keepdims=True)
    return ((wide - mean) * lax.rsqrt(variance + 1e-6) * scale + shift).astype(x.dtype)


def dense(w, x, width):
    return x @ w(x.shape[-1], width).astype(x.dtype) + w(width).astype(x.dtype)


def vit(patch, width, depth, heads):
    def forward(w, x, train):
        x = conv(x, w(patch, patch, 3, width), patch, "VALID").reshape(x.shape[0], -1, width)
        token = jnp.broadcast_to(w(1, 1, width).astype(x.dtype), (x.shape[0], 1, width))
        x = jnp.concatenate([token, x], 1)
        x = x + w(1, x.shape[1], width).astype(x.dtype)
        for _ in range(depth):
            q, k, v = jnp.split(dense(w, layer_norm(w, x), 3 * width).reshape(*x.shape[:2], heads, -1), 3, -1)
            x = x + dense(w, jax.nn.dot_product_attention(q, k, v).reshape(x.shape), width)
            y = jax.nn.gelu(dense(w, layer_norm(w, x), 4 * width), approximate=False)
            x = x + dense(w, y, width)
        return dense(w, layer_norm(w, x)[:, 0], 1000)
    return forward


# name: (network, channels, classes, optimizer)
MODELS = {
    "fashion-cnn": (fashion_cnn, 1, 10, "adam"),
    "resnet18": (resnet([2, 2, 2, 2], False), 3, 1000, "sgd"),
    "resnet34": (resnet([3, 4, 6, 3], False), 3, 1000, "sgd"),
    "resnet50": (resnet([3, 4, 6, 3], True), 3, 1000, "sgd"),
    "vit_b_16": (vit(16, 768, 12, 12), 3, 1000, "sgd"),
    "vit_l_16": (vit(16, 1024, 24, 16), 3, 1000, "sgd"),
}


def main():
    arguments = flags(["jit"], "jit")
    if arguments.model not in MODELS:
        sys.exit(f"there is no {arguments.model} for JAX; there are {', '.join(MODELS)}")
    if arguments.threads and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:arguments.threads])
    network, channels, classes, optimizer = MODELS[arguments.model]
    dtype = jnp.bfloat16 if arguments.precision == "bf16" else jnp.float32
    images = jax.random.normal(jax.random.key(1), (arguments.batch_size, arguments.size, arguments.size, channels), dtype)
    labels = jnp.arange(arguments.batch_size) % classes
    trains = arguments.mode == "train"
    first_pass = Weights()
    jax.eval_shape(lambda x: network(first_pass, x, trains), images)
    shapes = first_pass.shapes
    keys = jax.random.split(jax.random.key(2), len(shapes))
    weights = [jax.random.normal(key, shape) * 0.02 if len(shape) > 1 else jnp.ones(shape) for key, shape in zip(keys, shapes)]
    state = (weights, [jnp.zeros(s) for s in shapes], [jnp.zeros(s) for s in shapes] if optimizer == "adam" else [], jnp.zeros(()))

    def loss_of(weights):
        logits = network(Weights(weights), images, True).astype(jnp.float32)
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1).mean()

    def train(state):
        weights, first, second, count = state
        gradients = jax.grad(loss_of)(weights)
        count = count + 1
        if optimizer == "sgd":
            first = [0.9 * m + g for m, g in zip(first, gradients)]
            return [w - 1e-3 * m for w, m in zip(weights, first)], first, second, count
        first = [0.9 * m + 0.1 * g for m, g in zip(first, gradients)]
        second = [0.999 * v + 0.001 * g * g for v, g in zip(second, gradients)]
        rate = 1e-3 * jnp.sqrt(1 - 0.999 ** count) / (1 - 0.9 ** count)
        return [w - rate * m / (jnp.sqrt(v) + 1e-8) for w, m, v in zip(weights, first, second)], first, second, count

    train_step = jax.jit(train, donate_argnums=0)
    infer_step = jax.jit(lambda weights: network(Weights(weights), images, False))

    def step():
        nonlocal state
        if trains:
            state = train_step(state)
            jax.block_until_ready(state)
        else:
            jax.block_until_ready(infer_step(state[0]))

    measure(step, f"JAX {jax.__version__}", arguments)


if __name__ == "__main__":
    main()
