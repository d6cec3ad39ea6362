"""Golden cases of COCO's evaluation: 500 fuzzed sets of boxes and what pycocotools makes of them.

    pip install pycocotools==2.0.11; python coco.py

Ties of scores, groups, classes without objects or answers, and more than 100 answers per image are among them. The file
`coco.txt` has one line per record: `case CLASSES IMAGES`, `truth IMAGE CLASS X Y W H AREA CROWD`,
`found IMAGE CLASS X Y W H SCORE`, `figures …` (12 numbers), `class …` (AP per class). Numbers are exact in decimal.
"""
import contextlib, io, os, random
import numpy as np
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

HERE = os.path.dirname(os.path.abspath(__file__))
SIDE = 256


def rectangle(rng, grid):
    size = lambda: rng.choice([rng.randint(2, 30), rng.randint(30, 99), rng.randint(97, 200)])
    w, h = size(), size()
    x, y = rng.randint(0, max(SIDE - w, 0)), rng.randint(0, max(SIDE - h, 0))
    return [v / grid * grid for v in (x, y, w, h)]


def case(number):
    rng = random.Random(number)
    classes, images = rng.randint(1, 4), rng.randint(1, 4)
    crowded = number % 25 == 0
    truth, found = [], []
    for image in range(images):
        for _ in range(rng.choice([0, 1, 2, 5, 9])):
            box = rectangle(rng, 1)
            area = box[2] * box[3] * rng.choice([1, 1, 0.5])
            truth.append((image, rng.randrange(classes), box, area, int(rng.random() < 0.12)))
        count = rng.choice([0, 2, 6, 12]) if not crowded else rng.randint(110, 140)
        for _ in range(count):
            box = rectangle(rng, 1)
            near = [t for t in truth if t[0] == image]
            if near and rng.random() < 0.7:
                base = rng.choice(near)
                box = [b + rng.choice([-6, -3, -1, 0, 0, 1, 2, 5]) for b in base[2]]
                box[2:] = [max(v, 1) for v in box[2:]]
                label = base[1] if rng.random() < 0.8 else rng.randrange(classes)
            else:
                label = rng.randrange(classes)
            score = rng.choice([rng.randint(1, 9) / 10, rng.randint(1, 999) / 1000])
            found.append((image, label, [float(v) for v in box], score))
    return classes, images, truth, found


def evaluate(classes, images, truth, found):
    data = dict(info={}, images=[dict(id=i + 1, width=SIDE, height=SIDE) for i in range(images)],
                categories=[dict(id=c + 1, name=str(c)) for c in range(classes)],
                annotations=[dict(id=n + 1, image_id=i + 1, category_id=c + 1, bbox=b, area=a, iscrowd=k)
                             for n, (i, c, b, a, k) in enumerate(truth)])
    answers = [dict(image_id=i + 1, category_id=c + 1, bbox=b, score=s) for i, c, b, s in found]
    with contextlib.redirect_stdout(io.StringIO()):
        reference = COCO()
        reference.dataset = data
        reference.createIndex()
        result = reference.loadRes(answers) if answers else None
        if result is None:
            return None
        evaluation = COCOeval(reference, result, 'bbox')
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    precision = evaluation.eval['precision'][:, :, :, 0, 2]
    per_class = []
    for c in range(classes):
        own = precision[:, :, c]
        own = own[own > -1]
        per_class.append(float(np.mean(own)) if own.size else -1.0)
    return [float(v) for v in evaluation.stats], per_class


def main():
    lines, number, kept = [], 0, 0
    while kept < 500:
        number += 1
        classes, images, truth, found = case(number)
        result = evaluate(classes, images, truth, found)
        if result is None:
            continue
        kept += 1
        lines.append(f'case {classes} {images}')
        lines += [f'truth {i} {c} {" ".join("%g" % v for v in b)} {a:g} {k}' for i, c, b, a, k in truth]
        lines += [f'found {i} {c} {" ".join("%g" % v for v in b)} {s:g}' for i, c, b, s in found]
        lines.append('figures ' + ' '.join('%.17g' % v for v in result[0]))
        lines.append('class ' + ' '.join('%.17g' % v for v in result[1]))
    with open(os.path.join(HERE, 'coco.txt'), 'w') as file:
        file.write('\n'.join(lines) + '\n')


main()
