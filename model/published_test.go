package model

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// extra is what a published total holds beside the main network; each miss of more than 0.1 % must come out to 0.01 %.
func extra(s *Spec, agreement, file string) (n int64, why string) {
	p := s.Params()
	copies := int64(2) * int64(s.Vocab) * int64(s.Hidden)
	switch {
	case s.Vision > 0:
		n, why = s.Vision, "vision tower and projector"
	case strings.Contains(agreement, "duplicate"):
		n, why = p.MTP+copies, "multi-token-prediction layer with its own embedding and head"
		if strings.Contains(agreement, "scales") {
			n, why = n+s.ScaleCount(), why+", fp8 scales"
		}
	case strings.Contains(agreement, "with MTP"):
		n, why = p.MTP, "multi-token-prediction layer"
	case p.MTP > 0 && s.Quant != "" && s.MoE():
		n, why = p.MTP+s.ScaleCount(), "multi-token-prediction layer, fp8 scales"
	case strings.HasPrefix(agreement, "published") && s.Quant != "" && !s.Multimodal:
		n, why = s.ScaleCount(), "fp8 scales"
	case strings.HasPrefix(file, "tiiuae--falcon-180B"):
		n, why = copies/2, "the tied head stored apart"
	}
	return n, why
}

// outsideTheTextNetwork are published totals that hold what a configuration of the text network does not describe.
var outsideTheTextNetwork = map[string]string{
	"meta-llama--Llama-4-Scout-17B-16E-Instruct.json": "this copy has no vision_config: the tower's 872 million are missing",
	"isim--glm-5.2-fp8.json":                          "this copy lacks indexer_types, so all 78 layers and the multi-token-prediction layer count an indexer; the checkpoint has 21",
}

func TestPublishedTotals(t *testing.T) {
	dir, rows := readIndex(t)
	checked := 0
	for _, row := range rows {
		want, ok := row.int("published_total")
		if !ok {
			continue
		}
		s, err := load(t, dir, row["file"])
		if err != nil {
			t.Error(err)
			continue
		}
		checked++
		n, why := extra(s, row["agreement"], row["file"])
		got := s.Params().Total + n
		rel := math.Abs(float64(got-want)) / float64(want)
		if reason, ok := outsideTheTextNetwork[row["file"]]; ok {
			t.Logf("%s: %+.3f%%: %s", row["file"], 100*float64(got-want)/float64(want), reason)
			continue
		}
		if rel > 1e-4 {
			t.Errorf("%s: %d with %s, published %d (%+.4f%%)", row["file"], got, why, want, 100*float64(got-want)/float64(want))
		}
	}
	t.Logf("%d published totals", checked)
}

// Totals of weight files whose text networks are in the collection, for the towers alone.
func TestVisionTowers(t *testing.T) {
	dir, _ := readIndex(t)
	for _, c := range []struct {
		file string
		want int64
	}{
		{"google--gemma-3-27b-it.json", 27432406640 - 27009346304},
		{"isim--llama-4-scout-17b-16e-instruct-fp8-dynamic.json", 108641793536 - 107769861120},
		{"Qwen--Qwen2.5-VL-7B-Instruct.onnxdiag-copy.json", 8292166656 - 7615616512},
		{"Qwen--Qwen3-VL-8B-Instruct.json", 8767123696 - 8190735360},
		{"llava-hf--llava-1.5-7b-hf.json", 7063427072 - 6738939904},
	} {
		s, err := load(t, dir, c.file)
		if err != nil {
			t.Error(err)
		} else if s.Vision != c.want {
			t.Errorf("%s: %d, want %d", c.file, s.Vision, c.want)
		}
	}
}

var published = regexp.MustCompile(`([0-9.]+)B`)

func TestPublishedActive(t *testing.T) {
	dir, rows := readIndex(t)
	near, rounded := 0, 0
	for _, row := range rows {
		matches := published.FindAllStringSubmatch(row["published_active"], -1)
		if len(matches) == 0 {
			continue
		}
		s, err := load(t, dir, row["file"])
		if err != nil {
			t.Error(err)
			continue
		}
		p := s.Params()
		with, without := float64(p.Active)/1e9, float64(p.ActiveBody)/1e9
		// Neither embedding nor head is what Qwen's and others' cards call non-embedding parameters.
		bare := without - float64(p.ByPart[PartHead])/1e9
		if s.Tied {
			bare = without - float64(s.Vocab)*float64(s.Hidden)/1e9
		}
		exact, digits := false, false
		for _, m := range matches {
			v, err := strconv.ParseFloat(m[1], 64)
			if err != nil {
				t.Fatal(err)
			}
			step := 1.0
			if i := strings.IndexByte(m[1], '.'); i >= 0 {
				step = math.Pow(10, -float64(len(m[1])-i-1))
			}
			for _, got := range []float64{with, without, bare} {
				exact = exact || math.Abs(got-v) <= 0.005*v
				digits = digits || math.Abs(got-v) <= step/2 || math.Floor(got/step+1e-9) == math.Round(v/step)
			}
		}
		switch {
		case exact:
			near++
		case digits:
			rounded++
		default:
			t.Errorf("%s: active %.3f, %.3f without input embedding, %.3f without head too; published %s", row["file"], with, without, bare, row["published_active"])
		}
	}
	t.Logf("published active: %d within 0.5 %%, %d to the printed digits of a rounded figure", near, rounded)
}
