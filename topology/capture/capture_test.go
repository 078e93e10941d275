package capture

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
)

func sample() *Capture {
	return &Capture{Host: "n1", Env: map[string]string{"CUDA_VISIBLE_DEVICES": "1,0"}, Notes: []string{"no nvidia-smi"},
		Files: map[string][]byte{"sysfs.txt": []byte("rankmap sysfs 1\n"), "nvml.json": []byte("{}")}}
}

func packed(t testing.TB, c *Capture) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, c); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestRoundTrip(t *testing.T) {
	data := packed(t, sample())
	if !bytes.Equal(data, packed(t, sample())) {
		t.Error("the same capture gives other bytes")
	}
	c, err := Read(bytes.NewReader(data), "x.tar.gz")
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(c, sample()) {
		t.Errorf("got %+v", c)
	}
	for _, name := range []string{"../x", "a/b", "", ".hidden", manifestName, strings.Repeat("x", 65), "a b"} {
		bad := sample()
		bad.Files[name] = nil
		if Write(io.Discard, bad) == nil {
			t.Errorf("a file %q was packed", name)
		}
	}
}

type entry struct {
	name string
	kind byte
	body string
	size int64
}

const goodManifest = `{"kind":"rankmap-capture","version":1,"host":"n","files":[]}`

func archive(entries ...entry) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	t := tar.NewWriter(z)
	for _, e := range entries {
		if e.kind == 0 {
			e.kind = tar.TypeReg
		}
		size := int64(len(e.body))
		if e.kind != tar.TypeReg {
			size = 0
		}
		t.WriteHeader(&tar.Header{Name: e.name, Typeflag: e.kind, Linkname: "/etc/passwd", Size: max(size, e.size), Mode: 0o600})
		io.WriteString(t, e.body)
		if e.size > 0 {
			zeros := make([]byte, 1<<20)
			for left := e.size - int64(len(e.body)); left > 0; left -= int64(len(zeros)) {
				t.Write(zeros[:min(left, int64(len(zeros)))])
			}
		}
	}
	t.Close()
	z.Close()
	return b.Bytes()
}

func TestHostileArchivesAreRefused(t *testing.T) {
	m := entry{name: manifestName, body: goodManifest}
	many := []entry{m}
	for i := range 70 {
		many = append(many, entry{name: fmt.Sprintf("f%d", i), body: "x"})
	}
	good := packed(t, sample())
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"up a folder":   {archive(m, entry{name: "../evil", body: "x"}), "no name of a capture's file"},
		"absolute":      {archive(m, entry{name: "/etc/cron.d/evil", body: "x"}), "no name of a capture's file"},
		"symbolic link": {archive(m, entry{name: "link", kind: tar.TypeSymlink}), "not a plain file"},
		"hard link":     {archive(m, entry{name: "link", kind: tar.TypeLink}), "not a plain file"},
		"device":        {archive(m, entry{name: "dev", kind: tar.TypeChar}), "not a plain file"},
		"folder":        {archive(m, entry{name: "dir", kind: tar.TypeDir}), "not a plain file"},
		"twice":         {archive(m, entry{name: "a", body: "1"}, entry{name: "a", body: "2"}), "in it twice"},
		"two manifests": {archive(m, m), "two manifests"},
		"too many":      {archive(many...), "more than 64 files"},
		"bomb":          {archive(m, entry{name: "zeros", size: maxUnpacked + 1}), "MiB unpacked"},
		"no manifest":   {archive(entry{name: "a", body: "x"}), "not a capture"},
		"unlisted file": {archive(m, entry{name: "a", body: "x"}), "does not list"},
		"missing file":  {archive(entry{name: manifestName, body: strings.Replace(goodManifest, "[]", `["b"]`, 1)}), "b is missing"},
		"other version": {archive(entry{name: manifestName, body: strings.Replace(goodManifest, ":1", ":2", 1)}), "version is 2"},
		"other kind":    {archive(entry{name: manifestName, body: strings.Replace(goodManifest, "rankmap-", "", 1)}), "kind is"},
		"unknown key":   {archive(entry{name: manifestName, body: `{"kind":"rankmap-capture","version":1,"host":"n","files":[],"run":"sh"}`}), "run"},
		"text":          {[]byte("hello"), "not a capture"},
		"cut":           {good[:len(good)-20], "damaged"},
		"empty":         {nil, "not a capture"},
		"compressed garbage": {func() []byte {
			var b bytes.Buffer
			z := gzip.NewWriter(&b)
			io.WriteString(z, strings.Repeat("x", 2000))
			z.Close()
			return b.Bytes()
		}(), "damaged"},
	} {
		_, err := Read(bytes.NewReader(c.data), "in.tar.gz")
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "in.tar.gz: ") {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
	}
}

