"""The Fashion-MNIST chapter of the TPU tutorial in Keras, beside the recipe `fashion-mnist`.

    fashion_mnist_peer.py seeds DATA [--count 5] [--first 0] [--epochs 5]
    fashion_mnist_peer.py steps DATA FOLDER [--images 1000] [--steps 60]

`seeds` trains with the chapter's settings and prints the accuracy of every epoch and of validation. `steps` compares step by
step: it writes the first images (a batch of all of them is the same in any order) and Keras's initial weights to FOLDER,
trains there, prints loss and accuracy of every step, and the command that does the same here. DATA is the folder of IDX
files. Run it with a Python that has tensorflow and safetensors.
"""

import argparse
import gzip
import json
from pathlib import Path

import numpy as np
import tensorflow as tf
from safetensors.numpy import save_file


def read(folder, kind):
    images = gzip.open(folder / f"{kind}-images-idx3-ubyte.gz").read()
    labels = gzip.open(folder / f"{kind}-labels-idx1-ubyte.gz").read()
    return np.frombuffer(images, np.uint8, offset=16).reshape(-1, 28, 28, 1), np.frombuffer(labels, np.uint8, offset=8)


def compiled():
    layers = tf.keras.layers
    model = tf.keras.Sequential(
        [
            tf.keras.Input((28, 28, 1)),
            layers.Conv2D(64, (3, 3)),
            layers.MaxPooling2D((2, 2), strides=(2, 2)),
            layers.Activation("relu"),
            layers.Flatten(),
            layers.Dense(10),
            layers.Activation("softmax"),
        ]
    )
    model.compile(
        optimizer=tf.keras.optimizers.Adam(learning_rate=1e-3),
        loss=tf.keras.losses.sparse_categorical_crossentropy,
        metrics=[tf.keras.metrics.sparse_categorical_accuracy],
    )
    return model


def fit(model, data, epochs, **options):
    images, labels = data
    history = model.fit(images.astype(np.float32), labels.astype(np.float32), epochs=epochs, verbose=0, **options).history
    return {name.replace("sparse_categorical_", ""): values for name, values in history.items()}


def seeds(arguments):
    train, test = read(arguments.data, "train"), read(arguments.data, "t10k")
    test = tuple(part.astype(np.float32) for part in test)
    rows = []
    for seed in range(arguments.first, arguments.first + arguments.count):
        tf.keras.utils.set_random_seed(seed)
        options = dict(batch_size=1000, validation_data=test, validation_freq=arguments.epochs)
        history = fit(compiled(), train, arguments.epochs, **options)
        rows.append(history["accuracy"] + history["val_accuracy"])
        print(json.dumps({"seed": seed, "accuracy": [round(value, 4) for value in rows[-1]]}), flush=True)
    mean, deviation = np.mean(rows, 0), np.std(rows, 0, ddof=1)
    print(json.dumps({"mean": mean.round(4).tolist(), "deviation": deviation.round(4).tolist()}))


def steps(arguments):
    images, labels = (part[: arguments.images] for part in read(arguments.data, "train"))
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for kind in ["train", "t10k"]:
        head = np.array([0x803, len(images), 28, 28], ">i4").tobytes()
        (arguments.folder / f"{kind}-images-idx3-ubyte").write_bytes(head + images.tobytes())
        head = np.array([0x801, len(labels)], ">i4").tobytes()
        (arguments.folder / f"{kind}-labels-idx1-ubyte").write_bytes(head + labels.tobytes())
    tf.keras.utils.set_random_seed(0)
    model = compiled()
    kernel, bias, dense, offset = model.get_weights()
    tensors = {
        "conv.weight": kernel.transpose(3, 2, 0, 1),
        "conv.bias": bias,
        "fc.weight": dense.reshape(13, 13, 64, 10).transpose(3, 2, 0, 1).reshape(10, -1),
        "fc.bias": offset,
    }
    weights = arguments.folder / "initial.safetensors"
    save_file({name: np.ascontiguousarray(value) for name, value in tensors.items()}, weights)
    print(
        f"octant train fashion-mnist --data {arguments.folder} --weights {weights} "
        f"--batch-size {arguments.images} --epochs {arguments.steps} --out {arguments.folder}/run"
    )
    history = fit(model, (images, labels), arguments.steps, batch_size=len(images), shuffle=False)
    for step, (loss, accuracy) in enumerate(zip(history["loss"], history["accuracy"]), 1):
        print(json.dumps({"step": step, "loss": loss, "accuracy": accuracy}))


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
commands = parser.add_subparsers(required=True)
command = commands.add_parser("seeds")
command.add_argument("data", type=Path)
command.add_argument("--count", type=int, default=5)
command.add_argument("--first", type=int, default=0)
command.add_argument("--epochs", type=int, default=5)
command.set_defaults(run=seeds)
command = commands.add_parser("steps")
command.add_argument("data", type=Path)
command.add_argument("folder", type=Path)
command.add_argument("--images", type=int, default=1000)
command.add_argument("--steps", type=int, default=60)
command.set_defaults(run=steps)
arguments = parser.parse_args()
arguments.run(arguments)
