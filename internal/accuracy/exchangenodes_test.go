package accuracy

import (
	"testing"

	"rankmap/internal/measured"
	"rankmap/internal/testdata"
)

// DeepEP over 2, 4 and 8 nodes, predicted from the other two node counts.
func TestExchangeOverNodesLeftOut(t *testing.T) {
	if testing.Short() {
		t.Skip("fits kernels several times")
	}
	files := readAll(t, testdata.Dir(t, "measured", "public")+"/deepep.csv")
	h := NewHeldOut(confronter(t, Options{}), files...)
	cases := h.ExchangeLeftOut("deepep", true, func(r *measured.Row) int { return r.Nodes })
	for _, k := range Classes(cases, func(c *Case) Key { return Key{System: c.System, Collective: c.Collective, Nodes: c.Nodes} }) {
		s := Score(k.Cases, Ours)
		t.Logf("%s %s %d nodes: %d rows, %.1f / %.1f, bias %.1f, inside %.0f %%", k.System, k.Collective, k.Nodes, s.N, s.MedianAPE, s.P90APE, s.Bias, s.Coverage)
	}
	if s := Score(cases, Ours); s.N < 400 || s.MedianAPE > 20 {
		t.Errorf("%+v", s)
	}
	in := Score(confronter(t, Options{}).Rows(files...).Cases, Ours)
	t.Logf("all rows, fitted: %.1f / %.1f", in.MedianAPE, in.P90APE)
}

// Another site's DeepEP, which no fit saw: decode batches on one to eight nodes of H100.
func TestExchangeOfAnotherSite(t *testing.T) {
	var cases []Case
	for _, x := range confronter(t, Options{}).Rows(readAll(t, testdata.Dir(t, "measured", "public")+"/published_tables.csv")...).Cases {
		if x.Row != nil && x.Row.Kind == measured.Exchange && x.System == "h100_sxm" {
			cases = append(cases, x)
		}
	}
	s := Score(cases, Ours)
	t.Logf("%d rows, %.1f / %.1f, bias %.1f", s.N, s.MedianAPE, s.P90APE, s.Bias)
	if s.N < 8 || s.MedianAPE > 20 {
		t.Errorf("%+v", s)
	}
}
