# Run by tensorboard.rs: writes values as newer writers keep them, then sends two TensorBoards the same requests.
import json, sys, time, urllib.error, urllib.parse, urllib.request
import numpy as np
from tensorboard import default, program
from tensorboard.compat.proto import event_pb2, graph_pb2, node_def_pb2, summary_pb2
from tensorboard.plugins.audio import metadata as audio
from tensorboard.plugins.histogram import metadata as histogram
from tensorboard.plugins.image import metadata as image
from tensorboard.plugins.pr_curve import metadata as pr_curve
from tensorboard.plugins.scalar import metadata as scalar
from tensorboard.summary.writer.event_file_writer import EventFileWriter
from tensorboard.util import tensor_util

folder, port = sys.argv[1:]
if port == 'write':
    writer = EventFileWriter(folder + '/modern')
    random = np.random.RandomState(1)
    for step in range(5):
        counts = [np.sort(random.randint(0, 50, 9))[::-1].astype(np.float64) for _ in range(4)]
        precision, recall = counts[0] / (counts[0] + counts[1] + 1), counts[0] / (counts[0] + counts[3] + 1)
        edges = np.sort(random.randn(11))
        buckets = np.stack([edges[:-1], edges[1:], random.randint(0, 9, 10)], axis=1)
        pixel = bytes.fromhex('89504e470d0a1a0a0000000d49484452000000010000000108000000003a7e9b550000000a4944415478da6360000000020001e221bc330000000049454e44ae426082')
        values = [
            ('modern/loss', np.float32(1.0 / (step + 1)), scalar.create_summary_metadata('a loss', 'described')),
            ('modern/weights', buckets, histogram.create_summary_metadata('', '')),
            ('modern/pr', np.stack([*counts, precision, recall]).astype(np.float32), pr_curve.create_summary_metadata('', '', 9)),
            ('modern/images', np.array([b'1', b'1', pixel, pixel], dtype=object), image.create_summary_metadata('', '')),
        ]
        for tag, array, metadata in values:
            event = event_pb2.Event(wall_time=1.7e9 + step, step=step)
            event.summary.value.add(tag=tag, metadata=metadata, tensor=tensor_util.make_tensor_proto(array))
            writer.add_event(event)
        # As older writers keep them.
        event = event_pb2.Event(wall_time=1.7e9 + step, step=step)
        event.summary.value.add(tag='older/sound').audio.encoded_audio_string = b'RIFF1234WAVEfmt %d' % step
        event.summary.value.add(tag='older/image').image.CopyFrom(summary_pb2.Summary.Image(height=1, width=1, encoded_image_string=pixel))
        text = event.summary.value.add(tag='older/note', metadata=summary_pb2.SummaryMetadata(plugin_data=summary_pb2.SummaryMetadata.PluginData(plugin_name='text')))
        text.tensor.CopyFrom(tensor_util.make_tensor_proto(np.array([b'**bold** %d' % step, b'<i>not</i>'], dtype=object)))
        labels = [[b'RIFF', b'one'], [b'RIFF2', b'two']]
        sound = event.summary.value.add(tag='modern/sound', metadata=audio.create_summary_metadata('', '', audio.Encoding.Value('WAV')))
        sound.tensor.CopyFrom(tensor_util.make_tensor_proto(np.array(labels, dtype=object)))
        writer.add_event(event)
    profile = event_pb2.Event(wall_time=1.7e9, step=1)
    profile.tagged_run_metadata.tag = 'a step'
    writer.add_event(profile)
    graph = event_pb2.Event(wall_time=1.7e9, graph_def=graph_pb2.GraphDef(node=[node_def_pb2.NodeDef(name='x', op='Placeholder')]).SerializeToString())
    writer.add_event(graph)
    writer.flush()
    writer.close()
    # A program that was stopped at step 5 and began again at step 3, in a file of its own.
    for begin, end, value in [(0, 6, 1.0), (3, 8, 2.0)]:
        writer = EventFileWriter(folder + '/resumed')
        for step in range(begin, end):
            event = event_pb2.Event(wall_time=1.7e9 + 100 * value + step, step=step)
            event.summary.value.add(tag='loss', simple_value=value + step)
            event.summary.value.add(tag='image').image.CopyFrom(summary_pb2.Summary.Image(height=1, width=1, encoded_image_string=pixel))
            writer.add_event(event)
        writer.flush()
        writer.close()
    sys.exit()

def start(*flags):
    board = program.TensorBoard(default.get_plugins())
    board.configure(argv=[None, '--port', '0', *flags])
    return board.launch()

urls = {'own': start('--logdir', folder, '--load_fast', 'true'), 'octant': start('--grpc_data_provider', 'localhost:' + port)}

def fetched(url, path, body=None, **query):
    address = url + 'data/' + path + ('?' + urllib.parse.urlencode(query) if query else '')
    request = urllib.request.Request(address, data=body and json.dumps(body).encode(), headers={'Content-Type': 'application/json'} if body else {})
    with urllib.request.urlopen(request, timeout=30) as response:
        return response.read()

