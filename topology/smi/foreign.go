package smi

import (
	"fmt"
	"strings"
)

const wanted = "give the output of \"nvidia-smi topo -m\""

// foreignBytes recognises input that is no text at all.
func foreignBytes(s string) *Error {
	what := ""
	switch {
	case strings.TrimSpace(s) == "":
		return &Error{Msg: "empty; " + wanted, Foreign: "empty file"}
	case strings.HasPrefix(s, "%PDF-"):
		what = "a PDF"
	case strings.HasPrefix(s, "\x1f\x8b"), strings.HasPrefix(s, "PK\x03\x04"):
		what = "a compressed archive"
	case strings.HasPrefix(s, "\x89PNG"), strings.HasPrefix(s, "\xff\xd8\xff"), strings.HasPrefix(s, "GIF8"):
		what = "a picture"
	case strings.HasPrefix(s, "\x7fELF"), strings.IndexByte(s[:min(len(s), 4096)], 0) >= 0:
		what = "a binary file"
	default:
		return nil
	}
	return &Error{Msg: "this is " + what + ", not text; " + wanted, Foreign: what}
}

// sign is how the output of another tool is recognised, where no table could be read.
type sign struct {
	marks []string // one of them
	what  string
	hint  string
}

var signs = []sign{
	{[]string{"ROCm System Management", "rocm-smi", "RSMI", "XGMI", "amd-smi", "between two GPUs"}, "rocm-smi or amd-smi output (AMD GPUs)", wanted + " of a machine with NVIDIA GPUs"},
	{[]string{"NPU0", "npu-smi", "HCCS"}, "npu-smi output (Ascend NPUs)", wanted + " of a machine with NVIDIA GPUs"},
	{[]string{"MLU0", "cnmon"}, "cnmon output (Cambricon MLUs)", wanted + " of a machine with NVIDIA GPUs"},
	{[]string{"xpu-smi", "GPU 0/0", "Xe Link", "XL*"}, "xpu-smi output (Intel GPUs)", wanted + " of a machine with NVIDIA GPUs"},
	{[]string{"mthreads-gmi", "MTLINK", "MTLink"}, "mthreads-gmi output (Moore Threads GPUs)", wanted + " of a machine with NVIDIA GPUs"},
	{[]string{"mx-smi", "MetaXLink"}, "mx-smi output (MetaX GPUs)", wanted + " of a machine with NVIDIA GPUs"},
	{[]string{"ixsmi"}, "ixsmi output (Iluvatar GPUs)", wanted + " of a machine with NVIDIA GPUs"},
	{[]string{"<graphs", "<graph "}, "an NCCL graph file (XML)", "give an NCCL topology file as nccl-xml:FILE, or the output of \"nvidia-smi topo -m\""},
	{[]string{"<system version", "<cpu numaid", "<pci busid"}, "an NCCL topology file (XML)", "give it as nccl-xml:FILE"},
	{[]string{"<nvidia_smi_log"}, "nvidia-smi -q -x output (XML)", wanted},
	{[]string{"<!DOCTYPE html", "<!doctype html", "<html", "<HTML"}, "an HTML page", "save the table as plain text; " + wanted},
	{[]string{"<table", "<td", "<tr>"}, "an HTML table", "save the table as plain text; " + wanted},
	{[]string{"<topology", "HostBridge L#", "Machine (", "NUMANode L#"}, "lstopo or hwloc output", wanted},
	{[]string{"<?xml"}, "an XML file", wanted},
	{[]string{"NCCL INFO", "NCCL version"}, "an NCCL log", "give it to rankmap diagnose; " + wanted},
	{[]string{"hca_id:", "vendor_part_id:"}, "ibv_devinfo output", "give it as ibv:FILE"},
	{[]string{"CA '", "CA type:"}, "ibstat output", "give it as ibstat:FILE"},
	{[]string{"switchguid=", "caguid="}, "ibnetdiscover output", "give it as ibnetdiscover:FILE"},
	{[]string{"SwitchName=", "BlockName="}, "a Slurm topology.conf", "give it as slurm:FILE"},
	{[]string{"-+-[", "-[0000:"}, "lspci -tv output", "give it as lspci:FILE"},
	{[]string{"numactl", "node distances:"}, "numactl output", wanted},
	{[]string{"Remote Device", "P2P is supported", "Access to system memory supported"}, "another page of nvidia-smi nvlink", "give the output of \"nvidia-smi nvlink -s\" as nvlink:FILE"},
	{[]string{"NVIDIA-SMI", "Driver Version"}, "the overview of nvidia-smi", wanted},
	{[]string{"NVSMI LOG"}, "nvidia-smi -q output", wanted},
}

// foreignText recognises the output of other tools.
func foreignText(text string) *Error {
	for _, s := range signs {
		for _, m := range s.marks {
			if i := strings.Index(text, m); i >= 0 {
				line := 1 + strings.Count(text[:i], "\n")
				col := i - strings.LastIndexByte(text[:i], '\n')
				return &Error{Line: line, Column: col, Foreign: s.what,
					Msg: fmt.Sprintf("this is %s, not a matrix of nvidia-smi topo; %s", s.what, s.hint)}
			}
		}
	}
	return nil
}

// refuse says what a text without a table is. p2p is a table of topo -p2p that it holds, or nil.
func (p *prepared) refuse(p2p *table) error {
	rep := &report{file: p.name, lines: p.raw}
	if p2p != nil {
		rep.fail(p2p.rows[0].name.place(), "this is a table of nvidia-smi topo -p2p: it says which GPUs may reach each other, not what joins them; %s", wanted)
		rep.errs[0].Foreign = "nvidia-smi topo -p2p"
		return rep.errs[0]
	}
	if f := foreignText(p.text); f != nil {
		f.File = p.name
		return f
	}
	if st := readStatus(&report{file: p.name, lines: p.raw}, p.lines); st != nil && len(st.GPUs) > 0 {
		rep.fail(place{st.GPUs[0].Line, 0}, "this is nvidia-smi nvlink -s: it names the links of each GPU, not where they lead; give it as nvlink:FILE, and %s too", wanted)
		rep.errs[0].Foreign = "nvidia-smi nvlink -s"
		return rep.errs[0]
	}
	trim := strings.TrimSpace(p.text)
	what := "no table of nvidia-smi topo"
	if trim[0] == '{' || trim[0] == '[' && strings.Contains(trim, `":`) {
		what = "JSON, not a table of nvidia-smi topo"
	}
	for i := range p.lines {
		if strings.TrimSpace(p.lines[i].text) != "" {
			rep.fail(p.lines[i].place(0), "%s: no line with GPU0 followed by X, NV#, PIX, PXB, PHB, NODE or SYS; %s", what, wanted)
			break
		}
	}
	if len(rep.errs) == 0 {
		return &Error{File: p.name, Msg: "empty; " + wanted, Foreign: "empty file"}
	}
	rep.errs[0].Foreign = "text without a table"
	return rep.errs[0]
}
