package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"
)

// Ctrl-C in the middle of a plan prints the best so far, marked as such, and exits with 130.
func TestInterruptedPlanPrintsTheBestSoFar(t *testing.T) {
	var out, talk bytes.Buffer
	d := osDeps()
	d.Stdout, d.Stderr, d.Terminal, d.TalkTerminal = &out, &talk, false, false
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	time.AfterFunc(150*time.Millisecond, cancel)
	code := run(ctx, d, strings.Fields("plan --cluster hgx-h100:2048 --model deepseek-v3 -o table"))
	switch {
	case code == exitOK:
		t.Skip("the whole search took less than 150 ms")
	case code != exitInterrupted:
		t.Fatalf("exit %d: %s", code, talk.String())
	case out.Len() == 0:
		t.Skip("nothing was found within 150 ms")
	}
	if !strings.Contains(out.String(), "the best plan so far") || !strings.Contains(talk.String(), "best plan so far") {
		t.Errorf("the plan is not marked as unfinished:\n%.2000s\n%s", out.String(), talk.String())
	}
}

func TestProgressIsOneLineOnATerminal(t *testing.T) {
	var talk bytes.Buffer
	p := &progress{d: &deps{Stderr: &talk}, start: time.Now()}
	if p.step(1, 10); talk.Len() > 0 {
		t.Errorf("%q within the first second", talk.String())
	}
	p.start = p.start.Add(-2 * time.Second)
	p.step(2, 10)
	p.step(3, 10) // too soon after the last
	if got := talk.String(); strings.Count(got, "\r") != 1 || !strings.Contains(got, "strategy 2 of 10") || strings.Contains(got, "\n") {
		t.Errorf("%q, want one line over itself", got)
	}
	p.clear()
	if got := talk.String(); !strings.HasSuffix(got, "\r") {
		t.Errorf("%q: the line is left behind", got)
	}
	in := &planInputs{}
	in.showProgress(&deps{Stderr: &talk})()
	if in.request.Progress != nil {
		t.Error("progress without a terminal")
	}
}
