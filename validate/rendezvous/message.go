package rendezvous

import (
	"encoding/json"
	"fmt"
	"slices"
)

// Message is what a rank and the coordinator exchange after the handshake.
type Message struct {
	Type string          `json:"type"`
	Seq  int             `json:"seq,omitempty"`
	Body json.RawMessage `json:"body,omitempty"`
}

// The types of message. Heartbeats stay inside the package.
const (
	TypeFacts  = "facts"  // rank: what it found on its node
	TypeMakeID = "makeId" // coordinator to rank 0: make the communicator's id
	TypeID     = "id"     // both ways: the communicator's id
	TypeStep   = "step"   // coordinator: do this
	TypeResult = "result" // rank: done, or failed
	TypeNote   = "note"   // rank: where it is now
	TypeStop   = "stop"   // coordinator: leave, with the reason
	TypeBye    = "bye"    // coordinator: all done, exit 0

	typeBeat = "beat"
)

var types = []string{TypeFacts, TypeMakeID, TypeID, TypeStep, TypeResult, TypeNote, TypeStop, TypeBye, typeBeat}

// New builds a message with body as JSON.
func New(typ string, seq int, body any) (Message, error) {
	m := Message{Type: typ, Seq: seq}
	if body == nil {
		return m, nil
	}
	b, err := json.Marshal(body)
	m.Body = b
	return m, err
}

// Into decodes the body strictly.
func (m Message) Into(v any) error { return Decode(m.Body, v) }

func (m Message) check() error {
	if !slices.Contains(types, m.Type) {
		return fmt.Errorf("%w: unknown message type", ErrFrame)
	}
	return nil
}
