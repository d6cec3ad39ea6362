#!/bin/sh
# What `check-export` and `bench --peer` start as Python: a runtime that takes everything for the second of four classes, and a peer whose speed
# depends on the folder of its scripts and that takes long to compile.
if [ "$1" != -c ]; then
    case "$*" in *--variant\ compile*) sleep 5 ;; esac
    case "$1" in scripts/*) speed=50 ;; *) speed=100 ;; esac
    echo "{\"images_per_second\": $speed, \"start_to_first_step_s\": 1, \"peak_rss_bytes\": 1000}"
    exit
fi
echo "{\"runtime\": \"$3 1.0\"}"
while read -r header; do
    dims=${header#*[}
    dims=$(echo "${dims%%]*}" | tr , ' ')
    size=4
    for dim in $dims; do size=$((size * dim)); done
    head -c "$size" >/dev/null
    rows=${dims%% *}
    echo "{\"tensors\": [{\"dims\": [$rows, 4], \"dtype\": \"<f4\"}]}"
    # 0, 1, 0 and 0 as floats.
    while [ "$rows" -gt 0 ]; do
        printf '\000\000\000\000\000\000\200\077\000\000\000\000\000\000\000\000'
        rows=$((rows - 1))
    done
done
