#!/usr/bin/env bash
# Validates layouts on a machine with two GPUs, then provokes faults, then looks for leaks. No network and no Go are
# needed, only the static binary.
#
#   OUT=results docs/measurements/run-h200x2.sh [PART...]
#
# Parts: layouts, faults, repeat, launched (the first layout under torchrun), all by default. Settings by environment:
#   BIN      the binary, bin/rankmap
#   LAYOUTS  folder with the layouts to validate (*.yaml), docs/measurements/h200-x2/plans
#   LIB      libnccl.so.2 for the layouts; the newest of the Python environment when unset
#   RUNS     validations of the leak test, 10
# GPUs are matched by index: the layouts were made, and their predictions fixed, before the machine was there.
# Files in $OUT: a JSON report for each layout (at most 5, more are left out), launched.json, tables.txt, log.txt.
set -u
cd "$(dirname "$0")/../.."
BIN=${BIN:-bin/rankmap} LAYOUTS=${LAYOUTS:-docs/measurements/h200-x2/plans} RUNS=${RUNS:-10} OUT=${OUT:-out}
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

# said REGEX waits until the run under way ($pid) has said it on standard error; it fails when the run ends before or after 60 s.
said() {
  for _ in $(seq 1200); do
    grep -qE -- "$1" "$tmp/fault.err" 2>/dev/null && return 0
    kill -0 "$pid" 2>/dev/null || return 1
    sleep 0.05
  done
  return 1
}
INIT='creating communicators' MEASURING='\(2 of [0-9]+\)'

# fault NAME CODES WHEN [VAR=value...] -- COMMAND: runs a validation that is long enough to be struck (powers of two up to 4
# GiB) and, once it has said WHEN, COMMAND with $pid (parent) set. "never" as WHEN strikes nothing.
fault() {
  local name=$1 want=$2 when=$3; shift 3
  local vars=(); while [ "$1" != -- ]; do vars+=("$1"); shift; done; shift
  local rc t0=$SECONDS hit="struck"
  : >"$tmp/fault.err"; : >"$tmp/fault.txt"; rm -f "$tmp/fault.json"
  env "${vars[@]}" "$BIN" validate "$first" "${lib[@]}" --by-index --sizes "${sizes:-1K:4G:2}" --report "$tmp/fault.json" -o table >"$tmp/fault.txt" 2>"$tmp/fault.err" &
  pid=$!
  local where=""
  if [ "$when" = never ]; then hit="nothing to strike"; elif said "$when"; then sleep "${later:-0.1}"; where=" at '$(tail -1 "$tmp/fault.err" | cut -c1-80)'"; eval "$*"; else hit="NOT STRUCK"; fi
  local struck=$(date +%s.%N)
  wait "$pid"; rc=$?
  local verdict=as-wanted; case " $want " in *" $rc "*) ;; *) verdict=UNEXPECTED ;; esac
  { echo "=== $name: $hit$where; exit code $rc (wanted $want) $verdict, $((SECONDS - t0)) s, $(awk -v a="$struck" -v b="$(date +%s.%N)" 'BEGIN {printf "%.1f", b - a}') s after the strike"
    grep -E '^(error|warning)|stopped|exit code' "$tmp/fault.txt" | head -8; grep -o '"end": "[^"]*"' "$tmp/fault.json" 2>/dev/null; sleep 1; state; } | tee -a "$OUT/log.txt"
}

