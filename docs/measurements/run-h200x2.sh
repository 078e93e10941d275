#!/usr/bin/env bash
# Validates layouts on a machine with two GPUs, then provokes faults, then looks for leaks. No network and no Go are
# needed, only the static binary.
#
#   OUT=results docs/measurements/run-h200x2.sh [PART...]
#
# Parts: layouts, faults, repeat (these by default), launched (the first layout under torchrun). Settings by environment:
#   BIN      the binary, bin/rankmap
#   LAYOUTS  folder with the layouts to validate (*.yaml), docs/measurements/h200-x2/plans
#   LIB      libnccl.so.2 for the layouts; the newest of the Python environment when unset
#   RUNS     validations of the leak test, 20
# GPUs are matched by index: the layouts were made, and their predictions fixed, before the machine was there.
# Files in $OUT: a JSON report for each layout (at most 5, more are left out), tables.txt, log.txt.
set -u
cd "$(dirname "$0")/../.."
BIN=${BIN:-bin/rankmap} LAYOUTS=${LAYOUTS:-docs/measurements/h200-x2/plans} RUNS=${RUNS:-20} OUT=${OUT:-out}
LIB=${LIB:-$(ls -d "$(dirname "$(command -v python3)")"/../lib/python3*/site-packages/nvidia/nccl/lib/libnccl.so.2 2>/dev/null | tail -1)}
LIB=$(realpath "$LIB" 2>/dev/null || true)
# In-switch multicast stays off: on shared hosts it can put the GPUs of others out of service.
export NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 NVSHMEM_DISABLE_NVLS=1
mkdir -p "$OUT"; : >"$OUT/log.txt"
chmod +x "$BIN" 2>/dev/null
lib=(); [ -n "$LIB" ] && lib=(--nccl-lib "$LIB")
shopt -s nullglob
layouts=("$LAYOUTS"/*.yaml)
layouts=("${layouts[@]:0:5}")
first=$LAYOUTS/tp2.yaml; [ -f "$first" ] || first=${layouts[0]:-}
[ -n "$first" ] || { echo "no layouts in $LAYOUTS" >&2; exit 2; }
tmp=$(mktemp -d); trap 'rm -rf "$tmp"' EXIT

used() { nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits | awk '{s += $1} END {print s+0}'; }
shm() { ls /dev/shm | grep -c '^nccl-'; }
left() { pgrep -fc "$(basename "$BIN") validate" || true; }
state() { echo "GPU memory $(used) MiB, /dev/shm/nccl-* $(shm), processes $(left)"; }

host() {
  { date -u; uname -a; nvidia-smi; nvidia-smi topo -m; nvidia-smi -q | grep -iA4 fabric; df -h /dev/shm; ulimit -a; "$BIN" --version; echo "library $LIB"; env | grep -E '^(NCCL|CUDA)_'; } >>"$OUT/log.txt" 2>&1
}

layouts() {
  : >"$OUT/tables.txt"
  for l in "${layouts[@]}"; do
    n=$(basename "$l" .yaml)
    echo "=== $n" >>"$OUT/tables.txt"
    "$BIN" validate "$l" "${lib[@]}" --by-index --report "$OUT/$n.json" -o wide >>"$OUT/tables.txt" 2>>"$OUT/tables.txt"
    echo "exit code $?, after it: $(state)" | tee -a "$OUT/tables.txt"
  done
}

# child R prints the process of rank R: children are started in rank order.
child() { pgrep -P "$1" | sed -n "$(($2 + 1))p"; }

# fault NAME CODES SECONDS [VAR=value...] -- COMMAND: runs a validation and, after SECONDS, COMMAND with $pid (parent) set.
fault() {
  local name=$1 want=$2 after=$3; shift 3
  local vars=(); while [ "$1" != -- ]; do vars+=("$1"); shift; done; shift
  local rc t0=$SECONDS
  env "${vars[@]}" "$BIN" validate "$first" "${lib[@]}" --by-index --sizes "${sizes:-1K:1G:2}" --report "$tmp/fault.json" -o table >"$tmp/fault.txt" 2>"$tmp/fault.err" &
  pid=$!
  sleep "$after"; eval "$*"
  wait "$pid"; rc=$?
  { echo "=== $name: exit code $rc (wanted $want), $((SECONDS - t0)) s"; grep -E '^(error|warning)|stopped|exit code' "$tmp/fault.txt"; grep -o '"end": "[^"]*"' "$tmp/fault.json"; sleep 1; state; } | tee -a "$OUT/log.txt"
}

faults() {
  state | tee -a "$OUT/log.txt"
  fault "kill -9 of rank 1" 7 4 -- 'kill -9 $(child $pid 1)'
  fault "kill -STOP of rank 1" 5 4 -- 'kill -STOP $(child $pid 1)'
  fault "kill -9 of the parent" 137 4 -- 'kill -9 $pid; sleep 2; pgrep -fl "validate-rank" || echo "no orphan"'
  fault "Ctrl-C" 130 4 -- 'kill -INT $pid'
  fault "Ctrl-C twice" 130 4 -- 'kill -INT $pid; sleep 0.2; kill -INT $pid'
  fault "SIGTERM" 143 4 -- 'kill -TERM $pid'
  local sizes=64K,16M
  fault "NCCL_P2P_DISABLE=1" "0 or 4" 1 NCCL_P2P_DISABLE=1 -- :
  fault "NCCL_SHM_DISABLE=1 and P2P off" "0 or 4" 1 NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1 -- :
  python3 -c 'import torch,time; x=[torch.empty(120<<30,dtype=torch.uint8,device=f"cuda:{i}") for i in range(2)]; print("held",flush=True); time.sleep(40)' & hold=$!
  sleep 12
  fault "GPUs held by another process" 6 1 -- :
  kill $hold 2>/dev/null; wait $hold 2>/dev/null
}

repeat() {
  sleep 2; echo "before: $(state)" | tee -a "$OUT/log.txt"
  for i in $(seq "$RUNS"); do
    "$BIN" validate "$first" --by-index --quick --sizes none --report "$tmp/r.json" -o table >"$tmp/r.txt" 2>&1
    echo "run $i: exit code $?, $(grep -o '[0-9.]* s$' "$tmp/r.txt" | tail -1); $(state)" >>"$OUT/log.txt"
  done
  sleep 1; echo "after: $(state)" | tee -a "$OUT/log.txt"
}

launched() {
  local t0=$SECONDS
  RANKMAP_TOKEN=$(head -c 32 /dev/urandom | base64) torchrun --standalone --no-python --nproc-per-node 2 \
    "$BIN" validate "$first" "${lib[@]}" --by-index --quick --report "$OUT/launched.json" -o table >>"$OUT/tables.txt" 2>>"$OUT/log.txt"
  echo "torchrun: exit code $?, $((SECONDS - t0)) s; $(state)" | tee -a "$OUT/log.txt"
}

host
[ $# -gt 0 ] || set -- layouts faults repeat
for part; do echo "--- $part" | tee -a "$OUT/log.txt"; "$part"; done
