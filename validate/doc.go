// Package validate runs the collectives of a rank layout on real GPUs and says whether they take as long as predicted.
//
// One run, in order:
//
//  1. A Job is made from the layout: ranks, groups, the collectives of each group with their predicted times.
//  2. Preflight looks at the node (nvidia-smi, /dev/shm, limits) before any CUDA call.
//  3. The parent listens on loopback and starts one child process a GPU: this binary with a hidden sub-command.
//  4. Children join with the job's token and report facts: libraries, versions, which GPU they hold. The parent compares
//     them; only when all fits does rank 0 make the NCCL id and the others get it.
//  5. The parent, as coordinator, sends steps (make communicators, verify, time). Every participant gets the same step, so
//     no two ranks ever call a collective a different number of times.
//  6. Results become verdicts; where a group is slow, pairs of its members are timed to find the member.
//  7. A report is written, whatever happened.
//
// Under a launcher (srun, mpirun, torchrun, Kubernetes) every rank's process is a copy of this program that starts one child;
// rank 0's copy is the coordinator as well. Its token then comes from RANKMAP_TOKEN or a file.
//
// NCCL runs only in the children: whatever hangs there is ended by deadlines and, in the end, by SIGKILL to the child's
// process group. The parent never calls CUDA or NCCL.
package validate
