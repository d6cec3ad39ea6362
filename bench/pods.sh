#!/usr/bin/env bash
# Training steps compiled ahead of time for parts of TPU pods, without having any: a row of a table for each, with what the compiler
# took for that one program. `octant plan` itself goes on to search for the largest batch and compiles the evaluation too.
#
#   bench/pods.sh OCTANT            the slices and models of docs/notes/tpu-compile-time.md
#   bench/pods.sh OCTANT SLICE octant-plan-arguments…
#
# libtpu is found as `octant plan` finds it (TPU_LIBRARY_PATH). A program that is not done after LIMIT seconds (900) is stopped, and
# compiled with --quick instead.
set -u
octant=$(realpath "${1:?the octant binary}")
shift
export TPU_SKIP_MDS_QUERY=1 ALLOW_MULTIPLE_LIBTPU_LOAD=1

# The process that plan starts for a machine compiles one program per line that it reads.
row() {
  local slice=$1
  shift
  printf '\n' | timeout "${LIMIT:-900}" nice -n 19 "$octant" plan "$@" --on "$slice" --here "$slice" 2> /dev/null | tail -n 1
}

one() {
  local slice=$1 text
  text=$(row "$@")
  [ -n "$text" ] || text=$(row "$@" --quick)
  python3 - "$2" "$slice" "$text" <<'PYTHON'
import json, sys
name, slice, text = sys.argv[1:]
if not text:
    sys.exit(f"| {name} | {slice} | not done in time |")
row = json.loads(text)["row"]
if row["error"]:
    sys.exit(f"| {name} | {slice} | {row['error']} |")
gib = lambda count: "–" if count is None else f"{count / 2**30:.2f} GiB"
exchanged = ", ".join(f"{kind} {count / 2**20:.0f} MiB" for kind, count in row["exchanged_bytes_per_step"].items())
quick = ", short code" if row["compiled_quickly"] else ""
fits = "" if row["fits"] else ", does not fit"
step = f"{1e3 * row['step_seconds_estimate']:.1f} ms" if row["step_seconds_estimate"] else "–"
seconds = f"{row['compile_seconds']:.0f} s" if row["compile_seconds"] else "–"
print(f"| {name} | {slice}{quick} | {row['batch_size']} | {gib(row['hbm_bytes_per_core'])} of {gib(row['hbm_limit_bytes'])}{fits} | "
      f"{gib(row.get('input_bytes_per_core'))} | {step} | {exchanged} | {seconds} |", flush=True)
PYTHON
}

if [ $# -gt 0 ]; then
  one "$@"
  exit
fi
echo "| model | slice | batch | per core | of it, state and batch | estimated step | exchanged per core | compiled in |"
echo "|---|---|---|---|---|---|---|---|"
while read -r slice batch; do
  one "$slice" imagenet-resnet50 --batch-size "$batch"
done <<'LIST'
v4-32 512
v5e-64 2048
v5e-256 8192
v5p-128 2048
v6e-256 8192
v7x-128 4096
LIST
for model in efficientnetv2_l vit_l_16; do
  one v5p-128 "$model" --batch-size 2048
  one v5e-256 "$model" --batch-size 8192
done
# The state of 1.1 billion parameters in parts, and images that fit on no device.
for slice in v5e-8 v5e-64; do
  devices=${slice#v5e-}
  one "$slice" vit_giant_patch14_dinov2 --size 56 --batch-size "$devices" --fsdp "$devices" --optimizer adamw --quick
done
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
for strips in 1 8; do
  cat > "$folder/unet.toml" <<RECIPE
name = "unet"
task = "segment"
model = "unet"
batch_size = 1
spatial = $strips
eval_transform = "irstd"
data = { kind = "masks" }
[[phases]]
name = "train"
epochs = 1
optimizer = "adamw"
transform = "irstd"
schedule = { kind = "constant", lr = 1e-3 }
RECIPE
  one "v5e-$strips" "$folder/unet.toml" --size 4096 --batch-size 1 --quick
done
