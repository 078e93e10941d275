package validate

import (
	"fmt"

	"rankmap/internal/measured"
	"rankmap/internal/units"
)

// verdictWords are the words of the table.
var verdictWords = map[string]string{
	measured.VerdictPass: "OK", measured.VerdictSlow: "SLOW", measured.VerdictFast: "FAST",
	measured.VerdictUnstable: "UNSTABLE", measured.VerdictFail: "WRONG DATA", measured.VerdictSkipped: "SKIPPED",
}

// severityOrder ranks verdicts, worst first.
var severityOrder = []string{
	measured.VerdictFail, measured.VerdictSlow, measured.VerdictUnstable, measured.VerdictSkipped,
	measured.VerdictFast, measured.VerdictPass,
}

// judge compares a measurement with its prediction. What cannot be compared is skipped, never passed.
func judge(t measured.Times, p *Prediction, wrong int64) (verdict, why string) {
	switch {
	case wrong > 0:
		return measured.VerdictFail, fmt.Sprintf("%d wrong element(s)", wrong)
	case t.Repeats == 0:
		return measured.VerdictSkipped, "not measured"
	case t.Spread > 100*unstableSpread:
		return measured.VerdictUnstable, fmt.Sprintf("p10 %s, p90 %s", us(t.P10Us), us(t.P90Us))
	case p == nil || !(p.Us > 0):
		return measured.VerdictSkipped, "measured, but there is no prediction to compare with"
	case !(p.P10Us <= p.Us && p.Us <= p.P90Us):
		return measured.VerdictSkipped, "measured, but the prediction has no interval"
	case t.MedianUs > p.P90Us:
		return measured.VerdictSlow, fmt.Sprintf("%s against at most %s", us(t.MedianUs), us(p.P90Us))
	case t.MedianUs < p.P10Us:
		return measured.VerdictFast, fmt.Sprintf("%s against at least %s", us(t.MedianUs), us(p.P10Us))
	}
	return measured.VerdictPass, ""
}

func us(v float64) string { return units.Micros(v).String() }

// worst returns the worst verdict of the rows.
func worst(rows []measured.ReportGroup) string {
	for _, v := range severityOrder {
		for _, r := range rows {
			if r.Verdict == v {
				return v
			}
		}
	}
	return measured.VerdictSkipped
}
