package measured

import (
	"bytes"
	"fmt"
	"io"
	"strings"
)

// maxInput bounds a table of measurements.
const maxInput = 256 << 20

// File is one file, read.
type File struct {
	Name    string
	Format  string    // "collectives.csv", "nccl-tests text", ...
	Rows    []Row     // collectives and expert-parallel exchanges
	Ops     []OpRow   // computations on one GPU
	Steps   []StepRow // stacks of layers
	Placed  []Placement
	Serving []ServingPoint
	Trained []TrainingStep
	Skipped []Skip
}

// format is one kind of file: how to know it, how to read it.
type format struct {
	name  string
	known func(data []byte) bool
	read  func(r io.Reader, f *File) error
}

// rows makes a reader of collectives fill a File.
func rows(read func(r io.Reader, name string) ([]Row, []Skip, error)) func(io.Reader, *File) error {
	return func(r io.Reader, f *File) (err error) {
		f.Rows, f.Skipped, err = read(r, f.Name)
		return err
	}
}

func readOpTable(r io.Reader, f *File) (err error) {
	f.Ops, err = Ops(r, f.Name, "")
	return err
}

func readStepTable(r io.Reader, f *File) (err error) {
	f.Steps, err = Steps(r, f.Name)
	return err
}

func readPlacementTable(r io.Reader, f *File) (err error) {
	f.Placed, err = ReadPlacements(r, f.Name)
	return err
}

func readServingTable(r io.Reader, f *File) (err error) {
	f.Serving, err = ReadServingPoints(r, f.Name)
	return err
}

func readTrainingTable(r io.Reader, f *File) (err error) {
	f.Trained, err = ReadTrainingSteps(r, f.Name)
	return err
}

// formats in the order they are tried: exact headers first, then what has to be guessed from content.
var formats = []format{
	{"collectives.csv", header("system", "library", "kernel", "collective", "bytes", "time_us"), rows(ReadCollectives)},
	{"published_tables.csv", header("gpu", "intra_link", "inter_link", "collective", "time_us", "healthy"), rows(ReadPublished)},
	{"deepep.csv", header("system", "mode", "tokens_per_rank", "dispatch_us", "combine_us"), rows(ReadDeepEP)},
	{"nvl_alltoall.csv", header("system", "kernel", "op", "tokens", "ep_size", "time_us"), rows(ReadNVLinkAllToAll)},
	{"contention.csv", header("channels", "case", "first_us", "second_us"), rows(ReadContention)},
	{"gemm.csv", header("gemm_dtype", "m", "n", "k", "time_us"), readOpTable},
	{"attention table", header("attn_dtype", "num_key_value_heads", "time_us"), readOpTable},
	{"moe.csv", header("moe_dtype", "num_experts", "time_us"), readOpTable},
	{"MLA table", header("mla_dtype", "num_heads", "time_us"), readOpTable},
	{"compute.csv", header("kind", "name", "m", "k", "n", "time_us"), readOpTable},
	{"step.csv", header("model", "tp", "phase", "case", "comm", "layers", "time_us"), readStepTable},
	{"placements", header(placementColumns...), readPlacementTable},
	{"serving points", header(servingColumns...), readServingTable},
	{"training steps", header(trainingColumns...), readTrainingTable},
	{"validation report", isReport, rows(ReadReport)},
	{"nccl-tests JSON", isNCCLTestsJSON, rows(ReadNCCLTestsJSON)},
	{"nccl-tests text", isNCCLTestsText, rows(ReadNCCLTests)},
	{"sweep.csv", isSweep, rows(ReadSweep)},
}

// Formats lists the names of the known formats.
func Formats() []string {
	names := make([]string, len(formats))
	for i, f := range formats {
		names[i] = f.name
	}
	return names
}

// Read reads a file of any known format. It tells the format by the header or the content, never by the name; the name
// is used in messages and to learn the collective of an old nccl-tests table that does not state it.
func Read(r io.Reader, name string) (File, error) {
	data, err := readAll(r, name)
	if err != nil {
		return File{Name: name}, err
	}
	for _, f := range formats {
		if f.known(data) {
			file := File{Name: name, Format: f.name}
			err := f.read(bytes.NewReader(data), &file)
			return file, err
		}
	}
	return File{Name: name}, fmt.Errorf("%s: not a table of measurements that rankmap knows (known: %s)", name, strings.Join(Formats(), ", "))
}

func readAll(r io.Reader, name string) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxInput+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(data) > maxInput {
		return nil, fmt.Errorf("%s: larger than %d MiB", name, maxInput>>20)
	}
	return data, nil
}

// header recognises a CSV file by columns of its first line.
func header(cols ...string) func([]byte) bool {
	return func(data []byte) bool {
		line, _, _ := bytes.Cut(bytes.TrimPrefix(data, []byte("\ufeff")), []byte("\n"))
		if len(line) > 4096 {
			return false
		}
		have := map[string]bool{}
		for _, c := range strings.Split(string(line), ",") {
			have[strings.Trim(strings.TrimSpace(c), `"`)] = true
		}
		for _, c := range cols {
			if !have[c] {
				return false
			}
		}
		return true
	}
}
