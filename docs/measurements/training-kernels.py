"""Times of what a training step is made of, one GPU, each part a table in OUT:

  python3 training-kernels.py OUT products sums heads attention host scan

products   forward, gradient of the input and of the weight (added to fp32) of experts' products, eight matrices in turn
sums       a large product plain, added to an fp32 and to a bf16 matrix
heads      the five batched products of attention through memory, 32 sequences x heads of 2,048 tokens, rows as Megatron-LM lays them
attention  flash attention forward and backward, causal, 4,096 tokens
host       a GPT layer with full recomputation, launched eagerly; run again with CUDA_LAUNCH_BLOCKING=1
scan       Mamba-2's chunked scan (needs mamba_ssm, its Triton kernels alone)
"""
import csv, os, sys, time
import torch, torch.nn.functional as F

dev, bf, f8 = "cuda", torch.bfloat16, torch.float8_e4m3fn
rand = lambda *s: torch.randn(*s, device=dev, dtype=bf)


def table(name, head):
    f = open(os.path.join(sys.argv[1], name + ".csv"), "a", buffering=1)
    w = csv.writer(f)
    w.writerow(head.split(","))
    return w.writerow


def replayed(f):
    """Microseconds of f in a CUDA graph, the mean of at least 0.12 s."""
    s = torch.cuda.Stream()
    s.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(s):
        f(), f()
    torch.cuda.current_stream().wait_stream(s)
    torch.cuda.synchronize()
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        f()
    one = launched(g.replay, 1)
    return launched(g.replay, max(3, int(120 / one))) * 1e3


def launched(f, n=10):
    """Milliseconds of f launched n times."""
    for _ in range(3):
        f()
    torch.cuda.synchronize()
    t = time.perf_counter()
    for _ in range(n):
        f()
    torch.cuda.synchronize()
    return (time.perf_counter() - t) / n * 1e3


def products():
    row = table("products", "network,tokens,out,in,forward_us,input_gradient_us,weight_gradient_fp32_us,forward_fp8_us")
    one = torch.ones(1, device=dev)
    for name, h, i, gate in (("qwen3-30b", 2048, 768, 2), ("qwen3-235b", 4096, 1536, 2), ("gpt-oss-120b", 2880, 2880, 2), ("deepseek-v3", 7168, 2048, 2), ("nemotron-3-nano", 2688, 1856, 1), ("nemotron-3-super", 1024, 2688, 1)):
        for m in (512, 2048, 8192):
            for n, k in ((i * gate, h), (h, i)):
                x, w, g, y, d = ([rand(*s) for _ in range(8)] for s in ((m, k), (n, k), (m, n), (m, n), (m, k)))
                s = [torch.zeros(n, k, device=dev) for _ in range(8)]
                x8, w8 = [a.to(f8) for a in x], [a.to(f8) for a in w]
                t = [replayed(lambda: [f(a) for a in range(8)]) / 8 for f in (
                    lambda a: torch.mm(x[a], w[a].t(), out=y[a]), lambda a: torch.mm(g[a], w[a], out=d[a]),
                    lambda a: torch.addmm(s[a], g[a].t(), x[a], out_dtype=torch.float32, out=s[a]),
                    lambda a: torch._scaled_mm(x8[a], w8[a].t(), one, one, out_dtype=bf, out=y[a]))]
                row([name, m, n, k] + ["%.1f" % v for v in t])


def sums():
    row = table("sums", "out,in,tokens,plain_us,added_to_fp32_us,added_to_bf16_us")
    for n, k, t in ((12288, 12288, 2048), (12288, 12288, 4096), (6144, 12288, 2048), (14336, 4096, 8192), (28672, 8192, 2048), (4096, 4096, 8192), (5376, 14336, 4096), (1536, 4096, 4096), (1536, 4096, 1024)):
        x, g, c, m = rand(t, k), rand(t, n), rand(n, k), torch.zeros(n, k, device=dev)
        row([n, k, t] + ["%.1f" % replayed(f) for f in (
            lambda: torch.mm(g.t(), x, out=c), lambda: torch.addmm(m, g.t(), x, out_dtype=torch.float32, out=m), lambda: torch.addmm(c, g.t(), x, out=c))])


def heads():
    row = table("heads", "head,scores_ms,context_ms,query_gradient_ms,key_gradient_ms,score_gradient_ms")
    for d in (56, 64, 80, 96, 104, 108, 112, 120, 128, 136, 144, 150, 152, 160, 192, 208, 216, 224, 448, 450, 456):
        q, k, v = (a.transpose(0, 1) for a in rand(2048, 32, 3 * d).split(d, -1))
        s, p, c = rand(32, 2048, 2048), rand(32, 2048, 2048), rand(32, 2048, d)
        row([d] + ["%.3f" % launched(f) for f in (
            lambda: torch.bmm(q, k.transpose(1, 2), out=s), lambda: torch.bmm(p, v, out=c), lambda: torch.bmm(p, k, out=c),
            lambda: torch.bmm(p.transpose(1, 2), q, out=c), lambda: torch.bmm(c, v.transpose(1, 2), out=s))])


