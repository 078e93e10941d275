package measured

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rankmap/internal/testdata"
)

func TestOpsReadsEachTable(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       OpRow
	}{
		{"products", "system,version,gemm_dtype,m,n,k,time_us\nh100_sxm,1.2.0,bfloat16,64,512,1024,11.5\n",
			OpRow{Kind: "gemm", DType: "bf16", M: 64, N: 512, K: 1024}},
		{"int8 products by their old name", "system,version,gemm_dtype,m,n,k,time_us\nh100_sxm,1.2.0,sq,64,512,1024,11.5\n",
			OpRow{Kind: "gemm", DType: "int8", M: 64, N: 512, K: 1024}},
		{"columns in another order", "time_us,k,n,m,gemm_dtype,version,system\n11.5,1024,512,64,fp8,1.2.0,h100_sxm\n",
			OpRow{Kind: "gemm", DType: "fp8", M: 64, N: 512, K: 1024}},
		{"prompt attention", "system,version,attn_dtype,kv_cache_dtype,batch_size,isl,num_heads,num_key_value_heads,head_dim,window_size,time_us\nh100_sxm,1.2.0,bfloat16,fp8,2,4096,32,8,128,0,11.5\n",
			OpRow{Kind: "attn_prefill", DType: "bf16", Cache: "fp8", Batch: 2, Heads: 32, KVHeads: 8, HeadDim: 128, Tokens: 4096, Context: 4096}},
		{"cache attention reads step + 1 tokens", "system,version,attn_dtype,kv_cache_dtype,batch_size,isl,step,num_heads,num_key_value_heads,head_dim,window_size,time_us\nh100_sxm,1.2.0,bfloat16,bfloat16,2,1,4095,32,8,128,128,11.5\n",
			OpRow{Kind: "attn_decode", DType: "bf16", Cache: "bf16", Batch: 2, Heads: 32, KVHeads: 8, HeadDim: 128, Tokens: 1, Context: 4096, Window: 128}},
		{"experts", "system,version,moe_dtype,num_tokens,hidden_size,inter_size,topk,num_experts,moe_tp_size,moe_ep_size,distribution,time_us\nh100_sxm,1.2.0,fp8_block,64,7168,2048,8,256,1,16,power_law_1.2,11.5\n",
			OpRow{Kind: "moe", DType: "fp8_block", M: 64, Hidden: 7168, Inter: 2048, TopK: 8, Experts: 256, ExpertTP: 1, EP: 16, Routing: "power_law_1.2"}},
		{"latent prompt", "system,version,mla_dtype,kv_cache_dtype,num_heads,batch_size,isl,tp_size,time_us\nh100_sxm,1.2.0,bfloat16,fp8,16,2,4096,8,11.5\n",
			OpRow{Kind: "mla_prefill", DType: "bf16", Cache: "fp8", Batch: 2, Heads: 16, Tokens: 4096, Context: 4096}},
		{"latent cache", "system,version,mla_dtype,kv_cache_dtype,num_heads,batch_size,isl,step,tp_size,time_us\nh100_sxm,1.2.0,bfloat16,fp8,16,2,1,255,8,11.5\n",
			OpRow{Kind: "mla_decode", DType: "bf16", Cache: "fp8", Batch: 2, Heads: 16, Tokens: 1, Context: 256}},
	} {
		rows, err := Ops(strings.NewReader(c.text), "t.csv", "")
		if err != nil || len(rows) != 1 {
			t.Errorf("%s: %d rows, %v", c.name, len(rows), err)
			continue
		}
		got := rows[0]
		if got.Time.Micros() < 11.49 || got.Time.Micros() > 11.51 {
			t.Errorf("%s: %v", c.name, got.Time)
		}
		c.want.Line, c.want.System, c.want.Version, c.want.Framework, c.want.Time = 2, "h100_sxm", "1.2.0", "trtllm", got.Time
		if got != c.want {
			t.Errorf("%s:\n%+v, want\n%+v", c.name, got, c.want)
		}
	}
}

func TestOpsReadsThePlainTable(t *testing.T) {
	text := "kind,name,m,k,n,time_us,TFLOPs,GBps\ngemm_fp8,qkv,16,8192,10240,24.2,111,3488\ncopy,d2d,1048576,0,0,2.02,,1036\n" +
		"attn_decode,b16_L8192_h64_kv8,16,8192,64,124.2,,4324\nattn_prefill,b1_L1024_h64_kv8,1,1024,64,52.6,326.8,\n"
	rows, err := Ops(strings.NewReader(text), "compute.csv", "h200_sxm")
	if err != nil || len(rows) != 4 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	for i, want := range []OpRow{
		{Kind: "gemm", DType: "fp8", M: 16, N: 10240, K: 8192},
		{Kind: "copy", DType: "bf16", Bytes: 2 << 20},
		{Kind: "attn_decode", DType: "bf16", Cache: "bf16", Batch: 16, Heads: 64, KVHeads: 8, HeadDim: 128, Tokens: 1, Context: 8192},
		{Kind: "attn_prefill", DType: "bf16", Cache: "bf16", Batch: 1, Heads: 64, KVHeads: 8, HeadDim: 128, Tokens: 1024, Context: 1024},
	} {
		want.Line, want.System, want.Framework, want.Time = i+2, "h200_sxm", "plain", rows[i].Time
		if rows[i] != want {
			t.Errorf("%+v, want\n%+v", rows[i], want)
		}
	}
}

