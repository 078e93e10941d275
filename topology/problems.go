package topology

import (
	"errors"
	"fmt"
)

// maxProblems caps how many problems one error lists.
const maxProblems = 20

// place says what a problem is about, so that a reader can add the line; -1 stands for none.
type place struct{ class, node, link int }

var nowhere = place{-1, -1, -1}

type problem struct {
	at  place
	err error
}

// problems collects everything that is wrong, in the order found, which follows the order of the input.
type problems struct {
	at   place
	list []problem
	more int
}

func newProblems() *problems { return &problems{at: nowhere} }

func (p *problems) add(format string, args ...any) {
	if len(p.list) == maxProblems {
		p.more++
		return
	}
	p.list = append(p.list, problem{p.at, fmt.Errorf(format, args...)})
}

// err joins the problems; where says what to put before each, "" for nothing.
func (p *problems) err(where func(place) string) error {
	var errs []error
	for _, e := range p.list {
		if where == nil || where(e.at) == "" {
			errs = append(errs, e.err)
			continue
		}
		errs = append(errs, fmt.Errorf("%s: %w", where(e.at), e.err))
	}
	if p.more > 0 {
		errs = append(errs, fmt.Errorf("and %d more problems", p.more))
	}
	return errors.Join(errs...)
}
