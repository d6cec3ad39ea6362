"""`octant serve` and onnxruntime behind another server, in turn on the same requests: one JSON line per server and round.

    python serve_peer.py MODEL [--binary target/release/octant] [--servers octant,mlserver,triton] [--clients 1,16] [--rounds 3]

Needs numpy, onnxruntime, tritonclient[grpc], and mlserver or nvidia-pytriton for those servers. All compute the exported file of
the same weights and take the Open Inference Protocol's tensors as bytes, over gRPC or (`--protocol http`, not mlserver) HTTP. Clients are threads of a process of their own, which sends bytes made
beforehand; it shares the cores with the server, alike for all. A server's processor time is that of all its processes.
"""
import argparse
import http.client
import json
import multiprocessing
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np

HERE = pathlib.Path(__file__).resolve()
TICK = os.sysconf('SC_CLK_TCK')


def request(side):
    images = np.random.default_rng(0).normal(size=(1, 3, side, side)).astype(np.float32)
    header = json.dumps({'inputs': [{
        'name': 'images', 'datatype': 'FP32', 'shape': list(images.shape), 'parameters': {'binary_data_size': images.nbytes},
    }], 'outputs': [{'name': 'logits', 'parameters': {'binary_data': True}}]}).encode()
    return header + images.tobytes(), {'Inference-Header-Content-Length': str(len(header)), 'Content-Type': 'application/octet-stream'}


def over_http(port, model, side):
    """A function that sends a request and waits for its response."""
    connection = http.client.HTTPConnection('127.0.0.1', port, timeout=120)
    body, headers = request(side)

    def call():
        connection.request('POST', f'/v2/models/{model}/infer', body, headers)
        response = connection.getresponse()
        content = response.read()
        if response.status != 200:
            raise OSError(f'{response.status} {content[:200]!r}')

    return call


def over_grpc(port, model, side):
    import tritonclient.grpc as grpc
    images = np.random.default_rng(0).normal(size=(1, 3, side, side)).astype(np.float32)
    tensor, output = grpc.InferInput('images', images.shape, 'FP32'), grpc.InferRequestedOutput('logits')
    tensor.set_data_from_numpy(images)
    client = grpc.InferenceServerClient(f'127.0.0.1:{port}')
    return lambda: client.infer(model, [tensor], outputs=[output])


def clients(protocol, port, model, side, count, seconds, out):
    """Times of all requests of so many clients, each with one request under way."""
    times, faults, lock = [], [], threading.Lock()
    end = time.time() + seconds

    def client():
        mine = []
        try:
            call = {'http': over_http, 'grpc': over_grpc}[protocol](port, model, side)
            while time.time() < end:
                begun = time.perf_counter()
                call()
                mine.append(time.perf_counter() - begun)
        except Exception as error:  # Whatever it is, the row does not count.
            with lock:
                faults.append(repr(error))
        with lock:
            times.extend(mine)

    threads = [threading.Thread(target=client) for _ in range(count)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    out.put((times, faults))


def children(root):
    """A process and all below it."""
    parents = {}
    for entry in pathlib.Path('/proc').iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / 'stat').read_text().rsplit(') ', 1)[1].split()[1])
            except OSError:
                pass  # It has ended.
    found = [root]
    for process in found:
        found += [child for child, parent in parents.items() if parent == process]
    return found


def processor_seconds(root):
    total = 0
    for process in children(root):
        try:
            fields = pathlib.Path(f'/proc/{process}/stat').read_text().rsplit(') ', 1)[1].split()
            total += int(fields[11]) + int(fields[12])
        except OSError:
            pass
    return total / TICK


# What the other servers run; each is started by this file with `--run NAME FILE PORT`.

def mlserver_folder(file, folder, port, batch):
    """A model of mlserver: onnxruntime with all cores, its own batching on, no worker processes (they copy every tensor)."""
    (folder / 'runtime.py').write_text(f'''
import onnxruntime
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceResponse

class Runtime(MLModel):
    async def load(self):
        self.session = onnxruntime.InferenceSession({str(file)!r}, providers=["CPUExecutionProvider"])
        self.input = self.session.get_inputs()[0].name
        return True

    async def predict(self, payload):
        images = NumpyCodec.decode_input(payload.inputs[0])
        found = self.session.run(None, {{self.input: images}})[0]
        return InferenceResponse(model_name=self.name, outputs=[NumpyCodec.encode_output("logits", found)])
''')
    (folder / 'settings.json').write_text(json.dumps({
        'http_port': port, 'grpc_port': port + 1, 'metrics_port': port + 2, 'parallel_workers': 0, 'debug': False}))
    batching = {'max_batch_size': batch, 'max_batch_time': 0.002} if batch > 1 else {}
    (folder / 'model-settings.json').write_text(json.dumps({'name': 'model', 'implementation': 'runtime.Runtime', **batching}))


