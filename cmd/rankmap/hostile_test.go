package main

import (
	"bytes"
	"context"
	"flag"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

var hostile = flag.Int("hostile", 15, "damaged documents of each kind that are given to commands")

// Whatever a document holds, a command answers or refuses: it neither crashes nor ends as if rankmap were at fault. Documents
// are damaged line by line, as people and scripts damage them: most stay readable, so that what is behind the readers is met
// as well. (Whole commands are too slow for the fuzzer's own loop; the readers have targets of their own.)
func TestCommandsOnDamagedDocuments(t *testing.T) {
	train := made(t, "plan --cluster hgx-h100 --model llama-3.1-8b --task train --fix pp=2 --explain=false -o yaml")
	decode := made(t, "plan --cluster hgx-h100 --model mixtral-8x7b --task decode --batch 16 --fix tp=2 --explain=false -o yaml")
	onLayout := []string{"what-if FILE -o table", "what-if FILE --drop node0.gpu1", "what-if FILE --set nic.rate=100G", "plan --keep FILE --exclude node0/1 --explain=false -o table", "validate FILE --dry-run"}
	onModel := []string{"plan --cluster hgx-h200:2 --model FILE --task decode --batch 64 --explain=false -o table", "plan --cluster hgx-h200:2 --model FILE --task train --explain=false -o wide", "model FILE --strategy tp=4,ep=4 -o table"}
	for _, c := range []struct {
		name  string
		data  []byte
		lines []string
	}{
		{"train.yaml", train, onLayout},
		{"decode.yaml", decode, onLayout},
		{"cluster.yaml", made(t, "discover --from hgx-h100:2 -o yaml"), []string{"plan --cluster FILE --model llama-3.1-8b --task decode --batch 8 -o table", "what-if --ladder --cluster FILE", "discover --from FILE -o table"}},
		{"moe.json", config(t, "mixtral-8x7b"), onModel},
		{"mla.json", config(t, "deepseek-v3"), onModel},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			for range *hostile {
				try(t, c.name, damaged(r, c.data), c.lines[r.IntN(len(c.lines))])
			}
		})
	}
	// A short last stage that is longer than the network: the plan that is kept is none.
	long := regexp.MustCompile(`(?m)^  lastStage: .*\n`).ReplaceAll(train, nil)
	long = regexp.MustCompile(`(?m)^  pp: 2$`).ReplaceAll(long, []byte("  pp: 2\n  lastStage: 4096"))
	for _, l := range onLayout {
		try(t, "long.yaml", long, l)
	}
}

// try runs a command line in which FILE stands for a file with data.
func try(t *testing.T, name string, data []byte, line string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if p := recover(); p != nil {
			t.Fatalf("%s: %v\n%s", line, p, data)
		}
	}()
	d := osDeps()
	var talk bytes.Buffer
	d.Stdout, d.Stderr = io.Discard, &talk
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if code := run(ctx, d, strings.Fields(strings.ReplaceAll(line, "FILE", file))); code == exitBug {
		t.Errorf("%s: exit %d: %s\n%s", line, code, talk.String(), data)
	}
}

// made is what a command writes.
func made(t *testing.T, line string) []byte {
	t.Helper()
	d := osDeps()
	var out, talk bytes.Buffer
	d.Stdout, d.Stderr = &out, &talk
	if code := run(context.Background(), d, strings.Fields(line)); code != exitOK {
		t.Fatalf("%s: exit %d: %s", line, code, talk.String())
	}
	return out.Bytes()
}

func config(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile("../../configs/models/" + name + "/config.json")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

var number = regexp.MustCompile(`-?\d+(\.\d+)?`)

// odd are numbers that programs trip over.
var odd = []string{"0", "-1", "1", "2", "3", "7", "0.5", "4096", "1048576", "999999999999", "9223372036854775807", "1e308", "1e-300"}

// damaged changes one to three lines: drops, repeats, swaps them, or changes a number, a character or a word.
func damaged(r *rand.Rand, in []byte) []byte {
	lines := strings.Split(string(in), "\n")
	for range 1 + r.IntN(3) {
		i := r.IntN(len(lines))
		l := lines[i]
		switch r.IntN(8) {
		case 0:
			if len(lines) > 2 {
				lines = append(lines[:i:i], lines[i+1:]...)
			}
		case 1:
			lines = append(lines[:i+1:i+1], lines[i:]...)
		case 2:
			j := r.IntN(len(lines))
			lines[i], lines[j] = lines[j], l
		case 3:
			if len(l) > 0 {
				p := r.IntN(len(l))
				lines[i] = l[:p] + string(rune(' '+r.IntN(95))) + l[p+1:]
			}
		case 4:
			if w := strings.Fields(l); len(w) > 1 {
				lines[i] = strings.Replace(l, w[r.IntN(len(w))], w[r.IntN(len(w))], 1)
			}
		default:
			if m := number.FindAllStringIndex(l, -1); len(m) > 0 {
				p := m[r.IntN(len(m))]
				lines[i] = l[:p[0]] + odd[r.IntN(len(odd))] + l[p[1]:]
			}
		}
	}
	return []byte(strings.Join(lines, "\n"))
}
