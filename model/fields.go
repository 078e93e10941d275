package model

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// maxErrors caps how many problems one parse reports.
const maxErrors = 20

// names of one quantity over the model families, most common first.
var (
	nameHidden   = []string{"hidden_size", "n_embd", "d_model", "n_embed", "dim", "model_dim", "embed_dim"}
	nameLayers   = []string{"num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_decoder_layers"}
	nameHeads    = []string{"num_attention_heads", "n_head", "n_heads", "num_heads"}
	nameKVHeads  = []string{"num_key_value_heads", "num_kv_heads", "n_head_kv", "n_kv_heads", "kv_n_heads", "num_query_groups"}
	nameHeadDim  = []string{"head_dim", "attention_head_dim", "kv_channels", "head_size", "attention_key_value_channels"}
	nameInter    = []string{"intermediate_size", "n_inner", "ffn_hidden_size", "ffn_dim", "ffn_intermediate_size", "hidden_dim"}
	nameVocab    = []string{"vocab_size", "padded_vocab_size", "n_vocab"}
	nameExperts  = []string{"n_routed_experts", "num_experts", "num_local_experts", "moe_num_experts", "num_moe_experts", "moe_num_primary_experts", "num_routed_experts", "n_experts"}
	nameTopK     = []string{"num_experts_per_tok", "num_experts_per_token", "experts_per_token", "num_selected_experts", "moe_topk", "moe_top_k", "top_k_experts", "moe_k", "moe_num_active_primary_experts", "router_top_k"}
	nameExpInter = []string{"moe_intermediate_size", "expert_intermediate_size", "moe_ffn_hidden_size", "expert_ffn_hidden_size", "moe_ffn_intermediate_size", "expert_hidden_size", "expert_dim"}
	nameShared   = []string{"n_shared_experts", "num_shared_experts", "moe_num_shared_experts", "num_shared_expert"}
	nameContext  = []string{"max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "max_sequence_length", "n_ctx", "model_max_length"}
	nameWindow   = []string{"sliding_window", "sliding_window_size", "window_size", "attention_window_size", "local_attention_window"}
)

// limits of plausible fields; beyond them a product could overflow and no such model exists.
const (
	maxWidth  = 1 << 24
	maxLayers = 2000
)

// builder reads one configuration and fills a Spec.
type builder struct {
	name  string
	top   *object // the whole file
	cfg   *object // the text part
	fam   *family
	s     *Spec
	errs  []error
	warns []string
	lists map[*node]any // lists read so far

	hidden, heads, kvHeads, headDim, inter int
}

func (b *builder) failf(n *node, format string, a ...any) {
	line := 1
	if n != nil {
		line = n.line
	}
	b.errs = append(b.errs, &lineError{b.name, line, fmt.Sprintf(format, a...)})
}

func (b *builder) warnf(format string, a ...any) {
	w := fmt.Sprintf(format, a...)
	if !slices.Contains(b.warns, w) {
		b.warns = append(b.warns, w)
	}
}

// lineError is a problem at one line of the configuration.
type lineError struct {
	file string
	line int
	text string
}

func (e *lineError) Error() string { return fmt.Sprintf("%s:%d: %s", e.file, e.line, e.text) }

func (b *builder) err() error {
	if len(b.errs) == 0 {
		return nil
	}
	slices.SortStableFunc(b.errs, func(x, y error) int {
		var p, q *lineError
		if errors.As(x, &p) && errors.As(y, &q) {
			return p.line - q.line
		}
		return 0
	})
	if n := len(b.errs); n > maxErrors {
		b.errs = append(b.errs[:maxErrors], fmt.Errorf("%s: %d more problems", b.name, n-maxErrors))
	}
	return errors.Join(b.errs...)
}

// find returns the first of names that is present and not null.
func (b *builder) find(names ...string) *node {
	for _, k := range names {
		if n := b.cfg.get(k); n != nil {
			return n
		}
	}
	return nil
}

// has tells whether one of names is present and not null.
func (b *builder) has(names ...string) bool { return b.find(names...) != nil }

// optInt reads a size; absent, null, and values under 1 (some files write -1 or 0 for none) give def.
func (b *builder) optInt(def int, names ...string) int {
	n := b.find(names...)
	if n == nil {
		return def
	}
	v, ok := n.whole()
	if !ok {
		b.failf(n, "%s is not a whole number", b.nameOf(names))
		return def
	}
	if v > maxWidth {
		b.failf(n, "%s is %d, want at most %d", b.nameOf(names), v, maxWidth)
		return def
	}
	if v < 1 {
		return def
	}
	return v
}

// bound reads a number of tokens that only limits something: beyond 2^30 (tokenizers write 1e30 for no limit), or not a
// number at all, it is as good as absent.
func (b *builder) bound(def int, names ...string) int {
	for _, k := range names {
		if n := b.cfg.get(k); n != nil {
			if v, ok := n.whole(); ok && v > 0 && v <= 1<<30 {
				return v
			}
		}
	}
	return def
}

// count is optInt for fields where 0 means none: it returns 0 for 0.
func (b *builder) count(def int, names ...string) int {
	if n := b.find(names...); n != nil {
		if v, ok := n.whole(); ok && v <= 0 {
			return 0
		}
	}
	return b.optInt(def, names...)
}

// size reads a size that the network needs: a negative or absent one is an error unless the family's configuration
// class has a default.
func (b *builder) size(names ...string) int {
	n := b.find(names...)
	if n == nil {
		if d, ok := b.fam.defaults[names[0]]; ok {
			b.warnf("%s is absent: took %d, the default of %s", names[0], d, b.fam.types[0])
			return d
		}
		b.failf(b.cfgNode(), "%s is missing (looked for %s)", names[0], strings.Join(names, ", "))
		return 1
	}
	v, ok := n.whole()
	if !ok {
		b.failf(n, "%s is not a whole number", b.nameOf(names))
		return 1
	}
	if v < 1 || v > maxWidth {
		b.failf(n, "%s is %d, want 1 to %d", b.nameOf(names), v, maxWidth)
		return 1
	}
	return v
}

// cfgNode is a node at the first line of the text part, for errors about missing fields.
func (b *builder) cfgNode() *node {
	if b.cfg == nil || len(b.cfg.keys) == 0 {
		return nil
	}
	return b.cfg.at[b.cfg.keys[0]]
}

func (b *builder) nameOf(names []string) string {
	for _, k := range names {
		if b.cfg.get(k) != nil {
			return k
		}
	}
	return names[0]
}

// flag reads a boolean; absent and null give def.
func (b *builder) flag(def bool, names ...string) bool {
	n := b.find(names...)
	if n == nil {
		return def
	}
	if v, ok := n.boolean(); ok {
		return v
	}
	if i, ok := n.whole(); ok {
		return i != 0
	}
	b.failf(n, "%s is neither true nor false", b.nameOf(names))
	return def
}

// word reads a string.
func (b *builder) word(names ...string) string { return b.find(names...).text() }

// ints reads a list of whole numbers, once; a missing list is nil. The caller must not change it.
func (b *builder) ints(names ...string) []int {
	n := b.find(names...)
	if n == nil || len(n.list()) == 0 {
		return nil
	}
	if l, ok := b.lists[n].([]int); ok {
		return l
	}
	var out []int
	for _, e := range n.list() {
		v, ok := e.whole()
		if flag, isBool := e.val.(bool); isBool {
			ok = true
			if flag {
				v = 1
			}
		}
		if !ok {
			b.failf(e, "%s holds something that is not a whole number", b.nameOf(names))
			out = nil
			break
		}
		out = append(out, v)
	}
	b.remember(n, out)
	return out
}

// words reads a list of strings, once; a missing list is nil. The caller must not change it.
func (b *builder) words(names ...string) []string {
	n := b.find(names...)
	if n == nil || len(n.list()) == 0 {
		return nil
	}
	if l, ok := b.lists[n].([]string); ok {
		return l
	}
	var out []string
	for _, e := range n.list() {
		out = append(out, e.text())
	}
	b.remember(n, out)
	return out
}

func (b *builder) remember(n *node, list any) {
	if b.lists == nil {
		b.lists = map[*node]any{}
	}
	b.lists[n] = list
}

// within runs fn with the fields of a nested object in place of the text part.
func (b *builder) within(key string, fn func()) {
	if o := b.cfg.get(key).object(); o != nil {
		old := b.cfg
		b.cfg = o
		fn()
		b.cfg = old
	}
}
