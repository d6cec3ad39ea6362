"""Golden figures of the detectors: forward passes, losses with their parts, gradients, and the state after one and after
three steps.

    pip install torch ultralytics==8.4.190
    git clone https://github.com/Megvii-BaseDetection/YOLOX (commit 6ddff4824372)
    YOLOX_DIR=YOLOX python detectors.py [NAME...]

The packages are called, not read: a network is built from its published description with other widths, and a loss is what
the package returns for a batch. Weights, images and figures are those of `make.py`. One file per model:
`figures/NAME.txt`.
"""
import math, os, sys
import torch
from make import HERE, images, line, value

# Left, top, right, bottom as parts of the image, and class: a crowd, nothing, and boxes at the border and of few pixels.
BOXES = [
    [(0.10 + 0.03 * i, 0.12 + 0.02 * i, 0.45 + 0.04 * i, 0.50 + 0.03 * i, i % 3) for i in range(9)]
    + [(0.60, 0.60, 0.95, 0.90, 4), (0.62, 0.58, 0.93, 0.92, 5)],
    [],
    [(0.0, 0.0, 1.0, 1.0, 7), (0.0, 0.3, 0.4, 0.8, 2), (0.7, 0.0, 1.0, 0.25, 2), (0.47, 0.47, 0.53, 0.55, 9),
     (0.20, 0.85, 0.36, 1.0, 3)],
]


# The seed of the images.
SEED = 'images'


def narrow(model):
    """Constants as the programs have them, in f32, so that networks can be compared beyond its precision."""
    rounded = lambda number: torch.tensor(number, dtype=torch.float32).double().item()
    for module in model.modules():
        for name in ('eps', 'momentum', 'scale'):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, rounded(getattr(module, name)))


def fill(model):
    model.double()
    narrow(model)
    state = model.state_dict()
    for name, tensor in state.items():
        if tensor.is_floating_point() and not name.endswith('dfl.conv.weight'):
            tensor.copy_(value(name, tuple(tensor.shape)))
    model.load_state_dict(state)


def boxes(side):
    rows = [(image, *box) for image, listed in enumerate(BOXES) for box in listed]
    table = torch.tensor(rows, dtype=torch.float64)
    corners = (table[:, 1:5] * side).round() / side
    center, size = (corners[:, :2] + corners[:, 2:]) / 2, corners[:, 2:] - corners[:, :2]
    return dict(batch_idx=table[:, 0], cls=table[:, 5:6], bboxes=torch.cat([center, size], 1))


