package main

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each layer's six products are added up, other rows are passed over, and the price is of the measured order.
func TestConfrontsTheMeasuredProducts(t *testing.T) {
	m, err := trainingModel()
	if err != nil {
		t.Fatal(err)
	}
	sum := map[layer]*times{}
	for _, op := range []string{"fwd1", "fwd2", "dgrad1", "dgrad2", "wgrad1", "wgrad2", "permute"} {
		// 8 experts of 4,096 rows each: 2048 x 1536 up, 768 x 2048 down; flops of the gated up-projection.
		if err := confront(m, []string{"m", "2048", "768", "8", "32768", "router", op, "300", "206158430208", "0"}, sum); err != nil {
			t.Fatal(err)
		}
	}
	got := sum[layer{"m", 8, 32768}]
	if len(sum) != 1 || got == nil || math.Abs(got.measured-1800) > 1e-9 {
		t.Fatalf("%+v, want six products of 300 us in one layer", got)
	}
	if got.ours < 900 || got.ours > 2700 {
		t.Errorf("ours %v us for 0.93 TFLOP of bf16 on one H200", got.ours)
	}
}

// A damaged row is named by its line.
func TestADamagedRowIsAnError(t *testing.T) {
	for _, row := range []string{"m,x,1,1,1,router,fwd1,1,1,1", "m,0,1,1,1,router,fwd1,1,1,1", "m,1,1,1,0,router,fwd1,1,1,1"} {
		name := filepath.Join(t.TempDir(), "x.csv")
		if err := os.WriteFile(name, []byte("model,hidden,inter,local,rows,balance,op,us,flops,bytes\n"+row+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := run(name); err == nil || !strings.Contains(err.Error(), name+":2: ") {
			t.Errorf("%s: %v", row, err)
		}
	}
}