def run_triton(file, port, batch):
    import onnxruntime
    from pytriton.decorators import batch as batched
    from pytriton.model_config import ModelConfig, Tensor, DynamicBatcher
    from pytriton.triton import Triton, TritonConfig
    session = onnxruntime.InferenceSession(file, providers=['CPUExecutionProvider'])
    name, output = session.get_inputs()[0], session.get_outputs()[0]

    @batched
    def infer(images):
        return [session.run(None, {name.name: images})[0]]

    with Triton(config=TritonConfig(http_port=port, grpc_port=port + 1, metrics_port=port + 2, log_verbose=0)) as triton:
        triton.bind(
            model_name='model', infer_func=infer,
            inputs=[Tensor(name='images', dtype=np.float32, shape=tuple(name.shape[1:]))],
            outputs=[Tensor(name='logits', dtype=np.float32, shape=tuple(output.shape[1:]))],
            config=ModelConfig(max_batch_size=batch, batcher=DynamicBatcher(max_queue_delay_microseconds=2000)))
        triton.serve()


def start(server, arguments, file, folder, port):
    """The process, its port, and its name of the model, when it is ready."""
    log = open(folder / f'{server}.log', 'a')
    quiet = {'stdout': log, 'stderr': log, 'cwd': folder}
    if server == 'octant':
        command = [arguments.binary, 'serve', arguments.model, '--weights', 'random', '--port', '0', '--json', '--max-batch', str(arguments.max_batch)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        ready = next(event for event in map(json.loads, process.stdout) if event['event'] == 'ready')
        return process, int(ready['address'].rsplit(':', 1)[1]), arguments.model
    if server == 'mlserver':
        mlserver_folder(file, folder, port, arguments.max_batch)
        process = subprocess.Popen([pathlib.Path(sys.executable).parent / 'mlserver', 'start', '.'], **quiet)
    else:
        process = subprocess.Popen([sys.executable, HERE, '--run', str(file), str(port), str(arguments.max_batch)], **quiet)
    for _ in range(600):
        try:
            connection = http.client.HTTPConnection('127.0.0.1', port, timeout=10)
            connection.request('GET', '/v2/models/model/ready')
            if connection.getresponse().status == 200:
                return process, port + (arguments.protocol == 'grpc'), 'model'
        except OSError:
            pass
        if process.poll() is not None:
            break
        time.sleep(0.2)
    sys.exit(f'{server} did not become ready:\n' + (folder / f'{server}.log').read_text()[-3000:])


def measured(server, count, arguments, running):
    process, port, model = running
    out = multiprocessing.Queue()

    def of(seconds):
        worker = multiprocessing.Process(target=clients, args=(arguments.protocol, port, model, arguments.size, count, seconds, out))
        worker.start()
        result = out.get()
        worker.join()
        return result

    of(min(3, arguments.seconds))
    before, begun = processor_seconds(process.pid), time.time()
    times, faults = of(arguments.seconds)
    seconds, processor = time.time() - begun, processor_seconds(process.pid) - before
    if faults or not times:
        return print(f'{server}: {faults[:3]}', file=sys.stderr)
    times.sort()
    return {
        'event': 'done', 'server': server, 'protocol': arguments.protocol, 'model': arguments.model, 'clients': count, 'requests': len(times),
        'images_per_second': len(times) / seconds, 'p50_ms': times[len(times) // 2] * 1e3,
        'p99_ms': times[min(len(times) - 1, len(times) * 99 // 100)] * 1e3, 'processor_ms_per_image': processor / len(times) * 1e3,
    }


def main():
    if sys.argv[1:2] == ['--run']:
        return run_triton(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    parser = argparse.ArgumentParser()
    parser.add_argument('model')
    parser.add_argument('--binary', default='target/release/octant')
    parser.add_argument('--servers', default='octant,mlserver')
    parser.add_argument('--protocol', choices=['grpc', 'http'], default='grpc')
    parser.add_argument('--clients', default='1,16')
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--seconds', type=float, default=15)
    parser.add_argument('--size', type=int, default=224)
    parser.add_argument('--max-batch', type=int, default=16)
    parser.add_argument('--port', type=int, default=18080)
    arguments = parser.parse_args()
    arguments.binary = str(pathlib.Path(arguments.binary).resolve())
    folder = pathlib.Path(tempfile.mkdtemp(prefix='serve-peer-'))
    file = folder / 'model.onnx'
    subprocess.run([arguments.binary, 'export', arguments.model, '--weights', 'random', '--format', 'onnx', '--out', file], check=True, stdout=subprocess.DEVNULL)
    try:
        for _ in range(arguments.rounds):
            # One server at a time: one that waits still takes memory, and some spin.
            for server in arguments.servers.split(','):
                running = start(server, arguments, file, folder, arguments.port)
                try:
                    for count in map(int, arguments.clients.split(',')):
                        row = measured(server, count, arguments, running)
                        if row is None:
                            sys.exit('its log ends with:\n' + (folder / f'{server}.log').read_text()[-3000:])
                        print(json.dumps(row), flush=True)
                finally:
                    running[0].send_signal(signal.SIGTERM)
                    try:
                        running[0].wait(30)
                    except subprocess.TimeoutExpired:
                        running[0].kill()
    finally:
        shutil.rmtree(folder)


if __name__ == '__main__':
    main()
