package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"

	"rankmap/report"
)

// output is where and how a command's result goes: -o FORMAT, -f FILE.
type output struct {
	format string
	file   string
	known  []string
	picked string // the format in force
}

// addFlags registers -o and -f. Formats lists the known ones.
func (o *output) addFlags(cmd *cobra.Command, formats ...string) {
	o.known = formats
	cmd.Flags().StringVarP(&o.format, "output", "o", "", "format: "+strings.Join(formats, ", ")+" (default: table on a terminal, else yaml)")
	cmd.Flags().StringVarP(&o.file, "file", "f", "", "write to a file instead of standard output; - is standard output")
}

// pick returns the format in force, or an error that lists the known ones.
func (o *output) pick(d *deps) (string, error) {
	format, err := o.choose(d)
	o.picked = format
	return format, err
}

func (o *output) choose(d *deps) (string, error) {
	switch {
	case o.format == "" && (d.Terminal && (o.file == "" || o.file == "-")):
		return "table", nil
	case o.format == "" && strings.HasSuffix(o.file, ".json") && slices.Contains(o.known, "json"):
		return "json", nil
	case o.format == "" && slices.Contains(o.known, "yaml"):
		return "yaml", nil
	case o.format == "":
		return o.known[0], nil
	case !slices.Contains(o.known, o.format):
		return "", inputErrf("unknown output format %q (known: %s)", o.format, strings.Join(o.known, ", "))
	}
	return o.format, nil
}

// write sends the finished result to the file or to standard output. inputs are files that were read: none of them is
// overwritten.
func (o *output) write(d *deps, data []byte, inputs ...string) error {
	if o.file == "" || o.file == "-" {
		if o.picked == "table" && d.Terminal {
			data = []byte(report.Fold(string(data), d.Width))
		}
		_, err := d.Stdout.Write(data)
		if isBrokenPipe(err) {
			return nil
		}
		return writeErr("standard output", err)
	}
	return writeFile(o.file, data, 0o644, inputs...)
}

// writeFile writes a whole file or nothing: a temporary file in the same folder, synced and renamed. A symbolic link
// and an input file are refused as targets. A device or a pipe, such as /dev/null, is written to and stays what it is.
func writeFile(name string, data []byte, mode fs.FileMode, inputs ...string) error {
	if st, err := os.Stat(name); err == nil && !st.Mode().IsRegular() && !st.IsDir() {
		return writeDevice(name, data)
	}
	st, err := os.Lstat(name)
	switch {
	case err == nil && st.Mode()&fs.ModeSymlink != 0:
		return inputErrf("%s: is a symbolic link, want a plain file", name)
	case err == nil && st.IsDir():
		return inputErrf("%s: is a folder, want a file", name)
	case err == nil:
		for _, in := range inputs {
			if is, e := os.Stat(in); e == nil && os.SameFile(st, is) {
				return inputErrf("%s: is also an input, choose another file", name)
			}
		}
	case !errors.Is(err, fs.ErrNotExist):
		return inputErr(err)
	}
	tmp, err := os.CreateTemp(filepath.Dir(name), ".rankmap-*")
	if err != nil {
		var at *fs.PathError // which names a file that the user did not ask for
		if errors.As(err, &at) {
			err = at.Err
		}
		return inputErrf("%s: cannot write here: %w", name, err)
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(data)
	err = errors.Join(err, tmp.Chmod(mode), tmp.Sync(), tmp.Close())
	if err != nil {
		return writeErr(name, err)
	}
	return writeErr(name, os.Rename(tmp.Name(), name))
}

// writeDevice writes to what is no plain file.
func writeDevice(name string, data []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return writeErr(name, err)
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); isBrokenPipe(err) {
		return nil
	}
	return writeErr(name, err)
}

// writeErr is a result that could not be written, a full disk for one: the place is at fault, neither input nor program.
func writeErr(name string, err error) error {
	if err == nil {
		return nil
	}
	var at *fs.PathError
	if errors.As(err, &at) { // which names a file that is gone
		err = at.Err
	}
	return withCode(exitEnvironment, fmt.Errorf("%s: cannot be written: %w", name, err))
}

// marshalYAML prints with two-space indents.
func marshalYAML(v any) ([]byte, error) {
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := errors.Join(e.Encode(v), e.Close()); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// marshalJSON prints indented JSON with a final newline and without HTML escapes.
func marshalJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