def both(path, body=None, **query):
    responses = {}
    for name, url in urls.items():
        try:
            responses[name] = fetched(url, path, body, **query)
        except urllib.error.HTTPError as error:
            responses[name] = str(error).encode()
    return [responses['own'], responses['octant']]

def near(a, b):
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(near(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(near, a, b))
    if isinstance(a, float) or isinstance(b, float):
        return abs(a - b) <= 1e-6 * max(1.0, abs(a))
    return a == b

def compare(what, path, body=None, **query):
    own, octant = (json.loads(response) for response in both(path, body, **query))
    # Keys of blobs are private to a data server.
    def public(value):
        if isinstance(value, dict):
            return {key: public(item) for key, item in value.items() if key not in ('query', 'blob_key')}
        return [public(item) for item in value] if isinstance(value, list) else value
    if not near(public(own), public(octant)):
        sys.exit('%s differ:\nown    %s\noctant %s' % (what, json.dumps(public(own))[:1500], json.dumps(public(octant))[:1500]))
    assert own, what + ' are empty'
    print('same', what)
    return own, octant

for url in urls.values():
    begun = time.time()
    while time.time() - begun < 60:
        if b'modern' in fetched(url, 'runs') and b'modern' in fetched(url, 'plugin/pr_curves/tags'):
            break
        time.sleep(0.2)
compare('runs', 'runs')
tags = compare('scalar tags', 'plugin/scalars/tags')[0]
for run in tags:
    for tag in tags[run]:
        compare('scalars %s %s' % (run, tag), 'plugin/scalars/scalars', run=run, tag=tag)
tags = compare('histogram tags', 'plugin/histograms/tags')[0]
for run in tags:
    for tag in tags[run]:
        compare('histograms %s %s' % (run, tag), 'plugin/histograms/histograms', run=run, tag=tag)
tags = compare('image tags', 'plugin/images/tags')[0]
images = 0
for run in tags:
    for tag in tags[run]:
        lists = compare('images %s %s' % (run, tag), 'plugin/images/images', run=run, tag=tag, sample=0)
        raw = [json.loads(response) for response in both('plugin/images/images', run=run, tag=tag, sample=0)]
        for own, octant in zip(*raw):
            pair = [fetched(url, 'plugin/images/individualImage?' + item['query']) for url, item in zip(urls.values(), (own, octant))]
            assert pair[0] == pair[1] and pair[0][1:4] == b'PNG', (run, tag)
            images += 1
assert images, 'no images'
print('same bytes of', images, 'images')
tags = compare('curve tags', 'plugin/pr_curves/tags')[0]
for run in tags:
    for tag in tags[run]:
        compare('curves %s %s' % (run, tag), 'plugin/pr_curves/pr_curves', run=run, tag=tag)
tags = compare('text tags', 'plugin/text/tags')[0]
for run in tags:
    for tag in tags[run]:
        compare('texts %s %s' % (run, tag), 'plugin/text/text', run=run, tag=tag)
tags = compare('sound tags', 'plugin/audio/tags')[0]
sounds = 0
for run in tags:
    for tag, facts in tags[run].items():
        for sample in range(facts['samples']):
            raw = compare('sounds %s %s %s' % (run, tag, sample), 'plugin/audio/audio', run=run, tag=tag, sample=sample)
            for own, octant in zip(*raw):
                recordings = [fetched(url, 'plugin/audio/individualAudio?' + item['query']) for url, item in zip(urls.values(), (own, octant))]
                assert recordings[0] == recordings[1] and recordings[0][:4] == b'RIFF', (run, tag)
                sounds += 1
assert sounds == 15, sounds
graphs = compare('graphs', 'plugin/graphs/info')[0]
assert graphs['modern']['run_graph'] and 'a step' in graphs['modern']['tags'], graphs
graphs = both('plugin/graphs/graph', run='modern', conceptual='false')
assert graphs[0] == graphs[1] and b'Placeholder' in graphs[0], graphs
profiles = both('plugin/graphs/run_metadata', run='modern', tag='a step')
assert profiles[0] == profiles[1], profiles
resumed = compare('a resumed run', 'plugin/scalars/scalars', run='resumed', tag='loss')[1]
assert [point[2] for point in resumed] == [1, 2, 3, 5, 6, 7, 8, 9], resumed
compare('time series', 'plugin/timeseries/tags')
experiment = compare('settings', 'plugin/hparams/experiment', body={'experimentName': '', 'hparamsLimit': 100})[0]
columns = {'allowedStatuses': ['STATUS_UNKNOWN', 'STATUS_SUCCESS', 'STATUS_FAILURE', 'STATUS_RUNNING'], 'startIndex': 0, 'sliceSize': 100, 'colParams': [], 'experimentName': ''}
groups = compare('sessions', 'plugin/hparams/session_groups', body=columns)[0]
assert len(groups['sessionGroups']) == 2, groups
print('ALL SAME')
