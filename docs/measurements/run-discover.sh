#!/usr/bin/env bash
# Runs rankmap discover on a machine with GPUs in all its forms, beside what nvidia-smi and NCCL say of the same machine,
# and lets NCCL read the XML that rankmap writes. No network and no Go are needed: python3 with torch is, for NCCL.
#
#   OUT=results docs/measurements/run-discover.sh
#
# Settings by environment: BIN, the binary with NVML (CGO_ENABLED=1 go build -o bin/rankmap-cgo ./cmd/rankmap).
# Files in $OUT: summary.txt (verdicts, first line each check), discover.txt (table and wide), discover.json, node.yaml,
# ours.xml, nccl.xml (NCCL's own dump), nccl-from-ours.xml (its dump after reading ours), capture.tar.gz.
set -u
cd "$(dirname "$0")/../.."
BIN=${BIN:-bin/rankmap-cgo} OUT=${OUT:-out}
# In-switch multicast stays off: on shared hosts it can put the GPUs of others out of service.
export NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 NVSHMEM_DISABLE_NVLS=1
mkdir -p "$OUT"
chmod +x "$BIN" 2>/dev/null
tmp=$(mktemp -d); trap 'rm -rf "$tmp"' EXIT
sum=$OUT/summary.txt; : >"$sum"
say() { echo "$*" | tee -a "$sum"; }
run() { "$BIN" discover "$@" 2>>"$tmp/talk"; local rc=$?; echo "exit code $rc: discover $*" >>"$sum"; return $rc; }
same() { if [ ! -s "$2" ]; then say "MISSING $1"; elif cmp -s "$2" "$3"; then say "OK    $1"; else say "DIFFERS $1"; diff "$2" "$3" | head -${4:-20} | tee -a "$sum"; fi; }

# The GPUs wake up first, so that PCIe generations do not change between two looks.
python3 -c 'import torch; [torch.ones(1, device=f"cuda:{i}") for i in range(torch.cuda.device_count())]' 2>&1 | tail -1

say "== every form"
{ run -o table; echo; run -o wide; } >"$OUT/discover.txt"
run --capture "$OUT/capture.tar.gz" -o json >"$OUT/discover.json"
run -f "$OUT/node.yaml"
run -f "$OUT/ours.xml"
for s in svg dot mmd html txt; do run -f "$tmp/node.$s"; done
ls -l "$tmp" | awk '{print $5, $9}' >>"$sum"

say "== replay"
run --from "capture:$OUT/capture.tar.gz" -o json >"$tmp/replay.json"
same "a capture replays to the same bytes" "$OUT/discover.json" "$tmp/replay.json"
run --redact --salt x --capture "$tmp/red.tar.gz" -o json >"$tmp/red.json"
tar xzOf "$tmp/red.tar.gz" >"$tmp/red.txt"
for s in "$(hostname)" $(nvidia-smi --query-gpu=uuid --format=csv,noheader) $(hostname -I 2>/dev/null); do
  if [ ! -s "$tmp/red.json" ] || [ ! -s "$tmp/red.txt" ]; then say "MISSING the redacted capture"
  elif grep -qiF -- "$s" "$tmp/red.txt" "$tmp/red.json"; then say "LEAK  --redact keeps one of: host name, UUID, address"; else say "OK    --redact hides an identity"; fi
done
CUDA_VISIBLE_DEVICES=1,0 run -o json >"$tmp/swapped.json"
say "CUDA_VISIBLE_DEVICES=1,0 gives the driver's numbers $(grep -o '"index": [0-9]*' "$tmp/swapped.json" | tr '\n' ' ')"
if CUDA_VISIBLE_DEVICES=-1 run -o json >/dev/null; then say "WRONG no GPU visible, and no error"; fi

say "== nvidia-smi"
nvidia-smi topo -m >"$tmp/topo.txt"; nvidia-smi nvlink -s >"$tmp/nvlink.txt"
cat "$tmp/topo.txt" "$tmp/nvlink.txt" >>"$sum"
run --from "smi:$tmp/topo.txt" --from "nvlink:$tmp/nvlink.txt" -o json >"$tmp/smi.json"

