package validate

import (
	"strings"
	"testing"
)

func TestFindPlace(t *testing.T) {
	for _, c := range []struct {
		name string
		env  string
		want Place
	}{
		{"nothing", "", Place{World: 1}},
		{"torchrun", "RANK=3 WORLD_SIZE=8 LOCAL_RANK=1 MASTER_ADDR=n0 MASTER_PORT=29500", Place{"torchrun", 3, 8, 1, "n0", false}},
		{"mpirun", "OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=0 PMIX_RANK=2", Place{"Open MPI", 2, 4, 0, "", false}},
		{"srun", "SLURM_PROCID=5 SLURM_NTASKS=16 SLURM_LOCALID=5 SLURM_STEP_ID=0", Place{"Slurm", 5, 16, 5, "", false}},
		{"a shell of salloc", "SLURM_PROCID=0 SLURM_NTASKS=16 SLURM_LOCALID=0", Place{World: 1}},
		{"torchrun inside srun", "RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 SLURM_PROCID=0 SLURM_NTASKS=1 SLURM_STEP_ID=3", Place{"torchrun", 1, 2, 1, "", false}},
		{"LeaderWorkerSet", "LWS_WORKER_INDEX=1 LWS_GROUP_SIZE=2 LWS_LEADER_ADDRESS=l.svc", Place{"LeaderWorkerSet", 1, 2, 0, "l.svc", false}},
		{"a stray RANK", "RANK=3", Place{World: 1}},
	} {
		if got, err := FindPlace(lookup(c.env), 2); err != nil || got != c.want {
			t.Errorf("%s: %+v, %v; want %+v", c.name, got, err, c.want)
		}
	}
	for _, bad := range []string{"RANK=x WORLD_SIZE=2", "RANK=2 WORLD_SIZE=2", "RANK=-1 WORLD_SIZE=2", "RANK=0 WORLD_SIZE=0", "RANK=0 WORLD_SIZE=2 LOCAL_RANK=7"} {
		if p, err := FindPlace(lookup(bad), 2); err == nil {
			t.Errorf("%s: %+v", bad, p)
		}
	}
}

func lookup(env string) func(string) string {
	m := map[string]string{}
	for kv := range strings.FieldsSeq(env) {
		k, v, _ := strings.Cut(kv, "=")
		m[k] = v
	}
	return func(k string) string { return m[k] }
}
