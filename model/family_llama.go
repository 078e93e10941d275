package model

var attentionBias = byField("attention_bias", false)

// llamaFamilies are dense networks of RMSNorm, rotary positions and a gated MLP, and their close kin.
var llamaFamilies = []*family{
	{types: []string{"llama"}, classes: []string{"Llama"}, defaults: sizes(4096, 32, 32, 0, 11008, 32000),
		build: standard(recipe{qkv: attentionBias, o: attentionBias, mlp: byField("mlp_bias", false)})},
	{types: []string{"mistral"}, classes: []string{"Mistral"}, defaults: sizes(4096, 32, 32, 8, 14336, 32000), build: standard(recipe{})},
}

var gptFamilies = []*family{}
var hybridFamilies = []*family{}
