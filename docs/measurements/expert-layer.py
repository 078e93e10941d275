"""Wall time of one expert layer, forward and backward, launched eagerly, against the time of its kernels.

  python3 layer.py OUT.csv
"""
import csv, sys, time
import torch, torch.nn.functional as F
dev="cuda"
out=csv.writer(open(sys.argv[1],"w"))
out.writerow("hidden,inter,local,topk,tokens,forward_ms,both_ms,kernels_ms,launches".split(","))
def run(h,f,L,k,T):
    w1=torch.randn(L,h,2*f,device=dev,dtype=torch.bfloat16,requires_grad=True); w2=torch.randn(L,f,h,device=dev,dtype=torch.bfloat16,requires_grad=True)
    router=torch.randn(h,L,device=dev,dtype=torch.bfloat16,requires_grad=True)
    g1=torch.zeros(L,h,2*f,device=dev); g2=torch.zeros(L,f,h,device=dev)
    x=torch.randn(T,h,device=dev,dtype=torch.bfloat16,requires_grad=True)
    def fwd():
        p,ids=torch.topk((x@router*0.01).float().softmax(-1),k)
        flat=ids.flatten(); order=torch.argsort(flat,stable=True)
        n=torch.bincount(flat,minlength=L); offs=n.cumsum(0).to(torch.int32)
        xs=x.index_select(0,order//k)
        y=torch._grouped_mm(xs,w1,offs=offs); a,b=y.chunk(2,-1)
        z=torch._grouped_mm(F.silu(a)*b,w2,offs=offs)
        z=z*p.flatten()[order].unsqueeze(-1).to(z.dtype)
        return torch.zeros_like(x).index_add(0,order//k,z)
    def both():
        o=fwd(); o.backward(torch.ones_like(o))
        g1.add_(w1.grad); g2.add_(w2.grad); w1.grad=w2.grad=None
    def wall(fn,n=10):
        for _ in range(3): fn()
        torch.cuda.synchronize(); t=time.time()
        for _ in range(n): fn()
        torch.cuda.synchronize(); return (time.time()-t)/n*1e3
    a,b=wall(fwd),wall(both)
    from torch.profiler import profile,ProfilerActivity
    with profile(activities=[ProfilerActivity.CUDA]) as p:
        both(); torch.cuda.synchronize()
    ev=[e for e in p.events() if e.device_type==torch.autograd.DeviceType.CUDA]
    out.writerow((h,f,L,k,T,a,b,sum(e.device_time for e in ev)/1e3,len(ev)))
    if (h,L)==(2048,16) and T==8192:
        print(p.key_averages().table(sort_by="cuda_time_total",row_limit=25,max_name_column_width=70))
for h,f,L,k in ((2048,768,128,8),(2048,768,16,8),(4096,1536,16,8),(7168,2048,8,8),(7168,2048,32,8)):
    for T in (1024,4096,8192):
        try: run(h,f,L,k,T)
        except Exception as e: print(h,f,L,T,str(e)[:200])
        torch.cuda.empty_cache()
