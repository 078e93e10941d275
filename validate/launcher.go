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
}

// launcherVars are the variables of each launcher, in order of precedence: those that are set for each process come before
// those that an outer allocation leaves behind. Kubernetes says nothing of the world's size but through LWS.
var launcherVars = []struct {
	name, rank, world, local, master string
}{
	{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR"},
	{"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", ""},
	{"PMIx", "PMIX_RANK", "PMIX_SIZE", "PMIX_LOCAL_RANK", ""},
	{"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", ""},
	{"LeaderWorkerSet", "LWS_WORKER_INDEX", "LWS_GROUP_SIZE", "", "LWS_LEADER_ADDRESS"},
	{"an indexed job", "JOB_COMPLETION_INDEX", "JOB_COMPLETIONS", "", ""},
}

// FindPlace reads the environment of the launchers that rankmap knows. A rank without a world size, or values that
// contradict each other, are errors: guessing would start the wrong number of processes. A Slurm shell (salloc, sbatch) sets
// the variables of its one task; that counts as no launcher.
func FindPlace(getenv func(string) string) (Place, error) {
	for _, v := range launcherVars {
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
		return p, nil
	}
	return Place{World: 1}, nil
}
