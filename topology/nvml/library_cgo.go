//go:build linux && cgo

package nvml

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"os"
	"strconv"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"rankmap/internal/units"
)

// Built says whether this build can talk to the driver.
const Built = true

// libraryPaths are where the library is where the loader does not find it, as in images whose driver is mounted.
var libraryPaths = []string{"/usr/local/nvidia/lib64/libnvidia-ml.so.1", "/run/nvidia/driver/usr/lib64/libnvidia-ml.so.1",
	"/run/nvidia/driver/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1", "/usr/lib/wsl/lib/libnvidia-ml.so.1"}

// New opens libnvidia-ml.so.1. The error is an Unavailable that says what is missing.
func New() (API, error) {
	ret := nvml.Init()
	for _, path := range libraryPaths {
		if ret != nvml.ERROR_LIBRARY_NOT_FOUND {
			break
		}
		if st, err := os.Stat(path); err != nil || !st.Mode().IsRegular() || st.Mode().Perm()&0o002 != 0 || nvml.SetLibraryOptions(nvml.WithLibraryPath(path)) != nil {
			continue
		}
		ret = nvml.Init()
	}
	switch ret {
	case nvml.SUCCESS:
		return &library{handles: map[int]nvml.Device{}}, nil
	case nvml.ERROR_LIBRARY_NOT_FOUND:
		return nil, &Unavailable{Why: "libnvidia-ml.so.1 is not found: no NVIDIA driver on this host, or the container has none",
			Hint: "install the driver, or start the container with GPUs; or describe a machine with --from smi:FILE"}
	case nvml.ERROR_DRIVER_NOT_LOADED:
		return nil, &Unavailable{Why: "libnvidia-ml.so.1 finds no loaded NVIDIA driver", Hint: "load it (modprobe nvidia), see dmesg"}
	case nvml.ERROR_LIB_RM_VERSION_MISMATCH:
		return nil, &Unavailable{Why: "libnvidia-ml.so.1 and the loaded driver are of different versions", Hint: "reboot, or reload the driver after its update"}
	case nvml.ERROR_NO_PERMISSION:
		return nil, &Unavailable{Why: "libnvidia-ml.so.1: no permission to talk to the driver", Hint: "see the permissions of /dev/nvidiactl and /dev/nvidia*"}
	case nvml.ERROR_UNKNOWN:
		return nil, &Unavailable{Why: "libnvidia-ml.so.1: unknown error", Hint: "in a container, its devices may have been taken away by a reload of systemd: start it again"}
	}
	return nil, &Unavailable{Why: "libnvidia-ml.so.1: " + nvml.ErrorString(ret), Hint: "see nvidia-smi"}
}

type library struct{ handles map[int]nvml.Device }

// fail turns a return code into an error, nil on success.
func fail(ret nvml.Return) error {
	if ret == nvml.SUCCESS {
		return nil
	}
	return &Error{Code: int(ret), Text: strings.ToLower(nvml.ErrorString(ret))}
}

// has says whether the loaded library exports a function: calling one that an older library lacks would end the process.
func has(symbol string) bool { return nvml.Extensions().LookupSymbol(symbol) == nil }

var noFunction = &Error{Code: CodeNoFunction, Text: "the driver is too old for this question"}

func (l *library) device(i int) (nvml.Device, error) {
	if d, ok := l.handles[i]; ok {
		return d, nil
	}
	d, ret := nvml.DeviceGetHandleByIndex(i)
	if err := fail(ret); err != nil {
		return nil, err
	}
	l.handles[i] = d
	return d, nil
}

// call asks one device.
func call[T any](l *library, i int, get func(nvml.Device) (T, nvml.Return)) (v T, err error) {
	d, err := l.device(i)
	if err != nil {
		return v, err
	}
	v, ret := get(d)
	return v, fail(ret)
}

func (l *library) DriverVersion() (string, error) {
	v, ret := nvml.SystemGetDriverVersion()
	return v, fail(ret)
}

func (l *library) LibraryVersion() (string, error) {
	v, ret := nvml.SystemGetNVMLVersion()
	return v, fail(ret)
}

func (l *library) Count() (int, error) {
	n, ret := nvml.DeviceGetCount()
	return n, fail(ret)
}

func (l *library) Name(dev int) (string, error) { return call(l, dev, nvml.Device.GetName) }
func (l *library) UUID(dev int) (string, error) { return call(l, dev, nvml.Device.GetUUID) }

func (l *library) PCI(dev int) (string, error) {
	p, err := call(l, dev, nvml.Device.GetPciInfo)
	return busID(p), err
}

func busID(p nvml.PciInfo) string {
	var b []byte
	for _, c := range p.BusId {
		if c == 0 {
			break
		}
		b = append(b, byte(c))
	}
	return string(b)
}

func (l *library) Memory(dev int) (units.Bytes, error) {
	m, err := call(l, dev, nvml.Device.GetMemoryInfo)
	return units.Bytes(m.Total), err
}

