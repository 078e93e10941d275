package validate

import (
	"rankmap/internal/measured"
	"rankmap/internal/parallel"
)

// Orders is what a child reads on its standard input: everything it needs, the token included, so that nothing secret
// stands in argv or in the environment.
type Orders struct {
	Address string  `json:"address"`
	JobID   string  `json:"jobId"`
	Token   []byte  `json:"token"`
	Rank    int     `json:"rank"`
	World   int     `json:"world"`
	Device  JobRank `json:"device"`
	NCCLLib string  `json:"ncclLib,omitempty"` // --nccl-lib
	LogDir  string  `json:"logDir,omitempty"`  // where NCCL's log goes

	Deadlines Deadlines          `json:"deadlines"`
	Net       NetFacts           `json:"net"`                // of the node, where several take part
	Findings  []measured.Finding `json:"findings,omitempty"` // of the launched copy's preflight, for the coordinator
}

// facts is what a rank found, sent before anything is created.
type facts struct {
	Host      string   `json:"host"`
	PID       int      `json:"pid"`
	Problem   *problem `json:"problem,omitempty"` // why it cannot take part
	NCCL      int      `json:"nccl"`
	NCCLPath  string   `json:"ncclPath"`
	OtherNCCL []string `json:"otherNccl,omitempty"`
	CUDA      int      `json:"cuda"`
	Driver    int      `json:"driver"`
	CUDAPath  string   `json:"cudaPath"`
	Devices   int      `json:"devices"`
	Device    int      `json:"device"`
	UUID      string   `json:"uuid"`
	PCI       string   `json:"pci"`
	Name      string   `json:"name"`
	Free      int64    `json:"free"`
	Total     int64    `json:"total"`
	NoPeer    []string `json:"noPeer,omitempty"` // PCI ids that this GPU cannot reach directly
	AllToAll  bool     `json:"allToAll"`

	Net      NetFacts           `json:"net"`
	Findings []measured.Finding `json:"findings,omitempty"`
}

// problem is a failure on a rank in the words of the finding table.
type problem struct {
	ID     string `json:"id"`
	Detail string `json:"detail"`
	Result int    `json:"result,omitempty"` // NCCL's code
}

// idBody carries the communicator's id.
type idBody struct {
	ID []byte `json:"id"`
}

// Kinds of step.
const (
	doInit   = "init"   // create the world communicator and one for each family
	doVerify = "verify" // run once on fresh data and compare
	doTime   = "time"
	doQuiet  = "quiet"  // NCCL's log off
	doPairs  = "pairs"  // create the communicator of the pair tests
	doPair   = "pair"   // one-way transfer over it
	doListen = "listen" // open a port for the other nodes
	doReach  = "reach"  // connect to the other nodes
)

// call is one collective of a step. Family indexes the job's families; -1 is the world communicator.
type call struct {
	Family int         `json:"family"`
	Op     parallel.Op `json:"op"`
	Bytes  int64       `json:"bytes"`
	DType  string      `json:"dtype"`
	Times  int         `json:"times,omitempty"` // 0 means 1
	// Pair names the two members (positions) of a send/recv inside a larger group; equal values mean that every member
	// sends to the next and receives from the one before.
	Pair [2]int `json:"pair,omitempty"`
}

// step is one order to the participants. All get the same bytes.
type step struct {
	Do       string `json:"do"`
	Calls    []call `json:"calls,omitempty"`
	Eager    bool   `json:"eager,omitempty"`
	Warm     int    `json:"warm,omitempty"`
	Inner    int    `json:"inner,omitempty"`
	Batches  int    `json:"batches,omitempty"`
	Native   bool   `json:"native,omitempty"`
	Blocking bool   `json:"blocking,omitempty"`
	From     int    `json:"from,omitempty"` // of a pair: world ranks
	To       int    `json:"to,omitempty"`
	LimitMs  int64  `json:"limitMs"`
	// Targets are the nodes that listen.
	Targets []target `json:"targets,omitempty"`
	// Pairs are several one-way transfers at once: each rank takes the pair that it is in.
	Pairs [][2]int `json:"pairs,omitempty"`
	// Families of an init: the members of each group, by family and group.
	Families [][][]int `json:"families,omitempty"`
}

// result answers a step.
type result struct {
	Problem  *problem         `json:"problem,omitempty"`
	BatchUs  []float64        `json:"batchUs,omitempty"` // one collective (or one pass over a mix), averaged over a batch
	Wrong    int64            `json:"wrong,omitempty"`
	FirstBad int64            `json:"firstBad,omitempty"`
	Choice   *measured.Choice `json:"choice,omitempty"`
	InPlace  bool             `json:"inPlace,omitempty"`
	Logging  bool             `json:"logging,omitempty"` // the log could not be switched off
	Net      *netUse          `json:"net,omitempty"`     // with doQuiet: how it reached other nodes
	Addr     string           `json:"addr,omitempty"`
	WallNs   int64            `json:"wallNs,omitempty"`

	Unreached []unreached `json:"unreached,omitempty"`
}

// stopBody tells how the run ends, so that all copies of a launched run end alike.
type stopBody struct {
	Exit int `json:"exit"`
}

// note tells the supervisor where a rank is.
type note struct {
	Phase string `json:"phase"`
}
