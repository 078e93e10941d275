package nvml

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"rankmap/internal/units"
)

// Recording is the answers of a library, by question: "name 3", "linkState 0 17".
type Recording map[string]Answer

// Answer is one answer or failure.
type Answer struct {
	Value json.RawMessage `json:"value,omitempty"`
	Error *Error          `json:"error,omitempty"`
}

// maxAnswers bounds a recording: 16 GPUs with 36 links ask some 4,000 questions.
const maxAnswers = 1 << 18

// Check refuses a recording that is too large.
func (r Recording) Check() error {
	if len(r) > maxAnswers {
		return fmt.Errorf("%d answers, want at most %d", len(r), maxAnswers)
	}
	return nil
}

// Record returns an API that answers as api does and notes every answer.
func Record(api API) (API, Recording) {
	rec := Recording{}
	return &tape{live: api, rec: rec}, rec
}

// Replay returns an API that answers from a recording. A question that was not asked then is not supported.
func Replay(rec Recording) API { return &tape{rec: rec} }

// tape records when it has a live library and replays when it has none.
type tape struct {
	live API
	rec  Recording
}

func play[T any](t *tape, question string, args []int, live func(API) (T, error)) (v T, err error) {
	key := question
	for _, a := range args {
		key += fmt.Sprintf(" %d", a)
	}
	if t.live != nil {
		v, err = live(t.live)
		t.note(key, v, err)
		return v, err
	}
	a, ok := t.rec[key]
	switch {
	case !ok:
		return v, &Error{Code: CodeNotSupported, Text: "not recorded"}
	case a.Error != nil:
		return v, a.Error
	}
	if err := json.Unmarshal(a.Value, &v); err != nil {
		var zero T
		return zero, &Error{Code: CodeUnknown, Text: "the recorded answer to " + key + " is damaged"}
	}
	return v, nil
}

func (t *tape) note(key string, v any, err error) {
	if err != nil {
		var e *Error
		if !errors.As(err, &e) {
			e = &Error{Code: CodeUnknown, Text: strings.ReplaceAll(err.Error(), "\n", " ")}
		}
		t.rec[key] = Answer{Error: e}
		return
	}
	if b, err := json.Marshal(v); err == nil {
		t.rec[key] = Answer{Value: b}
	}
}

func (t *tape) DriverVersion() (string, error)  { return play(t, "driver", nil, API.DriverVersion) }
func (t *tape) LibraryVersion() (string, error) { return play(t, "library", nil, API.LibraryVersion) }
func (t *tape) Count() (int, error)             { return play(t, "count", nil, API.Count) }

func (t *tape) Name(d int) (string, error) {
	return play(t, "name", []int{d}, func(a API) (string, error) { return a.Name(d) })
}

func (t *tape) UUID(d int) (string, error) {
	return play(t, "uuid", []int{d}, func(a API) (string, error) { return a.UUID(d) })
}

func (t *tape) PCI(d int) (string, error) {
	return play(t, "pci", []int{d}, func(a API) (string, error) { return a.PCI(d) })
}

func (t *tape) Memory(d int) (units.Bytes, error) {
	return play(t, "memory", []int{d}, func(a API) (units.Bytes, error) { return a.Memory(d) })
}

func (t *tape) Compute(d int) (Compute, error) {
	return play(t, "compute", []int{d}, func(a API) (Compute, error) { return a.Compute(d) })
}

func (t *tape) MIG(d int) (bool, error) {
	return play(t, "mig", []int{d}, func(a API) (bool, error) { return a.MIG(d) })
}

func (t *tape) PCIe(d int, what PCIeField) (int, error) {
	return play(t, "pcie "+string(what), []int{d}, func(a API) (int, error) { return a.PCIe(d, what) })
}

func (t *tape) NUMA(d int) (int, error) {
	return play(t, "numa", []int{d}, func(a API) (int, error) { return a.NUMA(d) })
}

func (t *tape) GPUNUMA(d int) (int, error) {
	return play(t, "gpuNuma", []int{d}, func(a API) (int, error) { return a.GPUNUMA(d) })
}

func (t *tape) CPUs(d int) (string, error) {
	return play(t, "cpus", []int{d}, func(a API) (string, error) { return a.CPUs(d) })
}

func (t *tape) Fabric(d int) (Fabric, error) {
	return play(t, "fabric", []int{d}, func(a API) (Fabric, error) { return a.Fabric(d) })
}

func (t *tape) LinkCount(d int) (int, error) {
	return play(t, "linkCount", []int{d}, func(a API) (int, error) { return a.LinkCount(d) })
}

func (t *tape) LinkState(d, l int) (bool, error) {
	return play(t, "linkState", []int{d, l}, func(a API) (bool, error) { return a.LinkState(d, l) })
}

func (t *tape) LinkVersion(d, l int) (int, error) {
	return play(t, "linkVersion", []int{d, l}, func(a API) (int, error) { return a.LinkVersion(d, l) })
}

func (t *tape) LinkRemotePCI(d, l int) (string, error) {
	return play(t, "linkRemotePCI", []int{d, l}, func(a API) (string, error) { return a.LinkRemotePCI(d, l) })
}

func (t *tape) LinkRemoteType(d, l int) (RemoteType, error) {
	return play(t, "linkRemoteType", []int{d, l}, func(a API) (RemoteType, error) { return a.LinkRemoteType(d, l) })
}

func (t *tape) LinkSpeed(d, l int) (units.Bandwidth, error) {
	return play(t, "linkSpeed", []int{d, l}, func(a API) (units.Bandwidth, error) { return a.LinkSpeed(d, l) })
}

func (t *tape) Ancestor(x, y int) (Ancestor, error) {
	return play(t, "ancestor", []int{x, y}, func(a API) (Ancestor, error) { return a.Ancestor(x, y) })
}

func (t *tape) P2P(x, y int, what P2PKind) (P2PStatus, error) {
	return play(t, "p2p "+string(what), []int{x, y}, func(a API) (P2PStatus, error) { return a.P2P(x, y, what) })
}

// Close closes the library, if there is one.
func (t *tape) Close() error {
	if t.live != nil {
		return t.live.Close()
	}
	return nil
}
