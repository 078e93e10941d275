package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"rankmap/validate"
)

// rankCommand is the hidden sub-command of the child processes of validate. It takes no flags: its orders, the token
// among them, come on standard input.
const rankCommand = "validate-rank"

func newValidateRankCmd(d *deps) *cobra.Command {
	return &cobra.Command{
		Use:    rankCommand,
		Short:  "One rank of validate; started by it",
		Hidden: true,
		Args:   noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// SIGTERM must end a process that hangs in a library: the kernel's default action does, a handler in Go
			// would not. SIGINT is the parent's business; the child's process group does not get the terminal's.
			signal.Reset(syscall.SIGTERM, os.Interrupt)
			if code := validate.RankMain(context.WithoutCancel(cmd.Context()), os.Stdin, d.Stderr); code != 0 {
				return silent(code)
			}
			return nil
		},
	}
}
