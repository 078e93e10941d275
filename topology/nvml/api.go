package nvml

import (
	"fmt"

	"rankmap/internal/units"
)

// API is what Walk asks. Devices are numbered from 0 to Count-1, as NVML numbers them: by PCI address.
type API interface {
	DriverVersion() (string, error)
	LibraryVersion() (string, error)
	Count() (int, error)

	Name(dev int) (string, error)
	UUID(dev int) (string, error)
	// PCI is the address as the library prints it, "00000000:00:06.0".
	PCI(dev int) (string, error)
	Memory(dev int) (units.Bytes, error)
	Compute(dev int) (Compute, error)
	MIG(dev int) (bool, error)
	PCIe(dev int, what PCIeField) (int, error)
	// NUMA is the CPU node whose memory is nearest; GPUNUMA the node that the GPU's own memory is (coherent systems).
	NUMA(dev int) (int, error)
	GPUNUMA(dev int) (int, error)
	// CPUs is the ideal CPU set as ranges, "0-55,112-167".
	CPUs(dev int) (string, error)
	Fabric(dev int) (Fabric, error)

	// LinkCount is how many NVLinks the device has; most drivers before 2021 cannot say.
	LinkCount(dev int) (int, error)
	LinkState(dev, link int) (bool, error)
	LinkVersion(dev, link int) (int, error)
	LinkRemotePCI(dev, link int) (string, error)
	LinkRemoteType(dev, link int) (RemoteType, error)
	// LinkSpeed is the rate one way.
	LinkSpeed(dev, link int) (units.Bandwidth, error)

	// Ancestor is the nearest common point of two devices on the PCI tree.
	Ancestor(a, b int) (Ancestor, error)
	// P2P says whether peer-to-peer copies work.
	P2P(a, b int, what P2PKind) (P2PStatus, error)

	Close() error
}

// MaxLinks is NVML's bound on links (NVML_NVLINK_MAX_LINKS), not the number that any GPU has.
const MaxLinks = 36

// Compute is a compute capability.
type Compute struct{ Major, Minor int }

// PCIeField is one figure of the slot.
type PCIeField string

// The figures of the slot.
const (
	PCIeGen      PCIeField = "gen"
	PCIeMaxGen   PCIeField = "maxGen"
	PCIeWidth    PCIeField = "width"
	PCIeMaxWidth PCIeField = "maxWidth"
)

// Fabric is what a GPU says about the NVLink fabric beyond its board.
type Fabric struct {
	ClusterUUID string // hexadecimal digits with dashes; all zero means none
	CliqueID    uint32
	State       int    // nvmlGpuFabricState_t
	Status      int    // nvmlReturn_t of the last step; only meaningful once completed
	HealthMask  uint32 // 0 where the driver does not report health
	Summary     int    // nvmlGpuFabricHealthSummary; 0 not reported
}

// The states of the fabric (NVML_GPU_FABRIC_STATE_*).
const (
	FabricNotSupported = 0
	FabricNotStarted   = 1
	FabricInProgress   = 2
	FabricCompleted    = 3
)

// RemoteType is what an NVLink ends at.
type RemoteType int

// The remote ends (NVML_NVLINK_DEVICE_TYPE_*).
const (
	RemoteGPU     RemoteType = 0
	RemoteIBMNPU  RemoteType = 1 // POWER processor
	RemoteSwitch  RemoteType = 2
	RemoteUnknown RemoteType = 255
)

// Ancestor is the common point of two devices (nvmlGpuTopologyLevel_t).
type Ancestor int

// The common points.
const (
	AncestorInternal   Ancestor = 0
	AncestorSingle     Ancestor = 10
	AncestorMultiple   Ancestor = 20
	AncestorHostBridge Ancestor = 30
	AncestorNode       Ancestor = 40
	AncestorSystem     Ancestor = 50
)

// P2PKind is a way of peer-to-peer copy.
type P2PKind string

// The ways.
const (
	P2PRead   P2PKind = "read"
	P2PWrite  P2PKind = "write"
	P2PNVLink P2PKind = "nvlink"
)

// P2PStatus says why peer-to-peer copies do not work (nvmlGpuP2PStatus_t); 0 is that they do.
type P2PStatus int

// The statuses.
const (
	P2POK      P2PStatus = 0
	P2PUnknown P2PStatus = 6
)

var p2pWords = []string{"OK", "the chipset does not support it", "the GPU does not support it", "the topology does not support it",
	"it is switched off in the driver", "it is not supported", "unknown"}

// String says it in words.
func (s P2PStatus) String() string {
	if s >= 0 && int(s) < len(p2pWords) {
		return p2pWords[s]
	}
	return fmt.Sprintf("status %d", int(s))
}

// Error is a failure of one question.
type Error struct {
	Code int    `json:"code"` // nvmlReturn_t
	Text string `json:"text"`
}

// The codes that Walk tells apart (nvmlReturn_t).
const (
	CodeUninitialized   = 1
	CodeInvalidArgument = 2
	CodeNotSupported    = 3
	CodeNoPermission    = 4
	CodeNotFound        = 6
	CodeDriverNotLoaded = 9
	CodeNoLibrary       = 12
	CodeNoFunction      = 13
	CodeLost            = 15
	CodeResetRequired   = 16
	CodeVersionMismatch = 18
	CodeUnknown         = 999
)

// Error returns the library's text.
func (e *Error) Error() string { return e.Text }

// Unavailable says why there is no NVML: no such build, no library, no driver.
type Unavailable struct {
	Why  string
	Hint string
}

// Error returns why.
func (e *Unavailable) Error() string { return e.Why }
