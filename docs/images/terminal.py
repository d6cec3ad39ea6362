"""The screen of a terminal as an image: what `tmux capture-pane -e -p` prints becomes SVG.

    tmux new-session -d -s first -x 80 -y 24 "octant train; sleep 60"
    tmux capture-pane -e -p -t first | python terminal.py > first-run.svg
"""
import html
import re
import sys

COLUMNS, CELL, LINE, MARGIN = 80, 8.43, 18, 14
BACKGROUND, PLAIN = "#1d2330", "#d7dce5"
COLORS = {30: "#5c6370", 31: "#e06c75", 32: "#98c379", 33: "#e5c07b", 34: "#61afef", 35: "#c678dd", 36: "#56b6c2",
          37: PLAIN, 90: "#7f8897"}


def spans(line):
    """Pieces of a line with the attributes that hold for each."""
    attributes = []
    for text, codes in re.findall(r"([^\x1b]+)|\x1b\[([0-9;]*)m", line):
        if text:
            yield text, attributes
            continue
        for code in [int(code or 0) for code in codes.split(";")]:
            if code == 0:
                attributes = []
            elif code == 39:
                attributes = [other for other in attributes if other not in COLORS]
            elif code == 22:
                attributes = [other for other in attributes if other not in (1, 2)]
            else:
                attributes = attributes + [code]


def drawn(text, attributes):
    color = next((COLORS[code] for code in reversed(attributes) if code in COLORS), None)
    style = (f' fill="{color}"' if color else "") + (' font-weight="bold"' if 1 in attributes else "")
    style += ' opacity="0.65"' if 2 in attributes else ""
    # Viewers join several spaces to one, but not these.
    text = html.escape(text).replace(" ", "\u00a0")
    return f"<tspan{style}>{text}</tspan>" if style else text


lines = sys.stdin.read().rstrip("\n").split("\n")
width, height = round(COLUMNS * CELL + 2 * MARGIN), len(lines) * LINE + 2 * MARGIN
print(f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">')
print(f'<rect width="100%" height="100%" rx="8" fill="{BACKGROUND}"/>')
print(f'<g font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="14" fill="{PLAIN}">')
for row, line in enumerate(lines):
    body = "".join(drawn(text, attributes) for text, attributes in spans(line))
    if body:
        length = len(re.sub(r"\x1b\[[0-9;]*m", "", line))
        print(f'<text x="{MARGIN}" y="{MARGIN + 13 + row * LINE}" textLength="{length * CELL:.0f}">{body}</text>')
print("</g>\n</svg>")
