package engine

import "rankmap/internal/units"

// Serving is how an inference engine schedules requests and what its host spends.
type Serving struct {
	Name     string
	Budget   int            // tokens that a step may carry on one attention replica; 0 = no limit
	Seqs     int            // sequences that run at once on one replica at most, unless the user says more; 0 = no limit
	Whole    bool           // prompts are never cut: a step takes whole prompts up to the budget
	Apart    bool           // prompts have steps of their own and decode waits; otherwise both share steps
	Step     units.Duration // of the host, each step and stage, not hidden behind the GPU: scheduling, inputs, sampling, output
	Workers  units.Duration // of the host, each step and stage more where one scheduler drives several worker processes and waits for them
	Pipeline units.Duration // likewise in a pipeline, where the engine cannot schedule ahead of the running step
	Request  units.Duration // of the host, each request: from the client to the scheduler, and the first token back
	Launch   units.Duration // of the host, each kernel outside CUDA graphs
	Eager    bool           // decode steps run outside CUDA graphs as well; steps with prompts always do
	Lag      float64        // running steps that a new request waits for: 0.5 = it joins the next one
	// Gather is how many steps attention replicas that step together hold prompts back, so that several start at once.
	Gather float64
	// Halves says that a step over experts is cut in two batches, whose exchanges run beside each other's computation.
	Halves bool
}

// ServingOf is what is known of an engine; an unknown or empty name is a usual one, vLLM's defaults.
//
// Limits are defaults on GPUs with 70 GB and more: vLLM max_num_batched_tokens 8192 and max_num_seqs 1024 for its server
// (engine/arg_utils.py, pull request 12369), SGLang chunked_prefill_size 8192 and at most 4096 requests (server_args.py),
// TensorRT-LLM max_num_tokens 8192 and max_batch_size 2048, without chunked context. SGLang runs waiting prompts before it
// decodes again (scheduler.py get_next_batch_to_run, no --enable-mixed-chunk); the others mix. TensorRT-LLM's overlap
// scheduler takes requests in one step late. Gather is batching_wait_iters of published TensorRT-LLM configurations with
// attention data parallelism (InferenceMAX).
//
// Step, Request and Launch are not published. Step and Request are round numbers that agree with Llama-3.1-70B on H200 at
// 4 and 8 clients. Launch is from the H200 points whose prompts the host binds, of up to 8 clients and 1,024 tokens: by network
// they ask for 19 to 45 us of vLLM (4 networks), 54 to 140 of SGLang (5; DeepSeek 83 to 94, GLM-5 80) and 39 to 92 of
// TensorRT-LLM (4). It holds what the host does for a kernel beside starting it: Python, quantization, Triton's launcher.
//
// vLLM schedules beside the running step since 0.14 (release notes: async scheduling by default). Before, a step of several
// worker processes takes a millisecond more: what Llama-3.1-70B on H200, whose rows state no version, lacks at 4 and 8 clients
// with tp 2 to 8 (0.7 to 1.2 ms), and not with tp 1. Qwen3-32B on H100 with 0.12 had no part in it.
// SGLang turns scheduling beside the running step off in a pipeline (server_args.py _handle_pipeline_parallelism): the same
// millisecond a stage.
func ServingOf(name, version string) Serving {
	s := Serving{Name: "vllm", Budget: 8192, Seqs: 1024, Step: units.Micros(500), Request: units.Millis(25), Launch: units.Micros(30), Lag: 0.5, Gather: 10}
	switch name {
	case "vllm":
		if _, ok := parseVersion(version); ok && older(version, "0.14") {
			s.Workers = units.Millis(1)
		}
	case "sglang":
		s.Name, s.Seqs, s.Apart, s.Launch, s.Pipeline = name, 4096, true, units.Micros(80), units.Millis(1)
	case "trtllm":
		s.Name, s.Seqs, s.Whole, s.Lag, s.Step, s.Launch = name, 2048, true, 1, units.Micros(100), units.Micros(50)
	}
	return s
}

// HostBound is the host's time for a kernel in steps that run outside CUDA graphs: those with prompts, and decode where the
// user turned graphs off; 0 in the others.
func (s Serving) HostBound(decode bool) units.Duration {
	if decode && !s.Eager {
		return 0
	}
	return s.Launch
}
