"""One model of every family as an ONNX file, checked, timed, and run by other runtimes: one JSON line per model.

    python export_sweep.py OCTANT [--real] [--models NAME,…] [--batches 1,3,16] [--runtimes onnxruntime,openvino]

Needs numpy, onnx, onnxruntime and openvino. Weights are random, from the same seed on both sides. Without `--real` the families'
tiny networks are taken, with it their smallest one of real size. A row has the seconds of the export by the clock and of the
processor, what onnx's full check says, and per runtime the largest difference from our own output relative to its largest magnitude,
and how many images have another likeliest class where ours leads by more than 1e-4 of that magnitude. It ends with code 1 if a row
is wrong: no file, more than 5 s (by the clock and of the processor: on a busy machine the clock says little), a difference above
1e-4, another class.
"""
import argparse
import http.client
import json
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx

SECONDS, TOLERANCE = 5.0, 1e-4
TEST_ENDINGS = '-tiny', '-test', '-demo'
# A detector's network returns numbers per cell; a file, and a server, return corners and scores.
SERVED = 'detect', 'instance', 'pose', 'obb'


def models(octant, real):
    """One per family, that with the least work."""
    rows = subprocess.run([octant, 'models', '--json'], check=True, capture_output=True, text=True).stdout.splitlines()
    smallest = {}
    for row in map(json.loads, rows):
        if row['name'].endswith(TEST_ENDINGS) != real:
            known = smallest.setdefault(row['family'], row)
            if row['multiply_adds'] < known['multiply_adds']:
                smallest[row['family']] = row
    return list(smallest.values())


