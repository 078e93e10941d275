package measured

import (
	"errors"
	"fmt"
)

// problemCap bounds how many errors one file reports.
const problemCap = 20

// problems collects the errors of one file in the order of its lines.
type problems struct {
	name string
	errs []error
	more int
}

// addf notes a problem at a line.
func (p *problems) addf(line int, format string, args ...any) {
	if len(p.errs) == problemCap {
		p.more++
		return
	}
	p.errs = append(p.errs, fmt.Errorf("%s:%d: %w", p.name, line, fmt.Errorf(format, args...)))
}

// err joins what was noted; nil when nothing was.
func (p *problems) err() error {
	if p.more > 0 {
		return errors.Join(append(p.errs, fmt.Errorf("%s: %d more problems", p.name, p.more))...)
	}
	return errors.Join(p.errs...)
}
