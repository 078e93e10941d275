package main

import (
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/term"

	"rankmap/topology/source"
)

// deps is everything that a command takes from the outside world, so that tests can give their own.
type deps struct {
	Stdin    io.Reader
	Stdout   io.Writer // the result, nothing else
	Stderr   io.Writer // talk: warnings, progress, hints
	Configs  fs.FS     // hardware/, topologies/, models/, workloads/
	Open     func(name string) (io.ReadCloser, error)
	Getenv   func(string) string
	Terminal bool // Stdout is a terminal
	// TalkTerminal says that Stderr is a terminal: progress is shown.
	TalkTerminal bool
	Width        int          // columns of the terminal, 0 unknown
	Live         *source.Live // how discover reaches the machine; nil = this one
}

// warnf prints one line of talk.
func (d *deps) warnf(format string, args ...any) {
	fmt.Fprintf(d.Stderr, "rankmap: "+format+"\n", args...)
}

// openFile opens a regular file; "-" is standard input. A folder is an error that says so.
func openFile(name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(os.Stdin), nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && st.IsDir() {
		err = fmt.Errorf("%s: is a folder, want a file", name)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

func terminalWidth(f *os.File) int {
	w, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return w
}
