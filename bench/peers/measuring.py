"""What all peers have in common: the flags of `octant bench`, its way of timing steps, and its JSON line."""
import argparse
import json
import os
import resource
import time

# Imported before anything heavy, so that loading a framework counts.
STARTED = float(os.environ.get("OCTANT_BENCH_STARTED", time.time()))


def flags(variants, usual):
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--mode", choices=["train", "infer"], default="train")
    parser.add_argument("--precision", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--variant", choices=variants, default=usual)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--steps", type=int, default=30)
    return parser.parse_args()


def measure(step, peer, arguments):
    """One first step, one that does not count, then the steps whose median is told. `step` waits for its results."""
    begun = time.perf_counter()
    step()
    first, start = time.perf_counter() - begun, time.time() - STARTED
    step()
    times = []
    for _ in range(arguments.steps):
        begun = time.perf_counter()
        step()
        times.append(time.perf_counter() - begun)
    times.sort()
    median = (times[(len(times) - 1) // 2] + times[len(times) // 2]) / 2
    print(json.dumps({
        "event": "done", "peer": peer, "variant": arguments.variant, "model": arguments.model,
        "images_per_second": arguments.batch_size / median, "step_ms_median": median * 1e3, "first_step_s": first,
        "start_to_first_step_s": start,
        "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }))
