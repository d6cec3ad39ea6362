"""How far a run is: a bar in terminals and notebooks, lines elsewhere."""

from __future__ import annotations

import sys
import time
from typing import Any, Optional

WIDTH = 24
REDRAW = 0.2
"""Seconds between two drawings of a bar."""


def _number(value: Any) -> str:
    if not isinstance(value, (int, float)):
        return str(value)
    size = abs(value)
    if size != 0 and size < 1e-3:
        return f"{value:.3e}"
    return f"{value:.4e}" if size >= 1e5 else f"{value:.4f}"


def _metrics(metrics: dict[str, Any]) -> str:
    return "  ".join(f"{name} {_number(value)}" for name, value in metrics.items() if value is not None)


_OTHERS = {
    "event", "epoch", "epochs", "steps", "phase", "lr", "step_ms", "images_per_second", "memory_bytes", "verdict",
}  # fmt: skip


def _display() -> Optional[Any]:
    """IPython's display where this is a notebook, which can redraw what it shows."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from IPython import display  # type: ignore[import-not-found, unused-ignore]

    return display


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")


class Progress:
    """Shows the events of a run."""

    def __init__(self, wanted: Optional[bool]) -> None:
        self._quiet = wanted is False
        self._display = None if self._quiet else _display()
        self._redraws = self._display is not None or (not self._quiet and (wanted is True or sys.stderr.isatty()))
        self._handle: Optional[Any] = None
        self._lines: list[str] = []
        self._epoch: dict[str, Any] = {}
        self._begun = 0.0
        self._drawn = 0.0
        self._losses = 0
        self._is_shown = False

    def event(self, event: dict[str, Any]) -> None:
        """Shows an event, where it is to be shown."""
        if self._quiet:
            return
        kind = event["event"]
        if kind in ("message", "warning"):
            self.message(event["text"] if kind == "message" else f"warning: {event['text']}")
        elif kind == "start":
            self.message(event["text"])
        elif kind == "epoch-begins":
            self._epoch, self._begun, self._losses = event, time.monotonic(), 0
        elif kind == "progress":
            done, images = event["done"], (event["done"] - self._epoch.get("done", 0)) * event["batch_size"]
            speed = images / max(time.monotonic() - self._begun, 1e-9)
            self._bar(done, f"{_metrics(event['metrics'])}  {speed:.0f} images/s  lr {_number(event['lr'])}")
        elif kind == "epoch":
            metrics = {name: value for name, value in event.items() if name not in _OTHERS}
            self.message(
                f"epoch {event['epoch']}/{event['epochs']}  {event['step_ms']:.1f} ms/step  "
                f"{event['images_per_second']:.0f} images/s  {_metrics(metrics)}"
            )
        elif kind in ("done", "time-up", "interrupted"):
            self.message(f"{kind} after {event['steps']} steps, {event['epochs']} epochs: {event['run']}")

    def message(self, text: str) -> None:
        """Shows a line that stays."""
        if self._quiet:
            return
        self._lines.append(text)
        if self._display is not None:
            self._update("")
            return
        self._wipe()
        print(text, file=sys.stderr, flush=True)

    def close(self) -> None:
        """Removes the bar."""
        if self._display is not None and self._handle is not None:
            self._update("")
        self._wipe()

    def _bar(self, done: int, text: str) -> None:
        now = time.monotonic()
        if not self._redraws or now - self._drawn < REDRAW:
            return
        self._drawn = now
        steps = max(int(self._epoch.get("steps", 0)), 1)
        label = f"epoch {self._epoch.get('epoch')}/{self._epoch.get('epochs')}  {done}/{steps}"
        if self._display is not None:
            self._update(
                f'<div><progress max="{steps}" value="{done}" style="width:20em"></progress> {_escaped(label)}  '
                f"{_escaped(text)}</div>"
            )
            return
        filled = min(done * WIDTH // steps, WIDTH)
        print(f"\r\x1b[2K{label} {'━' * filled}{'·' * (WIDTH - filled)}  {text}", end="", file=sys.stderr, flush=True)
        self._is_shown = True

    def _wipe(self) -> None:
        if self._is_shown:
            print("\r\x1b[2K", end="", file=sys.stderr, flush=True)
            self._is_shown = False

    def _update(self, bar: str) -> None:
        assert self._display is not None
        lines = "\n".join(_escaped(line) for line in self._lines)
        shown = self._display.HTML(f'<pre style="margin:0">{lines}</pre>{bar}')
        if self._handle is None:
            self._handle = self._display.display(shown, display_id=True)
        else:
            self._handle.update(shown)
