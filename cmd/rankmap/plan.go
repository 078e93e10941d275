package main

import "github.com/spf13/cobra"

func newPlanCmd(d *deps) *cobra.Command {
	return &cobra.Command{Use: "plan", Short: "Choose degrees and seats, and predict the time"}
}
