package validate

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"rankmap/internal/measured"
)

func TestReadNet(t *testing.T) {
	dir := sysfs(t, "mlx5_0 400 InfiniBand ACTIVE 4092", "mlx5_1 200 Ethernet DOWN 9000")
	ifs := []IfaceFacts{{"lo", "127.0.0.1/8", 65536}, {"docker0", "172.17.0.1/16", 1500}, {"eth0", "10.0.0.1/24", 1500}, {"eth0", "fd00::1/64", 1500}}
	n := ReadNet(os.DirFS(dir), ifs, lookup(""))
	want := []NICFacts{{"mlx5_0", 1, "ACTIVE", "InfiniBand", 400, 4092}, {"mlx5_1", 1, "DOWN", "Ethernet", 200, 9000}}
	if !slices.Equal(n.NICs, want) || n.Socket.Name != "eth0" || describeNICs(n.NICs) != "1 x 400 Gb/s InfiniBand" {
		t.Errorf("%+v", n)
	}
	if n := ReadNet(os.DirFS(dir), ifs, lookup("NCCL_IB_HCA=^mlx5_1 NCCL_SOCKET_IFNAME==lo NCCL_IGNORE_NET_MISMATCH=1")); len(n.NICs) != 1 || n.Socket.Name != "lo" || !n.Unequal {
		t.Errorf("%+v", n)
	}
	if n := ReadNet(os.DirFS(dir), append(ifs, IfaceFacts{"ib0", "10.1.0.1/24", 2044}), lookup("NCCL_IB_DISABLE=1")); len(n.NICs) != 0 || n.Socket.Name != "ib0" {
		t.Errorf("%+v", n)
	}
	if f, _ := chooseIface(ifs, "", "AF_INET6"); f.Addr != "fd00::1/64" {
		t.Errorf("IPv6: %+v", f)
	}
	if _, ok := chooseIface(ifs, "bond", ""); ok {
		t.Error("an interface that is not there is chosen")
	}
	for _, c := range []struct {
		list, name string
		port       int
		want       bool
	}{
		{"", "mlx5_0", 1, true}, {"mlx5", "mlx5_3", 1, true}, {"=mlx5_1", "mlx5_10", 1, false}, {"mlx5_0:2", "mlx5_0", 1, false}, {"mlx5_0:1", "mlx5_0", 1, true},
		{"^mlx5_0,mlx5_1", "mlx5_1", 1, false}, {"^=mlx5_1", "mlx5_10", 1, true}, {"=mlx5_0:1:0:0", "mlx5_0", 1, true},
	} {
		if got := matchNames(c.list, c.name, c.port); got != c.want {
			t.Errorf("%s of %s: %v", c.name, c.list, got)
		}
	}
}

func TestCommonInterface(t *testing.T) {
	nets := map[string]NetFacts{
		"a": {Socket: IfaceFacts{Name: "eth0"}, Ifaces: []IfaceFacts{{"eth0", "10.0.0.1/24", 1500}, {"docker0", "172.17.0.1/16", 1500}, {"bond0", "10.9.0.1/16", 9000}}},
		"b": {Socket: IfaceFacts{Name: "eth0"}, Ifaces: []IfaceFacts{{"eth0", "10.7.0.1/24", 1500}, {"docker0", "172.17.0.1/16", 1500}, {"bond0", "10.9.0.2/16", 9000}}},
	}
	if got := commonIface([]string{"a", "b"}, func(h string) NetFacts { return nets[h] }); got != "bond0" {
		t.Errorf("%q: docker0 has one address on both, eth0 two subnets", got)
	}
}

func TestNetUse(t *testing.T) {
	log := `n0:1:1 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_4:1/RoCE [RO]; OOB eth0:10.0.0.1<0>
n0:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/1(3)/GDRDMA
n0:1:1 [0] NCCL INFO Channel 01/0 : 8[0] -> 0[0] [receive] via NET/IB/0
n0:1:1 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via P2P/CUMEM
`
	var u netUse
	u.readNetUse([]byte(log), map[int]string{})
	if strings.Join(u.Transports, " ") != "NET/IB NET/IB/GDRDMA" || strings.Join(u.NICs, " ") != "mlx5_0 mlx5_4" {
		t.Errorf("%+v", u)
	}
	var got []string
	job := twoNodes(1)
	job.Ranks[0].NICs = []string{"n0/mlx5_0"}
	c := &campaign{job: job, rep: new(measured.Report), found: func(id, f string, a ...any) { got = append(got, id+" "+fmt.Sprintf(f, a...)) }}
	c.s = newSession(job, quick(), nil, nil, nil)
	rdma := NetFacts{NICs: []NICFacts{{Name: "mlx5_0", State: "ACTIVE"}}}
	c.s.facts = map[int]facts{0: {Host: "n0", Net: rdma}, 1: {Host: "n1", Net: rdma}}
	c.netFindings(map[int]result{0: {Net: &u}, 1: {Net: &netUse{Transports: []string{"NET/Socket"}}}})
	if len(got) != 3 || !strings.HasPrefix(got[0], "net-socket rank 1 on n1") || !strings.HasPrefix(got[1], "no-gdr rank 0") || !strings.Contains(got[2], "rank 0 on n0 uses mlx5_4, planned n0/mlx5_0") {
		t.Errorf("%q", got)
	}
}
