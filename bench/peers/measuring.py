"""What all peers have in common: the flags of `octant bench`, its way of timing steps, and its JSON line."""
import argparse
import json
import os
import resource
import time

# Imported before anything heavy, so that loading a framework counts.
STARTED = float(os.environ.get("OCTANT_BENCH_STARTED", time.time()))


def flags(variants, usual, precisions=("f32", "bf16")):
    return parser_of(variants, usual, precisions).parse_args()


def parser_of(variants, usual, precisions=("f32", "bf16")):
    """The flags, for peers that add their own."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--batch-size", "--batch", type=int, default=32)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--mode", choices=["train", "infer"], default="train")
    parser.add_argument("--precision", choices=precisions, default="f32")
    parser.add_argument("--variant", choices=variants, default=usual)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--steps", type=int, default=30)
    return parser


def measure(step, peer, arguments, gpu=None):
    """One first step, some that do not count, then the steps whose median is printed. On a processor every `step` ends with
    its results. On a GPU (`gpu` is `torch.cuda`) five steps are queued and waited for together, as in training, and the
    memory is the most that was allocated, and beside it what the allocator had reserved."""
    together, before = (5, 10) if gpu else (1, 1)
    wait = gpu.synchronize if gpu else lambda: None
    begun = time.perf_counter()
    step()
    wait()
    first, start = time.perf_counter() - begun, time.time() - STARTED
    for _ in range(before):
        step()
    wait()
    times, processor = [], time.process_time()
    for _ in range(-(-arguments.steps // together)):
        begun = time.perf_counter()
        for _ in range(together):
            step()
        wait()
        times.append((time.perf_counter() - begun) / together)
    # Of all threads: on a machine that others use, it says more than the clock where threads do not wait by spinning.
    processor = (time.process_time() - processor) / (len(times) * together)
    times.sort()
    median = (times[(len(times) - 1) // 2] + times[len(times) // 2]) / 2
    peak = gpu.max_memory_allocated() if gpu else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    reserved = {"reserved_bytes": gpu.max_memory_reserved()} if gpu else {}
    print(json.dumps({
        "event": "done", "peer": peer, "variant": arguments.variant, "model": arguments.model,
        "precision": arguments.precision, "batch_size": arguments.batch_size, "size": arguments.size,
        "images_per_second": arguments.batch_size / median, "step_ms_median": median * 1e3, "step_ms_processor": processor * 1e3, "first_step_s": first,
        "start_to_first_step_s": start, "peak_rss_bytes": peak, **reserved,
    }))
