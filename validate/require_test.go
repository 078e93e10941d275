package validate

import (
	"strings"
	"testing"

	"rankmap/internal/measured"
)

func row() *measured.ReportGroup {
	return &measured.ReportGroup{
		Bytes: 1 << 20, Members: []int{0, 1}, BusGBps: 90, AlgGBps: 45, Times: measured.Times{Repeats: 5, MedianUs: 20, Spread: 3},
		Predicted: measured.Predicted{Us: 18, P10Us: 17, P90Us: 22, BusGBps: 100}, Verdict: measured.VerdictPass,
	}
}

func TestRequire(t *testing.T) {
	for text, want := range map[string]bool{
		"busbw>=0.85*expected": true, "busbw >= 95% * expected": false, "busbw>=.9*expected": true,
		"time<=expected_time*1.2 && spread<5": true, "time<19||bytes==1M": true, "!(busbw<50)": true,
		"bytes<4K || busbw>80": true, "(busbw+10)/expected == 1": true, "-time < 0 && ranks==2": true, "p10<time&&time<p90": true,
		"1+2*3==7": true, "(1+2)*3 != 9": false, "algbw > busbw": false, "8/4/2==1": true, "busbw > 1/0": false,
	} {
		r, err := ParseRequire(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		g := row()
		r.apply(g)
		if (g.Required == "pass") != want || (g.Verdict == measured.VerdictPass) != want || r.String() != text {
			t.Errorf("%s: %s %s", text, g.Required, g.Verdict)
		}
	}
}

func TestRequireRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"busbw": "no comparison", "busbw>=": "want a number", "busbw>=0.85*expectd": `"expectd" is neither`, "busbw>=1 1": `unexpected "1"`,
		"(busbw>1": "want )", "busbw>1)": `unexpected ")"`, "busbw && time": "wants comparisons", "1 < 2 < 3": "unexpected", "(1<2)+1 > 0": "wants numbers",
		"!busbw": "! wants", "busbw > 1e": "neither", "busbw>0x10": "neither", strings.Repeat("(", 500): "too deeply", strings.Repeat("-", 500) + "1<2": "too deeply",
		strings.Repeat("1", 2000): "at most", "-(1<2) < 3": "- wants", "busbw > K": "neither",
	} {
		if _, err := ParseRequire(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %v, want %q", text, err, want)
		}
	}
	if r, err := ParseRequire("  "); r != nil || err != nil {
		t.Error("an empty condition requires nothing")
	}
}

// What the condition cannot speak of is left as it is.
func TestRequireLeavesAlone(t *testing.T) {
	r, err := ParseRequire("busbw>=0.85*expected")
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*measured.ReportGroup){
		"wrong data":     func(g *measured.ReportGroup) { g.Verdict = measured.VerdictFail },
		"not measured":   func(g *measured.ReportGroup) { g.Times.Repeats = 0 },
		"no prediction":  func(g *measured.ReportGroup) { g.Predicted = measured.Predicted{} },
		"no requirement": nil,
	} {
		g := row()
		cond := r
		if change != nil {
			change(g)
		} else {
			cond = nil
		}
		before := g.Verdict
		if cond.apply(g); g.Required != "" || g.Verdict != before {
			t.Errorf("%s: %+v", name, g)
		}
	}
	g := row()
	g.Verdict = measured.VerdictUnstable
	if r.apply(g); g.Required != "unstable" || g.Verdict != measured.VerdictUnstable {
		t.Errorf("unstable: %+v", g)
	}
}

func FuzzParseRequire(f *testing.F) {
	for _, s := range []string{"busbw>=0.85*expected", "!(1<2)||time<=3&&-1<0", "((((", "1K<2M", "5%<1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseRequire(text)
		if err != nil || r == nil {
			return
		}
		g := row()
		r.apply(g)
		if g.Required == "" && strings.TrimSpace(text) != "" {
			t.Errorf("%q did not judge", text)
		}
	})
}