func TestRedactorKeepsFormsAndVersions(t *testing.T) {
	r := NewRedactor([]byte("salt"), "Login-7.example.org", "gpu")
	for _, s := range []string{"0000:1a:00.0", "00000000:00:06.0", "28.39.1002", "580.159.04", "13.580.159.04", "00000000-0000-0000-0000-000000000000", "0000:0000:0000:0000",
		"400 Gb/sec (4X NDR)", "mlx5_0:2", "GPU0", "0-55,112-167", "login-77", "150754820096", "fffffff:ff:ff.0"} {
		if got := r.Text(s); got != s {
			t.Errorf("%q became %q", s, got)
		}
	}
	for s, form := range map[string]string{
		"GPU-5269b708-678a-b1a8-60f0-c90406537486":       "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx",
		"a088:c203:00aa:1000":                            "xxxx:xxxx:xxxx:xxxx",
		"0xa088c20300aa1000":                             "0xxxxxxxxxxxxxxxxx",
		"a0:88:c2:aa:10:00":                              "02:xx:xx:xx:xx:xx",
		"10.0.3.17":                                      "ip-xxxxxxxxxxxx",
		"fe80:0000:0000:0000:a288:c2ff:fe03:0001":        "ip-xxxxxxxxxxxx",
		"fe80::a288:c2ff:fe03:1":                         "ip-xxxxxxxxxxxx",
		"enxa088c2aa1000":                                "enxxxxxxxxxxxxx",
		"login-7":                                        "host-xxxxxxxxxx",
		"at LOGIN-7.example.org now":                     "at host-xxxxxxxxxx now",
		"MIG-GPU-5269b708-678a-b1a8-60f0-c90406537486/1": "MIG-GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx/1",
		"serial: 1652923001234":                          "serial: xxxxxxxxxxxx",
	} {
		got := r.Text(s)
		if got == s || len(got) != len(form) || got != r.Text(s) {
			t.Errorf("%q became %q, want the form %s, the same each time", s, got, form)
			continue
		}
		for i := range got {
			if form[i] != 'x' && form[i] != got[i] {
				t.Errorf("%q became %q, want the form %s", s, got, form)
				break
			}
		}
	}
	if a, b := r.Text("0xa088c20300aa1000"), r.Text("a088:c203:00aa:1000"); strings.ReplaceAll(b, ":", "") != strings.TrimPrefix(a, "0x") {
		t.Errorf("two writings of a GUID became %s and %s", a, b)
	}
	if r.Text("GPU-5269b708-678a-b1a8-60f0-c90406537486") == NewRedactor([]byte("other")).Text("GPU-5269b708-678a-b1a8-60f0-c90406537486") {
		t.Error("the salt does not matter")
	}
}

func FuzzRead(f *testing.F) {
	f.Add(packed(f, sample()))
	f.Add(archive(entry{name: manifestName, body: goodManifest}, entry{name: "../x", body: "y"}))
	f.Add([]byte("\x1f\x8b"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Read(bytes.NewReader(data), "fuzz")
		if err != nil {
			return
		}
		again, err := Read(bytes.NewReader(packed(t, c)), "again")
		if err != nil || len(again.Files) != len(c.Files) {
			t.Fatalf("a capture that was read cannot be written and read again: %v", err)
		}
	})
}

func FuzzRedactor(f *testing.F) {
	f.Add("node1 GPU-5269b708-678a-b1a8-60f0-c90406537486 10.1.2.3 fe80::1", "node1")
	f.Add("İnode1 ſ", "NODE1")
	f.Fuzz(func(t *testing.T, text, host string) {
		r := NewRedactor([]byte("s"), host)
		if a, b := r.Text(text), r.Text(text); a != b {
			t.Fatal("not the same twice")
		}
	})
}
