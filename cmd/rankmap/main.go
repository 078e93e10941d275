// Command rankmap plans where the ranks of a large language model go on a GPU cluster, with which TP, EP, PP, DP and CP
// degrees, how long the collectives take, and proves the prediction with real NCCL on exactly those groups.
package main

import (
	"context"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"

	"rankmap/configs"
)

func main() {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	// Writing to a pipe whose reader went away is then an error, and not the end: see isBrokenPipe.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	var terminated atomic.Bool
	go func() {
		terminated.Store(<-signals == syscall.SIGTERM)
		cancel()
	}()
	code := run(ctx, osDeps(), os.Args[1:])
	signal.Stop(signals)
	if code == exitInterrupted && terminated.Load() {
		code = exitTerminated
	}
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
