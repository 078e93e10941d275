package model

import (
	"math"
	"strings"
	"testing"
)

// knownModels are shapes that publishers give, with the parameters of their weight files. They cover families beyond the
// collection of real configurations.
var knownModels = []struct {
	name, config string
	total        int64
	active       int64 // 0 = all
}{
	{"gemma-2-2b", `{"model_type":"gemma2","hidden_size":2304,"intermediate_size":9216,"num_hidden_layers":26,"num_attention_heads":8,"num_key_value_heads":4,"head_dim":256,"vocab_size":256000}`, 2614341888, 0},
	{"Qwen2.5-0.5B", `{"model_type":"qwen2","hidden_size":896,"intermediate_size":4864,"num_hidden_layers":24,"num_attention_heads":14,"num_key_value_heads":2,"vocab_size":151936,"tie_word_embeddings":true}`, 494032768, 0},
	{"Qwen2.5-72B", `{"model_type":"qwen2","hidden_size":8192,"intermediate_size":29568,"num_hidden_layers":80,"num_attention_heads":64,"num_key_value_heads":8,"vocab_size":152064,"tie_word_embeddings":false}`, 72706203648, 0},
	{"internlm2-20b", `{"model_type":"internlm2","hidden_size":6144,"intermediate_size":16384,"num_hidden_layers":48,"num_attention_heads":48,"num_key_value_heads":8,"vocab_size":92544,"bias":false}`, 19861149696, 0},
	{"falcon-7b", `{"model_type":"falcon","hidden_size":4544,"num_hidden_layers":32,"num_attention_heads":71,"multi_query":true,"parallel_attn":true,"new_decoder_architecture":false,"bias":false,"vocab_size":65024}`, 6921720704, 0},
	{"bloom-7b1", `{"model_type":"bloom","n_embed":4096,"hidden_size":4096,"n_layer":30,"num_attention_heads":32,"vocab_size":250880}`, 7069016064, 0},
	{"bloom-176b", `{"model_type":"bloom","hidden_size":14336,"n_layer":70,"num_attention_heads":112,"vocab_size":250880}`, 176247271424, 0},
	{"opt-125m", `{"model_type":"opt","hidden_size":768,"ffn_dim":3072,"num_hidden_layers":12,"num_attention_heads":12,"max_position_embeddings":2048,"vocab_size":50272,"word_embed_proj_dim":768}`, 125239296, 0},
	{"opt-6.7b", `{"model_type":"opt","hidden_size":4096,"ffn_dim":16384,"num_hidden_layers":32,"num_attention_heads":32,"max_position_embeddings":2048,"vocab_size":50272,"word_embed_proj_dim":4096}`, 6658473984, 0},
	{"opt-350m", `{"model_type":"opt","hidden_size":1024,"ffn_dim":4096,"num_hidden_layers":24,"num_attention_heads":16,"max_position_embeddings":2048,"vocab_size":50272,"word_embed_proj_dim":512,"do_layer_norm_before":false}`, 331196416, 0},
	{"pythia-6.9b", `{"model_type":"gpt_neox","hidden_size":4096,"intermediate_size":16384,"num_hidden_layers":32,"num_attention_heads":32,"vocab_size":50432}`, 6857302016, 0},
	{"gpt-neox-20b", `{"model_type":"gpt_neox","hidden_size":6144,"intermediate_size":24576,"num_hidden_layers":44,"num_attention_heads":64,"vocab_size":50432}`, 20554567680, 0},
	{"gpt-neo-2.7B", `{"model_type":"gpt_neo","hidden_size":2560,"num_layers":32,"num_heads":20,"vocab_size":50257,"max_position_embeddings":2048}`, 2651307520, 0},
	{"starcoder", `{"model_type":"gpt_bigcode","n_embd":6144,"n_inner":24576,"n_layer":40,"n_head":48,"n_positions":8192,"multi_query":true,"vocab_size":49152}`, 15517456384, 0},
	{"starcoder2-15b", `{"model_type":"starcoder2","hidden_size":6144,"intermediate_size":24576,"num_hidden_layers":40,"num_attention_heads":48,"num_key_value_heads":4,"vocab_size":49152,"use_bias":true,"tie_word_embeddings":false}`, 15957889024, 0},
	{"command-r", `{"model_type":"cohere","hidden_size":8192,"intermediate_size":22528,"num_hidden_layers":40,"num_attention_heads":64,"num_key_value_heads":64,"vocab_size":256000,"use_qk_norm":false}`, 34980831232, 0},
	{"command-r-plus", `{"model_type":"cohere","hidden_size":12288,"intermediate_size":33792,"num_hidden_layers":64,"num_attention_heads":96,"num_key_value_heads":8,"vocab_size":256000,"use_qk_norm":true}`, 103810674688, 0},
	{"command-a", `{"model_type":"cohere2","hidden_size":12288,"intermediate_size":36864,"num_hidden_layers":64,"num_attention_heads":96,"num_key_value_heads":8,"head_dim":128,"vocab_size":256000,"sliding_window":4096}`, 111057580032, 0},
	{"glm-4-9b", `{"model_type":"chatglm","hidden_size":4096,"ffn_hidden_size":13696,"num_layers":40,"num_attention_heads":32,"multi_query_attention":true,"multi_query_group_num":2,"kv_channels":128,"add_qkv_bias":true,"padded_vocab_size":151552}`, 9399951360, 0},
	{"OLMoE-1B-7B", `{"model_type":"olmoe","hidden_size":2048,"intermediate_size":1024,"num_hidden_layers":16,"num_attention_heads":16,"num_key_value_heads":16,"num_experts":64,"num_experts_per_tok":8,"vocab_size":50304}`, 6919161856, 0},
	{"Phi-3.5-MoE", `{"model_type":"phimoe","hidden_size":4096,"intermediate_size":6400,"num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":8,"num_local_experts":16,"num_experts_per_tok":2,"attention_bias":true,"lm_head_bias":true,"vocab_size":32064}`, 41873153344, 0},
	{"Jamba-v0.1", `{"model_type":"jamba","hidden_size":4096,"intermediate_size":14336,"num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":8,"num_experts":16,"num_experts_per_tok":2,"mamba_d_state":16,"mamba_d_conv":4,"mamba_expand":2,"mamba_dt_rank":256,"vocab_size":65536}`, 51570323328, 0},
	{"mamba-2.8b", `{"model_type":"mamba","hidden_size":2560,"intermediate_size":5120,"num_hidden_layers":64,"state_size":16,"time_step_rank":160,"vocab_size":50280}`, 2768345600, 0},
	{"falcon-mamba-7b", `{"model_type":"falcon_mamba","hidden_size":4096,"intermediate_size":8192,"num_hidden_layers":64,"state_size":16,"time_step_rank":256,"vocab_size":65024,"tie_word_embeddings":false}`, 7272665088, 0},
	{"DeepSeek-V2", `{"model_type":"deepseek_v2","hidden_size":5120,"intermediate_size":12288,"num_hidden_layers":60,"num_attention_heads":128,"q_lora_rank":1536,"kv_lora_rank":512,"qk_nope_head_dim":128,"qk_rope_head_dim":64,"v_head_dim":128,"n_routed_experts":160,"num_experts_per_tok":6,"n_shared_experts":2,"moe_intermediate_size":1536,"first_k_dense_replace":1,"topk_method":"group_limited_greedy","vocab_size":102400}`, 235741434880, 0},
	{"Hunyuan-A13B", `{"model_type":"hunyuan_v1_moe","hidden_size":4096,"intermediate_size":3072,"num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":8,"head_dim":128,"num_experts":64,"moe_topk":[8],"num_shared_expert":[1],"moe_intermediate_size":[3072],"use_qk_norm":true,"vocab_size":128167,"tie_word_embeddings":true}`, 80393183232, 0},
	{"grok-1", `{"model_type":"grok-1","hidden_size":6144,"intermediate_size":32768,"num_hidden_layers":64,"num_attention_heads":48,"num_key_value_heads":8,"num_experts":8,"num_experts_per_tok":2,"vocab_size":131072}`, 314e9, 0},
	{"snowflake-arctic", `{"model_type":"arctic","hidden_size":7168,"intermediate_size":4864,"num_hidden_layers":35,"num_attention_heads":56,"num_key_value_heads":8,"num_local_experts":128,"num_experts_per_tok":2,"moe_layer_frequency":1,"parallel_attn_mlp_res":true,"vocab_size":32000}`, 480e9, 17e9},
	{"MiniMax-Text-01", `{"model_type":"minimax_text_01","hidden_size":6144,"intermediate_size":9216,"num_hidden_layers":80,"num_attention_heads":64,"num_key_value_heads":8,"head_dim":128,"num_local_experts":32,"num_experts_per_tok":2,"vocab_size":200064}`, 456e9, 45.9e9},
	{"Kimi-Linear-48B", `{"model_type":"kimi_linear","hidden_size":2304,"intermediate_size":9216,"num_hidden_layers":27,"num_attention_heads":32,"q_lora_rank":null,"kv_lora_rank":512,"qk_nope_head_dim":128,"qk_rope_head_dim":64,"v_head_dim":128,"num_experts":256,"num_experts_per_token":8,"num_shared_experts":1,"moe_intermediate_size":1024,"first_k_dense_replace":1,"vocab_size":163840,"linear_attn_config":{"full_attn_layers":[4,8,12,16,20,24,27],"head_dim":128,"num_heads":32,"short_conv_kernel_size":4}}`, 49122681728, 0},
	{"SmolLM3-3B", `{"model_type":"smollm3","hidden_size":2048,"intermediate_size":11008,"num_hidden_layers":36,"num_attention_heads":16,"num_key_value_heads":4,"vocab_size":128256}`, 3075098624, 0},
	{"EXAONE-3.5-7.8B", `{"model_type":"exaone","hidden_size":4096,"intermediate_size":14336,"num_layers":32,"num_attention_heads":32,"num_key_value_heads":8,"vocab_size":102400}`, 7818448896, 0},
	{"LFM2-1.2B", `{"model_type":"lfm2","hidden_size":2048,"block_ff_dim":12288,"block_auto_adjust_ff_dim":true,"block_multiple_of":256,"num_hidden_layers":16,"num_attention_heads":32,"num_key_value_heads":8,"conv_L_cache":3,"layer_types":["conv","conv","full_attention","conv","conv","full_attention","conv","conv","full_attention","conv","full_attention","conv","full_attention","conv","full_attention","conv"],"vocab_size":65536}`, 1170340608, 0},
	{"granite-3.1-8b", `{"model_type":"granite","hidden_size":4096,"intermediate_size":12800,"num_hidden_layers":40,"num_attention_heads":32,"num_key_value_heads":8,"vocab_size":49155,"tie_word_embeddings":true}`, 8170848256, 0},
	{"Llama-4-Maverick", `{"model_type":"llama4_text","hidden_size":5120,"intermediate_size":8192,"intermediate_size_mlp":16384,"num_hidden_layers":48,"num_attention_heads":40,"num_key_value_heads":8,"head_dim":128,"num_local_experts":128,"num_experts_per_tok":1,"interleave_moe_layer_step":2,"vocab_size":202048}`, 400711848960, 0},
	{"GLM-4.5-Air", `{"model_type":"glm4_moe","hidden_size":4096,"intermediate_size":10944,"num_hidden_layers":46,"num_attention_heads":96,"num_key_value_heads":8,"head_dim":128,"n_routed_experts":128,"num_experts_per_tok":8,"n_shared_experts":1,"moe_intermediate_size":1408,"first_k_dense_replace":1,"attention_bias":true,"use_qk_norm":false,"vocab_size":151552}`, 106852251264, 0},
	{"gpt-j-6b", `{"model_type":"gptj","n_embd":4096,"n_layer":28,"n_head":16,"vocab_size":50400}`, 6050882784, 0},
	{"mpt-30b", `{"model_type":"mpt","d_model":7168,"n_heads":64,"n_layers":48,"expansion_ratio":4,"no_bias":true,"attn_config":{"alibi":true},"vocab_size":50432}`, 29.96e9, 0},
	{"recurrentgemma-2b", `{"model_type":"recurrent_gemma","hidden_size":2560,"intermediate_size":15360,"num_hidden_layers":26,"num_attention_heads":10,"num_key_value_heads":1,"head_dim":256,"lru_width":2560,"vocab_size":256000}`, 2682862080, 0},
	{"stablelm-2-1_6b", `{"model_type":"stablelm","hidden_size":2048,"intermediate_size":5632,"num_hidden_layers":24,"num_attention_heads":32,"num_key_value_heads":32,"use_qkv_bias":true,"vocab_size":100352}`, 1644515328, 0},
	{"nemotron-4-340b", `{"model_type":"nemotron","hidden_size":18432,"intermediate_size":73728,"num_hidden_layers":96,"num_attention_heads":96,"num_key_value_heads":8,"head_dim":192,"vocab_size":256000}`, 341e9, 0},
	{"ERNIE-4.5-300B-A47B", `{"model_type":"ernie4_5_moe","hidden_size":8192,"intermediate_size":28672,"num_hidden_layers":54,"num_attention_heads":64,"num_key_value_heads":8,"head_dim":128,"moe_num_experts":64,"moe_k":8,"moe_num_shared_experts":0,"moe_intermediate_size":3584,"moe_layer_start_index":3,"moe_layer_end_index":53,"moe_layer_interval":1,"tie_word_embeddings":false,"vocab_size":103424}`, 299489e6, 47e9},
	{"step3", `{"model_type":"step3_text","hidden_size":7168,"intermediate_size":18432,"num_hidden_layers":61,"num_attention_heads":64,"num_attention_groups":1,"head_dim":256,"share_q_dim":2048,"moe_num_experts":48,"moe_top_k":3,"moe_intermediate_size":5120,"share_expert_dim":5120,"moe_layers_enum":"4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33,34,35,36,37,38,39,40,41,42,43,44,45,46,47,48,49,50,51,52,53,54,55,56,57,58,59","vocab_size":128815}`, 316e9, 38e9},
	{"dots.llm1", `{"model_type":"dots1","hidden_size":4096,"intermediate_size":10944,"num_hidden_layers":62,"num_attention_heads":32,"num_key_value_heads":32,"head_dim":128,"n_routed_experts":128,"num_experts_per_tok":6,"n_shared_experts":2,"moe_intermediate_size":1408,"first_k_dense_replace":1,"vocab_size":152064}`, 142.8e9, 14e9},
	{"Bamba-9B", `{"model_type":"bamba","hidden_size":4096,"intermediate_size":14336,"num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":8,"attn_layer_indices":[9,18,27],"mamba_n_heads":128,"mamba_d_head":64,"mamba_d_state":128,"mamba_n_groups":1,"mamba_d_conv":4,"mamba_expand":2,"vocab_size":128256}`, 9780e6, 0},
	{"granite-4.0-h-small", `{"model_type":"granitemoehybrid","hidden_size":4096,"intermediate_size":768,"shared_intermediate_size":1536,"num_hidden_layers":40,"num_attention_heads":32,"num_key_value_heads":8,"num_local_experts":72,"num_experts_per_tok":10,"mamba_n_heads":128,"mamba_d_head":64,"mamba_d_state":128,"mamba_n_groups":1,"vocab_size":100352,"layer_types":["mamba","mamba","mamba","mamba","mamba","attention","mamba","mamba","mamba","mamba","mamba","mamba","mamba","mamba","mamba","attention","mamba","mamba","mamba","mamba","mamba","mamba","mamba","mamba","mamba","attention","mamba","mamba","mamba","mamba","mamba","mamba","mamba","mamba","mamba","attention","mamba","mamba","mamba","mamba"]}`, 32.2e9, 9e9},
	{"Falcon-H1-34B", `{"model_type":"falcon_h1","hidden_size":5120,"intermediate_size":21504,"num_hidden_layers":72,"num_attention_heads":20,"num_key_value_heads":4,"head_dim":128,"mamba_d_ssm":4096,"mamba_n_heads":32,"mamba_d_head":128,"mamba_d_state":256,"mamba_n_groups":2,"vocab_size":261120}`, 33.6e9, 0},
	{"Mamba-Codestral-7B", `{"model_type":"mamba2","hidden_size":4096,"num_hidden_layers":64,"num_heads":128,"head_dim":64,"state_size":128,"n_groups":8,"conv_kernel":4,"expand":2,"vocab_size":32768}`, 7285403648, 0},
	{"Qwen-72B", `{"model_type":"qwen","hidden_size":8192,"intermediate_size":49152,"num_hidden_layers":80,"num_attention_heads":64,"kv_channels":128,"vocab_size":152064}`, 72287920128, 0},
	{"Baichuan2-13B", `{"model_type":"baichuan","hidden_size":5120,"intermediate_size":13696,"num_hidden_layers":40,"num_attention_heads":40,"vocab_size":125696}`, 13896668160, 0},
	{"internlm-7b", `{"model_type":"internlm","hidden_size":4096,"intermediate_size":11008,"num_hidden_layers":32,"num_attention_heads":32,"vocab_size":103168,"bias":true}`, 7321948160, 0},
	{"OpenELM-3B", `{"model_type":"openelm","model_dim":3072,"head_dim":128,"num_transformer_layers":36,"vocab_size":32000,"ffn_dim_divisor":256,"normalize_qk_projections":true,"num_query_heads":[12,12,12,12,12,16,16,16,16,16,16,16,16,16,16,20,20,20,20,20,20,20,20,20,20,20,20,24,24,24,24,24,24,24,24,24],"num_kv_heads":[3,3,3,3,3,4,4,4,4,4,4,4,4,4,4,5,5,5,5,5,5,5,5,5,5,5,5,6,6,6,6,6,6,6,6,6],"ffn_multipliers":[0.5,0.6,0.7,0.8,0.9,1.0,1.1,1.2,1.3,1.4,1.5,1.6,1.7,1.8,1.9,2.0,2.1,2.2,2.3,2.4,2.5,2.6,2.7,2.8,2.9,3.0,3.1,3.2,3.3,3.4,3.5,3.6,3.7,3.8,3.9,4.0]}`, 3036e6, 0},
	{"Step-3.5-Flash", `{"model_type":"step3p5","hidden_size":4096,"intermediate_size":11264,"num_hidden_layers":45,"num_attention_heads":64,"num_attention_groups":8,"head_dim":128,"moe_num_experts":288,"moe_top_k":8,"moe_intermediate_size":1280,"share_expert_dim":1280,"first_k_dense_replace":3,"use_moe_router_bias":true,"use_head_wise_attn_gate":true,"attention_other_setting":{"num_attention_heads":96,"num_attention_groups":8,"head_dim":128},"sliding_window":512,"layer_types":["full_attention","sliding_attention","sliding_attention","sliding_attention"],"vocab_size":128896}`, 196e9, 11e9},
	{"gemma-3-4b text", `{"model_type":"gemma3","text_config":{"hidden_size":2560,"intermediate_size":10240,"model_type":"gemma3_text","num_hidden_layers":34,"sliding_window":1024}}`, 3880263168, 0},
	{"gemma-3-12b text", `{"model_type":"gemma3","text_config":{"hidden_size":3840,"intermediate_size":15360,"model_type":"gemma3_text","num_attention_heads":16,"num_key_value_heads":8,"num_hidden_layers":48,"sliding_window":1024}}`, 11766034176, 0},
	{"Mistral-Small-3.1 text", `{"model_type":"mistral3","architectures":["Mistral3ForConditionalGeneration"],"text_config":{"head_dim":128,"hidden_size":5120,"intermediate_size":32768,"model_type":"mistral","num_attention_heads":32,"num_hidden_layers":40,"num_key_value_heads":8,"vocab_size":131072}}`, 23572403200, 0},
	{"InternVL-like wrapper", `{"model_type":"internvl_chat","llm_config":{"architectures":["Qwen2ForCausalLM"],"model_type":"qwen2","hidden_size":3584,"intermediate_size":18944,"num_hidden_layers":28,"num_attention_heads":28,"num_key_value_heads":4,"vocab_size":152064}}`, 7615616512, 0},
	{"Qwen3-Omni thinker", `{"model_type":"qwen3_omni_moe","thinker_config":{"model_type":"qwen3_omni_moe_thinker","text_config":{"model_type":"qwen3_omni_moe_text","hidden_size":2048,"num_hidden_layers":48,"num_attention_heads":32,"num_key_value_heads":4,"head_dim":128,"num_experts":128,"num_experts_per_tok":8,"moe_intermediate_size":768,"vocab_size":151936}}}`, 30532122624, 0},
	{"DeepSeek-V2 by class alone", `{"architectures":["DeepseekV2ForCausalLM"],"hidden_size":2048,"intermediate_size":10944,"num_hidden_layers":27,"num_attention_heads":16,"q_lora_rank":null,"kv_lora_rank":512,"qk_nope_head_dim":128,"qk_rope_head_dim":64,"v_head_dim":128,"n_routed_experts":64,"num_experts_per_tok":6,"n_shared_experts":2,"moe_intermediate_size":1408,"first_k_dense_replace":1,"topk_method":"greedy","vocab_size":102400}`, 15706484224, 0},
	{"Llama-3.2-11B-Vision text", `{"model_type":"mllama","text_config":{"model_type":"mllama_text_model","hidden_size":4096,"intermediate_size":14336,"num_hidden_layers":40,"num_attention_heads":32,"num_key_value_heads":8,"cross_attention_layers":[3,8,13,18,23,28,33,38],"vocab_size":128256}}`, 9775e6, 0},
	{"Qwen3-4B", `{"model_type":"qwen3","hidden_size":2560,"intermediate_size":9728,"num_hidden_layers":36,"num_attention_heads":32,"num_key_value_heads":8,"head_dim":128,"tie_word_embeddings":true,"vocab_size":151936}`, 4022468096, 0},
	{"phi-4", `{"model_type":"phi3","hidden_size":5120,"intermediate_size":17920,"num_hidden_layers":40,"num_attention_heads":40,"num_key_value_heads":10,"vocab_size":100352,"sliding_window":null,"tie_word_embeddings":false}`, 14659507200, 0},
	{"Yi-6B", `{"model_type":"llama","hidden_size":4096,"intermediate_size":11008,"num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":4,"vocab_size":64000}`, 6061035520, 0},
	{"bloom by old names", `{"model_type":"bloom","n_embed":4096,"n_layer":30,"n_head":32,"vocab_size":250880}`, 7069016064, 0},
	{"chatglm-6b", `{"model_type":"chatglm","hidden_size":4096,"inner_hidden_size":16384,"num_layers":28,"num_attention_heads":32,"vocab_size":130528,"position_encoding_2d":true}`, 6173286400, 0},
	{"LFM2-8B-A1B", `{"model_type":"lfm2_moe","hidden_size":2048,"intermediate_size":7168,"moe_intermediate_size":1792,"num_hidden_layers":24,"num_dense_layers":2,"num_experts":32,"num_experts_per_tok":4,"num_attention_heads":32,"num_key_value_heads":8,"vocab_size":65536,"layer_types":["conv","conv","full_attention","conv","conv","conv","full_attention","conv","conv","conv","full_attention","conv","conv","conv","full_attention","conv","conv","conv","full_attention","conv","conv","full_attention","conv","conv"]}`, 8.34e9, 1.5e9},
	{"BitNet-2B-4T", `{"model_type":"bitnet","hidden_size":2560,"intermediate_size":6912,"num_hidden_layers":30,"num_attention_heads":20,"num_key_value_heads":5,"vocab_size":128256}`, 2.41e9, 0},
	{"LongCat-Flash", `{"model_type":"longcat_flash","hidden_size":6144,"ffn_hidden_size":12288,"num_layers":28,"num_attention_heads":64,"q_lora_rank":1536,"kv_lora_rank":512,"qk_nope_head_dim":128,"qk_rope_head_dim":64,"v_head_dim":128,"n_routed_experts":512,"zero_expert_num":256,"moe_topk":12,"expert_ffn_hidden_size":2048,"vocab_size":131072}`, 562e9, 27e9},
	{"Laguna XS", `{"model_type":"laguna","hidden_size":2048,"intermediate_size":8192,"num_hidden_layers":40,"num_attention_heads":48,"num_key_value_heads":8,"head_dim":128,"num_experts":256,"num_experts_per_tok":8,"moe_intermediate_size":512,"shared_expert_intermediate_size":512,"mlp_only_layers":[0],"gating":"per-head","num_attention_heads_per_layer":[48,64,64,64,48,64,64,64,48,64,64,64,48,64,64,64,48,64,64,64,48,64,64,64,48,64,64,64,48,64,64,64,48,64,64,64,48,64,64,64],"vocab_size":100352}`, 33e9, 3e9},
	{"Laguna S", `{"model_type":"laguna","hidden_size":3072,"intermediate_size":12288,"num_hidden_layers":48,"num_attention_heads":48,"num_key_value_heads":8,"head_dim":128,"num_experts":256,"num_experts_per_tok":10,"moe_intermediate_size":1024,"shared_expert_intermediate_size":1024,"mlp_only_layers":[0],"gating":"per-head","vocab_size":100352}`, 118e9, 8e9},
	{"Trinity Mini", `{"model_type":"afmoe","hidden_size":2048,"intermediate_size":6144,"num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":4,"head_dim":128,"num_experts":128,"num_experts_per_tok":8,"num_shared_experts":1,"moe_intermediate_size":1024,"num_dense_layers":2,"vocab_size":200192}`, 26.1e9, 3e9},
	{"RWKV-5-World-3B", `{"model_type":"rwkv5","hidden_size":2560,"attention_hidden_size":2560,"head_size":64,"num_hidden_layers":32,"vocab_size":65536}`, 3.06e9, 0},
	{"RWKV-6-World-7B", `{"model_type":"rwkv6","hidden_size":4096,"attention_hidden_size":4096,"head_size":64,"num_hidden_layers":32,"vocab_size":65536}`, 7.63e9, 0},
	{"MiniCPM3-4B", `{"model_type":"minicpm3","hidden_size":2560,"intermediate_size":6400,"num_hidden_layers":62,"num_attention_heads":40,"q_lora_rank":768,"kv_lora_rank":256,"qk_nope_head_dim":64,"qk_rope_head_dim":32,"v_head_dim":64,"vocab_size":73448}`, 4074e6, 0},
	{"Grok-2", `{"architectures":["Grok1ForCausalLM"],"model_type":"git","hidden_size":8192,"intermediate_size":32768,"moe_intermediate_size":16384,"num_hidden_layers":64,"num_attention_heads":64,"num_key_value_heads":8,"head_dim":128,"num_local_experts":8,"num_experts_per_tok":2,"residual_moe":true,"tie_word_embeddings":false,"vocab_size":131072}`, 270e9, 115e9},
	{"Gemma-3n-E4B text", `{"model_type":"gemma3n_text","hidden_size":2048,"intermediate_size":16384,"num_hidden_layers":35,"num_attention_heads":8,"num_key_value_heads":2,"head_dim":256,"hidden_size_per_layer_input":256,"vocab_size":262400,"vocab_size_per_layer_input":262144,"altup_num_inputs":4,"laurel_rank":64,"num_kv_shared_layers":15}`, 6.87e9, 0},
}

func TestKnownModels(t *testing.T) {
	for _, m := range knownModels {
		s, err := Parse(strings.NewReader(m.config), m.name, Options{})
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		p := s.Params()
		rel := float64(p.Total-m.total) / float64(m.total)
		t.Logf("%-22s %15d want %15d %+.4f%%  active %.2fB", m.name, p.Total, m.total, 100*rel, float64(p.Active)/1e9)
		tolerance := 1e-6
		if m.total%1e6 == 0 {
			tolerance = 0.015 // a rounded figure
		}
		if math.Abs(rel) > tolerance {
			t.Errorf("%s: %d parameters, want %d (%+.3f%%)", m.name, p.Total, m.total, 100*rel)
		}
		if a := float64(m.active); a > 0 && math.Abs(float64(p.Active)-a) > 0.2*a {
			t.Errorf("%s: %d active, want about %d", m.name, p.Active, m.active)
		}
	}
}
