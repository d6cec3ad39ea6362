"""One `octant train` on every node that Ray gives us. Start it in the cluster, or from anywhere in this file's folder:

    ray job submit --working-dir . -- python FILE
"""

import signal
import socket
import subprocess
import sys
import time

import ray
from ray.util.placement_group import placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

SETTINGS

@ray.remote(max_retries=0)
def address():
    """Where process 0 listens: the node of the first bundle, on a port that is free there."""
    with socket.socket() as free:
        free.bind(("", 0))
        return f"{ray.util.get_node_ip_address()}:{free.getsockname()[1]}"


@ray.remote(max_retries=0)
def train(flags):
    """The process of one node, and its exit code. To be canceled means to end with a checkpoint."""
    process = subprocess.Popen(COMMAND + flags)
    try:
        # Ray interrupts Python, not a call that waits.
        while process.poll() is None:
            time.sleep(0.2)
        return process.returncode
    except KeyboardInterrupt:
        process.terminate()
        return process.wait(GRACE)
    finally:
        process.kill()


def on_node(task, index):
    """The task on the node of a bundle, with all of its accelerators."""
    strategy = PlacementGroupSchedulingStrategy(placement_group=group, placement_group_bundle_index=index)
    gpus = BUNDLE.get("GPU", 0)
    return task.options(name=f"{NAME}-{index}", num_cpus=1, num_gpus=gpus, scheduling_strategy=strategy)


ray.init()
stopped = []
signal.signal(signal.SIGTERM, lambda number, frame: stopped.append(number))
group = placement_group([BUNDLE] * NODES, strategy="STRICT_SPREAD", name=NAME)
print(f"{NAME}: waiting for {NODES} nodes with {BUNDLE}", flush=True)
ray.get(group.ready())
coordinator = ray.get(on_node(address, 0).remote())
flags = [["--node-id", str(rank), "--num-nodes", str(NODES), "--coordinator", coordinator] for rank in range(NODES)]
tasks = [on_node(train, rank).remote(flags[rank] if NODES > 1 else []) for rank in range(NODES)]
# Python sees a signal between two calls of Ray only.
while not stopped and len(ray.wait(tasks, num_returns=NODES, timeout=1)[0]) < NODES:
    pass
for task in tasks if stopped else []:
    ray.cancel(task)
codes = ray.get(tasks)
print(f"{NAME}: exit codes {codes}", flush=True)
sys.exit(next((code % 256 for code in codes if code), 0))
