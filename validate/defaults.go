package validate

import "time"

// Deadlines are all waits of a run. The origin of each figure: the failure study behind the project's test list, which
// compared NCCL (RAS 1/5/20/60 s), torchelastic (join 600 s), DCGM (SIGTERM grace 10 s) and Slurm (KillWait 30 s).
type Deadlines struct {
	Preflight  time.Duration // nvidia-smi and files; the driver can take 10 s after a cold start
	Join       time.Duration // all children joined
	JoinReport time.Duration // between messages about who is missing
	Facts      time.Duration // libraries opened, device found
	Init       time.Duration // communicator created; plus InitPer64 for each 64 ranks
	InitPer64  time.Duration
	Step       time.Duration // least time for one step
	StepFactor float64       // a step may take this many times what is expected
	Grace      time.Duration // between "stop" and SIGTERM, and between SIGTERM and SIGKILL
	KillWait   time.Duration // a process that outlives SIGKILL this long is unkillable
	Silence    time.Duration // without a heartbeat a rank is lost
	Total      time.Duration // the whole run
	Linger     time.Duration // a launched copy whose rank failed ends this much later, so that the launcher lets the leading one report
}

// DefaultDeadlines returns the values in force unless flags say otherwise.
func DefaultDeadlines() Deadlines {
	return Deadlines{
		Preflight:  30 * time.Second,
		Join:       120 * time.Second,
		JoinReport: 10 * time.Second,
		Facts:      60 * time.Second,
		Init:       60 * time.Second,
		InitPer64:  time.Second,
		Step:       10 * time.Second,
		StepFactor: 20,
		Grace:      5 * time.Second,
		KillWait:   30 * time.Second,
		Silence:    5 * time.Second,
		Total:      5 * time.Minute,
		Linger:     7 * time.Second, // a second for the cause, the grace, and one for the report
	}
}

// Measuring says how much is measured.
type Measuring struct {
	Sweep       []int64 // sizes in bytes beside the layout's own
	BatchUs     float64 // a batch lasts at least this long, so that the clock's 0.5 us vanish
	MaxInner    int     // collectives in one batch at most
	Batches     int     // batches that count
	Warm        int     // calls before anything counts
	Graph       bool
	Eager       bool
	Siblings    bool
	Mix         bool
	Pairs       bool  // find the slow member
	PairBytes   int64 // size of a pair test
	MaxBytes    int64 // larger sizes are skipped with a note; 0 = by free memory alone
	NativeA2A   bool  // ncclAlltoAll where the library has it
	Blocking    bool  // communicators that are timed block, as engines' do
	AllGroups   bool  // every group alone; else only the first of each kind and all at once
	MemoryShare float64
}

// DefaultMeasuring returns the values in force unless flags say otherwise.
func DefaultMeasuring() Measuring {
	return Measuring{
		Sweep:    []int64{1 << 10, 16 << 10, 256 << 10, 4 << 20, 64 << 20, 256 << 20},
		BatchUs:  500, // 0.1 % of resolution
		MaxInner: 100,
		Batches:  25, // p10 and p90 have two or three values beyond them
		Warm:     5,
		Graph:    true, Eager: true, Siblings: true, Mix: true, Pairs: true,
		PairBytes:   64 << 20, // past every latency effect on NVLink and PCIe
		Blocking:    true,
		AllGroups:   true,
		MemoryShare: 0.5, // of what is free
	}
}

// Thresholds of judgement.
const (
	// unstableSpread is (p90-p10)/median over which a measurement is not judged. Quiet H200 pairs show below 0.05 with
	// graphs, eager small messages up to 0.2.
	unstableSpread = 0.35
	// slowGroup is how many times the upper end of the interval a group must take before its members are tested: 3 % beyond it
	// is an interval that was drawn too narrow, not a sick part.
	slowGroup = 1.1
	// slowPair is how many times the median of all pairs a pair must take, in both rounds, to be blamed.
	slowPair = 1.25
	// minShm is what NCCL's troubleshooting page asks for containers (--shm-size=1g).
	minShm = 1 << 30
	// minNoFile open files are what one rank needs at least, goodNoFile what larger groups take without trouble (a socket a
	// channel and peer).
	minNoFile, goodNoFile = 128, 1024
	// shmPerPair is NCCL's order of magnitude of shared memory for one pair of local ranks.
	shmPerPair = 10 << 20
)
