package accuracy

import (
	"errors"
	"fmt"

	"rankmap/collective"
	"rankmap/internal/measured"
	"rankmap/internal/units"
)

// SharedFrom is the size from which collectives that run beside others are judged: below it, the tables timed the host.
const SharedFrom = units.Bytes(16 << 20)

var errBesideGEMM = errors.New("no model: a collective beside a GEMM on the same GPUs (SM sharing)")

// beside predicts a collective that ran with its channels forced, or while another collective kept the same GPUs busy. The
// class is named after both: "all_reduce beside all_to_all". Neither baseline knows of it: they stand for the collective alone.
func (c *Confronter) beside(out *Case) error {
	r, b := out.Row, out.Row.Beside
	if b.GEMMRows > 0 {
		return errBesideGEMM
	}
	m, err := machineOf(r)
	if err != nil {
		return err
	}
	p := c.place(m)
	if p.err != nil {
		return p.err
	}
	first := collective.Request{Op: r.Op, Bytes: r.Bytes, DType: r.DType, Launch: launchOf(r), Members: p.members, Library: r.Version, Channels: b.Channels}
	requests := []collective.Request{first}
	if b.Bytes > 0 {
		second := first
		second.Op, second.Bytes = b.Op, b.Bytes
		requests = append(requests, second)
	}
	e, err := p.model.PriceConcurrent(requests)
	if err != nil {
		return err
	}
	out.take(e[0])
	if b.Bytes > 0 {
		out.Collective += fmt.Sprintf(" beside %v", b.Op)
	}
	if b.Channels > 0 {
		out.Collective += ", channels forced"
	}
	if book, err := p.textbook.Price(first); err == nil {
		out.Textbook = book.Time
	}
	return nil
}

// Shared keeps the cases of two collectives at once that are judged.
func Shared(cases []Case) []Case {
	var out []Case
	for _, c := range cases {
		if c.Row != nil && c.Row.Kind == measured.Contention && c.Row.Beside.Bytes > 0 && c.Row.Bytes >= SharedFrom {
			out = append(out, c)
		}
	}
	return out
}