def masks(side):
    """Per image a map at a quarter of the size: 0, or the number of the object from 1 on. Objects are ellipses in their boxes;
    later ones hide earlier ones."""
    grid = (torch.arange(side // 4, dtype=torch.float64) + 0.5) * 4
    result = torch.zeros(len(BOXES), side // 4, side // 4, dtype=torch.float64)
    for image, listed in enumerate(BOXES):
        for number, (x0, y0, x1, y1, _) in enumerate(listed):
            x0, y0, x1, y1 = [round(v * side) for v in (x0, y0, x1, y1)]
            u = (grid - (x0 + x1) / 2) / ((x1 - x0) / 2)
            v = (grid - (y0 + y1) / 2) / ((y1 - y0) / 2)
            result[image][u[None] ** 2 + v[:, None] ** 2 <= 1] = number + 1
    return result


def keypoints(side):
    """17 points per object, on a spiral inside its box; every fifth one is not known."""
    rows = []
    for listed in BOXES:
        for number, (x0, y0, x1, y1, _) in enumerate(listed):
            x0, y0, x1, y1 = [round(v * side) / side for v in (x0, y0, x1, y1)]
            k = torch.arange(17, dtype=torch.float64)
            x = x0 + (x1 - x0) * (0.5 + k / 40 * torch.cos(k + number))
            y = y0 + (y1 - y0) * (0.5 + k / 40 * torch.sin(k + number))
            rows.append(torch.stack([x, y, torch.where((k + number) % 5 == 0, 0.0, 2.0)], 1))
    # Coordinates as the programs have them.
    table = torch.stack(rows)
    table[..., :2] = (table[..., :2] * side).float().double() / side
    return table


def angles():
    """Radians by object, over the whole range from -45 to 135 degrees."""
    count = sum(map(len, BOXES))
    return (torch.arange(count, dtype=torch.float64) * 0.7 % 3.1 - 0.75).float().double()


def ultralytics(name, scale, classes, size, task=''):
    from ultralytics.nn import tasks
    from ultralytics.cfg import get_cfg
    kind = {'': 'Detection', '-seg': 'Segmentation', '-pose': 'Pose', '-obb': 'OBB'}[task] + 'Model'
    network = getattr(tasks, kind)
    description = network(f'{name}{size}{task}.yaml', nc=classes, verbose=False).yaml
    if scale:
        description.update(scales={size: scale}, nc=classes)
        description.pop('yaml_file', None)
    model = network(description, nc=classes, verbose=False)
    model.args = get_cfg()
    return model


class Ultralytics:
    def __init__(self, name, scale, classes, side, size='n', task=''):
        self.model, self.side, self.task = ultralytics(name, scale, classes, size, task), side, task
        fill(self.model)
        self.model.criterion = self.model.init_criterion()
        for parameter_name, parameter in self.model.named_parameters():
            parameter.requires_grad = not parameter_name.endswith('dfl.conv.weight')

    def outputs(self, x):
        with torch.no_grad():
            decoded, raw = self.model(x)
        heads = [raw['one2many'], raw['one2one']] if 'one2many' in raw else [raw]
        if 'angle' in raw:
            # The package returns radians; ours are the logits that they are made of.
            raw['angle'] = torch.logit(raw['angle'] / math.pi + 0.25)
        details = [key for key in ('mask_coefficient', 'kpts', 'angle') if key in raw]
        outputs = [torch.cat([head[key] for key in ('boxes', 'scores', *details)], 1).transpose(1, 2) for head in heads]
        if not self.task:
            return outputs
        # Prototypes by channel last, and what the package makes of all: corners, scores, and what else there is.
        outputs += [raw['proto'].permute(0, 2, 3, 1)] if 'proto' in raw else []
        decoded = decoded[0] if isinstance(decoded, tuple) else decoded
        return outputs + [decoded.transpose(1, 2)]

    def batch(self):
        batch = boxes(self.side)
        if self.task == '-seg':
            batch['masks'] = masks(self.side)
        if self.task == '-pose':
            batch['keypoints'] = keypoints(self.side)
        if self.task == '-obb':
            batch['bboxes'] = torch.cat([batch['bboxes'], angles()[:, None]], 1)
        return batch

    def loss(self, x):
        loss, items = self.model.loss({'img': x, **self.batch()})
        return loss.sum(), items if torch.is_tensor(items) else torch.stack(list(items.values()))


class YoloX:
    """The raw outputs are what the head's last convolutions return."""
    def __init__(self, depth, width, depthwise, classes, side):
        sys.path.insert(0, os.environ['YOLOX_DIR'])
        from yolox.models import YOLOX, YOLOPAFPN, YOLOXHead
        self.side = side
        channels = [256, 512, 1024]
        self.model = YOLOX(YOLOPAFPN(depth, width, in_channels=channels, depthwise=depthwise),
                           YOLOXHead(classes, width, in_channels=channels, depthwise=depthwise))
        for module in self.model.modules():
            if isinstance(module, torch.nn.BatchNorm2d):
                module.eps, module.momentum = 1e-3, 0.03
        fill(self.model)
        self.model.head.use_l1 = True

    def outputs(self, x):
        head, rows = self.model.head, []
        with torch.no_grad():
            for level, feature in enumerate(self.model.backbone(x.flip(1))):
                y = head.stems[level](feature)
                reg = head.reg_convs[level](y)
                parts = [head.reg_preds[level](reg), head.obj_preds[level](reg), head.cls_preds[level](head.cls_convs[level](y))]
                rows.append(torch.cat(parts, 1).flatten(2).transpose(1, 2))
        return [torch.cat(rows, 1)]

    def loss(self, x):
        table = boxes(self.side)
        labels = torch.zeros(3, 20, 5, dtype=torch.float64)
        for image in range(3):
            own = table['batch_idx'] == image
            labels[image, :own.sum()] = torch.cat([table['cls'][own], table['bboxes'][own] * self.side], 1)
        # The package converts to half precision where CUDA has it, and to f32 elsewhere; f64 stays as it is.
        out = self.model(x.flip(1), labels)
        return out['total_loss'], torch.stack([torch.as_tensor(out[k]).detach().double() for k in
                                               ('iou_loss', 'conf_loss', 'cls_loss', 'l1_loss')])


MODELS = {
    'yolov8-tiny': lambda: Ultralytics('yolov8', [0.33, 0.0625, 1024], 10, 64),
    'yolo11-tiny': lambda: Ultralytics('yolo11', [0.5, 0.125, 1024], 10, 64),
    'yolo12-tiny': lambda: Ultralytics('yolo12', [0.5, 0.25, 256], 10, 64),
    'yolo26-tiny': lambda: Ultralytics('yolo26', [0.5, 0.125, 1024], 10, 64),
    'yolov8n': lambda: Ultralytics('yolov8', None, 80, 64),
    'yolo11n': lambda: Ultralytics('yolo11', None, 80, 64),
    'yolo12n': lambda: Ultralytics('yolo12', None, 80, 128),
    'yolo26n': lambda: Ultralytics('yolo26', None, 80, 64),
    'yolov8s': lambda: Ultralytics('yolov8', None, 80, 64, 's'),
    'yolo11s': lambda: Ultralytics('yolo11', None, 80, 64, 's'),
    'yolo12s': lambda: Ultralytics('yolo12', None, 80, 64, 's'),
    'yolo26s': lambda: Ultralytics('yolo26', None, 80, 64, 's'),
    'yolov8-tiny-seg': lambda: Ultralytics('yolov8', [0.33, 0.0625, 1024], 10, 64, task='-seg'),
    'yolo11-tiny-seg': lambda: Ultralytics('yolo11', [0.5, 0.125, 1024], 10, 64, task='-seg'),
    'yolo11n-seg': lambda: Ultralytics('yolo11', None, 80, 64, task='-seg'),
    'yolov8n-seg': lambda: Ultralytics('yolov8', None, 80, 64, task='-seg'),
    'yolov8-tiny-pose': lambda: Ultralytics('yolov8', [0.33, 0.0625, 1024], 10, 64, task='-pose'),
    'yolo11-tiny-pose': lambda: Ultralytics('yolo11', [0.5, 0.125, 1024], 10, 64, task='-pose'),
    'yolo11n-pose': lambda: Ultralytics('yolo11', None, 10, 64, task='-pose'),
    'yolov8n-pose': lambda: Ultralytics('yolov8', None, 10, 64, task='-pose'),
    'yolov8-tiny-obb': lambda: Ultralytics('yolov8', [0.33, 0.0625, 1024], 10, 64, task='-obb'),
    'yolo11-tiny-obb': lambda: Ultralytics('yolo11', [0.5, 0.125, 1024], 10, 64, task='-obb'),
    'yolo11n-obb': lambda: Ultralytics('yolo11', None, 15, 64, task='-obb'),
    'yolov8n-obb': lambda: Ultralytics('yolov8', None, 15, 64, task='-obb'),
    'yolox-test': lambda: YoloX(0.33, 0.125, False, 10, 64),
    'yolox_nano': lambda: YoloX(0.33, 0.25, True, 80, 128),
    'yolox_tiny': lambda: YoloX(0.33, 0.375, False, 80, 64),
    'yolox_s': lambda: YoloX(0.33, 0.5, False, 80, 64),
}


def figures(name, reference):
    model, side = reference.model, reference.side
    x = images(name, 3, side, SEED)
    lines = [f'size batch 3', f'size side {side}', f'size parameters {sum(p.numel() for p in model.parameters())}']
    model.eval()
    lines += [line('evaluate', f'output{i}', y, 8, 14) for i, y in enumerate(reference.outputs(x))]
    model.train()
    learned = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(learned, lr=1e-6, momentum=0.9, weight_decay=1e-4)
    for step in range(3):
        optimizer.zero_grad()
        loss, parts = reference.loss(x)
        loss.backward()
        lines.append(f'loss step{step} 1 {loss.item():.12g}')
        lines += [f'loss step{step}.part{i} 1 {part.item():.12g}' for i, part in enumerate(parts)]
        optimizer.step()
        if step in (0, 2):
            lines += [line(f'gradient{step}', n, p.grad if p.grad is not None else torch.zeros_like(p), 2)
                      for n, p in model.named_parameters() if p.requires_grad]
            lines += [line(f'state{step}', n, t, 2) for n, t in model.state_dict().items()
                      if t.is_floating_point() and not n.endswith('dfl.conv.weight')]
    with open(os.path.join(HERE, 'figures', f'{name}.txt'), 'w') as file:
        file.write('\n'.join(lines) + '\n')
    print(name, *[row for row in lines if row.startswith('loss')], sep='\n  ')


if __name__ == '__main__':
    torch.manual_seed(0)
    # Whatever the packages create in between is f64 too.
    torch.set_default_dtype(torch.float64)
    for name in sys.argv[1:] or MODELS:
        figures(name, MODELS[name]())
