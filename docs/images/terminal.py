"""A terminal's text as a picture: tmux capture-pane -e -p | python terminal.py OUT.png

Needs Pillow and the font DejaVu Sans Mono; knows the escape sequences that Octant prints (bold, dim, green, cyan)."""
import re
import sys
from PIL import Image, ImageDraw, ImageFont

FONTS = '/usr/share/fonts/truetype/dejavu/DejaVuSansMono%s.ttf'
SIZE, ROW, COLUMN, MARGIN = 15, 19, 9, 14
BACK, TEXT, DIM, COLORS = (22, 24, 30), (222, 224, 228), (140, 144, 152), {32: (120, 205, 130), 36: (110, 190, 215)}

lines = [line.rstrip('\n') for line in sys.stdin]
while lines and not re.sub(r'\x1b\[[0-9;]*m', '', lines[-1]).strip():
    lines.pop()
plain, bold = (ImageFont.truetype(FONTS % name, SIZE) for name in ('', '-Bold'))
picture = Image.new('RGB', (2 * MARGIN + 80 * COLUMN, 2 * MARGIN + ROW * len(lines)), BACK)
draw = ImageDraw.Draw(picture)
color, font = TEXT, plain
for row, line in enumerate(lines):
    column = 0
    for part in re.split(r'(\x1b\[[0-9;]*m)', line):
        if not part.startswith('\x1b'):
            # Letter by letter, so that columns stay columns.
            for letter in part:
                draw.text((MARGIN + column * COLUMN, MARGIN + row * ROW), letter, color, font)
                column += 1
            continue
        for code in [int(code or 0) for code in part[2:-1].split(';')]:
            if code == 0:
                color, font = TEXT, plain
            elif code == 39:
                color = TEXT
            elif code == 22:
                color, font = TEXT, plain
            elif code == 1:
                font = bold
            elif code == 2:
                color = DIM
            else:
                color = COLORS.get(code, color)
picture.quantize(24).save(sys.argv[1], optimize=True)
