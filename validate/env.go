package validate

import (
	"slices"
	"strings"
)

// passEnv are the variables that a child needs beside NCCL_* and CUDA_*: where libraries and temporary files are, and
// what container runtimes and drivers read. Nothing else crosses, so that no credentials or preloads do.
var passEnv = []string{
	"PATH", "HOME", "USER", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "CONDA_PREFIX",
	"NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES", "NVSHMEM_DISABLE_NVLS", "TORCH_SYMM_MEM_DISABLE_MULTICAST",
	"UCX_TLS", "UCX_NET_DEVICES", "FI_PROVIDER", "FI_EFA_USE_DEVICE_RDMA",
}

// setByUs are overridden for the children: the log belongs to us; NCCL_COMM_ID has a constant secret; RAS would listen
// on the port of a running job.
var setByUs = []string{"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE", "NCCL_COMM_ID", "NCCL_COMM_BLOCKING", "NCCL_RAS_ENABLE"}

// ChildEnv filters an environment for the children and lists the NCCL_* and CUDA_* variables that cross, for the report.
func ChildEnv(environ []string) (env, shown []string) {
	for _, kv := range environ {
		name, _, ok := strings.Cut(kv, "=")
		if !ok || slices.Contains(setByUs, name) {
			continue
		}
		tuning := strings.HasPrefix(name, "NCCL_") || strings.HasPrefix(name, "CUDA_")
		if tuning {
			shown = append(shown, kv)
		}
		// The stand-in libraries of the tests read FAKE_*.
		if tuning || slices.Contains(passEnv, name) || strings.HasPrefix(name, "FAKE_NCCL_") || strings.HasPrefix(name, "FAKE_CUDA_") {
			env = append(env, kv)
		}
	}
	env = append(env, "NCCL_RAS_ENABLE=0")
	if !slices.ContainsFunc(env, func(kv string) bool { return strings.HasPrefix(kv, "NCCL_IGNORE_NET_MISMATCH=") }) {
		env = append(env, "NCCL_IGNORE_NET_MISMATCH=0") // unequal NICs fail instead of hanging
	}
	if !slices.ContainsFunc(env, func(kv string) bool { return strings.HasPrefix(kv, "CUDA_DEVICE_ORDER=") }) {
		env = append(env, "CUDA_DEVICE_ORDER=PCI_BUS_ID") // NVML's order, which layouts count by
	}
	slices.Sort(env)
	slices.Sort(shown)
	return env, shown
}
