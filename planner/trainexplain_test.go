package planner

import (
	"strings"
	"testing"

	"rankmap/internal/units"
	"rankmap/model"
)

// A step that may not fit after all says so; one with room, or of a GPU of unknown size, does not.
func TestTightMemoryIsSaid(t *testing.T) {
	for _, c := range []struct {
		capacity, need units.Bytes
		said           bool
	}{{100e9, 99.9e9, true}, {100e9, 94e9, true}, {100e9, 93e9, false}, {100e9, 40e9, false}, {0, 40e9, false}} {
		s := &search{}
		s.Capacity = c.capacity
		got := strings.Join(s.tight(&Outcome{Memory: model.Memory{Weights: c.need / 2, Activations: c.need - c.need/2}}), "")
		if (got != "") != c.said {
			t.Errorf("%v of %v: %q", c.need, c.capacity, got)
		}
	}
	s := &search{}
	s.Capacity = 100e9
	if got := s.tight(&Outcome{Memory: model.Memory{Weights: 99.9e9}})[0]; !strings.HasPrefix(got, "memory is 99.9 % full") {
		t.Error(got)
	}
}
