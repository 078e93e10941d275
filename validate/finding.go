package validate

import (
	"fmt"
	"slices"

	"rankmap/internal/measured"
)

// Severities. An error fails the run, a warning does not.
const (
	SevInfo    = "info"
	SevWarning = "warning"
	SevError   = "error"
)

// Categories.
const (
	CatEnvironment = "environment"
	CatLibrary     = "library"
	CatGPU         = "gpu"
	CatProcess     = "process"
	CatNCCL        = "nccl"
	CatSpeed       = "speed"
	CatData        = "data"
	CatRendezvous  = "rendezvous"
	CatNetwork     = "network"
)

// findingSpec is one entry of the table: what is said and what to do next. Exit is the exit code that an error of the kind
// leads to.
type findingSpec struct {
	severity, category string
	message            string // %s is the detail
	next               string
	exit               int
}

// findings is the table of everything that validate can say. Texts live here and nowhere else.
var findings = map[string]findingSpec{
	// Preflight.
	"smi-missing":       {SevWarning, CatEnvironment, "the driver was not asked beforehand: %s", "install nvidia-smi with the driver, or mount it into the container (NVIDIA_DRIVER_CAPABILITIES=utility,compute); checks for MIG, busy GPUs and fabric were skipped", 0},
	"smi-failed":        {SevError, CatEnvironment, "nvidia-smi fails: %s", "run nvidia-smi by hand; after a driver update without reboot, reboot or reload the driver; in a container that lost its GPUs after systemctl daemon-reload, start it anew", exitEnvironment},
	"gpu-none":          {SevError, CatEnvironment, "no usable GPU: %s", "check nvidia-smi -L, CUDA_VISIBLE_DEVICES and the container's GPU options", exitEnvironment},
	"gpu-missing":       {SevError, CatEnvironment, "a GPU of the layout is not here: %s", "make the layout on this machine (rankmap discover, then plan), or run on the machine that it names", exitEnvironment},
	"gpu-duplicate":     {SevError, CatEnvironment, "two ranks on one GPU: %s", "NCCL refuses that; correct the layout, or the launcher's GPU binding", exitEnvironment},
	"gpu-cloned":        {SevWarning, CatEnvironment, "two hosts report the same GPU: %s", "cloned virtual machines do that; check that they are different GPUs", 0},
	"gpu-mig":           {SevError, CatGPU, "MIG is on: %s", "NCCL sees the parent GPU and refuses or misplaces ranks; switch MIG off (nvidia-smi -mig 0), or leave these GPUs out of the plan", exitEnvironment},
	"gpu-busy":          {SevError, CatGPU, "a GPU is in use: %s", "wait for the other job, stop it, or pass --allow-busy and expect slower results", exitEnvironment},
	"gpu-busy-allowed":  {SevWarning, CatGPU, "a GPU is in use: %s", "the times below are with somebody else's work on the GPU", 0},
	"gpu-prohibited":    {SevError, CatGPU, "compute mode forbids processes: %s", "nvidia-smi -c DEFAULT (needs root)", exitEnvironment},
	"gpu-exclusive":     {SevInfo, CatGPU, "compute mode is exclusive: %s", "one process a GPU is what validate uses; nothing else may hold the GPU", 0},
	"gpu-hardware":      {SevError, CatGPU, "the GPU reports a hardware error: %s", "drain the node; nvidia-smi -q -d ECC,ROW_REMAPPER and dcgmi diag -r 3 tell which part", exitEnvironment},
	"gpu-throttled":     {SevWarning, CatGPU, "a GPU is slowed down: %s", "check cooling and power (nvidia-smi -q -d PERFORMANCE)", 0},
	"gpu-pcie":          {SevWarning, CatGPU, "a PCIe link is below its best: %s", "an idle link may rest at a low generation, a narrow one does not widen under load: reseat the card or the riser", 0},
	"gpu-memory":        {SevWarning, CatGPU, "not enough free GPU memory for all sizes: %s", "larger sizes were skipped; free the GPU to measure them", 0},
	"fabric-not-ready":  {SevError, CatGPU, "the NVLink fabric is not ready: %s", "start nvidia-fabricmanager (systemctl status nvidia-fabricmanager) and wait until nvidia-smi -q shows Fabric State Completed; CUDA would fail with 802", exitEnvironment},
	"shm-small":         {SevWarning, CatEnvironment, "/dev/shm is small: %s", "run the container with --shm-size=1g, or mount an emptyDir with medium Memory", 0},
	"shm-full":          {SevError, CatEnvironment, "/dev/shm cannot hold NCCL's buffers: %s", "free or enlarge /dev/shm (--shm-size=1g, or remount,size=...)", exitEnvironment},
	"shm-stale":         {SevInfo, CatEnvironment, "old NCCL files in /dev/shm: %s", "left by killed jobs; remove them when no job of that user runs", 0},
	"shm-left":          {SevWarning, CatProcess, "NCCL files stayed in /dev/shm: %s", "remove them; a rank was killed before it could", 0},
	"memlock":           {SevError, CatEnvironment, "locked memory is limited and RDMA devices are here: %s", "ulimit -l unlimited (limits.conf: * - memlock unlimited; docker run --ulimit memlock=-1)", exitEnvironment},
	"no-peer":           {SevWarning, CatGPU, "GPUs cannot reach each other directly: %s", "NCCL will go through host memory; check ACS and IOMMU (NCCL troubleshooting, PCI access control), or the hypervisor's GPU grouping", 0},
	"files-few":         {SevError, CatEnvironment, "too few open files are allowed: %s", "ulimit -n 65536 (limits.conf: * - nofile 65536; LimitNOFILE= of a service)", exitEnvironment},
	"files-few-warning": {SevWarning, CatEnvironment, "few open files are allowed: %s", "ulimit -n 65536: NCCL takes a socket for each channel and peer", 0},
	"tmp-unwritable":    {SevError, CatEnvironment, "the temporary folder cannot be written: %s", "free it, or set TMPDIR to a folder that can be written", exitEnvironment},

	// Between nodes.
	"interfaces":          {SevInfo, CatNetwork, "interfaces that NCCL's bootstrap takes: %s", "another one: NCCL_SOCKET_IFNAME", 0},
	"driver-versions":     {SevWarning, CatLibrary, "nodes have different drivers: %s", "align them; mixed drivers can change what NCCL chooses", 0},
	"gpu-models":          {SevWarning, CatGPU, "nodes have different GPUs: %s", "the slowest sets the pace; plan for the mix (rankmap discover on each), or leave the odd nodes out", 0},
	"net-plugins":         {SevError, CatNetwork, "nodes have different net plugins: %s", "install the same on all nodes, or switch it off on all (NCCL_NET_PLUGIN=none): ranks that load different plugins cannot connect", exitEnvironment},
	"nics-differ":         {SevError, CatNetwork, "nodes have unequal NICs: %s", "mend the odd node, or name the NICs that all have: NCCL_IB_HCA; NCCL hangs when they differ. NCCL_IGNORE_NET_MISMATCH=1 runs nevertheless", exitEnvironment},
	"nics-differ-allowed": {SevWarning, CatNetwork, "nodes have unequal NICs: %s", "NCCL_IGNORE_NET_MISMATCH=1 is set, so the run goes on; it may hang", 0},
	"nic-names":           {SevInfo, CatNetwork, "NICs have other names on some nodes: %s", "NCCL_IB_HCA must fit all nodes; rails follow the order of names", 0},
	"nic-down":            {SevWarning, CatNetwork, "a port is not active: %s", "ibstat tells its state; check cable and switch, or leave it out with NCCL_IB_HCA=^name", 0},
	"nic-missing":         {SevInfo, CatNetwork, "NICs of the layout are not here: %s", "the layout was made for other hosts or from a preset; NCCL chooses by distance", 0},
	"mtu-differ":          {SevWarning, CatNetwork, "nodes have different MTUs: %s", "set one MTU on all NICs and switch ports; RoCE between unequal ones fails with error 12 or drops", 0},
	"unreachable":         {SevError, CatNetwork, "a node does not reach another: %s", "open the network between the nodes, or choose another interface with NCCL_SOCKET_IFNAME on all ranks", exitEnvironment},
	"reach-listen":        {SevError, CatNetwork, "a node cannot listen on its interface: %s", "choose another interface with NCCL_SOCKET_IFNAME", exitEnvironment},
	"clocks-differ":       {SevWarning, CatNetwork, "clocks differ from rank 0's: %s", "start chrony or ntpd; nothing is measured by them, but logs of the nodes cannot be compared", 0},
	"net-socket":          {SevWarning, CatNetwork, "NCCL goes over TCP sockets between nodes although RDMA ports are here: %s", "NCCL_DEBUG=INFO says why NET/IB is not used: NCCL_IB_DISABLE, NCCL_IB_HCA, libibverbs missing, or the devices are not in the container", 0},
	"no-gdr":              {SevWarning, CatNetwork, "NICs do not read GPU memory directly: %s", "load nvidia-peermem (or use dma-buf), and look at the distance of NIC and GPU (NCCL_NET_GDR_LEVEL)", 0},
	"other-nic":           {SevInfo, CatNetwork, "ranks use other NICs than planned: %s", "NCCL takes the nearest by its own topology (or a peer's with PXN); compare rankmap discover with NCCL_TOPO_DUMP_FILE", 0},
	"slow-rail":           {SevError, CatSpeed, "a rail is slow: %s", "check the NIC, cable and leaf port of that rail (ibstat, perfquery, ethtool -S)", exitBelow},
	"slow-rails":          {SevWarning, CatSpeed, "rails slow each other down: %s", "they share a switch uplink or a PCIe switch; compare with the plan's contention", 0},
	"slow-node":           {SevError, CatSpeed, "a slow node: %s", "check its NICs and their PCIe links (ibstat, nvidia-smi topo -m); swap it out of the plan with plan --exclude", exitBelow},
	"slow-nodes":          {SevError, CatSpeed, "a slow path between two nodes: %s", "check the switches between them; move one of them in the plan", exitBelow},

	// Meeting.
	"port-taken":        {SevError, CatRendezvous, "the rendezvous port is taken: %s", "name another port on all ranks: --rendezvous HOST:PORT", exitEnvironment},
	"address-elsewhere": {SevError, CatRendezvous, "the rendezvous address is not one of rank 0's node: %s", "name an address of the node where rank 0 runs: --rendezvous HOST:PORT", exitEnvironment},
	"name-unknown":      {SevError, CatRendezvous, "the rendezvous host is unknown: %s", "name a numeric address of rank 0's node on all ranks: --rendezvous ADDRESS:PORT", exitEnvironment},
	"join-failed":       {SevError, CatRendezvous, "a rank cannot join: %s", "see that rank 0 runs, that --rendezvous names it, and that nothing is between (nc -vz HOST PORT)", exitDeadline},
	"root":              {SevInfo, CatEnvironment, "running as root: %s", "validate needs no privileges; a user account is safer", 0},
	"seats-differ":      {SevError, CatEnvironment, "ranks are not on the nodes that the layout gives them: %s", "start them in the layout's order, or plan for what the launcher does (rankmap plan --target)", exitEnvironment},
	"host-name":         {SevInfo, CatEnvironment, "host names differ from the layout: %s", "the layout was made for another host or from a preset; GPUs are matched by UUID, PCI id, or index", 0},

	// Libraries.
	"cuda-missing":   {SevError, CatLibrary, "libcudart was not found: %s", "install the CUDA runtime or pip install nvidia-cuda-runtime; or add its folder to LD_LIBRARY_PATH", exitEnvironment},
	"cuda-unusable":  {SevError, CatLibrary, "no libcudart can be used: %s", "the runtime must not be newer than the driver supports; install one that matches", exitEnvironment},
	"driver-missing": {SevError, CatLibrary, "the NVIDIA driver is not visible: %s", "install the driver, or start the container with GPU access (--gpus all)", exitEnvironment},
	"driver-old":     {SevError, CatLibrary, "the driver is too old for the CUDA runtime: %s", "update the driver, or use an older runtime", exitEnvironment},
	"nccl-missing":   {SevError, CatLibrary, "libnccl was not found: %s", "pip install nvidia-nccl-cu13 (or cu12), apt install libnccl2, or name it: --nccl-lib /path/libnccl.so.2", exitEnvironment},
	"nccl-unusable":  {SevError, CatLibrary, "libnccl cannot be used: %s", "name another one with --nccl-lib (2.18 or newer)", exitEnvironment},
	"nccl-versions":  {SevError, CatLibrary, "ranks have different NCCL versions: %s", "NCCL refuses mixed versions; install one version everywhere, or name the same file with --nccl-lib", exitEnvironment},
	"nccl-paths":     {SevWarning, CatLibrary, "ranks load libnccl from different files: %s", "same version, yet check that the builds are the same", 0},
	"cuda-versions":  {SevWarning, CatLibrary, "ranks have different CUDA runtimes or drivers: %s", "align them; mixed drivers can change what NCCL chooses", 0},

	// CUDA and NCCL while running.
	"cuda-memory":   {SevError, CatGPU, "out of GPU memory: %s", "free the GPU, or pass smaller --sizes", exitPartial},
	"cuda-failed":   {SevError, CatGPU, "CUDA failed: %s", "nvidia-smi -q and the kernel log (dmesg | grep -i xid) tell more", exitPartial},
	"nccl-cuda":     {SevError, CatNCCL, "a CUDA call inside NCCL failed: %s", "run with NCCL_DEBUG=WARN for the call; check nvidia-smi and Xid messages in the kernel log", exitPartial},
	"nccl-system":   {SevError, CatNCCL, "a system call inside NCCL failed: %s", "NCCL_DEBUG=WARN names it: often /dev/shm too small, locked memory, open files (ulimit -n), or the wrong network interface", exitPartial},
	"nccl-internal": {SevError, CatNCCL, "NCCL reports an internal error: %s", "run with NCCL_DEBUG=WARN; look for a plugin that does not fit the version", exitPartial},
	"nccl-argument": {SevError, CatNCCL, "NCCL rejects an argument: %s", "report this as a bug of rankmap, with the report file", exitBug},
	"nccl-usage":    {SevError, CatNCCL, "NCCL rejects the use: %s", "two ranks on one GPU, or environment variables that differ between ranks, lead to this", exitPartial},
	"nccl-remote":   {SevError, CatNCCL, "NCCL lost a peer: %s", "look at the first cause: another rank or its network failed", exitPartial},
	"nccl-progress": {SevError, CatNCCL, "an NCCL call did not finish: %s", "report this as a bug of rankmap, with the report file", exitBug},
	"nccl-timeout":  {SevError, CatNCCL, "NCCL gave up waiting: %s", "a peer does not answer; check links (nvidia-smi nvlink -s) and NCCL_TIMEOUT", exitDeadline},
	"nccl-unknown":  {SevError, CatNCCL, "NCCL returned an unknown code: %s", "a newer NCCL than rankmap knows; NCCL_DEBUG=WARN tells more", exitPartial},

	// Processes and deadlines.
	"rank-died":      {SevError, CatProcess, "a rank ended: %s", "if it was killed by signal 9, look for the out-of-memory killer (dmesg) or the job limits; the other ranks were stopped because of it", exitPartial},
	"rank-failed":    {SevError, CatProcess, "a rank failed: %s", "the text above is what it said; the other ranks were stopped because of it", exitPartial},
	"rank-silent":    {SevError, CatProcess, "a rank gives no sign of life: %s", "it is stopped (SIGSTOP, debugger, swapped out) or its host is overloaded; the other ranks were stopped because of it", exitDeadline},
	"join-deadline":  {SevError, CatProcess, "not all ranks joined: %s", "see what the missing ranks said on standard error; raise --join-timeout on slow systems", exitDeadline},
	"facts-deadline": {SevError, CatProcess, "ranks did not report their GPU in time: %s", "loading CUDA hangs: check nvidia-smi and the kernel log for Xid messages", exitDeadline},
	"init-deadline":  {SevError, CatNCCL, "the communicator was not created in time: %s", "NCCL_DEBUG=INFO shows where it waits: peer access (try NCCL_P2P_DISABLE=1), shared memory, or the bootstrap interface (NCCL_SOCKET_IFNAME)", exitDeadline},
	"step-deadline":  {SevError, CatNCCL, "a measurement did not end in time: %s", "a hang or a very slow link: nvidia-smi nvlink -s, Xid messages, ACS/IOMMU; try NCCL_P2P_DISABLE=1 to tell peer access from the rest", exitDeadline},
	"run-deadline":   {SevError, CatProcess, "the whole run did not end in time: %s", "raise --timeout, or measure less (--sizes none, --quick)", exitDeadline},
	"start-failed":   {SevError, CatProcess, "a rank could not be started: %s", "check limits on processes and open files", exitEnvironment},
	"unkillable":     {SevError, CatProcess, "a process survives SIGKILL: %s", "it hangs in the driver (state D): drain the node and reboot it", exitPartial},
	"interrupted":    {SevWarning, CatProcess, "interrupted: %s", "the report holds what was measured until then", 0},
	"rejected":       {SevInfo, CatRendezvous, "connections were turned away: %s", "somebody else, or a scanner, knocked at the rendezvous port; nothing was told to them", 0},
	"foreign-job":    {SevWarning, CatRendezvous, "ranks of another job knocked: %s", "two jobs use one address; give each its own port", 0},
	"log-on":         {SevInfo, CatNCCL, "NCCL's log could not be switched off: %s", "eager times of small messages include writing a line; use --no-choices to measure without", 0},

	// Results.
	"slow":         {SevWarning, CatSpeed, "slower than predicted: %s", "compare what NCCL chose with the prediction; pair tests below name a slow member where there is one", 0},
	"slow-member":  {SevError, CatSpeed, "a slow member: %s", "check its NVLink and PCIe state (nvidia-smi nvlink -s, nvidia-smi -q -d PERFORMANCE,PCI); swap it out of the plan with plan --exclude", exitBelow},
	"slow-link":    {SevError, CatSpeed, "a slow link: %s", "check the NVLink or PCIe path between the two GPUs (nvidia-smi nvlink -s; nvidia-smi topo -p2p r)", exitBelow},
	"slow-all":     {SevWarning, CatSpeed, "slow, and no member stands out: %s", "all pairs alike: look at the environment (NCCL_* variables, P2P or SHM disabled, clocks) or at the prediction's profile", 0},
	"required":     {SevError, CatSpeed, "below what --require asks: %s", "see the rows marked SLOW", exitBelow},
	"unstable":     {SevWarning, CatSpeed, "repeats disagree: %s", "something else uses the GPUs or links, or clocks change; measure again on a quiet node", 0},
	"wrong-data":   {SevError, CatData, "wrong data: %s", "take the GPU or link out of service; run dcgmi diag -r 3 and memtest", exitBelow},
	"other-choice": {SevInfo, CatNCCL, "NCCL chose otherwise than predicted: %s", "set nothing for it; recalibrate (--calibrate) when times differ too", 0},
	"other-path":   {SevWarning, CatNCCL, "data does not take the planned path: %s", "GPUs of one node should use P2P; SHM or NET inside a node means that peer access is off (ACS, IOMMU, NCCL_P2P_DISABLE, container)", 0},
	"nothing-ran":  {SevError, CatProcess, "nothing was judged: %s", "every check was skipped, and skipped is not passed", exitEnvironment},
}

// Exit codes of validate; cmd/rankmap documents all.
const (
	exitOK          = 0
	exitBug         = 1
	exitBelow       = 4
	exitDeadline    = 5
	exitEnvironment = 6
	exitPartial     = 7
	exitInterrupted = 130
	exitTerminated  = 143
)

// newFinding fills an entry of the table with a detail.
func newFinding(id, format string, args ...any) measured.Finding {
	spec, ok := findings[id]
	if !ok {
		spec = findingSpec{SevError, CatProcess, "%s", "report this as a bug of rankmap: unknown finding " + id, exitBug}
	}
	return measured.Finding{
		ID: id, Severity: spec.severity, Category: spec.category,
		Message: fmt.Sprintf(spec.message, fmt.Sprintf(format, args...)), NextStep: spec.next,
	}
}

// exitOf is the exit code that a finding asks for, 0 for none.
func exitOf(f measured.Finding) int {
	if f.Severity != SevError {
		return 0
	}
	if spec, ok := findings[f.ID]; ok {
		return spec.exit
	}
	return exitBug
}

// FindingIDs lists the ids of the table, sorted.
func FindingIDs() []string {
	ids := make([]string, 0, len(findings))
	for id := range findings {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}
