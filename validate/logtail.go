package validate

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"rankmap/internal/measured"
	"rankmap/validate/nccl"
)

// maxLogRead bounds what is read of NCCL's log at a time.
const maxLogRead = 4 << 20

// logTail reads NCCL's log file of this rank as it grows.
type logTail struct {
	dir  string
	rank int
	path string
	at   int64

	used  netUse
	names map[int]string // of network devices
}

// logName is the file of a rank; the parent sets NCCL_DEBUG_FILE to it.
func logName(dir string, rank int) string {
	return filepath.Join(dir, fmt.Sprintf("nccl.%d.log", rank))
}

func openLog(dir string, rank int) *logTail {
	if dir == "" {
		return nil
	}
	return &logTail{dir: dir, rank: rank, path: logName(dir, rank), names: map[int]string{}}
}

// read returns what was added since the last call.
func (l *logTail) read() []byte {
	if l == nil {
		return nil
	}
	f, err := os.Open(l.path)
	if err != nil {
		return nil
	}
	defer f.Close()
	if _, err := f.Seek(l.at, io.SeekStart); err != nil {
		return nil
	}
	b, _ := io.ReadAll(io.LimitReader(f, maxLogRead))
	l.at += int64(len(b))
	l.used.readNetUse(b, l.names)
	return b
}

// skip reads past what is there; only how other nodes are reached is kept of it.
func (l *logTail) skip() {
	for len(l.read()) == maxLogRead {
	}
}

// net returns how this rank reaches other nodes, nil when the log does not say.
func (l *logTail) net() *netUse {
	if l == nil {
		return nil
	}
	l.skip()
	if len(l.used.Transports) == 0 {
		return nil
	}
	return &l.used
}

// choice reads what NCCL said since skip about the call that just ran; nil when it said nothing, as on all members of a
// communicator but its first.
func (l *logTail) choice() *measured.Choice {
	c := parseChoice(l.read())
	if c == (measured.Choice{}) {
		return nil
	}
	return &c
}

// quiet stops NCCL from writing a line for each call, which would slow eager ones. It reports whether the log is off.
func (l *logTail) quiet(lib *nccl.NCCL) bool {
	if l == nil {
		return true
	}
	return lib.SetLog("WARN", "ALL", filepath.Join(l.dir, fmt.Sprintf("nccl.%d.warn.log", l.rank)))
}
