"""Mixed valid and hostile requests to `octant serve` for a while, each response checked: one JSON line with what was seen.

    python serve_soak.py [--binary target/release/octant] [--model resnet-tiny] [--side 32] [--seconds 3600] [--clients 8]

Only the standard library and NumPy. The reference is the server's own response to single requests before the load begins; under load
a response that belongs to another image, a missing one, or a hostile request that is answered by anything but a refusal
is counted and listed. At the end the server is stopped under load. Exit code 1 if anything was wrong, or memory grew.
"""
import argparse
import http.client
import json
import random
import signal
import socket
import subprocess
import sys
import threading
import time

import numpy as np

IMAGES = 24


def binary_request(images):
    header = json.dumps({'inputs': [{
        'name': 'images', 'datatype': 'FP32', 'shape': list(images.shape), 'parameters': {'binary_data_size': images.nbytes},
    }], 'outputs': [{'name': 'logits', 'parameters': {'binary_data': True}}]}).encode()
    return header + images.tobytes(), {'Inference-Header-Content-Length': str(len(header))}


def json_request(images):
    inputs = [{'name': 'images', 'datatype': 'FP32', 'shape': list(images.shape), 'data': images.ravel().tolist()}]
    return json.dumps({'inputs': inputs}).encode(), {}


def logits(response, body):
    length = response.getheader('Inference-Header-Content-Length')
    if length is None:
        output = json.loads(body)['outputs'][0]
        return np.array(output['data'], np.float32).reshape(output['shape'])
    output = json.loads(body[:int(length)])['outputs'][0]
    return np.frombuffer(body[int(length):], np.float32).reshape(output['shape'])


def call(address, path, body, headers, timeout=60):
    connection = http.client.HTTPConnection(*address, timeout=timeout)
    try:
        connection.request('POST', path, body, headers)
        response = connection.getresponse()
        return response, response.read()
    finally:
        connection.close()


class Soak:
    def __init__(self, address, arguments):
        self.address, self.path = address, f'/v2/models/{arguments.model}/infer'
        numbers = np.random.default_rng(0)
        self.images = numbers.normal(size=(IMAGES, 3, arguments.side, arguments.side)).astype(np.float32)
        one = [self.predict(binary_request, [index]) for index in range(IMAGES)]
        self.expected = np.concatenate(one)
        self.counts, self.faults, self.lock = {}, [], threading.Lock()
        self.stopping = False

    def predict(self, form, indices):
        response, body = call(self.address, self.path, *form(self.images[indices]))
        if response.status in (429, 503):
            return None
        if response.status != 200:
            raise ValueError(f'{response.status} {body[:200]!r}')
        return logits(response, body)

    def note(self, kind, fault=None):
        with self.lock:
            self.counts[kind] = self.counts.get(kind, 0) + 1
            if fault and len(self.faults) < 20:
                self.faults.append(f'{kind}: {fault}')
            self.counts['faults'] = self.counts.get('faults', 0) + bool(fault)

    def valid(self, chance):
        form = binary_request if chance.random() < 0.7 else json_request
        indices = [chance.randrange(IMAGES) for _ in range(chance.choice([1, 1, 1, 2, 3, 5]))]
        found = self.predict(form, indices)
        if found is None:
            return self.note('refused under load')
        expected = self.expected[indices]
        # Programs for other batch sizes may round differently.
        wrong = found.shape != expected.shape or np.abs(found - expected).max() > 1e-4 * np.abs(self.expected).max()
        self.note('valid', f'images {indices} have other predictions' if wrong else None)

    def hostile(self, chance):
        good, headers = binary_request(self.images[:1])
        kind = chance.choice(['garbage', 'shape', 'short', 'model', 'image', 'length', 'gone', 'header'])
        if kind in ('gone', 'length'):
            length = len(good) if kind == 'gone' else 1 << 50
            with socket.create_connection(self.address, timeout=20) as raw:
                raw.sendall(f'POST {self.path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {length}\r\n\r\n'.encode())
                raw.sendall(good[:chance.randrange(200)])
                if kind == 'gone':
                    return self.note('client gone')
                status = raw.recv(64)
            return self.note('hostile', None if status.startswith(b'HTTP/1.1 4') else f'{kind}: {status!r}')
        path, body = self.path, good
        if kind == 'garbage':
            body, headers = chance.randbytes(300), {}
        elif kind == 'shape':
            body, headers = json_request(self.images[:1, :, 1:])
        elif kind == 'short':
            body = good[:-chance.randrange(1, 4000)]
        elif kind == 'model':
            path = '/v2/models/none/infer'
        elif kind == 'image':
            path, body, headers = '/predict', chance.randbytes(2000), {}
        elif kind == 'header':
            headers = {'Inference-Header-Content-Length': str(len(good) + 7)}
        response, _ = call(self.address, path, body, headers)
        self.note('hostile', None if 400 <= response.status < 500 else f'{kind}: {response.status}')

    def client(self, seed):
        chance = random.Random(seed)
        while not self.stopping:
            try:
                (self.valid if chance.random() < 0.7 else self.hostile)(chance)
            except Exception as error:  # Whatever it is, a response is missing.
                if not self.stopping:
                    self.note('lost', repr(error))


def resident(process):
    with open(f'/proc/{process.pid}/status') as status:
        return next(int(line.split()[1]) for line in status if line.startswith('VmRSS:')) * 1024


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--binary', default='target/release/octant')
    parser.add_argument('--model', default='resnet-tiny')
    parser.add_argument('--side', type=int, default=32)
    parser.add_argument('--seconds', type=float, default=3600)
    parser.add_argument('--clients', type=int, default=8)
    arguments = parser.parse_args()
    command = [arguments.binary, 'serve', arguments.model, '--weights', 'random', '--port', '0', '--device', 'cpu', '--json']
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    ready = next(event for event in map(json.loads, process.stdout) if event['event'] == 'ready')
    host, port = ready['address'].rsplit(':', 1)
    soak = Soak((host, int(port)), arguments)
    threads = [threading.Thread(target=soak.client, args=[seed], daemon=True) for seed in range(arguments.clients)]
    [thread.start() for thread in threads]
    begun, memory = time.time(), []
    while time.time() - begun < arguments.seconds and process.poll() is None:
        time.sleep(min(5, arguments.seconds / 20))
        memory.append(resident(process))
    soak.stopping = True
    process.send_signal(signal.SIGTERM)
    events = [json.loads(line) for line in process.stdout]
    code = process.wait(30)
    # What a server keeps is there after a quarter of the time.
    settled = max(memory[:len(memory) // 4 + 1])
    grew = max(memory[-3:]) > settled * 1.05 + (4 << 20)
    stopped = code == 0 and any(event['event'] == 'stopped' and event['drained'] for event in events)
    print(json.dumps({
        'event': 'done', 'seconds': round(time.time() - begun), **soak.counts, 'resident_settled': settled,
        'resident_last': memory[-1], 'memory_grew': grew, 'stopped_cleanly': stopped, 'first_faults': soak.faults,
    }))
    sys.exit(bool(soak.counts.get('faults') or grew or not stopped))


if __name__ == '__main__':
    main()