def processor_seconds():
    """Of all processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def run(command):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError((done.stderr.strip() or done.stdout.strip() or 'no message').splitlines()[-1])
    return done.stdout


def served(octant, name, images):
    """Rows of boxes, as `octant serve` returns them for tensors."""
    process = subprocess.Popen([octant, 'serve', name, '--weights', 'random', '--port', '0', '--json', '--max-batch', '1'],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        ready = next(event for event in map(json.loads, process.stdout) if event['event'] == 'ready')
        connection = http.client.HTTPConnection(ready['address'], timeout=300)
        results = []
        for image in images:
            header = json.dumps({
                'inputs': [{'name': 'images', 'datatype': 'FP32', 'shape': [1, *image.shape],
                            'parameters': {'binary_data_size': image.nbytes}}],
                'parameters': {'binary_data_output': True},
            }).encode()
            connection.request('POST', f'/v2/models/{name}/infer', header + image.tobytes(),
                               {'Inference-Header-Content-Length': str(len(header))})
            response = connection.getresponse()
            content = response.read()
            if response.status != 200:
                raise RuntimeError(content[:400])
            length = int(response.headers['Inference-Header-Content-Length'])
            output = json.loads(content[:length])['outputs'][0]
            results.append(np.frombuffer(content[length:], np.float32).reshape(output['shape']))
        return np.concatenate(results)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def predicted(octant, entry, images, folder):
    """What Octant computes for these images."""
    if entry['task'] in SERVED:
        return served(octant, entry['name'], images)
    given, found = folder / 'x.npy', folder / 'y.npy'
    np.save(given, images)
    run([octant, 'predict', '--model', entry['name'], '--input', given, '--output', found, '--device', 'cpu'])
    return np.load(found)


def in_onnxruntime(path):
    import onnxruntime
    session = onnxruntime.InferenceSession(str(path), providers=['CPUExecutionProvider'])
    name = session.get_inputs()[0].name
    return lambda images: session.run(None, {name: images})[0]


def in_openvino(path):
    import openvino
    model = openvino.Core().compile_model(str(path), 'CPU', {'INFERENCE_PRECISION_HINT': 'f32'})
    return lambda images: model([images])[model.output(0)]


def compared_rows(ours, theirs):
    """The same of boxes: corners in pixels and scores are compared among themselves."""
    corners, scores = compared(ours[..., :4], theirs[..., :4]), compared(ours[..., 4:], theirs[..., 4:])
    return max(corners[0], scores[0]), 0


def compared(ours, theirs):
    """The relative difference, and how many images have another likeliest class beyond the margin."""
    if ours.shape != theirs.shape:
        raise RuntimeError(f'{list(theirs.shape)} instead of {list(ours.shape)}')
    if not np.isfinite(ours).all():
        raise RuntimeError('our own output is not finite')
    largest = float(np.abs(ours).max())
    if largest == 0:
        raise RuntimeError('our own output is 0 everywhere: nothing is compared')
    changed = 0
    if ours.ndim == 2 and ours.shape[1] > 1:
        first = ours.argmax(1)
        lead = np.take_along_axis(ours, first[:, None], 1)[:, 0] - np.partition(ours, -2, 1)[:, -2]
        changed = int(((theirs.argmax(1) != first) & (lead > TOLERANCE * largest)).sum())
    return float(np.abs(ours - theirs).max()) / largest, changed


def row_of(octant, entry, arguments, folder):
    """Everything that is known of one model; `wrong` lists what is not as it should be."""
    name = entry['name']
    row = {'event': 'model', 'model': name, 'family': entry['family'], 'task': entry['task'], 'wrong': []}
    path = folder / f'{name}.onnx'
    begun, before = time.perf_counter(), processor_seconds()
    try:
        run([octant, 'export', name, '--weights', 'random', '--out', path, '--json'])
    except RuntimeError as error:
        row['wrong'].append(f'no file: {error}')
        return row
    row['seconds'] = round(time.perf_counter() - begun, 2)
    row['processor_seconds'] = round(processor_seconds() - before, 2)
    row['mebibytes'] = round(path.stat().st_size / 2**20, 1)
    if min(row['seconds'], row['processor_seconds']) > SECONDS:
        row['wrong'].append(f'{row["seconds"]} s, {row["processor_seconds"]} of the processor')
    try:
        onnx.checker.check_model(str(path), full_check=True)
    except Exception as error:  # Whatever the checker raises.
        row['wrong'].append(f'check: {error}'[:400])
    height, width, channels = entry['input']
    images = np.random.default_rng(1).normal(size=(max(arguments.batches), channels, height, width)).astype(np.float32)
    try:
        ours = predicted(octant, entry, images, folder)
    except (RuntimeError, OSError) as error:
        row['wrong'].append(f'our own prediction: {error}')
        return row
    for runtime in arguments.runtimes:
        try:
            call = {'onnxruntime': in_onnxruntime, 'openvino': in_openvino}[runtime](path)
            compare = compared_rows if entry['task'] in SERVED else compared
            pairs = [compare(ours[:batch], call(images[:batch])) for batch in arguments.batches]
        except Exception as error:  # Whatever the runtime raises.
            row['wrong'].append(f'{runtime}: {error}'[:400])
            continue
        difference, changed = max(pair[0] for pair in pairs), max(pair[1] for pair in pairs)
        row[runtime] = {'difference': difference, 'changed': changed}
        if difference > TOLERANCE or changed:
            row['wrong'].append(f'{runtime}: {difference:.1e}, {changed} other classes')
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('octant')
    parser.add_argument('--real', action='store_true')
    parser.add_argument('--models', type=lambda text: text.split(','), default=[])
    parser.add_argument('--batches', type=lambda text: [int(part) for part in text.split(',')], default=[1, 3, 16])
    parser.add_argument('--runtimes', type=lambda text: text.split(','), default=['onnxruntime', 'openvino'])
    arguments = parser.parse_args()
    octant = str(pathlib.Path(arguments.octant).resolve())
    chosen = models(octant, arguments.real)
    if arguments.models:
        found = run([octant, 'models', '--json']).splitlines()
        chosen = [entry for entry in map(json.loads, found) if entry['name'] in arguments.models]
    wrong = 0
    for entry in chosen:
        # A folder per model: a file of weights can be large.
        with tempfile.TemporaryDirectory(prefix='export-sweep-') as folder:
            row = row_of(octant, entry, arguments, pathlib.Path(folder))
        wrong += bool(row['wrong'])
        print(json.dumps(row), flush=True)
    print(json.dumps({'event': 'done', 'models': len(chosen), 'wrong': wrong}))
    sys.exit(wrong > 0)


if __name__ == '__main__':
    main()