def attention():
    from torch.nn.attention import SDPBackend, sdpa_kernel
    row = table("attention", "library,sequences,heads,head,forward_ms,backward_ms")
    for b, h, d in ((4, 32, 128), (4, 64, 64), (1, 64, 128)):
        q, k, v = (rand(b, h, 4096, d).requires_grad_() for _ in range(3))
        go = torch.randn_like(q)
        for name, lib in (("flash", SDPBackend.FLASH_ATTENTION), ("cudnn", SDPBackend.CUDNN_ATTENTION)):
            def both():
                F.scaled_dot_product_attention(q, k, v, is_causal=True).backward(go)
                q.grad = k.grad = v.grad = None
            with sdpa_kernel(lib):
                with torch.no_grad():
                    forward = launched(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True), 5)
                row([name, b, h, d, "%.2f" % forward, "%.2f" % (launched(both, 5) - forward)])


def host():
    row = table("host", "hidden,tp,heads,sequences,blocking,layer_ms")
    sq = 2048
    for h, tp, heads, mb in ((14336, 8, 64, 1), (14336, 8, 64, 2), (14336, 8, 64, 4), (2048, 1, 16, 1), (1024, 1, 16, 1)):
        n, d = heads // tp, h // heads
        w = [(rand(*s) * 0.01).requires_grad_() for s in ((3 * h // tp, h), (h, h // tp), (4 * h // tp, h), (h, 4 * h // tp))]
        norm = [torch.nn.LayerNorm(h, device=dev, dtype=bf) for _ in range(2)]
        bias = [torch.zeros(s, device=dev, dtype=bf, requires_grad=True) for s in (h, h, 4 * h // tp)]
        mask = torch.triu(torch.ones(sq, sq, device=dev, dtype=torch.bool), 1)

        def layer(x):
            q, k, v = F.linear(norm[0](x), w[0]).view(sq, mb * n, 3 * d).split(d, -1)
            s = torch.baddbmm(rand(1).expand(mb * n, sq, sq), q.transpose(0, 1), k.transpose(0, 1).transpose(1, 2), beta=0, alpha=0.1)
            p = F.dropout(torch.softmax(s.masked_fill(mask, -1e4), -1), 0.1)
            c = torch.bmm(p, v.transpose(0, 1)).transpose(0, 1).reshape(sq, mb, n * d)
            x = x + F.dropout(F.linear(c, w[1]) + bias[0], 0.1)
            return x + F.dropout(F.linear(F.gelu(F.linear(norm[1](x), w[2]) + bias[2]), w[3]) + bias[1], 0.1)
        x = rand(sq, mb, h)

        def two():
            o = torch.utils.checkpoint.checkpoint(layer, x.detach().requires_grad_(), use_reentrant=True)
            torch.utils.checkpoint.checkpoint(layer, o, use_reentrant=True).backward(x)
        row([h, tp, heads, mb, os.environ.get("CUDA_LAUNCH_BLOCKING", "0"), "%.2f" % (launched(two, 5) / 2)])


def scan():
    from mamba_ssm.ops.triton.ssd_combined import mamba_chunk_scan_combined
    row = table("scan", "heads,groups,sequences,forward_ms,backward_ms")
    n = 8192
    for h, g, b in ((64, 8, 4), (128, 8, 2), (128, 8, 1), (64, 1, 2), (32, 4, 4), (64, 8, 1)):
        x, B, C, dt = rand(b, n, h, 64).requires_grad_(), rand(b, n, g, 128).requires_grad_(), rand(b, n, g, 128).requires_grad_(), torch.rand(b, n, h, device=dev, dtype=bf).requires_grad_()
        A, D, bias = (-torch.rand(h, device=dev)).requires_grad_(), torch.randn(h, device=dev, requires_grad=True), torch.rand(h, device=dev, requires_grad=True)
        go = rand(b, n, h, 64)
        forward = lambda: mamba_chunk_scan_combined(x, dt, A, B, C, 128, D=D, dt_bias=bias, dt_softplus=True)

        def both():
            forward().backward(go)
            for a in (x, dt, A, B, C, D, bias):
                a.grad = None
        with torch.no_grad():
            t = launched(forward)
        row([h, g, b, "%.2f" % t, "%.2f" % (launched(both) - t)])


for part in sys.argv[2:]:
    {"products": products, "sums": sums, "heads": heads, "attention": attention, "host": host, "scan": scan}[part]()
