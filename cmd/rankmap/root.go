package main

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"
)

// version is set by the release build: -ldflags "-X main.version=v1.2.3".
var version = "dev"

// run executes one command line and returns the exit code.
func run(ctx context.Context, d *deps, args []string) int {
	root := newRootCmd(d)
	root.SetArgs(args)
	return finish(d, root.ExecuteContext(ctx))
}

// commands lists the sub-commands, in the order of the help text. Each lives in a file of its own.
var commands = []func(*deps) *cobra.Command{
	newPlanCmd,
	newModelCmd,
	newDiscoverCmd,
	newValidateCmd, newValidateRankCmd,
	newCalibrateCmd,
	newWhatIfCmd,
}

func newRootCmd(d *deps) *cobra.Command {
	root := &cobra.Command{
		Use:   "rankmap",
		Short: "Which rank goes on which GPU, with which TP, EP, PP, DP and CP degrees, and how long the collectives take",
		Long: `rankmap reads a machine and a model, searches the ways to split the model, seats every rank on a GPU,
and predicts TTFT, TPOT or the training step with the time of every collective on its real group.

` + exitCodesHelp,
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       version,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return inputErrf("unknown command %q (see rankmap --help)", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetIn(d.Stdin)
	root.SetOut(d.Stdout)
	root.SetErr(d.Stderr)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return inputErr(err) })
	root.SetVersionTemplate("rankmap {{.Version}}\n")
	for _, mk := range commands {
		root.AddCommand(mk(d))
	}
	root.AddCommand(&cobra.Command{Use: "exit-codes", Short: "What each exit code means", Long: exitCodesHelp})
	return root
}

// noArgs refuses positional arguments with exit code 2.
func noArgs(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return inputErr(errors.New("unexpected argument: " + strings.Join(args, " ")))
	}
	return nil
}
