"""Times of the operations of an expert layer in training and of fp8 grouped products, one GPU.

  python3 experts.py OUT.csv

One row an operation: model, hidden, inter, experts held here (local), rows (token copies that arrive), operation, microseconds,
flops, bytes (the least that the operation must move). Expert loads are drawn as a uniform router gives them (multinomial, fixed
seed), unless balance says even. Each time is the median of 5 batches of launches between events.
"""
import csv, sys, time
import torch
import torch.nn.functional as F

dev = "cuda"
torch.manual_seed(1)
MODELS = {  # hidden, expert intermediate, experts, experts a token, gated
    "qwen3-30b": (2048, 768, 128, 8, True),
    "qwen3-235b": (4096, 1536, 128, 8, True),
    "deepseek-v3": (7168, 2048, 256, 8, True),
    "mixtral-8x7b": (4096, 14336, 8, 2, True),
    "nemotron-3-nano": (2688, 1856, 128, 6, False),
}
out = csv.writer(open(sys.argv[1], "w"))
out.writerow("model,hidden,inter,local,rows,balance,op,us,flops,bytes".split(","))
t0 = time.time()

def clock(f, n=None):
    for _ in range(3):
        f()
    torch.cuda.synchronize()
    a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    a.record(); f(); b.record(); torch.cuda.synchronize()
    one = max(a.elapsed_time(b), 0.003)
    n = n or max(2, min(200, int(8 / one)))
    ts = []
    for _ in range(5):
        a.record()
        for _ in range(n):
            f()
        b.record(); torch.cuda.synchronize()
        ts.append(a.elapsed_time(b) / n * 1e3)
    return sorted(ts)[2]

def graphed(f):
    s = torch.cuda.Stream(); s.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(s):
        for _ in range(2):
            f()
    torch.cuda.current_stream().wait_stream(s)
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        f()
    return g.replay

def timed(f):
    try:
        return clock(graphed(f))
    except Exception as e:
        torch.cuda.synchronize()
        return clock(f)

