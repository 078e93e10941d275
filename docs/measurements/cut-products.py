"""What a product of tensor parallelism loses when it is cut to run beside its own communication, two GPUs at once:

  python3 cut-products.py OUT

whole      one product of all rows
cut        tp pieces of rows, dealt out over three streams (Transformer Engine's user buffers)
cut+copy   the same; each piece but the first waits for its rows from the other GPU, which a copy engine brings meanwhile
bulk       the whole product beside a copy of (tp-1)/tp of its input
alone      the copy alone
Each case runs 1.2 s after 0.4 s of the same on both GPUs, normally distributed operands.
"""
import csv, os, sys, time
import torch

bf, f8 = torch.bfloat16, torch.float8_e4m3fn
SHAPES = [("llama-405b up", 8, 4096, 13312, 16384), ("llama-405b down", 8, 4096, 16384, 6656), ("llama-405b qkv", 8, 4096, 2304, 16384), ("gpt-3 up", 4, 4096, 12288, 12288), ("gpt-3 up mb1", 4, 2048, 12288, 12288),
          ("llama-70b up", 4, 8192, 14336, 8192), ("llama-70b down", 4, 8192, 8192, 7168)]
G = [0, 1]
streams = {d: [torch.cuda.Stream(d) for _ in range(4)] for d in G}
sources = {d: torch.cuda.Stream(d) for d in G}  # on which a GPU's rows leave it


def bring(s, other, a, b):
    with torch.cuda.stream(sources[other.d]), torch.cuda.stream(streams[s.d][3]):
        s.land[a:b].view(torch.uint8).copy_(other.x[a:b].view(torch.uint8), non_blocking=True)


class Side:
    def __init__(s, d, tp, m, n, k, t):
        s.d, s.tp, s.m, s.t = d, tp, m, t
        x = torch.randn(m, k, device=d, dtype=bf)
        w = torch.randn(n, k, device=d, dtype=bf)
        if t == f8:
            x, w = (x * (448 / x.abs().max())).to(f8), (w * (448 / w.abs().max())).to(f8)
        s.x, s.w, s.land = x, w.t(), torch.empty_like(x)
        s.one = torch.ones((), device=d)

    def mul(s, x):
        if s.t == bf:
            return x @ s.w
        return torch._scaled_mm(x, s.w, scale_a=s.one, scale_b=s.one, out_dtype=bf, use_fast_accum=True)

    def issue(s, case, other):
        st = streams[s.d]
        rows = s.m // s.tp
        with torch.cuda.device(s.d):
            main = torch.cuda.current_stream()
            ev = torch.cuda.Event(); ev.record(main)
            for q in st:
                q.wait_event(ev)
            if case in ("bulk", "alone"):
                a = s.m - rows
                bring(s, other, 0, a)
            if case in ("whole", "bulk"):
                s.mul(s.x)
            if case in ("cut", "cut+copy"):
                for i in range(s.tp):
                    ready = None
                    if case == "cut+copy" and i:
                        bring(s, other, i * rows, (i + 1) * rows)
                        ready = torch.cuda.Event(); ready.record(st[3])
                    q = st[i % 3]
                    with torch.cuda.stream(q):
                        if ready:
                            q.wait_event(ready)
                        s.mul((s.land if ready else s.x)[i * rows:(i + 1) * rows])
            for q in st:
                e = torch.cuda.Event(); e.record(q); main.wait_event(e)


def sync():
    for d in G:
        torch.cuda.synchronize(d)


def lasting(sides, case, seconds):
    sync()
    t, n = time.perf_counter(), 0
    while time.perf_counter() - t < seconds:
        for _ in range(10):
            for s in sides:
                s.issue(case, sides[1 - s.d])
        n += 10
        sync()
    return (time.perf_counter() - t) / n * 1e6


w = csv.writer(f := open(os.path.join(sys.argv[1], "cut.csv"), "w", buffering=1), lineterminator="\n")
w.writerow("shape,tp,tokens,out,in,type,case,us".split(","))
for name, tp, m, n, k in SHAPES:
    for t in (f8, bf):
        sides = [Side(d, tp, m, n, k, t) for d in G]
        for s in sides:
            s.land.copy_(s.x)
        for case in ("whole", "cut", "cut+copy", "bulk", "alone", "whole"):
            lasting(sides, case, 0.4)
            us = lasting(sides, case, 1.0)
            w.writerow([name, tp, m, n, k, "bf16" if t == bf else "fp8", case, f"{us:.1f}"])