func (l *library) Compute(dev int) (Compute, error) {
	return call(l, dev, func(d nvml.Device) (Compute, nvml.Return) {
		major, minor, ret := d.GetCudaComputeCapability()
		return Compute{major, minor}, ret
	})
}

func (l *library) MIG(dev int) (bool, error) {
	if !has("nvmlDeviceGetMigMode") {
		return false, noFunction
	}
	return call(l, dev, func(d nvml.Device) (bool, nvml.Return) {
		now, _, ret := d.GetMigMode()
		return now == nvml.DEVICE_MIG_ENABLE, ret
	})
}

func (l *library) PCIe(dev int, what PCIeField) (int, error) {
	switch what {
	case PCIeGen:
		return call(l, dev, nvml.Device.GetCurrPcieLinkGeneration)
	case PCIeMaxGen:
		return call(l, dev, nvml.Device.GetMaxPcieLinkGeneration)
	case PCIeWidth:
		return call(l, dev, nvml.Device.GetCurrPcieLinkWidth)
	case PCIeMaxWidth:
		return call(l, dev, nvml.Device.GetMaxPcieLinkWidth)
	}
	return 0, noFunction
}

// maskSize is how many CPUs or memory nodes are asked for.
const maskSize = 1024

func (l *library) NUMA(dev int) (int, error) {
	if !has("nvmlDeviceGetMemoryAffinity") {
		return 0, noFunction
	}
	set, err := call(l, dev, func(d nvml.Device) ([]uint, nvml.Return) {
		return d.GetMemoryAffinity(maskSize, nvml.AFFINITY_SCOPE_NODE)
	})
	if err != nil {
		return 0, err
	}
	only := -1
	for i, w := range set {
		for ; w != 0; w &= w - 1 {
			if only >= 0 {
				return 0, &Error{Code: CodeNotFound, Text: "it is near several nodes"}
			}
			only = i*bits.UintSize + bits.TrailingZeros(w)
		}
	}
	if only < 0 {
		return 0, &Error{Code: CodeNotSupported, Text: "no node is near"}
	}
	return only, nil
}

func (l *library) GPUNUMA(dev int) (int, error) {
	if !has("nvmlDeviceGetNumaNodeId") {
		return 0, noFunction
	}
	return call(l, dev, nvml.Device.GetNumaNodeId)
}

func (l *library) CPUs(dev int) (string, error) {
	set, err := call(l, dev, func(d nvml.Device) ([]uint, nvml.Return) { return d.GetCpuAffinity(maskSize) })
	if err != nil {
		return "", err
	}
	return ranges(set), nil
}

// ranges prints a set of bits as "0-55,112-167".
func ranges(set []uint) string {
	var parts []string
	has := func(n int) bool { return n/bits.UintSize < len(set) && set[n/bits.UintSize]>>(n%bits.UintSize)&1 == 1 }
	for n := 0; n < len(set)*bits.UintSize; n++ {
		if !has(n) {
			continue
		}
		from := n
		for has(n + 1) {
			n++
		}
		s := strconv.Itoa(from)
		if n > from {
			s += "-" + strconv.Itoa(n)
		}
		parts = append(parts, s)
	}
	return strings.Join(parts, ",")
}

// Fabric asks for the version with health first.
func (l *library) Fabric(dev int) (Fabric, error) {
	if has("nvmlDeviceGetGpuFabricInfoV") {
		if v, err := call(l, dev, func(d nvml.Device) (nvml.GpuFabricInfo_v3, nvml.Return) { return d.GetGpuFabricInfoV().V3() }); err == nil {
			return Fabric{ClusterUUID: uuidText(v.ClusterUuid), CliqueID: v.CliqueId, State: int(v.State), Status: int(v.Status), HealthMask: v.HealthMask, Summary: int(v.HealthSummary)}, nil
		}
		v, err := call(l, dev, func(d nvml.Device) (nvml.GpuFabricInfo_v2, nvml.Return) { return d.GetGpuFabricInfoV().V2() })
		if err == nil {
			return Fabric{ClusterUUID: uuidText(v.ClusterUuid), CliqueID: v.CliqueId, State: int(v.State), Status: int(v.Status), HealthMask: v.HealthMask}, nil
		}
	}
	if !has("nvmlDeviceGetGpuFabricInfo") {
		return Fabric{}, noFunction
	}
	v, err := call(l, dev, nvml.Device.GetGpuFabricInfo)
	return Fabric{ClusterUUID: uuidText(v.ClusterUuid), CliqueID: v.CliqueId, State: int(v.State), Status: int(v.Status)}, err
}

func uuidText(b [16]uint8) string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:16])
}

