package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

func exitText(err error) string {
	var x *exec.ExitError
	if errors.As(err, &x) {
		return strconv.Itoa(x.ExitCode())
	}
	return err.Error()
}

func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("boom"), exitBug},
		{inputErrf("bad"), exitInput},
		{fmt.Errorf("file: %w", inputErrf("bad")), exitInput},
		{withCode(exitInfeasible, errors.New("no plan")), exitInfeasible},
		{withHint(withCode(exitEnvironment, errors.New("no driver")), "install it"), exitEnvironment},
		{context.Canceled, exitInterrupted},
		{silent(exitBelow), exitBelow},
	} {
		var b bytes.Buffer
		if got := finish(&deps{Stderr: &b}, c.err); got != c.want {
			t.Errorf("%v: exit %d, want %d", c.err, got, c.want)
		}
	}
}

func TestEveryCodeIsDocumented(t *testing.T) {
	for _, code := range []int{exitOK, exitBug, exitInput, exitInfeasible, exitBelow, exitDeadline, exitEnvironment, exitPartial} {
		if !strings.Contains(exitCodesHelp, fmt.Sprintf("\n  %d  ", code)) {
			t.Errorf("exit code %d is not in the help text", code)
		}
	}
}

func TestTalkHasNoControlCharacters(t *testing.T) {
	var b bytes.Buffer
	finish(&deps{Stderr: &b}, inputErrf("name \x1b[31mred\u009b evil"))
	if strings.ContainsAny(b.String(), "\x1b\u009b") {
		t.Errorf("an escape reached the terminal: %q", b.String())
	}
}
