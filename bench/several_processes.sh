#!/usr/bin/env bash
# Runs of several processes on a machine with one NVIDIA GPU: what can be tried of a cluster without one.
#
#   bench/several_processes.sh OCTANT [OUT]
#
# 1. The version of NCCL that the plugin loads: processes can share a GPU from 2.30 on, older ones refuse it as a duplicate.
# 2. A run of one process, and the same run by two processes that share the GPU and add up through NCCL; their tables of metrics
#    should agree up to the order of sums.
# 3. 64 processes of one GPU each, of which this is the first and the other 63 are XLA's mock: the program for all of them is
#    compiled and started. Its numbers mean nothing.
set -u
octant=$(realpath "${1:?the octant binary}")
out=${2:-$(mktemp -d)}
mkdir -p "$out"
cd "$out" || exit 1
limit=${LIMIT:-150}

echo "== NCCL"
find / -name 'libnccl.so*' -not -path '/proc/*' 2>/dev/null | while read -r library; do
  echo "$library: $(grep -a -o -m1 -E 'NCCL version [0-9]+\.[0-9]+\.[0-9]+[+a-z0-9.]*' "$library" | head -n1)"
done
nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader

# A tiny network and few images: what is tried is the way, not the speed.
train() {
  "$octant" train glyphs --model fashion-cnn-tiny --device cuda --workers 2 --batch-size 64 --epochs 2 --cores all \
    --set data.train=512 --set data.test=96 "$@"
}

echo "== one process"
rm -rf one two mock
time OCTANT_GPU_MEMORY=0.2 timeout "$limit" bash -c "$(declare -f train); octant='$octant'; train --out one" > one.log 2>&1
echo "exit code $?"; tail -n 3 one.log; cat one/metrics.csv

echo "== two processes on one GPU"
export NCCL_MULTI_RANK_GPU_ENABLE=1 NCCL_NVLS_ENABLE=0 NCCL_DEBUG=${NCCL_DEBUG:-WARN}
port=$((20000 + RANDOM % 20000))
for rank in 1 0; do
  OCTANT_GPU_MEMORY=0.2 OCTANT_PLUGIN_OPTIONS="preallocate=false" timeout "$limit" \
    bash -c "$(declare -f train); octant='$octant'; train --out two --node-id $rank --num-nodes 2 --coordinator 127.0.0.1:$port --stuck-after 60s" \
    > "two-$rank.log" 2>&1 &
  pids[rank]=$!
done
for rank in 0 1; do wait "${pids[rank]}"; echo "rank $rank: exit code $?"; tail -n 12 "two-$rank.log"; done
cat two/metrics.csv
tail -n 8 two/logs/rank-00001.txt
unset NCCL_MULTI_RANK_GPU_ENABLE NCCL_NVLS_ENABLE

echo "== 64 mock processes"
time OCTANT_PLUGIN_OPTIONS="node_id=0 num_nodes=64 enable_mock_nccl=true mock_gpu_topology=8x8x1 preallocate=false" timeout "$limit" \
  bash -c "$(declare -f train); octant='$octant'; train --batch-size 256 --out mock" > mock.log 2>&1
echo "exit code $?"; tail -n 12 mock.log; cat mock/metrics.csv
