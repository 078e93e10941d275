package main

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"rankmap/internal/strictyaml"
)

// version is set by the release build: -ldflags "-X main.version=v1.2.3".
var version = "dev"

// run executes one command line and returns the exit code.
func run(ctx context.Context, d *deps, args []string) int {
	out := &watchedWriter{w: d.Stdout}
	q := *d
	q.Stdout = out
	root := newRootCmd(&q)
	root.SetArgs(args)
	return finish(&q, out.verdict(root.ExecuteContext(ctx)))
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
				var names []string
				for _, c := range cmd.Commands() {
					if !c.Hidden {
						names = append(names, c.Name())
					}
				}
				return inputErrf("unknown command %q%s (see rankmap --help)", args[0], suggestion(args[0], names))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetIn(d.Stdin)
	root.SetOut(d.Stdout)
	root.SetErr(d.Stderr)
	root.SetFlagErrorFunc(flagErr)
	root.SetVersionTemplate("rankmap {{.Version}}\n")
	for _, mk := range commands {
		root.AddCommand(mk(d))
	}
	root.AddCommand(&cobra.Command{Use: "exit-codes", Short: "What each exit code means", Long: exitCodesHelp})
	return root
}

// flagErr is an error of the flag parser, with the flag that was probably meant.
func flagErr(cmd *cobra.Command, err error) error {
	var value *pflag.InvalidValueError
	if errors.As(err, &value) {
		f := value.GetFlag()
		if want := flagWants[f.Value.Type()]; want != "" {
			return inputErrf("--%s %q: want %s", f.Name, value.GetValue(), want)
		}
		return inputErr(err)
	}
	word, unknown := strings.CutPrefix(err.Error(), "unknown flag: --")
	if !unknown {
		return inputErr(err)
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	hint := ""
	if s := strictyaml.Suggest(word, names); s != "" {
		hint = ", did you mean --" + s + "?"
	}
	return inputErrf("%w%s (see %s --help)", err, hint, cmd.CommandPath())
}

// flagWants says what a flag takes, by its type.
var flagWants = map[string]string{
	"int": "a whole number", "float64": "a number", "bool": "true or false", "duration": "a time with its unit, such as 500ms or 2s",
}

// noArgs refuses positional arguments with exit code 2.
func noArgs(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return inputErr(errors.New("unexpected argument: " + strings.Join(args, " ")))
	}
	return nil
}
