package whatif

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"rankmap/planner"
)

// inference lists the tasks but training.
var inference = []planner.Task{planner.Serve, planner.PrefillOnly, planner.DecodeOnly}

// keyTasks are the tasks whose price a key of the workload goes into, and what to set in the others; keys that are not here
// go into all.
var keyTasks = map[string]struct {
	tasks   []planner.Task
	instead string
}{
	"isl":      {inference, "set seq-len"},
	"osl":      {inference, "set seq-len"},
	"kv-cache": {inference, "training holds no cache"},
	"seq-len":  {[]planner.Task{planner.TrainStep}, "set isl or osl"},
}

// suits refuses a quantity that the task does not look at: it would change nothing.
func (s Setting) suits(p *Problem) error {
	task := planner.Task(p.Workload.Task)
	if k, some := keyTasks[s.Key]; some && task != "" && !slices.Contains(k.tasks, task) {
		var names []string
		for _, t := range k.tasks {
			names = append(names, string(t))
		}
		return fmt.Errorf("%s is about task %s, the task is %s: %s", s.Key, strings.Join(names, ", "), task, k.instead)
	}
	if s.Key == "experts.redundant" && s.Num > 0 && task == planner.TrainStep {
		return fmt.Errorf("experts.redundant: training holds every expert once")
	}
	return nil
}

// ncclVersion is how NCCL numbers itself since 2017: 2.MINOR[.PATCH], or the code of ncclGetVersion, 22809 for 2.28.9.
var ncclVersion = regexp.MustCompile(`^(2\.\d{1,2}(\.\d{1,2})?|2\d{4})$`)

// checkNCCL refuses what is no version of NCCL.
func checkNCCL(v string) error {
	if !ncclVersion.MatchString(v) {
		return fmt.Errorf("%q is no version of NCCL: want 2.MINOR or 2.MINOR.PATCH, such as 2.28", v)
	}
	return nil
}
