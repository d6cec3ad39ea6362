"""Ultralytics' trainer as a peer of `octant train detect`. The package is called, not read.

    pip install torch ultralytics==8.4.190
    python detection_peer.py weights yolo11n 5 init.pt          initial weights for both sides (seed 0)
    python detection_peer.py weights yolo11n-pose 1 init.pt 5,3     with the keypoints of the data
    python detection_peer.py train init.pt set/data.yaml DIR KEY=VALUE ...
    python detection_peer.py step yolo11n --batch 64 --size 640 --compile network      or all: the loss too
    python detection_peer.py yolo11n --batch-size 8 --size 320 --variant channels-last     with the flags of `octant bench`
    python detection_peer.py loader set/data.yaml --batch 64 --size 640 --workers 1

`train` takes the arguments of `yolo detect train` and adds to its result the images per second of all epochs but the first
two, and the largest memory of the GPU. Every command prints one JSON line.
"""
import argparse, json, os, pathlib, resource, sys, time
from measuring import measure, parser_of  # before anything heavy: it starts the clock

os.environ.setdefault('YOLO_OFFLINE', 'True')
import torch


def weights(name, classes, path, keypoints=''):
    from ultralytics import YOLO
    from ultralytics.nn import tasks
    torch.manual_seed(0)
    yolo = YOLO(f'{name}.yaml')
    kind = {'seg': 'Segmentation', 'pose': 'Pose', 'obb': 'OBB'}.get(name.rpartition('-')[2], 'Detection')
    shape = dict(data_kpt_shape=[int(number) for number in keypoints.split(',')]) if keypoints else {}
    yolo.model = getattr(tasks, kind + 'Model')(f'{name}.yaml', nc=int(classes), verbose=False, **shape)
    yolo.model.args = {}
    yolo.save(path)
    print(json.dumps(dict(weights=path, parameters=sum(p.numel() for p in yolo.model.parameters()))))