func TestOpsErrorsNameTheLine(t *testing.T) {
	head := "system,version,gemm_dtype,m,n,k,time_us\n"
	for _, c := range []struct{ name, text, want string }{
		{"another table", "a,b,c\n1,2,3\n", "t.csv:1: not a table"},
		{"nothing", "", "t.csv:1: no header"},
		{"a word for a number", head + "h,1,fp8,x,1,1,2\n", `t.csv:2: m is "x"`},
		{"a negative size", head + "h,1,fp8,1,1,1,2\nh,1,fp8,-1,1,1,2\n", `t.csv:3: m is "-1"`},
		{"no time", head + "h,1,fp8,1,1,1,\n", `t.csv:2: time_us is ""`},
		{"endless time", head + "h,1,fp8,1,1,1,Inf\n", `t.csv:2: time_us is "Inf"`},
		{"too few fields", head + "h,1,fp8,1\n", "t.csv:2: 4 fields, want 7"},
		{"all problems at once", head + "h,1,fp8,x,1,1,2\nh,1,fp8,1,y,1,2\n", `t.csv:3: n is "y"`},
	} {
		if _, err := Ops(strings.NewReader(c.text), "t.csv", ""); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	rows, err := Ops(strings.NewReader(head+strings.Repeat("h,1,fp8,x,1,1,2\n", 30)+"h,1,fp8,1,1,1,2\n"), "t.csv", "")
	if err == nil || strings.Count(err.Error(), "\n")+1 != 20 || len(rows) != 0 {
		t.Errorf("%d rows, %v", len(rows), err)
	}
}

func TestOpsLeavesEmptyRowsOut(t *testing.T) {
	rows, err := Ops(strings.NewReader("system,version,gemm_dtype,m,n,k,time_us\nh,1,fp8,0,1,1,2\nh,1,fp8,1,1,1,2\n"), "t.csv", "")
	if err != nil || len(rows) != 1 {
		t.Errorf("%d rows, %v", len(rows), err)
	}
}

func TestStepsReadsBothPhases(t *testing.T) {
	text := "model,tp,phase,case,comm,layers,time_us,per_layer_us\nllama70b,tp2,decode,b8_ctx1024,comm,8,2309.1,288.63\n" +
		"llama8b,tp1,prefill,s512,nocomm,8,10180.4,1272.54\nsymm,one_shot,all_reduce,1024,,1,6.294,\n"
	rows, err := Steps(strings.NewReader(text), "step.csv")
	if err != nil || len(rows) != 2 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	a, b := rows[0], rows[1]
	if a.TP != 2 || a.Batch != 8 || a.Tokens != 1 || a.Context != 1024 || !a.Comm || a.Layers != 8 {
		t.Errorf("%+v", a)
	}
	if b.TP != 1 || b.Batch != 1 || b.Tokens != 512 || b.Context != 512 || b.Comm {
		t.Errorf("%+v", b)
	}
	for _, bad := range []string{"llama,two,decode,b8_ctx1,comm,8,1,1", "llama,tp2,decode,eight,comm,8,1,1", "llama,tp2,prefill,x,comm,8,1,1", "llama,tp2,train,s1,comm,8,1,1", "llama,tp2,decode,b8_ctx1,comm,8,0,1"} {
		if _, err := Steps(strings.NewReader("model,tp,phase,case,comm,layers,time_us,per_layer_us\n"+bad+"\n"), "s.csv"); err == nil || !strings.Contains(err.Error(), "s.csv:2:") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// TestOpsReadsTheCollection: every row of the published tables, but those of size 0.
func TestOpsReadsTheCollection(t *testing.T) {
	for name, want := range map[string]int{"gemm.csv": 12500, "context_attention.csv": 6000, "generation_attention.csv": 6000, "moe.csv": 10000, "context_mla.csv": 2500, "generation_mla.csv": 2500} {
		f, err := os.Open(filepath.Join(testdata.Dir(t, "measured", "public"), name))
		if err != nil {
			t.Fatal(err)
		}
		rows, err := Ops(f, name, "")
		f.Close()
		if err != nil || len(rows) < want-30 || len(rows) > want {
			t.Errorf("%s: %d rows of %d, %v", name, len(rows), want, err)
		}
	}
}

func FuzzOps(f *testing.F) {
	f.Add("system,version,gemm_dtype,m,n,k,time_us\nh,1,fp8,1,1,1,2\n")
	f.Add("kind,name,m,k,n,time_us\nattn_decode,b16_kv8,16,8192,64,124.2\n")
	f.Add("model,tp,phase,case,comm,layers,time_us,per_layer_us\nl,tp2,decode,b8_ctx1024,comm,8,1,1\n")
	f.Fuzz(func(t *testing.T, s string) {
		rows, _ := Ops(strings.NewReader(s), "f", "x")
		for _, r := range rows {
			if !(r.Time > 0) || r.Kind == "" {
				t.Fatalf("%+v", r)
			}
		}
		steps, _ := Steps(strings.NewReader(s), "f")
		for _, r := range steps {
			if !(r.Time > 0) || r.TP < 1 {
				t.Fatalf("%+v", r)
			}
		}
	})
}