faults() {
  state | tee -a "$OUT/log.txt"
  fault "kill -9 of rank 1 while measuring" 7 "$MEASURING" -- 'kill -9 $(child $pid 1)'
  fault "kill -9 of rank 1 in communicator init" 7 "$INIT" -- 'kill -9 $(child $pid 1)'
  fault "kill -9 of rank 0 while measuring" 7 "$MEASURING" -- 'kill -9 $(child $pid 0)'
  fault "kill -STOP of rank 1 while measuring" 5 "$MEASURING" -- 'kill -STOP $(child $pid 1)'
  fault "kill -STOP of rank 1 in communicator init" 5 "$INIT" -- 'kill -STOP $(child $pid 1)'
  fault "kill -9 of the parent" 137 "$MEASURING" -- 'kill -9 $pid; sleep 2; pgrep -fl "validate-rank" || echo "no orphan"'
  fault "Ctrl-C" 130 "$MEASURING" -- 'kill -INT $pid'
  fault "Ctrl-C twice" 130 "$MEASURING" -- 'kill -INT $pid; sleep 0.2; kill -INT $pid'
  fault "Ctrl-C in communicator init" 130 "$INIT" -- 'kill -INT $pid'
  fault "SIGTERM" 143 "$MEASURING" -- 'kill -TERM $pid'
  local sizes=64K,16M
  fault "NCCL_P2P_DISABLE=1" "0 4" never NCCL_P2P_DISABLE=1 -- :
  fault "NCCL_SHM_DISABLE=1 and P2P off" "0 4" never NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1 -- :
  : >"$tmp/held"
  python3 -c 'import torch,time; x=[torch.empty(120<<30,dtype=torch.uint8,device=f"cuda:{i}") for i in range(2)]; print("held",flush=True); time.sleep(60)' >"$tmp/held" & hold=$!
  for _ in $(seq 300); do grep -q held "$tmp/held" && break; kill -0 $hold 2>/dev/null || break; sleep 0.1; done
  fault "GPUs held by another process" 6 never -- :
  kill $hold 2>/dev/null; wait $hold 2>/dev/null
}

repeat() {
  sleep 2; echo "before: $(state)" | tee -a "$OUT/log.txt"
  for i in $(seq "$RUNS"); do
    "$BIN" validate "$first" "${lib[@]}" --by-index --quick --sizes none --report "$tmp/r.json" -o table >"$tmp/r.txt" 2>&1
    echo "run $i: exit code $?, $(grep -o '[0-9.]* s$' "$tmp/r.txt" | tail -1); $(state)" >>"$OUT/log.txt"
  done
  sleep 1; echo "after: $(state)" | tee -a "$OUT/log.txt"
}

# torchrun starts a copy for each GPU; the copies meet at rank 0. Then once more with a token that differs on rank 1, and once
# with a rank killed.
launched() {
  local t0=$SECONDS run=(torchrun)
  command -v torchrun >/dev/null || run=(python3 -m torch.distributed.run)
  run+=(--nnodes 1 --node-rank 0 --master-addr 127.0.0.1 --nproc-per-node 2 --no-python)
  export RANKMAP_TOKEN=$(head -c 32 /dev/urandom | base64)
  echo "=== torchrun" >>"$OUT/tables.txt"
  "${run[@]}" --master-port 29511 "$BIN" validate "$first" "${lib[@]}" --by-index --quick --report "$OUT/launched.json" -o table >>"$OUT/tables.txt" 2>>"$OUT/log.txt"
  echo "torchrun: exit code $? (wanted 0 4; torchrun turns 4 into 1), $((SECONDS - t0)) s; $(state)" | tee -a "$OUT/log.txt"
  t0=$SECONDS; : >"$tmp/fault.err"
  "${run[@]}" --master-port 29512 "$BIN" validate "$first" "${lib[@]}" --by-index --sizes 1K:4G:2 --report "$tmp/l.json" -o table >"$tmp/l.txt" 2>"$tmp/fault.err" & pid=$!
  if said "$MEASURING"; then kill -9 "$(pgrep -f 'validate-rank$' | tail -1)"; fi
  wait "$pid"
  { echo "torchrun, a rank killed: exit code $? (wanted 1), $((SECONDS - t0)) s; report: $(grep -o '"cause": "[^"]*"' "$tmp/l.json"), $(grep -o '"exitCode": [0-9]*' "$tmp/l.json"); $(state)"
    tail -5 "$tmp/fault.err"; } | tee -a "$OUT/log.txt"
  t0=$SECONDS
  "${run[@]}" --master-port 29513 bash -c '[ "$RANK" = 1 ] && export RANKMAP_TOKEN=another-token-of-some-length; exec "$@"' _ \
    "$BIN" validate "$first" "${lib[@]}" --by-index --quick --join-timeout 8s --report "$tmp/l.json" -o table >"$tmp/l.txt" 2>"$tmp/fault.err"
  { echo "torchrun, another token on rank 1: exit code $? (wanted 1), $((SECONDS - t0)) s; report: $(grep -o '"cause": "[^"]*"' "$tmp/l.json"), $(grep -A3 '"rejected"' "$tmp/l.json" | tr -d ' \n'); $(state)"; } | tee -a "$OUT/log.txt"
}

host
[ $# -gt 0 ] || set -- layouts faults repeat launched
for part; do echo "--- $part" | tee -a "$OUT/log.txt"; "$part"; done
