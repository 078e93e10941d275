package rendezvous

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"regexp"
)

// protocol is the version of the wire format; it is part of every MAC.
const protocol = "rankmap-rendezvous-1"

// MinToken is the shortest accepted token in bytes.
const MinToken = 16

// NewToken makes a random token of 32 bytes.
func NewToken() []byte {
	b := make([]byte, 32)
	rand.Read(b) // never fails since Go 1.24
	return b
}

var jobForm = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// CheckJob refuses job ids that could not be printed or used in a file name.
func CheckJob(id string) error {
	if !jobForm.MatchString(id) {
		return fmt.Errorf("job id %q: want 1 to 64 letters, digits, '.', '_' or '-'", id)
	}
	return nil
}

// hello opens a handshake. The rank asks, with a nonce.
type hello struct {
	Job   string `json:"job"`
	Rank  int    `json:"rank"`
	World int    `json:"world"`
	Nonce []byte `json:"nonce"`
}

// challenge is the coordinator's nonce: all that a stranger ever learns.
type challenge struct {
	Nonce []byte `json:"nonce"`
}

// proof is a MAC. The rank's comes first; the coordinator answers with its own only after it has checked the rank's.
type proof struct {
	MAC    []byte `json:"mac"`
	Refuse string `json:"refuse,omitempty"` // to a rank that proved the token but may not join
}

const nonceLen = 32

func newNonce() []byte {
	b := make([]byte, nonceLen)
	rand.Read(b)
	return b
}

// mac binds the role, the whole hello and both nonces to the token. Every field has a fixed length or a length before it, so
// that no two inputs look alike.
func mac(token []byte, role string, h hello, server []byte) []byte {
	m := hmac.New(sha256.New, token)
	for _, f := range [][]byte{[]byte(protocol), []byte(role), []byte(h.Job), h.Nonce, server} {
		m.Write(binary.BigEndian.AppendUint32(nil, uint32(len(f))))
		m.Write(f)
	}
	m.Write(binary.BigEndian.AppendUint64(nil, uint64(h.Rank)))
	m.Write(binary.BigEndian.AppendUint64(nil, uint64(h.World)))
	return m.Sum(nil)
}
