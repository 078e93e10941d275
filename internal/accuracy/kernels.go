package accuracy

import (
	"fmt"
	"strings"

	"rankmap/collective"
	"rankmap/internal/measured"
	"rankmap/internal/parallel"
	"rankmap/internal/units"
)

// framework prices a serving framework's own all-reduce and names the class after it: "all_reduce/vllm", with " eager"
// for launches from the host.
func (c *Confronter) framework(out *Case) (collective.Estimate, error) {
	r := out.Row
	out.Collective += "/" + r.Library
	if launchOf(r) == collective.Eager {
		out.Collective += " eager"
	}
	switch {
	case r.Op != parallel.AllReduce:
		return collective.Estimate{}, fmt.Errorf("no model of %s's %s", r.Library, r.Op)
	case r.Nodes > 1:
		return collective.Estimate{}, fmt.Errorf("no model of %s's all-reduce over several nodes", r.Library)
	}
	return collective.CustomAllReduce(c.profiles, r.Hardware, r.Library, r.Version, r.Ranks, r.Bytes, launchOf(r))
}

// exchangeModes names the mode of a kernel as tables print it.
var exchangeModes = map[string]string{
	"deepep_ll": "low_latency", "low_latency": "low_latency", "deepep_normal": "normal", "normal": "normal",
	"nvlinktwosided": "nvlink", "nvlinkonesided": "nvlink",
}

// deepEPModes are the modes of DeepEP that a table names by what they are for.
var deepEPModes = map[string]string{"decode": "low_latency", "prefill": "normal"}

// exchange fills the prediction of an expert-parallel dispatch or combine. Its size is what a rank's tokens hold in
// bf16. Neither the textbook nor NCCL has a form for it.
func (c *Confronter) exchange(out *Case) error {
	r, x := out.Row, out.Row.Exchange
	mode, kernel := exchangeMode(r)
	what := mode
	if what == "" {
		what = r.Kernel
	}
	if kernel != "" {
		what = kernel
	}
	out.Collective = "ep_" + x.Phase + "/" + strings.TrimSuffix(r.Library+" "+what, " ")
	out.Size = SizeOf(2 * units.Bytes(x.Tokens) * units.Bytes(x.Hidden))
	switch {
	case mode == "" || r.Library != "deepep" && r.Library != "trtllm":
		return fmt.Errorf("no model of this expert-parallel kernel: %s", strings.TrimSuffix(r.Library+" "+what, " "))
	case x.Phase == "prepare":
		return fmt.Errorf("no model of the exchange's preparation")
	case x.Hidden < 1 || x.TopK < 1 || x.Tokens < 1:
		return fmt.Errorf("the exchange's shape is not stated in full")
	case x.Expert < x.TopK && !(x.Expert == 0 && overNodes(r) && mode == "low_latency"):
		return fmt.Errorf("the exchange's number of experts is not stated")
	case mode == "normal" && x.SMs < 1:
		return fmt.Errorf("the number of SMs that the exchange may use is not stated")
	case overNodes(r) && r.NICPerGPU() == 0:
		return fmt.Errorf("crosses nodes, and the NICs are not stated (--nics, --nic-rate, --fabric)")
	}
	sheet, err := c.catalog.GPU(r.Hardware)
	if err != nil {
		return fmt.Errorf("no datasheet of this GPU")
	}
	e, err := collective.Dispatch(c.profiles, r.Hardware, mode, kernel, exchangeOf(r), sheet.SMs)
	if err != nil {
		return err
	}
	out.take(e)
	return nil
}

// exchangeMode is the mode of a row's kernel, "" when unknown, and the kernel's own name where a mode has several.
func exchangeMode(r *measured.Row) (mode, kernel string) {
	if mode = exchangeModes[strings.ToLower(r.Kernel)]; mode == "nvlink" {
		kernel = r.Kernel
	}
	if mode == "" && r.Library == "deepep" {
		mode = deepEPModes[strings.ToLower(r.Kernel)]
	}
	return mode, kernel
}

// overNodes says whether the exchange leaves an NVLink domain.
func overNodes(r *measured.Row) bool { return r.Nodes > 1 && r.DomainGPUs < r.Ranks }

// exchangeOf translates.
func exchangeOf(r *measured.Row) collective.Exchange {
	x := r.Exchange
	nodes := 1
	if overNodes(r) {
		nodes = r.Nodes
	}
	return collective.Exchange{
		Nodes: nodes, NICGBps: r.NICPerGPU().GBps(),
		Phase: x.Phase, Ranks: r.Ranks, Tokens: x.Tokens, Hidden: x.Hidden, TopK: x.TopK, Experts: x.Expert, SMs: x.SMs,
		ValueBytes: valueBytes(x.Phase, r.DType), Even: evenRouting(r),
	}
}

// evenRouting says that a table's benchmark spread each token's experts over as many ranks as possible: in TensorRT-LLM's NVLink
// tables the one-sided kernel's bulk time is the same for each remote rank of min(ranks, top k) within 2 % from 2 to 16 ranks,
// and no uniform routing gives those counts.
func evenRouting(r *measured.Row) bool { return r.Library == "trtllm" }

// valueBytes is what a value of the hidden state takes on the wire: the combine sends bf16, or half a byte in low
// precision; the dispatch sends the engine's type, nvfp4 with one scale for 16 values.
func valueBytes(phase, dtype string) float64 {
	switch {
	case phase == "combine_low_precision":
		return 0.5
	case phase != "dispatch":
		return 2
	case dtype == "fp8":
		return 1
	case strings.HasSuffix(dtype, "fp4"):
		return 0.5 + 1.0/16
	}
	return 2
}
