"""How soon numbers of event files can be looked at: `octant` beside TensorBoard's own data server on the same files.

    python board_peer.py OCTANT WORK [--rounds 7] [--images GB]

OCTANT is the binary, WORK an empty folder for the event files. Python needs tensorboard (with its data server) and grpcio;
with --images also google-crc32c. The servers take turns, every round starts each of them once, and medians are printed, in seconds and in seconds of processor time,
which depends less on what else the machine does.

- `data server`: from the start of the process until gRPC returns the last step of every run, for Octant and for
  RustBoard, which compares checksums of data only with --checksum.
- `board`: from the start of `octant board` until /api/runs says that everything is read and a chart's points arrived.
- `TensorBoard`: from the start of `tensorboard` with either data server until its HTTP interface returns the scalars of a run.
"""
import argparse, json, os, re, shutil, statistics, struct, subprocess, sys, tempfile, time, urllib.parse, urllib.request

import grpc
import tensorboard_data_server
from tensorboard.data.proto import data_provider_pb2 as proto
from tensorboard.data.proto import data_provider_pb2_grpc as service

RUSTBOARD = os.path.join(os.path.dirname(tensorboard_data_server.__file__), 'bin', 'server')


def write_scalars(octant, folder, runs, steps):
    """`runs` runs of `steps` scalars, one per record."""
    for run in range(runs):
        out = os.path.join(folder, 'run-%03d' % run)
        if os.path.exists(out):
            continue
        with tempfile.NamedTemporaryFile('w', suffix='.csv') as table:
            table.write('step,wall_time,loss\n')
            table.writelines('%d,%.3f,%.6f\n' % (step, 1.7e9 + step * 0.1, 1.0 / (step + 1 + run)) for step in range(steps))
            table.flush()
            subprocess.run([octant, 'events', 'import', table.name, '--out', out], check=True, stdout=subprocess.DEVNULL)


def write_images(folder, gigabytes):
    """One event file with an image of 256 KiB after every 40 scalars."""
    import google_crc32c
    def masked(data):
        crc = google_crc32c.value(data)
        return ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff
    def record(event):
        length = struct.pack('<Q', len(event))
        return length + struct.pack('<I', masked(length)) + event + struct.pack('<I', masked(event))
    def varint(value):
        out = b''
        while value >= 0x80:
            out += bytes([value & 0x7f | 0x80])
            value >>= 7
        return out + bytes([value])
    def field(number, content):
        return bytes([number << 3 | 2]) + varint(len(content)) + content
    def event(step, value):
        return record(b'\x09' + struct.pack('<d', 1.7e9 + step) + b'\x10' + varint(step) + field(5, field(1, value)))
    os.makedirs(folder)
    png = b'\x89PNG\r\n\x1a\n' + os.urandom(256 << 10)
    with open(os.path.join(folder, 'events.out.tfevents.0'), 'wb', buffering=8 << 20) as file:
        step, written = 0, 0
        while written < gigabytes * 1e9:
            for _ in range(40):
                written += file.write(event(step, field(1, b'loss') + b'\x15' + struct.pack('<f', 1.0 / (step + 1))))
                step += 1
            image = b'\x08\x40\x10\x40\x18\x03' + field(4, png)
            written += file.write(event(step, field(1, b'samples') + field(4, image)))
    return step


class Process:
    def __init__(self, *command, environment=None):
        self.begun = time.perf_counter()
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env={**os.environ, **(environment or {})})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def spent(self):
        """Seconds since the start, seconds of processor time, and the most memory that was resident in MiB."""
        seconds = time.perf_counter() - self.begun
        with open('/proc/%d/status' % self.process.pid) as status:
            peak = int(re.search(r'VmHWM:\s+(\d+)', status.read()).group(1)) / 1024
        with open('/proc/%d/stat' % self.process.pid) as stat:
            ticks = stat.read().rsplit(')', 1)[1].split()[11:13]
        return seconds, sum(map(int, ticks)) / os.sysconf('SC_CLK_TCK'), peak


def data_server(command, folder, runs, last):
    """Seconds until the last step of every run is known."""
    with tempfile.TemporaryDirectory() as temporary:
        port_file = os.path.join(temporary, 'port')
        flags = ['--logdir=' + folder, '--port=0', '--port-file=' + port_file, '--die-after-stdin', '--samples-per-plugin=scalars=1000', '--reload=5']
        with Process(*command, *flags) as process:
            while not os.path.exists(port_file) or not open(port_file).read().endswith('\n'):
                time.sleep(0.001)
            stub = service.TensorBoardDataProviderStub(grpc.insecure_channel('localhost:%s' % open(port_file).read().strip()))
            request = proto.ListScalarsRequest(experiment_id='x', plugin_filter=proto.PluginFilter(plugin_name='scalars'))
            while True:
                response = stub.ListScalars(request)
                ends = [tag.metadata.max_step for run in response.runs for tag in run.tags]
                if len(ends) == runs and all(end >= last for end in ends):
                    return process.spent()
                time.sleep(0.002)


