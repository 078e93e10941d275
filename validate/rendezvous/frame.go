package rendezvous

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Limits on the wire.
const (
	MaxFrame     = 64 << 10 // bytes of one message after the handshake
	maxHandshake = 4 << 10  // bytes of one message during the handshake
)

// ErrFrame is a frame that breaks the rules: too long, or not the JSON that was expected.
var ErrFrame = errors.New("malformed frame")

// writeFrame writes v as JSON behind its length, four bytes, big-endian, in one write.
func writeFrame(w io.Writer, v any, limit int) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(body) > limit {
		return fmt.Errorf("%w: message of %d bytes, at most %d", ErrFrame, len(body), limit)
	}
	buf := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(body)), uint32(len(body)))
	_, err = w.Write(append(buf, body...))
	return err
}

// readFrame reads one frame into v. A longer one than limit is refused before any memory is taken for it.
func readFrame(r io.Reader, v any, limit int) error {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n == 0 || n > uint32(limit) {
		return fmt.Errorf("%w: length %d, want 1 to %d", ErrFrame, n, limit)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return err
	}
	return Decode(body, v)
}

// Decode reads one JSON value into v and refuses unknown fields and trailing data.
func Decode(body []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("%w: %v", ErrFrame, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("%w: data after the message", ErrFrame)
	}
	return nil
}
