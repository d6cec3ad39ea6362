"""Average precision as Ultralytics prints it, over the cases of `coco.txt` without groups and without equal scores, whose order
the package does not define.

    pip install torch ultralytics==8.4.190
    python ultralytics_rule.py

The package is called, not read: its validator pairs boxes by their overlaps, its metrics make figures of the pairs. Writes
`ultralytics_rule.txt`: the number of a case, mAP50-95, mAP50, and precision and recall at the best threshold.
"""
import numpy as np, torch
from ultralytics.models.yolo.detect import DetectionValidator
from ultralytics.utils.metrics import ap_per_class, box_iou

validator = DetectionValidator()
validator.iouv = torch.linspace(0.5, 0.95, 10)
validator.niou = 10


def corners(rows):
    table = torch.tensor(rows, dtype=torch.float64).reshape(-1, 4)
    return torch.cat([table[:, :2], table[:, :2] + table[:, 2:]], 1)


def figures(images):
    tp, scores, named, wanted = [], [], [], []
    for truth, found in images:
        found = sorted(found, key=lambda row: -row[5])
        classes = torch.tensor([row[0] for row in found]), torch.tensor([row[0] for row in truth])
        if found and truth:
            overlaps = box_iou(corners([row[1:5] for row in truth]), corners([row[1:5] for row in found]))
            right = validator.match_predictions(*classes, overlaps).numpy()
        else:
            right = np.zeros((len(found), 10), dtype=bool)
        tp.append(right)
        scores += [row[5] for row in found]
        named += [row[0] for row in found]
        wanted += [row[0] for row in truth]
    if not scores or not wanted:
        return None
    result = ap_per_class(np.concatenate(tp), np.array(scores), np.array(named), np.array(wanted))
    p, r, ap = result[2], result[3], result[5]
    return ap.mean(), ap[:, 0].mean(), p.mean(), r.mean()


lines, number, images, crowded = [], 0, [], False
for line in open('coco.txt'):
    what, *rest = line.split()
    numbers = [float(word) for word in rest]
    if what == 'case':
        number, images, crowded = number + 1, [([], []) for _ in range(int(numbers[1]))], False
    elif what == 'truth':
        images[int(numbers[0])][0].append(numbers[1:6])
        crowded = crowded or numbers[7] > 0
    elif what == 'found':
        images[int(numbers[0])][1].append(numbers[1:7])
    elif what == 'figures' and not crowded:
        scores = [row[5] for _, found in images for row in found]
        values = figures(images) if len(set(scores)) == len(scores) else None
        if values:
            lines.append(' '.join([str(number), *(f'{value:.15g}' for value in values)]))
open('ultralytics_rule.txt', 'w').write('\n'.join(lines) + '\n')
print(len(lines), 'cases')
