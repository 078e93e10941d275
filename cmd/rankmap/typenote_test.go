package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
)

// A type that the GPU does not multiply is said, and only then.
func TestTypesThatAGPUDoesNotMultiplyAreSaid(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"--cluster hgx-a100 --model llama-3.1-8b --task decode --weights fp8", "a100_sxm has no tensor cores for fp8: such weights are unpacked"},
		{"--cluster hgx-a100 --model llama-3.1-8b --task train --weights fp8", "refuse the type there"},
		{"--cluster hgx-h100:2 --model deepseek-v3 --task decode", ""},
		{"--cluster hgx-h100 --model llama-3.1-8b --task decode --weights nvfp4", "h100_sxm has no tensor cores for nvfp4"},
		{"--cluster hgx-h100 --model llama-3.1-8b --task decode", ""},
		{"--cluster dgx1-v100 --model llama-3.1-8b --task decode", "v100_sxm2 has no bf16"},
		{"--cluster hgx-b200 --model gpt-oss-120b --task decode", ""},
	} {
		d := osDeps()
		var out, talk bytes.Buffer
		d.Stdout, d.Stderr = &out, &talk
		args := append([]string{"plan", "--batch", "64", "--explain=false"}, strings.Fields(c.args)...)
		if code := run(context.Background(), d, args); code != exitOK {
			t.Fatalf("%s: exit %d, %s", c.args, code, talk.String())
		}
		said := strings.Contains(out.String(), "has no tensor cores") || strings.Contains(out.String(), "has no bf16")
		if said != (c.want != "") || !strings.Contains(out.String(), c.want) {
			t.Errorf("%s: want %q in %s", c.args, c.want, out.String()[max(0, out.Len()-900):])
		}
	}
}
