package accuracy

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"

	"rankmap/internal/measured"
	"rankmap/internal/parallel"
	"rankmap/internal/units"
)

func TestCurveGoesThroughTheSizes(t *testing.T) {
	var rows []measured.Row
	for _, b := range []units.Bytes{8 << 10, 1 << 20, 64 << 20} {
		rows = append(rows, row("h100_sxm", parallel.AllReduce, 8, 1, b))
	}
	c, err := confronter(t, Options{}).Curve("all_reduce", rows)
	if err != nil {
		t.Fatal(err)
	}
	first, last := c.Line[0], c.Line[len(c.Line)-1]
	if first.Bytes != 8<<10 || last.Bytes != 64<<20 || len(c.Points) != 3 || len(c.Line) != 13*4+1 {
		t.Errorf("%v to %v in %d steps", first, last, len(c.Line))
	}
	for i := range c.Line {
		if c.Low[i].Time > c.Line[i].Time || c.High[i].Time < c.Line[i].Time {
			t.Errorf("%v: %v not between %v and %v", c.Line[i].Bytes, c.Line[i].Time, c.Low[i].Time, c.High[i].Time)
		}
	}
	if _, err := confronter(t, Options{}).Curve("none", nil); err == nil {
		t.Error("no rows: want an error")
	}
	if _, err := confronter(t, Options{}).Curve("one", rows[:1]); err != nil {
		t.Errorf("one size is a curve of one point: %v", err)
	}
}

func TestSVGIsWellFormedAndStable(t *testing.T) {
	curve, err := confronter(t, Options{}).Curve("a<b&c", []measured.Row{row("h100_sxm", parallel.AllReduce, 8, 1, 1024), row("h100_sxm", parallel.AllReduce, 8, 1, 1<<30)})
	if err != nil {
		t.Fatal(err)
	}
	svg := SVG(`"title" <x>`, []Curve{curve, curve})
	dec := xml.NewDecoder(bytes.NewReader(svg))
	for {
		if _, err := dec.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(svg, SVG(`"title" <x>`, []Curve{curve, curve})) {
		t.Error("the same input gives other bytes")
	}
	if n := strings.Count(string(svg), "<polyline"); n != 2 {
		t.Errorf("%d lines", n)
	}
	if m := regexp.MustCompile(`NaN|Inf`).Find(svg); m != nil {
		t.Errorf("%s in the picture", m)
	}
	if len(SVG("empty", nil)) == 0 {
		t.Error("an empty picture is a picture")
	}
}