def board(octant, folder, is_whole=True):
    """Seconds until a chart's points arrived: after everything is read, or the first ones."""
    with Process(octant, 'board', folder, '--port', '0') as process:
        url = process.process.stdout.readline().strip()
        while True:
            listed = json.load(urllib.request.urlopen(url + 'api/runs'))
            if (listed['ready'] or not is_whole) and any(tag['name'] == 'loss' for tag in listed['tags']):
                points = urllib.request.urlopen(url + 'api/points?' + urllib.parse.urlencode({'tag': 'loss', 'axis': 'step', 'width': 600})).read()
                if len(points) > 64:
                    first = process.spent()
                    break
            time.sleep(0.002)
        while not listed['ready']:
            time.sleep(0.05)
            listed = json.load(urllib.request.urlopen(url + 'api/runs'))
        return first, process.spent()


def tensorboard(binary, folder, run):
    """Seconds until TensorBoard's own interface returns a run's scalars."""
    with socket_port() as port:
        flags = ['--logdir', folder, '--port', str(port), '--load_fast', 'true']
        with Process(sys.executable, '-m', 'tensorboard.main', *flags, environment={'TENSORBOARD_DATA_SERVER_BINARY': binary}) as process:
            url = 'http://localhost:%d/data/plugin/scalars/scalars?%s' % (port, urllib.parse.urlencode({'run': run, 'tag': 'loss'}))
            while True:
                try:
                    if len(json.load(urllib.request.urlopen(url))) > 900:
                        return process.spent()[:1]
                except (OSError, ValueError):
                    pass
                time.sleep(0.01)


class socket_port:
    """A port that nothing listens on now."""
    def __enter__(self):
        import socket
        with socket.socket() as probe:
            probe.bind(('localhost', 0))
            return probe.getsockname()[1]

    def __exit__(self, *_):
        pass


def compared(name, rounds, ways):
    """Medians of ways that take turns."""
    times = {way: [] for way in ways}
    for _ in range(rounds):
        for way, measure in ways.items():
            times[way].append(measure())
    for way, found in times.items():
        seconds = [value[0] for value in found]
        more = ''
        if len(found[0]) > 1:
            more = ', %.3f s of processor time, %.0f MiB at most' % (statistics.median(value[1] for value in found), max(value[2] for value in found))
        print('%-28s %-26s median %.3f s, %.3f to %.3f%s' % (name, way, statistics.median(seconds), min(seconds), max(seconds), more), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('octant')
    parser.add_argument('work')
    parser.add_argument('--rounds', type=int, default=7)
    parser.add_argument('--images', type=float, help='measure one file of so many GB with images instead')
    options = parser.parse_args()
    if options.images:
        folder = os.path.join(options.work, 'images')
        try:
            write_images(os.path.join(folder, 'run'), options.images)
            for _ in range(3):
                first, whole = board(options.octant, folder, is_whole=False)
                print('%.1f GB with images: first chart after %.3f s, everything after %.1f s, %.0f MiB at most' % (options.images, first[0], whole[0], whole[2]), flush=True)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return
    for runs in (1, 200):
        folder, steps = os.path.join(options.work, 'scalars-%d' % runs), 1_000_000 // runs
        write_scalars(options.octant, folder, runs, steps)
        name = '1,000,000 scalars, %d run%s' % (runs, '' if runs == 1 else 's')
        compared(name, options.rounds, {
            'octant board': lambda: board(options.octant, folder)[0],
            'octant data server': lambda: data_server([options.octant], folder, runs, steps - 1),
            'RustBoard --checksum': lambda: data_server([RUSTBOARD, '--checksum'], folder, runs, steps - 1),
            'RustBoard': lambda: data_server([RUSTBOARD], folder, runs, steps - 1),
        })
        compared(name, max(3, options.rounds // 2), {
            'TensorBoard with octant': lambda: tensorboard(options.octant, folder, 'run-000'),
            'TensorBoard with its own': lambda: tensorboard(RUSTBOARD, folder, 'run-000'),
        })


if __name__ == '__main__':
    main()