def counts(local, rows, balance):
    if balance == "even":
        c = torch.full((local,), rows // local)
        c[: rows - int(c.sum())] += 1
    else:
        c = torch.multinomial(torch.ones(local), rows, replacement=True).bincount(minlength=local)
    return c

def put(*row):
    out.writerow(row)

for name, (h, f, E, k, gated) in MODELS.items():
    wide = 2 * f if gated else f
    for tokens in (4096, 8192, 16384):
        rows = tokens * k
        for local in [e for e in (256, 128, 64, 32, 16, 8, 4, 2, 1) if e <= E and e * 64 >= E]:
            if time.time() - t0 > 330: break
            for balance in (("router", "even") if tokens == 8192 else ("router",)):
                torch.cuda.empty_cache()
                offs = counts(local, rows, balance).cumsum(0).to(torch.int32).to(dev)
                x = torch.randn(rows, h, device=dev, dtype=torch.bfloat16)
                m = torch.randn(rows, f, device=dev, dtype=torch.bfloat16)
                y = torch.randn(rows, wide, device=dev, dtype=torch.bfloat16)
                w1 = torch.randn(local, wide, h, device=dev, dtype=torch.bfloat16)
                w2 = torch.randn(local, h, f, device=dev, dtype=torch.bfloat16)
                gm = torch._grouped_mm
                base = (name, h, f, local, rows, balance)
                fl1, fl2 = 2 * rows * h * wide, 2 * rows * h * f
                by = lambda kk, n: 2 * (rows * (kk + n) + local * kk * n)
                try:
                    put(*base, "fwd1", timed(lambda: gm(x, w1.transpose(1, 2), offs=offs)), fl1, by(h, wide))
                    put(*base, "fwd2", timed(lambda: gm(m, w2.transpose(1, 2), offs=offs)), fl2, by(f, h))
                    put(*base, "dgrad1", timed(lambda: gm(y, w1, offs=offs)), fl1, by(wide, h))
                    put(*base, "dgrad2", timed(lambda: gm(x, w2, offs=offs)), fl2, by(h, f))
                    put(*base, "wgrad1", timed(lambda: gm(y.t(), x, offs=offs)), fl1, by(h, wide))
                    put(*base, "wgrad2", timed(lambda: gm(x.t(), m, offs=offs)), fl2, by(h, f))
                except Exception as e:
                    print(base, "grouped:", str(e)[:200])
                if tokens == 8192 and balance == "router":
                    g = torch.zeros(local, wide, h, device=dev, dtype=torch.float32)
                    put(*base, "accumulate1", timed(lambda: g.add_(w1)), 0, local * wide * h * 10)
                    del g
                del x, m, y, w1, w2
    # permutation and activation, which do not depend on the experts held
    for tokens in (4096, 8192):
        rows = tokens * k
        x = torch.randn(tokens, h, device=dev, dtype=torch.bfloat16)
        order = torch.randperm(rows, device=dev)
        src = order // k
        z = torch.randn(rows, h, device=dev, dtype=torch.bfloat16)
        inv = torch.argsort(order)
        p = torch.rand(tokens, k, device=dev, dtype=torch.bfloat16)
        y = torch.randn(rows, wide, device=dev, dtype=torch.bfloat16)
        base = (name, h, f, 0, rows, "router")
        put(*base, "permute", timed(lambda: x.index_select(0, src)), 0, 2 * h * (rows + tokens))
        put(*base, "unpermute", timed(lambda: torch.bmm(p.unsqueeze(1), z.index_select(0, inv).view(tokens, k, h))), 0, 2 * h * (rows + tokens))
        if gated:
            put(*base, "swiglu", timed(lambda: F.silu(y[:, :f]) * y[:, f:]), 0, 2 * rows * 3 * f)
        lg = torch.randn(tokens, E, device=dev)
        put(*base, "topk", timed(lambda: torch.topk(lg.softmax(-1), k)), 0, tokens * E * 4)
        ids = torch.randint(0, E, (tokens, k), device=dev)
        put(*base, "sort", timed(lambda: torch.argsort(ids.flatten(), stable=True)), 0, rows * 8)
        put(*base, "cast", timed(lambda: z.to(torch.float8_e4m3fn)), 0, rows * h * 3)
        amax = lambda: (z.view(rows, h // 128, 128).abs().amax(-1, keepdim=True).clamp(min=1e-4) / 448)
        put(*base, "amax128", timed(amax), 0, rows * h * 2)
        del x, z, y
    print(name, round(time.time() - t0), "s", flush=True)

# fp8 grouped products (row scales) and block-scaled dense products
for name, (h, f, E, k, gated) in MODELS.items():
    wide = 2 * f if gated else f
    for tokens in (128, 512, 1024, 2048, 8192, 32768):
        rows = tokens * k
        for local in [e for e in (256, 128, 32, 16, 8, 4) if e <= E and e * 64 >= E]:
            if time.time() - t0 > 480: break
            torch.cuda.empty_cache()
            offs = counts(local, rows, "router").cumsum(0).to(torch.int32).to(dev)
            base = (name, h, f, local, rows, "router")
            for op, kk, n in (("fp8 fwd1", h, wide), ("fp8 fwd2", f, h)):
                if kk % 16 or n % 16: continue
                a = torch.randn(rows, kk, device=dev, dtype=torch.bfloat16).to(torch.float8_e4m3fn)
                b = torch.zeros(local, n, kk, device=dev, dtype=torch.float8_e4m3fn)
                b.view(torch.uint8).random_(30, 60)
                sa = torch.ones(rows, device=dev); sb = torch.ones(local, n, device=dev)
                try:
                    put(*base, op, timed(lambda: torch._scaled_grouped_mm(a, b.transpose(1, 2), sa, sb, offs=offs, out_dtype=torch.bfloat16, use_fast_accum=True)),
                        2 * rows * kk * n, rows * (kk + 2 * n) + local * kk * n)
                except Exception as e:
                    print(base, op, str(e)[:200])
                    break
                del a, b
    print(name, "fp8", round(time.time() - t0), "s", flush=True)
