package validate

import (
	"os"
	"path/filepath"
	"testing"

	"rankmap/internal/measured"
	"rankmap/internal/testdata"
)

func TestParseChoice(t *testing.T) {
	for _, c := range []struct {
		name, log string
		want      measured.Choice
	}{
		{"2.28, one line a call", "h:1:1 [0] NCCL INFO AllReduce: 65536 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..7}\n", measured.Choice{Algorithm: "ring", Protocol: "LL", Channels: 8}},
		{"the last call counts", "x Bytes -> Algo TREE proto LL128 channel{Lo..Hi}={0..0}\nx Bytes -> Algo NVLS_TREE proto SIMPLE channel{Lo..Hi}={2..5}\n", measured.Choice{Algorithm: "nvls-tree", Protocol: "Simple", Channels: 4}},
		{"numbers before 2.23", "x 4096 Bytes -> Algo 1 proto 2 time 12.5\n", measured.Choice{Algorithm: "ring", Protocol: "Simple"}},
		{"an algorithm to come", "x Bytes -> Algo HYPERCUBE proto LL\n", measured.Choice{Algorithm: "hypercube", Protocol: "LL"}},
		{"peer access", "h:1:1 [0] NCCL INFO Channel 00/24 : 0[0] -> 1[1] via P2P/CUMEM\n", measured.Choice{Transport: "P2P/CUMEM"}},
		{"older wording", "h:1:1 [0] NCCL INFO Channel 03 : 1[1b000] -> 0[1a000] via P2P/IPC/read\n", measured.Choice{Transport: "P2P/IPC/read"}},
		{"shared memory", "Channel 00 : 0[0] -> 1[1] via SHM/direct/direct\n", measured.Choice{Transport: "SHM/direct/direct"}},
		{"network with device and flags", "Channel 01/0 : 0[0] -> 9[1] [send] via NET/IB/2(3)/GDRDMA\n", measured.Choice{Transport: "NET/IB/GDRDMA"}},
		{"network with a trailing address", "Channel 00/0 : 1[0] -> 0[0] [receive] via NET/Socket/0 comm 0x55 nRanks 02\n", measured.Choice{Transport: "NET/Socket"}},
		{"nothing", "h:1:1 [0] NCCL INFO Connected all rings\n", measured.Choice{}},
		{"empty", "", measured.Choice{}},
	} {
		if got := parseChoice([]byte(c.log)); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// Real logs of many versions: where a line says "via", a transport is found.
func TestParseChoiceOnRealLogs(t *testing.T) {
	dir := testdata.Dir(t, "topology", "dev", "nccllog")
	files, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %d files", err, len(files))
	}
	found := map[string]int{}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if c := parseChoice(b); c.Transport != "" {
			found[c.Transport]++
		}
	}
	if len(found) < 4 {
		t.Errorf("transports %v", found)
	}
	t.Logf("transports %v", found)
}

func FuzzParseChoice(f *testing.F) {
	f.Add([]byte("AllReduce: 1 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..7}\nChannel 00/24 : 0[0] -> 1[1] via P2P/CUMEM"))
	f.Add([]byte("Bytes -> Algo 1 proto 2"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if c := parseChoice(b); len(c.Transport) > 120 || c.Channels < 0 || c.Channels > 10000 {
			t.Errorf("%+v", c)
		}
	})
}
