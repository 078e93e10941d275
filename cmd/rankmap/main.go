// Command rankmap plans where the ranks of a large language model go on a GPU cluster, with which TP, EP, PP, DP and CP
// degrees, how long the collectives take, and proves the prediction with real NCCL on exactly those groups.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"rankmap/configs"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, osDeps(), os.Args[1:])
	stop()
	os.Exit(code)
}

// osDeps connects the commands to this process.
func osDeps() *deps {
	return &deps{
		Stdin:    os.Stdin,
		Stdout:   os.Stdout,
		Stderr:   os.Stderr,
		Configs:  configs.FS,
		Open:     openFile,
		Getenv:   os.Getenv,
		Terminal: isTerminal(os.Stdout),

		TalkTerminal: isTerminal(os.Stderr),
		Width:        terminalWidth(os.Stdout),
	}
}
