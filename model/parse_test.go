package model

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rankmap/configs"
	"rankmap/internal/parallel"
	"rankmap/internal/testdata"
)

const tinyLlama = `{"model_type":"llama","architectures":["LlamaForCausalLM"],"hidden_size":256,"num_hidden_layers":4,
"num_attention_heads":8,"num_key_value_heads":2,"intermediate_size":512,"vocab_size":1000}`

func TestBadInputSaysWhatItIs(t *testing.T) {
	long := make([]string, 60)
	for i := range long {
		long[i] = "-1"
	}
	for _, c := range []struct{ name, in, want string }{
		{"an empty file", "", `m.json:1: the file is empty`},
		{"only blanks", " \n\t\n", `m.json:1: the file is empty`},
		{"a web page", "<!DOCTYPE html><html><body>404</body></html>", `m.json:1: this is an HTML or XML page`},
		{"a PDF", "%PDF-1.7\n%\xe2\xe3", `m.json:1: this is a PDF`},
		{"a Git LFS pointer", "version https://git-lfs.github.com/spec/v1\noid sha256:1\n", `Git LFS pointer`},
		{"a zip archive", "PK\x03\x04abc", `compressed archive`},
		{"a safetensors file", "\x10\x00\x00\x00\x00\x00\x00\x00{\"a\":1}", `safetensors`},
		{"YAML", "model_type: llama\n", `m.json:1: not JSON: starts with "model_type: "`},
		{"a list", "[1]", `a JSON list`},
		{"a truncated object", "{\n\"model_type\": \"llama\",\n\"hidden_size\": 40", `m.json:3: the JSON ends in the middle`},
		{"a truncated string", "{\n\"model_type\": \"lla", `m.json:2: the JSON ends in the middle`},
		{"a missing comma", "{\"model_type\": \"llama\"\n\"hidden_size\": 4}", `m.json:2: not valid JSON`},
		{"two objects", "{}{}", `m.json:1: more text after the end`},
		{"deep nesting", strings.Repeat(`{"a":`, 200) + "1" + strings.Repeat("}", 200), `nested deeper than 100 levels`},
		{"an unknown architecture", `{"model_type":"novel","architectures":["NovelForCausalLM"],"width":4}`, `unknown architecture NovelForCausalLM (model_type novel); fields found: architectures, model_type, width`},
		{"a quantisation file", `{"producer":{"name":"modelopt"},"quantization":{"quant_algo":"FP8"}}`, `this is a quantisation file`},
		{"no architecture at all", `{"hidden_size":4}`, `unknown architecture (no model_type, no architectures)`},
		{"a negative size", "{\"model_type\":\"llama\",\n\"hidden_size\":-4}", `m.json:2: hidden_size is -4, want 1 to`},
		{"a fraction", "{\"model_type\":\"llama\",\n\"num_hidden_layers\":2.5}", `m.json:2: num_hidden_layers is not a whole number`},
		{"a word", `{"model_type":"llama","vocab_size":"many"}`, `vocab_size is not a whole number`},
		{"an absurd size", `{"model_type":"llama","hidden_size":99999999999}`, `hidden_size is 99999999999, want 1 to`},
		{"absurd layers", `{"model_type":"llama","num_hidden_layers":1000000}`, `1000000 layers, want at most`},
		{"heads that do not divide", `{"model_type":"llama","hidden_size":100,"num_attention_heads":7}`, `hidden size 100 is not a multiple of 7 heads`},
		{"more KV heads than heads", `{"model_type":"llama","num_key_value_heads":64}`, `64 KV heads for 32 query heads`},
		{"more experts a token than experts", `{"model_type":"mixtral","num_local_experts":4,"num_experts_per_tok":9}`, `9 experts a token of 4`},
		{"a pattern with a foreign letter", `{"model_type":"nemotron_h","hybrid_override_pattern":"M*X"}`, `hybrid_override_pattern has 'X'`},
		{"a pattern of another length", `{"model_type":"nemotron_h","num_hidden_layers":5,"hybrid_override_pattern":"M*-"}`, `5 layers, but the pattern has 3`},
		{"a flag that is a word", `{"model_type":"llama","attention_bias":"perhaps"}`, `attention_bias is neither true nor false`},
		{"a network too large to exist", `{"model_type":"mixtral","hidden_size":16000000,"num_attention_heads":16,"intermediate_size":16000000,"num_local_experts":16000000}`, `parameters, want at most 1e15`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse(strings.NewReader(c.in), "m.json", Options{})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestAllProblemsAtOnce(t *testing.T) {
	_, err := Parse(strings.NewReader("{\"model_type\":\"llama\",\n\"hidden_size\":-1,\n\"num_hidden_layers\":1.5,\n\"vocab_size\":[]}"), "m.json", Options{})
	if err == nil {
		t.Fatal("no error")
	}
	lines := strings.Split(err.Error(), "\n")
	if len(lines) < 3 || !strings.HasPrefix(lines[0], "m.json:2:") {
		t.Errorf("got %q", lines)
	}
}

func TestPythonsNumbersAreAccepted(t *testing.T) {
	in := strings.Replace(tinyLlama, "{", `{"time_step_limit":[0.0, Infinity], "a":-Infinity, "b": NaN, "c":"NaN and Infinity stay",`, 1)
	if _, err := Parse(strings.NewReader(in), "m.json", Options{}); err != nil {
		t.Error(err)
	}
}

func TestAbsurdLimitsAreNoLimits(t *testing.T) {
	in := strings.Replace(tinyLlama, "{", `{"model_max_length":1000000000000000019884624838656,"sliding_window":99999999999999,`, 1)
	s, err := Parse(strings.NewReader(in), "m.json", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if s.MaxContext != 0 || s.Layer(0).Mixer.Window != 0 {
		t.Errorf("context %d, window %d", s.MaxContext, s.Layer(0).Mixer.Window)
	}
}

func TestAssumeDenseMarksAnEstimate(t *testing.T) {
	in := strings.NewReplacer("llama", "novel", "Llama", "Novel").Replace(tinyLlama)
	s, err := Parse(strings.NewReader(in), "m.json", Options{Assume: "dense"})
	if err != nil {
		t.Fatal(err)
	}
	ref, err := Parse(strings.NewReader(tinyLlama), "m.json", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !s.Estimated || len(s.Warnings) == 0 || s.Params().Total != ref.Params().Total {
		t.Errorf("estimated %v, warnings %v, %d parameters, want %d", s.Estimated, s.Warnings, s.Params().Total, ref.Params().Total)
	}
	if _, err := Parse(strings.NewReader(in), "m.json", Options{Assume: "sparse"}); err == nil {
		t.Error("assume sparse passed")
	}
}

func TestAbsentFieldsTakeClassDefaultsAndSaySo(t *testing.T) {
	s, err := Parse(strings.NewReader(`{"model_type":"llama","num_hidden_layers":null}`), "m.json", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if s.Hidden != 4096 || s.Layers() != 32 || len(s.Warnings) < 5 {
		t.Errorf("hidden %d, layers %d, warnings %v", s.Hidden, s.Layers(), s.Warnings)
	}
}

func TestQuantisationSideFile(t *testing.T) {
	side := `{"producer":{"name":"modelopt"},"quantization":{"quant_algo":"NVFP4","kv_cache_quant_algo":"FP8","group_size":16,
"exclude_modules":["lm_head","model.layers.0.self_attn*","*.mlp.down_proj"]}}`
	s, err := Parse(strings.NewReader(tinyLlama), "m.json", Options{Quant: strings.NewReader(side)})
	if err != nil {
		t.Fatal(err)
	}
	if s.KVDType != "fp8" || len(s.Kinds) != 2 {
		t.Fatalf("cache %q, %d kinds of layer: the first layer's attention is kept", s.KVDType, len(s.Kinds))
	}
	for i := range 2 {
		for _, ts := range s.Layer(i).Tensors {
			want := BF16
			switch {
			case ts.In == 0 || ts.Module == "mlp.down_proj":
			case ts.Part == PartAttention && i == 0:
			default:
				want = NVFP4
			}
			if ts.Storage.Format != want {
				t.Errorf("layer %d %s: stored as %s, want %s", i, ts.Module, ts.Storage.Format, want)
			}
		}
	}
	if _, err := Parse(strings.NewReader(tinyLlama), "m.json", Options{Quant: strings.NewReader("{")}); err == nil || !strings.Contains(err.Error(), "hf_quant_config.json") {
		t.Errorf("a truncated side file: %v", err)
	}
}

func TestStorageBytes(t *testing.T) {
	m := Tensor{Out: 1024, In: 4096}
	n := int64(m.Params())
	for _, c := range []struct {
		name string
		st   Storage
		want int64
	}{
		{"bf16", storeBF16, 2 * n}, {"fp32", storeFP32, 4 * n},
		{"fp8 blocks", storeFP8Block, n + 4*8*32}, {"fp8 a row", Storage{Format: FP8, ScaleBytes: 4}, n + 4*1024}, {"fp8 a matrix", storeFP8Tensor, n + 8},
		{"mxfp4", storeMXFP4, n/2 + n/32}, {"nvfp4", storeNVFP4, n/2 + n/16 + 8},
		{"awq 128", Storage{Format: INT4, Group: 128, ScaleBytes: 2, ZeroPoints: true}, n/2 + 2*n/128 + n/256},
		{"gptq 128 act-order", Storage{Format: INT4, Group: 128, ScaleBytes: 2, ZeroPoints: true, ActOrder: true}, n/2 + 2*n/128 + n/256 + 4*4096},
	} {
		if got := c.st.bytes(m); got != c.want {
			t.Errorf("%s: %d bytes, want %d", c.name, got, c.want)
		}
	}
	near(t, "mxfp4 a weight", storeMXFP4.perWeight(), 0.53125, 0)
	near(t, "nvfp4 a weight", storeNVFP4.perWeight(), 0.5625, 0)
	near(t, "fp8 block a weight", storeFP8Block.perWeight(), 1+4.0/16384, 0)
}

func TestQuantisationMethods(t *testing.T) {
	for _, c := range []struct {
		name, config string
		want         string // of q_proj
		perWeight    float64
	}{
		{"awq", `{"quant_method":"awq","bits":4,"group_size":128,"zero_point":true}`, "int4", 0.5 + 2.5/128},
		{"gptq", `{"quant_method":"gptq","bits":8,"group_size":-1,"desc_act":false,"sym":true}`, "int8", 1},
		{"fp8 blocks", `{"quant_method":"fp8","weight_block_size":[128,128]}`, "fp8_block", 1 + 4.0/16384},
		{"fbgemm", `{"quant_method":"fbgemm_fp8"}`, "fp8", 1},
		{"bitsandbytes nf4", `{"quant_method":"bitsandbytes","load_in_4bit":true}`, "int4", 0.5 + 4.0/64},
		{"compressed-tensors int8", `{"quant_method":"compressed-tensors","config_groups":{"g":{"targets":["Linear"],"weights":{"num_bits":8,"type":"int"}}},"ignore":["lm_head"]}`, "int8", 1},
		{"compressed-tensors nvfp4", `{"quant_method":"compressed-tensors","config_groups":{"g":{"targets":["Linear"],"weights":{"num_bits":4,"type":"float","group_size":16}}}}`, "nvfp4", 0.5625},
		{"excluded", `{"quant_method":"fp8","modules_to_not_convert":["q_proj"]}`, "bf16", 2},
		{"excluded by pattern", `{"quant_method":"compressed-tensors","config_groups":{"g":{"targets":["Linear"],"weights":{"num_bits":8,"type":"float"}}},"ignore":["re:.*self_attn.*"]}`, "bf16", 2},
		{"modelopt inline", `{"quant_algo":"FP8","ignore":["lm_head"]}`, "fp8", 1},
		{"unknown", `{"quant_method":"magic"}`, "bf16", 2},
	} {
		in := strings.Replace(tinyLlama, "{", `{"quantization_config":`+c.config+`,`, 1)
		s, err := Parse(strings.NewReader(in), "m.json", Options{})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		q := s.Layer(0).Tensors[0]
		if q.Storage.Format.String() != c.want {
			t.Errorf("%s: %s, want %s", c.name, q.Storage.Format, c.want)
		}
		near(t, c.name, q.Storage.perWeight(), c.perWeight, 1e-9)
	}
}

func TestModulePatterns(t *testing.T) {
	b := &builder{}
	for _, c := range []struct {
		pattern, module string
		want            bool
	}{
		{"lm_head", "lm_head", true}, {"model.layers.*.self_attn", "layers.3.self_attn.q_proj", true}, {"gate", "layers.0.block_sparse_moe.gate", true},
		{"gate", "layers.0.mlp.gate_proj", false}, {"re:.*shared_experts.*", "layers.1.mlp.shared_experts.up_proj", true}, {"model.layers.1.*", "layers.10.mlp.up_proj", false},
		{"model.layers.1.*", "layers.1.mlp.up_proj", true}, {"*.attn.*", "layers.4.attn.wq_a", true}, {"language_model.model.layers.0*", "layers.0.mlp.down_proj", true},
		{"layers.3.ffn.experts", "layers.3.ffn.experts.0.up_proj", true}, {"re:[", "anything", false}, {"mtp*", "layers.3.mlp.up_proj", false},
	} {
		if got := b.pattern(c.pattern).match(c.module); got != c.want {
			t.Errorf("%q against %q: %v, want %v", c.pattern, c.module, got, c.want)
		}
	}
}

func TestLoadSaysWhatIsKnown(t *testing.T) {
	for _, name := range []string{"llama-9", "../../etc", "", "/"} {
		_, err := Load(configs.FS, name)
		if err == nil || !strings.Contains(err.Error(), "llama-3.1-8b") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// FuzzParse: no bytes make the parser panic, and what it accepts can be described, split and held.
func FuzzParse(f *testing.F) {
	f.Add([]byte(tinyLlama), []byte(""))
	for _, n := range Names(configs.FS) {
		data, err := configs.FS.ReadFile("models/" + n + "/config.json")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, []byte(`{"quantization":{"quant_algo":"NVFP4","exclude_modules":["lm_head"]}}`))
	}
	f.Add([]byte(`{"model_type":"nemotron_h","hybrid_override_pattern":"M*-E","hidden_size":64,"num_attention_heads":2,"head_dim":32,"vocab_size":10,"intermediate_size":8,"n_routed_experts":4,"num_experts_per_tok":2,"moe_intermediate_size":8}`), []byte(""))
	f.Add([]byte(`{"model_type":"deepseek_v4","hidden_size":64,"num_hidden_layers":2,"compress_ratios":[4,128],"hc_mult":4}`), []byte(""))
	for _, fam := range families {
		for _, x := range fam {
			f.Add([]byte(`{"model_type":"`+x.types[0]+`","num_hidden_layers":3}`), []byte(""))
		}
	}
	f.Fuzz(func(t *testing.T, in, side []byte) {
		o := Options{Assume: "dense"}
		if len(side) > 0 {
			o.Quant = strings.NewReader(string(side))
		}
		s, err := Parse(strings.NewReader(string(in)), "m.json", o)
		if err != nil {
			return
		}
		p := s.Params()
		if p.Total < 0 || p.Active < 0 || p.Active > p.Total || p.MTP < 0 || s.WeightBytes("") < 0 {
			t.Fatalf("counts: %+v, %d bytes", p, s.WeightBytes(""))
		}
		s.Describe()
		for _, st := range []parallel.Strategy{{TP: 4, PP: 2, EP: 4}, {DP: 8, EP: 8}, {TP: 2, CP: 2, ZeRO: 3, DP: 2, SequenceParallel: true}} {
			st = st.Normalize()
			for phase := Prefill; phase <= Train; phase++ {
				s.Split(st, Work{Phase: phase, Batch: 2, Tokens: 8, Context: 64}, MemoryOptions{Capacity: 80e9})
			}
		}
	})
}

// TestEveryRealConfigCanBeSplit runs all of the API over the collection.
func TestEveryRealConfigCanBeSplit(t *testing.T) {
	dir := testdata.Dir(t, "models", "dev")
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.Contains(file, "hf_quant_config") {
			continue
		}
		s, err := LoadFile(os.DirFS(dir), filepath.Base(file), Options{})
		if err != nil {
			t.Error(err)
			continue
		}
		for phase := Prefill; phase <= Train; phase++ {
			w := Work{Phase: phase, Batch: 4, Tokens: 256, Context: 4096}
			if phase == Decode {
				w.Tokens = 1
			}
			for _, st := range []parallel.Strategy{{TP: 8, ExpertTP: 8}, {TP: 2, PP: 2, DP: 4, EP: 8}, {CP: 2, TP: 4, EP: 2}} {
				c := s.Split(st.Normalize(), w, MemoryOptions{Capacity: 180e9})
				if c.MemoryTotal <= 0 || len(c.Stages) == 0 {
					t.Errorf("%s: %+v", s.Name, c)
				}
				for _, stage := range c.Stages {
					if stage.FLOPs <= 0 {
						t.Errorf("%s %s: no work on stage %v", s.Name, st, stage.Stages)
					}
				}
			}
		}
	}
}
