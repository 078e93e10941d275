package model

import (
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"rankmap/internal/testdata"
)

// indexRow is one line of the collection's index, with the right readings worked out by hand.
type indexRow map[string]string

func (r indexRow) int(col string) (int64, bool) {
	v, err := strconv.ParseInt(r[col], 10, 64)
	return v, err == nil
}

// readIndex reads the index of real configurations.
func readIndex(t testing.TB) (dir string, rows []indexRow) {
	t.Helper()
	dir = testdata.Dir(t, "models", "dev")
	f, err := os.Open(filepath.Join(dir, "INDEX.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := csv.NewReader(f)
	r.Comma, r.LazyQuotes, r.FieldsPerRecord = '\t', true, -1
	all, err := r.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, rec := range all[1:] {
		row := indexRow{}
		for i, h := range all[0] {
			if i < len(rec) {
				row[h] = strings.TrimSpace(rec[i])
			}
		}
		rows = append(rows, row)
	}
	return dir, rows
}

func load(t testing.TB, dir, file string) (*Spec, error) {
	t.Helper()
	return LoadFile(os.DirFS(dir), file, Options{})
}

// missingFromIndex is what the index's count of compressed attention leaves out and the checkpoints hold: the compressors
// that merge keys and values, the indexer of ratio-4 layers (which the index counts for DeepSeek-V3.2), and the mixing
// weights of hyper-connections; beside them 64 sinks and 256 routing corrections a layer. For V4-Flash it is 0.18 % of
// the total, for V4-Pro 0.08 %. With it the active parameters without the input embedding are 13.27e9 and 48.85e9, the
// published 13B and 49B; without it 12.75e9 and 47.60e9.
func missingFromIndex(s *Spec) int64 {
	var n int64
	count := func(t *Tensor, times int64) {
		for _, part := range []string{"compressor", "indexer", "hc", "attn_sink", "gate.bias"} {
			if strings.Contains(t.Module, part) {
				n += t.Params() * times
				return
			}
		}
	}
	for i := range s.Kinds {
		if s.Kinds[i].Mixer.Kind != Compressed {
			return 0
		}
		for j := range s.Kinds[i].Tensors {
			count(&s.Kinds[i].Tensors[j], int64(s.prefix[i][s.Layers()]))
		}
	}
	for i := range s.outer {
		count(&s.outer[i], 1)
	}
	return n
}

func TestEveryConfigHasTheRightParameters(t *testing.T) {
	dir, rows := readIndex(t)
	read, total := 0, 0
	var errs []float64
	for _, row := range rows {
		want, ok := row.int("computed_total")
		if !ok {
			continue
		}
		total++
		s, err := load(t, dir, row["file"])
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		read++
		p := s.Params()
		p.Total -= missingFromIndex(s)
		p.Active -= missingFromIndex(s)
		rel := float64(p.Total-want) / float64(want)
		errs = append(errs, math.Abs(rel))
		if math.Abs(rel) > 0.001 {
			t.Errorf("%s: total %d, want %d (%+.4f%%, %+d)", row["file"], p.Total, want, rel*100, p.Total-want)
		} else if rel != 0 {
			t.Logf("%s: total %d, want %d (%+.4f%%, %+d)", row["file"], p.Total, want, rel*100, p.Total-want)
		}
		if a, ok := row.int("computed_active"); ok {
			if rel := float64(p.Active-a) / float64(a); math.Abs(rel) > 0.001 {
				t.Errorf("%s: active %d, want %d (%+.4f%%)", row["file"], p.Active, a, rel*100)
			}
		}
		if m, ok := row.int("computed_mtp"); ok {
			if rel := float64(p.MTP-m) / float64(m); math.Abs(rel) > 0.001 {
				t.Errorf("%s: mtp %d, want %d (%+d)", row["file"], p.MTP, m, p.MTP-m)
			}
		}
		if l, ok := row.int("layers"); ok && int64(s.Layers()) != l {
			t.Errorf("%s: %d layers, want %d", row["file"], s.Layers(), l)
		}
		if h, err := strconv.Atoi(strings.Fields(row["hidden"])[0]); err == nil && s.Hidden != h {
			t.Errorf("%s: hidden %d, want %d", row["file"], s.Hidden, h)
		}
		checkCache(t, row, s)
	}
	slices.Sort(errs)
	if len(errs) > 0 {
		t.Logf("%d of %d configs read; parameter error: median %.2g, max %.2g", read, total, errs[len(errs)/2], errs[len(errs)-1])
	}
}

// checkCache compares cache bytes a token a layer, their sum, and the state of one sequence.
func checkCache(t *testing.T, row indexRow, s *Spec) {
	t.Helper()
	if kv, ok := row.int("kv_bytes_per_token_all_layers_bf16"); ok && int64(s.KVBytesPerToken("bf16")) != kv {
		t.Errorf("%s: %d cache bytes a token, want %d", row["file"], s.KVBytesPerToken("bf16"), kv)
	}
	state := int64(0)
	if v, ok := row.int("recurrent_or_window_state_bytes_per_seq"); ok {
		state = v
	}
	if got := int64(s.StateBytes("bf16")); got != state {
		t.Errorf("%s: %d state bytes a sequence, want %d", row["file"], got, state)
	}
	// The column names layer groups: "2048; 8192" with "A x5; B x25" beside it.
	kinds := strings.Split(row["attention_kind_x_layers"], ";")
	bytes := strings.Split(row["kv_bytes_per_token_per_layer_bf16 (same order)"], ";")
	want := map[int]int{}
	for i := range min(len(kinds), len(bytes)) {
		var n int
		if at := strings.LastIndex(kinds[i], " x"); at >= 0 {
			fmt.Sscanf(kinds[i][at+2:], "%d", &n)
		}
		b, err := strconv.Atoi(strings.TrimSpace(bytes[i]))
		if err != nil {
			return
		}
		if strings.Contains(kinds[i], "index") && !strings.Contains(kinds[i], "/4") {
			continue // an extra key on layers counted before
		}
		want[b] += n
	}
	if len(kinds) > 1 && strings.Contains(row["attention_kind_x_layers"], "index") && !strings.Contains(row["attention_kind_x_layers"], "/4") {
		return
	}
	got := map[int]int{}
	for i := range s.Layers() {
		got[int(s.Layer(i).LayerKVBytesPerToken("bf16"))]++
	}
	for b, n := range want {
		if got[b] != n {
			t.Errorf("%s: %d layers with %d cache bytes a token, want %d (got %v)", row["file"], got[b], b, n, got)
		}
	}
}
