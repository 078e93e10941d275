package engine

import "rankmap/internal/units"

// Serving is how an inference engine schedules requests and what its host spends.
type Serving struct {
	Name    string
	Budget  int            // tokens that a step may carry on one attention replica; 0 = no limit
	Seqs    int            // sequences that run at once on one replica at most, unless the user says more; 0 = no limit
	Whole   bool           // prompts are never cut: a step takes whole prompts up to the budget
	Apart   bool           // prompts have steps of their own and decode waits; otherwise both share steps
	Step    units.Duration // of the host, each step and stage, not hidden behind the GPU: scheduling, inputs, sampling, output
	Request units.Duration // of the host, each request: from the client to the scheduler, and the first token back
	Launch  units.Duration // of the host, each kernel outside CUDA graphs
	Eager   bool           // decode steps run outside CUDA graphs as well; steps with prompts always do
	Lag     float64        // running steps that a new request waits for: 0.5 = it joins the next one
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
// 4 and 8 clients; Launch, tried at 5, 15, 30, 50 and 70 us, is what costs the H200 points least in both times together.
// It holds what the host does for a kernel beside starting it: Python, quantization, Triton's launcher.
func ServingOf(name, _ string) Serving {
	s := Serving{Name: "vllm", Budget: 8192, Seqs: 1024, Step: units.Micros(500), Request: units.Millis(25), Launch: units.Micros(30), Lag: 0.5, Gather: 10}
	switch name {
	case "sglang":
		s.Name, s.Seqs, s.Apart, s.Launch = name, 4096, true, units.Micros(50)
	case "trtllm":
		s.Name, s.Seqs, s.Whole, s.Lag, s.Step, s.Launch = name, 2048, true, 1, units.Micros(100), units.Micros(50)
	}
	return s
}
