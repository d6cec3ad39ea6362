"""A small detection set of real photographs: tiles of the labelled aerial images that the `deepforest` package carries.

    pip download --no-deps deepforest && pip install pillow
    python deepforest_tiles.py deepforest-*.whl SET

Writes SET/data.yaml with labels in YOLO's form. The right quarter of every large photograph is for validation; no tile crosses
that line. Tiles overlap by half. A box belongs to a tile if at least half of its area lies in it.
"""
import argparse, io, pathlib, xml.etree.ElementTree as xml, zipfile

from PIL import Image


def boxes_of(text):
    root = xml.fromstring(text)
    corners = lambda box: [float(box.find(name).text) for name in ('xmin', 'ymin', 'xmax', 'ymax')]
    return [corners(item.find('bndbox')) for item in root.iter('object')]


def inside(box, left, top, side):
    """The part of a box inside of a tile, relative to it; none if most of it lies outside."""
    x0, y0, x1, y1 = box
    cut = [min(max(x - left, 0), side) for x in (x0, x1)] + [min(max(y - top, 0), side) for y in (y0, y1)]
    width, height = cut[1] - cut[0], cut[3] - cut[2]
    if width * height < 0.5 * (x1 - x0) * (y1 - y0) or min(width, height) < 2:
        return None
    return [(cut[0] + cut[1]) / 2 / side, (cut[2] + cut[3]) / 2 / side, width / side, height / side]


def starts(low, high, side):
    return range(low, high - side + 1, side // 2)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('wheel', type=pathlib.Path)
    parser.add_argument('out', type=pathlib.Path)
    parser.add_argument('--side', type=int, default=256)
    a = parser.parse_args()
    counts = dict(train=[0, 0], val=[0, 0])
    for part in counts:
        for kind in ('images', 'labels'):
            (a.out / kind / part).mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(a.wheel) as wheel:
        names = wheel.namelist()
        for name in sorted(name for name in names if name.endswith('.xml')):
            photograph = name[:-4] + '.png'
            if photograph not in names:
                continue
            image = Image.open(io.BytesIO(wheel.read(photograph))).convert('RGB')
            boxes, stem = boxes_of(wheel.read(name)), pathlib.Path(name).stem
            line = image.width - max(image.width // 4, a.side) if image.width >= 2 * a.side else image.width
            for part, low, high in (('train', 0, line), ('val', line, image.width)):
                for left in starts(low, high, a.side):
                    for top in starts(0, image.height, a.side):
                        found = [cut for cut in (inside(box, left, top, a.side) for box in boxes) if cut]
                        file = f'{stem}-{left}-{top}'
                        image.crop((left, top, left + a.side, top + a.side)).save(a.out / 'images' / part / f'{file}.png')
                        lines = [' '.join(['0'] + [f'{value:.6f}' for value in cut]) for cut in found]
                        (a.out / 'labels' / part / f'{file}.txt').write_text('\n'.join(lines) + '\n' if lines else '')
                        counts[part][0] += 1
                        counts[part][1] += len(found)
    (a.out / 'data.yaml').write_text(f'path: {a.out.absolute()}\ntrain: images/train\nval: images/val\nnames:\n  0: tree\n')
    for part, (tiles, boxes) in counts.items():
        print(f'{part}: {tiles} tiles, {boxes} boxes')


if __name__ == '__main__':
    main()