def train(path, data, folder, pairs):
    from ultralytics import YOLO
    import yaml
    keys = {key: yaml.safe_load(value) for key, value in (pair.split('=', 1) for pair in pairs)}
    folder = pathlib.Path(folder).absolute()
    yolo, ends, starts = YOLO(path), [], []
    count = [0]
    # Only the epochs' training part is timed: validation comes between `on_train_epoch_end` and the next start.
    yolo.add_callback('on_train_epoch_start', lambda trainer: starts.append(time.time()))

    def epoch_end(trainer):
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        ends.append(time.time())
        count[0] = len(trainer.train_loader.dataset)
    yolo.add_callback('on_train_epoch_end', epoch_end)
    began = time.time()
    yolo.train(data=data, project=str(folder.parent), name=folder.name, exist_ok=True, plots=False, **keys)
    epochs = [end - start for start, end in zip(starts, ends)]
    counted = sorted(epochs[2:] or epochs)
    result = dict(images=count[0], epochs=epochs, total=time.time() - began, best_rate=count[0] / counted[0],
                  rate=count[0] / counted[len(counted) // 2], cpu_seconds=sum(resource.getrusage(resource.RUSAGE_SELF)[:2]))
    if torch.cuda.is_available():
        result.update(gpu_gib=torch.cuda.max_memory_reserved() / 2**30)
    metrics = getattr(yolo.trainer, 'metrics', None) or {}
    result.update(metrics={key: float(value) for key, value in metrics.items()})
    print(json.dumps(result))


def objects(batch, per_image):
    """A batch with as many objects per image as mosaics of busy images have."""
    generator = torch.Generator().manual_seed(1)
    count = batch * per_image
    size = torch.rand(count, 2, generator=generator) * 0.3 + 0.02
    center = torch.rand(count, 2, generator=generator) * (1 - size) + size / 2
    return dict(batch_idx=torch.arange(batch).repeat_interleave(per_image).float(),
                cls=torch.randint(0, 80, (count, 1), generator=generator).float(), bboxes=torch.cat([center, size], 1))


def masks(boxes, arguments):
    """A rectangle for each object, on a grid of a fourth of the image, numbered from one in its image; later ones lie above."""
    grid = arguments.size // 4
    owners = torch.zeros(arguments.batch_size, grid, grid)
    corners = (torch.cat([boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2], 1) * grid).int().tolist()
    for number, (x0, y0, x1, y1) in enumerate(corners):
        owners[number // arguments.boxes, y0:y1, x0:x1] = number % arguments.boxes + 1
    return dict(masks=owners, sem_masks=torch.zeros(arguments.batch_size, grid, grid))


def network_of(name):
    from ultralytics.nn import tasks
    kind = tasks.SegmentationModel if name.endswith('-seg') else tasks.DetectionModel
    return kind(f'{name}.yaml', nc=80, verbose=False)


def trained_step(arguments, device, channels_last, compiled):
    """A network and what one step of its training is: forward, loss, gradients, clipping, SGD. `compiled` is 'network', 'all' or
    nothing."""
    from ultralytics.cfg import get_cfg
    torch.manual_seed(0)
    model = network_of(arguments.model)
    model.args = get_cfg()
    model = model.to(device).train()
    if channels_last:
        model = model.to(memory_format=torch.channels_last)
    for name, parameter in model.named_parameters():
        parameter.requires_grad = '.dfl' not in name
    model.criterion = model.init_criterion()
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=1e-4, momentum=0.937, nesterov=True,
                                weight_decay=5e-4)
    batch = objects(arguments.batch_size, arguments.boxes)
    if arguments.model.endswith('-seg'):
        batch.update(masks(batch['bboxes'], arguments))
    batch = {key: value.to(device) for key, value in batch.items()}
    images = torch.randint(0, 256, (arguments.batch_size, 3, arguments.size, arguments.size), dtype=torch.uint8, device=device)
    if channels_last:
        images = images.contiguous(memory_format=torch.channels_last)

    network = torch.compile(model) if compiled == 'network' else model

    def loss_of(images):
        batch['img'] = images.float() / 255
        return model.loss(batch, network(batch['img']))[0].sum()
    loss_of = torch.compile(loss_of) if compiled == 'all' else loss_of

    def one():
        with torch.autocast(device.type, torch.bfloat16, enabled=arguments.precision == 'bf16'):
            loss = loss_of(images)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss
    return one


def step(arguments):
    device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')
    if device.type == 'cpu':
        torch.set_num_threads(arguments.threads)
    one = trained_step(arguments, device, arguments.channels_last, arguments.compile)
    began = time.time()
    wait = torch.cuda.synchronize if device.type == 'cuda' else lambda: None
    for _ in range(2 if device.type == 'cpu' else 8):
        one()
    wait()
    first = time.time() - began
    times, processor = [], time.process_time()
    for _ in range(arguments.steps):
        wait()
        start = time.time()
        one()
        wait()
        times.append(time.time() - start)
    processor = (time.process_time() - processor) / arguments.steps
    median = sorted(times)[len(times) // 2]
    memory = torch.cuda.max_memory_reserved() / 2**30 if device.type == 'cuda' else None
    print(json.dumps(dict(model=arguments.model, compile=arguments.compile, ms=median * 1e3, rate=arguments.batch_size / median,
                          cpu_ms=processor * 1e3, warm_up_seconds=first, gpu_gib=memory)))


def bench():
    """With the flags of `octant bench`, on the processor: training steps, or decoded boxes without suppression."""
    parser = parser_of(['eager', 'channels-last', 'compile'], 'eager')
    parser.add_argument('--boxes', type=int, default=40)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    device, channels_last, compiled = torch.device('cpu'), arguments.variant != 'eager', arguments.variant == 'compile'
    if arguments.mode == 'train':
        return measure(trained_step(arguments, device, channels_last, 'all' if compiled else None), 'pytorch', arguments)
    model = network_of(arguments.model).eval().fuse(verbose=False)
    images = torch.rand(arguments.batch_size, 3, arguments.size, arguments.size)
    if channels_last:
        model, images = model.to(memory_format=torch.channels_last), images.contiguous(memory_format=torch.channels_last)
    forward = torch.compile(model) if compiled else model

    def one():
        with torch.inference_mode(), torch.autocast('cpu', torch.bfloat16, enabled=arguments.precision == 'bf16'):
            forward(images)
    measure(one, 'pytorch', arguments)


def loader(arguments):
    """Images per second of the trainer's own loader, without a network."""
    from ultralytics.cfg import get_cfg
    from ultralytics.data.build import build_yolo_dataset, build_dataloader
    from ultralytics.data.utils import check_det_dataset
    data = check_det_dataset(arguments.data)
    config = get_cfg(overrides=dict(imgsz=arguments.size, task='detect'))
    dataset = build_yolo_dataset(config, data['train'], arguments.batch_size, data, mode='train', rect=False, stride=32)
    batches = build_dataloader(dataset, arguments.batch_size, arguments.workers, shuffle=True, rank=-1)
    iterator, seen = iter(batches), 0
    for _ in range(2):
        next(iterator)
    before = sum(resource.getrusage(resource.RUSAGE_SELF)[:2]) + sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    start = time.time()
    while time.time() - start < arguments.seconds:
        try:
            seen += len(next(iterator)['img'])
        except StopIteration:
            iterator = iter(batches)
    elapsed = time.time() - start
    after = sum(resource.getrusage(resource.RUSAGE_SELF)[:2]) + sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    print(json.dumps(dict(workers=arguments.workers, rate=seen / elapsed, own_cpu_seconds=after - before, images=seen)))


if __name__ == '__main__':
    command, rest = sys.argv[1], sys.argv[2:]
    if command == 'weights':
        weights(*rest)
    elif command == 'train':
        train(*rest[:3], rest[3:])
    elif command not in ('step', 'loader'):
        bench()
    else:
        parser = argparse.ArgumentParser()
        parser.add_argument('model' if command == 'step' else 'data')
        parser.add_argument('--batch', '--batch-size', type=int, default=8, dest='batch_size')
        for name, default in dict(size=320, steps=20, boxes=40, threads=1, workers=1).items():
            parser.add_argument(f'--{name}', type=int, default=default)
        parser.add_argument('--seconds', type=float, default=15)
        parser.add_argument('--precision', default='f32')
        parser.add_argument('--compile', nargs='?', const='all', choices=['network', 'all'])
        parser.add_argument('--channels-last', action='store_true')
        dict(step=step, loader=loader)[command](parser.parse_args(rest))
