package fabric

import (
	"strings"
	"testing"
)

func TestNodeFileErrors(t *testing.T) {
	for _, tc := range []struct{ kind, doc, want string }{
		{KindIBV, "No IB devices found\n", "no hca_id line"}, {KindIBStat, "mlx5_0\n", "no CA line"}, {KindLSPCI, "01:00.0 3D controller: NVIDIA\n", "no PCI tree"},
		{"mystery", "x", "unknown kind \"mystery\""}, {KindIBV, "", "empty file"},
	} {
		if _, err := Read(tc.kind, strings.NewReader(tc.doc), "t.txt"); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want %q", tc.kind, err, tc.want)
		}
	}
}

func TestPCIKinds(t *testing.T) {
	for _, tc := range []struct{ text, kind, name, model string }{
		{"NVIDIA Corporation GH100 [H100 SXM5 80GB]", "gpu", "NVIDIA H100 SXM5 80GB", "h100_sxm"},
		{"NVIDIA Corporation GA100 [A100 SXM4 80GB]", "gpu", "NVIDIA A100 SXM4 80GB", "a100_sxm"},
		{"NVIDIA Corporation GA100 [A100 SXM4 80GB] [10de:20b2]", "gpu", "NVIDIA A100 SXM4 80GB", "a100_sxm"},
		{"NVIDIA Corporation GB100 [B200]", "gpu", "NVIDIA B200", "b200_sxm"},
		{"NVIDIA Corporation GB100 [HGX GB200]", "gpu", "NVIDIA HGX GB200", "gb200"},
		{"NVIDIA Corporation GH100 [H800]", "gpu", "NVIDIA H800", "h800_sxm"},
		{"NVIDIA Corporation Device 2901", "gpu", "NVIDIA Device 2901", ""},
		{"NVIDIA Corporation GH100 [H100 NVSwitch]", "nvswitch", "", ""},
		{"NVIDIA Corporation AD102 High Definition Audio Controller", "", "", ""},
		{"Mellanox Technologies MT2910 Family [ConnectX-7]", "nic", "", ""},
		{"Mellanox Technologies MT43244 BlueField-3 SoC Management Interface", "", "", ""},
		{"Amazon.com, Inc. Elastic Fabric Adapter (EFA)", "nic", "", ""},
		{"Broadcom Inc. and subsidiaries BCM57414 NetXtreme-E 10Gb/25Gb RDMA Ethernet Controller", "nic", "", ""},
		{"Samsung Electronics Co Ltd NVMe SSD Controller", "", "", ""}, {"", "", "", ""},
	} {
		if got := pciKind(tc.text); got != tc.kind {
			t.Errorf("%q is %q, want %q", tc.text, got, tc.kind)
		}
		if tc.kind == "gpu" {
			if name, model := gpuName(tc.text); name != tc.name || model != tc.model {
				t.Errorf("%q: %q, %q", tc.text, name, model)
			}
		}
	}
}

func TestSniff(t *testing.T) {
	for _, tc := range []struct{ head, want string }{
		{"vendid=0x2c9\n", KindIBNetDiscover}, {"# Faked\n\nSwitch 41 \"S-1\" # \"a\"\n", KindIBNetDiscover}, {"SW 3 1 0x0b 4x HDR\n", KindIBNetDiscover},
		{"# x\nswitchname=a Nodes=b\n", KindSlurm}, {"BlockSizes=4\n", KindSlurm}, {"---\n- topology: a\n", KindSlurm}, {"\xef\xbb\xbfSwitchName=a\r\n", KindSlurm},
		{"# picture\nswitches:\n  a:\n", KindTopograph}, {"[{\"links\": [{\"compounded_links\": []}]}]", KindTopograph}, {"$ ibv_devinfo\nhca_id:\tmlx5_0\n", KindIBV},
		{"```\nCA 'mlx5_0'\n", KindIBStat}, {"Infiniband device 'mlx5_0' port 1 status:\n", KindIBStat}, {"-+-[0000:00]-+-00.0\n", KindLSPCI}, {"-[0000:00]-+-00.0\n", KindLSPCI},
		{"{\"kind\": \"x\"}", ""}, {"<system version=\"1\">", ""}, {"\tGPU0\tGPU1\n", ""}, {"GPU 0: NVIDIA (UUID: x)\n", ""}, {"", ""}, {"SwitchName=\n", ""},
	} {
		if got := Sniff([]byte(tc.head)); got != tc.want {
			t.Errorf("%.30q: %q, want %q", tc.head, got, tc.want)
		}
	}
}
