"""Does `octant train detect` learn as much as Ultralytics' trainer? Both train one network from the same initial weights on
one data set with the same recipe, one run per seed and side, in turn; then `octant eval` evaluates all of them.

    pip install torch ultralytics==8.4.190
    octant data synth scenes set --count 2000 --side 320
    python same_learning.py set/data.yaml OUT --octant octant --model yolo11n --size 320 --epochs 60 --seeds 3

The model's name decides the task: `octant data synth instances` for yolo11n-seg, `figures` for yolo11n-pose, `vehicles` for
yolo11n-obb. Prints every run's figure by COCO's rule (of boxes, masks, keypoints, or rotated boxes by the overlap of polygons;
`octant eval` equals pycocotools), the means, and their difference.
Curves: OUT/octant-SEED/metrics.csv and OUT/ultralytics-SEED/results.csv. Runs that are finished are not repeated.
"""
import argparse, csv, json, pathlib, statistics, subprocess, sys, time

HERE = pathlib.Path(__file__).resolve().parent


def of_data(data):
    """How many classes there are, and the keypoints where there are any."""
    import yaml
    described = yaml.safe_load(pathlib.Path(data).read_text())
    return [len(described['names']), ','.join(map(str, described.get('kpt_shape', [])))]


# The recipe and the figure that decides, by the end of the model's name.
TASKS = dict(seg=('instance', 'mask_mAP50-95'), pose=('pose', 'keypoint_mAP50-95'), obb=('obb', 'rotated_mAP50-95'))


def task(a):
    return TASKS.get(a.model.rpartition('-')[2], ('detect', 'mAP50-95'))


def run(command, log):
    began = time.time()
    with open(log, 'w') as file:
        code = subprocess.run([str(word) for word in command], stdout=file, stderr=subprocess.STDOUT).returncode
    if code != 0:
        print(f'failed ({code}): see {log}', file=sys.stderr)
    return time.time() - began


def ours(a, seed, init):
    folder = a.out / f'octant-{seed}'
    command = [a.octant, 'train', task(a)[0], '--data', a.data, '--model', a.model, '--weights', init, '--out', folder, '--seed', seed,
               '--epochs', a.epochs, '--image-size', a.size, '--batch-size', a.batch, '--update-images', a.batch,
               '--optimizer', 'adamw', '--lr', a.lr, '--device', a.device, '--precision', a.precision,
               '--set', f'patience={a.epochs}', '--set', 'phases.0.betas=[0.9, 0.999]', '--set', 'phases.0.warmup.bias_lr=0.0']
    return run(command, a.out / f'octant-{seed}.log'), folder / 'checkpoints/best/model.safetensors'


def theirs(a, seed, init):
    folder = a.out / f'ultralytics-{seed}'
    command = [sys.executable, HERE / 'detection_peer.py', 'train', init, a.data, folder, f'seed={seed}', f'epochs={a.epochs}',
               f'imgsz={a.size}', f'batch={a.batch}', f'nbs={a.batch}', 'optimizer=AdamW', f'lr0={a.lr}', 'momentum=0.9',
               'warmup_bias_lr=0.0', f'patience={a.epochs}', f'workers={a.workers}', f'amp={a.precision == "bf16"}',
               'device=' + ('cpu' if a.device == 'cpu' else '0')]
    return run(command, a.out / f'ultralytics-{seed}.log'), folder / 'weights/best.pt'


def evaluated(a, path):
    """mAP50-95 by COCO's rule, and by theirs."""
    command = [a.octant, 'eval', path, '--recipe', task(a)[0], '--set', f'model={a.model}', '--set', f'image_size={a.size}', '--data',
               a.data, '--device', a.device, '--json']
    output = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    for line in reversed(output.stdout.splitlines()):
        try:
            return json.loads(line)
        except ValueError:
            continue
    print(output.stderr[-500:], file=sys.stderr)
    return {}


def map_of(figures, name):
    for key, value in figures.items():
        if isinstance(value, dict):
            found = map_of(value, name)
            if found is not None:
                return found
        elif key in (name, 'val_' + name):
            return value
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('data', type=pathlib.Path)
    parser.add_argument('out', type=pathlib.Path)
    for name, default in dict(octant='octant', model='yolo11n', device='cpu', precision='f32').items():
        parser.add_argument(f'--{name}', default=default)
    for name, default in dict(size=320, epochs=60, batch=16, seeds=3, workers=2).items():
        parser.add_argument(f'--{name}', type=int, default=default)
    parser.add_argument('--lr', type=float, default=0.002)
    a = parser.parse_args()
    a.out.mkdir(parents=True, exist_ok=True)
    a.data, a.out = a.data.absolute(), a.out.absolute()
    init = a.out / 'init.pt'
    if not init.exists():
        count, keypoints = of_data(a.data)
        run([sys.executable, HERE / 'detection_peer.py', 'weights', a.model, count, init, keypoints], a.out / 'init.log')
    results = dict(octant=[], ultralytics=[])
    for seed in range(a.seeds):
        for name, train in (('octant', ours), ('ultralytics', theirs)):
            seconds, path = train(a, seed, init)
            if not path.exists():
                continue
            score = map_of(evaluated(a, path), task(a)[1])
            results[name].append(score)
            print(json.dumps(dict(side=name, seed=seed, mAP=score, seconds=round(seconds, 1))), flush=True)
    means = {name: statistics.mean(scores) if scores else None for name, scores in results.items()}
    if all(mean is not None for mean in means.values()):
        points = 100 * (means['octant'] - means['ultralytics'])
        print(json.dumps(dict(means=means, difference_in_points=round(points, 2), seeds=results)), flush=True)


if __name__ == '__main__':
    main()
