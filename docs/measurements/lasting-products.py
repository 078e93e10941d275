"""Times of matrix products of training under lasting load, one GPU, with its clock and power:

  python3 lasting-products.py OUT

Each product runs 1.2 s after 0.4 s of the same, from CUDA graphs of 8 sets of normally distributed operands. fp8 as Transformer
Engine multiplies: per-tensor scales, the forward pass with fast accumulation, both gradients with sums promoted to fp32
(split accumulator). burst is the first 20 ms after a second of rest.
"""
import csv, os, subprocess, sys, threading, time
import torch

dev, bf, f8 = "cuda", torch.bfloat16, torch.float8_e4m3fn
SETS = 8
SHAPES = [("llama-405b tp8 up", 4096, 13312, 16384), ("llama-405b tp8 down", 4096, 16384, 6656), ("gpt-3 tp4 up", 4096, 12288, 12288),
          ("gpt-3 tp4 qkv", 4096, 9216, 12288), ("gpt-3 tp4 up mb1", 2048, 12288, 12288), ("llama-70b tp4 up", 8192, 14336, 8192), ("llama-70b tp4 down", 8192, 8192, 7168),
          ("llama-8b up", 8192, 28672, 4096), ("llama-8b down", 8192, 4096, 14336), ("llama-8b o", 8192, 4096, 4096)]
one = torch.ones((), device=dev)


def operand(r, c, t):
    x = torch.randn(r, c, device=dev, dtype=bf)
    return x if t == bf else (x * (448 / x.abs().max())).to(f8)


def product(m, n, k, t, fast, out):
    """SETS products m x n x k in one graph."""
    ops = [(operand(m, k, t), operand(n, k, t)) for _ in range(SETS)]
    def f():
        for a, b in ops:
            if t == bf:
                a @ b.t()
            else:
                torch._scaled_mm(a, b.t(), scale_a=one, scale_b=one, out_dtype=out, use_fast_accum=fast)
    s = torch.cuda.Stream()
    s.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(s):
        f()
    torch.cuda.current_stream().wait_stream(s)
    torch.cuda.synchronize()
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        f()
    return g


def lasting(g, seconds):
    torch.cuda.synchronize()
    t, n = time.perf_counter(), 0
    while time.perf_counter() - t < seconds:
        for _ in range(2):
            g.replay()
        torch.cuda.synchronize()
        n += 2
    return (time.perf_counter() - t) / n / SETS * 1e6


class Meter(threading.Thread):
    def run(self):
        self.rows = []
        p = subprocess.Popen(["nvidia-smi", "--query-gpu=clocks.sm,power.draw.instant", "--format=csv,noheader,nounits", "-lms", "100"], stdout=subprocess.PIPE, text=True)
        self.p = p
        for l in p.stdout:
            try:
                self.rows.append([float(x) for x in l.split(",")])
            except ValueError:
                pass


meter = Meter(daemon=True)
meter.start()
f = open(os.path.join(sys.argv[1], "lasting.csv"), "w", buffering=1)
w = csv.writer(f)
w.writerow("shape,tokens,out,in,product,type,burst_us,lasting_us,tflops,sm_mhz,watts".split(","))
for name, m, n, k in SHAPES:
    for kind, a, t, fast, out in (("forward", (m, n, k), f8, True, bf), ("input gradient", (m, k, n), f8, False, bf), ("input gradient, fast sums", (m, k, n), f8, True, bf),
                                  ("weight gradient", (n, k, m), f8, False, torch.float32), ("weight gradient, bf16 result", (n, k, m), f8, False, bf), ("forward", (m, n, k), bf, True, bf)):
        g = product(*a, t, fast, out)
        torch.cuda.synchronize()
        time.sleep(0.7)
        burst = lasting(g, 0.02)
        lasting(g, 0.4)
        at = len(meter.rows)
        us = lasting(g, 1.2)
        r = meter.rows[at + 2:] or [[0, 0]]
        w.writerow([name, m, n, k, kind, "bf16" if t == bf else "fp8", f"{burst:.1f}", f"{us:.1f}", f"{2 * m * n * k / us / 1e6:.0f}", f"{sum(x[0] for x in r) / len(r):.0f}", f"{sum(x[1] for x in r) / len(r):.0f}"])
        del g
        torch.cuda.empty_cache()
meter.p.terminate()