// field reads one value of the table of fields. scope is the link where the field has one.
func (l *library) field(dev int, id, scope uint32) (uint64, error) {
	if !has("nvmlDeviceGetFieldValues") {
		return 0, noFunction
	}
	d, err := l.device(dev)
	if err != nil {
		return 0, err
	}
	v := []nvml.FieldValue{{FieldId: id, ScopeId: scope}}
	if err := fail(d.GetFieldValues(v)); err != nil {
		return 0, err
	}
	if err := fail(nvml.Return(v[0].NvmlReturn)); err != nil {
		return 0, err
	}
	switch nvml.ValueType(v[0].ValueType) {
	case nvml.VALUE_TYPE_UNSIGNED_INT, nvml.VALUE_TYPE_SIGNED_INT:
		return uint64(binary.LittleEndian.Uint32(v[0].Value[:4])), nil
	case nvml.VALUE_TYPE_UNSIGNED_LONG, nvml.VALUE_TYPE_UNSIGNED_LONG_LONG, nvml.VALUE_TYPE_SIGNED_LONG_LONG:
		return binary.LittleEndian.Uint64(v[0].Value[:]), nil
	}
	return 0, &Error{Code: CodeUnknown, Text: "the driver answers in an unknown type"}
}

func (l *library) LinkCount(dev int) (int, error) {
	v, err := l.field(dev, nvml.FI_DEV_NVLINK_LINK_COUNT, 0)
	return int(min(v, MaxLinks+1)), err
}

func (l *library) LinkState(dev, link int) (bool, error) {
	if !has("nvmlDeviceGetNvLinkState") {
		return false, noFunction
	}
	return call(l, dev, func(d nvml.Device) (bool, nvml.Return) {
		s, ret := d.GetNvLinkState(link)
		return s == nvml.FEATURE_ENABLED, ret
	})
}

func (l *library) LinkVersion(dev, link int) (int, error) {
	v, err := call(l, dev, func(d nvml.Device) (uint32, nvml.Return) { return d.GetNvLinkVersion(link) })
	return int(v), err
}

func (l *library) LinkRemotePCI(dev, link int) (string, error) {
	p, err := call(l, dev, func(d nvml.Device) (nvml.PciInfo, nvml.Return) { return d.GetNvLinkRemotePciInfo(link) })
	return busID(p), err
}

func (l *library) LinkRemoteType(dev, link int) (RemoteType, error) {
	if !has("nvmlDeviceGetNvLinkRemoteDeviceType") {
		return 0, noFunction
	}
	t, err := call(l, dev, func(d nvml.Device) (nvml.IntNvLinkDeviceType, nvml.Return) { return d.GetNvLinkRemoteDeviceType(link) })
	return RemoteType(t), err
}

// speedFields are the fields of links 0 to 11; later links have only the one with a scope.
var speedFields = []uint32{
	nvml.FI_DEV_NVLINK_SPEED_MBPS_L0, nvml.FI_DEV_NVLINK_SPEED_MBPS_L1, nvml.FI_DEV_NVLINK_SPEED_MBPS_L2, nvml.FI_DEV_NVLINK_SPEED_MBPS_L3,
	nvml.FI_DEV_NVLINK_SPEED_MBPS_L4, nvml.FI_DEV_NVLINK_SPEED_MBPS_L5, nvml.FI_DEV_NVLINK_SPEED_MBPS_L6, nvml.FI_DEV_NVLINK_SPEED_MBPS_L7,
	nvml.FI_DEV_NVLINK_SPEED_MBPS_L8, nvml.FI_DEV_NVLINK_SPEED_MBPS_L9, nvml.FI_DEV_NVLINK_SPEED_MBPS_L10, nvml.FI_DEV_NVLINK_SPEED_MBPS_L11,
}

func (l *library) LinkSpeed(dev, link int) (units.Bandwidth, error) {
	v, err := l.field(dev, nvml.FI_DEV_NVLINK_GET_SPEED, uint32(link))
	if (err != nil || v == 0) && link < len(speedFields) {
		v, err = l.field(dev, speedFields[link], 0)
	}
	if err != nil || v == 0 {
		v, err = l.field(dev, nvml.FI_DEV_NVLINK_SPEED_MBPS_COMMON, 0)
	}
	return units.Bandwidth(float64(v) * 1e6), err
}

func (l *library) Ancestor(a, b int) (Ancestor, error) {
	other, err := l.device(b)
	if err != nil {
		return 0, err
	}
	t, err := call(l, a, func(d nvml.Device) (nvml.GpuTopologyLevel, nvml.Return) { return d.GetTopologyCommonAncestor(other) })
	return Ancestor(t), err
}

func (l *library) P2P(a, b int, what P2PKind) (P2PStatus, error) {
	if !has("nvmlDeviceGetP2PStatus") {
		return 0, noFunction
	}
	other, err := l.device(b)
	if err != nil {
		return 0, err
	}
	index := map[P2PKind]nvml.GpuP2PCapsIndex{P2PRead: nvml.P2P_CAPS_INDEX_READ, P2PWrite: nvml.P2P_CAPS_INDEX_WRITE, P2PNVLink: nvml.P2P_CAPS_INDEX_NVLINK}[what]
	s, err := call(l, a, func(d nvml.Device) (nvml.GpuP2PStatus, nvml.Return) { return d.GetP2PStatus(other, index) })
	return P2PStatus(s), err
}

func (l *library) Close() error { return fail(nvml.Shutdown()) }
