package whatif

import (
	"strings"
	"testing"

	"rankmap/layout"
)

// What has no link is no communication, and no sentence ends in "over".
func TestOverheadHasNoLink(t *testing.T) {
	p := &layout.Predicted{StepMs: 10, Parts: []layout.Part{
		{Name: "mlp", Kind: "compute", Ms: 7, Share: 70, Bound: "memory"},
		{Name: "moe combine", Kind: "ep", Ms: 2, Share: 20, Bound: "NVLink 900 GB/s"},
		{Name: "engine overhead", Kind: "overhead", Ms: 0.5, Share: 5},
		{Name: "pipeline bubble", Kind: "bubble", Ms: 0.5, Share: 5},
	}}
	if got := binding(p); !strings.HasSuffix(got, "communication 20 %") {
		t.Errorf("%q", got)
	}
	c := Column{Predicted: p, Communication: communication(p)}
	if got := versus(&c, &Column{Predicted: p}); !strings.HasSuffix(got, "; ep 20 % over NVLink 900 GB/s, overhead 5 %, bubble 5 %") {
		t.Errorf("%q", got)
	}
	if got := linkChange(&c, &Column{}, "ep"); got != "" {
		t.Errorf("%q", got)
	}
}
