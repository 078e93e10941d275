package main

import (
	"fmt"
	"strings"
	"time"
)

// Progress is shown for work longer than progressAfter, at most once every progressEvery.
const (
	progressAfter = time.Second
	progressEvery = 100 * time.Millisecond
)

// showProgress draws one line on the talk stream while a search runs, on a terminal alone. The returned function takes the
// line away.
func (in *planInputs) showProgress(d *deps) (stop func()) {
	if !d.TalkTerminal {
		return func() {}
	}
	p := &progress{d: d, start: time.Now()}
	in.request.Progress = p.step
	return p.clear
}

// progress is a line that overwrites itself.
type progress struct {
	d           *deps
	start, last time.Time
	width       int
}

func (p *progress) step(done, all int) {
	now := time.Now()
	if now.Sub(p.start) < progressAfter || now.Sub(p.last) < progressEvery {
		return
	}
	p.last = now
	line := fmt.Sprintf("rankmap: strategy %d of %d, %.0f s (Ctrl-C prints the best so far)", done, all, now.Sub(p.start).Seconds())
	fmt.Fprintf(p.d.Stderr, "\r%s%s", line, strings.Repeat(" ", max(0, p.width-len(line))))
	p.width = max(p.width, len(line))
}

func (p *progress) clear() {
	if p.width > 0 {
		fmt.Fprintf(p.d.Stderr, "\r%s\r", strings.Repeat(" ", p.width))
	}
}
