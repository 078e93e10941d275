package main

import (
	"context"
	"flag"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"rankmap/internal/testdata"
)

var update = flag.Bool("update", false, "rewrite golden files")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"rankmap": func() { os.Exit(run(context.Background(), osDeps(), os.Args[1:])) },
	})
}

// TestScripts runs testdata/script: one file a feature. Scripts that name $DATA read the real inputs in place.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"exitcode": exitcode},
		Condition: func(cond string) (bool, error) {
			return cond == "data" && hasData(t), nil
		},
		Setup: func(e *testscript.Env) error {
			root, err := os.Getwd()
			if err != nil {
				return err
			}
			e.Setenv("REPO", root+"/../..")
			e.Setenv("DATA", dataDir(t))
			return nil
		},
	})
}

// exitcode N COMMAND...: runs a command and wants exit code N.
func exitcode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exitcode N command...")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	if err != nil {
		got = exitText(err)
	}
	if got != args[0] {
		ts.Fatalf("exit code %s, want %s", got, args[0])
	}
}

func hasData(t *testing.T) bool { return dataDir(t) != "" }

// dataDir finds the real inputs without skipping the whole test.
func dataDir(t *testing.T) string {
	dir := ""
	t.Run("data", func(t *testing.T) { dir = testdata.Dir(t) })
	return dir
}
