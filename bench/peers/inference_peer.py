"""onnxruntime and OpenVINO on the work of `octant bench MODEL --mode infer`: one JSON line with the same keys.

    pip install torch torchvision timm ultralytics==8.4.190 onnx onnxscript onnxruntime openvino
    python inference_peer.py MODEL [--batch-size N] [--size H] [--precision f32|bf16|int8] [--threads T] [--steps K]
                             [--variant onnxruntime|openvino]

Models by the names that `octant models` lists: YOLOv8, 11, 12 and 26 from Ultralytics' package (called, not read), with heads for
boxes or masks (`-seg`), YOLOX from a clone named by YOLOX_DIR, torchvision's and transformers' networks for a class per pixel,
classifiers from torchvision or timm, all with random weights. The network is written once per
size and batch as an ONNX file (folder OCTANT_PEER_ONNX, or one in the folder of temporary files), norms folded as the exporter
and the runtimes like it. Detectors decode their boxes, as ours do; no side suppresses any. onnxruntime has no bf16 on x86. For int8 both run the file that
onnxruntime's static quantization makes (QDQ, a scale per output channel), calibrated on noise.
"""
import os
import pathlib
import sys
import tempfile

from measuring import flags, measure  # first: it starts the clock

import numpy as np  # noqa: E402


def ultralytics(name):
    from ultralytics.nn import tasks
    kind = tasks.SegmentationModel if name.endswith('-seg') else tasks.DetectionModel
    model = kind(f'{name}.yaml', nc=80, verbose=False).eval().fuse(verbose=False)
    head = model.model[-1]
    # As its own exporter does: decoded boxes and scores alone.
    head.export, head.format = True, 'onnx'
    return model


def yolox(name):
    sys.path.insert(0, os.environ['YOLOX_DIR'])
    from yolox.exp import get_exp
    return get_exp(None, name.replace('_', '-')).get_model()


def classifier(name):
    import torchvision
    if name in torchvision.models.list_models():
        return torchvision.models.get_model(name, weights=None)
    import timm
    return timm.create_model(name, pretrained=False)


def onnx_file(arguments):
    """Exported by a process before this one, so that its memory does not count; or now."""
    folder = pathlib.Path(os.environ.get('OCTANT_PEER_ONNX') or pathlib.Path(tempfile.gettempdir()) / 'octant-peers')
    path = folder / f'{arguments.model}-{arguments.size}-{arguments.batch_size}.onnx'
    if path.exists():
        return path
    child = os.fork()
    if child == 0:
        folder.mkdir(parents=True, exist_ok=True)
        export(arguments, path)
        sys.stdout.flush()
        os._exit(0)
    if os.waitpid(child, 0)[1] != 0 or not path.exists():
        sys.exit(f'{arguments.model} could not be written as ONNX')
    return path


def export(arguments, path):
    import torch
    torch.manual_seed(0)
    name = arguments.model
    if name.startswith('yolox'):
        model = yolox(name)
    elif name.startswith('yolo'):
        model = ultralytics(name)
    else:
        from pytorch_peer import segmenter
        model = segmenter(name) or classifier(name)
    model.eval()
    images = torch.zeros(arguments.batch_size, 3, arguments.size, arguments.size)
    half_written = path.with_suffix('.part')
    torch.onnx.export(model, (images,), str(half_written), input_names=['images'], opset_version=17, dynamo=False)
    half_written.rename(path)


def int8_file(path, arguments):
    """The same network in 8 bits."""
    quantized = path.with_name(path.stem + '-int8.onnx')
    if quantized.exists():
        return quantized
    child = os.fork()
    if child == 0:
        quantize(path, quantized, arguments)
        sys.stdout.flush()
        os._exit(0)
    if os.waitpid(child, 0)[1] != 0 or not quantized.exists():
        sys.exit(f'{arguments.model} could not be quantized')
    return quantized


def quantize(path, to, arguments):
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Noise(CalibrationDataReader):
        def __init__(self):
            numbers = np.random.default_rng(1)
            shape = arguments.batch_size, 3, arguments.size, arguments.size
            self.batches = iter([{'images': numbers.random(shape, np.float32)} for _ in range(2)])

        def get_next(self):
            return next(self.batches, None)

    prepared, half_written = to.with_suffix('.prepared'), to.with_suffix('.part')
    quant_pre_process(str(path), str(prepared))
    quantize_static(str(prepared), str(half_written), Noise(), quant_format=QuantFormat.QDQ, per_channel=True,
                    activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8)
    prepared.unlink()
    half_written.rename(to)


def onnxruntime_step(path, arguments, images):
    import onnxruntime
    if arguments.precision == 'bf16':
        sys.exit('onnxruntime has no bf16 kernels for this processor')
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = arguments.threads, 1
    session = onnxruntime.InferenceSession(str(path), options, providers=['CPUExecutionProvider'])
    return lambda: session.run(None, {'images': images})


def openvino_step(path, arguments, images):
    import openvino
    # What is not in 8 bits stays in f32.
    precision = 'f32' if arguments.precision == 'int8' else arguments.precision
    settings = {'INFERENCE_PRECISION_HINT': precision, 'INFERENCE_NUM_THREADS': arguments.threads,
                'PERFORMANCE_HINT': 'LATENCY', 'NUM_STREAMS': 1}
    request = openvino.Core().compile_model(str(path), 'CPU', settings).create_infer_request()
    return lambda: request.infer({'images': images}, share_inputs=True, share_outputs=True)


if __name__ == '__main__':
    arguments = flags(['onnxruntime', 'openvino'], 'openvino', ['f32', 'bf16', 'int8'])
    if arguments.mode != 'infer':
        sys.exit('these runtimes do not train; add --mode infer')
    images = np.random.default_rng(0).random((arguments.batch_size, 3, arguments.size, arguments.size), np.float32)
    make = dict(onnxruntime=onnxruntime_step, openvino=openvino_step)[arguments.variant]
    path = onnx_file(arguments)
    if arguments.precision == 'int8':
        path = int8_file(path, arguments)
    measure(make(path, arguments, images), 'inference', arguments)
