package validate

import (
	"fmt"
	"strconv"
)

// Place is where a launcher put this process.
type Place struct {
	Launcher  string // "torchrun", "slurm", ...; empty when no launcher started us
	Rank      int
	World     int
	LocalRank int
	Master    string // host of rank 0, where the launcher says; may be empty
	OneNode   bool   // the launcher says that all processes are on this node
}

// launcherVars are the variables of each launcher, in order of precedence: those that are set for each process come before
// those that an outer allocation leaves behind. Kubernetes says nothing of the world's size but through LWS.
var launcherVars = []struct {
	name, rank, world, local, master, here string // here: processes of this node
}{
	{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "LOCAL_WORLD_SIZE"},
	{"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "", "OMPI_COMM_WORLD_LOCAL_SIZE"},
	{"PMIx", "PMIX_RANK", "PMIX_SIZE", "PMIX_LOCAL_RANK", "", "PMIX_LOCAL_SIZE"},
	{"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "", ""},
	{"LeaderWorkerSet", "LWS_WORKER_INDEX", "LWS_GROUP_SIZE", "", "LWS_LEADER_ADDRESS", ""},
	{"an indexed job", "JOB_COMPLETION_INDEX", "JOB_COMPLETIONS", "", "", ""},
}

// FindPlace reads the environment of the launchers that rankmap knows. A rank without a world size, or values that
// contradict each other, are errors: guessing would start the wrong number of processes. A Slurm shell (salloc, sbatch) sets
// the variables of its one task; that counts as no launcher. Nodes is the number of hosts of the layout: an indexed job of Kubernetes does not tell
// its size, so it is taken for one pod a node.
func FindPlace(getenv func(string) string, nodes int) (Place, error) {
	for _, v := range launcherVars {
		if v.rank == "JOB_COMPLETION_INDEX" && getenv(v.rank) != "" && getenv(v.world) == "" {
			return unsizedJob(getenv(v.rank), nodes)
		}
		if getenv(v.rank) == "" || getenv(v.world) == "" {
			continue
		}
		if v.name == "Slurm" && getenv("SLURM_STEP_ID") == "" && getenv("SLURM_STEPID") == "" {
			continue // the batch script itself
		}
		p := Place{Launcher: v.name}
		for _, f := range []struct {
			dst  *int
			name string
		}{{&p.Rank, v.rank}, {&p.World, v.world}, {&p.LocalRank, v.local}} {
			text := getenv(f.name)
			if f.name == "" || text == "" {
				continue
			}
			n, err := strconv.Atoi(text)
			if err != nil || n < 0 {
				return Place{}, fmt.Errorf("%s: %s=%q: want a whole number", v.name, f.name, text)
			}
			*f.dst = n
		}
		if p.World < 1 || p.Rank >= p.World || p.LocalRank >= p.World {
			return Place{}, fmt.Errorf("%s: rank %d, local rank %d of %d processes", v.name, p.Rank, p.LocalRank, p.World)
		}
		if v.master != "" {
			p.Master = getenv(v.master)
		}
		if v.here != "" {
			p.OneNode = getenv(v.here) == getenv(v.world)
		} else if v.name == "Slurm" {
			p.OneNode = getenv("SLURM_STEP_NUM_NODES") == "1"
		}
		return p, nil
	}
	return Place{World: 1}, nil
}

// unsizedJob is the place of a pod whose job does not tell the number of pods.
func unsizedJob(index string, nodes int) (Place, error) {
	if nodes < 2 {
		return Place{World: 1}, nil
	}
	n, err := strconv.Atoi(index)
	if err != nil || n < 0 || n >= nodes {
		return Place{}, fmt.Errorf("an indexed job: JOB_COMPLETION_INDEX=%q: want 0 to %d, one pod for each node of the layout (JOB_COMPLETIONS says another number)", index, nodes-1)
	}
	return Place{Launcher: "an indexed job", Rank: n, World: nodes}, nil
}