cat >"$tmp/compare.py" <<'PY'
import json, sys
a, b = (json.load(open(f)) for f in sys.argv[1:3])
def facts(v):
    n = v["nodes"][0]
    return {"gpus": len(n["gpus"]), "names": [g["name"] for g in n["gpus"]], "numa": [g["numa"] for g in n["gpus"]], "cpus": [g["cpuAffinity"] for g in n["gpus"]],
            "nvlink": [(l["a"], l["b"], l["count"]) for l in n["links"] if l["kind"] == "NV"], "domains": [len(d) for d in v["nvlinkDomains"] or []],
            "nics": [x["device"] for x in n["nics"]], "near": [g["nearestNics"] for g in n["gpus"]]}
x, y = facts(a), facts(b)
for k in x:
    print("same   " if x[k] == y[k] else "DIFFERS", k, x[k], "" if x[k] == y[k] else y[k])
PY
say "== live against nvidia-smi topo -m and nvlink -s (left: live)"
python3 "$tmp/compare.py" "$OUT/discover.json" "$tmp/smi.json" 2>&1 | tee -a "$sum"

cat >"$tmp/reduce.py" <<'PY'
import sys, torch, torch.distributed as d, torch.multiprocessing as mp
def one(r, n, port):
    torch.cuda.set_device(r)
    d.init_process_group("nccl", init_method=f"tcp://127.0.0.1:{port}", rank=r, world_size=n)
    x = torch.ones(1 << 26, device="cuda")
    for _ in range(5): d.all_reduce(x)
    torch.cuda.synchronize()
    a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    a.record()
    for _ in range(20): d.all_reduce(x)
    b.record(); torch.cuda.synchronize()
    if r == 0: print("256 MiB all-reduce", round(a.elapsed_time(b) / 20 * 1000), "us")
    d.destroy_process_group()
if __name__ == "__main__":
    n = torch.cuda.device_count()
    mp.spawn(one, (n, int(sys.argv[1])), nprocs=n)
PY
nccl() { # PORT VAR=value...: an all-reduce under NCCL's own log
  local port=$1; shift
  env NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,GRAPH,ENV "$@" timeout 120 python3 "$tmp/reduce.py" "$port" >"$tmp/nccl.log" 2>&1
  local rc=$?
  say "NCCL exit code $rc, $(grep -ho '256 MiB all-reduce.*' "$tmp/nccl.log" | head -1)"
  grep -hE 'NCCL version|TOPO_FILE|xml|WARN|=== System|NVL\[|Connected all rings' "$tmp/nccl.log" | sed 's/.*NCCL INFO//' | sort -u | head -20 >>"$sum"
}
say "== NCCL's own dump"
nccl 29517 NCCL_TOPO_DUMP_FILE="$OUT/nccl.xml"
run --from "nccl-xml:$OUT/nccl.xml" -o json >"$tmp/ncclxml.json"
say "live against NCCL's dump (left: live)"
python3 "$tmp/compare.py" "$OUT/discover.json" "$tmp/ncclxml.json" 2>&1 | tee -a "$sum"
say "== NCCL reads our XML"
nccl 29518 NCCL_TOPO_FILE="$OUT/ours.xml" NCCL_TOPO_DUMP_FILE="$OUT/nccl-from-ours.xml"
run --from "nccl-xml:$OUT/nccl-from-ours.xml" -o json >"$tmp/again.json"
python3 "$tmp/compare.py" "$tmp/ncclxml.json" "$tmp/again.json" 2>&1 | tee -a "$sum"
run --from "nccl-xml:$OUT/nccl.xml" -f "$tmp/rewritten.xml"
nccl 29519 NCCL_TOPO_FILE="$tmp/rewritten.xml"

say "== what rankmap said"
sort "$tmp/talk" | uniq -c | tee -a "$sum"
for f in /sys/bus/pci/devices/*; do
  c=$(cat "$f/class"); case $c in 0x0302*|0x0300*|0x02*|0x0680*|0x0604*) echo "$(readlink "$f") $c $(cat "$f/vendor") numa $(cat "$f/numa_node") $(cat "$f/current_link_speed" 2>&1) x$(cat "$f/current_link_width" 2>&1) of $(cat "$f/max_link_width" 2>&1)";; esac
done >>"$sum"
